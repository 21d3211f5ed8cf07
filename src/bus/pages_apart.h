// System pages of one client process, in memory objects that other processes can be given.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bus/machine.h"
#include "bus/page_allocator.h"
#include "runtime/sync.h"

namespace dxgkit::bus {

/// System pages whose content lies in memory objects that hold nothing but pages of one group. So a
/// descriptor of such an object gives another process pages of this group, and nothing else.
/// Devices that reach system memory through the machine's addresses notice nothing.
///
/// The pages of an object are neighbours, and an object is one mapping of this process. Each object
/// is larger than what was asked for, and the larger the more pages the group has: a process has
/// few of them, however many allocations it makes. Nobody can change the size of an object.
///
/// Pages are freed through the machine, as all are. Any thread. Locks: the group's, then the
/// machine's; neither is held while a descriptor is made.
class PagesApart final : public PageOwner, public std::enable_shared_from_this<PagesApart> {
 public:
  enum class Objects { kMayGrow, kAsTheyAre };
  /// Whether objects are larger than what is asked for.
  enum class Spare { kSome, kNone };

  static std::shared_ptr<PagesApart> make(Machine& machine, Spare spare = Spare::kSome);
  ~PagesApart() override;
  PagesApart(const PagesApart&) = delete;
  PagesApart& operator=(const PagesApart&) = delete;

  /// `count` zeroed pages, > 0, one behind the other. kNoMemory: the machine has none, the system
  /// refuses, or system memory has to stay where it is (Machine::fix_system_memory).
  /// @param objects  kAsTheyAre: does not wait for a descriptor to be made
  Result<std::vector<PageFrame>> allocate(uint64_t count, Objects objects = Objects::kMayGrow);
  /// Nothing is allocated any more: objects without pages in use go now, others with their last
  /// page.
  void close();

  /// A part of a memory object. The descriptor is the group's: it is valid as long as the pages are
  /// allocated.
  struct Part {
    MemoryWindow window;
    uint64_t object = 0;  // a number that no other object of this process has
  };
  /// Where the pages lie; `fd` is -1 unless they are neighbours in one object of this group.
  Part part_of(std::span<const PageFrame> pages) const;
  /// How many there are now.
  size_t object_count() const;

  void release(PageFrame first, uint64_t count) override;

 private:
  struct Object {
    Object(PageFrame first_page, uint64_t pages, int descriptor);
    PageFrame first;
    uint64_t count;
    int fd;
    uint64_t number;
    PageAllocator free;
    std::vector<bool> dirty;  // given out before
  };

  PagesApart(Machine& machine, Spare spare) : machine_(machine), spare_(spare) {}
  /// How many pages a new object has.
  uint64_t size_of_next(uint64_t count) const;
  /// Makes an object of `count` pages. kNoMemory.
  Result<std::unique_ptr<Object>> make_object(uint64_t count);
  /// Shows a memory object at pages of the machine. Takes the descriptor. kNoMemory.
  Result<std::unique_ptr<Object>> map(int fd, uint64_t count);
  /// Puts it on the list. False: the group is closed.
  bool keep(std::unique_ptr<Object>& object);
  /// Takes neighbours out of an object; empty if there are none.
  std::vector<PageFrame> take(uint64_t count);
  /// Gives an object's pages back to the machine. Without the lock; the object is on no list.
  void unmap(const Object& object);
  /// Whether an object on the list has no page in use, and is not kept for the next allocation.
  bool may_go(const Object& object) const DXGKIT_REQUIRES(mutex_);

  Machine& machine_;
  const Spare spare_;
  mutable runtime::Mutex mutex_;
  std::vector<std::unique_ptr<Object>> objects_ DXGKIT_GUARDED_BY(mutex_);
  uint64_t pages_ DXGKIT_GUARDED_BY(mutex_) = 0;  // of all objects
  bool closed_ DXGKIT_GUARDED_BY(mutex_) = false;
};

}  // namespace dxgkit::bus
