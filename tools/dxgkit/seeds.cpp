#include "tools/dxgkit/seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/spelling.h"
#include "runtime/interrupt.h"
#include "sim/process_pool.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/last_words.h"
#include "tools/dxgkit/no_client.h"
#include "tools/dxgkit/settings/settings_arguments.h"
#include "tools/dxgkit/summary.h"
#include "tools/dxgkit/waivers.h"

namespace dxgkit::tool {
namespace {

std::string replay_command(const RunOptions& options, const Plan& plan, uint64_t seed) {
  std::string command = fmt::format("dxgkit run --mode sim --seed {}", seed);
  if (options.driver != "softgpu") command += " --driver " + shell_quoted(options.driver);
  if (options.model.has_value()) command += " --model " + model_name(*options.model);
  if (options.client_api == ClientApi::kUmd) command += " --client-api umd";
  for (const DeviceChoice& device : options.devices) command += " --device " + device.text;
  command += options.machine.as_options();
  if (options.registry.has_value() && !is_table_of_settings(*options.registry))
    command += " --registry " + shell_quoted(*options.registry);
  if (options.special_pool) command += " --special-pool";
  if (options.verifier.has_value()) command += " --verifier " + options.verifier->text;
  if (options.input.has_value()) {
    command += " --input " + shell_quoted(*options.input);
  } else {
    command += fmt::format(" --size {}x{}", plan.width, plan.height);
  }
  command += options.waivers.options;
  if (options.power_plan.has_value())
    command += " --power-plan " + shell_quoted(*options.power_plan);
  if (options.vram_bytes.has_value()) command += fmt::format(" --vram {}", *options.vram_bytes);
  return command;
}

/// The mistakes, a line each.
std::string mistakes(const std::vector<verifier::Finding>& findings) {
  std::string text;
  for (const verifier::Finding& finding : findings) {
    if (verifier::is_mistake(finding))
      text += fmt::format("\n  {} in {}: {}", finding.rule, finding.ddi, finding.actual);
  }
  return text;
}

/// Of a seed in which the driver got no work, as in any other.
constexpr std::string_view kNoWork = "no work";

/// One seed. Empty if it passed, otherwise the reason.
std::string run_seed(SessionConfig config, uint64_t seed, const Plan& plan, const Picture& source,
                     const Picture& expected) {
  config.seed = seed;
  const SessionOutcome outcome = run_session(config, plan, source, nullptr);
  for (const PowerDone& done : outcome.power) {
    if (!is_success(done.status))
      return fmt::format("{} answered {}", power_step_name(done.planned.step),
                         status_name(done.status));
  }
  const bool showed = outcome.kind == SessionOutcome::Kind::kNoClient && outcome.message.empty();
  const bool removed = outcome.removed && says_removed(outcome.message);
  if (outcome.kind != SessionOutcome::Kind::kRan && !removed && !showed) {
    // A finding of the start has the rest.
    std::string why = outcome.message + mistakes(outcome.findings);
    const auto add = [&](const std::vector<std::string>& lines) {
      for (const std::string& line : lines) why += "\n  " + line;
    };
    if (!outcome.findings.empty()) add(outcome.findings.back().before);
    add(outcome.before);
    return why;
  }
  if (!outcome.adapters.empty()) {
    const std::vector<std::string> results = compare_adapters(plan, outcome, expected);
    if (!all_went_well(outcome, results)) return "result: " + sum_up(outcome, results);
  }
  const bool compared = removed || showed || !outcome.adapters.empty();
  const std::string result = compared ? "identical" : compare(plan, outcome.job, expected);
  if (!result.starts_with("identical")) return "result: " + result;
  for (const verifier::Finding& finding : outcome.findings) {
    if (!verifier::is_mistake(finding)) continue;
    return fmt::format("finding {} in {}: {}", finding.rule, finding.ddi, finding.actual);
  }
  if (none_got_work(outcome)) return std::string(kNoWork);
  return {};
}

}  // namespace

int run_seeds(const RunOptions& options, const SessionConfig& config, const Plan& plan,
              const Picture& source) {
  const SeedRange range = *options.seeds;
  const uint64_t count = range.last - range.first + 1;
  const std::unique_ptr<runtime::Runtime> clock = runtime::make_os_runtime();
  const runtime::TimeNs began = clock->now();
  const Picture expected = reference_result(source);

  uint64_t passed = 0, failed = 0;
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  const auto report = [&](uint64_t index, std::string_view why) {
    const uint64_t seed = range.first + index;
    ++failed;
    failures.push_back(
        {{"seed", seed}, {"text", why}, {"replay", replay_command(options, plan, seed)}});
    fmt::print(stderr, "seed {} failed: {}\n  replay: {}\n", seed, why,
               replay_command(options, plan, seed));
    return true;
  };
  sim::PoolJob job;
  job.count = count;
  job.workers = sim::workers_for(0);
  const LastWords words;
  SessionConfig telling = config;
  telling.on_finding = [](const verifier::Finding& finding) {
    LastWords::keep({.key = {}, .finding = finding});
  };
  job.work = [&](uint64_t index) {
    words.listen(index, 0);
    return run_seed(telling, range.first + index, plan, source, expected);
  };
  bool no_work = false;
  job.done = [&](uint64_t index, std::string_view why) {
    no_work = no_work || why == kNoWork;
    if (no_work) return false;
    if (!why.empty()) return report(index, why);
    ++passed;
    return true;
  };
  job.died = [&](uint64_t index, std::string_view how) {
    std::string text = fmt::format("{}\n", how);
    for (const Problem& problem : words.kept(index)) text += verifier::to_text(problem.finding);
    return report(index, text + verifier::to_text(words.of(index, "The run", how).finding));
  };
  const bool forked = sim::run_pool(job);
  if (!forked) fmt::print(stderr, "dxgkit: a child process could not be started\n");
  if (no_work) return bad_input(no_work_line(options.driver));
  const bool interrupted = runtime::interrupted();
  const std::string how_far =
      interrupted ? fmt::format("after {} of {}", passed + failed, counted(count, "seed")) : "";
  std::FILE* const out = options.reports.text_stream();
  if (interrupted) fmt::print(out, "interrupted {}\n", how_far);
  fmt::print(out, "{}", waivers_text(options.waivers.list));
  fmt::print(out, "seeds {}..{}: {} passed, {} failed ({:.1f} s)\n", range.first, range.last,
             passed, failed, static_cast<double>(clock->now() - began) / 1e9);
  const nlohmann::ordered_json all{{"first_seed", range.first},
                                   {"last_seed", range.last},
                                   {"interrupted", how_far},
                                   {"passed", passed},
                                   {"failed", failed},
                                   {"failures", failures},
                                   {"waivers", waivers_json(options.waivers.list)}};
  const std::string json = all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  if (!write_output(options.reports.json, json + "\n")) return kExitNotWritten;
  if (interrupted) return kExitInterrupted;
  return passed == count ? kExitDone : kExitFailed;
}

}  // namespace dxgkit::tool
