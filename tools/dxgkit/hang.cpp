#include "tools/dxgkit/hang.h"

#include <fmt/format.h>

#include <algorithm>

#include "devices/softgpu/softgpu_hw.h"
#include "tools/dxgkit/summary.h"

namespace dxgkit::tool {
namespace {

std::string at(int64_t ns) { return fmt::format("at {:.3f} ms", static_cast<double>(ns) / 1e6); }

std::string engine(uint32_t node) {
  if (node == SGPU_NODE_3D) return "3d";
  return node == SGPU_NODE_COPY ? "copy" : fmt::format("node {}", node);
}

bool lost_its_device(const JobResult& job) { return job.error.contains("STATUS_DEVICE_REMOVED"); }

bool is_recovery(const dxgk::TimeoutReport& report) {
  return report.code == 0x141 || report.code == 0x117;
}

}  // namespace

std::string describe_hang(const Plan& plan, const SessionOutcome& outcome,
                          const Picture& expected) {
  const auto first = std::ranges::find_if(outcome.timeouts, is_recovery);
  std::string text = "the engine never reached that packet";
  if (first != outcome.timeouts.end()) {
    text = fmt::format("engine {} hung, and {} {}", engine(first->node),
                       first->code == 0x141 ? "it" : "the adapter",
                       first->recovered ? "was reset" : "could not be reset");
  }
  for (size_t i = 0; i < outcome.whole_jobs.size(); ++i) {
    const JobResult& job = outcome.whole_jobs[i];
    text += "; " + (job.error.empty()
                        ? fmt::format("client {}: {}", i + 1, compare(plan, job, expected))
                    : lost_its_device(job) ? fmt::format("client {} lost its device", i + 1)
                                           : job.error);
  }
  return text;
}

bool hang_went_well(const Plan& plan, const SessionOutcome& outcome, const Picture& expected) {
  if (std::ranges::none_of(outcome.timeouts, is_recovery)) return false;
  if (!std::ranges::all_of(outcome.timeouts, &dxgk::TimeoutReport::recovered)) return false;
  return std::ranges::all_of(outcome.whole_jobs, [&](const JobResult& job) {
    if (!job.error.empty()) return lost_its_device(job);
    return job.picture == expected && compare(plan, job, expected).starts_with("identical");
  });
}

std::vector<std::pair<std::string, std::string>> hang_rows(const dxgk::TimeoutReport& report) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (report.code == 0x142) return {{at(report.detected_ns), report.cause}};
  rows.emplace_back("engine", engine(report.node));
  if (report.packet != 0) {
    rows.emplace_back(
        "packet",
        fmt::format("number {} of the engine, SubmissionFenceId {}, {}", report.packet,
                    report.fence, report.process.empty() ? "paging" : "of " + report.process));
  }
  if (report.preemption != 0) {
    rows.emplace_back(
        at(report.asked_ns),
        fmt::format("DxgkDdiPreemptCommand with PreemptionFenceId {}: no answer came.",
                    report.preemption));
  }
  for (const dxgk::TimeoutStep& step : report.steps) rows.emplace_back(at(step.at_ns), step.text);
  rows.emplace_back(at(report.ended_ns), report.recovered ? "Recovered." : "Not recovered.");
  for (const dxgk::TimeoutDevice& device : report.devices) {
    rows.emplace_back(fmt::format("{}, device 0x{:X}", device.process, device.handle),
                      fmt::format("{}, {}", device.hurt ? "hurt" : "not hurt", device.state));
  }
  return rows;
}

nlohmann::ordered_json hang_json(const std::vector<dxgk::TimeoutReport>& reports) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const dxgk::TimeoutReport& report : reports) {
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    for (const dxgk::TimeoutStep& step : report.steps)
      steps.push_back({{"at_ns", step.at_ns}, {"text", step.text}});
    nlohmann::ordered_json devices = nlohmann::ordered_json::array();
    for (const dxgk::TimeoutDevice& device : report.devices) {
      devices.push_back({{"process", device.process},
                         {"handle", device.handle},
                         {"hurt", device.hurt},
                         {"state", device.state}});
    }
    all.push_back({{"event", fmt::format("0x{:X}", report.code)},
                   {"engine", engine(report.node)},
                   {"packet", report.packet},
                   {"fence", report.fence},
                   {"preemption", report.preemption},
                   {"process", report.process},
                   {"cause", report.cause},
                   {"asked_ns", report.asked_ns},
                   {"detected_ns", report.detected_ns},
                   {"ended_ns", report.ended_ns},
                   {"recovered", report.recovered},
                   {"steps", steps},
                   {"devices", devices}});
  }
  return all;
}

}  // namespace dxgkit::tool
