#include "bus/user_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"
#include "base/guarded_copy.h"
#include "base/own_mappings.h"
#include "bus/pages_apart.h"

namespace dxgkit::bus {

Result<std::unique_ptr<UserMemory>> UserMemory::capture(Machine& machine, void* address,
                                                        uint64_t size_bytes) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  uint64_t end = 0;
  if (start == 0 || size_bytes == 0) return Error(Status::kInvalidParameter);
  if (start % kPageBytes != 0 || size_bytes % kPageBytes != 0)
    return Error(Status::kInvalidParameter);
  if (!checked_add(uint64_t{start}, size_bytes, &end)) return Error(Status::kInvalidParameter);
  if (!is_private_memory(start, end)) return Error(Status::kInvalidParameter);
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
  for (const OwnMapping& mapping : own_mappings(start, end)) {
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
      const size_t page = (at - start) / kPageBytes;
      const size_t count = (stop - at) / kPageBytes;
      // Pages that are one mapping are neighbours.
      const bool moved =
          replace_with_private_memory(reinterpret_cast<void*>(at), content(page), stop - at);
      // If the process is out of mappings, it keeps the machine's pages, and no one else may get
      // them.
      if (!moved) std::fill_n(kept_.begin() + static_cast<std::ptrdiff_t>(page), count, true);
      at = stop;
    }
  }
}

Result<std::unique_ptr<UserMemory>> UserMemory::elsewhere(Machine& machine, uint64_t bytes,
                                                          uint64_t number,
                                                          std::function<void()> ended) {
  const auto group = PagesApart::make(machine, PagesApart::Spare::kNone);
  Result<std::vector<PageFrame>> pages = group->allocate(bytes / kPageBytes);
  group->close();
  if (!pages.has_value()) return Error(pages.error());
  std::unique_ptr<UserMemory> memory(new UserMemory(machine, nullptr, std::move(*pages)));
  memory->group_ = group;
  memory->number_ = number;
  memory->ended_ = std::move(ended);
  return memory;
}

UserMemory::~UserMemory() {
  if (address_ == nullptr) {
    machine_.free_pages(pages_);
    ended_();
    return;
  }
  exchange_back();
  for (size_t i = 0; i < pages_.size(); ++i) {
    if (!kept_[i]) machine_.free_contiguous(pages_[i], 1);
  }
}

}  // namespace dxgkit::bus
