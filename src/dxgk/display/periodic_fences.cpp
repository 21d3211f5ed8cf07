#include "dxgk/display/periodic_fences.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "dxgk/display/display.h"
#include "dxgk/display/display_floor.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/work/device.h"

namespace dxgkit::dxgk {
namespace {

/// Once each, whoever has them open, in order of creation.
std::vector<SharedSync*> periodic_fences(DisplayFloor& floor) DXGKIT_REQUIRES(on_lane) {
  std::vector<SharedSync*> fences;
  for (Device* device : floor.devices) {
    for (const SyncObject* opened : device->sync().objects) {
      SharedSync* const shared = opened->shared.get();
      if (!shared->periodic) continue;
      if (std::ranges::find(fences, shared) == fences.end()) fences.push_back(shared);
    }
  }
  std::ranges::sort(fences, {}, [](const SharedSync* fence) { return fence->id; });
  return fences;
}

void signal_next(DisplayFloor& floor, const SharedSync& fence) DXGKIT_REQUIRES(on_lane) {
  vidsch::SyncObjects& objects = floor.core.scheduler().sync_objects();
  const vidsch::SyncPoint point{.object = fence.id, .value = objects.value(fence.id) + 1};
  static_cast<void>(objects.signal(std::span(&point, 1)));
}

/// The lead of the fence's next vertical sync begins.
void signal_ahead(DisplayFloor& floor, SyncObjectId id) DXGKIT_REQUIRES(on_lane) {
  for (SharedSync* fence : periodic_fences(floor)) {
    if (fence->id != id) continue;
    fence->ahead = true;
    signal_next(floor, *fence);
  }
  floor.core.pump();
}

}  // namespace

void signal_periodic_fences(DisplayFloor& floor, uint32_t target) {
  const int64_t now = floor.core.runtime().now();
  for (SharedSync* fence : periodic_fences(floor)) {
    if (fence->target != target) continue;
    if (!std::exchange(fence->ahead, false)) signal_next(floor, *fence);
    const int64_t last = std::exchange(fence->last_vsync_ns, now);
    if (fence->lead_ns == 0 || last < 0) continue;
    if (!fence->timer) {
      fence->timer =
          floor.core.runtime().make_timer([&floor, adapter = floor.keep_adapter(), id = fence->id] {
            floor.core.lane().post_from_interrupt(
                [&floor, adapter, id]() DXGKIT_REQUIRES(on_lane) { signal_ahead(floor, id); });
          });
    }
    const int64_t period = std::min(now - last, kFrameMostNs);
    fence->timer->arm(now + std::max<int64_t>(period - fence->lead_ns, 0));
  }
}

Status check_periodic(DisplayFloor& floor, uint32_t target, uint64_t lead_100ns) {
  if (floor.display == nullptr) return Status::kInvalidParameter;
  const DisplayConfiguration configuration = floor.display->configuration();
  const bool known = std::ranges::any_of(
      configuration.targets, [&](const DisplayTarget& one) { return one.id == target; });
  if (!known) return Status::kInvalidParameter;
  int64_t frame_ns = kFrameMostNs;
  const vidpn::Network network = floor.display->active_network();
  if (const vidpn::TargetMode* mode = network.pinned_target_mode(target)) {
    const vidpn::Rational& rate = mode->signal.vsync;
    if (rate.specified())  // then it is not 0 (VIDPN-02)
      frame_ns = static_cast<int64_t>(uint64_t{1'000'000'000} * rate.denominator / rate.numerator);
  }
  frame_ns = std::min(frame_ns, kFrameMostNs);
  return lead_100ns <= static_cast<uint64_t>(frame_ns) / 100 ? Status::kSuccess
                                                             : Status::kInvalidParameter;
}

}  // namespace dxgkit::dxgk
