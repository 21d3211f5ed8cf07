#include "verifier/findings.h"

#include <fmt/format.h>

#include <cctype>
#include <map>

#include "runtime/sync.h"
#include "trace/trace.h"
#include "verifier/json_text.h"
#include "verifier/rule_catalogue.h"

namespace dxgkit::verifier {
namespace {}  // namespace

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

namespace {

std::string place_text(const Place& place) {
  if (place.image.empty()) return "";
  return fmt::format("{}+{:#x}{}{}", place.image, place.rva, place.symbol.empty() ? "" : " ",
                     place.symbol);
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

/// A text without its numbers, which is the same each time one mistake happens.
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

/// Short for this file.
std::string quoted(std::string_view text) { return json_string(text); }

}  // namespace

struct Findings::Impl {
  mutable runtime::Mutex lock;
  std::vector<Finding> stored;
  /// (rule, ddi, actual without its numbers, severity) -> times seen. A finding that stops the
  /// adapter is reported even if the same was a warning before.
  std::map<std::tuple<std::string, std::string, std::string, Severity>, size_t> repeats;
  std::map<std::string, size_t, std::less<>> by_rule;
  size_t total = 0;
  std::function<void(const Finding&)> listener;
};

Findings::Findings() : impl_(std::make_unique<Impl>()) {}
Findings::~Findings() = default;

void Findings::report(Finding finding) {
  std::function<void(const Finding&)> listener;
  {
    runtime::MutexLock lock(impl_->lock);
    ++impl_->total;
    ++impl_->by_rule[finding.rule];
    if (++impl_->repeats[{finding.rule, finding.ddi, without_numbers(finding.actual),
                          finding.severity}] > 1)
      return;
    impl_->stored.push_back(finding);
    listener = impl_->listener;
  }
  if (trace::Recorder* recorder = trace::current()) {
    recorder->record(trace::EventKind::kFinding, recorder->name_id(finding.rule),
                     static_cast<uint64_t>(finding.severity));
  }
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

void Findings::set_listener(std::function<void(const Finding&)> listener) {
  runtime::MutexLock lock(impl_->lock);
  impl_->listener = std::move(listener);
}

std::string to_text(const Finding& finding) {
  std::string text =
      fmt::format("{}: {} in {}\n", finding.rule, severity_text(finding.severity), finding.ddi);
  const auto line = [&](const char* label, std::string_view value) {
    if (!value.empty()) text += fmt::format("  {:<10}{}\n", label, value);
  };
  line("actual:", finding.actual);
  line("expected:", finding.expected);
  if (const Rule* rule = find_rule(finding.rule); rule != nullptr) {
    line("rule:", rule->statement);
    line("source:", rule->sources);
  }
  line("why:", finding.why);
  line("fix:", finding.fix);
  line("Windows:", consequence_text(finding));
  line("sure:", confidence_text(finding.confidence));
  line("at:", place_text(finding.place));
  line("registers:", finding.place.registers);
  for (const std::string& frame : finding.place.stack) line("", frame);
  return text;
}

std::string to_json(const Finding& finding) {
  std::string json =
      fmt::format(R"({{"rule":{},"severity":"{}","ddi":{},"actual":{},"expected":{},"fix":{})",
                  quoted(finding.rule), severity_text(finding.severity), quoted(finding.ddi),
                  quoted(finding.actual), quoted(finding.expected), quoted(finding.fix));
  if (finding.severity == Severity::kBugCheck) {
    json += fmt::format(R"(,"bugcheck_code":{},"bugcheck_parameter":{})", finding.bugcheck_code,
                        finding.bugcheck_parameter);
  }
  json += fmt::format(R"(,"windows":{},"confidence":"{}")", quoted(consequence_text(finding)),
                      confidence_text(finding.confidence));
  if (!finding.why.empty()) json += fmt::format(R"(,"why":{})", quoted(finding.why));
  if (const Place& place = finding.place; !place.image.empty()) {
    json +=
        fmt::format(R"(,"place":{{"image":{},"rva":{},"symbol":{},"registers":{},"stack":[)",
                    quoted(place.image), place.rva, quoted(place.symbol), quoted(place.registers));
    for (size_t i = 0; i < place.stack.size(); ++i)
      json += (i == 0 ? "" : ",") + quoted(place.stack[i]);
    json += "]}";
  }
  if (const Rule* rule = find_rule(finding.rule); rule != nullptr)
    json += fmt::format(R"(,"statement":{})", quoted(rule->statement));
  return json + "}";
}

}  // namespace dxgkit::verifier
