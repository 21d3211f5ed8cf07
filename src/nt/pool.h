// Pool of drivers, and the callers that allocated it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nt/heap.h"
#include "nt/kernel.h"

namespace dxgkit::nt {

/// The content of uninitialised memory. It makes runs repeat and does not look like zeroed memory.
inline constexpr uint8_t kPoolPattern = 0xA5;

/// The origin of a request: the calling place in the driver, and the running DDI.
struct Origin {
  const void* caller = nullptr;  // null: not an image
  const char* ddi = "";          // CallFrame::name
};
Origin origin_of(const CallFrame& frame);
/// "SgpuStart+0x14 in DxgkDdiStartDevice", "driver.sys+0x120 in ..." or "DxgkDdiStartDevice".
std::string to_text(const Kernel& kernel, const Origin& origin);

/// A block of pool, by address in Kernel::Impl::pool.
struct PoolBlock {
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  uint32_t tag = 0;
  enum class Home {
    kHeap,     // blocks side by side
    kSystem,   // contiguous system pages: it has a physical address
    kSpecial,  // pages of the arena
    kPaged,    // pages that go at DISPATCH_LEVEL (paged.h)
  } home = Home::kHeap;
  bool paged = false;
  bool executable = false;    // code may run in it (executable.h)
  std::byte* base = nullptr;  // what was allocated; from here to the block, and
  uint64_t base_bytes = 0;    // behind the block to base + base_bytes, lie canaries
  Origin allocated = {};
};

/// Address space in which every block of special pool lies between inaccessible pages. Freed blocks
/// stay inaccessible for a while.
class SpecialArena {
 public:
  /// `pages` outlives it.
  SpecialArena(PoolPages& pages, uint64_t bytes);
  ~SpecialArena();
  SpecialArena(const SpecialArena&) = delete;
  SpecialArena& operator=(const SpecialArena&) = delete;
  /// Signal-safe.
  bool contains(uint64_t address) const { return address - start_ < bytes_; }
  /// Readable and writable pages with an inaccessible page on either side; null if there is no
  /// room.
  std::byte* take(uint64_t page_count);
  /// Drops the contents and makes the pages inaccessible.
  void close(std::byte* first, uint64_t page_count);
  /// Makes closed pages available again.
  void give_back(std::byte* first, uint64_t page_count);

 private:
  PoolPages& pages_;
  uint64_t start_ = 0, bytes_ = 0, used_ = 0;
  std::map<uint64_t, std::vector<std::byte*>> free_;  // by number of pages, last in first out
};

/// A function that is asked when a driver asks for pool, contiguous memory, an MDL, a mapping or
/// another object that takes memory (a thread, a work item, a timer, a key of the registry or a
/// value of one), by the name of the routine. If it returns true, the driver gets null, or
/// STATUS_INSUFFICIENT_RESOURCES where the routine has a status. It tests the driver's error paths.
/// Set it before the driver is loaded. Any thread calls it; it must not block.
void set_allocation_fault(Kernel& kernel, std::function<bool(std::string_view routine)> fails);

/// Blocks freed lately. Those of special pool are still inaccessible.
struct FreedBlock {
  const std::byte* memory = nullptr;
  PoolBlock block;
  Origin freed = {};
};

/// The meaning of a fault at `address` in special pool, as the parts of a finding. Not in a signal
/// handler.
struct PoolFault {
  const char* rule = "";
  uint32_t bugcheck_code = 0;
  std::string actual, expected, fix;
};
std::optional<PoolFault> describe_pool_fault(const Kernel& kernel, const CallFrame& frame,
                                             uint64_t address);
/// The block of pool that contains `address`, for a finding; empty if there is none. Not in a
/// signal handler.
std::string block_text_at(const Kernel& kernel, uint64_t address);
/// Reports NT-10 for every live block whose surroundings were overwritten. Returns their number.
size_t report_pool_overruns(Kernel& kernel, const char* when);
std::unique_ptr<SpecialArena> make_special_arena(PoolPages& pages);
/// Frees the blocks that the driver left.
void free_leaked_pool(Kernel& kernel);
/// The physical address of memory of the driver: contiguous memory, system pages, non-paged pool.
/// 0: it has none.
uint64_t physical_of(const Kernel& kernel, const void* pointer);
/// "Abcd", with dots for characters that are not letters.
std::string tag_text(uint32_t tag);

}  // namespace dxgkit::nt
