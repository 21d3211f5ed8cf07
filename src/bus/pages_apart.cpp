#include "bus/pages_apart.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/sealed_memory.h"

namespace dxgkit::bus {
namespace {

/// The first object of a group, and the most that an object has beyond what was asked for.
constexpr uint64_t kLeastPages = 64, kMostSparePages = 8192;
/// An object without pages in use stays if it is no larger.
constexpr uint64_t kMostKept = 256;
/// Spare pages take no more of the machine's free ones.
constexpr uint64_t kPartOfFree = 16;

std::atomic<uint64_t> g_objects{0};

PhysicalAddress address_of(PageFrame page) { return PhysicalAddress{page.value * kPageBytes}; }

}  // namespace

PagesApart::Object::Object(PageFrame first_page, uint64_t pages, int descriptor)
    : first(first_page),
      count(pages),
      fd(descriptor),
      number(++g_objects),
      free(pages),
      dirty(pages) {}

std::shared_ptr<PagesApart> PagesApart::make(Machine& machine, Spare spare) {
  return std::shared_ptr<PagesApart>(new PagesApart(machine, spare));
}

PagesApart::~PagesApart() {
  // The machine has ended, or there is none: it keeps the owners of its pages.
  for (const auto& object : objects_) ::close(object->fd);
}

uint64_t PagesApart::size_of_next(uint64_t count) const {
  if (spare_ == Spare::kNone) return count;
  const uint64_t room = machine_.free_page_count() / kPartOfFree;
  const runtime::MutexLock lock(mutex_);
  const uint64_t wanted = std::max(kLeastPages, std::min(pages_, kMostSparePages));
  return std::max(count, std::min(wanted, room));
}

Result<std::unique_ptr<PagesApart::Object>> PagesApart::map(int fd, uint64_t count) {
  const Result<PageFrame> first = machine_.system_memory_is_fixed()
                                      ? Result<PageFrame>(Error(Status::kNoMemory))
                                      : machine_.allocate_contiguous(count);
  if (first.has_value()) {
    const uint64_t bytes = count * kPageBytes;
    std::byte* const at = machine_.system_pointer(address_of(*first), bytes);
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at)
      return std::make_unique<Object>(*first, count, fd);
    machine_.free_contiguous(*first, count);
  }
  ::close(fd);
  return Error(Status::kNoMemory);
}

Result<std::unique_ptr<PagesApart::Object>> PagesApart::make_object(uint64_t count) {
  if (machine_.system_memory_is_fixed()) return Error(Status::kNoMemory);
  const int fd = create_sealed_memory("dxgkit-client", count * kPageBytes);
  if (fd < 0) return Error(Status::kNoMemory);
  return map(fd, count);
}

std::vector<PageFrame> PagesApart::take(uint64_t count) {
  std::vector<PageFrame> pages;
  std::vector<PageFrame> used;
  {
    const runtime::MutexLock lock(mutex_);
    for (const auto& object : objects_) {
      const auto first = object->free.allocate_contiguous(count);
      if (!first.has_value()) continue;
      for (uint64_t page = *first; page < *first + count; ++page) {
        pages.push_back(PageFrame{object->first.value + page});
        if (object->dirty[page]) used.push_back(pages.back());
        object->dirty[page] = true;
      }
      break;
    }
  }
  // Ours already: no lock needed.
  for (const PageFrame page : used)
    std::memset(machine_.system_pointer(address_of(page), kPageBytes), 0, kPageBytes);
  return pages;
}

Result<std::vector<PageFrame>> PagesApart::allocate(uint64_t count, Objects objects) {
  while (true) {
    {
      const runtime::MutexLock lock(mutex_);
      if (closed_) return Error(Status::kNoMemory);
    }
    std::vector<PageFrame> pages = take(count);
    if (!pages.empty()) return pages;
    if (objects == Objects::kAsTheyAre) return Error(Status::kNoMemory);
    auto made = make_object(size_of_next(count));
    if (!made.has_value()) made = make_object(count);
    if (!made.has_value()) return Error(made.error());
    Object& object = **made;
    machine_.set_owner(object.first, object.count, object.fd, shared_from_this());
    if (keep(*made)) continue;
    unmap(object);  // closed meanwhile
  }
}

bool PagesApart::keep(std::unique_ptr<Object>& object) {
  const runtime::MutexLock lock(mutex_);
  if (closed_) return false;
  pages_ += object->count;
  objects_.push_back(std::move(object));
  return true;
}

void PagesApart::unmap(const Object& object) {
  machine_.clear_owner(object.first);
  const uint64_t bytes = object.count * kPageBytes;
  const MemoryWindow common = machine_.window_of(address_of(object.first), bytes);
  std::byte* const at = machine_.system_pointer(address_of(object.first), bytes);
  DXGKIT_CHECK(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, common.fd,
                    static_cast<off_t>(common.offset)) == at);
  ::close(object.fd);
  machine_.free_contiguous(object.first, object.count);
}

bool PagesApart::may_go(const Object& object) const {
  const auto is_empty = [](const Object& one) { return one.free.free_count() == one.count; };
  if (!is_empty(object)) return false;
  if (closed_ || object.count > kMostKept) return true;
  // A client that makes and destroys one allocation in a loop gets the same object again.
  return std::ranges::any_of(
      objects_, [&](const auto& other) { return other.get() != &object && is_empty(*other); });
}

void PagesApart::release(PageFrame first, uint64_t count) {
  std::unique_ptr<Object> gone;
  {
    const runtime::MutexLock lock(mutex_);
    const auto found = std::ranges::find_if(objects_, [&](const auto& object) {
      return first.value - object->first.value < object->count;
    });
    DXGKIT_CHECK(found != objects_.end());
    (*found)->free.release(first.value - (*found)->first.value, count);
    if (!may_go(**found)) return;
    gone = std::move(*found);
    objects_.erase(found);
    pages_ -= gone->count;
  }
  unmap(*gone);
}

void PagesApart::close() {
  std::vector<std::unique_ptr<Object>> gone;
  {
    const runtime::MutexLock lock(mutex_);
    closed_ = true;
    for (auto& object : objects_) {
      if (may_go(*object)) gone.push_back(std::move(object));
    }
    std::erase(objects_, nullptr);
    for (const auto& object : gone) pages_ -= object->count;
  }
  for (const auto& object : gone) unmap(*object);
}

PagesApart::Part PagesApart::part_of(std::span<const PageFrame> pages) const {
  if (pages.empty()) return {};
  for (size_t i = 1; i < pages.size(); ++i) {
    if (pages[i].value != pages[0].value + i) return {};
  }
  const runtime::MutexLock lock(mutex_);
  for (const auto& object : objects_) {
    const uint64_t at = pages[0].value - object->first.value;
    if (!range_within(at, pages.size(), object->count)) continue;
    return {.window = {object->fd, at * kPageBytes, pages.size() * kPageBytes},
            .object = object->number};
  }
  return {};
}

size_t PagesApart::object_count() const {
  const runtime::MutexLock lock(mutex_);
  return objects_.size();
}

}  // namespace dxgkit::bus
