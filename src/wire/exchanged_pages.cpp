#include "wire/exchanged_pages.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/arithmetic.h"
#include "base/guarded_copy.h"
#include "base/own_mappings.h"

namespace dxgkit::wire {

bool ExchangedPages::begin(const WindowNote& note, UniqueFd object, void* address) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  uint64_t end = 0;
  struct stat facts {};
  if (start % kPageBytes != 0 || !checked_add(uint64_t{start}, note.bytes, &end)) return false;
  if (!object || fstat(object.get(), &facts) != 0) return false;
  if (!is_private_memory(start, end)) return false;
  void* const fresh = mmap(nullptr, note.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, object.get(),
                           static_cast<off_t>(note.offset));
  if (fresh == MAP_FAILED) return false;
  // Another thread of the program may unmap the pages now.
  const bool moved =
      guarded_copy(fresh, address, note.bytes) &&
      mremap(fresh, note.bytes, note.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address) != MAP_FAILED;
  if (!moved) {
    munmap(fresh, note.bytes);
    return false;
  }
  const SpinGuard guard(lock_);
  all_[note.id] = {start, note.bytes, facts.st_ino, note.offset};
  return true;
}

void ExchangedPages::end(const WindowNote& note) {
  Pages pages;
  {
    const SpinGuard guard(lock_);
    const auto found = all_.find(note.id);
    if (found == all_.end()) return;
    pages = found->second;
    all_.erase(found);
  }
  const uintptr_t stop = pages.start + pages.bytes;
  for (const OwnMapping& mapping : own_mappings(pages.start, stop)) {
    const uintptr_t first = std::max(mapping.start, pages.start);
    const uintptr_t last = std::min(mapping.end, stop);
    const bool shows =
        mapping.inode == pages.inode && mapping.access[0] == 'r' &&
        mapping.offset + (first - mapping.start) == pages.offset + (first - pages.start);
    // Out of mappings: the program keeps the object, which nobody else has.
    if (shows) {
      void* const at = reinterpret_cast<void*>(first);
      static_cast<void>(replace_with_private_memory(at, at, last - first));
    }
  }
}

}  // namespace dxgkit::wire
