#include "base/fixed_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <map>
#include <new>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/spin_lock.h"

namespace dxgkit {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DXGKIT_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define DXGKIT_TSAN 1
#endif

/// A part of the address space that the system uses only when it is told to.
struct Part {
  uint64_t start, bytes;
};
#ifdef DXGKIT_TSAN
// ThreadSanitizer has its shadow where the other part is, and ends the process that asks for it.
constexpr Part kPart = {0x10'0000'0000, 384 * kGiB};
#else
constexpr Part kPart = {0x2000'0000'0000, 4096 * kGiB};
#endif

/// Places that something else has are few: the system fills the address space from its other end.
constexpr int kTriesMost = 16;

class AddressBook {
 public:
  void* map(FixedRange range, uint64_t bytes, int protection, int flags, int fd, uint64_t offset) {
    SpinGuard guard(lock_);
    uint64_t refused[kTriesMost];
    int tries = 0;
    void* mapped = MAP_FAILED;
    while (mapped == MAP_FAILED && tries < kTriesMost) {
      const uint64_t address = lowest_free(range, bytes + kPageBytes);
      if (address == 0) break;
      mapped = map_at(address, bytes, protection, flags, fd, offset);
      if (mapped == MAP_FAILED && errno != EEXIST) break;
      used_.emplace(address, bytes + kPageBytes);
      if (mapped == MAP_FAILED) refused[tries++] = address;
    }
    for (int i = 0; i < tries; ++i) used_.erase(refused[i]);
    if (mapped != MAP_FAILED) return mapped;
    return mmap(nullptr, bytes, protection, flags, fd, static_cast<off_t>(offset));
  }

  void unmap(void* address, uint64_t bytes) {
    SpinGuard guard(lock_);
    DXGKIT_CHECK(munmap(address, bytes) == 0);
    used_.erase(reinterpret_cast<uint64_t>(address));
  }

 private:
  /// MAP_FAILED if it cannot lie there; errno is EEXIST if something else has the address.
  static void* map_at(uint64_t address, uint64_t bytes, int protection, int flags, int fd,
                      uint64_t offset) {
    void* const wanted = reinterpret_cast<void*>(address);
    void* const mapped = mmap(wanted, bytes, protection, flags | MAP_FIXED_NOREPLACE, fd,
                              static_cast<off_t>(offset));
    if (mapped == wanted || mapped == MAP_FAILED) return mapped;
    munmap(mapped, bytes);  // a system, or a sanitizer, that takes the address for a hint
    errno = EEXIST;
    return MAP_FAILED;
  }

  /// 0: there is no room.
  uint64_t lowest_free(FixedRange range, uint64_t bytes) const {
    const uint64_t eighth = kPart.bytes / 8;
    uint64_t at = kPart.start, end = at + eighth;
    if (range == FixedRange::kStacks) at += eighth, end += eighth;
    if (range == FixedRange::kMemory) at += 2 * eighth, end += 6 * eighth;
    if (range == FixedRange::kLists) at += 7 * eighth, end += 7 * eighth;
    bytes = align_up(bytes, kPageBytes);
    for (auto next = used_.lower_bound(at); next != used_.end() && next->first < end; ++next) {
      if (bytes <= next->first - at) return at;
      at = align_up(next->first + next->second, kPageBytes);
    }
    return at < end && bytes <= end - at ? at : 0;
  }

  SpinLock lock_;
  std::map<uint64_t, uint64_t> used_;  // bytes by address, with the inaccessible page
};

/// Never destroyed: threads unmap their stacks when they end.
AddressBook& address_book() {
  static auto* const book = new AddressBook();
  return *book;
}

}  // namespace

void* map_fixed(FixedRange range, uint64_t bytes, int protection, int flags, int fd,
                uint64_t offset) {
  return address_book().map(range, bytes, protection, flags, fd, offset);
}

void unmap_fixed(void* address, uint64_t bytes) { address_book().unmap(address, bytes); }

void* InFixedMemory::operator new(size_t bytes) {
  void* const object = map_fixed(FixedRange::kMemory, align_up(bytes, kPageBytes),
                                 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  if (object == MAP_FAILED) throw std::bad_alloc();
  return object;
}

void InFixedMemory::operator delete(void* object, size_t bytes) {
  unmap_fixed(object, align_up(bytes, kPageBytes));
}

}  // namespace dxgkit
