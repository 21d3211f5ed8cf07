// Which pages of a machine somebody else gives out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "bus/machine.h"

namespace dxgkit::bus {

/// Not thread-safe: the machine locks. Pages are named by frame number.
class PageOwners {
 public:
  /// Pages that have the same answer.
  struct Found {
    uint64_t first = 0;          // of the owner's pages
    uint64_t until = 0;          // the frame behind those that have this answer
    int fd = -1;                 // of their memory object
    PageOwner* owner = nullptr;  // null: they are the machine's
  };
  /// A run of pages that go back to who owns them.
  struct Returned {
    std::shared_ptr<PageOwner> owner;
    uint64_t first = 0, count = 0;
  };

  void add(uint64_t first, uint64_t count, int fd, std::shared_ptr<PageOwner> owner);
  /// The owner of the range that begins there. CHECKed.
  std::shared_ptr<PageOwner> remove(uint64_t first);
  bool empty() const { return ranges_.empty(); }
  Found find(uint64_t frame) const;
  /// Takes a run apart: calls `release` for pages of the machine, and adds others to `returned`.
  void split(uint64_t first, uint64_t count, std::vector<Returned>& returned,
             const std::function<void(uint64_t first, uint64_t count)>& release) const;

 private:
  struct Range {
    uint64_t count = 0;
    int fd = -1;
    std::shared_ptr<PageOwner> owner;
  };
  std::map<uint64_t, Range> ranges_;  // by first frame
};

}  // namespace dxgkit::bus
