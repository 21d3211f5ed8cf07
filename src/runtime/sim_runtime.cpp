// The sim runtime. Every thread is a fiber on the calling OS thread, and time is a number. At every
// scheduling point one seed decides which runnable fiber runs next. Nothing depends on an address:
// wait queues are looked up by address, but their waiters wake in order of entry or as the seed
// says.
#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "runtime/deadlock_note.h"
#include "runtime/internal.h"
#include "runtime/sim_stack.h"
#include "runtime/sim_time.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DXGKIT_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define DXGKIT_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define DXGKIT_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define DXGKIT_TSAN 1
#endif
#ifdef DXGKIT_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef DXGKIT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace dxgkit::runtime {
namespace {

namespace context = boost::context::detail;

class SimRuntime;
class SimThread;
struct Fiber;

/// The C++ runtime's per-OS-thread exception state (caught stack, uncaught count), which each fiber
/// needs of its own: a fiber may be switched away from inside a catch block. Layout: Itanium C++
/// ABI, section 2.2.2.
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

struct WaitNode {
  Fiber* fiber = nullptr;
  const std::atomic<uint32_t>* word = nullptr;
  uint32_t expected = 0;
  WaitNode* previous = nullptr;
  WaitNode* next = nullptr;
};

enum class FiberState : uint8_t { kRunnable, kRunning, kWaiting, kEnded };

constexpr size_t kNotInHeap = SIZE_MAX;

/// What a switch touches comes first and shares a cache line, wherever the fiber lies.
struct alignas(64) Fiber {
  SimRuntime* runtime = nullptr;
  context::fcontext_t context = nullptr;
  ExceptionState exceptions;
  FiberState state = FiberState::kRunnable;
  bool timed_out = false;
  bool counted = true;  // run_main waits for it
  uint8_t node_count = 0;
  uint32_t number = 0;
  std::array<WaitNode, 2> nodes;
  TimeNs due = kForever;
  uint64_t due_order = 0;
  size_t heap_index = kNotInHeap;
  const char* wait_reason = nullptr;
  std::array<void*, kThreadSlots> slots{};
  std::string name;
  std::function<void()> body;
  SimThread* handle = nullptr;
  FiberStack stack;
#ifdef DXGKIT_ASAN
  void* fake_stack = nullptr;
  const void* asan_bottom = nullptr;
  size_t asan_bytes = 0;
#endif
#ifdef DXGKIT_TSAN
  void* tsan_fiber = nullptr;
#endif
};

class SimThread final : public Thread {
 public:
  explicit SimThread(Runtime& runtime) : runtime_(runtime) {}
  ~SimThread() override { DXGKIT_CHECK(joined_); }
  void join() override {
    DXGKIT_CHECK(!joined_);
    if (done_.load(std::memory_order_relaxed) == 0) {
      WaitReason reason(runtime_, "a thread to end (join)");
      while (done_.load(std::memory_order_relaxed) == 0) runtime_.wait(done_, 0);
    }
    joined_ = true;
  }
  std::atomic<uint32_t> done_{0};

 private:
  Runtime& runtime_;
  bool joined_ = false;
};

/// Sleeping fibers, soonest first; equal times in order of arrival. Each knows its place, so
/// removal is cheap.
class SleepHeap {
 public:
  bool empty() const { return heap_.empty(); }
  Fiber* first() const { return heap_.front(); }
  void push(Fiber* fiber, TimeNs due) {
    fiber->due = due;
    fiber->due_order = next_order_++;
    heap_.push_back(fiber);
    rise(heap_.size() - 1);
  }
  void remove(Fiber* fiber) {
    const size_t index = fiber->heap_index;
    fiber->heap_index = kNotInHeap;
    fiber->due = kForever;
    Fiber* const last = heap_.back();
    heap_.pop_back();
    if (last == fiber) return;
    heap_[index] = last;
    last->heap_index = index;
    rise(index);
    sink(last->heap_index);
  }

 private:
  static bool before(const Fiber* a, const Fiber* b) {
    return a->due != b->due ? a->due < b->due : a->due_order < b->due_order;
  }
  void place(size_t index, Fiber* fiber) {
    heap_[index] = fiber;
    fiber->heap_index = index;
  }
  void rise(size_t index) {
    Fiber* const fiber = heap_[index];
    while (index > 0 && before(fiber, heap_[(index - 1) / 2])) {
      place(index, heap_[(index - 1) / 2]);
      index = (index - 1) / 2;
    }
    place(index, fiber);
  }
  void sink(size_t index) {
    Fiber* const fiber = heap_[index];
    for (;;) {
      size_t child = 2 * index + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
      if (!before(heap_[child], fiber)) break;
      place(index, heap_[child]);
      index = child;
    }
    place(index, fiber);
  }

  std::vector<Fiber*> heap_;
  uint64_t next_order_ = 0;
};

class SimRuntime final : public Runtime {
 public:
  explicit SimRuntime(const SimOptions& options)
      : schedule_(options.seed),
        options_(options),
        chance_(~options.seed),
        timers_(*this, [this](std::function<void()> body) {
          return start("timer", std::move(body), {}, /*counted=*/false);
        }) {
    // The seed decides the distance of switches, from every point to every 32nd on average, because
    // tight interleavings and long runs of one thread find different bugs. It also decides whether
    // waits wake without a reason, as their contract allows.
    switch_mask_ = (1u << schedule_.below(7)) - 1;
    constexpr uint32_t kSpuriousOdds[] = {0, 0, 512, 64};
    spurious_odds_ = kSpuriousOdds[schedule_.below(4)];
    draw_distance();
    main_ = new_fiber("main");
    main_->state = FiberState::kRunning;
    current_ = main_;
  }

  ~SimRuntime() override {
    DXGKIT_CHECK(!running_);
    // Fibers made outside run_main and never run hold no frames; the others have ended.
    for (const std::unique_ptr<Fiber>& fiber : fibers_) {
      if (fiber->stack.mapping != nullptr) recycle(fiber.get());
    }
  }

  bool is_simulated() const override { return true; }
  TimeNs now() override { return now_; }

  std::unique_ptr<Thread> spawn(std::string name, std::function<void()> body,
                                ThreadOptions options) override {
    return start(std::move(name), std::move(body), options, /*counted=*/true);
  }
  std::unique_ptr<Timer> make_timer(std::function<void()> callback) override {
    return timers_.make(std::move(callback));
  }

  uint32_t thread_number() override { return current_->number; }
  const std::string& thread_name() override { return current_->name; }
  std::vector<std::string> thread_names() override {
    std::vector<std::string> names;
    names.reserve(fibers_.size());
    for (const std::unique_ptr<Fiber>& fiber : fibers_) names.push_back(fiber->name);
    return names;
  }
  void*& thread_slot(size_t slot) override {
    DXGKIT_CHECK(slot < kThreadSlots);
    return current_->slots[slot];
  }

  void interleave() override {
    if (distance_ != 0) {
      --distance_;
      return;
    }
    draw_distance();
    if (!running_ || runnable_.empty()) return;
    give_way(schedule_.below(runnable_count()));
  }

  void yield() override {
    DXGKIT_CHECK(running_);
    ++idle_yields_;
    // Every runnable thread only yields, so they spin for an event that needs time to pass, as it
    // does in os.
    if (idle_yields_ > 64 * (uint64_t{runnable_count()} + 1) && !sleeping_.empty()) advance_time();
    const uint32_t choice = schedule_.below(runnable_count() + 1);
    if (choice < runnable_count()) give_way(choice);
  }

  void sleep_until(TimeNs due) override {
    DXGKIT_CHECK(running_);
    if (due <= now_) {
      interleave();
      return;
    }
    WaitReason reason(*this, "time to pass");
    if (due != kForever) sleeping_.push(current_, due);
    block();
  }

  void consume(DurationNs duration) override {
    if (duration <= 0) {
      interleave();
      return;
    }
    TimeNs due = 0;
    DXGKIT_CHECK(!__builtin_add_overflow(now_, duration, &due));
    sleep_until(due);
  }

  WaitResult wait(const std::atomic<uint32_t>& word, uint32_t expected, TimeNs deadline) override {
    interleave();
    if (word.load(std::memory_order_acquire) != expected) return WaitResult::kWoken;
    if (wakes_for_no_reason()) return WaitResult::kWoken;
    if (deadline <= now_) return WaitResult::kTimedOut;
    enqueue(&current_->nodes[0], word, expected);
    current_->node_count = 1;
    return sleep_in_queues(deadline);
  }

  WaitResult wait_either(const std::atomic<uint32_t>& first, uint32_t first_expected,
                         const std::atomic<uint32_t>& second, uint32_t second_expected,
                         TimeNs deadline) override {
    interleave();
    if (first.load(std::memory_order_acquire) != first_expected ||
        second.load(std::memory_order_acquire) != second_expected) {
      return WaitResult::kWoken;
    }
    if (wakes_for_no_reason()) return WaitResult::kWoken;
    if (deadline <= now_) return WaitResult::kTimedOut;
    enqueue(&current_->nodes[0], first, first_expected);
    enqueue(&current_->nodes[1], second, second_expected);
    current_->node_count = 2;
    return sleep_in_queues(deadline);
  }

  void wake_one(const std::atomic<uint32_t>& word) override {
    const Queue& queue = queue_of(&word);
    WaitNode* chosen = nullptr;
    uint32_t waiters = 0;
    for (WaitNode* node = queue.head; node != nullptr; node = node->next) {
      if (node->word != &word) continue;
      if (waiters++ == 0) chosen = node;
    }
    // Mostly the oldest, as futexes do; sometimes any of them, as their contract says.
    if (waiters > 1 && schedule_.below(4) == 0) {
      uint32_t skip = schedule_.below(waiters);
      for (WaitNode* node = queue.head; node != nullptr; node = node->next) {
        if (node->word != &word) continue;
        chosen = node;
        if (skip-- == 0) break;
      }
    }
    if (chosen != nullptr) make_runnable(chosen->fiber, /*timed_out=*/false);
    interleave();
  }

  void wake_all(const std::atomic<uint32_t>& word) override {
    const Queue& queue = queue_of(&word);
    for (WaitNode* node = queue.head; node != nullptr;) {
      WaitNode* next = node->next;
      if (node->word == &word) {
        // Waking takes both of the fiber's nodes out; the other may be the neighbour.
        while (next != nullptr && next->fiber == node->fiber) next = next->next;
        make_runnable(node->fiber, /*timed_out=*/false);
      }
      node = next;
    }
    interleave();
  }

  const char* set_wait_reason(const char* reason) override {
    return std::exchange(current_->wait_reason, reason);
  }

  uint64_t random() override { return chance_.next(); }

  uint64_t time_steps() const { return time_steps_; }
  uint64_t switches() const { return switches_; }
  void jump(DurationNs by) {
    DXGKIT_CHECK(running_ && by > 0);
    DXGKIT_CHECK(!__builtin_add_overflow(now_, by, &now_));
  }

  void run_main(std::function<void()> body) noexcept override {
    DXGKIT_CHECK(!running_);
    Runtime* const previous = std::exchange(t_runtime, this);
    void** const previous_slots = std::exchange(detail::t_thread_slots, main_->slots.data());
    Runtime* const previous_simulation = std::exchange(detail::t_simulation, this);
    exception_globals_ = abi::__cxa_get_globals();
    running_ = true;
#ifdef DXGKIT_TSAN
    main_->tsan_fiber = __tsan_get_current_fiber();
#endif
    body();
    {
      WaitReason reason(*this, "every thread it spawned to end");
      while (live_.load(std::memory_order_relaxed) != 0) {
        wait(live_, live_.load(std::memory_order_relaxed), kForever);
      }
    }
    timers_.stop();
    // Fibers that are marked as ended may still have to leave their stacks.
    while (!runnable_.empty()) give_way(schedule_.below(runnable_count()));
    DXGKIT_CHECK(current_ == main_);
    running_ = false;
    t_runtime = previous;
    detail::t_thread_slots = previous_slots;
    detail::t_simulation = previous_simulation;
  }

 private:
  struct Queue {
    WaitNode* head = nullptr;
    WaitNode* tail = nullptr;
  };
  static constexpr size_t kQueues = 256;

  Fiber* new_fiber(std::string name) {
    fibers_.push_back(std::make_unique<Fiber>());
    Fiber* const fiber = fibers_.back().get();
    fiber->runtime = this;
    fiber->number = static_cast<uint32_t>(fibers_.size() - 1);
    fiber->name = std::move(name);
    return fiber;
  }

  std::unique_ptr<Thread> start(std::string name, std::function<void()> body, ThreadOptions options,
                                bool counted) {
    auto handle = std::make_unique<SimThread>(*this);
    Fiber* const fiber = new_fiber(std::move(name));
    fiber->body = std::move(body);
    fiber->handle = handle.get();
    fiber->counted = counted;
    fiber->stack =
        acquire_stack(options.stack_bytes != 0 ? options.stack_bytes : options_.stack_bytes);
    fiber->context = context::make_fcontext(fiber->stack.top(), fiber->stack.bytes, &fiber_entry);
#ifdef DXGKIT_ASAN
    fiber->asan_bottom = fiber->stack.bottom;
    fiber->asan_bytes = fiber->stack.bytes;
#endif
#ifdef DXGKIT_TSAN
    fiber->tsan_fiber = __tsan_create_fiber(0);
#endif
    if (counted) live_.fetch_add(1, std::memory_order_relaxed);
    idle_yields_ = 0;
    runnable_.push_back(fiber);
    interleave();
    return handle;
  }

  // ---- Choosing ----

  uint32_t runnable_count() const { return static_cast<uint32_t>(runnable_.size()); }

  void draw_distance() { distance_ = static_cast<uint32_t>(schedule_.next() >> 32) & switch_mask_; }

  bool wakes_for_no_reason() { return spurious_odds_ != 0 && schedule_.below(spurious_odds_) == 0; }

  Fiber* take_runnable(uint32_t index) {
    Fiber* const fiber = runnable_[index];
    runnable_[index] = runnable_.back();
    runnable_.pop_back();
    return fiber;
  }

  /// The runnable fiber `index` runs. The current one stays runnable and becomes the last of them,
  /// as if it were taken out and this one put behind: the list keeps its length.
  void give_way(uint32_t index) {
    current_->state = FiberState::kRunnable;
    Fiber* const next = runnable_[index];
    runnable_[index] = runnable_.back();
    runnable_.back() = current_;
    switch_to(next);
  }

  /// The current fiber is in its queues or has ended. Another fiber runs, if need be at a later
  /// time.
  void block() {
    if (current_->state != FiberState::kEnded) current_->state = FiberState::kWaiting;
    idle_yields_ = 0;
    while (runnable_.empty()) advance_time();
    Fiber* const next = take_runnable(schedule_.below(runnable_count()));
    if (next == current_) {
      current_->state = FiberState::kRunning;  // time alone woke it
      return;
    }
    switch_to(next);
  }

  /// Not inlined: a yield that switches would save registers for what it seldom does.
  [[gnu::noinline]] void advance_time() {
    if (sleeping_.empty()) report_hang("deadlock: every thread waits, and nothing will wake one");
    const TimeNs due = sleeping_.first()->due;
    if (due > options_.time_limit) report_hang("time limit of the simulation passed");
    now_ = std::max(now_, due);
    ++time_steps_;
    idle_yields_ = 0;
    while (!sleeping_.empty() && sleeping_.first()->due <= now_) {
      make_runnable(sleeping_.first(), /*timed_out=*/true);
    }
  }

  // ---- Waiting ----

  Queue& queue_of(const std::atomic<uint32_t>* word) {
    const uint64_t key = reinterpret_cast<uintptr_t>(word) >> 2;
    return queues_[(key * 0x9E3779B97F4A7C15u) >> 56];
  }

  void enqueue(WaitNode* node, const std::atomic<uint32_t>& word, uint32_t expected) {
    Queue& queue = queue_of(&word);
    node->fiber = current_;
    node->word = &word;
    node->expected = expected;
    node->previous = queue.tail;
    node->next = nullptr;
    (queue.tail != nullptr ? queue.tail->next : queue.head) = node;
    queue.tail = node;
  }

  void dequeue(WaitNode* node) {
    Queue& queue = queue_of(node->word);
    (node->previous != nullptr ? node->previous->next : queue.head) = node->next;
    (node->next != nullptr ? node->next->previous : queue.tail) = node->previous;
  }

  WaitResult sleep_in_queues(TimeNs deadline) {
    if (deadline != kForever) sleeping_.push(current_, deadline);
    block();
    return current_->timed_out ? WaitResult::kTimedOut : WaitResult::kWoken;
  }

  void make_runnable(Fiber* fiber, bool timed_out) {
    for (uint8_t i = 0; i < fiber->node_count; ++i) dequeue(&fiber->nodes[i]);
    fiber->node_count = 0;
    if (fiber->heap_index != kNotInHeap) sleeping_.remove(fiber);
    fiber->timed_out = timed_out;
    fiber->state = FiberState::kRunnable;
    idle_yields_ = 0;
    runnable_.push_back(fiber);
  }

  // ---- Switching ----

  void switch_to(Fiber* next) {
    Fiber* const self = current_;
    std::memcpy(&self->exceptions, exception_globals_, sizeof self->exceptions);
    current_ = next;
    ++switches_;
    detail::t_thread_slots = next->slots.data();
    next->state = FiberState::kRunning;
#ifdef DXGKIT_ASAN
    __sanitizer_start_switch_fiber(self->state == FiberState::kEnded ? nullptr : &self->fake_stack,
                                   next->asan_bottom, next->asan_bytes);
#endif
#ifdef DXGKIT_TSAN
    __tsan_switch_to_fiber(next->tsan_fiber, 0);
#endif
    arrive(self, context::jump_fcontext(next->context, self));
  }

  /// First thing on the new stack: `transfer` says where the switch came from.
  static void arrive(Fiber* self, context::transfer_t transfer) {
    Fiber* const from = static_cast<Fiber*>(transfer.data);
    from->context = transfer.fctx;
#ifdef DXGKIT_ASAN
    __sanitizer_finish_switch_fiber(self->fake_stack, &from->asan_bottom, &from->asan_bytes);
#endif
    SimRuntime& runtime = *self->runtime;
    std::memcpy(runtime.exception_globals_, &self->exceptions, sizeof self->exceptions);
    runtime.reap();
  }

  /// An exception that leaves the body ends the process, as in a real thread.
  static void fiber_entry(context::transfer_t transfer) noexcept {
    Fiber* const self = static_cast<Fiber*>(transfer.data)->runtime->current_;
    arrive(self, transfer);
    self->body();
    self->body = nullptr;
    self->runtime->end_current();
  }

  [[noreturn]] void end_current() {
    Fiber* const self = current_;
    self->handle->done_.store(1, std::memory_order_relaxed);
    wake_all(self->handle->done_);
    if (self->counted && live_.fetch_sub(1, std::memory_order_relaxed) == 1) wake_all(live_);
    self->state = FiberState::kEnded;
    ended_ = self;
    block();
    __builtin_unreachable();
  }

  /// Frees the stack of the fiber that ended just before this one went on.
  void reap() {
    if (ended_ == nullptr) return;
    recycle(ended_);
    ended_ = nullptr;
  }

  void recycle(Fiber* fiber) {
    release_stack(fiber->stack);
    fiber->stack = {};
#ifdef DXGKIT_TSAN
    __tsan_destroy_fiber(fiber->tsan_fiber);
    fiber->tsan_fiber = nullptr;
#endif
  }

  // ---- Reporting ----

  [[noreturn]] void report_hang(const char* what) {
    std::fprintf(stderr, "dxgkit sim: %s (seed %llu, virtual time %lld ns)\n", what,
                 static_cast<unsigned long long>(options_.seed), static_cast<long long>(now_));
    for (const std::unique_ptr<Fiber>& fiber : fibers_) {
      if (fiber->state == FiberState::kEnded) continue;
      std::fprintf(stderr, "  thread %u \"%s\": ", fiber->number, fiber->name.c_str());
      if (fiber->state != FiberState::kWaiting) {
        std::fprintf(stderr, "%s\n", fiber->state == FiberState::kRunning ? "running" : "runnable");
        continue;
      }
      std::fprintf(stderr, "waits for %s",
                   fiber->wait_reason != nullptr ? fiber->wait_reason : "a wake-up");
      for (uint8_t i = 0; i < fiber->node_count; ++i) {
        const WaitNode& node = fiber->nodes[i];
        std::fprintf(stderr, ", word %p to leave %u", static_cast<const void*>(node.word),
                     node.expected);
      }
      if (fiber->heap_index != kNotInHeap) {
        std::fprintf(stderr, ", until %lld ns", static_cast<long long>(fiber->due));
      }
      std::fprintf(stderr, "\n");
    }
    const std::string notes = DeadlockNote::all();
    if (!notes.empty()) std::fprintf(stderr, "%s", notes.c_str());
    check_failed("the simulation can go on", __FILE__, __LINE__);
  }

  // What each switch touches, close together.
  alignas(64) Random schedule_;
  uint64_t idle_yields_ = 0;  // yields since any other event
  std::vector<Fiber*> runnable_;
  alignas(64) Fiber* current_ = nullptr;
  void* exception_globals_ = nullptr;
  Fiber* ended_ = nullptr;
  uint32_t distance_ = 0;  // scheduling points until the next switch
  uint32_t switch_mask_ = 0;
  uint32_t spurious_odds_ = 0;
  bool running_ = false;
  TimeNs now_ = 0;

  const SimOptions options_;
  Random chance_;  // apart, so that asking for chance does not shift the schedule
  uint64_t time_steps_ = 0;
  uint64_t switches_ = 0;
  Fiber* main_ = nullptr;
  std::atomic<uint32_t> live_{0};  // atomic only because wait takes one
  SleepHeap sleeping_;
  std::array<Queue, kQueues> queues_{};
  std::vector<std::unique_ptr<Fiber>> fibers_;  // by number; records outlive their stacks
  TimerQueue timers_;
};

SimRuntime& simulated(Runtime& runtime) {
  DXGKIT_CHECK(runtime.is_simulated());
  return static_cast<SimRuntime&>(runtime);
}

}  // namespace

uint64_t sim_time_steps(Runtime& runtime) { return simulated(runtime).time_steps(); }
uint64_t sim_switches(Runtime& runtime) { return simulated(runtime).switches(); }
void sim_jump(Runtime& runtime, DurationNs by) { simulated(runtime).jump(by); }

std::unique_ptr<Runtime> make_sim_runtime(uint64_t seed) {
  return make_sim_runtime(SimOptions{.seed = seed});
}

std::unique_ptr<Runtime> make_sim_runtime(const SimOptions& options) {
  return std::make_unique<SimRuntime>(options);
}

}  // namespace dxgkit::runtime
