#include "tools/dxgkit/situations.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/spelling.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool {
namespace {

constexpr size_t kLineColumns = 100;

std::string needs_text(uint64_t needs) {
  std::string out;
  for (size_t fact = 0; fact < verifier::kSituationFacts; ++fact) {
    if ((needs >> fact & 1) == 0) continue;
    out += fmt::format("{}{}", out.empty() ? "" : "; ",
                       verifier::text_of(static_cast<verifier::SituationFact>(fact)));
  }
  return out;
}

}  // namespace

std::string situations_text(const verifier::SituationReport& report) {
  if (report.counts.empty()) return {};
  const std::vector<const verifier::SituationInfo*> missing = report.missing();
  std::string out = fmt::format("\nsituations: {} of {} that can come up with this driver\n",
                                report.reached(), report.possible());
  if (missing.empty()) return out;
  std::string line = "not reached:";
  for (const verifier::SituationInfo* info : missing) {
    if (line.size() + info->id.size() > kLineColumns) {
      out += line + "\n";
      line = " ";
    }
    line += fmt::format(" {}", info->id);
  }
  return out + line + "\n";
}

nlohmann::ordered_json situations_json(const verifier::SituationReport& report) {
  nlohmann::ordered_json out;
  out["possible"] = report.possible();
  out["reached"] = report.reached();
  out["counts"] = nlohmann::ordered_json::object();
  out["not_reached"] = nlohmann::ordered_json::object();
  for (const verifier::SituationCount& one : report.counts) {
    const std::string id(one.info->id);
    if (one.count != 0) {
      out["counts"][id] = one.count;
    } else {
      out["not_reached"][id] = one.why_not.empty() ? "no exercise reached it" : one.why_not;
    }
  }
  return out;
}

std::vector<verifier::JunitCase> situation_cases(const verifier::SituationReport& report) {
  using Outcome = verifier::JunitCase::Outcome;
  std::vector<verifier::JunitCase> cases;
  for (const verifier::SituationCount& one : report.counts) {
    const bool reached = one.count != 0;
    cases.push_back({.name = fmt::format("situation {}", one.info->id),
                     .outcome = reached ? Outcome::kPassed : Outcome::kSkipped,
                     .message = reached               ? counted(one.count, "time")
                                : one.why_not.empty() ? std::string("not reached")
                                                      : one.why_not,
                     .text = {}});
  }
  return cases;
}

int situations_command(const Reports& reports) {
  if (const int code = reports.check(); code != kExitDone) return code;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::string_view ddi;
  size_t width = 0;
  for (const verifier::SituationInfo& info : verifier::situation_catalogue())
    width = std::max(width, info.id.size());
  for (const verifier::SituationInfo& info : verifier::situation_catalogue()) {
    all.push_back({{"id", info.id},
                   {"ddi", info.ddi},
                   {"when", info.when},
                   {"rules", info.rules},
                   {"needs", needs_text(info.needs)}});
    if (reports.on_stdout()) continue;
    if (std::exchange(ddi, info.ddi) != info.ddi) fmt::print("{}\n", info.ddi);
    fmt::print("  {:<{}}  {} [{}]\n", info.id, width, info.when, info.rules);
    if (info.needs != 0) fmt::print("  {:<{}}  only if {}\n", "", width, needs_text(info.needs));
  }
  return write_output(reports.json, all.dump(1) + "\n") ? kExitDone : kExitNotWritten;
}

}  // namespace dxgkit::tool
