#include "runtime/cpu_watch.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

namespace dxgkit::runtime {
namespace {

int watch_signal() { return SIGRTMIN + 4; }

/// A timer of the thread's own processor clock, deleted with the thread.
class ThreadWatch {
 public:
  explicit ThreadWatch(DurationNs period) {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = watch_signal();
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) != 0) return;  // no timer, no watch
    made_ = true;
    itimerspec times{};
    times.it_interval.tv_sec = period / kSecond;
    times.it_interval.tv_nsec = period % kSecond;
    times.it_value = times.it_interval;
    DXGKIT_CHECK(timer_settime(timer_, 0, &times, nullptr) == 0);
  }
  ~ThreadWatch() {
    if (made_) timer_delete(timer_);
  }
  ThreadWatch(const ThreadWatch&) = delete;
  ThreadWatch& operator=(const ThreadWatch&) = delete;

 private:
  timer_t timer_{};
  bool made_ = false;
};

}  // namespace

void watch_cpu_time(DurationNs period, CpuTick tick) {
  static const bool installed = [tick] {
    struct sigaction action {};
    action.sa_sigaction = tick;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    DXGKIT_CHECK(sigaction(watch_signal(), &action, nullptr) == 0);
    return true;
  }();
  static_cast<void>(installed);
  thread_local const ThreadWatch watch(period);
  static_cast<void>(&watch);
}

}  // namespace dxgkit::runtime
