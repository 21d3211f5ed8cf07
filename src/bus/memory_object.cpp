#include "bus/memory_object.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/fixed_memory.h"
#include "base/sealed_memory.h"

namespace dxgkit::bus {
namespace {

struct Kept {
  MemoryObject object;
  MappedAt where;
};

class KeptObjects {
 public:
  ~KeptObjects() {
    for (const Kept& one : kept_) end_memory_object(one.object, one.where);
  }
  bool take(uint64_t bytes, uint64_t tail_bytes, MappedAt where, MemoryObject* object) {
    for (size_t i = kept_.size(); i-- > 0;) {
      const Kept& one = kept_[i];
      if (one.object.bytes != bytes || one.object.tail_bytes != tail_bytes || one.where != where)
        continue;
      *object = one.object;
      object->fd = moved(one.object.fd, 0);
      DXGKIT_CHECK(object->fd >= 0);
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return false;
  }
  bool keep(const MemoryObject& object, MappedAt where) {
    if (!enabled || kept_.size() == kMost) return false;
    MemoryObject idle = object;
    idle.fd = moved(object.fd, kIdleDescriptors);
    if (idle.fd < 0) return false;
    kept_.push_back({idle, where});
    return true;
  }

  bool enabled = false;

 private:
  static constexpr size_t kMost = 8;
  /// Descriptors of idle objects are above these: the next simulation gets the numbers that it
  /// would have gotten in a process of its own. Drivers and hostile clients may see them.
  static constexpr int kIdleDescriptors = 512;

  /// The descriptor with the lowest free number from `least` on; -1, and `fd` stays open: none is
  /// free.
  static int moved(int fd, int least) {
    const int other = fcntl(fd, F_DUPFD_CLOEXEC, least);
    if (other >= 0) close(fd);
    return other;
  }

  std::vector<Kept> kept_;
};

thread_local KeptObjects t_kept;

}  // namespace

MemoryObject make_memory_object(const char* name, uint64_t bytes, uint64_t tail_bytes,
                                MappedAt where) {
  MemoryObject object;
  if (t_kept.take(bytes, tail_bytes, where, &object)) return object;
  object.bytes = bytes;
  object.tail_bytes = tail_bytes;
  object.fd = create_sealed_memory(name, bytes + tail_bytes);
  DXGKIT_CHECK(object.fd >= 0);
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  void* const memory = where == MappedAt::kFixedRange
                           ? map_fixed(FixedRange::kMemory, bytes, kAccess, MAP_SHARED, object.fd)
                           : mmap(nullptr, bytes, kAccess, MAP_SHARED, object.fd, 0);
  DXGKIT_CHECK(memory != MAP_FAILED);
  object.memory = static_cast<std::byte*>(memory);
  if (tail_bytes == 0) return object;
  void* const tail =
      mmap(nullptr, tail_bytes, kAccess, MAP_SHARED, object.fd, static_cast<off_t>(bytes));
  DXGKIT_CHECK(tail != MAP_FAILED);
  object.tail = static_cast<std::byte*>(tail);
  return object;
}

void end_memory_object(const MemoryObject& object, MappedAt where) {
  if (object.tail != nullptr) munmap(object.tail, object.tail_bytes);
  if (where == MappedAt::kFixedRange) {
    unmap_fixed(object.memory, object.bytes);
  } else {
    munmap(object.memory, object.bytes);
  }
  close(object.fd);
}

std::vector<std::pair<uint64_t, uint64_t>> TouchedPages::ranges() const {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (uint64_t page = 0; page < pages_.size(); ++page) {
    if (!pages_[page].load(std::memory_order_relaxed)) continue;
    const uint64_t start = page * kPageBytes;
    if (!ranges.empty() && ranges.back().first + ranges.back().second == start &&
        start != first_bytes_) {
      ranges.back().second += kPageBytes;
    } else {
      ranges.emplace_back(start, kPageBytes);
    }
  }
  return ranges;
}

void keep_memory_objects() { t_kept.enabled = true; }
bool keeps_memory_objects() { return t_kept.enabled; }

void give_back(const MemoryObject& object, MappedAt where,
               std::span<const std::pair<uint64_t, uint64_t>> touched) {
  if (!t_kept.keep(object, where)) return end_memory_object(object, where);
  for (const auto& [start, bytes] : touched) {
    std::byte* const at =
        start < object.bytes ? object.memory + start : object.tail + (start - object.bytes);
    std::memset(at, 0, bytes);
  }
}

}  // namespace dxgkit::bus
