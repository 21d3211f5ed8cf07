// Pool, contiguous memory, MDLs and mappings.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/arithmetic.h"
#include "base/check.h"
#include "nt/executable.h"
#include "nt/kernel_impl.h"
#include "nt/seh.h"

namespace dxgkit::nt {
namespace {

// --- contiguous memory

/// For the log: whose memory it was that did not do.
void explain_no_contiguous(const bus::Machine& machine, uint64_t bytes, uint64_t highest) {
  if (CallLog::current() == nullptr) return;
  const uint64_t last = machine.highest_system_address().value;
  const uint64_t all = last + 1 - bus::Machine::kSystemMemoryBase;
  constexpr uint64_t kKiB = 1024;
  if (highest < bus::Machine::kSystemMemoryBase) {
    CallLog::note(fmt::format("below that address the machine has only {} KiB, from {:#x} on",
                              machine.low_memory_bytes() / kKiB, bus::Machine::kLowMemoryBase));
  } else if (bytes > all) {
    CallLog::note(
        fmt::format("the machine has only {} KiB of memory; --memory gives it more", all / kKiB));
  } else {
    CallLog::note(
        fmt::format("no such piece of the machine's {} KiB of memory is free{}; --memory gives it "
                    "more",
                    all / kKiB, highest < last ? fmt::format(" up to {:#x}", highest) : ""));
  }
}

void* allocate_contiguous(const char* function, uint64_t bytes, uint64_t highest, uint64_t boundary,
                          std::optional<uint32_t> cache) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  require_irql(frame, function, kDispatchLevel);
  uint64_t rounded = 0;
  if (bytes == 0 || !checked_align_up(bytes, kPageBytes, &rounded)) return nullptr;
  if (kernel.impl().allocation_fails(function)) return nullptr;
  uint64_t alignment = kPageBytes;
  // A block aligned to its boundary cannot cross it, if it is not larger.
  if (boundary > kPageBytes && is_power_of_two(boundary) && rounded <= boundary)
    alignment = std::bit_ceil(rounded);
  const auto first = kernel.machine().allocate_contiguous(rounded / kPageBytes, alignment, highest);
  if (!first.has_value()) {
    explain_no_contiguous(kernel.machine(), rounded, highest);
    return nullptr;
  }
  const uint64_t address = first->value * kPageBytes;
  std::byte* memory = kernel.machine().system_pointer(bus::PhysicalAddress(address), rounded);
  std::memset(memory, kPoolPattern, rounded);
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.memory_lock);
  state.contiguous.emplace(
      memory, ContiguousBlock{state.next_sequence++, *first, rounded / kPageBytes, origin_of(frame),
                              bytes, cache});
  return memory;
}

DXGKIT_NT_ABI void* mm_allocate_contiguous_memory(uint64_t bytes, int64_t highest) {
  return allocate_contiguous("MmAllocateContiguousMemory", bytes, static_cast<uint64_t>(highest), 0,
                             std::nullopt);
}

DXGKIT_NT_ABI void* mm_allocate_contiguous_memory_specify_cache(uint64_t bytes, int64_t lowest,
                                                                int64_t highest, int64_t boundary,
                                                                uint32_t cache) {
  void* memory =
      allocate_contiguous("MmAllocateContiguousMemorySpecifyCache", bytes,
                          static_cast<uint64_t>(highest), static_cast<uint64_t>(boundary), cache);
  if (memory == nullptr) return nullptr;
  const uint64_t address = CallFrame::current().kernel().machine().physical_of(memory).value;
  DXGKIT_CHECK(address != 0);
  if (address >= static_cast<uint64_t>(lowest)) return memory;
  Kernel::Impl& state = CallFrame::current().kernel().impl();
  runtime::MutexLock lock(state.memory_lock);
  const auto found = state.contiguous.find(memory);
  CallFrame::current().kernel().machine().free_contiguous(found->second.first,
                                                          found->second.page_count);
  state.contiguous.erase(found);
  return nullptr;
}

/// How the caller of MmFreeContiguousMemorySpecifyCache describes the block.
struct FreedAs {
  uint64_t bytes = 0;
  uint32_t cache = 0;
};

void free_contiguous(const char* function, void* memory, const FreedAs* as = nullptr) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  Kernel::Impl& state = kernel.impl();
  ContiguousBlock block;
  {
    runtime::MutexLock lock(state.memory_lock);
    const auto found = state.contiguous.find(memory);
    if (found != state.contiguous.end()) {
      block = found->second;
      state.contiguous.erase(found);
    }
  }
  if (block.page_count == 0) {
    kernel.bug_check(
        "LIFE-20", function, 0x1A, 0, fmt::format("{} is no contiguous allocation.", memory),
        "A driver frees each allocation once, by the address it got.", "Look for a double free.");
  }
  if (as != nullptr && (as->bytes != block.bytes || as->cache != block.cache.value_or(as->cache))) {
    const auto shape = [](uint64_t bytes, std::optional<uint32_t> cache) {
      return fmt::format("{} bytes{}", bytes,
                         cache.has_value() ? fmt::format(" of cache type {}", *cache) : "");
    };
    kernel.violation("NT-34", function,
                     fmt::format("It was told {}; allocated were {}.", shape(as->bytes, as->cache),
                                 shape(block.bytes, block.cache)),
                     "The size and the cache type with which the memory was allocated.",
                     "Keep both beside the address, or use MmFreeContiguousMemory, which asks for "
                     "neither.");
  }
  const std::span rest =
      std::span(static_cast<const std::byte*>(memory), block.page_count * kPageBytes)
          .subspan(block.bytes);
  const auto written = std::ranges::find_if(
      rest, [](std::byte one) { return one != static_cast<std::byte>(kPoolPattern); });
  if (written != rest.end()) {
    kernel.violation(
        "NT-38", function,
        fmt::format("Of {} bytes of contiguous memory byte {} was written.", block.bytes,
                    block.bytes + static_cast<uint64_t>(written - rest.begin())),
        "Neither driver nor device writes behind the size that was allocated.",
        "Compare the size of the allocation with what is kept in it: a count times "
        "the size of an element.");
  }
  end_execution(kernel, memory, block.page_count * kPageBytes);
  kernel.machine().free_contiguous(block.first, block.page_count);
}

DXGKIT_NT_ABI void mm_free_contiguous_memory(void* memory) {
  free_contiguous("MmFreeContiguousMemory", memory);
}
DXGKIT_NT_ABI void mm_free_contiguous_memory_specify_cache(void* memory, uint64_t bytes,
                                                           uint32_t cache) {
  const FreedAs as{bytes, cache};
  free_contiguous("MmFreeContiguousMemorySpecifyCache", memory, &as);
}

DXGKIT_NT_ABI int64_t mm_get_physical_address(void* address) {
  Kernel& kernel = CallFrame::current().kernel();
  const uint64_t physical = physical_of(kernel, address);
  if (physical == 0) {
    kernel.violation("LIFE-14", "MmGetPhysicalAddress",
                     fmt::format("{} has no physical address here.", address),
                     "Physical addresses are asked of contiguous memory, of non-paged pool, or of "
                     "mapped system pages.",
                     "Allocate memory a device reads with MmAllocateContiguousMemory.");
  }
  return static_cast<int64_t>(physical);
}

// --- device memory

void* map_io(uint64_t physical, uint64_t bytes) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  void* pointer = kernel.machine().map_io(bus::PhysicalAddress(physical), bytes);
  if (pointer == nullptr) {
    CallLog::note("that range is in no BAR of a device");
    return nullptr;
  }
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.memory_lock);
  state.mappings.emplace(pointer, Mapping{state.next_sequence++, Mapping::Kind::kIoSpace, bytes,
                                          nullptr, origin_of(frame)});
  return pointer;
}

DXGKIT_NT_ABI void* mm_map_io_space(int64_t physical, uint64_t bytes, uint32_t) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "MmMapIoSpace", kDispatchLevel);
  if (frame.kernel().impl().allocation_fails("MmMapIoSpace")) return nullptr;
  return map_io(static_cast<uint64_t>(physical), bytes);
}
DXGKIT_NT_ABI void* mm_map_io_space_ex(int64_t physical, uint64_t bytes, uint32_t) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "MmMapIoSpaceEx", kDispatchLevel);
  if (frame.kernel().impl().allocation_fails("MmMapIoSpaceEx")) return nullptr;
  return map_io(static_cast<uint64_t>(physical), bytes);
}
DXGKIT_NT_ABI void mm_unmap_io_space(void* pointer, uint64_t bytes) {
  Kernel& kernel = CallFrame::current().kernel();
  uint64_t mapped = 0;
  if (unmap_io(kernel, pointer, &mapped)) {
    if (bytes != mapped) {
      kernel.violation("NT-34", "MmUnmapIoSpace",
                       fmt::format("It was told {} bytes; mapped were {}.", bytes, mapped),
                       "The size with which the memory was mapped.",
                       "Keep the size beside the address.");
    }
  } else {
    kernel.violation(
        "LIFE-20", "MmUnmapIoSpace", fmt::format("{} ({} bytes) is not mapped.", pointer, bytes),
        "What MmMapIoSpace gave is unmapped once.", "Look for a second unmap or another address.");
  }
}

// --- MDLs

uint64_t pages_spanned(uint64_t address, uint64_t bytes) {
  return ((address & (kPageBytes - 1)) + bytes + kPageBytes - 1) / kPageBytes;
}

DXGKIT_NT_ABI uint64_t mm_size_of_mdl(void* address, uint64_t bytes) {
  return sizeof(Mdl) + pages_spanned(reinterpret_cast<uint64_t>(address), bytes) * sizeof(uint64_t);
}

DXGKIT_NT_ABI Mdl* io_allocate_mdl(void* address, uint32_t bytes, uint8_t, uint8_t, void*) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "IoAllocateMdl", kDispatchLevel);
  if (frame.kernel().impl().allocation_fails("IoAllocateMdl")) return nullptr;
  const uint64_t size = mm_size_of_mdl(address, bytes);
  if (size > INT16_MAX) {
    // The Size member is 16 bits; Windows has the same bound (about 16 MiB of pages).
    if (size > UINT16_MAX) return nullptr;
  }
  Kernel::Impl& state = frame.kernel().impl();
  HeapBlock memory = take_block(state.heap, size);
  if (memory == nullptr) return nullptr;
  auto* const mdl = reinterpret_cast<Mdl*>(memory.get());
  mdl->size = static_cast<int16_t>(static_cast<uint16_t>(size));
  mdl->start_va =
      reinterpret_cast<void*>(align_down(reinterpret_cast<uint64_t>(address), kPageBytes));
  mdl->byte_offset = static_cast<uint32_t>(reinterpret_cast<uint64_t>(address) & (kPageBytes - 1));
  mdl->byte_count = bytes;
  runtime::MutexLock lock(state.memory_lock);
  state.mdls.emplace(mdl,
                     MdlEntry{state.next_sequence++, bytes, origin_of(frame), std::move(memory)});
  return mdl;
}

DXGKIT_NT_ABI void io_free_mdl(Mdl* mdl) {
  Kernel& kernel = CallFrame::current().kernel();
  Kernel::Impl& state = kernel.impl();
  HeapBlock memory;  // freed when all was said
  {
    runtime::MutexLock lock(state.memory_lock);
    if (const auto found = state.mdls.find(mdl); found != state.mdls.end()) {
      memory = std::move(found->second.memory);
      state.mdls.erase(found);
    }
  }
  const bool known = memory != nullptr;
  if (known && (mdl->flags & kMdlMappedToSystemVa) != 0) {
    kernel.violation("LIFE-20", "IoFreeMdl", "The MDL is freed while its pages are mapped.",
                     "MmUnmapLockedPages comes first.", "Unmap the pages before the MDL is freed.");
    runtime::MutexLock lock(state.memory_lock);
    state.mappings.erase(mdl);
  }
  if (!known) {
    kernel.bug_check("LIFE-20", "IoFreeMdl", 0xC2, 0x7,
                     fmt::format("{} is no MDL of IoAllocateMdl.", static_cast<void*>(mdl)),
                     "A driver frees its own MDLs, once.",
                     "MDLs that come with a DDI belong to the kernel.");
  }
  if ((mdl->flags & kMdlPagesLocked) != 0) {
    kernel.violation("LIFE-20", "IoFreeMdl", "The MDL is freed with its pages locked.",
                     "MmUnlockPages comes first.", "Unlock the pages before the MDL is freed.");
  }
}

/// Fills the page array from the machine; false if some page is not system memory.
bool fill_pages(Kernel& kernel, Mdl& mdl) {
  auto* at = static_cast<std::byte*>(mdl.start_va);
  const uint64_t count = pages_spanned(mdl.byte_offset, mdl.byte_count);
  for (uint64_t i = 0; i < count; ++i, at += kPageBytes) {
    const uint64_t physical = physical_of(kernel, at);
    if (physical == 0) return false;
    mdl.pages()[i] = physical / kPageBytes;
  }
  return true;
}

DXGKIT_NT_ABI void mm_build_mdl_for_non_paged_pool(Mdl* mdl) {
  Kernel& kernel = CallFrame::current().kernel();
  mdl->mapped_system_va = static_cast<std::byte*>(mdl->start_va) + mdl->byte_offset;
  mdl->flags = static_cast<int16_t>(mdl->flags | kMdlSourceIsNonPagedPool);
  if (!fill_pages(kernel, *mdl)) {
    kernel.violation("LIFE-14", "MmBuildMdlForNonPagedPool",
                     "The buffer has no physical pages here.",
                     "The buffer is non-paged pool, or contiguous memory.",
                     "Allocate non-paged pool for memory that a device reads.");
    std::fill_n(mdl->pages(), pages_spanned(mdl->byte_offset, mdl->byte_count), 0);
  }
}

DXGKIT_NT_ABI void mm_probe_and_lock_pages(Mdl* mdl, uint8_t, uint32_t) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "MmProbeAndLockPages", kApcLevel);
  if (!fill_pages(frame.kernel(), *mdl)) raise_probe_failure(kStatusAccessViolation);
  mdl->flags = static_cast<int16_t>(mdl->flags | kMdlPagesLocked);
}

DXGKIT_NT_ABI void mm_unlock_pages(Mdl* mdl) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "MmUnlockPages", kDispatchLevel);
  if ((mdl->flags & kMdlPagesLocked) == 0) {
    frame.kernel().violation("LIFE-20", "MmUnlockPages", "The pages are not locked.",
                             "Lock and unlock come in pairs.", "Look for a second unlock.");
  }
  // Unlocking also removes a mapping in system space: drivers rely on it and never unmap.
  frame.kernel().release_mdl(mdl);
  mdl->mapped_system_va = nullptr;
  mdl->flags = static_cast<int16_t>(mdl->flags & ~(kMdlPagesLocked | kMdlMappedToSystemVa));
}

DXGKIT_NT_ABI void* mm_map_locked_pages_specify_cache(Mdl* mdl, uint8_t mode, uint32_t, void*,
                                                      uint32_t, uint32_t) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "MmMapLockedPagesSpecifyCache", kDispatchLevel);
  Kernel& kernel = frame.kernel();
  if (mode != 0) return nullptr;  // no user mode here; documented as partial
  if (kernel.impl().allocation_fails("MmMapLockedPagesSpecifyCache")) return nullptr;
  const uint64_t count = pages_spanned(mdl->byte_offset, mdl->byte_count);
  if (count == 0) return nullptr;
  bool contiguous = true;
  for (uint64_t i = 1; i < count; ++i)
    contiguous = contiguous && mdl->pages()[i] == mdl->pages()[0] + i;
  std::byte* pointer = nullptr;
  Mapping mapping;
  mapping.taken = origin_of(frame);
  mapping.kind = Mapping::Kind::kMdl;
  mapping.bytes = count * kPageBytes;
  if (contiguous)
    pointer = kernel.machine().system_pointer(bus::PhysicalAddress(mdl->pages()[0] * kPageBytes),
                                              count * kPageBytes);
  if (pointer == nullptr) {
    auto view = bus::CpuView::create(count * kPageBytes);
    if (!view.has_value()) return nullptr;
    std::vector<bus::MemoryWindow> windows;
    for (uint64_t i = 0; i < count; ++i) {
      windows.push_back(kernel.machine().window_of(
          bus::PhysicalAddress(mdl->pages()[i] * kPageBytes), kPageBytes));
      if (windows.back().fd < 0) return nullptr;
    }
    if (!is_success((*view)->retarget(windows))) return nullptr;
    pointer = static_cast<std::byte*>((*view)->address());
    mapping.kind = Mapping::Kind::kView;
    mapping.view = std::move(*view);
  }
  pointer += mdl->byte_offset;
  mdl->mapped_system_va = pointer;
  mdl->flags = static_cast<int16_t>(mdl->flags | kMdlMappedToSystemVa);
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.memory_lock);
  mapping.sequence = state.next_sequence++;
  state.mappings.insert_or_assign(mdl, std::move(mapping));
  return pointer;
}

}  // namespace

PoolHeap& Kernel::heap() { return impl_->heap; }

void Kernel::release_mdl(const void* mdl) {
  if ((static_cast<const Mdl*>(mdl)->flags & kMdlMappedToSystemVa) == 0) return;
  runtime::MutexLock lock(impl_->memory_lock);
  impl_->mappings.erase(mdl);
}

namespace {

DXGKIT_NT_ABI void* mm_map_locked_pages(Mdl* mdl, uint8_t mode) {
  return mm_map_locked_pages_specify_cache(mdl, mode, 1, nullptr, 0, 0);
}

DXGKIT_NT_ABI void mm_unmap_locked_pages(void* address, Mdl* mdl) {
  Kernel& kernel = CallFrame::current().kernel();
  Kernel::Impl& state = kernel.impl();
  bool known = false;
  {
    runtime::MutexLock lock(state.memory_lock);
    known = state.mappings.erase(mdl) != 0;
  }
  if (!known) {
    kernel.violation(
        "LIFE-20", "MmUnmapLockedPages", fmt::format("{} is not mapped through this MDL.", address),
        "What was mapped is unmapped once, with the same MDL.", "Look for a second unmap.");
  }
  mdl->mapped_system_va = nullptr;
  mdl->flags = static_cast<int16_t>(mdl->flags & ~kMdlMappedToSystemVa);
}

DXGKIT_NT_ABI uint8_t mm_is_address_valid(void* address) {
  // mincore answers ENOMEM for a page that is not mapped.
  unsigned char vector = 0;
  void* page = reinterpret_cast<void*>(align_down(reinterpret_cast<uint64_t>(address), kPageBytes));
  return mincore(page, kPageBytes, &vector) == 0 ? 1 : 0;
}

DXGKIT_NT_ABI uint64_t read_register_8(const volatile void* address) {
  return CallFrame::current().kernel().machine().read_register(address, 1);
}
DXGKIT_NT_ABI uint64_t read_register_16(const volatile void* address) {
  return CallFrame::current().kernel().machine().read_register(address, 2);
}
DXGKIT_NT_ABI uint64_t read_register_32(const volatile void* address) {
  return CallFrame::current().kernel().machine().read_register(address, 4);
}
DXGKIT_NT_ABI uint64_t read_register_64(const volatile void* address) {
  return CallFrame::current().kernel().machine().read_register(address, 8);
}
DXGKIT_NT_ABI void write_register_8(volatile void* address, uint8_t value) {
  CallFrame::current().kernel().machine().write_register(address, 1, value);
}
DXGKIT_NT_ABI void write_register_16(volatile void* address, uint16_t value) {
  CallFrame::current().kernel().machine().write_register(address, 2, value);
}
DXGKIT_NT_ABI void write_register_32(volatile void* address, uint32_t value) {
  CallFrame::current().kernel().machine().write_register(address, 4, value);
}
DXGKIT_NT_ABI void write_register_64(volatile void* address, uint64_t value) {
  CallFrame::current().kernel().machine().write_register(address, 8, value);
}
DXGKIT_NT_ABI void read_register_buffer_32(const volatile uint32_t* address, uint32_t* out,
                                           uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    out[i] = static_cast<uint32_t>(read_register_32(address + i));
}
DXGKIT_NT_ABI void write_register_buffer_32(volatile uint32_t* address, const uint32_t* in,
                                            uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) write_register_32(address + i, in[i]);
}

}  // namespace

bool unmap_io(Kernel& kernel, void* pointer, uint64_t* mapped_bytes) {
  Kernel::Impl& state = kernel.impl();
  uint64_t bytes = 0;
  {
    runtime::MutexLock lock(state.memory_lock);
    const auto found = state.mappings.find(pointer);
    if (found == state.mappings.end() || found->second.kind != Mapping::Kind::kIoSpace)
      return false;
    bytes = found->second.bytes;
    state.mappings.erase(found);
  }
  kernel.machine().unmap_io(pointer, bytes);
  if (mapped_bytes != nullptr) *mapped_bytes = bytes;
  return true;
}

void* map_io_for_driver(uint64_t physical, uint64_t bytes) { return map_io(physical, bytes); }

void free_leaked_memory(Kernel& kernel) {
  free_leaked_pool(kernel);
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.memory_lock);
  // This only frees, so the order has no visible effect, and address order is harmless.
  for (auto& [address, block] : state.contiguous) {
    end_execution(kernel, address, block.page_count * kPageBytes);
    kernel.machine().free_contiguous(block.first, block.page_count);
  }
  for (auto& [address, mapping] : state.mappings) {
    if (mapping.kind == Mapping::Kind::kIoSpace)
      kernel.machine().unmap_io(const_cast<void*>(address), mapping.bytes);
  }
  state.contiguous.clear();
  state.mdls.clear();
  state.mappings.clear();
}

std::span<const Export> memory_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("IoAllocateMdl", io_allocate_mdl, kPartial, "IRPs are ignored"),
      DXGKIT_EXPORT("IoFreeMdl", io_free_mdl, kSupported, ""),
      DXGKIT_EXPORT("MmAllocateContiguousMemory", mm_allocate_contiguous_memory, kSupported, ""),
      DXGKIT_EXPORT("MmAllocateContiguousMemorySpecifyCache",
                    mm_allocate_contiguous_memory_specify_cache, kPartial,
                    "the cache type is ignored"),
      DXGKIT_EXPORT("MmBuildMdlForNonPagedPool", mm_build_mdl_for_non_paged_pool, kSupported, ""),
      DXGKIT_EXPORT("MmFreeContiguousMemory", mm_free_contiguous_memory, kSupported, ""),
      DXGKIT_EXPORT("MmFreeContiguousMemorySpecifyCache", mm_free_contiguous_memory_specify_cache,
                    kSupported, ""),
      DXGKIT_EXPORT("MmGetPhysicalAddress", mm_get_physical_address, kPartial,
                    "system pages only; pool below a page has none"),
      DXGKIT_EXPORT("MmIsAddressValid", mm_is_address_valid, kSupported, ""),
      DXGKIT_EXPORT("MmMapIoSpace", mm_map_io_space, kSupported, ""),
      DXGKIT_EXPORT("MmMapIoSpaceEx", mm_map_io_space_ex, kSupported, ""),
      DXGKIT_EXPORT("MmMapLockedPages", mm_map_locked_pages, kPartial, "kernel mode only"),
      DXGKIT_EXPORT("MmMapLockedPagesSpecifyCache", mm_map_locked_pages_specify_cache, kPartial,
                    "kernel mode only"),
      DXGKIT_EXPORT("MmProbeAndLockPages", mm_probe_and_lock_pages, kPartial,
                    "system pages only; raises for others"),
      DXGKIT_EXPORT("MmSizeOfMdl", mm_size_of_mdl, kSupported, ""),
      DXGKIT_EXPORT("MmUnlockPages", mm_unlock_pages, kSupported, ""),
      DXGKIT_EXPORT("MmUnmapIoSpace", mm_unmap_io_space, kSupported, ""),
      DXGKIT_EXPORT("MmUnmapLockedPages", mm_unmap_locked_pages, kSupported, ""),
      DXGKIT_EXPORT("READ_REGISTER_BUFFER_ULONG", read_register_buffer_32, kSupported, ""),
      DXGKIT_EXPORT("READ_REGISTER_UCHAR", read_register_8, kSupported, ""),
      DXGKIT_EXPORT("READ_REGISTER_ULONG", read_register_32, kSupported, ""),
      DXGKIT_EXPORT("READ_REGISTER_ULONG64", read_register_64, kSupported, ""),
      DXGKIT_EXPORT("READ_REGISTER_USHORT", read_register_16, kSupported, ""),
      DXGKIT_EXPORT("WRITE_REGISTER_BUFFER_ULONG", write_register_buffer_32, kSupported, ""),
      DXGKIT_EXPORT("WRITE_REGISTER_UCHAR", write_register_8, kSupported, ""),
      DXGKIT_EXPORT("WRITE_REGISTER_ULONG", write_register_32, kSupported, ""),
      DXGKIT_EXPORT("WRITE_REGISTER_ULONG64", write_register_64, kSupported, ""),
      DXGKIT_EXPORT("WRITE_REGISTER_USHORT", write_register_16, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
