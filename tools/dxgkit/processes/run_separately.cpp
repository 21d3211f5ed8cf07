#include "tools/dxgkit/processes/run_separately.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/spelling.h"
#include "runtime/interrupt.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/processes/separate_job.h"
#include "tools/dxgkit/summary.h"

namespace dxgkit::tool {
namespace {

nlohmann::ordered_json separate_json(const SessionConfig& config, const Plan& plan,
                                     const SeparateOutcome& outcome, const std::string& result) {
  nlohmann::ordered_json json;
  json["result"] = result;
  json["driver"] = config.driver_name;
  if (config.model.has_value()) json["model"] = model_name(*config.model);
  json["clients"] = "processes";
  json["width"] = plan.width;
  json["height"] = plan.height;
  json["tiles"] = plan.tiles.size();
  json["working_set_bytes"] = plan.working_set_bytes;
  json["vram_bytes"] = config.vram_bytes;
  json["requests"] = outcome.figures.requests;
  json["bytes_in"] = outcome.figures.bytes_in;
  json["bytes_out"] = outcome.figures.bytes_out;
  json["packets_completed"] = outcome.figures.packets;
  nlohmann::ordered_json stages;
  for (size_t stage = 0; stage < kStages; ++stage)
    stages[kStageNames[stage]] = outcome.job.stage_ns[stage];
  json["stage_ns"] = stages;
  json["total_ns"] = outcome.job.total_ns;
  json["findings"] = outcome.findings;
  return json;
}

std::string separate_text(const SessionConfig& config, const Plan& plan,
                          const SeparateOutcome& outcome, const std::string& result) {
  std::string text;
  const auto row = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<28} {}\n", name, value);
  };
  const auto ms = [](runtime::DurationNs ns) {
    return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
  };
  text += "Job\n";
  row("driver", config.driver_name);
  row("clients", fmt::format("{}, and one with the kernel", counted(kProcesses, "process")));
  row("picture", fmt::format("{} x {}", plan.width, plan.height));
  row("working set", fmt::format("{} bytes", plan.working_set_bytes));
  row("video memory", fmt::format("{} bytes", config.vram_bytes));
  text += "Between the processes\n";
  row("calls", std::to_string(outcome.figures.requests));
  row("bytes of calls and answers",
      fmt::format("{} and {}", outcome.figures.bytes_in, outcome.figures.bytes_out));
  row("packets completed", std::to_string(outcome.figures.packets));
  text += "Time\n";
  for (size_t stage = 0; stage < kStages; ++stage)
    row(kStageNames[stage], ms(outcome.job.stage_ns[stage]));
  row("all", ms(outcome.job.total_ns));
  return text + fmt::format("result: {}\n", result);
}

}  // namespace

std::string only_with_threads(const RunOptions& options) {
  const std::pair<bool, const char*> rows[] = {
      {options.client_api == ClientApi::kUmd, "--client-api umd"},
      {options.mode == Mode::kSim, "--mode sim"},
      {options.seeds.has_value(), "--seeds"},
      {options.trace.has_value(), "--trace"},
      {options.report.has_value(), "--report"},
      {options.registry.has_value(), "--registry"},
      {options.power_plan.has_value(), "--power-plan"},
      {options.hang.has_value(), "--hang"},
      {options.verifier.has_value(), "--verifier"},
      {options.scanout.has_value(), "--scanout"},
      {options.trace_imports, "--trace-imports"},
      {options.in_process, "--in-process"},
      {!options.waivers.options.empty(), "--waive"},
      {options.machine.processors != 1, "--processors"},
      {options.devices.size() > 1, "a second --device"},
  };
  for (const auto& [given, name] : rows) {
    if (given) return name;
  }
  return {};
}

int run_separately(const RunOptions& options, const SessionConfig& config, const Plan& plan,
                   const Picture& source, uint64_t page_bytes) {
  SeparateConfig wanted;
  std::error_code error;
  wanted.driver_path = std::filesystem::absolute(config.driver_path, error).string();
  wanted.device = config.devices.front();
  wanted.vram_bytes = config.vram_bytes;
  wanted.memory_bytes = config.memory_bytes;
  wanted.page_bytes = page_bytes;
  wanted.special_pool = options.special_pool;
  if (config.model.has_value()) {
    const nlohmann::json registry{
        {"service", {{"MemoryModel", static_cast<uint32_t>(*config.model)}}}};
    wanted.registry = registry.dump();
  }
  const SeparateOutcome outcome = run_separate_job(wanted, plan, source, {});
  if (runtime::interrupted()) return kExitInterrupted;
  for (const std::string& finding : outcome.findings) say(stderr, "{}\n", finding);
  std::string result = outcome.job.error;
  if (!outcome.server_end.empty())
    result = fmt::format("{}{}the kernel's process: {}", result, result.empty() ? "" : "; ",
                         outcome.server_end);
  int code = kExitFailed;
  if (result.empty()) {
    result = compare(plan, outcome.job, reference_result(source));
    if (result == "identical to CPU reference" &&
        std::ranges::none_of(outcome.findings, told_as_mistake))
      code = kExitDone;
    if (options.output.has_value()) {
      if (const auto written = write_png(*options.output, outcome.job.picture); !written)
        code = not_written(written.error());
    }
  } else {
    say(stderr, "dxgkit: {}\n", result);
  }
  const std::string json = separate_json(config, plan, outcome, result)
                               .dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  if (!write_output(options.reports.json, json + "\n")) code = kExitNotWritten;
  if (!options.reports.on_stdout()) say(stdout, "{}", separate_text(config, plan, outcome, result));
  return code;
}

}  // namespace dxgkit::tool
