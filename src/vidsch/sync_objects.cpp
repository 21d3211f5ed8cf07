#include "vidsch/sync_objects.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "base/check.h"
#include "trace/trace.h"
#include "vidsch/containers.h"

namespace dxgkit::vidsch {
namespace {

struct Object;
struct Wait;

/// The least value of an object without waiters.
constexpr uint64_t kNobody = std::numeric_limits<uint64_t>::max();

/// One point of one wait, on the list of the object it waits for.
struct Waiter {
  Wait* wait = nullptr;
  Object* object = nullptr;  // null: the object was destroyed, the point counts as reached
  uint64_t value = 0;
  bool latched = false;  // reached once; a later rewind does not undo it (SYNC-23)
  ListLink<Waiter> link;
};
using WaiterList = IntrusiveList<Waiter, &Waiter::link>;

struct Object {
  SyncObjectId id;
  SyncDesc desc;
  uint64_t value = 0;  // where there is no storage: fence value, semaphore count, mutex 1 = owned,
                       // notification count
  uint64_t awaited = kNobody;  // the last argument of `watched`
  ContextId owner;             // mutex: the context that waited for it; 0: none known
  WaiterList waiters;
  ListLink<Object> waited_link;
  size_t slot = 0;  // in `owned`

  bool is_fence() const {
    return desc.kind == SyncKind::kFence || desc.kind == SyncKind::kMonitoredFence;
  }
  bool published() const { return desc.storage != nullptr || desc.storage32 != nullptr; }
  uint64_t current() {
    // Acquire: the signaller's writes before the value are visible to the waiters we wake.
    if (desc.storage32 != nullptr) extend(desc.storage32->load(std::memory_order_acquire));
    return desc.storage == nullptr ? value : desc.storage->load(std::memory_order_acquire);
  }
  /// The value nearest to the last one whose low half was found in the storage (SYNC-17).
  void extend(uint32_t low) {
    value += static_cast<uint64_t>(
        static_cast<int64_t>(static_cast<int32_t>(low - static_cast<uint32_t>(value))));
  }
};

struct Wait {
  CpuWaitId id = 0;
  bool on_cpu = true;
  ContextId context;
  WaitMode mode = WaitMode::kAll;
  WaitDone done;
  std::vector<Waiter> points;
  ListLink<Wait> link;
};

}  // namespace

struct SyncObjects::Impl {
  explicit Impl(std::function<void(ContextId)> woken_in) : woken(std::move(woken_in)) {}

  struct Fired {
    WaitDone done;
    Status status = Status::kSuccess;
    std::function<void()> notify;
    ContextId context;
  };

  Object* get(SyncObjectId id) const { return objects.find(id.value); }

  /// Stores the value where it is published. Release: pairs with the readers' acquire.
  static void publish(Object& object, const SyncPoint& point) {
    if (object.desc.storage32 != nullptr) {
      std::atomic<uint32_t>& low = *object.desc.storage32;
      uint32_t seen = low.load(std::memory_order_acquire);
      do {
        object.extend(seen);
        if (!point.allow_rewind && point.value <= object.value) return;
      } while (!low.compare_exchange_weak(seen, static_cast<uint32_t>(point.value),
                                          std::memory_order_release, std::memory_order_acquire));
      object.value = point.value;
      return;
    }
    if (object.desc.storage == nullptr) {
      if (point.allow_rewind || point.value > object.value) object.value = point.value;
      return;
    }
    std::atomic<uint64_t>& storage = *object.desc.storage;
    if (object.desc.store) {
      if (point.allow_rewind || point.value > storage.load(std::memory_order_acquire))
        object.desc.store(point.value);
      return;
    }
    if (point.allow_rewind) {
      storage.store(point.value, std::memory_order_release);
      return;
    }
    // The GPU may write the word meanwhile; only an exchange keeps the value from falling.
    uint64_t seen = storage.load(std::memory_order_relaxed);
    while (seen < point.value &&
           !storage.compare_exchange_weak(seen, point.value, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
  }

  static bool available(Waiter& point) {
    if (point.latched || point.object == nullptr) return true;
    Object& object = *point.object;
    switch (object.desc.kind) {
      case SyncKind::kFence:
      case SyncKind::kMonitoredFence:
        point.latched = object.current() >= point.value;
        return point.latched;
      case SyncKind::kCpuNotification:
        point.latched = object.value > 0;
        return point.latched;
      case SyncKind::kSemaphore:
        return object.value > 0;
      case SyncKind::kMutex:
        return object.value == 0;
    }
    return false;
  }

  static void consume(Waiter& point, ContextId context) {
    if (point.object == nullptr) return;
    Object& object = *point.object;
    if (object.desc.kind == SyncKind::kSemaphore) --object.value;
    if (object.desc.kind == SyncKind::kMutex) {
      object.value = 1;
      object.owner = context;
    }
  }

  static void give_back(Waiter& point) {
    if (point.object == nullptr) return;
    Object& object = *point.object;
    if (object.desc.kind == SyncKind::kSemaphore) ++object.value;
    if (object.desc.kind == SyncKind::kMutex) {
      object.value = 0;
      object.owner = {};
    }
  }

  /// True if the wait is satisfied now. It then takes all points or (kAny) the first one; otherwise
  /// it takes nothing.
  static bool try_satisfy(Wait& wait) {
    if (wait.mode == WaitMode::kAny) {
      for (Waiter& point : wait.points) {
        if (!available(point)) continue;
        consume(point, wait.context);
        return true;
      }
      return wait.points.empty();
    }
    // Every fence point is checked even if an earlier point fails, so that all points reached now
    // are latched.
    bool all = true;
    for (Waiter& point : wait.points) all = available(point) && all;
    if (!all) return false;
    // A point may name one semaphore twice: take them one by one and undo if the second is not
    // available.
    for (size_t i = 0; i < wait.points.size(); ++i) {
      if (!available(wait.points[i])) {
        while (i-- > 0) give_back(wait.points[i]);
        return false;
      }
      consume(wait.points[i], wait.context);
    }
    return true;
  }

  void enlist(Wait& wait) {
    for (Waiter& point : wait.points) {
      if (point.object == nullptr) continue;
      Object& object = *point.object;
      if (object.waiters.empty()) waited.push_back(&object);
      object.waiters.push_back(&point);
    }
    waits.push_back(&wait);
    if (wait.on_cpu) {
      DXGKIT_CHECK(cpu_waits.insert(wait.id, &wait));
    } else {
      DXGKIT_CHECK(gpu_waits.insert(wait.context.value, &wait));
    }
  }

  void delist(Waiter& point) {
    if (point.object == nullptr) return;
    Object& object = *point.object;
    object.waiters.erase(&point);
    if (object.waiters.empty()) waited.erase(&object);
    if (object.desc.watched) unsettled.push_back(object.id);
    point.object = nullptr;
  }

  /// Tells objects of a wait that is about to be enlisted. True: one was told, and its value must
  /// be read again.
  static bool announce(const Wait& wait) {
    bool told = false;
    for (const Waiter& point : wait.points) {
      if (point.object == nullptr || point.latched || !point.object->desc.watched) continue;
      if (point.value >= point.object->awaited) continue;
      point.object->awaited = point.value;
      point.object->desc.watched(point.value);
      told = true;
    }
    return told;
  }

  /// The wait is satisfied after all, and was never enlisted.
  void withdraw(const Wait& wait) {
    for (const Waiter& point : wait.points) {
      if (point.object != nullptr && point.object->desc.watched)
        unsettled.push_back(point.object->id);
    }
    settle(/*read_again=*/false);
  }

  /// Tells objects that lost waiters what the remaining waiters wait for. Where no waiter can be
  /// woken now, nothing is read again: a value above the new mark was above the old one too, and is
  /// reported.
  void settle(bool read_again) {
    while (!unsettled.empty()) {
      Object* const object = get(unsettled.back());
      unsettled.pop_back();
      if (object == nullptr) continue;
      uint64_t least = kNobody;
      for (const Waiter* point = object->waiters.front(); point != nullptr;
           point = WaiterList::next(point)) {
        if (!point->latched) least = std::min(least, point->value);
      }
      if (least == object->awaited) continue;
      object->awaited = least;
      object->desc.watched(least);
      if (read_again) evaluate(*object);
    }
  }

  void forget(Wait* wait) {
    for (Waiter& point : wait->points) delist(point);
    waits.erase(wait);
    if (wait->on_cpu) {
      cpu_waits.erase(wait->id);
    } else {
      gpu_waits.erase(wait->context.value);
    }
    delete wait;
  }

  void finish(Wait* wait, Status status) {
    for (const Waiter& point : wait->points) {
      if (point.object == nullptr) continue;
      trace::emit(trace::EventKind::kSyncSatisfied, point.object->id.value, point.value,
                  wait->context.value);
    }
    Fired event;
    event.status = status;
    event.done = std::move(wait->done);
    event.context = wait->context;
    forget(wait);
    fired.push_back(std::move(event));
  }

  /// Gives waiters of the object, oldest first, what they can have. A wait that needs more than
  /// this object holds back no other waiter.
  void evaluate(Object& object) {
    Waiter* point = object.waiters.front();
    while (point != nullptr) {
      Wait* wait = point->wait;
      // The wait may own several points of this list and takes them all along: step past them
      // first.
      Waiter* next = WaiterList::next(point);
      while (next != nullptr && next->wait == wait) next = WaiterList::next(next);
      if (try_satisfy(*wait)) {
        // Points of one wait are enlisted together, so nothing between `point` and `next` belongs
        // to another wait.
        finish(wait, Status::kSuccess);
      }
      point = next;
    }
    if (object.desc.watched) unsettled.push_back(object.id);
  }

  /// Runs callbacks one after the other, never one inside another. A callback may call anything
  /// here.
  void dispatch() {
    if (dispatching) return;
    dispatching = true;
    for (settle(true); !fired.empty(); settle(true)) {
      Fired event = std::move(fired.front());
      fired.pop_front();
      if (event.done) {
        event.done(event.status);
      } else if (event.notify) {
        event.notify();
      } else {
        woken(event.context);
      }
    }
    dispatching = false;
  }

  Wait* make_wait(std::span<const SyncPoint> points) {
    Wait* wait = new Wait;  // owned by `waits` once enlisted, by the caller until then
    wait->id = next_wait++;
    wait->points.resize(points.size());
    for (size_t i = 0; i < points.size(); ++i) {
      wait->points[i].wait = wait;
      wait->points[i].object = get(points[i].object);
      wait->points[i].value = points[i].value;
    }
    return wait;
  }

  std::function<void(ContextId)> woken;
  IdTable<Object> objects;
  std::vector<std::unique_ptr<Object>> owned;  // slots of `objects`
  IntrusiveList<Object, &Object::waited_link>
      waited;  // objects with waiters, in order of their first waiter
  IntrusiveList<Wait, &Wait::link> waits;
  IdTable<Wait> cpu_waits;
  IdTable<Wait> gpu_waits;              // by context: a context waits at its head only
  std::vector<SyncObjectId> unsettled;  // watched objects that lost waiters
  std::deque<Fired> fired;
  CpuWaitId next_wait = 1;
  bool dispatching = false;
};

SyncObjects::SyncObjects(std::function<void(ContextId)> woken)
    : impl_(std::make_unique<Impl>(std::move(woken))) {}

SyncObjects::~SyncObjects() {
  while (Wait* wait = impl_->waits.front()) impl_->forget(wait);
}

Status SyncObjects::create(SyncObjectId id, SyncDesc desc) {
  if (desc.kind == SyncKind::kSemaphore && desc.initial > desc.maximum)
    return Status::kInvalidParameter;
  if (desc.kind == SyncKind::kMutex && desc.initial > 1) return Status::kInvalidParameter;
  auto object = std::make_unique<Object>();
  object->id = id;
  object->value = desc.kind == SyncKind::kCpuNotification ? 0 : desc.initial;
  object->desc = std::move(desc);
  if (!object->is_fence()) {
    object->desc.storage = nullptr;
    object->desc.storage32 = nullptr;
  }
  if (object->desc.storage32 != nullptr) {
    object->desc.storage32->store(static_cast<uint32_t>(object->desc.initial),
                                  std::memory_order_release);
  }
  if (object->desc.storage != nullptr) {
    object->desc.storage->store(object->desc.initial, std::memory_order_release);
  }
  DXGKIT_CHECK(impl_->objects.insert(id.value, object.get()));
  object->slot = impl_->owned.size();
  impl_->owned.push_back(std::move(object));
  return Status::kSuccess;
}

void SyncObjects::destroy(SyncObjectId id) {
  Object* object = impl_->get(id);
  DXGKIT_CHECK(object != nullptr);
  while (Waiter* point = object->waiters.front()) {
    Wait* wait = point->wait;
    if (wait->on_cpu) {
      impl_->finish(wait, Status::kInvalidHandle);
      continue;
    }
    for (Waiter& own : wait->points) {
      if (own.object == object) impl_->delist(own);
    }
    if (Impl::try_satisfy(*wait)) impl_->finish(wait, Status::kSuccess);
  }
  impl_->objects.erase(id.value);
  const size_t slot = object->slot;
  std::swap(impl_->owned[slot], impl_->owned.back());
  impl_->owned[slot]->slot = slot;
  impl_->owned.pop_back();
  impl_->dispatch();
}

bool SyncObjects::contains(SyncObjectId id) const { return impl_->get(id) != nullptr; }

SyncKind SyncObjects::kind(SyncObjectId id) const {
  const Object* object = impl_->get(id);
  DXGKIT_CHECK(object != nullptr);
  return object->desc.kind;
}

uint64_t SyncObjects::value(SyncObjectId id) const {
  Object* object = impl_->get(id);
  DXGKIT_CHECK(object != nullptr);
  return object->current();
}

bool SyncObjects::in_reach(const SyncPoint& point) const {
  Object* object = impl_->get(point.object);
  if (object == nullptr || object->desc.storage32 == nullptr) return true;
  const uint64_t value = object->current();
  const uint64_t distance = point.value > value ? point.value - value : value - point.value;
  return distance <= UINT32_MAX / 2;
}

Status SyncObjects::signal(std::span<const SyncPoint> points, ContextId from) {
  // Counted objects first, one after the other, so that a refusal can be undone without a trace.
  Status status = Status::kSuccess;
  size_t applied = 0;
  for (; applied < points.size() && is_success(status); ++applied) {
    Object* object = impl_->get(points[applied].object);
    if (object == nullptr) continue;
    if (object->desc.kind == SyncKind::kSemaphore) {
      if (object->value == object->desc.maximum) {
        status = Status::kInvalidParameter;
        break;
      }
      ++object->value;
    }
    if (object->desc.kind == SyncKind::kMutex) {
      if (object->value == 0) {
        status = Status::kInvalidParameter;
        break;
      }
      object->value = 0;
    }
  }
  if (!is_success(status)) {
    while (applied-- > 0) {
      Object* object = impl_->get(points[applied].object);
      if (object == nullptr) continue;
      if (object->desc.kind == SyncKind::kSemaphore) --object->value;
      if (object->desc.kind == SyncKind::kMutex) object->value = 1;
    }
    return status;
  }
  for (const SyncPoint& point : points) {
    Object* object = impl_->get(point.object);
    if (object == nullptr) continue;
    if (object->is_fence()) Impl::publish(*object, point);
    if (object->desc.kind == SyncKind::kMutex) object->owner = {};
    if (object->desc.kind == SyncKind::kCpuNotification) {
      ++object->value;
      if (object->desc.notify) {
        Impl::Fired event;
        event.notify = object->desc.notify;
        impl_->fired.push_back(std::move(event));
      }
    }
    trace::emit(trace::EventKind::kSyncSignal, point.object.value, point.value, from.value);
  }
  for (const SyncPoint& point : points) {
    Object* const object = impl_->get(point.object);
    if (object != nullptr) impl_->evaluate(*object);
  }
  impl_->dispatch();
  return Status::kSuccess;
}

CpuWaitId SyncObjects::wait_cpu(std::span<const SyncPoint> points, WaitMode mode, WaitDone done) {
  std::unique_ptr<Wait> wait(impl_->make_wait(points));
  wait->mode = mode;
  const CpuWaitId id = wait->id;
  for (const SyncPoint& point : points) {
    trace::emit(trace::EventKind::kSyncWait, point.object.value, point.value);
    if (impl_->get(point.object) == nullptr) {
      done(Status::kInvalidHandle);
      return id;
    }
  }
  const bool satisfied = Impl::try_satisfy(*wait);
  if (satisfied || (Impl::announce(*wait) && Impl::try_satisfy(*wait))) {
    if (!satisfied) impl_->withdraw(*wait);
    for (const SyncPoint& point : points) {
      trace::emit(trace::EventKind::kSyncSatisfied, point.object.value, point.value);
    }
    done(Status::kSuccess);
    return id;
  }
  wait->done = std::move(done);
  DXGKIT_CHECK(static_cast<bool>(wait->done));
  impl_->enlist(*wait.release());
  return id;
}

bool SyncObjects::cancel_wait(CpuWaitId wait) {
  Wait* found = impl_->cpu_waits.find(wait);
  if (found == nullptr) return false;
  impl_->forget(found);
  impl_->settle(/*read_again=*/false);
  return true;
}

bool SyncObjects::wait_gpu(ContextId context, std::span<const SyncPoint> points) {
  std::unique_ptr<Wait> wait(impl_->make_wait(points));
  wait->on_cpu = false;
  wait->context = context;
  for (const SyncPoint& point : points) {
    trace::emit(trace::EventKind::kSyncWait, point.object.value, point.value, context.value);
  }
  const bool satisfied = Impl::try_satisfy(*wait);
  if (satisfied || (Impl::announce(*wait) && Impl::try_satisfy(*wait))) {
    if (!satisfied) impl_->withdraw(*wait);
    for (const SyncPoint& point : points) {
      trace::emit(trace::EventKind::kSyncSatisfied, point.object.value, point.value, context.value);
    }
    return true;
  }
  impl_->enlist(*wait.release());
  return false;
}

void SyncObjects::cancel_gpu_wait(ContextId context) {
  if (Wait* found = impl_->gpu_waits.find(context.value)) {
    impl_->forget(found);
    impl_->settle(/*read_again=*/false);
  }
}

void SyncObjects::abandon(ContextId context) {
  std::vector<SyncObjectId> mutexes;
  for (const auto& object : impl_->owned) {
    // Nothing but mutexes has an owner.
    if (object->value == 1 && object->owner == context && context.value != 0)
      mutexes.push_back(object->id);
  }
  std::ranges::sort(mutexes);
  for (const SyncObjectId id : mutexes) {
    if (Object* object = impl_->get(id)) {
      object->value = 0;
      object->owner = {};
      impl_->evaluate(*object);
    }
  }
  impl_->dispatch();
}

void SyncObjects::reread() {
  std::vector<SyncObjectId> ids;  // evaluation changes the list of waited objects
  for (Object* object = impl_->waited.front(); object != nullptr;
       object = IntrusiveList<Object, &Object::waited_link>::next(object)) {
    if (object->published()) ids.push_back(object->id);
  }
  for (const SyncObjectId id : ids) {
    if (Object* object = impl_->get(id)) impl_->evaluate(*object);
  }
  impl_->dispatch();
}

void SyncObjects::reread(std::span<const SyncObjectId> objects) {
  for (const SyncObjectId id : objects) {
    if (Object* object = impl_->get(id)) impl_->evaluate(*object);
  }
  impl_->dispatch();
}

std::vector<WaitInfo> SyncObjects::waits() const {
  std::vector<WaitInfo> all;
  for (const Wait* wait = impl_->waits.front(); wait != nullptr;
       wait = IntrusiveList<Wait, &Wait::link>::next(wait)) {
    WaitInfo& info = all.emplace_back();
    info.context = wait->context;
    info.mode = wait->mode;
    for (const Waiter& waiter : wait->points) {
      WaitInfo::Point& point = info.points.emplace_back();
      point.value = waiter.value;
      point.reached = waiter.latched || waiter.object == nullptr;
      if (waiter.object == nullptr) continue;
      Object& object = *waiter.object;
      point.object = object.id;
      point.kind = object.desc.kind;
      point.current = object.current();
      point.owner = object.owner;
    }
  }
  return all;
}

bool SyncObjects::validate() const {
  size_t waited = 0;
  for (const auto& object : impl_->owned) {
    if (impl_->get(object->id) != object.get()) return false;
    if (object->desc.kind == SyncKind::kSemaphore && object->value > object->desc.maximum) {
      return false;
    }
    if (object->desc.kind == SyncKind::kMutex && object->value > 1) return false;
    if (object->waiters.empty() != !object->waited_link.listed) return false;
    if (!object->waiters.empty()) ++waited;
    // A counted object is never available while a waiter wants nothing but it.
    for (const Waiter* point = object->waiters.front(); point != nullptr;
         point = WaiterList::next(point)) {
      if (point->object != object.get()) return false;
      if (point->wait->points.size() != 1 || object->published()) continue;
      if (object->desc.kind == SyncKind::kSemaphore && object->value > 0) return false;
      if (object->desc.kind == SyncKind::kMutex && object->value == 0) return false;
      if (object->is_fence() && object->value >= point->value) return false;
    }
  }
  return waited == impl_->waited.size() &&
         impl_->waits.size() == impl_->cpu_waits.size() + impl_->gpu_waits.size();
}

}  // namespace dxgkit::vidsch
