#include "dxgk/sync/periodic_fences.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/work/device.h"

namespace dxgkit::dxgk {
namespace {

/// Once each, whoever has them open, in order of creation.
std::vector<SharedSync*> periodic_fences(Adapter& adapter) DXGKIT_REQUIRES(on_lane) {
  std::vector<SharedSync*> fences;
  for (Device* device : adapter.devices()) {
    for (const SyncObject* opened : device->sync_objects) {
      SharedSync* const shared = opened->shared.get();
      if (!shared->periodic) continue;
      if (std::ranges::find(fences, shared) == fences.end()) fences.push_back(shared);
    }
  }
  std::ranges::sort(fences, {}, [](const SharedSync* fence) { return fence->id; });
  return fences;
}

void signal_next(Adapter& adapter, const SharedSync& fence) DXGKIT_REQUIRES(on_lane) {
  vidsch::SyncObjects& objects = adapter.core().scheduler().sync_objects();
  const vidsch::SyncPoint point{.object = fence.id, .value = objects.value(fence.id) + 1};
  static_cast<void>(objects.signal(std::span(&point, 1)));
}

/// The lead of the fence's next vertical sync begins.
void signal_ahead(Adapter& adapter, SyncObjectId id) DXGKIT_REQUIRES(on_lane) {
  for (SharedSync* fence : periodic_fences(adapter)) {
    if (fence->id != id) continue;
    fence->ahead = true;
    signal_next(adapter, *fence);
  }
  adapter.core().pump();
}

}  // namespace

void signal_periodic_fences(Adapter& adapter, uint32_t target) {
  const int64_t now = adapter.core().runtime().now();
  for (SharedSync* fence : periodic_fences(adapter)) {
    if (fence->target != target) continue;
    if (!std::exchange(fence->ahead, false)) signal_next(adapter, *fence);
    const int64_t last = std::exchange(fence->last_vsync_ns, now);
    if (fence->lead_ns == 0 || last < 0) continue;
    if (!fence->timer) {
      fence->timer =
          adapter.core().runtime().make_timer([owner = Ref<Adapter>(&adapter), id = fence->id] {
            owner->core().lane().post_from_interrupt(
                [owner, id]() DXGKIT_REQUIRES(on_lane) { signal_ahead(*owner, id); });
          });
    }
    const int64_t period = std::min(now - last, kFrameMostNs);
    fence->timer->arm(now + std::max<int64_t>(period - fence->lead_ns, 0));
  }
}

Status check_periodic(Adapter& adapter, uint32_t target, uint64_t lead_100ns) {
  if (adapter.display() == nullptr) return Status::kInvalidParameter;
  const DisplayConfiguration configuration = adapter.display()->configuration();
  const bool known = std::ranges::any_of(
      configuration.targets, [&](const DisplayTarget& one) { return one.id == target; });
  if (!known) return Status::kInvalidParameter;
  int64_t frame_ns = kFrameMostNs;
  const vidpn::Network network = adapter.display()->active_network();
  if (const vidpn::TargetMode* mode = network.pinned_target_mode(target)) {
    const vidpn::Rational& rate = mode->signal.vsync;
    if (rate.specified() && rate.numerator != 0)
      frame_ns = static_cast<int64_t>(uint64_t{1'000'000'000} * rate.denominator / rate.numerator);
  }
  frame_ns = std::min(frame_ns, kFrameMostNs);
  return lead_100ns <= static_cast<uint64_t>(frame_ns) / 100 ? Status::kSuccess
                                                             : Status::kInvalidParameter;
}

}  // namespace dxgkit::dxgk
