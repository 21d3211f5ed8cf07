// The memory behind a machine or a device model: a memory object with a mapping of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/arithmetic.h"

namespace dxgkit::bus {

/// A sealed memory object (memfd) of zeros at first, mapped for reading and writing.
struct MemoryObject {
  int fd = -1;
  std::byte* memory = nullptr;  // the first `bytes`
  uint64_t bytes = 0;
  std::byte* tail = nullptr;  // the `tail_bytes` behind them, which are mapped elsewhere
  uint64_t tail_bytes = 0;
};

/// Where the first part is mapped.
enum class MappedAt { kAnyAddress, kFixedRange };  // kFixedRange: as map_fixed does

/// Aborts if the system refuses. `bytes` > 0.
MemoryObject make_memory_object(const char* name, uint64_t bytes, uint64_t tail_bytes,
                                MappedAt where);
void end_memory_object(const MemoryObject& object, MappedAt where);

/// The pages of an object that may hold something. Any thread.
class TouchedPages {
 public:
  TouchedPages() = default;  // watches nothing
  explicit TouchedPages(const MemoryObject& object)
      : first_bytes_(object.bytes), pages_((object.bytes + object.tail_bytes) / kPageBytes) {}
  bool watches() const { return !pages_.empty(); }
  /// Bytes of the object may be written from now on.
  void touch(uint64_t offset, uint64_t bytes) {
    if (pages_.empty() || bytes == 0) return;
    for (uint64_t page = offset / kPageBytes; page <= (offset + bytes - 1) / kPageBytes; ++page)
      pages_[page].store(true, std::memory_order_relaxed);
  }
  /// As give_back takes them.
  std::vector<std::pair<uint64_t, uint64_t>> ranges() const;

 private:
  uint64_t first_bytes_ = 0;
  std::vector<std::atomic<bool>> pages_;
};

/// From now on the calling thread keeps a few objects that are given back, for the next one of the
/// same size. A process that runs many short simulations spares itself the faults of their pages.
void keep_memory_objects();
bool keeps_memory_objects();
/// Ends the object or keeps it, full of zeros. @param touched  first byte and size of the ranges
/// that may hold something else; a range lies in one of the two mappings. No mapping that the
/// caller does not know of may be left, in this process or in another.
void give_back(const MemoryObject& object, MappedAt where,
               std::span<const std::pair<uint64_t, uint64_t>> touched);

}  // namespace dxgkit::bus
