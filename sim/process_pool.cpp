#include "sim/process_pool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>

#include "base/check.h"
#include "bus/memory_object.h"
#include "runtime/interrupt.h"
#include "runtime/runtime.h"

namespace dxgkit::sim {
namespace {

constexpr int kTickMs = 200;
constexpr uint64_t kNothing = UINT64_MAX;

/// Shared with the workers; lock-free atomics work across processes.
struct Board {
  std::atomic<uint64_t> taken{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> working_on[kWorkersMost]{};
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

/// In front of each answer in the pipe.
struct Header {
  uint64_t index = 0;
  uint32_t bytes = 0;
  uint32_t worker = 0;
};
static_assert(sizeof(Header) + kAnswerBytesMost <= 4096);

class Pool {
 public:
  explicit Pool(const PoolJob& job) : job_(job) {
    void* const shared =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DXGKIT_CHECK(shared != MAP_FAILED);
    board_ = new (shared) Board;
    DXGKIT_CHECK(pipe2(pipe_, O_CLOEXEC) == 0);
    DXGKIT_CHECK(fcntl(pipe_[0], F_SETFL, O_NONBLOCK) == 0);
  }
  ~Pool() {
    close(pipe_[0]);
    close(pipe_[1]);
    munmap(board_, sizeof(Board));
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  bool run();

 private:
  void start(uint32_t worker);
  [[noreturn]] void be_worker(uint32_t worker);
  void read_answers();
  void bury(pid_t child, int status);
  /// The user wants an end: numbers that are begun are given up.
  void end_workers();
  /// Kills workers that have been at one number for too long.
  void look_at_the_clock();

  /// The work of a worker, as seen from here.
  struct Watch {
    uint64_t index = kNothing;
    runtime::TimeNs since = 0;
    bool killed = false;
  };

  const PoolJob& job_;
  Board* board_ = nullptr;
  int pipe_[2] = {-1, -1};
  const std::unique_ptr<runtime::Runtime> clock_ = runtime::make_os_runtime();
  std::map<pid_t, uint32_t> workers_;
  std::map<pid_t, Watch> watches_;
  std::string unread_;
  std::map<uint32_t, uint64_t> answered_;  // by worker: the last number
  bool forked_ = true;
  bool interrupted_ = runtime::interrupted();
};

/// What the heap has got from the system it keeps: numbers come one after another, and each needs
/// about what the one before has freed. Otherwise each large vector is mapped and faulted in anew.
void keep_freed_memory() {
  constexpr int kMost = 256 << 20;
  mallopt(M_MMAP_THRESHOLD, kMost);
  mallopt(M_TRIM_THRESHOLD, kMost);
}

void Pool::be_worker(uint32_t worker) {
  keep_freed_memory();
  bus::keep_memory_objects();
  while (!board_->stop.load()) {
    const uint64_t index = board_->taken.fetch_add(1);
    if (index >= job_.count) break;
    board_->working_on[worker].store(index);
    std::string answer = job_.work(index);
    answer.resize(std::min(answer.size(), kAnswerBytesMost));
    const Header header{index, static_cast<uint32_t>(answer.size()), worker};
    answer.insert(0, reinterpret_cast<const char*>(&header), sizeof(header));
    if (write(pipe_[1], answer.data(), answer.size()) != static_cast<ssize_t>(answer.size())) break;
    board_->working_on[worker].store(kNothing);
  }
  std::fflush(nullptr);
  _exit(0);
}

void Pool::start(uint32_t worker) {
  board_->working_on[worker].store(kNothing);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    runtime::leave_interrupts_to_parent(parent);
    be_worker(worker);
  }
  if (child < 0) {
    forked_ = false;
    return;
  }
  workers_[child] = worker;
}

void Pool::read_answers() {
  char bytes[1 << 16];
  for (;;) {
    const ssize_t got = read(pipe_[0], bytes, sizeof(bytes));
    if (got <= 0) break;
    unread_.append(bytes, static_cast<size_t>(got));
  }
  size_t at = 0;
  while (unread_.size() - at >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, unread_.data() + at, sizeof(header));
    if (unread_.size() - at < sizeof(header) + header.bytes) break;
    const std::string_view answer(unread_.data() + at + sizeof(header), header.bytes);
    answered_[header.worker] = header.index;
    if (!job_.done(header.index, answer)) board_->stop.store(true);
    at += sizeof(header) + header.bytes;
  }
  unread_.erase(0, at);
}

void Pool::bury(pid_t child, int status) {
  const auto found = workers_.find(child);
  if (found == workers_.end()) return;
  const uint32_t worker = found->second;
  workers_.erase(found);
  const bool killed = watches_[child].killed;
  watches_.erase(child);
  read_answers();  // answers that it gave before
  const uint64_t index = board_->working_on[worker].load();
  const auto last = answered_.find(worker);
  const bool in_the_middle =
      index != kNothing && (last == answered_.end() || last->second != index);
  if (interrupted_) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !in_the_middle) return;
  if (in_the_middle) {
    const std::string how =
        killed ? fmt::format("it did not end within {} s of real time", job_.seconds_most)
        : WIFSIGNALED(status) ? fmt::format("the process ended by signal {}", WTERMSIG(status))
                              : fmt::format("the process ended with code {}", WEXITSTATUS(status));
    if (!job_.died(index, how)) board_->stop.store(true);
  }
  if (board_->taken.load() < job_.count && !board_->stop.load()) start(worker);
}

void Pool::end_workers() {
  interrupted_ = true;
  board_->stop.store(true);
  for (const auto& [child, worker] : workers_) kill(child, SIGKILL);
}

void Pool::look_at_the_clock() {
  if (job_.seconds_most == 0) return;
  const runtime::TimeNs now = clock_->now();
  for (const auto& [child, worker] : workers_) {
    Watch& watch = watches_[child];
    const uint64_t index = board_->working_on[worker].load();
    if (watch.index != index) watch = {.index = index, .since = now};
    if (index == kNothing || watch.killed) continue;
    if (now - watch.since < int64_t{job_.seconds_most} * runtime::kSecond) continue;
    watch.killed = true;
    kill(child, SIGKILL);
  }
}

bool Pool::run() {
  std::fflush(nullptr);  // otherwise children would print buffered text again
  const uint64_t wanted = std::clamp<uint64_t>(job_.workers, 1, kWorkersMost);
  for (uint32_t i = 0; i < std::min(wanted, job_.count) && !interrupted_; ++i) start(i);
  while (!workers_.empty()) {
    pollfd entries[2] = {
        {.fd = pipe_[0], .events = POLLIN, .revents = 0},
        {.fd = interrupted_ ? -1 : runtime::interrupt_fd(), .events = POLLIN, .revents = 0}};
    static_cast<void>(poll(entries, 2, kTickMs));
    if (entries[1].revents != 0) end_workers();
    read_answers();
    int status = 0;
    for (pid_t child = 0; (child = waitpid(-1, &status, WNOHANG)) > 0;) bury(child, status);
    look_at_the_clock();
    if (job_.tick) job_.tick();
  }
  read_answers();
  return forked_;
}

}  // namespace

uint32_t workers_for(uint32_t asked) {
  return asked != 0 ? asked : static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

bool run_pool(const PoolJob& job) { return Pool(job).run(); }

}  // namespace dxgkit::sim
