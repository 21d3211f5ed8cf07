#include "bus/user_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/arithmetic.h"
#include "base/guarded_copy.h"
#include "bus/pages_apart.h"

namespace dxgkit::bus {
namespace {

/// One line of /proc/self/maps.
struct Mapping {
  uintptr_t start = 0, end = 0;
  char access[5] = {};
  uint64_t offset = 0, inode = 0;
};

/// The mappings that touch [start, end), in order of address.
std::vector<Mapping> mappings(uintptr_t start, uintptr_t end) {
  std::vector<Mapping> found;
  FILE* file = std::fopen("/proc/self/maps", "re");
  if (file == nullptr) return found;
  char line[512];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    Mapping mapping;
    unsigned long long first = 0, last = 0, offset = 0, inode = 0;
    if (std::sscanf(line, "%llx-%llx %4s %llx %*s %llu", &first, &last, mapping.access, &offset,
                    &inode) == 5 &&
        first < end && last > start) {
      mapping.start = first;
      mapping.end = last;
      mapping.offset = offset;
      mapping.inode = inode;
      found.push_back(mapping);
    }
    // The line is longer than the buffer; its rest is not needed.
    while (std::strchr(line, '\n') == nullptr && std::fgets(line, sizeof line, file) != nullptr) {
    }
  }
  std::fclose(file);
  return found;
}

/// Checks that all of it is mapped for reading and writing, and privately.
bool is_private(uintptr_t start, uintptr_t end) {
  uintptr_t reached = start;
  for (const Mapping& mapping : mappings(start, end)) {
    if (mapping.start > reached) return false;
    if (std::strncmp(mapping.access, "rw", 2) != 0 || mapping.access[3] != 'p') return false;
    reached = mapping.end;
  }
  return reached >= end;
}

}  // namespace

Result<std::unique_ptr<UserMemory>> UserMemory::capture(Machine& machine, void* address,
                                                        uint64_t size_bytes) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  uint64_t end = 0;
  if (start == 0 || size_bytes == 0) return Error(Status::kInvalidParameter);
  if (start % kPageBytes != 0 || size_bytes % kPageBytes != 0)
    return Error(Status::kInvalidParameter);
  if (!checked_add(uint64_t{start}, size_bytes, &end)) return Error(Status::kInvalidParameter);
  if (!is_private(start, end)) return Error(Status::kInvalidParameter);
  const uint64_t count = size_bytes / kPageBytes;
  std::vector<PageFrame> pages;
  // In one piece it is one mapping.
  if (const Result<PageFrame> first = machine.allocate_contiguous(count); first.has_value()) {
    for (uint64_t i = 0; i < count; ++i) pages.push_back(PageFrame{first->value + i});
  } else {
    DXGKIT_ASSIGN_OR_RETURN(pages, machine.allocate_pages(count));
  }
  std::unique_ptr<UserMemory> memory(
      new UserMemory(machine, static_cast<std::byte*>(address), std::move(pages)));
  DXGKIT_RETURN_ERROR_IF_FAILED(memory->exchange());
  return memory;
}

Status UserMemory::exchange() {
  for (size_t i = 0; i < pages_.size(); ++i) {
    // Another thread of the client may unmap it now.
    if (!guarded_copy(content(i), address_ + i * kPageBytes, kPageBytes))
      return Status::kInvalidParameter;
  }
  for (size_t i = 0; i < pages_.size();) {
    size_t run = 1;
    while (i + run < pages_.size() && pages_[i + run].value == pages_[i].value + run) ++run;
    const MemoryWindow window =
        machine_.window_of(PhysicalAddress{pages_[i].value * kPageBytes}, run * kPageBytes);
    void* const mapped = mmap(address_ + i * kPageBytes, run * kPageBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_FIXED, window.fd, static_cast<off_t>(window.offset));
    // The destructor reverses the exchange.
    if (mapped == MAP_FAILED) return Status::kNoMemory;
    i += run;
  }
  return Status::kSuccess;
}

std::byte* UserMemory::content(size_t page) const {
  return machine_.system_pointer(PhysicalAddress{pages_[page].value * kPageBytes}, kPageBytes);
}

void UserMemory::exchange_back() {
  const auto start = reinterpret_cast<uintptr_t>(address_);
  const uintptr_t end = start + pages_.size() * kPageBytes;
  for (const Mapping& mapping : mappings(start, end)) {
    // Only pages that still show our memory: the client may have mapped other memory there.
    const uintptr_t first = std::max(mapping.start, start);
    const uintptr_t last = std::min(mapping.end, end);
    for (uintptr_t at = first; at < last;) {
      const auto shows = [&](uintptr_t address) {
        const PageFrame page = pages_[(address - start) / kPageBytes];
        const MemoryWindow window =
            machine_.window_of(PhysicalAddress{page.value * kPageBytes}, kPageBytes);
        struct stat file = {};
        return fstat(window.fd, &file) == 0 && file.st_ino == mapping.inode &&
               mapping.offset + (address - mapping.start) == window.offset;
      };
      uintptr_t stop = at;
      while (stop < last && shows(stop)) stop += kPageBytes;
      if (stop == at) {
        at += kPageBytes;
        continue;
      }
      // Made at another address and then moved, so that the process never sees the range without
      // its content.
      void* const fresh =
          mmap(nullptr, stop - at, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      const size_t page = (at - start) / kPageBytes;
      const size_t count = (stop - at) / kPageBytes;
      bool moved = fresh != MAP_FAILED;
      if (moved) {
        for (size_t i = 0; i < count; ++i)
          std::memcpy(static_cast<std::byte*>(fresh) + i * kPageBytes, content(page + i),
                      kPageBytes);
        moved = mremap(fresh, stop - at, stop - at, MREMAP_MAYMOVE | MREMAP_FIXED,
                       reinterpret_cast<void*>(at)) != MAP_FAILED;
        if (!moved) munmap(fresh, stop - at);
      }
      // If the process is out of mappings, it keeps the machine's pages, and no one else may get
      // them.
      if (!moved) std::fill_n(kept_.begin() + static_cast<std::ptrdiff_t>(page), count, true);
      at = stop;
    }
  }
}

Result<std::unique_ptr<UserMemory>> UserMemory::adopt(Machine& machine, int fd, uint64_t bytes,
                                                      std::function<void()> ended) {
  DXGKIT_ASSIGN_OR_RETURN(std::vector<PageFrame> pages, PagesApart::adopt(machine, fd, bytes));
  return std::unique_ptr<UserMemory>(
      new UserMemory(machine, std::move(pages), std::move(ended)));
}

UserMemory::~UserMemory() {
  if (address_ == nullptr) {
    machine_.free_pages(pages_);
    if (ended_) ended_();
    return;
  }
  exchange_back();
  for (size_t i = 0; i < pages_.size(); ++i) {
    if (!kept_[i]) machine_.free_contiguous(pages_[i], 1);
  }
}

}  // namespace dxgkit::bus
