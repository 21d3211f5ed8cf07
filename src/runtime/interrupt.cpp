#include "runtime/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <new>

#include "base/check.h"

namespace dxgkit::runtime {
namespace {

std::atomic<bool> not_asked{false};
/// In memory that processes share which were forked since catch_interrupts.
std::atomic<bool>* asked = &not_asked;
std::atomic<int> write_end{-1};
int read_end = -1;
constexpr int kSignals[] = {SIGINT, SIGTERM};

void on_signal(int) {
  const int error = errno;
  asked->store(true);
  static_cast<void>(!write(write_end.load(), "", 1));
  errno = error;
}

}  // namespace

void catch_interrupts() {
  if (read_end >= 0) return;
  int ends[2];
  DXGKIT_CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  read_end = ends[0];
  write_end.store(ends[1]);
  void* const shared = mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  DXGKIT_CHECK(shared != MAP_FAILED);
  asked = new (shared) std::atomic<bool>(false);
  struct sigaction action {};
  action.sa_handler = on_signal;
  // Calls go on, so that no write of a report is torn. poll returns all the same.
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

bool interrupted() { return asked->load(std::memory_order_relaxed); }

int interrupt_fd() { return read_end; }

void share_interrupts_with_parent(int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // it ended before that
}

void leave_interrupts_to_parent(int parent) {
  share_interrupts_with_parent(parent);
  if (read_end < 0) return;
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
  asked = &not_asked;
}

}  // namespace dxgkit::runtime
