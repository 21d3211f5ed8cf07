// Pages by MDL, probes, physical memory, port space, and paging calls in a system that pages
// nothing out.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"
#include "nt/executive.h"
#include "nt/paged.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

constexpr uint32_t kMdlTag = 0x646D6D4D;  // "Mmmd"
constexpr uint32_t kFullyRequired = 0x4, kContiguous = 0x20 | 0x80;

/// The pages of MmAllocatePagesForMdl; the MDL itself is the driver's to free, from pool.
Mdl* allocate_pages(const char* function, uint64_t low, uint64_t high, uint64_t bytes,
                    uint32_t flags) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  require_irql(frame, function, kApcLevel);
  const uint64_t count = bytes / kPageBytes + (bytes % kPageBytes != 0 ? 1 : 0);
  if (count == 0 || count > UINT32_MAX / kPageBytes) return nullptr;
  if (kernel.impl().allocation_fails(function)) return nullptr;
  std::vector<bus::PageFrame> pages;
  if ((flags & kContiguous) != 0) {
    const auto first = kernel.machine().allocate_contiguous(count, kPageBytes, high);
    if (!first.has_value()) {
      CallLog::note("the machine has no such piece of memory left; --memory gives it more");
      return nullptr;
    }
    for (uint64_t i = 0; i < count; ++i) pages.emplace_back(first->value + i);
  } else if (high < bus::Machine::kSystemMemoryBase) {
    // Only the low window can have them, and it is asked page by page.
    while (pages.size() < count) {
      const auto page = kernel.machine().allocate_contiguous(1, kPageBytes, high);
      if (!page.has_value()) break;
      pages.push_back(*page);
    }
    if ((flags & kFullyRequired) != 0 && pages.size() < count) {
      CallLog::note("the machine has too little memory below that address");
      kernel.machine().free_pages(pages);
      return nullptr;
    }
  } else {
    // As many pages as there are: the caller checks the size, unless it asked for all or nothing.
    const uint64_t wanted =
        (flags & kFullyRequired) != 0 ? count : std::min(count, kernel.machine().free_page_count());
    if (wanted == 0) return nullptr;
    auto found = kernel.machine().allocate_pages(wanted);
    if (!found.has_value()) {
      CallLog::note("the machine has too little free memory; --memory gives it more");
      return nullptr;
    }
    pages = std::move(*found);
  }
  const auto outside = [&](bus::PageFrame page) {
    return page.value * kPageBytes < low || page.value * kPageBytes + kPageBytes - 1 > high;
  };
  std::vector<bus::PageFrame> rejected;
  std::ranges::copy_if(pages, std::back_inserter(rejected), outside);
  if (!rejected.empty()) {
    std::erase_if(pages, outside);
    kernel.machine().free_pages(rejected);
  }
  const bool too_few = (flags & (kFullyRequired | kContiguous)) != 0 && !rejected.empty();
  const uint64_t mdl_bytes = sizeof(Mdl) + pages.size() * sizeof(uint64_t);
  Mdl* mdl = nullptr;
  if (!too_few && !pages.empty()) {
    mdl = static_cast<Mdl*>(export_function<void * DXGKIT_NT_ABI(uint32_t, uint64_t, uint32_t)>(
        "ExAllocatePoolWithTag")(512, mdl_bytes, kMdlTag));
  }
  if (mdl == nullptr) {
    kernel.machine().free_pages(pages);
    return nullptr;
  }
  std::memset(static_cast<void*>(mdl), 0, sizeof(Mdl));
  mdl->size = static_cast<int16_t>(std::min<uint64_t>(mdl_bytes, INT16_MAX));
  mdl->flags = kMdlPagesLocked;
  mdl->byte_count = static_cast<uint32_t>(pages.size() * kPageBytes);
  for (size_t i = 0; i < pages.size(); ++i) mdl->pages()[i] = pages[i].value;
  Executive& state = executive_of(kernel);
  runtime::MutexLock lock(state.lock);
  state.page_mdls.insert_or_assign(mdl, std::move(pages));
  return mdl;
}

DXGKIT_NT_ABI Mdl* mm_allocate_pages_for_mdl(int64_t low, int64_t high, int64_t, uint64_t bytes) {
  return allocate_pages("MmAllocatePagesForMdl", static_cast<uint64_t>(low),
                        static_cast<uint64_t>(high), bytes, 0);
}
DXGKIT_NT_ABI Mdl* mm_allocate_pages_for_mdl_ex(int64_t low, int64_t high, int64_t, uint64_t bytes,
                                                uint32_t, uint32_t flags) {
  return allocate_pages("MmAllocatePagesForMdlEx", static_cast<uint64_t>(low),
                        static_cast<uint64_t>(high), bytes, flags);
}
DXGKIT_NT_ABI void mm_free_pages_from_mdl(Mdl* mdl) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "MmFreePagesFromMdl", kApcLevel);
  Executive& state = executive_of(frame.kernel());
  std::vector<bus::PageFrame> pages;
  bool known = false;
  {
    runtime::MutexLock lock(state.lock);
    if (const auto found = state.page_mdls.find(mdl); found != state.page_mdls.end()) {
      pages = std::move(found->second);
      state.page_mdls.erase(found);
      known = true;
    }
  }
  if (!known) {
    frame.kernel().bug_check(
        "NT-08", "MmFreePagesFromMdl", 0x4E, static_cast<uint32_t>(reinterpret_cast<uint64_t>(mdl)),
        fmt::format("{} describes no pages of MmAllocatePagesForMdl.", static_cast<void*>(mdl)),
        "Pages are freed once, with the MDL they came with.", "Look for a second free.");
  }
  frame.kernel().machine().free_pages(pages);
  mdl->flags = static_cast<int16_t>(mdl->flags & ~kMdlPagesLocked);
}

/// A part of the pages of a locked MDL.
DXGKIT_NT_ABI void io_build_partial_mdl(Mdl* source, Mdl* target, void* address, uint32_t length) {
  const Mdl& from = required("IoBuildPartialMdl", "SourceMdl", source);
  Mdl& to = required("IoBuildPartialMdl", "TargetMdl", target);
  const uint64_t base = reinterpret_cast<uint64_t>(from.start_va) + from.byte_offset;
  const uint64_t start = reinterpret_cast<uint64_t>(address);
  const uint64_t offset = start - base;
  if (start < base || offset > from.byte_count ||
      (length != 0 && length > from.byte_count - offset)) {
    CallFrame::current().kernel().bug_check(
        "NT-01", "IoBuildPartialMdl", 0x12C, 0,
        fmt::format("{:#x} and {} bytes do not lie in the source's {} bytes at {:#x}.", start,
                    length, from.byte_count, base),
        "The part lies inside what the source MDL describes.", "Check the address and length.");
  }
  if (length == 0) length = static_cast<uint32_t>(from.byte_count - offset);
  const uint64_t page = (start & ~(kPageBytes - 1)) - reinterpret_cast<uint64_t>(from.start_va);
  to.start_va = reinterpret_cast<void*>(start & ~(kPageBytes - 1));
  to.byte_offset = static_cast<uint32_t>(start & (kPageBytes - 1));
  to.byte_count = length;
  to.process = from.process;
  constexpr int16_t kPartial = 0x10;
  to.flags = static_cast<int16_t>((to.flags & kMdlAllocatedFixedSize) | kPartial | kMdlPagesLocked);
  to.mapped_system_va = nullptr;
  if ((from.flags & (kMdlMappedToSystemVa | kMdlSourceIsNonPagedPool)) != 0) {
    to.mapped_system_va = static_cast<std::byte*>(from.mapped_system_va) + offset;
    to.flags = static_cast<int16_t>(to.flags | kMdlMappedToSystemVa);
  }
  const uint64_t count = (to.byte_offset + uint64_t{length} + kPageBytes - 1) / kPageBytes;
  std::memcpy(to.pages(), from.pages() + page / kPageBytes, count * sizeof(uint64_t));
}

// --- physical memory

struct MemoryRange {  // PHYSICAL_MEMORY_RANGE
  int64_t base, bytes;
};
DXGKIT_NT_ABI MemoryRange* mm_get_physical_memory_ranges() {
  require_irql(CallFrame::current(), "MmGetPhysicalMemoryRanges", kPassiveLevel);
  auto* ranges =
      static_cast<MemoryRange*>(export_function<void * DXGKIT_NT_ABI(uint32_t, uint64_t, uint32_t)>(
          "ExAllocatePoolWithTag")(512, 4 * sizeof(MemoryRange), kMdlTag));
  if (ranges == nullptr) return nullptr;
  const bus::Machine& machine = CallFrame::current().kernel().machine();
  MemoryRange* range = ranges;
  *range++ = {static_cast<int64_t>(bus::Machine::kPoolMemoryBase),
              static_cast<int64_t>(bus::Machine::kPoolMemoryBytes)};
  if (machine.low_memory_bytes() != 0)
    *range++ = {static_cast<int64_t>(bus::Machine::kLowMemoryBase),
                static_cast<int64_t>(machine.low_memory_bytes())};
  const uint64_t last = machine.highest_system_address().value;
  *range++ = {static_cast<int64_t>(bus::Machine::kSystemMemoryBase),
              static_cast<int64_t>(last + 1 - bus::Machine::kSystemMemoryBase)};
  *range = {0, 0};
  return ranges;
}
bool is_mapped(uint64_t address, uint64_t bytes) {
  const uint64_t first = address & ~(kPageBytes - 1);
  unsigned char vector = 0;
  for (uint64_t at = first; at < address + bytes; at += kPageBytes) {
    if (mincore(reinterpret_cast<void*>(at), kPageBytes, &vector) != 0) return false;
  }
  return true;
}
DXGKIT_NT_ABI int32_t mm_copy_memory(void* target, uint64_t source, uint64_t bytes, uint32_t flags,
                                     uint64_t* copied) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "MmCopyMemory", kApcLevel);
  required("MmCopyMemory", "NumberOfBytesTransferred", copied) = 0;
  constexpr uint32_t kPhysical = 1, kVirtual = 2;
  if (flags != kPhysical && flags != kVirtual) return kInvalidParameter;
  const void* from = reinterpret_cast<const void*>(source);
  if (flags == kPhysical) {
    from = frame.kernel().machine().system_pointer(bus::PhysicalAddress(source), bytes);
    if (from == nullptr) return kInvalidParameter;
  } else if (source + bytes < source || !is_mapped(source, bytes)) {
    return kAccessViolation;
  }
  copy_driver(target, from, bytes);
  *copied = bytes;
  return kSuccess;
}
DXGKIT_NT_ABI void* mm_get_virtual_for_physical(int64_t physical) {
  Kernel& kernel = CallFrame::current().kernel();
  const auto address = static_cast<uint64_t>(physical);
  if (void* const in_pool = kernel.impl().pool_pages.address_of(address); in_pool != nullptr)
    return in_pool;
  return kernel.machine().system_pointer(bus::PhysicalAddress(address), 1);
}
DXGKIT_NT_ABI void* mm_allocate_non_cached(uint64_t bytes) {
  return export_function<void * DXGKIT_NT_ABI(uint64_t, int64_t)>("MmAllocateContiguousMemory")(
      bytes, -1);
}
DXGKIT_NT_ABI void mm_free_non_cached(void* memory, uint64_t) {
  export_function<void DXGKIT_NT_ABI(void*)>("MmFreeContiguousMemory")(memory);
}
DXGKIT_NT_ABI void* mm_allocate_contiguous_node(uint64_t bytes, int64_t low, int64_t high,
                                                int64_t boundary, uint32_t, uint32_t) {
  return export_function<void * DXGKIT_NT_ABI(uint64_t, int64_t, int64_t, int64_t, uint32_t)>(
      "MmAllocateContiguousMemorySpecifyCache")(bytes, low, high, boundary, 1);
}

// --- pageable memory; I/O ports

/// All pageable sections of the driver at once.
void hold_sections(bool held) {
  PagedMemory* const paged = paged_memory(CallFrame::current().kernel());
  if (paged != nullptr) paged->hold_sections(held);
}
DXGKIT_NT_ABI void* lock_section(void* address) {
  hold_sections(true);
  return address;
}
DXGKIT_NT_ABI void lock_section_by_handle(void*) { hold_sections(true); }
DXGKIT_NT_ABI void unlock_section(void*) { hold_sections(false); }
DXGKIT_NT_ABI void* page_driver(void* address) { return address; }
DXGKIT_NT_ABI void nothing(void*) {}
DXGKIT_NT_ABI void flush_io_buffers(Mdl*, uint8_t, uint8_t) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
template <typename T>
DXGKIT_NT_ABI T read_port(const void* port) {
  bus::Machine& machine = CallFrame::current().kernel().machine();
  return static_cast<T>(machine.read_port(reinterpret_cast<uint64_t>(port), sizeof(T)));
}
template <typename T>
DXGKIT_NT_ABI void write_port(const void* port, T value) {
  bus::Machine& machine = CallFrame::current().kernel().machine();
  machine.write_port(reinterpret_cast<uint64_t>(port), sizeof(T), value);
}
/// All of the data goes through one port, a value at a time.
template <typename T>
DXGKIT_NT_ABI void read_port_buffer(const void* port, T* out, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) out[i] = read_port<T>(port);
}
template <typename T>
DXGKIT_NT_ABI void write_port_buffer(const void* port, const T* in, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) write_port<T>(port, in[i]);
}
template <typename T>
DXGKIT_NT_ABI void read_buffer(const volatile T* address, T* out, uint32_t count) {
  bus::Machine& machine = CallFrame::current().kernel().machine();
  for (uint32_t i = 0; i < count; ++i)
    out[i] = static_cast<T>(machine.read_register(address + i, sizeof(T)));
}
template <typename T>
DXGKIT_NT_ABI void write_buffer(volatile T* address, const T* in, uint32_t count) {
  bus::Machine& machine = CallFrame::current().kernel().machine();
  for (uint32_t i = 0; i < count; ++i) machine.write_register(address + i, sizeof(T), in[i]);
}
DXGKIT_NT_ABI uint32_t zero() { return 0; }
DXGKIT_NT_ABI uint32_t large_system() { return 2; }

const uint64_t kHighestUser = 0x7FFF'FFFE'FFFF;
const uint64_t kSystemStart = 0xFFFF'8000'0000'0000;

}  // namespace

std::span<const Export> page_exports() {
  static const Export kTable[] = {
      {"MmHighestUserAddress", &kHighestUser, Support::kSupported, "", 8},
      {"MmSystemRangeStart", &kSystemStart, Support::kPartial,
       "system memory of this process lies below it", 8},
      DXGKIT_EXPORT("IoBuildPartialMdl", io_build_partial_mdl, kSupported, ""),
      DXGKIT_EXPORT("KeFlushIoBuffers", flush_io_buffers, kSupported, ""),
      DXGKIT_EXPORT("MmAllocateContiguousMemorySpecifyCacheNode", mm_allocate_contiguous_node,
                    kPartial, "one node; the cache type is ignored"),
      DXGKIT_EXPORT("MmAllocateContiguousNodeMemory", mm_allocate_contiguous_node, kPartial,
                    "one node; the protection is ignored"),
      DXGKIT_EXPORT("MmAllocateMappingAddress", refuse_pointer, kRefused, "no reserved mappings"),
      DXGKIT_EXPORT("MmAllocateNonCachedMemory", mm_allocate_non_cached, kPartial,
                    "memory is cached and coherent"),
      DXGKIT_EXPORT("MmAllocatePagesForMdl", mm_allocate_pages_for_mdl, kPartial,
                    "SkipBytes is ignored"),
      DXGKIT_EXPORT("MmAllocatePagesForMdlEx", mm_allocate_pages_for_mdl_ex, kPartial,
                    "SkipBytes and the cache type are ignored"),
      DXGKIT_EXPORT("MmCopyMemory", mm_copy_memory, kSupported, ""),
      DXGKIT_EXPORT("MmFreeNonCachedMemory", mm_free_non_cached, kSupported, ""),
      DXGKIT_EXPORT("MmFreePagesFromMdl", mm_free_pages_from_mdl, kSupported, ""),
      DXGKIT_EXPORT("MmGetPhysicalMemoryRanges", mm_get_physical_memory_ranges, kSupported, ""),
      DXGKIT_EXPORT("MmGetVirtualForPhysical", mm_get_virtual_for_physical, kPartial,
                    "system memory only"),
      DXGKIT_EXPORT("MmIsThisAnNtAsSystem", zero, kSupported, ""),
      DXGKIT_EXPORT("MmLockPagableDataSection", lock_section, kPartial,
                    "holds all pageable sections"),
      DXGKIT_EXPORT("MmLockPagableSectionByHandle", lock_section_by_handle, kPartial,
                    "holds all pageable sections"),
      DXGKIT_EXPORT("MmMapLockedPagesWithReservedMapping", refuse_pointer, kRefused,
                    "no reserved mappings"),
      DXGKIT_EXPORT("MmMapViewInSystemSpace", refuse_status, kRefused, "no sections"),
      DXGKIT_EXPORT("MmPageEntireDriver", page_driver, kPartial, "sections named PAGE only"),
      DXGKIT_EXPORT("MmProtectMdlSystemAddress", refuse_status, kRefused,
                    "mappings keep their protection"),
      DXGKIT_EXPORT("MmQuerySystemSize", large_system, kPartial, "always large"),
      DXGKIT_EXPORT("MmResetDriverPaging", nothing, kPartial, "sections stay as named"),
      DXGKIT_EXPORT("MmSecureVirtualMemory", refuse_pointer, kRefused, "no user memory"),
      DXGKIT_EXPORT("MmUnlockPagableImageSection", unlock_section, kPartial,
                    "lets all pageable sections go"),
      DXGKIT_EXPORT("MmUnmapViewInSystemSpace", refuse_status, kRefused, "no sections"),
      DXGKIT_EXPORT("READ_PORT_BUFFER_UCHAR", read_port_buffer<uint8_t>, kSupported, ""),
      DXGKIT_EXPORT("READ_PORT_BUFFER_ULONG", read_port_buffer<uint32_t>, kSupported, ""),
      DXGKIT_EXPORT("READ_PORT_BUFFER_USHORT", read_port_buffer<uint16_t>, kSupported, ""),
      DXGKIT_EXPORT("READ_PORT_UCHAR", read_port<uint8_t>, kSupported, ""),
      DXGKIT_EXPORT("READ_PORT_ULONG", read_port<uint32_t>, kSupported, ""),
      DXGKIT_EXPORT("READ_PORT_USHORT", read_port<uint16_t>, kSupported, ""),
      DXGKIT_EXPORT("READ_REGISTER_BUFFER_UCHAR", read_buffer<uint8_t>, kSupported, ""),
      DXGKIT_EXPORT("READ_REGISTER_BUFFER_USHORT", read_buffer<uint16_t>, kSupported, ""),
      DXGKIT_EXPORT("WRITE_PORT_BUFFER_UCHAR", write_port_buffer<uint8_t>, kSupported, ""),
      DXGKIT_EXPORT("WRITE_PORT_BUFFER_ULONG", write_port_buffer<uint32_t>, kSupported, ""),
      DXGKIT_EXPORT("WRITE_PORT_BUFFER_USHORT", write_port_buffer<uint16_t>, kSupported, ""),
      DXGKIT_EXPORT("WRITE_PORT_UCHAR", write_port<uint8_t>, kSupported, ""),
      DXGKIT_EXPORT("WRITE_PORT_ULONG", write_port<uint32_t>, kSupported, ""),
      DXGKIT_EXPORT("WRITE_PORT_USHORT", write_port<uint16_t>, kSupported, ""),
      DXGKIT_EXPORT("WRITE_REGISTER_BUFFER_UCHAR", write_buffer<uint8_t>, kSupported, ""),
      DXGKIT_EXPORT("WRITE_REGISTER_BUFFER_USHORT", write_buffer<uint16_t>, kSupported, ""),
      DXGKIT_EXPORT("ZwAllocateVirtualMemory", refuse_status, kRefused, "no user memory"),
      DXGKIT_EXPORT("ZwCreateSection", refuse_status, kRefused, "no sections"),
      DXGKIT_EXPORT("ZwFreeVirtualMemory", refuse_status, kRefused, "no user memory"),
      DXGKIT_EXPORT("ZwMapViewOfSection", refuse_status, kRefused, "no sections"),
      DXGKIT_EXPORT("ZwOpenSection", refuse_status, kRefused, "no sections"),
      DXGKIT_EXPORT("ZwUnmapViewOfSection", refuse_status, kRefused, "no sections"),
  };
  return kTable;
}

}  // namespace dxgkit::nt
