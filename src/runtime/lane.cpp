// The states of the lane.
//
//   kFree     not held, and the queue is empty. Threads may leave only this state without the
//             lock (run, post: to kHeld).
//   kHeld     held, and the queue is empty as far as the holder knows. The holder leaves this
//             state without the lock (to kFree).
//   kQueued   held, and the holder must check the queue before it releases the lane.
//   kPending  not held, interrupt work is queued, and a helper or the worker has been told.
//
// The queue is first in, first out, over three sorts of items: posted work, work posted from
// interrupt context, and threads in run() that wait for their turn. The holder drains the queue
// from the head. At a waiting thread it hands the lane over, so a stream of newcomers cannot starve
// a thread. A holder that has done its own work runs at most kDrainBudget items of other threads,
// and then leaves the rest to the worker.
//
// The state of an adapter is some dozens of cache lines. Fetching them to another processor costs
// more than the work of an interrupt. So while threads keep coming to the lane, the worker holds
// back for a moment, and the next thread runs the interrupt work too.
#include "runtime/lane.h"

#include <utility>

#include "base/cache_line.h"
#include "base/check.h"
#include "runtime/internal.h"

namespace dxgkit::runtime {
namespace {

constexpr uint32_t kFree = 0;
constexpr uint32_t kHeld = 1;
constexpr uint32_t kQueued = 2;
constexpr uint32_t kPending = 3;

constexpr int kDrainBudget = 64;
/// How often the worker checks pending work before it takes it from threads that keep coming: about
/// 2 us.
constexpr int kGiveWayLooks = 64;
constexpr int kNoBudget = INT32_MAX;

/// A cache line of its own: one thread fills it, another runs it.
struct alignas(kCacheLineBytes) Item {
  Item* next = nullptr;
  std::function<void()> work;     // posted items; empty for a thread in run()
  std::atomic<uint32_t> turn{0};  // threads in run(): 1 = the lane is yours
  bool is_thread = false;
  bool recurs = false;  // it belongs to who posts it
};

/// The lanes that the calling thread is on, innermost first. The head is in the thread slot.
struct OnLane {
  const Lane* lane;
  OnLane* outer;
};

OnLane*& innermost(Runtime& runtime) {
  constexpr auto kSlot = static_cast<size_t>(ThreadSlot::kLane);
  void** const slots = detail::t_thread_slots;  // null on a thread that no runtime started
  return reinterpret_cast<OnLane*&>(slots != nullptr ? slots[kSlot] : runtime.thread_slot(kSlot));
}

}  // namespace

struct Lane::RecurringWork::Item : runtime::Item {};

Lane::RecurringWork::RecurringWork(std::function<void()> work) : item_(std::make_unique<Item>()) {
  item_->work = std::move(work);
  item_->recurs = true;
}

Lane::RecurringWork::~RecurringWork() = default;

struct Lane::Impl {
  Impl(const Lane& owner, Runtime& owner_runtime, std::string lane_name)
      : lane(owner), runtime(owner_runtime), name(std::move(lane_name)) {}

  /// Marks the calling thread as on the lane for the scope.
  class Entered {
   public:
    explicit Entered(Impl& impl)
        : runtime_(impl.runtime), record_{&impl.lane, innermost(impl.runtime)} {
      innermost(runtime_) = &record_;
    }
    ~Entered() { innermost(runtime_) = record_.outer; }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;

   private:
    Runtime& runtime_;
    OnLane record_;
  };

  bool try_acquire() {
    uint32_t expected = kFree;
    return state.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  /// The holder has finished its own work. Touches no memory of the lane once it is free.
  void release() {
    uint32_t expected = kHeld;
    if (state.compare_exchange_strong(expected, kFree, std::memory_order_release,
                                      std::memory_order_relaxed)) {
      return;
    }
    drain(nullptr, kDrainBudget);
  }

  void push(Item* item) DXGKIT_REQUIRES(mutex) {
    (tail != nullptr ? tail->next : head) = item;
    tail = item;
  }
  Item* pop() DXGKIT_REQUIRES(mutex) {
    Item* const item = head;
    head = item->next;
    if (head == nullptr) tail = nullptr;
    if (item->next != nullptr) item->next = nullptr;  // not written without need: see RecurringWork
    return item;
  }

  Item* new_item(std::function<void()> work) DXGKIT_REQUIRES(mutex) {
    Item* item = spare;
    if (item != nullptr) {
      spare = std::exchange(item->next, nullptr);
    } else {
      item = new Item;
    }
    item->work = std::move(work);
    return item;
  }
  void recycle(Item* item) DXGKIT_REQUIRES(mutex) { item->next = std::exchange(spare, item); }

  /// Runs the posted item at the head; the lock is released meanwhile.
  void run_head() DXGKIT_REQUIRES(mutex) {
    Item* const item = pop();
    const bool recurs = item->recurs;  // as soon as it has begun it may be queued again
    mutex.unlock();
    {
      Entered entered(*this);
      item->work();
      if (!recurs) item->work = nullptr;
    }
    mutex.lock();
    if (!recurs) recycle(item);
  }

  /// Work is queued: makes the caller the holder (true), or leaves the work to the present holder.
  bool claim() DXGKIT_REQUIRES(mutex) {
    for (;;) {
      uint32_t seen = state.load(std::memory_order_relaxed);
      switch (seen) {
        case kFree:
          if (state.compare_exchange_weak(seen, kQueued, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
            return true;
          }
          break;
        case kHeld:
          if (state.compare_exchange_weak(seen, kQueued, std::memory_order_relaxed)) return false;
          break;
        case kQueued:
          return false;
        default:  // kPending: entered and left under the lock only
          state.store(kQueued, std::memory_order_relaxed);
          return true;
      }
    }
  }

  /// The lane is not held and work is queued: names the thread to wake for it, once the lock is
  /// released.
  const std::atomic<uint32_t>* make_pending() DXGKIT_REQUIRES(mutex) {
    state.store(kPending, std::memory_order_relaxed);
    std::atomic<uint32_t>& signal = helpers > 0 ? helper_signal : worker_signal;
    signal.fetch_add(1, std::memory_order_relaxed);
    return &signal;
  }

  /// Queues it from interrupt context, and releases the lock.
  void tell(Item* item) DXGKIT_RELEASE(mutex) {
    Runtime& owner_runtime = runtime;  // the lane may be destroyed after the unlock
    const std::atomic<uint32_t>* signal = nullptr;
    push(item);
    const bool already_told = state.load(std::memory_order_relaxed) == kPending;
    if (!already_told && claim()) signal = make_pending();
    mutex.unlock();
    if (signal != nullptr) owner_runtime.wake_one(*signal);
  }

  /// The caller holds the lane (state kQueued). Runs the queued work in order and releases the
  /// lane. Stops early, still holding it, when `own` comes up, and returns true. Otherwise returns
  /// false, and the caller holds nothing.
  bool drain(const Item* own, int budget) {
    Runtime& owner_runtime = runtime;  // the lane may be destroyed after the last unlock
    mutex.lock();
    for (;;) {
      if (head == nullptr) {
        state.store(kFree, std::memory_order_release);
        mutex.unlock();
        return false;
      }
      if (head->is_thread) {
        Item* const item = pop();
        if (item == own) {
          mutex.unlock();
          return true;
        }
        // The item is on that thread's stack and may be destroyed as soon as the thread gets its
        // turn.
        const std::atomic<uint32_t>& turn = item->turn;
        item->turn.store(1, std::memory_order_release);
        mutex.unlock();
        owner_runtime.wake_one(turn);
        return false;
      }
      if (budget-- == 0) {
        const std::atomic<uint32_t>* const signal = make_pending();
        mutex.unlock();
        owner_runtime.wake_one(*signal);
        return false;
      }
      run_head();
    }
  }

  /// true: another thread has taken the pending work
  bool give_way() {
    const uint32_t visited = visits.load(std::memory_order_relaxed);
    if (std::exchange(visits_seen, visited) == visited || runtime.is_simulated()) return false;
    for (int i = 0; i < kGiveWayLooks; ++i) {
      if (state.load(std::memory_order_relaxed) != kPending) return true;
      runtime.yield();
    }
    return false;
  }

  void serve() {
    mutex.lock();
    for (;;) {
      if (take_pending()) {
        mutex.unlock();
        drain(nullptr, kNoBudget);
        mutex.lock();
        continue;
      }
      if (stopping) break;
      const uint32_t seen = worker_signal.load(std::memory_order_relaxed);
      mutex.unlock();
      {
        WaitReason reason(runtime, worker_reason.c_str());
        runtime.wait(worker_signal, seen);
      }
      static_cast<void>(give_way());
      mutex.lock();
    }
    mutex.unlock();
  }

  /// Work from interrupt context is pending, and the queue holds nothing else: runs it. True: the
  /// caller holds the lane (state kHeld). False: it holds nothing and must queue.
  bool take_along() {
    if (state.load(std::memory_order_relaxed) != kPending) return false;
    mutex.lock();
    if (!take_pending()) {
      mutex.unlock();
      return false;
    }
    // No thread can wait in run() yet, because a new thread would have become the holder.
    for (int budget = kDrainBudget; head != nullptr && !head->is_thread && budget > 0; --budget)
      run_head();
    const bool alone = head == nullptr;
    if (alone) state.store(kHeld, std::memory_order_relaxed);
    mutex.unlock();
    if (alone) return true;
    drain(nullptr, kDrainBudget);  // they came first, so they get the turn
    return false;
  }

  /// Work is queued and the lane is not held: the caller becomes the holder (state kQueued).
  bool take_pending() DXGKIT_REQUIRES(mutex) {
    if (state.load(std::memory_order_relaxed) != kPending) return false;
    state.store(kQueued, std::memory_order_relaxed);
    return true;
  }

  const Lane& lane;
  Runtime& runtime;
  const std::string name;
  const std::string turn_reason = "its turn on lane " + name;
  const std::string worker_reason = "work from interrupt context on lane " + name;
  std::unique_ptr<Thread> worker;
  uint32_t visits_seen = 0;  // the worker's
  // Who posts and who takes write all of this: in one cache line it changes processors once.
  alignas(kCacheLineBytes) std::atomic<uint32_t> state{kFree};
  std::atomic<uint32_t> visits{0};  // by run(); written by the holder only
  Mutex mutex;
  uint32_t helpers DXGKIT_GUARDED_BY(mutex) = 0;
  Item* head DXGKIT_GUARDED_BY(mutex) = nullptr;
  Item* tail DXGKIT_GUARDED_BY(mutex) = nullptr;
  Item* spare DXGKIT_GUARDED_BY(mutex) = nullptr;
  bool stopping DXGKIT_GUARDED_BY(mutex) = false;
  // Written under the lock, slept on without. Who spins here must not slow down who holds the lock.
  alignas(kCacheLineBytes) std::atomic<uint32_t> worker_signal{0};
  alignas(kCacheLineBytes) std::atomic<uint32_t> helper_signal{0};
};

Lane::Lane(Runtime& runtime, std::string name)
    : runtime_(runtime), impl_(std::make_unique<Impl>(*this, runtime, std::move(name))) {
  impl_->worker = runtime.spawn(impl_->name + " worker", [impl = impl_.get()] { impl->serve(); });
}

Lane::~Lane() {
  DXGKIT_CHECK(!is_current());
  {
    MutexLock lock(impl_->mutex);
    impl_->stopping = true;
    impl_->worker_signal.fetch_add(1, std::memory_order_relaxed);
  }
  runtime_.wake_one(impl_->worker_signal);
  impl_->worker->join();
  // Also waits for a last poster that has not unlocked yet.
  MutexLock lock(impl_->mutex);
  DXGKIT_CHECK(impl_->state.load(std::memory_order_acquire) == kFree);
  DXGKIT_CHECK(impl_->head == nullptr);
  while (impl_->spare != nullptr) delete std::exchange(impl_->spare, impl_->spare->next);
}

void Lane::run(FunctionRef work) {
  if (is_current()) {
    work();
    return;
  }
  Impl& impl = *impl_;
  if (!impl.try_acquire() && !impl.take_along()) {
    Item self;
    self.is_thread = true;
    impl.mutex.lock();
    impl.push(&self);
    const bool holder = impl.claim();
    impl.mutex.unlock();
    if (!holder || !impl.drain(&self, kNoBudget)) {
      WaitReason reason(runtime_, impl.turn_reason.c_str());
      while (self.turn.load(std::memory_order_acquire) == 0) runtime_.wait(self.turn, 0);
    }
  }
  impl.visits.store(impl.visits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  {
    Impl::Entered entered(impl);
    work();
  }
  impl.release();
}

void Lane::post(std::function<void()> work) {
  Impl& impl = *impl_;
  if (impl.try_acquire()) {
    {
      Impl::Entered entered(impl);
      work();
    }
    impl.release();
    return;
  }
  impl.mutex.lock();
  impl.push(impl.new_item(std::move(work)));
  const bool holder = impl.claim();
  impl.mutex.unlock();
  if (holder) impl.drain(nullptr, kDrainBudget);
}

void Lane::post_from_interrupt(std::function<void()> work) {
  Impl& impl = *impl_;
  impl.mutex.lock();
  impl.tell(impl.new_item(std::move(work)));
}

void Lane::post_from_interrupt(RecurringWork& work) {
  impl_->mutex.lock();
  impl_->tell(work.item_.get());
}

bool Lane::is_current() const {
  for (const OnLane* each = innermost(runtime_); each != nullptr; each = each->outer) {
    if (each->lane == this) return true;
  }
  return false;
}

void Lane::assert_current() const { DXGKIT_CHECK(is_current()); }

WaitResult Lane::wait_helping(const std::atomic<uint32_t>& word, uint32_t expected,
                              TimeNs deadline) {
  DXGKIT_CHECK(!is_current());
  Impl& impl = *impl_;
  if (word.load(std::memory_order_acquire) != expected) return WaitResult::kWoken;
  WaitResult result = WaitResult::kWoken;
  impl.mutex.lock();
  ++impl.helpers;
  while (word.load(std::memory_order_acquire) == expected) {
    if (impl.take_pending()) {
      impl.mutex.unlock();
      impl.drain(nullptr, kDrainBudget);
      impl.mutex.lock();
      continue;
    }
    if (result == WaitResult::kTimedOut) break;
    const uint32_t seen = impl.helper_signal.load(std::memory_order_relaxed);
    impl.mutex.unlock();
    result = runtime_.wait_either(word, expected, impl.helper_signal, seen, deadline);
    impl.mutex.lock();
  }
  if (word.load(std::memory_order_acquire) != expected) result = WaitResult::kWoken;
  --impl.helpers;
  // This helper may be the one that was told. It must not leave the work behind.
  const bool told = impl.take_pending();
  impl.mutex.unlock();
  if (told) impl.drain(nullptr, kDrainBudget);
  return result;
}

}  // namespace dxgkit::runtime
