// The driver in a GPU VA model, with a process or two. For tests.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "miniports/softgpu/fake_world.h"

namespace softgpu {

inline constexpr UINT kDmaBytes = 64 * 1024;

/// An update of `count` entries of a table.
struct Update {
  DXGK_PAGETABLEUPDATEMODE mode = DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
  void* cpu = nullptr;
  D3DGPU_PHYSICAL_ADDRESS physical = {};
  UINT64 address = 0;
  UINT level = 0;
  UINT start = 0;
  UINT count = 0;  // 0: as many as there are entries
  bool repeat = false;
  bool large = false;  // Use64KBPages
};

inline DXGK_PTE pte(UINT segment, UINT64 page) {
  DXGK_PTE entry = {};
  entry.Valid = 1;
  entry.Segment = segment & 31;
  entry.PageAddress = page;
  return entry;
}
inline D3DGPU_PHYSICAL_ADDRESS place(UINT segment, UINT64 offset) {
  D3DGPU_PHYSICAL_ADDRESS address = {};
  address.SegmentId = segment;
  address.SegmentOffset = offset;
  return address;
}

class GpuVa : public Driver, public ::testing::WithParamInterface<MemoryModel> {
 protected:
  GpuVa() { choose(static_cast<ULONG>(GetParam())); }
  void choose(ULONG model) {
    world.has_memory_model = true;
    world.memory_model = model;
  }
  static bool four() { return GetParam() != MemoryModel::kTwoLevels; }
  static bool large() { return GetParam() == MemoryModel::kLargePages; }

  template <typename Out>
  NTSTATUS query(DXGK_QUERYADAPTERINFOTYPE type, Out* out, UINT bytes = sizeof(Out),
                 void* in = nullptr, UINT in_bytes = 0) {
    DXGKARG_QUERYADAPTERINFO args = {};
    args.Type = type;
    args.pInputData = in;
    args.InputDataSize = in_bytes;
    args.pOutputData = out;
    args.OutputDataSize = bytes;
    return table().DxgkDdiQueryAdapterInfo(world.adapter, &args);
  }

  // --- processes, devices, contexts
  HANDLE create_process(UINT64 handle, bool system = false) {
    DXGKARG_CREATEPROCESS args = {};
    args.Flags.SystemProcess = system ? 1 : 0;
    args.hDxgkProcess = reinterpret_cast<HANDLE>(handle);
    EXPECT_EQ(table().DxgkDdiCreateProcess(world.adapter, &args), STATUS_SUCCESS);
    return args.hKmdProcess;
  }
  HANDLE create_device(HANDLE process) {
    DXGKARG_CREATEDEVICE args = {};
    args.hKmdProcess = process;
    EXPECT_EQ(table().DxgkDdiCreateDevice(world.adapter, &args), STATUS_SUCCESS);
    return args.hDevice;
  }
  NTSTATUS try_context(HANDLE device, bool system, bool virtual_addressing, UINT node,
                       DXGKARG_CREATECONTEXT* args) {
    *args = {};
    args->NodeOrdinal = node;
    args->Flags.SystemContext = system ? 1 : 0;
    args->Flags.VirtualAddressing = virtual_addressing ? 1 : 0;
    return table().DxgkDdiCreateContext(device, args);
  }
  /// A process with a device and a context on `node`.
  struct Client {
    HANDLE process = nullptr, device = nullptr, context = nullptr;
  };
  Client create_client(UINT64 handle, UINT node = 0, bool system = false) {
    Client client;
    client.process = create_process(handle, system);
    client.device = create_device(client.process);
    DXGKARG_CREATECONTEXT args;
    EXPECT_EQ(try_context(client.device, system, true, node, &args), STATUS_SUCCESS);
    client.context = args.hContext;
    return client;
  }
  void destroy(const Client& client) {
    EXPECT_EQ(table().DxgkDdiDestroyContext(client.context), STATUS_SUCCESS);
    EXPECT_EQ(table().DxgkDdiDestroyDevice(client.device), STATUS_SUCCESS);
    EXPECT_EQ(table().DxgkDdiDestroyProcess(world.adapter, client.process), STATUS_SUCCESS);
  }
  void set_root(HANDLE context, D3DGPU_PHYSICAL_ADDRESS address, UINT entries) {
    DXGKARG_SETROOTPAGETABLE args = {};
    args.hContext = context;
    args.Address = address;
    args.NumEntries = entries;
    table().DxgkDdiSetRootPageTable(world.adapter, &args);
  }

  // --- submissions
  DXGKARG_SUBMITCOMMANDVIRTUAL virtual_submission(HANDLE context, UINT fence, UINT64 address,
                                                  UINT bytes) {
    DXGKARG_SUBMITCOMMANDVIRTUAL args = {};
    args.hContext = context;
    args.SubmissionFenceId = fence;
    args.DmaBufferVirtualAddress = address;
    args.DmaBufferSize = bytes;
    return args;
  }
  NTSTATUS submit_virtual(const DXGKARG_SUBMITCOMMANDVIRTUAL& args) {
    return table().DxgkDdiSubmitCommandVirtual(world.adapter, &args);
  }

  // --- paging
  struct Built {
    NTSTATUS status = STATUS_SUCCESS;
    std::vector<UCHAR> bytes;
    UINT multipass = 0;
  };
  /// One call with a buffer of `bytes` bytes; 0: with none.
  Built build_once(DXGKARG_BUILDPAGINGBUFFER args, UINT bytes = kDmaBytes) {
    std::vector<UCHAR> buffer(bytes + 16, 0xEE);
    std::vector<SubmissionRecord> records(4);
    args.pDmaBuffer = bytes == 0 ? nullptr : buffer.data();
    args.DmaSize = bytes;
    args.pDmaBufferPrivateData = bytes == 0 ? nullptr : records.data();
    args.DmaBufferPrivateDataSize =
        bytes == 0 ? 0 : static_cast<UINT>(records.size() * sizeof(SubmissionRecord));
    Built built;
    built.status = table().DxgkDdiBuildPagingBuffer(world.adapter, &args);
    built.multipass = args.MultipassOffset;
    if (bytes == 0) {
      EXPECT_EQ(args.pDmaBuffer, nullptr);
      EXPECT_EQ(args.pDmaBufferPrivateData, nullptr);
      return built;
    }
    const auto used = static_cast<size_t>(static_cast<UCHAR*>(args.pDmaBuffer) - buffer.data());
    EXPECT_LE(used, bytes);
    for (size_t i = used == 0 ? 0 : bytes; i < buffer.size(); ++i) EXPECT_EQ(buffer[i], 0xEE) << i;
    built.bytes.assign(buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(used));
    return built;
  }
  /// As many passes as buffers of `bytes` bytes take: all commands, one after the other.
  std::vector<UCHAR> build(DXGKARG_BUILDPAGINGBUFFER args, UINT bytes = kDmaBytes) {
    std::vector<UCHAR> all;
    for (int pass = 0; pass < 100000; ++pass) {
      const Built built = build_once(args, bytes);
      all.insert(all.end(), built.bytes.begin(), built.bytes.end());
      if (built.status == STATUS_SUCCESS) return all;
      EXPECT_EQ(built.status, STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
      if (built.bytes.empty()) break;
      args.MultipassOffset = built.multipass;
    }
    ADD_FAILURE() << "no end";
    return all;
  }
  static DXGKARG_BUILDPAGINGBUFFER update(const Update& what, std::vector<DXGK_PTE>* entries) {
    DXGKARG_BUILDPAGINGBUFFER args = {};
    args.Operation = DXGK_OPERATION_UPDATE_PAGE_TABLE;
    auto& u = args.UpdatePageTable;
    u.PageTableLevel = what.level;
    if (what.mode == DXGK_PAGETABLEUPDATE_CPU_VIRTUAL) u.PageTableAddress.CpuVirtual = what.cpu;
    if (what.mode == DXGK_PAGETABLEUPDATE_GPU_PHYSICAL)
      u.PageTableAddress.GpuPhysical = what.physical;
    if (what.mode == DXGK_PAGETABLEUPDATE_GPU_VIRTUAL) u.PageTableAddress.GpuVirtual = what.address;
    u.pPageTableEntries = entries->data();
    u.StartIndex = what.start;
    u.NumPageTableEntries = what.count != 0 ? what.count : static_cast<UINT>(entries->size());
    u.Flags.Repeat = what.repeat ? 1 : 0;
    u.Flags.Use64KBPages = what.large ? 1 : 0;
    u.UpdateMode = what.mode;
    return args;
  }
  static DXGKARG_BUILDPAGINGBUFFER flush(D3DGPU_PHYSICAL_ADDRESS root, UINT64 start, UINT64 end) {
    DXGKARG_BUILDPAGINGBUFFER args = {};
    args.Operation = DXGK_OPERATION_FLUSH_TLB;
    args.FlushTlb.RootPageTableAddress = root;
    args.FlushTlb.StartVirtualAddress = start;
    args.FlushTlb.EndVirtualAddress = end;
    return args;
  }
};

/// The command at `offset`, which must be a `Command` with `opcode`.
template <typename Command>
Command command_at(const std::vector<UCHAR>& bytes, size_t offset, UINT opcode) {
  Command command = {};
  if (bytes.size() < offset + sizeof(command)) {
    ADD_FAILURE() << "no command at " << offset;
    return command;
  }
  std::memcpy(&command, bytes.data() + offset, sizeof(command));
  EXPECT_EQ(command.header.opcode, opcode);
  return command;
}

inline std::string model_name(const ::testing::TestParamInfo<MemoryModel>& info) {
  if (info.param == MemoryModel::kTwoLevels) return "two_levels";
  return info.param == MemoryModel::kFourLevels ? "four_levels" : "large_pages";
}
#define SOFTGPU_ALL_MODELS(suite)                                                               \
  INSTANTIATE_TEST_SUITE_P(Models, suite,                                                       \
                           ::testing::Values(MemoryModel::kTwoLevels, MemoryModel::kFourLevels, \
                                             MemoryModel::kLargePages),                         \
                           model_name)

}  // namespace softgpu
