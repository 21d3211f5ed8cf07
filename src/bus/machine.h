// The machine a driver believes it runs on: physical memory, PCI functions, interrupt lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/arithmetic.h"
#include "base/ids.h"
#include "base/status.h"
#include "bus/function.h"
#include "runtime/runtime.h"

namespace dxgkit::bus {

/// A page frame number: physical address / 4096.
using PageFrame = StrongId<struct PageFrameTag, uint64_t>;

/// Bus addresses behind which a page table of the chipset, the GART, shows system pages.
struct AgpAperture {
  PhysicalAddress base;
  uint64_t size = 0;  // whole pages
};
/// Whether the machine has a driver for its GART: without one the aperture is of no use.
enum class Gart { kNone, kPresent };

/// Physical address space with memfd-backed system pages.
///
/// Thread-safe. System memory starts at kSystemMemoryBase, so that address 0 and small numbers
/// never look valid. A machine may have some more below 4 GiB, the low window, for devices that
/// send addresses of 32 bits: only requests that name a highest address get pages there.
class Machine {
 public:
  static constexpr uint64_t kSystemMemoryBase = 0x1'0000'0000;  // 4 GiB
  /// Above this no system memory: bounds system_memory_bytes.
  static constexpr uint64_t kSystemMemoryLimit = 0x10'0000'0000;  // 64 GiB
  /// Register BARs are assigned here, memory BARs above kMemoryBarBase.
  static constexpr uint64_t kRegisterBarBase = 0xC000'0000;
  static constexpr uint64_t kRegisterBarLimit = 0xFE00'0000;
  static constexpr uint64_t kMemoryBarBase = 0x80'0000'0000;
  static constexpr uint64_t kMemoryBarLimit = 0x8000'0000'0000;
  /// The low window, if there is one.
  static constexpr uint64_t kLowMemoryBase = 0x4000'0000;  // 1 GiB
  static constexpr uint64_t kLowMemoryLimit = 0x8000'0000;
  /// I/O port BARs are assigned here.
  static constexpr uint64_t kPortBase = 0xC000;
  static constexpr uint64_t kPortLimit = 0x1'0000;
  /// The AGP aperture starts here, if there is one.
  static constexpr uint64_t kAgpApertureBase = 0x8000'0000;
  static constexpr uint64_t kAgpApertureLimit = kRegisterBarBase;

  /// Rounded up to pages; > 0. Costs address space; pages cost memory once touched.
  /// @param low_memory_bytes  of the low window, beside system_memory_bytes; 0: there is none; at
  /// most kLowMemoryLimit - kLowMemoryBase
  explicit Machine(uint64_t system_memory_bytes, uint64_t low_memory_bytes = 0);
  ~Machine();

  /// Plugs a function in: assigns BAR addresses, enables decoding in its config space. Either
  /// may be destroyed first; that unplugs too. kInvalidParameter: plugged in already, or a BAR
  /// whose size is no power of two of at least a page (of 4 to 256 for ports), has no handler or no
  /// memory behind it, or has no room for its second slot. kInsufficientResources: no bus addresses
  /// left. The state is
  /// unchanged then.
  Status add_function(PciFunction& function);
  /// Surprise removal: the function stops answering at once, whoever is using it. Registers and
  /// configuration space read all ones, writes are dropped; addresses stay assigned and mappings
  /// valid until remove_function. The device raises no interrupt from now on: its side's duty. Any
  /// thread. Ignores a stranger.
  void pull_out(PciFunction& function);
  /// Unplugs. Nobody may be touching its BARs; mappings of memory BARs stay valid memory. Ignores a
  /// stranger.
  void remove_function(PciFunction& function);

  // --- AGP: an old slot with an aperture of its own (SEG-11, SEG-18)
  /// Puts the aperture before the function in the AGP slot; once, before anything runs.
  /// kInvalidParameter: a second one, or a size that is 0, no whole pages or above
  /// kAgpApertureLimit - kAgpApertureBase; unchanged then.
  Status add_agp_aperture(const PciFunction& master, uint64_t size_bytes,
                          Gart gart = Gart::kPresent);
  /// The aperture a driver of `function` can use; nullopt without one, without a GART driver, and
  /// for every other function. Any thread.
  std::optional<AgpAperture> agp_aperture(const PciFunction& function) const;
  /// Programs the GART: the pages from `offset_bytes` of the aperture on show `frames`, or nothing.
  /// Ranges outside the aperture and frames outside system memory are our bug and abort. Any
  /// thread; a device sees the change at its next access.
  void gart_map(uint64_t offset_bytes, std::span<const uint64_t> frames);
  void gart_unmap(uint64_t offset_bytes, uint64_t page_count);
  /// Where a bus address leads: itself for system memory, the page behind the GART inside the
  /// aperture. nullopt for anything else, and for an aperture page that shows nothing. Lock-free.
  std::optional<PhysicalAddress> translate(PhysicalAddress address) const;

  // --- system pages
  /// `count` zeroed pages, contiguous, aligned to `alignment` bytes. kNoMemory if none;
  /// kInvalidParameter if count is 0 or the alignment is no power of two (below a page counts as a
  /// page). State unchanged on failure.
  /// @param highest  the last byte may have this bus address at most. Where all of system memory is
  /// reachable it makes no difference; else the pages come from system memory below it, then from
  /// the low window.
  Result<PageFrame> allocate_contiguous(uint64_t count, uint64_t alignment = kPageBytes,
                                        uint64_t highest = UINT64_MAX);
  /// Pages must be allocated: anything else is our bug and aborts. Any split of allocations may be
  /// freed.
  void free_contiguous(PageFrame first, uint64_t count);
  /// `count` zeroed pages anywhere (deliberately not contiguous while memory is not tight). All, or
  /// kNoMemory.
  Result<std::vector<PageFrame>> allocate_pages(uint64_t count);
  void free_pages(std::span<const PageFrame> pages);
  /// Asked before pages are given out, for both kinds; true: there are none (kNoMemory). An empty
  /// one, as at first, is never asked. For simulations: set while nobody allocates; must not block.
  void set_page_fault(std::function<bool(uint64_t count)> fails);
  /// Without those of the low window, which allocate_pages never gives.
  uint64_t free_page_count() const;
  /// Bytes of the low window; 0: there is none.
  uint64_t low_memory_bytes() const;
  /// The last byte of installed system memory: what a device that can reach all of it must be able
  /// to address (LIFE-14).
  PhysicalAddress highest_system_address() const;

  // --- access
  /// CPU pointer to system memory [address, address + size), null unless all of it is system
  /// memory. Lock-free. Valid for the machine's life: system memory is mapped once.
  std::byte* system_pointer(PhysicalAddress address, uint64_t size);
  /// The physical address of a pointer obtained above, or 0.
  PhysicalAddress physical_of(const void* pointer) const;
  /// Where physical memory can be mapped from (system pages or a memory BAR); fd -1 if neither.
  MemoryWindow window_of(PhysicalAddress address, uint64_t size) const;
  /// CPU mapping of a bus range for a driver: memory BARs give real pointers; register BARs give a
  /// reserved, inaccessible address range whose addresses read_register and write_register decode.
  /// Any byte address and size > 0. Null if the range is not inside one BAR or the system refuses.
  void* map_io(PhysicalAddress address, uint64_t size);
  /// False, nothing done, unless `pointer` and `size` are those of a live mapping.
  bool unmap_io(void* pointer, uint64_t size);
  /// Reads or writes a register through a pointer made by map_io, or plain memory otherwise. size
  /// 1, 2, 4, 8. Register windows decode without a lock. As on a bus, an access to a BAR that is
  /// not mapped, not plugged in, or left in the middle of the access reads all ones (in its size)
  /// and drops writes; so does any other size.
  uint64_t read_register(const volatile void* pointer, uint32_t size_bytes);
  void write_register(volatile void* pointer, uint32_t size_bytes, uint64_t value);
  /// Reads or writes I/O space. size 1, 2, 4. As on a bus, an access that no port BAR decodes as a
  /// whole reads all ones in its size, and drops writes; so does any other size. Any thread.
  uint64_t read_port(uint64_t port, uint32_t size_bytes);
  void write_port(uint64_t port, uint32_t size_bytes, uint64_t value);

  /// Register accesses so far that reached no device. Any thread.
  uint64_t lost_register_accesses() const;

  /// Would read_register decode `pointer` as a register: does it lie in a mapped window of a BAR
  /// that is plugged in, or was pulled out? Lock-free, signal-safe.
  bool is_register(const volatile void* pointer) const;

  // --- device side
  /// DMA by a device: false (nothing moved) unless the whole range is system memory, or shown by
  /// the AGP aperture. A device that moves much may use system_pointer instead: that is the same
  /// bus without the copy, and without the aperture.
  bool dma_read(PhysicalAddress address, std::span<std::byte> out);
  bool dma_write(PhysicalAddress address, std::span<const std::byte> in);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A stretch of CPU address space whose content can be switched between memory objects without its
/// address changing: what Lock2 hands out (ALLOC-40).
class CpuView {
 public:
  /// `size` bytes, a multiple of the page, > 0; reserved, inaccessible until the first retarget.
  /// kInvalidParameter for another size, kNoMemory without address space.
  static Result<std::unique_ptr<CpuView>> create(uint64_t size);
  ~CpuView();
  void* address() const { return address_; }
  uint64_t size() const { return size_; }
  /// Shows the windows one after another (offsets and sizes are page multiples, sizes > 0 and add
  /// up to size()). Neighbours that continue each other become one mapping. The caller keeps other
  /// threads out meanwhile if they must not see a mixture. kInvalidParameter, kNoMemory: the view
  /// shows what it showed before.
  Status retarget(std::span<const MemoryWindow> windows);
  /// Writes through the view fault from now on, until the next retarget. kUnsuccessful: the system
  /// refused.
  Status protect_read_only();
  /// What the view showed is gone, and somebody still has its address: from now on it shows zeros,
  /// and what is written there goes nowhere. No retarget may follow. Any thread; no error.
  void show_nothing();

 private:
  CpuView(const CpuView&) = delete;
  CpuView(void* address, uint64_t size) : address_(address), size_(size) {}
  bool map(std::span<const MemoryWindow> windows);
  void* address_;
  uint64_t size_;
  std::vector<MemoryWindow> windows_;  // shown now, merged
};

}  // namespace dxgkit::bus
