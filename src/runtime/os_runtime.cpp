// The os runtime: real threads, real clock. Waiting is a parking lot: waiters queue by the word's
// address in a bucket and sleep on a futex of their own, so one thread can wait on two words and a
// wake-up is never lost between them.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <span>

#include "base/check.h"
#include "runtime/brief_spin.h"
#include "runtime/host_thread.h"
#include "runtime/internal.h"
#include "trace/trace.h"

namespace dxgkit::runtime {
namespace {

class OsRuntime;

struct ThreadState {
  ThreadState(OsRuntime* owner, uint32_t thread_number, std::string thread_name)
      : runtime(owner), number(thread_number), name(std::move(thread_name)) {}

  OsRuntime* runtime;
  uint32_t number;
  std::string name;
  std::array<void*, kThreadSlots> slots{};
  uint32_t yields = 0;
  const char* wait_reason = nullptr;
  std::atomic<uint32_t> token{0};  // 1: a waker took one of this thread's nodes out of its bucket
};

constinit thread_local ThreadState* t_state = nullptr;

/// Makes `state` the calling thread's identity for the scope.
class BindThread {
 public:
  BindThread(ThreadState* state, Runtime* runtime)
      : previous_state_(t_state),
        previous_runtime_(t_runtime),
        previous_slots_(detail::t_thread_slots),
        previous_simulation_(std::exchange(detail::t_simulation, nullptr)) {
    t_state = state;
    t_runtime = runtime;
    detail::t_thread_slots = state->slots.data();
  }
  ~BindThread() {
    t_state = previous_state_;
    t_runtime = previous_runtime_;
    detail::t_thread_slots = previous_slots_;
    detail::t_simulation = previous_simulation_;
  }
  BindThread(const BindThread&) = delete;
  BindThread& operator=(const BindThread&) = delete;

 private:
  ThreadState* previous_state_;
  Runtime* previous_runtime_;
  void** previous_slots_;
  Runtime* previous_simulation_;
};

struct Awaited {
  const std::atomic<uint32_t>* word = nullptr;
  uint32_t expected = 0;
  bool changed() const { return word->load(std::memory_order_acquire) != expected; }
};

struct WaitNode {
  const std::atomic<uint32_t>* word = nullptr;
  ThreadState* thread = nullptr;
  WaitNode* previous = nullptr;
  WaitNode* next = nullptr;
  bool queued = false;
};

/// One cache line each, so that wake calls on unrelated words do not disturb each other.
struct alignas(64) Bucket {
  // The number of threads that wait here or are about to. It lets wake skip the lock. See the
  // pairing in wait_for and wake.
  std::atomic<uint32_t> waiters{0};
  std::mutex mutex;
  WaitNode* head = nullptr;  // oldest first
  WaitNode* tail = nullptr;

  void push(WaitNode* node) {
    node->previous = tail;
    node->next = nullptr;
    (tail != nullptr ? tail->next : head) = node;
    tail = node;
    node->queued = true;
  }
  void remove(WaitNode* node) {
    (node->previous != nullptr ? node->previous->next : head) = node->next;
    (node->next != nullptr ? node->next->previous : tail) = node->previous;
    node->queued = false;
    waiters.fetch_sub(1, std::memory_order_relaxed);
  }
};

void pause_cpu() { __builtin_ia32_pause(); }

/// The number of pauses in the spin phase of a wait. The spin must catch a response of 1-2 us, and
/// a park with its wake-up costs tens of microseconds on a virtual machine. So the spin is several
/// times the response. With one core there is no spin.
uint32_t calibrate_spin() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) <= 1) return 0;
  constexpr int64_t kSpinNs = 8'000;
  constexpr uint32_t kSample = 256;
  int64_t best_ns = INT64_MAX;
  for (int round = 0; round < 3; ++round) {
    timespec begin{};
    timespec end{};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint32_t i = 0; i < kSample; ++i) pause_cpu();
    clock_gettime(CLOCK_MONOTONIC, &end);
    best_ns =
        std::min(best_ns, (end.tv_sec - begin.tv_sec) * kSecond + end.tv_nsec - begin.tv_nsec);
  }
  const int64_t pauses = kSpinNs * kSample / std::max<int64_t>(best_ns, 1);
  return static_cast<uint32_t>(std::min<int64_t>(std::max<int64_t>(pauses, 16), 4'000));
}

/// A little more than the time to wake a parked thread on another core of a virtual machine.
constexpr TimeNs kPolitelyNs = 80'000;

/// Found out when the library is loaded: a thread that waits later may be bound to one core, and
/// says nothing about those that others have.
const uint32_t kSpinPauses = calibrate_spin();

TimeNs clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

/// The first part of a spin, with the processor for itself. False: nothing has changed.
template <typename Changed>
bool spin_alone(const Changed& changed) {
  for (uint32_t i = 0, pauses = kSpinPauses; i < pauses; ++i) {
    if (changed()) return true;
    pause_cpu();
  }
  return false;
}

/// Two threads that answer each other must not both park after one hiccup: they would then pay a
/// wake-up per answer for ever. So the second part lasts as long as a wake-up would take, and
/// leaves the core to other threads. False: nothing has changed.
/// @param give_up  on the system's clock; kForever: only the spin's own end counts
/// @param yielded  told how long each yield took
template <typename Changed, typename Yielded>
bool spin_politely(TimeNs give_up, const Changed& changed, const Yielded& yielded) {
  if (kSpinPauses == 0) return false;
  TimeNs now = clock_ns();
  give_up = std::min(now + kPolitelyNs, give_up);
  do {
    for (int i = 0; i < 8; ++i) {
      if (changed()) return true;
      pause_cpu();
    }
    const TimeNs before = now;
    sched_yield();
    now = clock_ns();
    yielded(now - before);
  } while (now < give_up);
  return false;
}

class OsRuntime final : public Runtime {
 public:
  explicit OsRuntime(uint64_t seed)
      : random_(seed), timers_(*this, [this](std::function<void()> body) {
          return start("timer", std::move(body), {}, /*counted=*/false);
        }) {
    start_ = clock_ns();
  }

  ~OsRuntime() override {
    ThreadState state(this, 0, "runtime teardown");
    BindThread bind(&state, this);
    timers_.stop();
  }

  bool is_simulated() const override { return false; }

  TimeNs now() override { return clock_ns() - start_; }

  std::unique_ptr<Thread> spawn(std::string name, std::function<void()> body,
                                ThreadOptions options) override {
    return start(std::move(name), std::move(body), options, /*counted=*/true);
  }

  std::unique_ptr<Timer> make_timer(std::function<void()> callback) override {
    return timers_.make(std::move(callback));
  }

  uint32_t thread_number() override { return self().number; }
  const std::string& thread_name() override { return self().name; }
  std::vector<std::string> thread_names() override {
    std::lock_guard lock(mutex_);
    return names_;
  }
  void*& thread_slot(size_t slot) override {
    DXGKIT_CHECK(slot < kThreadSlots);
    return self().slots[slot];
  }

  void yield() override {
    pause_cpu();
    // The thread that the caller spins for may need this core.
    if (t_state == nullptr || ++t_state->yields % 32 == 0) sched_yield();
  }

  void interleave() override {}

  void sleep_until(TimeNs due) override {
    if (due == kForever) {
      for (;;) pause();  // CLOCK_MONOTONIC has no such time
    }
    const timespec when = absolute(due);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) != 0) {
    }
  }

  void consume(DurationNs) override {}

  WaitResult wait(const std::atomic<uint32_t>& word, uint32_t expected, TimeNs deadline) override {
    const Awaited awaited[] = {{&word, expected}};
    return wait_for(awaited, deadline);
  }

  WaitResult wait_either(const std::atomic<uint32_t>& first, uint32_t first_expected,
                         const std::atomic<uint32_t>& second, uint32_t second_expected,
                         TimeNs deadline) override {
    const Awaited awaited[] = {{&first, first_expected}, {&second, second_expected}};
    return wait_for(awaited, deadline);
  }

  void wake_one(const std::atomic<uint32_t>& word) override { wake(&word, 1); }
  void wake_all(const std::atomic<uint32_t>& word) override { wake(&word, UINT32_MAX); }

  const char* set_wait_reason(const char* reason) override {
    if (t_state == nullptr) return nullptr;
    return std::exchange(t_state->wait_reason, reason);
  }

  uint64_t random() override {
    std::lock_guard lock(mutex_);
    return random_.next();
  }

  void run_main(std::function<void()> body) override {
    ThreadState state(this, add_name("main"), "main");
    BindThread bind(&state, this);
    body();
    std::unique_lock lock(mutex_);
    all_ended_.wait(lock, [this] { return live_ == 0; });
  }

  uint32_t add_name(const std::string& name) {
    std::lock_guard lock(mutex_);
    names_.push_back(name);
    return static_cast<uint32_t>(names_.size() - 1);
  }

 private:
  static constexpr size_t kBuckets = 256;

  class OsThread final : public Thread {
   public:
    ~OsThread() override { DXGKIT_CHECK(joined_); }
    void join() override {
      DXGKIT_CHECK(!joined_);
      DXGKIT_CHECK(pthread_join(handle_, nullptr) == 0);
      joined_ = true;
    }
    pthread_t handle_{};
    bool joined_ = false;
  };

  struct Launch {
    OsRuntime* runtime;
    ThreadState state;
    std::function<void()> body;
    trace::Recorder* recorder;
    bool counted;
  };

  static void* thread_entry(void* argument) noexcept {
    std::unique_ptr<Launch> launch(static_cast<Launch*>(argument));
    OsRuntime* const runtime = launch->runtime;
    {
      BindThread bind(&launch->state, runtime);
      trace::set_current(launch->recorder);
      launch->body();
      launch->body = nullptr;  // captures may still need the runtime
      trace::set_current(nullptr);
    }
    if (launch->counted) {
      // Notified under the lock: once it is released the runtime may be destroyed.
      std::lock_guard lock(runtime->mutex_);
      if (--runtime->live_ == 0) runtime->all_ended_.notify_all();
    }
    return nullptr;
  }

  std::unique_ptr<Thread> start(std::string name, std::function<void()> body, ThreadOptions options,
                                bool counted) {
    const uint32_t number = add_name(name);
    if (counted) {
      std::lock_guard lock(mutex_);
      ++live_;
    }
    std::unique_ptr<Launch> launch(new Launch{this, ThreadState(this, number, name),
                                              std::move(body), trace::current(), counted});
    auto thread = std::make_unique<OsThread>();
    pthread_attr_t attributes;
    DXGKIT_CHECK(pthread_attr_init(&attributes) == 0);
    if (options.stack_bytes != 0) {
      const size_t bytes = std::max(options.stack_bytes, static_cast<size_t>(PTHREAD_STACK_MIN));
      DXGKIT_CHECK(pthread_attr_setstacksize(&attributes, (bytes + 4095) & ~size_t{4095}) == 0);
    }
    DXGKIT_CHECK(pthread_create(&thread->handle_, &attributes, &thread_entry, launch.release()) ==
                 0);
    pthread_attr_destroy(&attributes);
    name.resize(std::min<size_t>(name.size(), 15));  // the kernel's limit
    pthread_setname_np(thread->handle_, name.c_str());
    return thread;
  }

  ThreadState& self() {
    DXGKIT_CHECK(t_state != nullptr);
    DXGKIT_CHECK(t_state->runtime == this);
    return *t_state;
  }

  TimeNs on_the_clock(TimeNs due) const {
    // A deadline that does not fit counts as the farthest one that does.
    TimeNs ns = 0;
    if (__builtin_add_overflow(due, start_, &ns)) ns = kForever;
    return std::max<TimeNs>(ns, 0);
  }
  timespec absolute(TimeNs due) const {
    const TimeNs ns = on_the_clock(due);
    return {.tv_sec = ns / kSecond, .tv_nsec = ns % kSecond};
  }

  Bucket& bucket_of(const std::atomic<uint32_t>* word) {
    const uint64_t key = reinterpret_cast<uintptr_t>(word) >> 2;
    return buckets_[(key * 0x9E3779B97F4A7C15u) >> 56];
  }

  static bool any_changed(std::span<const Awaited> awaited) {
    for (const Awaited& each : awaited) {
      if (each.changed()) return true;
    }
    return false;
  }

  WaitResult wait_for(std::span<const Awaited> awaited, TimeNs deadline) {
    ThreadState& thread = self();
    const auto changed = [&] { return any_changed(awaited); };
    if (spin_alone(changed) || spin_politely(on_the_clock(deadline), changed, [](TimeNs) {}))
      return WaitResult::kWoken;
    thread.token.store(0, std::memory_order_relaxed);
    std::array<WaitNode, 2> nodes;
    for (size_t i = 0; i < awaited.size(); ++i) {
      nodes[i].word = awaited[i].word;
      nodes[i].thread = &thread;
      Bucket& bucket = bucket_of(awaited[i].word);
      std::lock_guard lock(bucket.mutex);
      bucket.waiters.fetch_add(1, std::memory_order_relaxed);
      bucket.push(&nodes[i]);
    }
    // Pairs with the fence in wake: either this thread sees the new value below, or the waker sees
    // `waiters`.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    bool timed_out = false;
    if (!any_changed(awaited)) timed_out = !park(thread.token, deadline);
    for (size_t i = 0; i < awaited.size(); ++i) {
      Bucket& bucket = bucket_of(awaited[i].word);
      std::lock_guard lock(bucket.mutex);
      if (nodes[i].queued) bucket.remove(&nodes[i]);
    }
    if (timed_out && !any_changed(awaited)) return WaitResult::kTimedOut;
    return WaitResult::kWoken;
  }

  /// False if the deadline came first.
  bool park(const std::atomic<uint32_t>& token, TimeNs deadline) {
    timespec when{};
    if (deadline != kForever) when = absolute(deadline);
    while (token.load(std::memory_order_acquire) == 0) {
      const long result =
          syscall(SYS_futex, &token, FUTEX_WAIT_BITSET_PRIVATE, 0,
                  deadline == kForever ? nullptr : &when, nullptr, FUTEX_BITSET_MATCH_ANY);
      if (result == 0 || errno == EAGAIN || errno == EINTR) continue;
      DXGKIT_CHECK(errno == ETIMEDOUT);
      return token.load(std::memory_order_acquire) != 0;
    }
    return true;
  }

  void wake(const std::atomic<uint32_t>* word, uint32_t count) {
    Bucket& bucket = bucket_of(word);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (bucket.waiters.load(std::memory_order_relaxed) == 0) return;
    while (count > 0) {
      constexpr size_t kBatch = 16;
      const std::atomic<uint32_t>* tokens[kBatch];
      size_t taken = 0;
      {
        std::lock_guard lock(bucket.mutex);
        for (WaitNode* node = bucket.head; node != nullptr && taken < kBatch && count > 0;) {
          WaitNode* const next = node->next;
          if (node->word == word) {
            bucket.remove(node);
            // Under the lock: the waiter cannot leave before it has taken this lock once more.
            node->thread->token.store(1, std::memory_order_release);
            tokens[taken++] = &node->thread->token;
            --count;
          }
          node = next;
        }
      }
      // By address only: the thread may have seen its token and ended.
      for (size_t i = 0; i < taken; ++i) {
        syscall(SYS_futex, tokens[i], FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
      }
      if (taken < kBatch) return;
    }
  }

  std::mutex mutex_;  // random_, names_, live_
  std::condition_variable all_ended_;
  Random random_;
  std::vector<std::string> names_;
  size_t live_ = 0;
  TimeNs start_ = 0;
  std::array<Bucket, kBuckets> buckets_;
  TimerQueue timers_;
};

}  // namespace

struct AdoptThread::State {
  State(OsRuntime& runtime, const std::string& name)
      : thread(&runtime, runtime.add_name(name), name), bind(&thread, &runtime) {}
  ThreadState thread;
  BindThread bind;
};

AdoptThread::AdoptThread(Runtime& runtime, std::string name) {
  auto* const os = dynamic_cast<OsRuntime*>(&runtime);
  DXGKIT_CHECK(os != nullptr);
  state_ = std::make_unique<State>(*os, name);
}
AdoptThread::~AdoptThread() = default;

bool spin_briefly(const std::atomic<uint32_t>& word, uint32_t value) {
  // A yield that takes longer has let another thread run.
  constexpr TimeNs kYieldNs = 1'000;
  // One that takes longer than this has let a thread run that knows nothing of who waits here, and
  // keeps the processor for its whole time slice. Who sleeps gets it back earlier than who yields.
  constexpr TimeNs kStrangerNs = 500'000;
  constexpr uint32_t kSpinsWithStrangers = 1024;
  // So many in a row that let nobody run say that the processor is the thread's own.
  constexpr uint32_t kLonely = 32;
  // One spin in so many asks whether somebody else wants it.
  constexpr uint32_t kAsk = 64;
  constinit static thread_local uint32_t crowded = 0, spins = 0, with_strangers = 0;
  const auto changed = [&] { return word.load(std::memory_order_acquire) != value; };
  if (with_strangers != 0) {
    --with_strangers;
    return false;
  }
  // Two processes that answer each other keep two processors busy, and the thread that does the
  // work they talk about may need one of these.
  if (crowded == 0 && ++spins % kAsk != 0 && spin_alone(changed)) return true;
  return spin_politely(kForever, changed, [&](TimeNs ns) {
    if (ns > kStrangerNs)
      with_strangers = kSpinsWithStrangers;
    else if (ns > kYieldNs)
      crowded = kLonely;
    else if (crowded != 0)
      --crowded;
  });
}

void leave_runtime_of_parent() {
  t_state = nullptr;
  t_runtime = nullptr;
  detail::t_thread_slots = nullptr;
  detail::t_simulation = nullptr;
}

std::unique_ptr<Runtime> make_os_runtime(uint64_t seed) {
  return std::make_unique<OsRuntime>(seed);
}

}  // namespace dxgkit::runtime
