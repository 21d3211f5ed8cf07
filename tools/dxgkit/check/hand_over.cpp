#include "tools/dxgkit/check/hand_over.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "tools/dxgkit/finding_json.h"

namespace dxgkit::tool::check {
namespace {

using nlohmann::json;
using verify::StepResult;
using verify::VerifyReport;

json message_of_step(const StepResult& step) {
  json message{{"name", step.name},
               {"title", step.title},
               {"kind", static_cast<int>(step.outcome.kind)},
               {"text", step.outcome.text},
               {"before", step.outcome.before},
               {"calls", step.calls},
               {"findings", json::array()},
               {"situations", json::array()}};
  for (const verifier::Finding& finding : step.findings)
    message["findings"].push_back(tool::to_message(finding));
  for (const verifier::Situation situation : step.situations)
    message["situations"].push_back(static_cast<size_t>(situation));
  return message;
}

StepResult step_of_message(const json& message) {
  StepResult step;
  step.name = message.at("name");
  step.title = message.at("title");
  step.outcome.kind = static_cast<verify::Outcome::Kind>(message.at("kind").get<int>());
  step.outcome.text = message.at("text");
  step.outcome.before = message.at("before");
  step.calls = message.at("calls");
  for (const json& finding : message.at("findings")) step.findings.push_back(finding_of(finding));
  for (const json& situation : message.at("situations"))
    step.situations.push_back(static_cast<verifier::Situation>(situation.get<size_t>()));
  return step;
}

}  // namespace

SharedText::SharedText() : fd_(memfd_create("dxgkit-report", MFD_CLOEXEC)) {
  DXGKIT_CHECK(fd_ >= 0);
}

SharedText::~SharedText() { close(fd_); }

bool SharedText::write(int fd, std::string_view text) {
  if (ftruncate(fd, 0) != 0) return false;
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = pwrite(fd, text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (written <= 0) return false;
    at += static_cast<size_t>(written);
  }
  return true;
}

std::string SharedText::read() const {
  struct stat facts {};
  if (fstat(fd_, &facts) != 0) return {};
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t got = pread(fd_, text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (got <= 0) break;
    at += static_cast<size_t>(got);
  }
  text.resize(at);
  return text;
}

json to_message(const VerifyReport& report) {
  json message{{"driver", report.driver},
               {"command", report.command},
               {"interface_version", report.interface_version},
               {"display_only", report.display_only},
               {"ended", report.ended},
               {"interrupted", report.interrupted},
               {"left_out", report.left_out},
               {"written", report.written},
               {"never_called", report.never_called},
               {"steps", json::array()},
               {"findings", json::array()},
               {"situations", json::array()}};
  for (const StepResult& step : report.steps) message["steps"].push_back(message_of_step(step));
  for (const verifier::Finding& finding : report.findings)
    message["findings"].push_back(tool::to_message(finding));
  for (const verifier::SituationCount& one : report.situations.counts)
    message["situations"].push_back({one.count, one.why_not});
  return message;
}

std::optional<VerifyReport> report_of(std::string_view text) {
  const json message = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!message.is_object()) return std::nullopt;
  try {
    VerifyReport report;
    report.driver = message.at("driver");
    report.command = message.at("command");
    report.interface_version = message.at("interface_version");
    report.display_only = message.at("display_only");
    report.ended = message.at("ended");
    report.interrupted = message.at("interrupted");
    report.left_out = message.at("left_out");
    report.written = message.at("written");
    report.never_called = message.at("never_called");
    for (const json& step : message.at("steps")) report.steps.push_back(step_of_message(step));
    for (const json& finding : message.at("findings"))
      report.findings.push_back(finding_of(finding));
    const auto& catalogue = verifier::situation_catalogue();
    const json& counts = message.at("situations");
    for (size_t i = 0; i < std::min(counts.size(), catalogue.size()); ++i)
      report.situations.counts.push_back({&catalogue[i], counts[i].at(0), counts[i].at(1)});
    return report;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace dxgkit::tool::check
