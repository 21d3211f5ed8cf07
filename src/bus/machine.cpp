#include "bus/machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/fixed_memory.h"
#include "base/spin_lock.h"
#include "bus/cpu_access.h"
#include "bus/hardware_pages.h"
#include "bus/memory_object.h"
#include "bus/page_allocator.h"
#include "bus/page_owners.h"
#include "bus/pci_function.h"
#include "runtime/sync.h"

namespace dxgkit::bus {

namespace {

constexpr uint64_t kFirstFrame = Machine::kSystemMemoryBase / kPageBytes;
constexpr uint64_t kRegisterPages =
    (Machine::kRegisterBarLimit - Machine::kRegisterBarBase) / kPageBytes;
static_assert(Machine::kSystemMemoryLimit <= Machine::kMemoryBarBase);
static_assert(Machine::kRegisterBarLimit <= Machine::kSystemMemoryBase);
static_assert(Machine::kLowMemoryLimit <= Machine::kAgpApertureBase);
static_assert(Machine::kPortLimit <= Machine::kPoolMemoryBase);
static_assert(Machine::kPoolMemoryBase + Machine::kPoolMemoryBytes <= Machine::kLowMemoryBase);
constexpr uint64_t kFirstLowFrame = Machine::kLowMemoryBase / kPageBytes;
constexpr uint64_t kFirstPoolFrame = Machine::kPoolMemoryBase / kPageBytes;
constexpr uint64_t kPortBytesLeast = 4, kPortBytesMost = 256;

/// One plugged-in register BAR. Kept until the machine ends, so that a late access never meets
/// freed memory.
struct RegisterBar {
  uint64_t base = 0;
  uint64_t size = 0;
  std::atomic<MmioHandler*> handler{nullptr};  // null: unplugged
  std::atomic<uint32_t> mappings{0};           // map_io calls without their unmap_io
  const std::atomic<bool>* asleep = nullptr;   // of its function, which lives while there is one
};

struct BarSlot {
  PciFunction* function = nullptr;
  BarKind kind = BarKind::kNone;
  uint64_t size = 0;
  MemoryWindow memory;
  RegisterBar* registers = nullptr;
};

struct IoMapping {
  const PciFunction* function = nullptr;  // if its pages fault once it has left
  uint64_t size = 0;                      // as asked
  RegisterBar* registers = nullptr;       // or null: a real mapping
  void* mapped = nullptr;
  uint64_t mapped_size = 0;
};

using Runs = std::vector<std::pair<uint64_t, uint64_t>>;  // first page, count
using BarMap = std::map<uint64_t, BarSlot>;               // by base address

bool bars_are_sound(std::span<const Bar> bars) {
  for (size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    if (bar.kind == BarKind::kNone) continue;
    if (!is_power_of_two(bar.size)) return false;
    if (bar.kind == BarKind::kPorts) {
      if (bar.size < kPortBytesLeast || bar.size > kPortBytesMost) return false;
    } else if (bar.size < kPageBytes) {
      return false;
    }
    if (bar.kind == BarKind::kMemory) {
      if (bar.memory.fd < 0) return false;
      if (bar.memory.size < bar.size) return false;
      if (bar.memory.offset % kPageBytes != 0) return false;
    } else if (bar.registers == nullptr) {
      return false;
    }
    if (!is_wide(bar)) continue;
    if (i + 1 >= kBarsMax) return false;
    if (i + 1 < bars.size() && bars[i + 1].kind != BarKind::kNone) return false;
  }
  return true;
}

/// Lowest naturally aligned hole of [base, limit) between the taken ranges.
std::optional<uint64_t> find_hole(const BarMap& taken, uint64_t size, uint64_t base,
                                  uint64_t limit) {
  uint64_t candidate = align_up(base, size);
  for (auto it = taken.lower_bound(base); it != taken.end() && it->first < limit; ++it) {
    if (range_within(candidate, size, it->first)) break;
    candidate = align_up(std::max(candidate, it->first + it->second.size), size);
  }
  if (!range_within(candidate, size, limit)) return std::nullopt;
  return candidate;
}

}  // namespace

struct Machine::Impl {
  Impl(uint64_t bytes, uint64_t low_bytes)
      : size(bytes),
        low_size(low_bytes),
        pages(bytes / kPageBytes),
        low_pages(low_bytes / kPageBytes),
        pool_pages(kPoolMemoryBytes / kPageBytes),
        dirty((bytes + low_bytes) / kPageBytes) {
    // Small machines have memory objects of one size, and so the same addresses in the same order,
    // whether an object is new or was given back by another machine.
    constexpr uint64_t kSmall = uint64_t{64} << 20;
    object = make_memory_object("dxgkit-system-memory", std::max(size + low_size, kSmall),
                                kPoolMemoryBytes, MappedAt::kFixedRange);
    fd = object.fd;
    memory = object.memory;
    // Drivers see pool at other addresses, where it has a mapping of its own.
    pool_memory = object.tail;
    if (object.bytes == kSmall && keeps_memory_objects()) touched = TouchedPages(object);
  }

  uint64_t size;
  uint64_t low_size;  // behind `size` in the memory object and where it is mapped
  std::function<bool(uint64_t)> page_fault;
  OutsideMemory* outside = nullptr;  // null: `memory` is system memory
  MemoryObject object;
  int fd = -1;
  std::byte* memory = nullptr;
  std::byte* pool_memory = nullptr;  // the pool window, the tail of the memory object
  TouchedPages touched;              // watches nothing if the object will not be kept
  // Address space that mirrors [kRegisterBarBase, kRegisterBarLimit): a pointer into it names a
  // register by arithmetic. Never accessible.
  std::byte* register_arena = nullptr;
  // By page of the arena: the function that decodes it. Zero pages until used.
  std::atomic<RegisterBar*>* register_pages = nullptr;

  // Leaf lock: no handler is called with it held.
  mutable runtime::Mutex mutex;
  PageAllocator pages DXGKIT_GUARDED_BY(mutex);
  PageAllocator low_pages DXGKIT_GUARDED_BY(mutex);
  // Pool is taken at places that must be no scheduling point.
  SpinLock pool_lock;
  PageAllocator pool_pages;
  // By page of the memory object, the low window behind the rest. A page never handed out yet still
  // has the zeroes the system gave us.
  std::vector<bool> dirty DXGKIT_GUARDED_BY(mutex);
  BarMap bars DXGKIT_GUARDED_BY(mutex);
  std::vector<PciFunction*> functions DXGKIT_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<RegisterBar>> register_bars DXGKIT_GUARDED_BY(mutex);
  std::multimap<uintptr_t, IoMapping> mappings DXGKIT_GUARDED_BY(mutex);
  std::atomic<uint64_t> lost_accesses{0}, sleeping_accesses{0};  // counts, nothing hangs on them
  PageOwners owners DXGKIT_GUARDED_BY(mutex);
  // Whether there ever was one: without, the memory object of a page is found without a lock.
  std::atomic<bool> has_owned{false};
  std::atomic<bool> is_fixed{false};

  // AGP. Set up before anything runs; entries are bus addresses of pages, 0 where nothing is shown.
  const PciFunction* agp_master = nullptr;
  AgpAperture agp;
  Gart gart = Gart::kNone;
  std::vector<std::atomic<uint64_t>> gart_entries;

  /// Marks [first, first + count) handed out; appends the runs that must be zeroed.
  void take_dirty(uint64_t first, uint64_t count, Runs& runs) DXGKIT_REQUIRES(mutex) {
    touched.touch(first * kPageBytes, count * kPageBytes);
    for (uint64_t page = first; page < first + count; ++page) {
      if (!dirty[page]) {
        dirty[page] = true;
        continue;
      }
      if (!runs.empty() && runs.back().first + runs.back().second == page) {
        ++runs.back().second;
      } else {
        runs.emplace_back(page, 1);
      }
    }
  }

  void zero(const Runs& runs) const {
    for (const auto& [page, count] : runs) {
      std::memset(memory + page * kPageBytes, 0, count * kPageBytes);
    }
  }

  /// Gives the memory object back, unless others have mapped parts of it or put theirs in its
  /// place.
  void end_memory() {
    if (!touched.watches() || is_fixed.load() || has_owned.load())
      return end_memory_object(object, MappedAt::kFixedRange);
    give_back(object, MappedAt::kFixedRange, touched.ranges());
  }

  /// Offset of a page in the memory object, in pages. It is system memory.
  uint64_t index_of(PageFrame page) const {
    return page.value >= kFirstFrame ? page.value - kFirstFrame
                                     : size / kPageBytes + page.value - kFirstLowFrame;
  }
  /// Offset of an address in the memory object; nullopt unless all of it is system memory.
  std::optional<uint64_t> offset_of(uint64_t address, uint64_t bytes) const {
    const uint64_t offset = address - kSystemMemoryBase;  // wraps below the base: too large then
    if (offset < size) {
      if (bytes > size - offset) return std::nullopt;
      return offset;
    }
    const uint64_t low = address - kLowMemoryBase;
    if (low < low_size) {
      if (bytes > low_size - low) return std::nullopt;
      return size + low;
    }
    const uint64_t pool = address - kPoolMemoryBase;
    if (pool >= kPoolMemoryBytes || bytes > kPoolMemoryBytes - pool) return std::nullopt;
    return object.bytes + pool;
  }
  /// Where that offset is mapped.
  std::byte* at(uint64_t offset) const {
    return offset < object.bytes ? memory + offset : pool_memory + (offset - object.bytes);
  }
  void release(uint64_t first, uint64_t count) DXGKIT_REQUIRES(mutex) {
    if (first >= kFirstFrame) return pages.release(first - kFirstFrame, count);
    DXGKIT_CHECK(first >= kFirstLowFrame);
    low_pages.release(first - kFirstLowFrame, count);
  }
  /// Frees runs of pages, those of others by their owners.
  void free(std::span<const Runs::value_type> runs) {
    std::vector<PageOwners::Returned> returned;
    {
      const runtime::MutexLock lock(mutex);
      for (const auto& [first, count] : runs) {
        if (owners.empty()) {
          release(first, count);
          continue;
        }
        owners.split(first, count, returned,
                     [this](uint64_t at, uint64_t some)
                         DXGKIT_REQUIRES(mutex) { release(at, some); });
      }
    }
    for (const PageOwners::Returned& run : returned)
      run.owner->release(PageFrame{run.first}, run.count);
  }

  /// The first frame, or nullopt.
  std::optional<uint64_t> take_contiguous(uint64_t count, uint64_t alignment, uint64_t highest)
      DXGKIT_REQUIRES(mutex) {
    if (highest >= kSystemMemoryBase + size - 1) {
      const auto first = pages.allocate_contiguous(count, alignment, kFirstFrame);
      return first.has_value() ? std::optional(kFirstFrame + *first) : std::nullopt;
    }
    // Pages end at or before the byte behind `highest`.
    const uint64_t end_frame = (highest + 1) / kPageBytes;
    if (end_frame > kFirstFrame) {
      const auto first =
          pages.allocate_contiguous(count, alignment, kFirstFrame, end_frame - kFirstFrame);
      if (first.has_value()) return kFirstFrame + *first;
    }
    if (end_frame <= kFirstLowFrame) return std::nullopt;
    const auto first =
        low_pages.allocate_contiguous(count, alignment, kFirstLowFrame, end_frame - kFirstLowFrame);
    return first.has_value() ? std::optional(kFirstLowFrame + *first) : std::nullopt;
  }

  /// The function that decodes the pages of a register BAR.
  void set_decoder(const RegisterBar& bar, RegisterBar* decoder) {
    const uint64_t first = (bar.base - kRegisterBarBase) / kPageBytes;
    for (uint64_t page = 0; page < bar.size / kPageBytes; ++page)
      register_pages[first + page].store(decoder, std::memory_order_release);
  }

  bool in_arena(const volatile void* pointer) const {
    const auto at = std::bit_cast<uintptr_t>(pointer);
    const auto start = std::bit_cast<uintptr_t>(register_arena);
    return at - start < kRegisterPages * kPageBytes;
  }

  /// The mapped BAR that holds the whole access behind a pointer into the arena, or null.
  const RegisterBar* window(const volatile void* pointer, uint32_t size_bytes,
                            uint64_t* offset) const {
    const uint64_t at =
        std::bit_cast<uintptr_t>(pointer) - std::bit_cast<uintptr_t>(register_arena);
    const RegisterBar* bar = register_pages[at / kPageBytes].load(std::memory_order_acquire);
    if (bar == nullptr) return nullptr;
    if (bar->mappings.load(std::memory_order_acquire) == 0) return nullptr;
    *offset = kRegisterBarBase + at - bar->base;
    return range_within(*offset, size_bytes, bar->size) ? bar : nullptr;
  }
  /// The handler and offset behind a pointer into the arena, null where nothing answers the whole
  /// access.
  MmioHandler* decode(const volatile void* pointer, uint32_t size_bytes, uint64_t* offset) {
    const RegisterBar* bar = window(pointer, size_bytes, offset);
    MmioHandler* handler = bar == nullptr ? nullptr : bar->handler.load(std::memory_order_acquire);
    note_access(handler, bar);
    return handler;
  }
  /// Counts what a driver should not have done.
  void note_access(const MmioHandler* handler, const RegisterBar* bar) {
    if (handler == nullptr) {
      lost_accesses.fetch_add(1, std::memory_order_relaxed);
    } else if (bar->asleep->load(std::memory_order_relaxed)) {
      sleeping_accesses.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void silence(const PciFunction& function) DXGKIT_REQUIRES(mutex) {
    for (const auto& [address, slot] : bars) {
      if (slot.function == &function && slot.registers != nullptr)
        slot.registers->handler.store(nullptr, std::memory_order_release);
    }
  }

  /// The handler and offset behind a port, null where nothing answers the whole access.
  MmioHandler* decode_port(uint64_t port, uint32_t size_bytes, uint64_t* offset) {
    if (!is_access_size(size_bytes) || size_bytes == 8 || port >= kPortLimit) return nullptr;
    const runtime::MutexLock lock(mutex);
    const auto bar = find_bar(port, size_bytes);
    MmioHandler* handler = nullptr;
    const RegisterBar* registers = nullptr;
    if (bar != bars.end()) {
      *offset = port - bar->first;
      registers = bar->second.registers;
      handler = registers->handler.load(std::memory_order_acquire);
    }
    note_access(handler, registers);
    return handler;
  }

  /// The BAR that holds all of [address, address + size), or end. size > 0.
  BarMap::const_iterator find_bar(uint64_t address, uint64_t bytes) const DXGKIT_REQUIRES(mutex) {
    auto after = bars.upper_bound(address);
    if (after == bars.begin()) return bars.end();
    const auto bar = std::prev(after);
    return range_within(address - bar->first, bytes, bar->second.size) ? bar : bars.end();
  }
};

Machine::Machine(uint64_t system_memory_bytes, uint64_t low_memory_bytes) {
  DXGKIT_CHECK(system_memory_bytes > 0);
  DXGKIT_CHECK(system_memory_bytes <= kSystemMemoryLimit - kSystemMemoryBase);
  DXGKIT_CHECK(low_memory_bytes <= kLowMemoryLimit - kLowMemoryBase);
  impl_ = std::make_unique<Impl>(align_up(system_memory_bytes, kPageBytes),
                                 align_up(low_memory_bytes, kPageBytes));
  void* arena = map_fixed(FixedRange::kMemory, kRegisterPages * kPageBytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  DXGKIT_CHECK(arena != MAP_FAILED);
  impl_->register_arena = static_cast<std::byte*>(arena);
  void* table = mmap(nullptr, kRegisterPages * sizeof(std::atomic<RegisterBar*>),
                     PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  DXGKIT_CHECK(table != MAP_FAILED);
  // Zero bytes are null pointers on every platform we run on.
  impl_->register_pages = static_cast<std::atomic<RegisterBar*>*>(table);
}

Machine::~Machine() {
  for (const auto& [pointer, mapping] : impl_->mappings) {
    if (mapping.mapped != nullptr) unmap_fixed(mapping.mapped, mapping.mapped_size);
  }
  for (PciFunction* function : impl_->functions) function->impl_->machine = nullptr;
  munmap(impl_->register_pages, kRegisterPages * sizeof(std::atomic<RegisterBar*>));
  unmap_fixed(impl_->register_arena, kRegisterPages * kPageBytes);
  impl_->end_memory();
}

Machine::Machine(OutsideMemory& memory) : Machine(kPageBytes) {
  impl_->outside = &memory;
  // Its own page is at an address that means something else to the other process.
  impl_->page_fault = [](uint64_t) { return true; };
}

// --- functions

Status Machine::add_function(PciFunction& function) {
  PciFunction::Impl& plugged = *function.impl_;
  const runtime::MutexLock lock(impl_->mutex);
  if (plugged.machine != nullptr) return Status::kInvalidParameter;
  if (!bars_are_sound(plugged.bars)) return Status::kInvalidParameter;
  BarMap wanted = impl_->bars;  // a copy, so that a failure changes nothing
  std::vector<PhysicalAddress> bases(plugged.bars.size());
  for (size_t i = 0; i < plugged.bars.size(); ++i) {
    const Bar& bar = plugged.bars[i];
    if (bar.kind == BarKind::kNone) continue;
    const auto [lowest, limit] = bar.kind == BarKind::kPorts ? std::pair(kPortBase, kPortLimit)
                                 : bar.kind == BarKind::kRegisters
                                     ? std::pair(kRegisterBarBase, kRegisterBarLimit)
                                     : std::pair(kMemoryBarBase, kMemoryBarLimit);
    const std::optional<uint64_t> base = find_hole(wanted, bar.size, lowest, limit);
    if (!base.has_value()) return Status::kInsufficientResources;
    bases[i] = PhysicalAddress{*base};
    wanted.emplace(*base, BarSlot{&function, bar.kind, bar.size, bar.memory, nullptr});
  }
  for (size_t i = 0; i < plugged.bars.size(); ++i) {
    const Bar& bar = plugged.bars[i];
    if (bar.kind != BarKind::kRegisters && bar.kind != BarKind::kPorts) continue;
    auto decoder = std::make_unique<RegisterBar>();
    decoder->base = bases[i].value;
    decoder->size = bar.size;
    decoder->handler.store(bar.registers, std::memory_order_release);
    decoder->asleep = &plugged.asleep;
    wanted.at(decoder->base).registers = decoder.get();
    if (bar.kind == BarKind::kRegisters) impl_->set_decoder(*decoder, decoder.get());
    impl_->register_bars.push_back(std::move(decoder));
  }
  impl_->bars = std::move(wanted);
  impl_->functions.push_back(&function);
  plugged.machine = this;
  plugged.publish(bases);
  return Status::kSuccess;
}

void Machine::silence(PciFunction& function) {
  const runtime::MutexLock lock(impl_->mutex);
  if (function.impl_->machine == this) impl_->silence(function);
}

void Machine::pull_out(PciFunction& function) {
  const runtime::MutexLock lock(impl_->mutex);
  if (function.impl_->machine != this) return;
  impl_->silence(function);
  function.impl_->gone.store(true, std::memory_order_release);
  for (const auto& [pointer, mapping] : impl_->mappings) {
    if (mapping.function == &function) show_ones(mapping.mapped, mapping.mapped_size);
  }
}

void Machine::remove_function(PciFunction& function) {
  const runtime::MutexLock lock(impl_->mutex);
  if (function.impl_->machine != this) return;
  for (auto it = impl_->bars.begin(); it != impl_->bars.end();) {
    if (it->second.function != &function) {
      ++it;
      continue;
    }
    if (RegisterBar* decoder = it->second.registers) {
      decoder->handler.store(nullptr, std::memory_order_release);
      if (it->second.kind == BarKind::kRegisters) impl_->set_decoder(*decoder, nullptr);
    }
    it = impl_->bars.erase(it);
  }
  std::erase(impl_->functions, &function);
  function.impl_->machine = nullptr;
  function.impl_->publish({});
}

// --- system pages

void Machine::set_page_fault(std::function<bool(uint64_t count)> fails) {
  impl_->page_fault = std::move(fails);
}

Result<PageFrame> Machine::allocate_contiguous(uint64_t count, uint64_t alignment,
                                               uint64_t highest) {
  if (count == 0) return Error(Status::kInvalidParameter);
  if (!is_power_of_two(alignment)) return Error(Status::kInvalidParameter);
  if (impl_->page_fault && impl_->page_fault(count)) return Error(Status::kNoMemory);
  std::optional<uint64_t> first;
  Runs runs;
  {
    const runtime::MutexLock lock(impl_->mutex);
    const uint64_t alignment_pages = std::max<uint64_t>(alignment / kPageBytes, 1);
    first = impl_->take_contiguous(count, alignment_pages, highest);
    if (!first.has_value()) return Error(Status::kNoMemory);
    impl_->take_dirty(impl_->index_of(PageFrame{*first}), count, runs);
  }
  impl_->zero(runs);  // ours already: no lock needed
  return PageFrame{*first};
}

Result<PageFrame> Machine::allocate_pool_pages(uint64_t count) {
  if (count == 0) return Error(Status::kInvalidParameter);
  const SpinGuard guard(impl_->pool_lock);
  const auto first = impl_->pool_pages.allocate_contiguous(count);
  if (!first.has_value()) return Error(Status::kNoMemory);
  impl_->touched.touch(impl_->object.bytes + *first * kPageBytes, count * kPageBytes);
  return PageFrame{kFirstPoolFrame + *first};
}

void Machine::free_pool_pages(PageFrame first, uint64_t count) {
  DXGKIT_CHECK(first.value >= kFirstPoolFrame);
  const SpinGuard guard(impl_->pool_lock);
  impl_->pool_pages.release(first.value - kFirstPoolFrame, count);
}

void Machine::free_contiguous(PageFrame first, uint64_t count) {
  const Runs::value_type run{first.value, count};
  impl_->free({&run, 1});
}

Result<std::vector<PageFrame>> Machine::allocate_pages(uint64_t count) {
  if (count == 0) return std::vector<PageFrame>{};
  if (impl_->page_fault && impl_->page_fault(count)) return Error(Status::kNoMemory);
  std::vector<uint64_t> indices;
  Runs runs;
  {
    const runtime::MutexLock lock(impl_->mutex);
    if (!impl_->pages.allocate_scattered(count, indices)) return Error(Status::kNoMemory);
    for (const uint64_t index : indices) impl_->take_dirty(index, 1, runs);
  }
  impl_->zero(runs);
  std::vector<PageFrame> frames;
  frames.reserve(indices.size());
  for (const uint64_t index : indices) frames.emplace_back(kFirstFrame + index);
  return frames;
}

void Machine::free_pages(std::span<const PageFrame> pages) {
  Runs runs;
  for (const PageFrame page : pages) {
    if (!runs.empty() && runs.back().first + runs.back().second == page.value)
      ++runs.back().second;
    else
      runs.emplace_back(page.value, 1);
  }
  impl_->free(runs);
}

void Machine::set_owner(PageFrame first, uint64_t count, int fd, std::shared_ptr<PageOwner> owner) {
  const runtime::MutexLock lock(impl_->mutex);
  impl_->owners.add(first.value, count, fd, std::move(owner));
  impl_->has_owned.store(true, std::memory_order_release);
}

void Machine::clear_owner(PageFrame first) {
  std::shared_ptr<PageOwner> last;  // may end here, without the lock
  const runtime::MutexLock lock(impl_->mutex);
  last = impl_->owners.remove(first.value);
}

void Machine::fix_system_memory() { impl_->is_fixed.store(true); }
bool Machine::system_memory_is_fixed() const {
  return impl_->is_fixed.load() || impl_->outside != nullptr;
}

PhysicalAddress Machine::highest_system_address() const {
  return PhysicalAddress{kSystemMemoryBase + impl_->size - 1};
}

uint64_t Machine::low_memory_bytes() const { return impl_->low_size; }

uint64_t Machine::free_page_count() const {
  const runtime::MutexLock lock(impl_->mutex);
  return impl_->pages.free_count();
}

// --- access

std::byte* Machine::system_pointer(PhysicalAddress address, uint64_t size) {
  if (impl_->outside != nullptr) return impl_->outside->pointer(address, size);
  const std::optional<uint64_t> offset = impl_->offset_of(address.value, size);
  if (!offset.has_value()) return nullptr;
  impl_->touched.touch(*offset, size);  // a device may write where no page was handed out
  return impl_->at(*offset);
}

PhysicalAddress Machine::physical_of(const void* pointer) const {
  const uint64_t offset =
      std::bit_cast<uintptr_t>(pointer) - std::bit_cast<uintptr_t>(impl_->memory);
  if (offset < impl_->size) return PhysicalAddress{kSystemMemoryBase + offset};
  if (offset - impl_->size >= impl_->low_size) return PhysicalAddress{0};
  return PhysicalAddress{kLowMemoryBase + (offset - impl_->size)};
}

MemoryWindow Machine::window_of(PhysicalAddress address, uint64_t size) const {
  if (size == 0) return {};
  if (const auto offset = impl_->offset_of(address.value, size); offset.has_value()) {
    if (impl_->outside != nullptr) return {};
    if (!impl_->has_owned.load(std::memory_order_acquire)) return {impl_->fd, *offset, size};
    const runtime::MutexLock lock(impl_->mutex);
    const PageOwners::Found found = impl_->owners.find(address.value / kPageBytes);
    // Never part of one memory object and part of another.
    if (found.until < (address.value + size + kPageBytes - 1) / kPageBytes) return {};
    if (found.owner == nullptr) return {impl_->fd, *offset, size};
    return {found.fd, address.value - found.first * kPageBytes, size};
  }
  const runtime::MutexLock lock(impl_->mutex);
  const auto bar = impl_->find_bar(address.value, size);
  if (bar == impl_->bars.end()) return {};
  if (bar->second.kind != BarKind::kMemory) return {};
  return {bar->second.memory.fd, bar->second.memory.offset + (address.value - bar->first), size};
}

void* Machine::map_io(PhysicalAddress address, uint64_t size) {
  if (size == 0) return nullptr;
  const runtime::MutexLock lock(impl_->mutex);
  const auto bar = impl_->find_bar(address.value, size);
  if (bar == impl_->bars.end()) return nullptr;
  if (bar->second.kind == BarKind::kPorts) return nullptr;  // no address of memory space
  IoMapping mapping;
  mapping.size = size;
  std::byte* pointer = nullptr;
  if (bar->second.kind == BarKind::kRegisters) {
    mapping.registers = bar->second.registers;
    mapping.registers->mappings.fetch_add(1, std::memory_order_acq_rel);
    pointer = impl_->register_arena + (address.value - kRegisterBarBase);
  } else {
    const uint64_t offset = bar->second.memory.offset + (address.value - bar->first);
    const uint64_t skew = offset % kPageBytes;
    mapping.mapped_size = align_up(size + skew, kPageBytes);
    mapping.mapped = map_fixed(FixedRange::kMemory, mapping.mapped_size, PROT_READ | PROT_WRITE,
                               MAP_SHARED, bar->second.memory.fd, offset - skew);
    if (mapping.mapped == MAP_FAILED) return nullptr;
    if (is_hardware(bar->second.memory)) {
      mapping.function = bar->second.function;
      if (!mapping.function->present()) show_ones(mapping.mapped, mapping.mapped_size);
    }
    pointer = static_cast<std::byte*>(mapping.mapped) + skew;
  }
  impl_->mappings.emplace(std::bit_cast<uintptr_t>(pointer), mapping);
  return pointer;
}

bool Machine::unmap_io(void* pointer, uint64_t size) {
  const runtime::MutexLock lock(impl_->mutex);
  const auto [first, last] = impl_->mappings.equal_range(std::bit_cast<uintptr_t>(pointer));
  for (auto it = first; it != last; ++it) {
    if (it->second.size != size) continue;
    if (it->second.registers != nullptr) {
      it->second.registers->mappings.fetch_sub(1, std::memory_order_acq_rel);
    } else {
      unmap_fixed(it->second.mapped, it->second.mapped_size);
    }
    impl_->mappings.erase(it);
    return true;
  }
  return false;
}

uint64_t Machine::read_register(const volatile void* pointer, uint32_t size_bytes) {
  if (!is_access_size(size_bytes)) return ~uint64_t{0};
  if (impl_->in_arena(pointer)) {
    uint64_t offset = 0;
    MmioHandler* handler = impl_->decode(pointer, size_bytes, &offset);
    if (handler == nullptr) return all_ones(size_bytes);
    return handler->mmio_read(offset, size_bytes) & all_ones(size_bytes);
  }
  switch (size_bytes) {
    case 1:
      return load<uint8_t>(pointer);
    case 2:
      return load<uint16_t>(pointer);
    case 4:
      return load<uint32_t>(pointer);
    default:
      return load<uint64_t>(pointer);
  }
}

void Machine::write_register(volatile void* pointer, uint32_t size_bytes, uint64_t value) {
  if (!is_access_size(size_bytes)) return;
  if (impl_->in_arena(pointer)) {
    uint64_t offset = 0;
    MmioHandler* handler = impl_->decode(pointer, size_bytes, &offset);
    if (handler != nullptr) handler->mmio_write(offset, size_bytes, value & all_ones(size_bytes));
    return;
  }
  switch (size_bytes) {
    case 1:
      return store<uint8_t>(pointer, value);
    case 2:
      return store<uint16_t>(pointer, value);
    case 4:
      return store<uint32_t>(pointer, value);
    default:
      return store<uint64_t>(pointer, value);
  }
}

uint64_t Machine::read_port(uint64_t port, uint32_t size_bytes) {
  uint64_t offset = 0;
  MmioHandler* const handler = impl_->decode_port(port, size_bytes, &offset);
  if (handler == nullptr) return all_ones(size_bytes);
  return handler->mmio_read(offset, size_bytes) & all_ones(size_bytes);
}

void Machine::write_port(uint64_t port, uint32_t size_bytes, uint64_t value) {
  uint64_t offset = 0;
  MmioHandler* const handler = impl_->decode_port(port, size_bytes, &offset);
  if (handler != nullptr) handler->mmio_write(offset, size_bytes, value & all_ones(size_bytes));
}

uint64_t Machine::lost_register_accesses() const {
  return impl_->lost_accesses.load(std::memory_order_relaxed);
}

uint64_t Machine::sleeping_register_accesses() const {
  return impl_->sleeping_accesses.load(std::memory_order_relaxed);
}

bool Machine::is_register(const volatile void* pointer) const {
  uint64_t offset = 0;
  return impl_->in_arena(pointer) && impl_->window(pointer, 1, &offset) != nullptr;
}

// --- device side

Status Machine::add_agp_aperture(const PciFunction& master, uint64_t size_bytes, Gart gart) {
  if (impl_->agp.size != 0) return Status::kInvalidParameter;
  if (size_bytes == 0 || size_bytes % kPageBytes != 0) return Status::kInvalidParameter;
  if (size_bytes > kAgpApertureLimit - kAgpApertureBase) return Status::kInvalidParameter;
  impl_->agp_master = &master;
  impl_->agp = {PhysicalAddress{kAgpApertureBase}, size_bytes};
  impl_->gart = gart;
  impl_->gart_entries = std::vector<std::atomic<uint64_t>>(size_bytes / kPageBytes);
  return Status::kSuccess;
}

std::optional<AgpAperture> Machine::agp_aperture(const PciFunction& function) const {
  if (impl_->agp_master != &function || impl_->gart == Gart::kNone) return std::nullopt;
  return impl_->agp;
}

void Machine::gart_map(uint64_t offset_bytes, std::span<const uint64_t> frames) {
  DXGKIT_CHECK(offset_bytes % kPageBytes == 0);
  DXGKIT_CHECK(range_within(offset_bytes, frames.size() * kPageBytes, impl_->agp.size));
  for (size_t i = 0; i < frames.size(); ++i) {
    const uint64_t address = frames[i] * kPageBytes;
    DXGKIT_CHECK(system_pointer(PhysicalAddress{address}, kPageBytes) != nullptr);
    impl_->gart_entries[offset_bytes / kPageBytes + i].store(address, std::memory_order_release);
  }
}

void Machine::gart_unmap(uint64_t offset_bytes, uint64_t page_count) {
  DXGKIT_CHECK(offset_bytes % kPageBytes == 0);
  DXGKIT_CHECK(page_count <= impl_->gart_entries.size());
  DXGKIT_CHECK(range_within(offset_bytes, page_count * kPageBytes, impl_->agp.size));
  for (uint64_t i = 0; i < page_count; ++i)
    impl_->gart_entries[offset_bytes / kPageBytes + i].store(0, std::memory_order_release);
}

std::optional<PhysicalAddress> Machine::translate(PhysicalAddress address) const {
  const uint64_t at = address.value;
  if (impl_->offset_of(at, 1).has_value()) return address;
  if (at < kAgpApertureBase || at - kAgpApertureBase >= impl_->agp.size) return std::nullopt;
  const uint64_t page =
      impl_->gart_entries[(at - kAgpApertureBase) / kPageBytes].load(std::memory_order_acquire);
  if (page == 0) return std::nullopt;
  return PhysicalAddress{page + at % kPageBytes};
}

namespace {

/// Calls `move(done, memory, bytes)` for each piece of [address, address + size) that lies in one
/// page, once all of them are known to lead somewhere.
template <typename Move>
bool for_each_piece(Machine& machine, PhysicalAddress address, uint64_t size, const Move& move) {
  if (size == 0 || address.value + size < address.value) return false;
  std::vector<std::pair<std::byte*, uint64_t>> pieces;
  for (uint64_t done = 0; done < size; done += pieces.back().second) {
    const uint64_t at = address.value + done;
    const uint64_t bytes = std::min(size - done, kPageBytes - at % kPageBytes);
    const std::optional<PhysicalAddress> real = machine.translate(PhysicalAddress{at});
    if (!real.has_value()) return false;
    pieces.emplace_back(machine.system_pointer(*real, bytes), bytes);
  }
  uint64_t done = 0;
  for (const auto& [memory, bytes] : pieces) {
    move(done, memory, bytes);
    done += bytes;
  }
  return true;
}

}  // namespace

bool Machine::dma_read(PhysicalAddress address, std::span<std::byte> out) {
  if (const std::byte* memory = system_pointer(address, out.size()); memory != nullptr) {
    std::memcpy(out.data(), memory, out.size());
    return true;
  }
  if (impl_->outside != nullptr) return impl_->outside->read(address, out);
  return for_each_piece(*this, address, out.size(),
                        [&](uint64_t done, const std::byte* memory, uint64_t bytes) {
                          std::memcpy(out.data() + done, memory, bytes);
                        });
}

bool Machine::dma_write(PhysicalAddress address, std::span<const std::byte> in) {
  if (std::byte* memory = system_pointer(address, in.size()); memory != nullptr) {
    std::memcpy(memory, in.data(), in.size());
    return true;
  }
  if (impl_->outside != nullptr) return impl_->outside->write(address, in);
  return for_each_piece(*this, address, in.size(),
                        [&](uint64_t done, std::byte* memory, uint64_t bytes) {
                          std::memcpy(memory, in.data() + done, bytes);
                        });
}

}  // namespace dxgkit::bus
