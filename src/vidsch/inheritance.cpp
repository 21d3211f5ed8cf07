#include "vidsch/inheritance.h"

#include <algorithm>

#include "base/check.h"
#include "vidsch/scheduler_state.h"

namespace dxgkit::vidsch {

void Inheritance::add_signaller(std::span<const SyncPoint> points, ContextState& context) {
  for (const SyncPoint& point : points) {
    objects_[point.object].signallers.push_back({&context, point.value});
  }
}

void Inheritance::add_waiter(std::span<const SyncPoint> points, ContextState& context) {
  for (const SyncPoint& point : points) {
    objects_[point.object].waiters.push_back({&context, point.value});
  }
}

void Inheritance::remove(std::span<const SyncPoint> points, const ContextState& context,
                         std::vector<Entry> Object::*list) {
  for (const SyncPoint& point : points) {
    const auto object = objects_.find(point.object);
    DXGKIT_CHECK(object != objects_.end());
    std::vector<Entry>& entries = object->second.*list;
    const auto entry = std::ranges::find_if(entries, [&](const Entry& each) {
      return each.context == &context && each.value == point.value;
    });
    DXGKIT_CHECK(entry != entries.end());
    entries.erase(entry);
    if (object->second.signallers.empty() && object->second.waiters.empty()) {
      objects_.erase(object);
    }
  }
}

void Inheritance::remove_signaller(std::span<const SyncPoint> points, const ContextState& context) {
  remove(points, context, &Object::signallers);
}

void Inheritance::remove_waiter(std::span<const SyncPoint> points, const ContextState& context) {
  remove(points, context, &Object::waiters);
}

std::span<const Inheritance::Entry> Inheritance::signallers(SyncObjectId object) const {
  const auto found = objects_.find(object);
  if (found == objects_.end()) return {};
  return found->second.signallers;
}

std::span<const Inheritance::Entry> Inheritance::waiters(SyncObjectId object) const {
  const auto found = objects_.find(object);
  if (found == objects_.end()) return {};
  return found->second.waiters;
}

// --- effects on the scheduler ---

size_t Scheduler::Impl::own_level(const Context& context) const {
  return context.desc.is_system ? kSystemLevel
                                : level_of(context.desc.priority_class, context.desc.priority);
}

/// Own or inherited level, whichever is higher. A waiting context hands on the level to which it
/// rises.
void Scheduler::Impl::set_level(Context& context) {
  const size_t level = std::max(own_level(context), context.raised);
  if (level == context.level) return;
  const bool rises = level > context.level;
  change_selection(context, [&] { context.level = level; });
  if (rises && context.blocked != nullptr) raise_signallers(context);
}

/// Levels only rise here, so a circle of waits ends.
void Scheduler::Impl::raise(Context& context, size_t level) {
  if (context.failed || context.level >= level) return;
  context.raised = level;
  set_level(context);
}

void Scheduler::Impl::raise_signallers(Context& waiter) {
  for (const SyncPoint& point : waiter.blocked->points) {
    for (const Inheritance::Entry& entry : inheritance_.signallers(point.object)) {
      if (entry.context != &waiter && entry.value >= point.value) {
        raise(*entry.context, waiter.level);
      }
    }
  }
}

void Scheduler::Impl::signal_queued(Packet& packet) {
  packet.credited = true;
  inheritance_.add_signaller(packet.points, *packet.context);
  for (const SyncPoint& point : packet.points) {
    for (const Inheritance::Entry& entry : inheritance_.waiters(point.object)) {
      if (entry.context != packet.context && entry.value <= point.value) {
        raise(*packet.context, entry.context->level);
      }
    }
  }
}

void Scheduler::Impl::wait_blocked(Packet& packet) {
  packet.credited = true;
  inheritance_.add_waiter(packet.points, *packet.context);
  raise_signallers(*packet.context);
}

/// The signal has taken effect or never will, or the wait is over. A raised context falls to the
/// level that its other signals give it.
void Scheduler::Impl::inheritance_gone(Packet& packet) {
  packet.credited = false;
  Context& context = *packet.context;
  if (packet.kind == PacketKind::kWait) {
    inheritance_.remove_waiter(packet.points, context);
    return;
  }
  inheritance_.remove_signaller(packet.points, context);
  if (context.raised != 0) inherit_anew(context);
}

/// The highest level of the contexts that wait for its queued signals.
void Scheduler::Impl::inherit_anew(Context& context) {
  size_t raised = 0;
  for (const PacketList* list : {&context.flight, &context.queue}) {
    for (const Packet* other = list->front(); other != nullptr; other = PacketList::next(other)) {
      if (other->kind != PacketKind::kSignal) continue;
      for (const SyncPoint& point : other->points) {
        for (const Inheritance::Entry& entry : inheritance_.waiters(point.object)) {
          if (entry.context != &context && entry.value <= point.value) {
            raised = std::max(raised, entry.context->level);
          }
        }
      }
    }
  }
  context.raised = raised;
  set_level(context);
}

}  // namespace dxgkit::vidsch
