#include "verifier/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <iterator>
#include <map>
#include <span>
#include <tuple>

#include "runtime/sync.h"
#include "trace/trace.h"
#include "verifier/finding_text.h"
#include "verifier/json_text.h"
#include "verifier/rule_catalogue.h"
#include "verifier/source_lines.h"
#include "verifier/waivers.h"

namespace dxgkit::verifier {

std::string_view severity_text(Severity severity) {
  switch (severity) {
    case Severity::kWarning:
      return "warning";
    case Severity::kViolation:
      return "violation";
    case Severity::kStartFail:
      return "start-failure";
    case Severity::kBugCheck:
      return "bug-check";
  }
  return "";
}

std::string_view severity_text(const Finding& finding) {
  return finding.because_of.empty() ? severity_text(finding.severity) : "note";
}

std::string_view confidence_text(Confidence confidence) {
  switch (confidence) {
    case Confidence::kDocumented:
      return "documented";
    case Confidence::kEventText:
      return "event text";
    case Confidence::kMeasured:
      return "measured";
    case Confidence::kInferred:
      return "inferred";
  }
  return "";
}

std::string_view confidence_text(const Finding& finding) {
  const Rule* const rule = find_rule(finding.rule);
  if (finding.confidence != Confidence::kDocumented || rule == nullptr)
    return confidence_text(finding.confidence);
  if (!rule->documented) return confidence_text(Confidence::kInferred);
  return rule->our_choice ? "documented in part" : confidence_text(Confidence::kDocumented);
}

namespace {

std::string place_text(const Place& place, std::span<const SourceFrame> source) {
  if (place.image.empty()) return "";
  const std::string name = source.empty() ? place.symbol : to_text(source[0]);
  return fmt::format("{}+{:#x}{}{}", place.image, place.rva, name.empty() ? "" : " ", name);
}

/// A frame of a stack, with its line if that is known.
std::string frame_text(const Place& place, const std::string& frame) {
  const std::vector<SourceFrame> source = source_of_frame(place, frame);
  if (source.empty()) return frame;
  std::string text = frame.substr(0, frame.find(' '));
  for (size_t i = 0; i < source.size(); ++i)
    text += (i == 0 ? " " : ", inlined into ") + to_text(source[i]);
  return text;
}

}  // namespace

std::string consequence_text(const Finding& finding) {
  if (!finding.windows.empty()) return finding.windows;
  switch (finding.severity) {
    case Severity::kWarning:
      return "Windows goes on.";
    case Severity::kViolation:
      return "Windows may go on; the result is undefined.";
    case Severity::kStartFail:
      return "Windows does not start the adapter.";
    case Severity::kBugCheck:
      return fmt::format("Windows stops with bug check {:#x}, parameter {:#x}.",
                         finding.bugcheck_code, finding.bugcheck_parameter);
  }
  return "";
}

std::string without_numbers(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](size_t at) {
      return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
    };
    if (!is_digit(i) || (i > 0 && std::isalpha(static_cast<unsigned char>(text[i - 1])) != 0)) {
      out += text[i];
      continue;
    }
    while (i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i + 1])) != 0) ++i;
    out += '#';
  }
  return out;
}

namespace {

/// Content that paging does not keep makes these look broken, whatever the driver does there.
constexpr std::string_view kPagingLosesContent = "PAGE-50";
constexpr std::string_view kLookBrokenThen[] = {"PAGE-50", "PAGE-51", "SUB-22", "REND-29"};

/// Short for this file.
std::string quoted(std::string_view text) { return json_string(text); }

}  // namespace

struct Findings::Impl {
  mutable runtime::Mutex lock;
  std::atomic<LinesBefore> lines_before{nullptr};
  std::vector<Finding> stored;
  /// (rule, ddi, actual without its numbers, severity) -> it was a mistake of its own, and no
  /// consequence. A finding that stops the adapter is reported even if the same was a warning
  /// before, and a mistake even if it was a consequence.
  std::map<std::tuple<std::string, std::string, std::string, Severity>, bool> told;
  std::map<std::string, size_t, std::less<>> by_rule;
  size_t total = 0;
  std::string doomed_by;         // a rule
  bool content_is_lost = false;  // by paging, on any machine
  const Waivers* waivers = nullptr;
  std::function<Place(std::string_view)> entry_place;
  std::function<void(const Finding&)> listener;
};

Findings::Findings() : impl_(std::make_unique<Impl>()) {}
Findings::~Findings() = default;

}  // namespace dxgkit::verifier

/// Where a debugger stops for a finding: `dxgkit attach` prints how. It does nothing.
extern "C" [[gnu::used, gnu::noinline, gnu::visibility("default")]] void dxgkit_finding(
    const char* rule, const char* ddi) {
  asm volatile("" : : "r"(rule), "r"(ddi) : "memory");
}

namespace dxgkit::verifier {

void Findings::report(Finding finding) {
  std::function<void(const Finding&)> listener;
  const LinesBefore lines_before = impl_->lines_before.load(std::memory_order_acquire);
  if (lines_before != nullptr && finding.severity != Severity::kWarning && finding.before.empty())
    finding.before = lines_before();
  {
    runtime::MutexLock lock(impl_->lock);
    ++impl_->total;
    ++impl_->by_rule[finding.rule];
    if (finding.because_of.empty()) finding.because_of = impl_->doomed_by;
    if (impl_->content_is_lost &&
        std::ranges::find(kLookBrokenThen, finding.rule) != std::end(kLookBrokenThen) &&
        finding.because_of.empty())
      finding.because_of = kPagingLosesContent;
    if (finding.rule == kPagingLosesContent) impl_->content_is_lost = true;
    if (impl_->doomed_by.empty() && (finding.dooms || finding.severity == Severity::kBugCheck))
      impl_->doomed_by = finding.rule;
    const bool own = finding.because_of.empty();
    const auto [seen, is_new] = impl_->told.try_emplace(
        {finding.rule, finding.ddi, without_numbers(finding.actual), finding.severity}, own);
    if (!is_new && (seen->second || !own)) return;
    seen->second = own;
    // "DxgkDdiQueryAdapterInfo(UMDRIVERPRIVATE)" is a call of the entry, too.
    if (finding.place.image.empty() && impl_->entry_place)
      finding.place = impl_->entry_place(finding.ddi.substr(0, finding.ddi.find('(')));
    if (impl_->waivers != nullptr) finding.waived = impl_->waivers->use(finding.rule);
    impl_->stored.push_back(finding);
    listener = impl_->listener;
  }
  if (trace::Recorder* recorder = trace::current()) {
    recorder->record(trace::EventKind::kFinding, recorder->name_id(finding.rule),
                     static_cast<uint64_t>(finding.severity));
  }
  dxgkit_finding(finding.rule.c_str(), finding.ddi.c_str());
  if (listener) listener(finding);
}

std::vector<Finding> Findings::all() const {
  runtime::MutexLock lock(impl_->lock);
  return impl_->stored;
}

size_t Findings::count(std::string_view rule) const {
  runtime::MutexLock lock(impl_->lock);
  const auto found = impl_->by_rule.find(rule);
  return found == impl_->by_rule.end() ? 0 : found->second;
}

size_t Findings::total() const {
  runtime::MutexLock lock(impl_->lock);
  return impl_->total;
}

void Findings::set_waivers(const Waivers* waivers) { impl_->waivers = waivers; }

void Findings::begin_machine(LinesBefore lines_before) {
  impl_->lines_before.store(lines_before, std::memory_order_release);
  runtime::MutexLock lock(impl_->lock);
  impl_->doomed_by.clear();
}

std::string Findings::doomed_by() const {
  runtime::MutexLock lock(impl_->lock);
  return impl_->doomed_by;
}

void Findings::set_entry_places(std::function<Place(std::string_view)> entry_place) {
  runtime::MutexLock lock(impl_->lock);
  impl_->entry_place = std::move(entry_place);
}

void Findings::set_listener(std::function<void(const Finding&)> listener) {
  runtime::MutexLock lock(impl_->lock);
  impl_->listener = std::move(listener);
}

std::string to_text(const Finding& finding) {
  const Place& place = finding.place;
  const std::vector<SourceFrame> source = source_of(place);
  std::string text = fmt::format("{}: {} in {}", finding.rule, severity_text(finding), finding.ddi);
  if (!finding.because_of.empty()) text += fmt::format(", because of {}", finding.because_of);
  if (!finding.waived.empty()) text += ", waived";
  text += '\n';
  const auto line = [&](const char* label, std::string_view value) {
    if (!value.empty()) text += fmt::format("  {:<10}{}\n", label, value);
  };
  line("waived:", finding.waived);
  line("actual:", finding.actual);
  line("expected:", finding.expected);
  if (const Rule* rule = find_rule(finding.rule); rule != nullptr) {
    line("rule:", rule->statement);
    line("source:", rule->sources);
  }
  line("why:", finding.why);
  line("fix:", finding.fix);
  line("Windows:", consequence_text(finding));
  line("sure:", confidence_text(finding));
  if (place.entry) {
    line("in:", source.empty() ? place_text(place, source) : to_text(source[0]));
  } else {
    line("at:", place_text(place, source));
    for (size_t i = 1; i < source.size(); ++i) line("", "inlined into " + to_text(source[i]));
  }
  line("registers:", place.registers);
  for (const std::string& frame : place.stack) line("", frame_text(place, frame));
  for (const std::string& before : finding.before)
    line(&before == finding.before.data() ? "before:" : "", before);
  static std::atomic<bool> told{false};
  if (symbolizer_is_missing() && !told.exchange(true))
    line("", "(llvm-symbolizer is missing, so no place has a file and line: install llvm-19)");
  return text;
}

std::string to_json(const Finding& finding) {
  std::string json =
      fmt::format(R"({{"rule":{},"severity":"{}","ddi":{},"actual":{},"expected":{},"fix":{})",
                  quoted(finding.rule), severity_text(finding), quoted(finding.ddi),
                  quoted(finding.actual), quoted(finding.expected), quoted(finding.fix));
  if (finding.severity == Severity::kBugCheck) {
    json += fmt::format(R"(,"bugcheck_code":{},"bugcheck_parameter":{})", finding.bugcheck_code,
                        finding.bugcheck_parameter);
  }
  json += fmt::format(R"(,"windows":{},"confidence":"{}")", quoted(consequence_text(finding)),
                      confidence_text(finding));
  if (!finding.why.empty()) json += fmt::format(R"(,"why":{})", quoted(finding.why));
  if (!finding.because_of.empty())
    json += fmt::format(R"(,"because_of":{})", quoted(finding.because_of));
  if (!finding.waived.empty()) json += fmt::format(R"(,"waived":{})", quoted(finding.waived));
  if (!finding.before.empty()) {
    json += R"(,"before":[)";
    for (size_t i = 0; i < finding.before.size(); ++i)
      json += (i == 0 ? "" : ",") + quoted(finding.before[i]);
    json += "]";
  }
  if (const Place& place = finding.place; !place.image.empty()) {
    json += fmt::format(
        R"(,"place":{{"image":{},"rva":{},"symbol":{},"entry":{},"registers":{},"stack":[)",
        quoted(place.image), place.rva, quoted(place.symbol), place.entry, quoted(place.registers));
    for (size_t i = 0; i < place.stack.size(); ++i)
      json += (i == 0 ? "" : ",") + quoted(frame_text(place, place.stack[i]));
    json += R"(],"source":[)";
    const std::vector<SourceFrame> source = source_of(place);
    for (size_t i = 0; i < source.size(); ++i) {
      json += fmt::format(R"({}{{"function":{},"file":{},"line":{}}})", i == 0 ? "" : ",",
                          quoted(source[i].function), quoted(source[i].file), source[i].line);
    }
    json += "]}";
  }
  if (const Rule* rule = find_rule(finding.rule); rule != nullptr)
    json += fmt::format(R"(,"statement":{})", quoted(rule->statement));
  return json + "}";
}

}  // namespace dxgkit::verifier
