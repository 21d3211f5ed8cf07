// Who has queued signals for which sync objects, and which contexts wait for them: what raises a
// low-priority context that a higher one depends on.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "vidsch/sync_objects.h"

namespace dxgkit::vidsch {

struct ContextState;

/// Lane: the adapter's. Keeps pointers only while told to. Whether a signal brings what a wait
/// wants is judged by the values of the two (a fence's later value satisfies an earlier one); for
/// objects without values both are 0. Cost: a look-up by object; no more where nobody waits.
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

  /// In the order they came. Valid until the next change.
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
