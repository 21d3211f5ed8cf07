// Priority inheritance: contexts with queued signals, and contexts that wait for the same sync
// objects. A low-priority context is raised if a higher one depends on its signal.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "vidsch/sync_objects.h"

namespace dxgkit::vidsch {

struct ContextState;

/// Lane: the adapter's. Keeps pointers only between the calls that add and remove them. The two
/// values decide whether a signal satisfies a wait (a fence's later value satisfies an earlier
/// one). For objects without values both are 0. Cost: a look-up by object, and no more if no
/// context waits.
class Inheritance {
 public:
  struct Entry {
    ContextState* context = nullptr;
    uint64_t value = 0;
  };

  void add_signaller(std::span<const SyncPoint> points, ContextState& context);
  void remove_signaller(std::span<const SyncPoint> points, const ContextState& context);
  void add_waiter(std::span<const SyncPoint> points, ContextState& context);
  void remove_waiter(std::span<const SyncPoint> points, const ContextState& context);

  /// In the order in which they came. Valid until the next change.
  std::span<const Entry> signallers(SyncObjectId object) const;
  std::span<const Entry> waiters(SyncObjectId object) const;
  bool empty() const { return objects_.empty(); }

 private:
  struct Object {
    std::vector<Entry> signallers = {}, waiters = {};
  };
  void remove(std::span<const SyncPoint> points, const ContextState& context,
              std::vector<Entry> Object::*list);
  std::map<SyncObjectId, Object> objects_;
};

}  // namespace dxgkit::vidsch
