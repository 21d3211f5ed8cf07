#include <fmt/format.h>

#include <csignal>
#include <cstdio>

#include "tools/dxgkit/child.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/doctor/diagnosis.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/kernel_config.h"
#include "tools/dxgkit/last_words.h"

namespace dxgkit::tool {
namespace {

/// DriverEntry fills a table, which never takes this long.
constexpr int kEntryMsMax = 30'000;

}  // namespace

DoctorEnd examine(const std::string& path, const nt::KernelConfig& config,
                  const std::function<int(const Diagnosis&)>& tell) {
  LastWords words;
  const auto cut_short = [&](const std::string& how) {
    const Problem problem = words.of(0, fmt::format("dxgkit: {}: The driver", path), how);
    return DoctorEnd{kExitFailed, problem.finding.actual};
  };
  const ChildEnd end = run_in_child(
      [&](Heartbeat&) {
        words.listen(0, 0);
        const std::expected<Diagnosis, std::string> diagnosis = diagnose(path, config);
        if (!diagnosis.has_value()) return bad_input(diagnosis.error());
        return tell(*diagnosis);
      },
      kEntryMsMax);
  switch (end.kind) {
    case ChildEnd::Kind::kExited:
      return {end.code, {}};
    case ChildEnd::Kind::kHung:
      return {kExitFailed, fmt::format("dxgkit: {}: DriverEntry did not return within {} s", path,
                                       kEntryMsMax / 1000)};
    case ChildEnd::Kind::kKilled:
      if (end.code == SIGPIPE) return {kExitNotWritten, {}};  // the output's reader has ended
      return cut_short(fmt::format("it ended by signal {}", end.code));
    case ChildEnd::Kind::kLeft:
      return cut_short(fmt::format("it ended itself with exit code {}", end.code));
    case ChildEnd::Kind::kInterrupted:  // doctor does not catch interrupts
      return {kExitInterrupted, {}};
    case ChildEnd::Kind::kNotStarted:
      return {kExitBadInput, "dxgkit: a child process could not be started"};
  }
  return {kExitFailed, {}};
}

int doctor_command(const std::string& driver, const std::optional<std::string>& registry,
                   const Reports& reports) {
  const std::expected<std::string, std::string> path = find_driver(driver);
  if (!path.has_value()) return bad_input(path.error());
  if (const int code = reports.check(); code != kExitDone) return code;
  const std::expected<nt::KernelConfig, std::string> config =
      read_kernel_config(registry, /*special_pool=*/false, /*trace_imports=*/false);
  if (!config.has_value()) return bad_input(config.error());
  const DoctorEnd end = examine(*path, *config, [&](const Diagnosis& diagnosis) {
    const std::string json =
        to_json(diagnosis).dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (!write_output(reports.json, json + "\n")) return kExitNotWritten;
    if (!reports.on_stdout()) say(stdout, "{}", to_text(diagnosis));
    // As every other command says it.
    if (diagnosis.unloadable) return bad_input(fmt::format("{}: {}", *path, diagnosis.refusal));
    return diagnosis.can_start() ? kExitDone : kExitFailed;
  });
  if (!end.what.empty()) fmt::print(stderr, "{}\n", end.what);
  return end.code;
}

}  // namespace dxgkit::tool
