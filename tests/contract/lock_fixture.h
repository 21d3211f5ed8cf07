// What tests of CPU access share: the old Lock, and a driver with swizzling ranges.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/contract/memory_fixture.h"

namespace dxgkit::contract {

inline constexpr UINT kReadOnly = 1U << 0, kWriteOnly = 1U << 1, kDonotWait = 1U << 2,
                      kIgnoreSync = 1U << 3, kLockEntire = 1U << 4, kDonotEvict = 1U << 5,
                      kAcquireAperture = 1U << 6, kDiscard = 1U << 7, kUseAlternateVa = 1U << 9,
                      kIgnoreReadSync = 1U << 10;
inline constexpr NTSTATUS kBusy = nt_status(Status::kGraphicsAllocationBusy);
inline constexpr NTSTATUS kCantEvict = nt_status(Status::kGraphicsCantEvictPinnedAllocation);
inline constexpr uint32_t kCpuVisible = 1, kCached = 4, kSwizzled = 1U << 7;

inline ScriptedAllocation described(uint32_t segments, uint32_t flags = kCpuVisible) {
  ScriptedAllocation description;
  description.size = 16 * kKibibyte;
  description.supported_read = description.supported_write = segments;
  description.flags = flags;
  return description;
}

/// D3DKMTLock without help: it may block.
inline NTSTATUS lock_now(Client& client, D3DKMT_LOCK& args) {
  args.hDevice = client.device;
  return client.call([&] { return D3DKMTLock(&args); });
}
/// With the GPU at work.
inline NTSTATUS lock(Client& client, D3DKMT_LOCK& args) {
  NTSTATUS status = 0;
  client.stack.blocking([&] { status = lock_now(client, args); });
  return status;
}
inline D3DKMT_LOCK lock_args(D3DKMT_HANDLE allocation, UINT flags = 0) {
  D3DKMT_LOCK args{};
  args.hAllocation = allocation;
  args.Flags.Value = flags;
  return args;
}
inline NTSTATUS unlock(Client& client, std::vector<D3DKMT_HANDLE> allocations) {
  D3DKMT_UNLOCK args{};
  args.hDevice = client.device;
  args.NumAllocations = static_cast<UINT>(allocations.size());
  args.phAllocations = allocations.data();
  return client.call([&] { return D3DKMTUnlock(&args); });
}

/// Renders with `handle` and leaves the packet on hardware.
inline void use(Stack& stack, Client& client, ContextBuffers& context, D3DKMT_HANDLE handle) {
  ASSERT_EQ(client.render(context, work_on({handle})), 0);
  stack.settle();
}

/// A driver with an unswizzling aperture in the second half of its BAR: a mebibyte for each range.
struct Swizzler {
  static inline Swizzler* current = nullptr;
  explicit Swizzler(Stack& stack_in) : stack(stack_in) { current = this; }
  ~Swizzler() { current = nullptr; }
  static void prepare(ScriptedMiniport& miniport) { with_ranges(miniport, 2); }
  static void with_ranges(ScriptedMiniport& miniport, UINT count) {
    miniport.config.caps = [count](DXGK_DRIVERCAPS& caps) { caps.NumberOfSwizzlingRanges = count; };
    miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) { lend_entries(table); };
  }
  static void lend_entries(DRIVER_INITIALIZATION_DATA& table) {
    table.DxgkDdiAcquireSwizzlingRange = acquire;
    table.DxgkDdiReleaseSwizzlingRange = release;
  }
  static NTSTATUS NTAPI acquire(const HANDLE, DXGKARG_ACQUIRESWIZZLINGRANGE* args) {
    if (current == nullptr) return STATUS_GRAPHICS_UNSWIZZLING_APERTURE_UNSUPPORTED;
    current->acquired.push_back(*args);
    if (current->on_acquire) current->on_acquire();
    if (current->answer != 0) return current->answer;
    if (current->size != 0) args->RangeSize = current->size;
    if (current->keeps_address) return STATUS_SUCCESS;
    args->CPUTranslatedAddress.QuadPart =
        static_cast<LONGLONG>(current->window() + args->RangeId * kMebibyte);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI release(const HANDLE, const DXGKARG_RELEASESWIZZLINGRANGE* args) {
    if (current == nullptr) return STATUS_SUCCESS;
    current->released.push_back(*args);
    if (current->on_release) current->on_release();
    return STATUS_SUCCESS;
  }
  uint64_t bar() const { return stack.miniport.function().bars()[1].base.value; }
  uint64_t window() const { return bar() + 32 * kMebibyte; }
  /// The text behind an address of the bus.
  std::string text_at(uint64_t address) const {
    const uint64_t page = address / kPageBytes * kPageBytes;
    void* const io = stack.machine.map_io(bus::PhysicalAddress{page}, kPageBytes);
    if (io == nullptr) return "no memory there";
    const std::string text(static_cast<const char*>(io) + (address - page));
    EXPECT_TRUE(stack.machine.unmap_io(io, kPageBytes));
    return text;
  }
  Stack& stack;
  NTSTATUS answer = 0;
  SIZE_T size = 0;
  bool keeps_address = false;  // it answers the address it was given
  std::function<void()> on_acquire, on_release;
  std::vector<DXGKARG_ACQUIRESWIZZLINGRANGE> acquired;
  std::vector<DXGKARG_RELEASESWIZZLINGRANGE> released;
};

/// A driver of the second model with a CPU host aperture; what it was told: segment, then pages.
struct HostAperture {
  static inline std::vector<std::vector<uint64_t>> mapped, unmapped;
  static void prepare(ScriptedMiniport& miniport) {
    miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
    miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) { lend_entries(table); };
    of_segment(miniport, 0, 0);
  }
  static void lend_entries(DRIVER_INITIALIZATION_DATA& table) {
    table.DxgkDdiMapCpuHostAperture = map;
    table.DxgkDdiUnmapCpuHostAperture = unmap;
  }
  /// The segment's aperture, of six pages, begins at an offset of the BAR.
  static void of_segment(ScriptedMiniport& miniport, size_t index, uint64_t bar_offset) {
    mapped.clear();
    unmapped.clear();
    answer = STATUS_SUCCESS;
    miniport.config.segments[index].flags.CpuVisible = 0;
    miniport.config.segments[index].flags.SupportsCpuHostAperture = 1;
    miniport.hooks.query_adapter_info = [&miniport, index, bar_offset,
                                         asked = miniport.hooks.query_adapter_info](
                                            const DXGKARG_QUERYADAPTERINFO* args) {
      const NTSTATUS status = asked ? asked(args) : miniport.default_query_adapter_info(args);
      if (args->Type != DXGKQAITYPE_QUERYSEGMENT4) return status;
      auto* out = static_cast<DXGK_QUERYSEGMENTOUT4*>(args->pOutputData);
      if (out->pSegmentDescriptor == nullptr) return status;
      auto* one = reinterpret_cast<DXGK_SEGMENTDESCRIPTOR4*>(out->pSegmentDescriptor +
                                                             index * out->SegmentDescriptorStride);
      one->CpuHostAperture.PhysicalAddress = miniport.function().bars()[1].base.value + bar_offset;
      one->CpuHostAperture.SizeInPages = 6;
      return status;
    };
  }
  static inline NTSTATUS answer = STATUS_SUCCESS;  // to be told to map
  static NTSTATUS NTAPI map(const HANDLE, const DXGKARG_MAPCPUHOSTAPERTURE* args) {
    std::vector<uint64_t> record{args->SegmentId};
    for (UINT64 i = 0; i < args->NumberOfPages; ++i) {
      record.push_back(args->pCpuHostAperturePages[i]);
      record.push_back(args->pMemorySegmentPages[i]);
    }
    mapped.push_back(record);
    return answer;
  }
  static NTSTATUS NTAPI unmap(const HANDLE, const DXGKARG_UNMAPCPUHOSTAPERTURE* args) {
    std::vector<uint64_t> record{args->SegmentId};
    for (UINT64 i = 0; i < args->NumberOfPages; ++i)
      record.push_back(args->pCpuHostAperturePages[i]);
    unmapped.push_back(record);
    return STATUS_SUCCESS;
  }
};

}  // namespace dxgkit::contract
