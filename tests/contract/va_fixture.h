// A client with GPU virtual addresses.
#pragma once

#include <vector>

#include "tests/contract/gpu_va_fixture.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {

inline constexpr uint64_t kPage = 4096;
inline constexpr NTSTATUS kPendingStatus = 0x103;

inline D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE protection(uint64_t value) {
  D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE out{};
  out.Value = value;
  return out;
}
inline constexpr uint64_t kWrite = 1, kExecute = 2, kZero = 4, kNoAccess = 8, kSystemUseOnly = 16;

using UpdateOperation = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION;
inline UpdateOperation map_op(D3DKMT_HANDLE allocation, uint64_t base, uint64_t size,
                              uint64_t offset = 0, uint64_t repeat = 0) {
  UpdateOperation operation{};
  operation.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP;
  operation.Map.BaseAddress = base;
  operation.Map.SizeInBytes = size;
  operation.Map.hAllocation = allocation;
  operation.Map.AllocationOffsetInBytes = offset;
  operation.Map.AllocationSizeInBytes = repeat;
  return operation;
}
inline UpdateOperation unmap_op(uint64_t base, uint64_t size, uint64_t how = kNoAccess) {
  UpdateOperation operation{};
  operation.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP;
  operation.Unmap.BaseAddress = base;
  operation.Unmap.SizeInBytes = size;
  operation.Unmap.Protection = protection(how);
  return operation;
}
inline UpdateOperation copy_op(uint64_t from, uint64_t to, uint64_t size) {
  UpdateOperation operation{};
  operation.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY;
  operation.Copy.SourceAddress = from;
  operation.Copy.DestAddress = to;
  operation.Copy.SizeInBytes = size;
  return operation;
}

/// A client, its paging queue, and calls that answer as the thunks do.
struct VaClient : ListingClient {
  explicit VaClient(GpuVaStack& stack_in, const char* name = "client")
      : ListingClient(stack_in, name),
        va_stack(stack_in),
        context(make_context_virtual()),
        process_of_driver(stack_in.gpu.last_process()) {}
  GpuVaStack& va_stack;
  D3DKMT_HANDLE context;  // so that the process has a root
  void* process_of_driver;

  /// What a Map asks for; the whole structure comes back through `args`.
  D3DDDI_MAPGPUVIRTUALADDRESS map_args(D3DKMT_HANDLE allocation, uint64_t pages,
                                       uint64_t base = 0) const {
    D3DDDI_MAPGPUVIRTUALADDRESS args{};
    args.hPagingQueue = queue.handle;
    args.BaseAddress = base;
    args.hAllocation = allocation;
    args.SizeInPages = pages;
    args.Protection = protection(allocation == 0 ? kNoAccess : kWrite);
    return args;
  }
  NTSTATUS map(D3DDDI_MAPGPUVIRTUALADDRESS& args) {
    return call([&] { return D3DKMTMapGpuVirtualAddress(&args); });
  }
  /// Maps and waits until it is in force.
  uint64_t make_mapping(D3DDDI_MAPGPUVIRTUALADDRESS args) {
    const NTSTATUS status = map(args);
    EXPECT_TRUE(status == 0 || status == kPendingStatus) << std::hex << status;
    EXPECT_EQ(status == kPendingStatus, args.PagingFenceValue != 0);
    stack.drive();
    EXPECT_GE(queue.value(), args.PagingFenceValue);
    return args.VirtualAddress;
  }
  uint64_t make_mapping(D3DKMT_HANDLE allocation, uint64_t pages, uint64_t base = 0) {
    return make_mapping(map_args(allocation, pages, base));
  }
  NTSTATUS reserve(D3DDDI_RESERVEGPUVIRTUALADDRESS& args) {
    return call([&] { return D3DKMTReserveGpuVirtualAddress(&args); });
  }
  uint64_t make_reservation(
      uint64_t bytes, uint64_t base = 0,
      D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE type = D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS) {
    D3DDDI_RESERVEGPUVIRTUALADDRESS args{};
    args.hPagingQueue = queue.handle;
    args.BaseAddress = base;
    args.Size = bytes;
    args.ReservationType = type;
    const NTSTATUS status = reserve(args);
    EXPECT_TRUE(status == 0 || status == kPendingStatus) << std::hex << status;
    stack.drive();
    return args.VirtualAddress;
  }
  NTSTATUS free_va(uint64_t base, uint64_t bytes, D3DKMT_HANDLE on = 0) {
    D3DKMT_FREEGPUVIRTUALADDRESS args{};
    args.hAdapter = on == 0 ? adapter : on;
    args.BaseAddress = base;
    args.Size = bytes;
    NTSTATUS status = 0;
    stack.blocking([&] { status = call([&] { return D3DKMTFreeGpuVirtualAddress(&args); }); });
    return status;
  }
  NTSTATUS create_context_virtual(D3DKMT_HANDLE* out, UINT node = 0) {
    D3DKMT_CREATECONTEXTVIRTUAL args{};
    args.hDevice = device;
    args.NodeOrdinal = node;
    NTSTATUS status = 0;
    stack.blocking([&] { status = call([&] { return D3DKMTCreateContextVirtual(&args); }); });
    *out = args.hContext;
    return status;
  }
  D3DKMT_HANDLE make_context_virtual(UINT node = 0) {
    D3DKMT_HANDLE out = 0;
    EXPECT_EQ(create_context_virtual(&out, node), 0);
    return out;
  }
  NTSTATUS submit(D3DKMT_HANDLE on, uint64_t commands, uint32_t bytes,
                  std::vector<std::byte> private_data = {}) {
    D3DKMT_SUBMITCOMMAND args{};
    args.Commands = commands;
    args.CommandLength = bytes;
    args.BroadcastContextCount = 1;
    args.BroadcastContext[0] = on;
    args.pPrivateDriverData = private_data.data();
    args.PrivateDriverDataSize = static_cast<UINT>(private_data.size());
    return call([&] { return D3DKMTSubmitCommand(&args); });
  }
  NTSTATUS update(D3DKMT_HANDLE on, D3DKMT_HANDLE fence, uint64_t value,
                  std::vector<D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION> operations,
                  bool do_not_wait = false) {
    D3DKMT_UPDATEGPUVIRTUALADDRESS args{};
    args.hDevice = device;
    args.hContext = on;
    args.hFenceObject = fence;
    args.NumOperations = static_cast<UINT>(operations.size());
    args.Operations = operations.data();
    args.FenceValue = value;
    args.Flags.DoNotWait = do_not_wait ? 1 : 0;
    return call([&] { return D3DKMTUpdateGpuVirtualAddress(&args); });
  }
  void* process_handle() const { return process_of_driver; }
  dxgkit::testing::GpuWalk walk(uint64_t va) const {
    return va_stack.gpu.walk(process_handle(), va);
  }
};

}  // namespace dxgkit::contract
