#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/check.h"
#include "tools/dxgkit/check/baseline.h"
#include "tools/dxgkit/check/check_options.h"
#include "tools/dxgkit/check/driver_facts.h"
#include "tools/dxgkit/check/hand_over.h"
#include "tools/dxgkit/check/summary.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/hardware_ids.h"
#include "tools/dxgkit/kernel_config.h"

namespace dxgkit::tool {
int check_command(const CheckOptions& given) {
  VerifyOptions options = given.verify;
  const std::expected<std::string, std::string> path = find_loadable_driver(options.driver);
  if (!path.has_value()) return bad_input(path.error());
  if (!options.device_given) {
    options.device = device_of_driver(*path);
    options.device_given = true;
  }
  if (!given.mode_given)
    options.mode = check_mode(options.device, Mode::kSim) ? Mode::kSim : Mode::kOs;
  const Reports reports = std::exchange(options.reports, {});
  if (const int code = reports.check(); code != kExitDone) return code;
  if (const int code = check_outputs({&given.html, &given.write_baseline}); code != kExitDone)
    return code;
  std::optional<check::Baseline> known;
  if (given.baseline.has_value()) {
    const std::expected<std::string, std::string> text = read_file(*given.baseline);
    if (!text.has_value()) return bad_input(text.error());
    std::expected<check::Baseline, std::string> parsed = check::Baseline::parse(*text);
    if (!parsed.has_value())
      return bad_input(fmt::format("{}: {}", *given.baseline, parsed.error()));
    known = std::move(*parsed);
  }
  const std::expected<nt::KernelConfig, std::string> config =
      read_kernel_config(options.registry, options.special_pool, options.trace_imports);
  if (!config.has_value()) return bad_input(config.error());

  check::DriverFacts facts = check::facts_of(*path, *config);
  const check::SharedText handed;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nowhere(std::fopen("/dev/null", "w"),
                                                                std::fclose);
  DXGKIT_CHECK(nowhere != nullptr);
  options.hand_over = HandOver{.text = nowhere.get(), .report_fd = handed.fd()};
  const int code = verify_command(options);
  std::optional<verify::VerifyReport> report = check::report_of(handed.read());
  if (!report.has_value()) return code;  // stderr says why
  report->waivers = options.waivers.list;

  const check::Summary summary =
      check::summarize(std::move(*report), std::move(facts), options.client.has_value(),
                       known.has_value() ? &*known : nullptr, given.baseline);
  bool written = true;
  if (!reports.on_stdout()) say(stdout, "{}", to_text(summary));
  if (reports.on_stdout()) say(stderr, "{}\n", verdict_of(summary));
  written = write_output(reports.json, to_json_text(summary)) && written;
  written = write_output(reports.sarif, to_sarif_text(summary)) && written;
  if (reports.junit.has_value()) {
    const verify::VerifyReport& all = summary.report;
    written = write_output(reports.junit,
                           to_junit_text(known.has_value() ? only_new(all, *known) : all)) &&
              written;
  }
  written = write_output(given.html, to_html(summary)) && written;
  if (given.write_baseline.has_value()) {
    if (!summary.report.interrupted.empty()) {
      say(stderr, "dxgkit: {}: not written, because the run was interrupted\n",
          *given.write_baseline);
    } else {
      const std::string text = check::Baseline::of(summary.report).to_json_text();
      written = write_output(given.write_baseline, text) && written;
    }
  }
  return written ? summary.exit_code : kExitNotWritten;
}

}  // namespace dxgkit::tool
