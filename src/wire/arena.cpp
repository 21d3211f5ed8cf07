#include "wire/arena.h"

#include <sys/mman.h>

#include "base/arithmetic.h"
#include "wire/channel.h"

namespace dxgkit::wire {
namespace {

// A block takes 8 bytes of a message at least, and less than 16 bytes more here.
constexpr size_t kBytes = 3 * kMaxFrameBytes;
constexpr size_t kKept = size_t{1} << 20;

}  // namespace

Arena::Arena() {
  void* const all = mmap(nullptr, kBytes + 2 * kPageBytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return;
  base_ = static_cast<std::byte*>(all);
  if (mprotect(base_ + kPageBytes, kBytes, PROT_READ | PROT_WRITE) == 0) return;
  munmap(all, kBytes + 2 * kPageBytes);
  base_ = nullptr;
}

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, kBytes + 2 * kPageBytes);
}

std::byte* Arena::take(size_t bytes) {
  const size_t room = (bytes + 15) / 16 * 16;
  if (room < bytes || room > kBytes - used_) return nullptr;
  std::byte* const at = base_ + kPageBytes + used_;
  used_ += room;
  return at;
}

void Arena::clear() {
  if (used_ > kKept) madvise(base_ + kPageBytes, kBytes, MADV_DONTNEED);
  used_ = 0;
  notes_.release();
}

}  // namespace dxgkit::wire
