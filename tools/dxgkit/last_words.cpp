#include "tools/dxgkit/last_words.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <span>

#include "base/failed_check.h"
#include "devices/plugin/plugin.h"
#include "nt/kernel.h"
#include "tools/dxgkit/finding_json.h"
#include "tools/dxgkit/options.h"

namespace dxgkit::tool {
namespace {

constexpr size_t kNotes = 64;
constexpr size_t kKeptBytes = size_t{256} << 10;  // touched pages alone cost memory
constexpr int kFramesMost = 24;
constexpr size_t kFramesInKey = 3;
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};

/// An address within its image, which is the same in every run.
struct CodePlace {
  char image[32];
  uint64_t offset;
};

struct Note {
  std::atomic<uint64_t> index{UINT64_MAX};
  int signal = 0;
  uint32_t seconds = 0;
  std::atomic<const char*> last_call{nullptr};  // of a driver; a literal of this executable
  char ddi[64] = {};                            // the call that was running; "": none
  char import[64] = {};
  CodePlace driver = {};
  char driver_path[512] = {};  // of the file with that code
  char plugin[512] = {};       // not empty: a device failed, not the driver; this says so
  char check[256] = {};        // not empty: this check of ours failed
  int frame_count = 0;
  CodePlace frames[kFramesMost] = {};
  std::atomic<size_t> kept_bytes{0};
  char kept[kKeptBytes];  // lines of JSON

  /// " in DxgkDdiPatch, which had called RtlCopyMemory, at softgpu.sys+0x1234".
  std::string doing() const;
};

}  // namespace

struct LastWords::Board {
  std::atomic<uint32_t> taken{0};
  Note notes[kNotes];

  const Note* find(uint64_t index) const {
    const Note* found = nullptr;
    for (const Note& note : notes) {
      if (note.index.load() == index && (found == nullptr || note.signal != 0)) found = &note;
    }
    return found;
  }
};

namespace {

Note* note_of_process;

struct sigaction previous_actions[std::size(kSignals)];

void copy_name(const char* from, std::span<char> to) {
  std::strncpy(to.data(), from, to.size() - 1);
}

/// The process is ending, so a failure here costs the rest of the note only. What matters most
/// comes first.
void write_note(int signal, const void* context) {
  Note& note = *note_of_process;
  plugin::Crash crash;
  if (signal != SIGALRM && plugin::crashed_in_plugin(context, &crash))
    plugin::crash_text(crash, signal, note.plugin, sizeof note.plugin);
  note.signal = signal;
  if (signal == SIGABRT) copy_name(failed_check(), note.check);
  const nt::StoppedCall stopped = nt::stopped_call(context);
  note.driver.offset = stopped.rva;
  copy_name(stopped.ddi, note.ddi);
  copy_name(stopped.import, note.import);
  copy_name(stopped.image, note.driver.image);
  copy_name(stopped.path, note.driver_path);
  void* addresses[kFramesMost];
  const int count = backtrace(addresses, kFramesMost);
  // The first frames are this function, the handler, and the frames that the kernel puts below it.
  constexpr int kOwn = 3;
  for (int i = kOwn; i < count; ++i) {
    Dl_info info{};
    CodePlace& frame = note.frames[note.frame_count++];
    frame.offset = reinterpret_cast<uint64_t>(addresses[i]);
    if (dladdr(addresses[i], &info) == 0 || info.dli_fname == nullptr) continue;
    const char* const slash = std::strrchr(info.dli_fname, '/');
    copy_name(slash == nullptr ? info.dli_fname : slash + 1, frame.image);
    frame.offset -= reinterpret_cast<uint64_t>(info.dli_fbase);
  }
}

void on_signal(int signal, siginfo_t* info, void* context) {
  static std::atomic<bool> writing{false};
  const bool first = !writing.exchange(true);
  if (first) write_note(signal, context);
  const struct sigaction& previous =
      previous_actions[std::ranges::find(kSignals, signal) - std::begin(kSignals)];
  // A sanitizer has more to say. The crash of a plug-in is told by the parent.
  if (first && note_of_process->plugin[0] == 0 && (previous.sa_flags & SA_SIGINFO) != 0)
    previous.sa_sigaction(signal, info, context);
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  raise(signal);
}

}  // namespace

LastWords::LastWords() {
  void* addresses[2];
  backtrace(addresses, 2);  // loads its libraries now, which a handler may not do
}

LastWords::~LastWords() = default;

void LastWords::listen(uint64_t index, uint32_t seconds) const {
  if (note_of_process == nullptr) {
    note_of_process = &board_->notes[board_->taken.fetch_add(1) % kNotes];
    static char stack[64 << 10];
    const stack_t signal_stack{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
    sigaltstack(&signal_stack, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], &action, &previous_actions[i]);
  }
  Note& note = *note_of_process;
  note.signal = note.frame_count = 0;
  note.seconds = seconds;
  note.last_call.store(nullptr);
  nt::g_call_note = &note.last_call;
  note.ddi[0] = note.import[0] = note.driver.image[0] = note.driver_path[0] = note.plugin[0] = 0;
  note.check[0] = 0;
  std::memset(note.kept, 0, std::min(note.kept_bytes.load(), sizeof note.kept));
  note.kept_bytes.store(0);
  note.index.store(index);
  alarm(seconds);
}

void LastWords::keep(const Problem& problem) {
  if (note_of_process == nullptr) return;
  Note& note = *note_of_process;
  const std::string line =
      line_of({{"key", problem.key}, {"finding", to_message(problem.finding)}}) + '\n';
  // Threads write side by side. A line that is not complete when the process ends does not count.
  const size_t at = note.kept_bytes.fetch_add(line.size());
  if (at <= sizeof note.kept && line.size() <= sizeof note.kept - at)
    std::memcpy(note.kept + at, line.data(), line.size());
}

void LastWords::end_without_device(const std::string& why) {
  if (note_of_process != nullptr) {
    copy_name(why.c_str(), note_of_process->plugin);
  } else {
    fmt::print(stderr, "dxgkit: {}\n", why);
  }
  _exit(kExitBadInput);
}

std::vector<Problem> LastWords::kept(uint64_t index) const {
  std::vector<Problem> problems;
  const Note* const note = board_->find(index);
  if (note == nullptr) return problems;
  std::string_view text(note->kept, std::min(note->kept_bytes.load(), sizeof note->kept));
  for (size_t end = 0; (end = text.find('\n')) != std::string_view::npos;
       text.remove_prefix(end + 1)) {
    const auto line = nlohmann::json::parse(text.substr(0, end), nullptr, false);
    if (!line.is_object() || !line.contains("finding")) continue;
    const auto key = line.find("key");
    problems.push_back({.key = key != line.end() && key->is_string() ? key->get<std::string>() : "",
                        .finding = finding_of(line["finding"])});
  }
  return problems;
}

std::string Note::doing() const {
  if (ddi[0] == 0) {
    const char* const last = last_call.load();
    return last == nullptr ? "" : fmt::format("; the last call of the driver was {}", last);
  }
  std::string text = fmt::format(" in {}", ddi);
  if (import[0] != 0) text += fmt::format(", which had called {}", import);
  if (driver.image[0] != 0) text += fmt::format(", at {}+{:#x}", driver.image, driver.offset);
  return text;
}

Problem LastWords::of(uint64_t index, std::string_view what, std::string_view how) const {
  const Note* const found = board_->find(index);
  Problem problem;
  verifier::Finding& finding = problem.finding;
  finding.severity = verifier::Severity::kBugCheck;
  finding.confidence = verifier::Confidence::kInferred;
  finding.expected =
      "Every DDI returns, what was submitted is reported complete, and a fault of the driver "
      "becomes a finding with its place.";
  if (found == nullptr || found->signal == 0) {
    if (found != nullptr) problem.broken_around_it = found->plugin;
    problem.key = std::string(how);
    finding.rule = "NT-01";
    finding.bugcheck_code = 0xD1;
    finding.actual = fmt::format("{} lost its process: {}{}.", what, how,
                                 found == nullptr ? "" : found->doing());
    return problem;
  }
  problem.broken_around_it = found->plugin;
  finding.ddi = found->ddi;
  finding.place.image = found->driver.image;
  finding.place.rva = found->driver.offset;
  finding.place.path = found->driver_path;
  finding.place.after_call = found->import[0] != 0;
  for (int i = 0; i < found->frame_count; ++i) {
    const CodePlace& frame = found->frames[i];
    finding.place.stack.push_back(
        fmt::format("{}+{:#x}", frame.image[0] == 0 ? "unknown" : frame.image, frame.offset));
  }
  if (found->signal == SIGALRM) {
    problem.key = fmt::format("hang in {}", found->ddi[0] == 0 ? "no DDI" : found->ddi);
    finding.rule = "NT-20";
    finding.bugcheck_code = 0x133;
    finding.actual =
        fmt::format("{} took longer than {} s{}.", what, found->seconds, found->doing());
    return problem;
  }
  if (found->check[0] != 0) {
    problem.key = fmt::format("kernel: {}", found->check);
    finding.rule = "NT-37";
    finding.severity = verifier::Severity::kViolation;
    finding.actual = fmt::format("{} ended its process: {}{}.", what, found->check, found->doing());
    finding.expected = "Whatever drivers and processes do, dxgkit goes on and tells of it.";
    finding.why = "It is a mistake of dxgkit, unless the driver wrote over memory of others.";
    finding.windows = "Nothing: Windows is not involved.";
    return problem;
  }
  problem.key = fmt::format("signal {}", found->signal);
  for (size_t i = 0; i < std::min(kFramesInKey, finding.place.stack.size()); ++i)
    problem.key += (i == 0 ? " at " : " < ") + finding.place.stack[i];
  finding.rule = "NT-01";
  finding.bugcheck_code = 0xD1;
  finding.actual =
      fmt::format("{} ended its process by signal {}{}.", what, found->signal, found->doing());
  finding.why =
      "No rule could place the fault: it came outside the driver's code. The driver wrote over "
      "memory that is not its own, or jumped to code that is not its own, or dxgkit is wrong.";
  return problem;
}

}  // namespace dxgkit::tool
