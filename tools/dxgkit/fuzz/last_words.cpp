#include "tools/dxgkit/fuzz/last_words.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/check.h"
#include "devices/plugin/plugin.h"
#include "nt/kernel.h"

namespace dxgkit::tool::fuzz {
namespace {

constexpr size_t kNotes = 64;
constexpr int kFramesMost = 24;
constexpr size_t kFramesInKey = 3;
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};

struct Note {
  std::atomic<uint64_t> index{UINT64_MAX};
  int signal = 0;
  uint32_t seconds = 0;
  char ddi[64] = {};
  char plugin[512] = {};  // not empty: code of a device plug-in stopped, and this says so
  // Addresses within their images, which are the same in every run.
  int frame_count = 0;
  struct {
    char image[32];
    uint64_t offset;
  } frames[kFramesMost] = {};
};

}  // namespace

struct LastWords::Board {
  std::atomic<uint32_t> taken{0};
  Note notes[kNotes];
};

namespace {

Note* note_of_process;

/// The process is ending, so a failure here costs the note only.
void write_note(int signal, const void* context) {
  Note& note = *note_of_process;
  plugin::Crash crash;
  if (signal != SIGALRM && plugin::crashed_in_plugin(context, &crash))
    plugin::crash_text(crash, signal, note.plugin, sizeof note.plugin);
  if (const nt::CallFrame* const frame = nt::CallFrame::current_or_null())
    std::strncpy(note.ddi, frame->name(), sizeof note.ddi - 1);
  note.signal = signal;
  void* addresses[kFramesMost];
  const int count = backtrace(addresses, kFramesMost);
  // The first frames are this function, the handler, and the frames that the kernel puts below it.
  constexpr int kOwn = 3;
  for (int i = kOwn; i < count; ++i) {
    Dl_info info{};
    auto& frame = note.frames[note.frame_count++];
    frame.offset = reinterpret_cast<uint64_t>(addresses[i]);
    if (dladdr(addresses[i], &info) == 0 || info.dli_fname == nullptr) continue;
    const char* const slash = std::strrchr(info.dli_fname, '/');
    std::strncpy(frame.image, slash == nullptr ? info.dli_fname : slash + 1,
                 sizeof frame.image - 1);
    frame.offset -= reinterpret_cast<uint64_t>(info.dli_fbase);
  }
}

void on_signal(int signal, siginfo_t*, void* context) {
  static std::atomic<bool> writing{false};
  if (!writing.exchange(true)) write_note(signal, context);
  _exit(128 + signal);
}

void put(std::string* out, std::string_view text) {
  const auto size = static_cast<uint32_t>(text.size());
  out->append(reinterpret_cast<const char*>(&size), sizeof size);
  out->append(text);
}
template <typename T>
void put_number(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Reads the bytes back; missing parts are zero or empty.
class Packed {
 public:
  explicit Packed(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  T number() {
    T value = 0;
    const size_t size = std::min(sizeof value, bytes_.size());
    std::memcpy(&value, bytes_.data(), size);
    bytes_.remove_prefix(size);
    return value;
  }
  std::string text() {
    const size_t size = std::min<size_t>(number<uint32_t>(), bytes_.size());
    const std::string found(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return found;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

std::string pack_problem(const Problem& problem, bool whole) {
  std::string out;
  const verifier::Finding& finding = problem.finding;
  put(&out, problem.key);
  put_number(&out, static_cast<uint32_t>(finding.severity));
  put_number(&out, static_cast<uint32_t>(finding.confidence));
  put_number(&out, finding.bugcheck_code);
  put_number(&out, finding.bugcheck_parameter);
  const std::string nothing;
  for (const std::string* text :
       {&finding.rule, &finding.ddi, &finding.actual, &finding.expected, &finding.fix, &finding.why,
        &finding.windows, &finding.place.image, &finding.place.symbol}) {
    put(&out, whole || text == &finding.rule || text == &finding.ddi ? *text : nothing);
  }
  put_number(&out, finding.place.rva);
  std::string stack;
  for (const std::string& frame : finding.place.stack) stack += frame + '\n';
  put(&out, whole ? stack : nothing);
  return out;
}

Problem unpack_problem(Packed& in) {
  Problem problem;
  verifier::Finding& finding = problem.finding;
  problem.key = in.text();
  finding.severity = static_cast<verifier::Severity>(in.number<uint32_t>());
  finding.confidence = static_cast<verifier::Confidence>(in.number<uint32_t>());
  finding.bugcheck_code = in.number<uint32_t>();
  finding.bugcheck_parameter = in.number<uint32_t>();
  for (std::string* text :
       {&finding.rule, &finding.ddi, &finding.actual, &finding.expected, &finding.fix, &finding.why,
        &finding.windows, &finding.place.image, &finding.place.symbol})
    *text = in.text();
  finding.place.rva = in.number<uint64_t>();
  const std::string stack = in.text();
  for (size_t at = 0; at < stack.size();) {
    const size_t end = stack.find('\n', at);
    finding.place.stack.push_back(stack.substr(at, end - at));
    at = end + 1;
  }
  return problem;
}

}  // namespace

LastWords::LastWords() {
  void* const shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  DXGKIT_CHECK(shared != MAP_FAILED);
  board_ = new (shared) Board;
  void* addresses[2];
  backtrace(addresses, 2);  // loads its libraries now, which a handler may not do
}

LastWords::~LastWords() { munmap(board_, sizeof(Board)); }

void LastWords::listen(uint64_t index, uint32_t seconds) {
  if (note_of_process == nullptr) {
    note_of_process = &board_->notes[board_->taken.fetch_add(1) % kNotes];
    static char stack[64 << 10];
    const stack_t signal_stack{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
    sigaltstack(&signal_stack, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (const int signal : kSignals) sigaction(signal, &action, nullptr);
  }
  Note& note = *note_of_process;
  note.signal = note.frame_count = 0;
  note.seconds = seconds;
  note.ddi[0] = note.plugin[0] = 0;
  note.index.store(index);
  alarm(seconds);
}

Problem LastWords::of(uint64_t index, std::string_view how) const {
  const Note* found = nullptr;
  for (const Note& note : board_->notes) {
    if (note.index.load() == index && note.signal != 0) found = &note;
  }
  Problem problem;
  verifier::Finding& finding = problem.finding;
  if (found != nullptr) problem.broken_around_it = found->plugin;
  finding.severity = verifier::Severity::kBugCheck;
  finding.confidence = verifier::Confidence::kInferred;
  if (found == nullptr) {
    problem.key = std::string(how);
    finding.rule = "NT-01";
    finding.bugcheck_code = 0xD1;
    finding.actual = fmt::format("A run ended its process: {}.", how);
  } else if (found->signal == SIGALRM) {
    problem.key = fmt::format("hang in {}", found->ddi[0] == 0 ? "no DDI" : found->ddi);
    finding.rule = "NT-20";
    finding.ddi = found->ddi;
    finding.bugcheck_code = 0x133;
    finding.actual =
        fmt::format("A run took longer than {} s; {}.", found->seconds,
                    found->ddi[0] == 0 ? "no DDI was being called"
                                       : fmt::format("{} was being called", found->ddi));
  } else {
    problem.key = fmt::format("signal {}", found->signal);
    finding.rule = "NT-01";
    finding.ddi = found->ddi;
    finding.bugcheck_code = 0xD1;
    finding.actual =
        fmt::format("A run ended its process by signal {}{}.", found->signal,
                    found->ddi[0] == 0 ? "" : fmt::format(" while {} was called", found->ddi));
  }
  if (found != nullptr) {
    for (int i = 0; i < found->frame_count; ++i) {
      const auto& frame = found->frames[i];
      finding.place.stack.push_back(
          fmt::format("{}+{:#x}", frame.image[0] == 0 ? "unknown" : frame.image, frame.offset));
    }
    if (found->signal != SIGALRM) {
      for (size_t i = 0; i < std::min(kFramesInKey, finding.place.stack.size()); ++i)
        problem.key += (i == 0 ? " at " : " < ") + finding.place.stack[i];
    }
  }
  finding.expected =
      "Every DDI returns, and a fault of the driver becomes a finding with its place.";
  finding.fix =
      "Replay the reproducer under a debugger: dxgkit fuzz ... --replay FILE --in-process. "
      "If the fault is not in the driver, it is a mistake of this tool.";
  return problem;
}

std::string pack(const FuzzOutcome& outcome, size_t most) {
  std::string out;
  put(&out, outcome.unusable.substr(0, most / 2));
  for (const uint64_t count : {outcome.counts.calls, outcome.counts.succeeded,
                               outcome.counts.blocked, outcome.counts.processes})
    put_number(&out, count);
  for (const Problem& problem : outcome.problems) {
    std::string one = pack_problem(problem, /*whole=*/true);
    if (out.size() + one.size() > most) one = pack_problem(problem, /*whole=*/false);
    if (out.size() + one.size() > most) break;
    out += one;
  }
  return out;
}

FuzzOutcome unpack(std::string_view bytes) {
  FuzzOutcome outcome;
  Packed in(bytes);
  outcome.unusable = in.text();
  for (uint64_t* count : {&outcome.counts.calls, &outcome.counts.succeeded, &outcome.counts.blocked,
                          &outcome.counts.processes})
    *count = in.number<uint64_t>();
  while (!in.empty()) outcome.problems.push_back(unpack_problem(in));
  return outcome;
}

}  // namespace dxgkit::tool::fuzz
