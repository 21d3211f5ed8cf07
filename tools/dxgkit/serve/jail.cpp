#include "tools/dxgkit/serve/jail.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <initializer_list>
#include <system_error>
#include <vector>

namespace dxgkit::serve {
namespace {

#define DXGKIT_CALL(name, only, why) \
  { #name, SYS_##name, Only::only, why }

// Those that come most often are first: the filter looks at them in this order. set_robust_list,
// with which the C library begins a thread, is refused: there are no robust locks, and it does not
// mind.
constexpr SystemCall kCalls[] = {
    DXGKIT_CALL(futex, kAny, "locks, and threads that wait for work"),
    DXGKIT_CALL(recvmsg, kAny, "requests of clients, and connections from the broker"),
    DXGKIT_CALL(sendmsg, kAny, "answers to clients, and findings for the broker"),
    DXGKIT_CALL(poll, kAny, "waiting for a socket"),
    DXGKIT_CALL(epoll_wait, kAny, "waiting for events of clients"),
    DXGKIT_CALL(epoll_ctl, kAny, "which events these are"),
    DXGKIT_CALL(shutdown, kAny, "the end of a connection, and of a fence in a file"),
    DXGKIT_CALL(read, kAny, "event descriptors"),
    DXGKIT_CALL(write, kAny, "event descriptors, recordings, and last words on standard error"),
    DXGKIT_CALL(mmap, kAny, "memory: of allocations, threads, and objects with a descriptor"),
    DXGKIT_CALL(munmap, kAny, "the end of such memory"),
    DXGKIT_CALL(mprotect, kAny, "guard pages, and pool pages that a driver has freed"),
    DXGKIT_CALL(madvise, kAny, "pages that are not needed for now"),
    DXGKIT_CALL(mincore, kAny, "whether an address of a driver is mapped"),
    DXGKIT_CALL(brk, kAny, "the heap of the C library"),
    DXGKIT_CALL(clone, kOwnThread, "threads, and nothing but threads"),
    DXGKIT_CALL(clone3, kAbsent, "its flags lie in memory, where no filter sees them"),
    DXGKIT_CALL(rseq, kAny, "the start of a thread"),
    DXGKIT_CALL(restart_syscall, kAny, "a wait with a deadline, after the process was stopped"),
    DXGKIT_CALL(exit, kAny, "the end of a thread"),
    DXGKIT_CALL(exit_group, kAny, "the end of the process"),
    DXGKIT_CALL(rt_sigprocmask, kAny, "the start of a thread"),
    DXGKIT_CALL(rt_sigaction, kAny, "handlers of processor faults"),
    DXGKIT_CALL(rt_sigreturn, kAny, "the way out of such a handler"),
    DXGKIT_CALL(sigaltstack, kAny, "the stack of such a handler"),
    DXGKIT_CALL(tgkill, kOwnProcess, "abort, when a check has failed"),
    DXGKIT_CALL(gettid, kAny, "abort, and the processor time of a thread"),
    DXGKIT_CALL(getpid, kAny, "abort, which names its process"),
    DXGKIT_CALL(prctl, kThreadName, "the name of a thread"),
    DXGKIT_CALL(sched_yield, kAny, "a short wait for another thread"),
    DXGKIT_CALL(clock_gettime, kAny, "clocks that the processor does not give"),
    DXGKIT_CALL(clock_nanosleep, kAny, "timers, and drivers that sleep"),
    DXGKIT_CALL(membarrier, kAny, "turnstiles that are cheap to pass"),
    DXGKIT_CALL(timer_create, kAny, "drivers that loop for ever (NT-20)"),
    DXGKIT_CALL(timer_settime, kAny, "drivers that loop for ever (NT-20)"),
    DXGKIT_CALL(timer_delete, kAny, "drivers that loop for ever (NT-20)"),
    DXGKIT_CALL(fstat, kAny, "what kind of object an open descriptor is"),
    DXGKIT_CALL(fcntl, kFlags, "flags, seals and a second number of an open descriptor"),
    DXGKIT_CALL(prlimit64, kReading, "the size of a thread's stack"),
    DXGKIT_CALL(close, kAny, "descriptors that are not needed any more"),
};
#undef DXGKIT_CALL
static_assert(std::size(kCalls) <= 40);

/// What glibc's pthread_create asks for.
constexpr uint32_t kThreadFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                  CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
                                  CLONE_CHILD_CLEARTID;

class Filter {
 public:
  Filter() {
    // A 32-bit program's calls have other numbers. So have those of the x32 ABI.
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
    for (const SystemCall& call : kCalls) allow(call);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  }
  sock_fprog program() {
    return {.len = static_cast<unsigned short>(code_.size()), .filter = code_.data()};
  }

 private:
  void add(uint16_t code, uint32_t value, uint8_t if_true = 0, uint8_t if_false = 0) {
    code_.push_back({.code = code, .jt = if_true, .jf = if_false, .k = value});
  }
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  /// The two halves of an argument.
  static size_t low(size_t argument) {
    return offsetof(seccomp_data, args) + argument * sizeof(uint64_t);
  }
  static size_t high(size_t argument) { return low(argument) + sizeof(uint32_t); }
  void answer(uint32_t action) { add(BPF_RET | BPF_K, action); }

  /// Allows the call if that half of an argument has one of the values, and refuses it otherwise.
  void answer_by(size_t offset, std::initializer_list<uint32_t> values) {
    load(offset);
    auto left = static_cast<uint8_t>(values.size());
    for (const uint32_t value : values) {
      add(BPF_JMP | BPF_JEQ | BPF_K, value, left, 0);
      --left;
    }
    answer(SECCOMP_RET_ERRNO | EPERM);
    answer(SECCOMP_RET_ALLOW);
  }
  /// Refuses the call if that half of an argument is not 0.
  void demand_zero(size_t offset) {
    load(offset);
    add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
    answer(SECCOMP_RET_ERRNO | EPERM);
  }

  void allow(const SystemCall& call) {
    const size_t test = code_.size();
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call.number));
    switch (call.only) {
      case Only::kAny:
        answer(SECCOMP_RET_ALLOW);
        break;
      case Only::kAbsent:
        answer(SECCOMP_RET_ERRNO | ENOSYS);
        break;
      case Only::kOwnThread:
        demand_zero(high(0));
        answer_by(low(0), {kThreadFlags});
        break;
      case Only::kOwnProcess:
        answer_by(low(0), {static_cast<uint32_t>(getpid())});
        break;
      case Only::kThreadName:
        answer_by(low(0), {PR_SET_NAME});
        break;
      case Only::kFlags:
        answer_by(low(1), {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC, F_ADD_SEALS, F_GET_SEALS});
        break;
      case Only::kReading:
        demand_zero(low(2));
        demand_zero(high(2));
        answer_by(low(0), {0});
        break;
    }
    // Another number goes on behind the answers, which all end the filter: the number is still
    // loaded there.
    code_[test].jf = static_cast<uint8_t>(code_.size() - test - 1);
  }

  std::vector<sock_filter> code_;
};

std::unexpected<std::string> refused(const char* what) {
  return std::unexpected(
      fmt::format("the system refuses {}: {}", what, std::generic_category().message(errno)));
}

bool limit(__rlimit_resource what, rlim_t most) {
  rlimit now{};
  if (getrlimit(what, &now) != 0) return false;
  // Never above what was inherited.
  const rlim_t value = std::min(most, now.rlim_max);
  const rlimit wanted{value, value};
  return setrlimit(what, &wanted) == 0;
}

}  // namespace

std::span<const SystemCall> system_calls() { return kCalls; }

std::string system_call_table() {
  std::string text;
  for (const SystemCall& call : kCalls) text += fmt::format("{:<16} {}\n", call.name, call.why);
  return text;
}

std::expected<void, std::string> renounce_privileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return refused("to renounce privileges");
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return refused("to keep debuggers away");
  if (!limit(RLIMIT_CORE, 0) || !limit(RLIMIT_MSGQUEUE, 0)) return refused("lower limits");
  return {};
}

std::expected<void, std::string> close_jail(const JailLimits& limits) {
  if (limits.data_bytes != 0 && !limit(RLIMIT_DATA, limits.data_bytes))
    return refused("a limit of memory");
  // Not earlier: memory objects get their size like files.
  if (!limit(RLIMIT_FSIZE, limits.file_bytes)) return refused("a limit of files");
  if (limits.descriptors != 0 && !limit(RLIMIT_NOFILE, limits.descriptors))
    return refused("a limit of descriptors");
  Filter filter;
  const sock_fprog program = filter.program();
  // The number of a thread that cannot be joined to the filter, if there is one.
  const long result =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (result < 0) return refused("a filter of system calls");
  if (result > 0) return std::unexpected("a thread has a filter of its own already");
  return {};
}

}  // namespace dxgkit::serve
