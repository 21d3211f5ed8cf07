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
/// True if the machine has a driver for its GART. Without one the aperture is of no use.
enum class Gart { kNone, kPresent };

/// System memory that belongs to another process, which drives the devices of this machine: the
/// machine is then the server's half of a device behind a socket. Any thread.
class OutsideMemory {
 public:
  virtual ~OutsideMemory() = default;
  /// A pointer to [address, address + size); null unless all of it is mapped here in one piece. It
  /// stays valid memory as long as this object, even if the other process takes the range back.
  virtual std::byte* pointer(PhysicalAddress address, uint64_t size) = 0;
  /// Copies. False, and nothing moved, if part of the range is not memory or may not be accessed.
  virtual bool read(PhysicalAddress address, std::span<std::byte> out) = 0;
  virtual bool write(PhysicalAddress address, std::span<const std::byte> in) = 0;
};

/// Gives out pages that it has taken from a machine, and gets them back when they are freed
/// (PagesApart). Any thread; called with no lock of the machine held.
class PageOwner {
 public:
  virtual ~PageOwner() = default;
  /// Pages that this owner has given out have been freed.
  virtual void release(PageFrame first, uint64_t count) = 0;
};

/// The physical address space, with memfd-backed system pages.
///
/// Thread-safe. System memory starts at kSystemMemoryBase, so that address 0 and small numbers
/// never look valid. A machine may have additional memory below 4 GiB, the low window, for devices
/// that send addresses of 32 bits. Only requests that name a highest address get pages there.
class Machine {
 public:
  static constexpr uint64_t kSystemMemoryBase = 0x1'0000'0000;  // 4 GiB
  /// No system memory lies above this address. It bounds system_memory_bytes.
  static constexpr uint64_t kSystemMemoryLimit = 0x10'0000'0000;  // 64 GiB
  /// Register BARs are assigned here, memory BARs above kMemoryBarBase.
  static constexpr uint64_t kRegisterBarBase = 0xC000'0000;
  static constexpr uint64_t kRegisterBarLimit = 0xFE00'0000;
  static constexpr uint64_t kMemoryBarBase = 0x80'0000'0000;
  static constexpr uint64_t kMemoryBarLimit = 0x8000'0000'0000;
  /// The low window starts here, if there is one.
  static constexpr uint64_t kLowMemoryBase = 0x4000'0000;  // 1 GiB
  static constexpr uint64_t kLowMemoryLimit = 0x8000'0000;
  /// The pool window: memory for pool of the operating system, beside all other.
  static constexpr uint64_t kPoolMemoryBase = 0x1000'0000;  // 256 MiB
  static constexpr uint64_t kPoolMemoryBytes = 0x200'0000;  // 32 MiB
  /// I/O port BARs are assigned here.
  static constexpr uint64_t kPortBase = 0xC000;
  static constexpr uint64_t kPortLimit = 0x1'0000;
  /// The AGP aperture starts here, if there is one.
  static constexpr uint64_t kAgpApertureBase = 0x8000'0000;
  static constexpr uint64_t kAgpApertureLimit = kRegisterBarBase;

  /// @param system_memory_bytes  > 0, rounded up to pages. It costs address space; a page costs
  ///        memory once it is touched.
  /// @param low_memory_bytes  size of the low window, beside system_memory_bytes; 0: no window; at
  ///        most kLowMemoryLimit - kLowMemoryBase
  explicit Machine(uint64_t system_memory_bytes, uint64_t low_memory_bytes = 0);
  /// A machine without system memory of its own, for devices only: DMA and system_pointer lead to
  /// `memory`, which outlives the machine, and no page can be allocated (kNoMemory).
  explicit Machine(OutsideMemory& memory);
  ~Machine();

  /// Plugs a function in: assigns BAR addresses and enables decoding in its configuration space.
  /// Either the machine or the function may be destroyed first; that unplugs too. On failure the
  /// state is unchanged.
  /// kInvalidParameter: the function is plugged in already; or a BAR has no handler or no memory
  /// behind it, no room for its second slot, or a size that is not a power of two of at least a
  /// page (4 to 256 for ports).
  /// kInsufficientResources: no bus addresses are left.
  Status add_function(PciFunction& function);
  /// Surprise removal: the function stops answering at once, even if a thread is using it.
  /// Registers and configuration space read all ones, and writes are dropped. Addresses stay
  /// assigned and mappings valid until remove_function. The device must raise no interrupt from now
  /// on. Any thread. A function that is not plugged in is ignored.
  void pull_out(PciFunction& function);
  /// The registers of the function answer no more, as with a device that has crashed: they read all
  /// ones, and writes are dropped. Configuration space and memory stay. Any thread. A function that
  /// is not plugged in is ignored.
  void silence(PciFunction& function);
  /// Unplugs a function. No thread may be touching its BARs. Mappings of memory BARs stay valid
  /// memory. A function that is not plugged in is ignored.
  void remove_function(PciFunction& function);

  // --- AGP: an old slot with an aperture of its own (SEG-11, SEG-18)
  /// Puts the function into the AGP slot, with an aperture. Call it once, before anything runs.
  /// kInvalidParameter for a second aperture, or for a size that is 0, not whole pages, or above
  /// kAgpApertureLimit - kAgpApertureBase; the state is unchanged then.
  Status add_agp_aperture(const PciFunction& master, uint64_t size_bytes,
                          Gart gart = Gart::kPresent);
  /// The aperture that a driver of `function` can use. nullopt without an aperture, without a GART
  /// driver, and for every other function. Any thread.
  std::optional<AgpAperture> agp_aperture(const PciFunction& function) const;
  /// Programs the GART: the pages from `offset_bytes` of the aperture on show `frames`, or nothing.
  /// A range outside the aperture or a frame outside system memory is our bug and aborts. Any
  /// thread. A device sees the change at its next access.
  void gart_map(uint64_t offset_bytes, std::span<const uint64_t> frames);
  void gart_unmap(uint64_t offset_bytes, uint64_t page_count);
  /// The system memory behind a bus address: the address itself for system memory, the page behind
  /// the GART inside the aperture. nullopt for any other address, and for an aperture page that
  /// shows nothing. Lock-free.
  std::optional<PhysicalAddress> translate(PhysicalAddress address) const;

  // --- system pages
  /// `count` zeroed pages, contiguous, aligned to `alignment` bytes. kNoMemory if there are none.
  /// kInvalidParameter if count is 0 or the alignment is not a power of two (below a page counts as
  /// a page). The state is unchanged on failure.
  /// @param highest  the last byte may have this bus address at most. If all of system memory is
  ///        below it, the limit makes no difference. Otherwise the pages come from system memory
  ///        below it, then from the low window.
  Result<PageFrame> allocate_contiguous(uint64_t count, uint64_t alignment = kPageBytes,
                                        uint64_t highest = UINT64_MAX);
  /// Frees pages. Pages that are not allocated are our bug and abort. Allocations may be freed in
  /// any split.
  void free_contiguous(PageFrame first, uint64_t count);
  /// `count` zeroed pages anywhere. They are deliberately not contiguous while memory is not tight.
  /// All, or kNoMemory.
  Result<std::vector<PageFrame>> allocate_pages(uint64_t count);
  void free_pages(std::span<const PageFrame> pages);
  /// `count` contiguous pages of the pool window, with any content. kInvalidParameter if count is
  /// 0, kNoMemory if there are none. Blocks of pool below a page lie here: so they take
  /// nothing from the memory that a test or a simulation has made small.
  Result<PageFrame> allocate_pool_pages(uint64_t count);
  /// Pages that are not allocated are our bug and abort.
  void free_pool_pages(PageFrame first, uint64_t count);
  /// Sets a function that is asked before pages of either kind are given out. If it returns true,
  /// there are no pages (kNoMemory). An empty function, the default, is never asked. For
  /// simulations: set it while no thread allocates; it must not block.
  void set_page_fault(std::function<bool(uint64_t count)> fails);
  /// Pages of the two windows are not counted, because allocate_pages never gives them.
  uint64_t free_page_count() const;
  /// Bytes of the low window; 0 if there is none.
  uint64_t low_memory_bytes() const;
  /// The last byte of installed system memory. A device that can reach all of system memory must be
  /// able to address it (LIFE-14).
  PhysicalAddress highest_system_address() const;

  // --- pages in memory objects of their own (PagesApart)
  /// Pages from allocate_contiguous are another's to give out from now on. Their content lies in
  /// the memory object `fd`, from its start, which the owner has mapped where they are. Freed ones
  /// go to `owner`. The machine keeps the owner, and the owner the descriptor, until clear_owner.
  void set_owner(PageFrame first, uint64_t count, int fd, std::shared_ptr<PageOwner> owner);
  /// Ends that, for the same range as a whole. The owner maps the machine's memory there again, and
  /// frees the pages, which come to the machine.
  void clear_owner(PageFrame first);
  /// Hardware or another process has mapped system memory as it is now. Its pages stay in the one
  /// memory object from here on: PagesApart gives none. Call it before clients come.
  void fix_system_memory();
  bool system_memory_is_fixed() const;

  // --- access
  /// A CPU pointer to system memory [address, address + size); null unless all of it is system
  /// memory. Lock-free. The pointer is valid for the machine's life: system memory is mapped once.
  /// The pool window is system memory, too.
  std::byte* system_pointer(PhysicalAddress address, uint64_t size);
  /// The physical address of such a pointer, or 0.
  PhysicalAddress physical_of(const void* pointer) const;
  /// The memory object behind a physical address (system pages or a memory BAR); fd -1 if there is
  /// none.
  MemoryWindow window_of(PhysicalAddress address, uint64_t size) const;
  /// The same for system pages in this order. Neighbours in one memory object are one window.
  std::vector<MemoryWindow> windows_of(std::span<const PageFrame> frames) const;
  /// Maps a bus range for a driver. A memory BAR gives a real pointer. A register BAR gives a
  /// reserved, inaccessible address range that read_register and write_register decode. Any byte
  /// address and any size > 0. Null if the range is not inside one BAR, or the system refuses.
  void* map_io(PhysicalAddress address, uint64_t size);
  /// Returns false, and does nothing, unless `pointer` and `size` are those of a live mapping.
  bool unmap_io(void* pointer, uint64_t size);
  /// Reads or writes a register through a pointer from map_io, or otherwise plain memory. size is
  /// 1, 2, 4 or 8. Register windows decode without a lock. An access to a BAR that is not mapped,
  /// not plugged in, or left in the middle of the access reads all ones (in its size), and writes
  /// are dropped, as on a bus. The same holds for any other size.
  uint64_t read_register(const volatile void* pointer, uint32_t size_bytes);
  void write_register(volatile void* pointer, uint32_t size_bytes, uint64_t value);
  /// Reads or writes I/O space. size is 1, 2 or 4. An access that no port BAR decodes as a whole
  /// reads all ones in its size, and writes are dropped, as on a bus. The same holds for any other
  /// size. Any thread.
  uint64_t read_port(uint64_t port, uint32_t size_bytes);
  void write_port(uint64_t port, uint32_t size_bytes, uint64_t value);

  /// The number of register accesses so far that reached no device. Any thread.
  uint64_t lost_register_accesses() const;
  /// The number of register accesses so far to functions that were not at full power. The device
  /// models answer them; real ones need not. Any thread.
  uint64_t sleeping_register_accesses() const;

  /// True if read_register would decode `pointer` as a register: it lies in a mapped window of a
  /// BAR that is plugged in or was pulled out. Lock-free, signal-safe.
  bool is_register(const volatile void* pointer) const;

  // --- device side
  /// DMA by a device. Returns false, and moves nothing, unless the whole range is system memory or
  /// shown by the AGP aperture. A device that moves much may use system_pointer instead, which is
  /// the same bus without the copy and without the aperture.
  bool dma_read(PhysicalAddress address, std::span<std::byte> out);
  bool dma_write(PhysicalAddress address, std::span<const std::byte> in);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A stretch of CPU address space with a fixed address, whose content can be switched between
/// memory objects. Lock2 hands these out (ALLOC-40).
class CpuView {
 public:
  /// @param size  bytes, a multiple of the page, > 0. The range is reserved, and inaccessible until
  ///        the first retarget. kInvalidParameter for another size, kNoMemory without address
  ///        space.
  static Result<std::unique_ptr<CpuView>> create(uint64_t size);
  ~CpuView();
  void* address() const { return address_; }
  uint64_t size() const { return size_; }
  /// Shows the windows one after another. Offsets and sizes are page multiples; sizes are > 0 and
  /// add up to size(). Neighbours that continue each other become one mapping. If other threads
  /// must not see a mixture, the caller keeps them out meanwhile. On kInvalidParameter and
  /// kNoMemory the view shows its previous content.
  Status retarget(std::span<const MemoryWindow> windows);
  /// Makes writes through the view fault until the next retarget. kUnsuccessful: the system
  /// refused.
  Status protect_read_only();
  /// The content of the view is gone, but a client still has the address. From now on the view
  /// shows zeros, and writes to it have no effect. No retarget may follow. Any thread; no error.
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
