#include "dxcore/host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ntstatus.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/spelling.h"
#include "dxcore/recording.h"
#include "dxcore/stack_file.h"
#include "dxgkit/stack.h"
#include "runtime/host_thread.h"

namespace dxgkit::dxcore {
namespace {
class Host;
}  // namespace

/// What a thread does with the kernel. `inside` is 0 outside, else the number of nested calls, and
/// kBinding while the thread joins. Records are reused, never freed, so that the end of the kernel
/// can look at all of them.
struct ThreadRecord {
  static constexpr uint32_t kBinding = 1U << 31;

  alignas(64) std::atomic<uint32_t> inside{0};
  Host* host = nullptr;
  std::optional<ClientProcess::Attach> attach;
  std::atomic<bool> taken{true};
  ThreadRecord* next = nullptr;
};

namespace {

void write_all(int file, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t some = write(file, text.data() + done, text.size() - done);
    if (some <= 0) return;  // nobody is left to tell
    done += static_cast<size_t>(some);
  }
}

class Host {
 public:
  /// The host of this process, started. The first thread that asks starts it; others wait.
  static Host& of_this_process();
  /// Null: nobody has asked yet.
  static Host* current() { return current_.load(); }

  ThreadRecord& record();
  void enter(ThreadRecord& record);
  void leave(ThreadRecord& record);
  void release(ThreadRecord& record);

  uint64_t number() const { return number_; }
  bool closing() const { return closing_.load(); }
  /// Whether there is a kernel. Once of_this_process() has returned it.
  bool running() const { return client_ != nullptr; }

 private:
  void start();
  /// Where findings go; empty: standard error. False: the file cannot be written.
  bool open_findings(const std::string& path);
  void run(const StackFile& file);
  void close();
  void report(const std::string& text) const { write_all(findings_, text); }
  /// For each record, waits until none of `bits` are set.
  void wait_until_clear(uint32_t bits);

  static std::atomic<Host*> current_;
  static std::atomic<uint64_t> hosts_;

  const uint64_t number_ = ++hosts_;

  std::atomic<bool> closing_{false};
  std::atomic<ThreadRecord*> records_{nullptr};
  runtime::HostFlag ready_;  // the kernel's thread has started it, or given up
  runtime::HostFlag begun_;  // start() has ended
  runtime::HostFlag stop_;
  std::optional<runtime::HostThread> thread_;
  std::unique_ptr<ClientProcess> client_;
  std::string why_not_;
  int findings_ = STDERR_FILENO;
};

std::atomic<Host*> Host::current_{nullptr};
std::atomic<uint64_t> Host::hosts_{0};

Host& Host::of_this_process() {
  Host* host = current_.load();
  if (host == nullptr) {
    auto* const mine = new Host;  // lives as long as the process, which may call at any time
    if (current_.compare_exchange_strong(host, mine)) {
      mine->start();
      return *mine;
    }
    delete mine;
  }
  host->begun_.wait();
  return *host;
}

void Host::start() {
  static std::atomic<bool> registered{false};
  if (!registered.exchange(true)) {
    // The parent's kernel is none of the child's: its threads are not there.
    runtime::when_forked([] {
      current_.store(nullptr);
      forget_recording();
    });
    std::atexit([] {
      if (Host* const host = current_.load(); host != nullptr) host->close();
    });
  }
  const char* const path = std::getenv("DXGKIT_STACK");
  const auto file = path == nullptr ? std::unexpected<std::string>("DXGKIT_STACK names no file")
                                    : read_stack_file(path);
  if (!file.has_value()) {
    why_not_ = file.error();
  } else if (!open_findings(file->findings)) {
    why_not_ = fmt::format("findings: {} cannot be written", file->findings);
  } else {
    thread_.emplace("dxgkit kernel", [this, file = *file] { run(file); });
    ready_.wait();
  }
  if (!running())
    write_all(STDERR_FILENO, fmt::format("dxgkit: this process has no kernel: {}\n", why_not_));
  begun_.set();
}

bool Host::open_findings(const std::string& path) {
  if (!path.empty())
    findings_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  return findings_ >= 0;
}

void Host::run(const StackFile& file) {
  StackOptions options = file.options;
  options.on_finding = [this](const Finding& finding) { report(finding.text + "\n"); };
  const auto outcome = Stack::run(options, [&](Stack& stack) {
    const auto driver = stack.load(file.driver);
    if (!driver.has_value()) {
      why_not_ = driver.error().message;
      return;
    }
    size_t started = 0;
    for (size_t slot = 0; slot < stack.slots(); ++slot) {
      if (const auto adapter = stack.start(**driver, slot, file.adapter); adapter.has_value())
        ++started;
      else if (why_not_.empty())
        why_not_ = adapter.error().message;
    }
    if (started == 0) return;
    // Another process of the program may be the one that is recorded.
    if (const std::string error = begin_recording(program_invocation_short_name); !error.empty())
      write_all(STDERR_FILENO, fmt::format("dxgkit: this process is not recorded: {}\n", error));
    client_ = stack.make_client(program_invocation_short_name);
    ready_.set();
    stop_.wait();
    wait_until_clear(ThreadRecord::kBinding);
    client_->end();  // threads inside come back with an error
    wait_until_clear(~uint32_t{0});
    if (const std::string error = end_recording(); !error.empty())
      write_all(STDERR_FILENO, fmt::format("dxgkit: {}\n", error));
    client_.reset();
  });
  if (!outcome.has_value()) why_not_ = outcome.error().message;
  if (!stop_.is_set())
    ready_.set();
  else if (outcome.has_value() && !outcome->findings.empty())
    report(fmt::format("dxgkit: {}\n", counted(outcome->findings.size(), "finding")));
}

void Host::close() {
  begun_.wait();  // another thread may be at the process's first call
  if (!thread_.has_value()) return;
  closing_.store(true);
  stop_.set();
  thread_->join();
}

void Host::wait_until_clear(uint32_t bits) {
  for (ThreadRecord* one = records_.load(); one != nullptr; one = one->next) {
    for (uint32_t now = one->inside.load(); (now & bits) != 0; now = one->inside.load())
      runtime::wait_while(one->inside, now);
  }
}

ThreadRecord& Host::record() {
  for (ThreadRecord* one = records_.load(); one != nullptr; one = one->next) {
    if (!one->taken.exchange(true)) return *one;
  }
  auto* const made = new ThreadRecord;
  made->host = this;
  made->next = records_.load();
  while (!records_.compare_exchange_weak(made->next, made)) {
  }
  return *made;
}

/// Either the thread sees that the kernel closes, or the kernel sees that the thread is inside.
void Host::enter(ThreadRecord& record) {
  const bool first = !record.attach.has_value();
  record.inside.fetch_add(first ? ThreadRecord::kBinding + 1 : 1);
  if (!first) return;
  if (!closing() && running()) record.attach.emplace(*client_);
  record.inside.fetch_sub(ThreadRecord::kBinding);
  if (closing()) runtime::wake_host_waiters(record.inside);
}

void Host::leave(ThreadRecord& record) {
  record.inside.fetch_sub(1);
  if (closing()) runtime::wake_host_waiters(record.inside);
}

/// The thread ends.
void Host::release(ThreadRecord& record) {
  record.inside.fetch_add(1);
  // When the kernel closes, what the thread is bound to may be gone; nobody needs it any more.
  if (!closing()) {
    record.attach.reset();
    leave(record);
    record.taken.store(false);
  } else {
    leave(record);
  }
}

/// The record of this thread, which goes back when the thread ends.
struct Mine {
  ThreadRecord* record = nullptr;
  Host* host = nullptr;
  ~Mine() {
    if (record != nullptr && host == Host::current()) host->release(*record);
  }
};

thread_local Mine t_mine;

}  // namespace

Call::Call() {
  Host& host = Host::of_this_process();
  if (t_mine.host != &host) {  // the first call of this thread, or of this forked child
    t_mine.host = &host;
    t_mine.record = &host.record();
  }
  record_ = t_mine.record;
  host.enter(*record_);
  if (host.closing())
    refusal_ = STATUS_PROCESS_IS_TERMINATING;
  else if (!host.running())
    refusal_ = STATUS_NOT_SUPPORTED;
}

uint64_t Call::kernel() const { return record_->host->number(); }

Call::~Call() { record_->host->leave(*record_); }

}  // namespace dxgkit::dxcore
