// Pool: allocation, the canaries around a block, and the checks when it is freed.
#include "nt/pool.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/fixed_memory.h"
#include "nt/executable.h"
#include "nt/kernel_impl.h"
#include "nt/paged.h"

namespace dxgkit::nt {
namespace {

// POOL_TYPE values with a meaning here.
constexpr uint32_t kPagedPoolBit = 1;
constexpr uint32_t kNonPagedPoolNx = 512;
// POOL_FLAG_* of ExAllocatePool2.
constexpr uint64_t kFlagUninitialized = 0x2, kFlagNonPaged = 0x40, kFlagNonPagedExecute = 0x80,
                   kFlagPaged = 0x100, kFlagRaise = 0x20;

/// The pattern around a block.
constexpr uint8_t kCanary = 0xB7;
/// The pattern in freed heap blocks.
constexpr uint8_t kFreedPattern = 0xDD;
constexpr uint64_t kCanaryBytes = 16;
constexpr uint64_t kAlignment = 16;  // of every block
constexpr uint64_t kArenaBytes = uint64_t{16} << 30;
constexpr size_t kFreedKept = 4096;
constexpr uint64_t kFreedPagesKept = 16 * 1024;
constexpr uint8_t kDpcType = 0x13;  // KDPC.Type
/// KDPCs are looked for in freed blocks up to this size.
constexpr uint64_t kDpcSearchBytes = 64 * 1024;

enum class PoolKind { kNonPaged, kNonPagedExecutable, kPaged };

uint64_t pages_of(uint64_t bytes) { return align_up(bytes, kPageBytes) / kPageBytes; }

/// Fills in where the block lives; null if there is no memory. `block.bytes` is set. The machine
/// and the heap lock for themselves; the arena is under memory_lock.
std::byte* place(Kernel& kernel, PoolKind kind, PoolBlock& block) {
  Kernel::Impl& state = kernel.impl();
  const uint64_t rounded = align_up(block.bytes, kPageBytes);
  // Non-paged pool of a page or more comes from system pages, so that it is contiguous as on
  // Windows.
  if (kind != PoolKind::kPaged && block.bytes >= kPageBytes) {
    if (const auto first = kernel.machine().allocate_contiguous(rounded / kPageBytes);
        first.has_value()) {
      block.home = PoolBlock::Home::kSystem;
      block.base =
          kernel.machine().system_pointer(bus::PhysicalAddress(first->value * kPageBytes), rounded);
      block.base_bytes = rounded;
      return block.base;
    }
  }
  if (state.arena != nullptr) {
    runtime::MutexLock lock(state.memory_lock);
    if (std::byte* const first = state.arena->take(rounded / kPageBytes); first != nullptr) {
      block.home = PoolBlock::Home::kSpecial;
      block.base = first;
      block.base_bytes = rounded;
      // The end of the block touches the inaccessible page; from a page on, Windows gives whole
      // pages.
      return block.bytes >= kPageBytes ? first
                                       : first + rounded - align_up(block.bytes, kAlignment);
    }
  }
  if (PagedMemory* const paged = kind == PoolKind::kPaged ? paged_memory(kernel) : nullptr;
      paged != nullptr) {
    // From a page on, Windows gives whole pages; below, canaries lie before it too.
    const uint64_t before = block.bytes >= kPageBytes ? 0 : kCanaryBytes;
    const uint64_t pages = pages_of(before + block.bytes + kCanaryBytes);
    runtime::MutexLock lock(state.memory_lock);
    if (std::byte* const first = paged->take(pages); first != nullptr) {
      block.home = PoolBlock::Home::kPaged;
      block.base = first;
      block.base_bytes = pages * kPageBytes;
      return first + before;
    }
  }
  const bool whole_pages = block.bytes >= kPageBytes;
  const uint64_t before = whole_pages ? 0 : kCanaryBytes;
  block.base_bytes = whole_pages ? rounded + kPageBytes
                                 : before + align_up(block.bytes, kAlignment) + kCanaryBytes;
  block.base = state.heap.take(block.base_bytes);
  return block.base == nullptr ? nullptr : block.base + before;
}

constexpr uint64_t kPoolBlockBytesMost = uint64_t{1} << 40;

void* allocate_pool(const char* function, PoolKind kind, uint64_t bytes, uint32_t tag, bool zero) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  Kernel::Impl& state = kernel.impl();
  require_irql(frame, function, kind == PoolKind::kPaged ? kApcLevel : kDispatchLevel);
  if (bytes == 0) {
    kernel.violation("LIFE-20", function, "A pool allocation of 0 bytes was asked for.",
                     "Pool allocations have a size.", "Check the size that reaches this call.");
    bytes = 1;
  }
  if (bytes > kPoolBlockBytesMost) CallLog::note("no machine has so much pool");
  if (bytes > kPoolBlockBytesMost || state.allocation_fails(function)) return nullptr;
  {
    runtime::MutexLock lock(state.memory_lock);
    if (bytes > kernel.config().pool_bytes_max ||
        state.pool_bytes > kernel.config().pool_bytes_max - bytes) {
      CallLog::note("this run's limit of the pool is reached");
      return nullptr;
    }
    state.pool_bytes += bytes;
  }
  PoolBlock block;
  block.bytes = bytes;
  block.tag = tag;
  block.paged = kind == PoolKind::kPaged;
  block.executable = kind == PoolKind::kNonPagedExecutable;
  block.allocated = origin_of(frame);
  std::byte* const memory = place(kernel, kind, block);
  if (memory != nullptr) {
    std::memset(block.base, kCanary, static_cast<size_t>(memory - block.base));
    std::memset(memory, zero ? 0 : kPoolPattern, bytes);
    std::memset(memory + bytes, kCanary,
                block.base_bytes - static_cast<uint64_t>(memory - block.base) - bytes);
  }
  runtime::MutexLock lock(state.memory_lock);
  if (memory == nullptr) {
    state.pool_bytes -= bytes;
    return nullptr;
  }
  block.sequence = state.next_sequence++;
  state.pool.emplace(memory, std::move(block));
  return memory;
}

/// Frees the memory of a block; special pool only becomes inaccessible. memory_lock is held for
/// special and paged blocks.
void release_memory(Kernel& kernel, const PoolBlock& block) {
  if (block.executable) end_execution(kernel, block.base, block.base_bytes);
  switch (block.home) {
    case PoolBlock::Home::kHeap:
      kernel.impl().heap.give_back(block.base, block.base_bytes);
      break;
    case PoolBlock::Home::kSystem:
      kernel.machine().free_contiguous(
          bus::PageFrame(kernel.machine().physical_of(block.base).value / kPageBytes),
          block.base_bytes / kPageBytes);
      break;
    case PoolBlock::Home::kSpecial:
      kernel.impl().arena->close(block.base, block.base_bytes / kPageBytes);
      break;
    case PoolBlock::Home::kPaged:
      paged_memory(kernel)->give_back(block.base, block.base_bytes / kPageBytes);
      break;
  }
}

/// The first byte around the block that was overwritten, or nothing.
std::optional<std::string> overwritten(const std::byte* memory, const PoolBlock& block) {
  const auto damaged = [](const std::byte* first, const std::byte* last) {
    return std::find_if(first, last, [](std::byte b) { return b != std::byte{kCanary}; });
  };
  const auto found_at = [](const std::byte* at, const std::byte* end) {
    std::string bytes;
    for (const std::byte* p = at; p < end && p < at + 8; ++p)
      bytes += fmt::format("{}{:02x}", bytes.empty() ? "" : " ", static_cast<uint8_t>(*p));
    return bytes;
  };
  const std::byte* const end = block.base + block.base_bytes;
  if (const std::byte* at = damaged(memory + block.bytes, end); at != end) {
    return fmt::format("{} bytes behind its end lie the bytes {}",
                       static_cast<uint64_t>(at - memory) - block.bytes, found_at(at, end));
  }
  if (const std::byte* at = damaged(block.base, memory); at != memory) {
    return fmt::format("{} bytes before its start lie the bytes {}",
                       static_cast<uint64_t>(memory - at), found_at(at, memory));
  }
  return std::nullopt;
}

std::string block_text(const Kernel& kernel, const std::byte* memory, const PoolBlock& block) {
  return fmt::format("the block {} of {} bytes with tag '{}' that {} allocated", fmt::ptr(memory),
                     block.bytes, tag_text(block.tag), to_text(kernel, block.allocated));
}

std::string overrun_text(const Kernel& kernel, const std::byte* memory, const PoolBlock& block,
                         const std::string& damage) {
  return fmt::format("Something wrote outside {}: {}, where this kernel had put {:02x}.",
                     block_text(kernel, memory, block), damage, kCanary);
}
constexpr const char* kOverrunExpected = "A driver writes only inside the blocks it allocated.";
constexpr const char* kOverrunFix =
    "Compare the size asked for with what is written; `special_pool` stops at the very write.";

/// Describes `memory` if it is not a live block, for the finding of a bad free.
std::string what_it_is(const Kernel& kernel, const std::byte* memory) {
  const Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.memory_lock);
  for (auto freed = state.freed.rbegin(); freed != state.freed.rend(); ++freed) {
    if (freed->memory != memory) continue;
    return fmt::format("{}, and that {} freed", block_text(kernel, memory, freed->block),
                       to_text(kernel, freed->freed));
  }
  auto next = state.pool.upper_bound(memory);
  if (next != state.pool.begin()) {
    --next;
    const auto* const start = static_cast<const std::byte*>(next->first);
    if (memory < start + next->second.bytes)
      return fmt::format("{} bytes inside {}", memory - start,
                         block_text(kernel, start, next->second));
  }
  return "no block of pool";
}

/// Describes an object that the kernel still has in a queue inside freed memory, as the text of a
/// finding; empty: none.
std::string queued_object_in(CallFrame& frame, std::byte* memory, const PoolBlock& block,
                             bool* is_timer) {
  Kernel& kernel = frame.kernel();
  Kernel::Impl& state = kernel.impl();
  const auto text = [&](const std::string& what) {
    return fmt::format("{} frees {}; {}.", frame.name(), block_text(kernel, memory, block), what);
  };
  {
    runtime::MutexLock lock(state.dispatcher_lock);
    for (auto entry = state.timers.lower_bound(memory);
         entry != state.timers.end() && entry->first < memory + block.bytes; ++entry) {
      if (!entry->second.armed) continue;
      entry->second.armed = false;  // its memory is freed
      (void)entry->second.timer->cancel();
      *is_timer = true;
      return text(fmt::format("the timer {} bytes inside, set by {}, is queued",
                              static_cast<const std::byte*>(entry->first) - memory,
                              to_text(kernel, entry->second.set_by)));
    }
  }
  for (uint64_t at = 0; at + sizeof(Kdpc) <= std::min(block.bytes, kDpcSearchBytes); at += 8) {
    const auto& dpc = *reinterpret_cast<const Kdpc*>(memory + at);
    if (dpc.type != kDpcType || dpc.queued == nullptr) continue;
    if (!kernel.is_driver_code(reinterpret_cast<const void*>(dpc.routine))) continue;
    return text(fmt::format("the DPC {} bytes inside is queued", at));
  }
  return {};
}

/// Removes the block from the records and frees it. Returns the text of a finding if the bytes
/// around it were overwritten; empty: they were not.
std::string release_block(CallFrame& frame, const char* function, std::byte* memory,
                          const PoolBlock& block, uint32_t tag) {
  Kernel& kernel = frame.kernel();
  Kernel::Impl& state = kernel.impl();
  const std::optional<std::string> damage = overwritten(memory, block);
  const bool is_paged = block.home == PoolBlock::Home::kPaged;
  if (block.home == PoolBlock::Home::kHeap || is_paged)
    std::memset(memory, kFreedPattern, block.bytes);
  bool freed_here = false;
  {
    runtime::MutexLock lock(state.memory_lock);
    const auto found = state.pool.find(memory);
    // Two threads that free at once: the other has won.
    if (found != state.pool.end() && found->second.sequence == block.sequence) {
      freed_here = true;
      state.pool_bytes -= block.bytes;
      state.pool.erase(found);
      if (block.home == PoolBlock::Home::kSpecial) {
        release_memory(kernel, block);
        state.freed_pages += pages_of(block.base_bytes);
      }
      if (is_paged) release_memory(kernel, block);
      state.freed.push_back({memory, block, origin_of(frame)});
      while (state.freed.size() > kFreedKept || state.freed_pages > kFreedPagesKept) {
        const FreedBlock& oldest = state.freed.front();
        if (oldest.block.home == PoolBlock::Home::kSpecial) {
          const uint64_t pages = pages_of(oldest.block.base_bytes);
          state.freed_pages -= pages;
          state.arena->give_back(oldest.block.base, pages);
        }
        state.freed.pop_front();
      }
    }
  }
  if (freed_here && block.home != PoolBlock::Home::kSpecial && !is_paged)
    release_memory(kernel, block);
  if (tag != 0 && block.tag != tag) {
    kernel.violation("NT-09", function,
                     fmt::format("It was given tag '{}' ({:#010x}) for {}.", tag_text(tag), tag,
                                 block_text(kernel, memory, block)),
                     "A block is freed with the tag it was allocated with.",
                     "Free with the tag used to allocate, or with ExFreePool.");
  }
  return damage.has_value() ? overrun_text(kernel, memory, block, *damage) : std::string();
}

std::string bad_free_text(const Kernel& kernel, const char* function, const std::byte* memory) {
  return fmt::format("{} was given {}, which is {}.", function, fmt::ptr(memory),
                     what_it_is(kernel, memory));
}

// Findings of a bug check do not return, so no string may be alive except the one that is moved in.

void free_pool(const char* function, void* pointer, uint32_t tag) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  Kernel::Impl& state = kernel.impl();
  auto* const memory = static_cast<std::byte*>(pointer);
  require_irql(frame, function, kDispatchLevel);
  PoolBlock block;
  {
    runtime::MutexLock lock(state.memory_lock);
    const auto found = state.pool.find(memory);
    if (found != state.pool.end()) block = found->second;
  }
  if (block.sequence == 0) {
    kernel.bug_check("NT-08", function, 0xC2, 0x7, bad_free_text(kernel, function, memory),
                     "A driver frees each pool allocation once, by the address it got.",
                     "Look for a double free, or a pointer into the middle of an allocation.");
  }
  if (block.paged) require_irql(frame, function, kApcLevel);
  bool is_timer = false;
  if (std::string actual = queued_object_in(frame, memory, block, &is_timer); !actual.empty()) {
    kernel.bug_check(is_timer ? "NT-12" : "NT-13", function, 0xC7, is_timer ? 0 : 1,
                     std::move(actual),
                     "Memory that is freed holds nothing the kernel still has in a queue.",
                     is_timer ? "Cancel the timer and flush its DPC (KeCancelTimer, "
                                "KeFlushQueuedDpcs) before the memory goes."
                              : "Take the DPC out of its queue, or wait for it with "
                                "KeFlushQueuedDpcs, before the memory goes.");
  }
  if (std::string overrun = release_block(frame, function, memory, block, tag); !overrun.empty()) {
    kernel.bug_check("NT-10", function, 0x19, 0x20, std::move(overrun), kOverrunExpected,
                     kOverrunFix);
  }
}

/// Paged pool is not executable on x64 (NT-36). Neither of the other bits that a type may have
/// makes a difference.
PoolKind kind_of(uint32_t pool_type) {
  if ((pool_type & kPagedPoolBit) != 0) return PoolKind::kPaged;
  return (pool_type & kNonPagedPoolNx) == 0 ? PoolKind::kNonPagedExecutable : PoolKind::kNonPaged;
}

DXGKIT_NT_ABI void* ex_allocate_pool_with_tag(uint32_t pool_type, uint64_t bytes, uint32_t tag) {
  return allocate_pool("ExAllocatePoolWithTag", kind_of(pool_type), bytes, tag, false);
}

DXGKIT_NT_ABI void* ex_allocate_pool(uint32_t pool_type, uint64_t bytes) {
  return ex_allocate_pool_with_tag(pool_type, bytes, 0x656E6F4E);  // "None"
}

DXGKIT_NT_ABI void* ex_allocate_pool_zero(uint32_t pool_type, uint64_t bytes, uint32_t tag) {
  return allocate_pool("ExAllocatePoolZero", kind_of(pool_type), bytes, tag, true);
}

DXGKIT_NT_ABI void* ex_allocate_pool2(uint64_t flags, uint64_t bytes, uint32_t tag) {
  Kernel& kernel = CallFrame::current().kernel();
  const uint64_t kinds = flags & (kFlagNonPaged | kFlagNonPagedExecute | kFlagPaged);
  if (!is_power_of_two(kinds)) {
    kernel.violation("LIFE-20", "ExAllocatePool2", fmt::format("Flags are {:#x}.", flags),
                     "Exactly one of the paged, non-paged and executable flags is set.",
                     "Use POOL_FLAG_* values; POOL_TYPE values belong to ExAllocatePoolWithTag.");
    return nullptr;
  }
  const PoolKind kind = kinds == kFlagPaged             ? PoolKind::kPaged
                        : kinds == kFlagNonPagedExecute ? PoolKind::kNonPagedExecutable
                                                        : PoolKind::kNonPaged;
  void* memory =
      allocate_pool("ExAllocatePool2", kind, bytes, tag, (flags & kFlagUninitialized) == 0);
  if (memory == nullptr && (flags & kFlagRaise) != 0) {
    kernel.bug_check("LIFE-20", "ExAllocatePool2", 0x1E, 0,
                     "The allocation failed and POOL_FLAG_RAISE_ON_FAILURE was set.",
                     "A driver survives lack of memory.",
                     "Take the flag away and handle a null result.");
  }
  return memory;
}

DXGKIT_NT_ABI void ex_free_pool_with_tag(void* memory, uint32_t tag) {
  free_pool("ExFreePoolWithTag", memory, tag);
}
DXGKIT_NT_ABI void ex_free_pool(void* memory) { free_pool("ExFreePool", memory, 0); }

}  // namespace

std::string tag_text(uint32_t tag) {
  std::string text(4, ' ');
  for (size_t i = 0; i < 4; ++i) {
    const char letter = static_cast<char>(tag >> (8 * i) & 0xFFU);
    text[i] = letter >= 0x20 && letter < 0x7F ? letter : '.';
  }
  return text;
}

Origin origin_of(const CallFrame& frame) { return {frame.caller(), frame.name()}; }

std::string to_text(const Kernel& kernel, const Origin& origin) {
  if (origin.caller == nullptr) return origin.ddi;
  const verifier::Place place = kernel.place_of(origin.caller);
  if (!place.symbol.empty()) return fmt::format("{} in {}", place.symbol, origin.ddi);
  return fmt::format("{}+{:#x} in {}", place.image, place.rva, origin.ddi);
}

uint64_t physical_of(const Kernel& kernel, const void* pointer) {
  if (const uint64_t physical = kernel.machine().physical_of(pointer).value; physical != 0)
    return physical;
  const Kernel::Impl& state = kernel.impl();
  const uint64_t physical = state.pool_pages.physical_of(pointer);
  if (physical == 0) return 0;
  // Special pool has paged blocks too.
  runtime::MutexLock lock(state.memory_lock);
  const auto behind = state.pool.upper_bound(pointer);
  return behind != state.pool.begin() && std::prev(behind)->second.paged ? 0 : physical;
}

// --- special pool

SpecialArena::SpecialArena(PoolPages& pages, uint64_t bytes) : pages_(pages), bytes_(bytes) {
  void* const memory =
      map_fixed(FixedRange::kMemory, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  DXGKIT_CHECK(memory != MAP_FAILED);
  start_ = reinterpret_cast<uint64_t>(memory);
  used_ = kPageBytes;  // the first block has an inaccessible page before it too
}

SpecialArena::~SpecialArena() { unmap_fixed(reinterpret_cast<void*>(start_), bytes_); }

std::byte* SpecialArena::take(uint64_t page_count) {
  std::byte* first = nullptr;
  if (const auto known = free_.find(page_count); known != free_.end() && !known->second.empty()) {
    first = known->second.back();
    known->second.pop_back();
  } else {
    if (page_count >= (bytes_ - used_) / kPageBytes) return nullptr;
    first = reinterpret_cast<std::byte*>(start_ + used_);
    used_ += (page_count + 1) * kPageBytes;
  }
  if (pages_.show(first, page_count)) return first;
  give_back(first, page_count);  // the system has no more mappings to give
  return nullptr;
}

void SpecialArena::close(std::byte* first, uint64_t page_count) { pages_.hide(first, page_count); }

void SpecialArena::give_back(std::byte* first, uint64_t page_count) {
  free_[page_count].push_back(first);
}

std::unique_ptr<SpecialArena> make_special_arena(PoolPages& pages) {
  return std::make_unique<SpecialArena>(pages, kArenaBytes);
}

bool Kernel::is_special_pool(const void* address) const {
  return impl_->arena != nullptr && impl_->arena->contains(reinterpret_cast<uint64_t>(address));
}

std::optional<PoolFault> describe_pool_fault(const Kernel& kernel, const CallFrame& frame,
                                             uint64_t address) {
  const Kernel::Impl& state = kernel.impl();
  if (state.arena == nullptr || !state.arena->contains(address)) return std::nullopt;
  const auto* const at = reinterpret_cast<const std::byte*>(address);
  runtime::MutexLock lock(state.memory_lock);
  for (auto freed = state.freed.rbegin(); freed != state.freed.rend(); ++freed) {
    if (freed->block.home != PoolBlock::Home::kSpecial || at < freed->block.base ||
        at >= freed->block.base + freed->block.base_bytes)
      continue;
    const int64_t offset = at - freed->memory;
    return PoolFault{
        "NT-11", 0xCC,
        fmt::format("{} touched {:#x}, {} bytes {} {}; {} freed it.", frame.name(), address,
                    offset < 0 ? -offset : offset, offset < 0 ? "before" : "into",
                    block_text(kernel, freed->memory, freed->block), to_text(kernel, freed->freed)),
        "A block is not touched after it was freed.",
        "Find who keeps the pointer: stop timers, DPCs and threads that use it before the free."};
  }
  // The live block that ends before, or starts behind, the touched page.
  auto next = state.pool.upper_bound(at);
  if (next != state.pool.begin()) {
    const auto before = std::prev(next);
    const auto* const start = static_cast<const std::byte*>(before->first);
    const PoolBlock& block = before->second;
    if (block.home == PoolBlock::Home::kSpecial &&
        at < block.base + block.base_bytes + kPageBytes) {
      return PoolFault{"NT-10", 0xCD,
                       fmt::format("{} touched {:#x}, {} bytes behind the end of {}.", frame.name(),
                                   address, static_cast<uint64_t>(at - start) - block.bytes,
                                   block_text(kernel, start, block)),
                       kOverrunExpected, "Compare the size asked for with what is touched."};
    }
  }
  if (next != state.pool.end() && next->second.home == PoolBlock::Home::kSpecial &&
      at + kPageBytes >= next->second.base) {
    const auto* const start = static_cast<const std::byte*>(next->first);
    return PoolFault{"NT-10", 0xCD,
                     fmt::format("{} touched {:#x}, {} bytes before the start of {}.", frame.name(),
                                 address, start - at, block_text(kernel, start, next->second)),
                     kOverrunExpected, "Look for a negative index or offset."};
  }
  return PoolFault{"NT-11", 0xCC,
                   fmt::format("{} touched {:#x}, where pool was that was freed long ago.",
                               frame.name(), address),
                   "A block is not touched after it was freed.", "Find who keeps the pointer."};
}

std::string block_text_at(const Kernel& kernel, uint64_t address) {
  const Kernel::Impl& state = kernel.impl();
  const auto* const at = reinterpret_cast<const std::byte*>(address);
  runtime::MutexLock lock(state.memory_lock);
  auto next = state.pool.upper_bound(at);
  if (next == state.pool.begin()) return {};
  --next;
  const PoolBlock& block = next->second;
  if (at >= block.base + block.base_bytes) return {};
  return block_text(kernel, static_cast<const std::byte*>(next->first), block);
}

size_t report_pool_overruns(Kernel& kernel, const char* when) {
  std::map<uint64_t, std::string> texts;  // in order of allocation
  {
    runtime::MutexLock lock(kernel.impl().memory_lock);
    for (const auto& [address, block] : kernel.impl().pool) {
      const auto* const memory = static_cast<const std::byte*>(address);
      if (const auto damage = overwritten(memory, block); damage.has_value())
        texts.emplace(block.sequence, overrun_text(kernel, memory, block, *damage));
    }
  }
  for (const auto& [sequence, text] : texts) {
    kernel.violation("NT-10", "DxgkDdiUnload", fmt::format("{}: {}", when, text), kOverrunExpected,
                     kOverrunFix);
  }
  return texts.size();
}

void set_allocation_fault(Kernel& kernel, std::function<bool(std::string_view routine)> fails) {
  kernel.impl().allocation_fault = std::move(fails);
}

void free_leaked_pool(Kernel& kernel) {
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.memory_lock);
  // This only frees, so the order has no visible effect, and address order is harmless.
  for (const auto& [address, block] : state.pool) {
    release_memory(kernel, block);
    if (block.home == PoolBlock::Home::kSpecial)
      state.arena->give_back(block.base, pages_of(block.base_bytes));
  }
  for (const FreedBlock& freed : state.freed) {
    if (freed.block.home == PoolBlock::Home::kSpecial)
      state.arena->give_back(freed.block.base, pages_of(freed.block.base_bytes));
  }
  state.pool.clear();
  state.freed.clear();
  state.freed_pages = 0;
  state.pool_bytes = 0;
}

std::span<const Export> pool_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("ExAllocatePool", ex_allocate_pool, kSupported, ""),
      DXGKIT_EXPORT("ExAllocatePool2", ex_allocate_pool2, kSupported, ""),
      DXGKIT_EXPORT("ExAllocatePoolWithTag", ex_allocate_pool_with_tag, kSupported, ""),
      DXGKIT_EXPORT("ExAllocatePoolZero", ex_allocate_pool_zero, kSupported, ""),
      DXGKIT_EXPORT("ExFreePool", ex_free_pool, kSupported, ""),
      DXGKIT_EXPORT("ExFreePoolWithTag", ex_free_pool_with_tag, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
