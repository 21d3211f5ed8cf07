// dxgkit: runs display miniports in an ordinary process, on its own version of the Windows graphics
// kernel.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "dxgkit/version.h"
#include "tools/dxgkit/attach/attach.h"
#include "tools/dxgkit/campaign/campaign_options.h"
#include "tools/dxgkit/check/check_options.h"
#include "tools/dxgkit/command_line.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/fuzz/fuzz_options.h"
#include "tools/dxgkit/gl/gl_options.h"
#include "tools/dxgkit/manual/examples.h"
#include "tools/dxgkit/manual/manual.h"
#include "tools/dxgkit/record/record_commands.h"
#include "tools/dxgkit/run_client.h"
#include "tools/dxgkit/serve/serve_options.h"
#include "tools/dxgkit/settings/settings_arguments.h"
#include "tools/dxgkit/sim/arguments.h"
#include "tools/dxgkit/view/view_options.h"

namespace {

using dxgkit::tool::add_machine;
using dxgkit::tool::add_reports;
using dxgkit::tool::EvictBenchOptions;
using dxgkit::tool::Reports;
using dxgkit::tool::RunOptions;
using dxgkit::tool::say;
using dxgkit::tool::VaOptions;
using dxgkit::tool::VerifyOptions;

/// Turns a parser of ours into a check CLI11 runs while it reads the command line.
template <typename Parse, typename Store>
CLI::callback_t reader(Parse parse, Store store) {
  return [=](const CLI::results_t& texts) {
    auto value = parse(texts.back());
    if (!value.has_value()) throw CLI::ValidationError(value.error());
    store(*value);
    return true;
  };
}

void add_run(CLI::App& app, RunOptions& options) {
  CLI::App* run = app.add_subcommand(
      "run", "run the picture job on a driver and compare it with a CPU reference");
  run->add_option("--driver", options.driver,
                  "softgpu, softgpu_wddm2, or the path of a driver (.sys, or .so: its ELF form)")
      ->capture_default_str();
  run->add_option("--model",
                  reader(dxgkit::tool::parse_model,
                         [&options](dxgkit::tool::MemoryModel model) { options.model = model; }),
                  "patch: the kernel puts addresses into commands; gpuva: GPU virtual addresses, "
                  "with page tables of two levels (:1), four (:2, default), or 64 KiB pages (:3)")
      ->expected(1)
      ->type_name("patch|gpuva[:N]");
  run->add_option("--client-api",
                  reader(dxgkit::tool::parse_client_api,
                         [&options](dxgkit::tool::ClientApi api) { options.client_api = api; }),
                  "how the job's clients reach the kernel: d3dkmt: D3DKMT functions; umd: the "
                  "callbacks that a user-mode driver gets from the Direct3D runtime (d3dkmt)")
      ->expected(1)
      ->type_name("d3dkmt|umd");
  run->add_option("--clients",
                  reader(dxgkit::tool::parse_client_place,
                         [&options](dxgkit::tool::ClientPlace place) { options.clients = place; }),
                  "where the job's clients live: threads: in this process; processes: programs of "
                  "their own, with the kernel in a third process, as by `dxgkit serve` (threads)")
      ->expected(1)
      ->type_name("threads|processes");
  CLI::Option* input =
      run->add_option("--input", options.input, "PNG to work on; without it the tool draws one");
  run->add_option("--size",
                  reader(dxgkit::tool::parse_size,
                         [&options](auto size) {
                           options.width = size.first;
                           options.height = size.second;
                           options.size_given = true;
                         }),
                  "WIDTHxHEIGHT of the drawn picture (4096x4096)")
      ->excludes(input)
      ->expected(1)
      ->type_name("WxH");
  run->add_option("--vram",
                  reader(dxgkit::tool::parse_bytes,
                         [&options](uint64_t bytes) { options.vram_bytes = bytes; }),
                  "bytes of video memory, like 16M (a quarter of the working set)")
      ->expected(1)
      ->type_name("BYTES");
  run->add_option("--mode",
                  reader(dxgkit::tool::parse_mode,
                         [&options](dxgkit::tool::Mode mode) { options.mode = mode; }),
                  "os: real threads; sim: one seed decides every interleaving (os)")
      ->expected(1)
      ->type_name("os|sim");
  CLI::Option* seed = run->add_option("--seed",
                                      reader(dxgkit::tool::parse_seed,
                                             [&options](uint64_t value) { options.seed = value; }),
                                      "seed of the run (1)")
                          ->expected(1)
                          ->type_name("N");
  run->add_option(
         "--seeds",
         reader(dxgkit::tool::parse_seeds, [&options](auto seeds) { options.seeds = seeds; }),
         "FIRST..LAST: a small job in sim mode for each seed; prints one line")
      ->excludes(seed)
      ->expected(1)
      ->type_name("A..B");
  run->add_option("--device", CLI::callback_t([&options](const CLI::results_t& texts) {
                    for (const std::string& text : texts) {
                      auto device = dxgkit::tool::parse_device(text);
                      if (!device.has_value()) throw CLI::ValidationError(device.error());
                      options.devices.push_back(std::move(*device));
                    }
                    return true;
                  }),
                  "what the driver finds, as `dxgkit devices` lists it: NAME[,OPTION=VALUE...], or "
                  "a plug-in, "
                  "FILE.so (softgpu); may be repeated: an adapter each, all in one machine")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("DEVICE");
  add_machine(run, options.machine, "memory of the machine, like 1G (what the job needs)");
  run->add_option("--registry", options.registry, "values the driver reads (TOML or JSON)");
  run->add_flag("--special-pool", options.special_pool,
                "put every pool block at the end of a page: overruns fault where they happen");
  run->add_flag("--trace-imports", options.trace_imports,
                "every call of an import is in the trace");
  run->add_option(
         "--hang",
         reader(dxgkit::tool::parse_hang,
                [&options](const dxgkit::tool::HangChoice& hang) { options.hang = hang; }),
         "softgpu's engine (3d, copy) stops dead at that packet; two clients draw the whole "
         "picture each, and the kernel recovers")
      ->expected(1)
      ->type_name("ENGINE:PACKET");
  run->add_option(
         "--verifier",
         reader(dxgkit::tool::parse_switches,
                [&options](const dxgkit::tool::SwitchChoice& on) { options.verifier = on; }),
         "rare paths taken always: AlwaysRepatch, FailProbeAndLock, AlwaysDiscardOffer, "
         "NeverDiscardOffer, ForceComplexLock, NeverPrepatch, TakeSplitPoint, "
         "FailAcquireSwizzlingRange, NoDemotion, FailDefragPass; all; or a number")
      ->expected(1)
      ->type_name("FLAGS");
  run->add_option("--power-plan", options.power_plan,
                  "'at PACKETS STEP; ...' or the path of a file with it: standby, hibernate, "
                  "hybrid, d1, d2, d3, remove");
  run->add_option("--scanout", options.scanout,
                  "write what the screen shows (PNG), or all it showed into a folder; softgpu's "
                  "clients then flip to their result");
  run->add_option("--trace", options.trace, "write a Perfetto trace; to FILE.txt: text");
  run->add_option("--report", options.report, "write the report page (HTML)");
  run->add_option("--output", options.output, "write the resulting picture (PNG)");
  dxgkit::tool::add_waivers(run, options.waivers);
  run->add_flag("--in-process", options.in_process,
                "run the driver in this process, for a debugger");
  add_reports(run, options.reports, "the summary as JSON");
}

constexpr const char* kVerifyCodes =
    "Exit codes: 0 clean, 1 findings, 2 bad input, 3 Windows would have stopped, 4 the driver "
    "did not come back, 5 an output could not be written, 130 interrupted.";

/// The driver that is exercised, and its machine: verify and check. Returns DRIVER.
CLI::Option* add_exercised(CLI::App* verify, VerifyOptions& options) {
  CLI::Option* driver = verify->add_option("DRIVER", options.driver,
                                           "softgpu, or the path of a driver (.sys or .so)");
  verify
      ->add_option(
          "--device",
          reader(dxgkit::tool::parse_device,
                 [&options](const dxgkit::tool::DeviceChoice& device) {
                   options.device = device;
                   options.device_given = true;
                 }),
          "what the driver finds, as `dxgkit devices` lists it: NAME[,OPTION=VALUE...], or a "
          "plug-in, FILE.so (softgpu)")
      ->expected(1)
      ->type_name("DEVICE");
  add_machine(verify, options.machine, "memory of the machine, like 1G (512M)");
  verify->add_option("--registry", options.registry, "values the driver reads (TOML or JSON)");
  verify->add_flag("--special-pool", options.special_pool,
                   "put every pool block at the end of a page: overruns fault where they happen");
  verify->add_flag("--trace-imports", options.trace_imports,
                   "every call of an import is in the trace");
  verify->add_option("--client", options.client,
                     "plug-in that knows the driver's private data (dxgkit/client_plugin.h)");
  verify
      ->add_option(
          "--seed",
          reader(dxgkit::tool::parse_seed, [&options](uint64_t value) { options.seed = value; }),
          "seed of the run (1)")
      ->expected(1)
      ->type_name("N");
  verify->add_option("--step", options.only, "only this step, with what it needs; may be repeated");
  dxgkit::tool::add_waivers(verify, options.waivers);
  verify
      ->add_option(
          "--ddi-timeout", options.ddi_timeout_s,
          "seconds without progress after which the driver counts as hung (20, and with real "
          "threads three times TdrDelay more, so that a timeout is told first)")
      ->check(CLI::Range(1U, 3600U));
  return driver;
}

void add_check(CLI::App& app, dxgkit::tool::CheckOptions& options) {
  CLI::App* check = app.add_subcommand(
      "check", "doctor and verify, and one page: what works, what is wrong, what was not reached");
  check->footer(std::string(kVerifyCodes) + " With --baseline only what is new counts.");
  add_exercised(check, options.verify)->required();
  check
      ->add_option("--mode",
                   reader(dxgkit::tool::parse_mode,
                          [&options](dxgkit::tool::Mode mode) {
                            options.verify.mode = mode;
                            options.mode_given = true;
                          }),
                   "os: real threads; sim: one seed decides every interleaving (sim, where the "
                   "device can be simulated)")
      ->expected(1)
      ->type_name("os|sim");
  CLI::Option* seeds =
      check
          ->add_option("--seeds",
                       reader(dxgkit::tool::parse_seeds,
                              [&options](auto range) { options.verify.seeds = range; }),
                       "run the steps in simulation once for each seed")
          ->expected(1)
          ->type_name("FIRST..LAST");
  check
      ->add_flag("--thorough", options.verify.thorough,
                 "seed after seed, until each situation that can come up came up three times, or "
                 "until more runs bring nothing new")
      ->excludes(seeds);
  check
      ->add_option("--jobs", options.verify.jobs,
                   "processes at once, for --seeds and --thorough (as many as there are "
                   "processors)")
      ->check(CLI::Range(1U, 64U));
  add_reports(check, options.verify.reports, "the summary as JSON", "the findings as SARIF 2.1.0",
              "the steps as JUnit XML");
  check->add_option("--html", options.html, "write the summary as a page")->type_name("FILE");
  check
      ->add_option("--baseline", options.baseline,
                   "findings that are known: only others count. --write-baseline writes the file")
      ->type_name("FILE");
  check
      ->add_option("--write-baseline", options.write_baseline,
                   "write what is wrong now, to be kept with the driver")
      ->type_name("FILE");
}

void add_verify(CLI::App& app, VerifyOptions& options) {
  CLI::App* verify = app.add_subcommand(
      "verify", "start a driver, exercise what its kind must support, unload it");
  verify->footer(kVerifyCodes);
  CLI::Option* driver = add_exercised(verify, options);
  verify
      ->add_option("--mode",
                   reader(dxgkit::tool::parse_mode,
                          [&options](dxgkit::tool::Mode mode) { options.mode = mode; }),
                   "os: real threads; sim: one seed decides every interleaving (os)")
      ->expected(1)
      ->type_name("os|sim");
  verify->add_flag("--until-finding", options.until_finding,
                   "leave out the steps behind the first one that finds a mistake");
  CLI::Option* list = verify->add_flag("--list-steps", options.list_steps, "name the steps");
  add_reports(verify, options.reports, "the report as JSON", "the findings as SARIF 2.1.0",
              "the steps as JUnit XML");
  CLI::Option* trace =
      verify->add_option("--trace", options.trace, "write a Perfetto trace; to FILE.txt: text");
  CLI::Option* in_process = verify->add_flag("--in-process", options.in_process,
                                             "run the driver in this process, for a debugger");
  CLI::Option* mutate = verify->add_flag(
      "--mutate", options.mutate,
      "again and again in simulation with one thing wrong each time: a callback that fails, no "
      "memory, a device without resources, lost interrupts; how the driver takes it");
  mutate->excludes(in_process, trace);
  verify
      ->add_option("--mutate-calls", options.mutate_calls,
                   "of each callback and routine, from the first on")
      ->needs(mutate)
      ->check(CLI::Range(1U, 10'000U))
      ->capture_default_str();
  CLI::Option* seeds = verify
                           ->add_option("--seeds",
                                        reader(dxgkit::tool::parse_seeds,
                                               [&options](auto range) { options.seeds = range; }),
                                        "run the steps in simulation once for each seed")
                           ->expected(1)
                           ->type_name("FIRST..LAST")
                           ->excludes(in_process, trace, mutate);
  CLI::Option* thorough = verify->add_flag(
      "--thorough", options.thorough,
      "run the steps in simulation with one seed after the other, until each situation that can "
      "come up came up three times, or until more runs bring nothing new");
  thorough->excludes(in_process, trace, mutate, seeds);
  CLI::Option* blind_spots = verify->add_flag(
      "--blind-spots", options.blind_spots,
      "again and again in simulation, each time with a driver that does nothing in one of the "
      "situations that come up; which of them no step notices");
  blind_spots->excludes(in_process, trace, mutate, seeds, thorough);
  verify
      ->add_option("--situation", options.situation,
                   "only situations whose names begin so; dxgkit situations lists them")
      ->needs(blind_spots);
  verify
      ->add_option(
          "--jobs", options.jobs,
          "processes at once, for --mutate, --seeds, --thorough and --blind-spots (as many as "
          "there are processors)")
      ->check(CLI::Range(1U, 64U));
  verify->callback([driver, list] {
    if (driver->count() == 0 && list->count() == 0)
      throw CLI::ValidationError("verify: which driver? DRIVER is required");
  });
}

void add_evict_bench(CLI::App& app, EvictBenchOptions& options) {
  CLI::App* bench = app.add_subcommand(
      "evict-bench", "page-in bytes of the eviction policy over LRU and a lower bound, on a trace");
  CLI::Option* trace =
      bench->add_option("--trace", options.trace, "text: 'alloc ID BYTES', 'submit PROCESS ID...'");
  bench
      ->add_option("--oversubscription", options.oversubscription,
                   "all allocations together are so many times what fits")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  add_reports(bench, options.reports, "the numbers as JSON");
  CLI::Option* generate =
      bench->add_option("--generate", options.generate, "print a trace: frame, training, zipf, ...")
          ->excludes(trace);
  bench
      ->add_option(
          "--seed",
          reader(dxgkit::tool::parse_seed, [&options](uint64_t value) { options.seed = value; }),
          "of the trace that is printed (1)")
      ->expected(1)
      ->type_name("N");
  bench->footer(
      "bound: every submission needs all it names in memory at once; any byte may leave alone, "
      "those used again last leave first (Belady). First uses do not count. See "
      "docs/evict-bench.md.");
  bench->callback([trace, generate] {
    if (trace->count() == 0 && generate->count() == 0)
      throw CLI::ValidationError("evict-bench: --trace FILE or --generate FAMILY is required");
  });
}

void add_view(CLI::App& app, dxgkit::tool::ViewOptions& options) {
  CLI::App* view = app.add_subcommand(
      "view", "the page of a recorded run: what happened, and why each wait and refusal was");
  view->add_option("RUN", options.run,
                   "a trace as text: what run, verify, gl and replay write to --trace FILE.txt and "
                   "serve into --trace FOLDER; or a folder with one")
      ->required();
  view->add_option("--compare", options.compare,
                   "a second run beside it, with the first difference")
      ->type_name("RUN");
  CLI::Option* const output =
      view->add_option("--output", options.output, "where the page goes (beside the trace, .html)")
          ->type_name("FILE");
  const auto read_port = [&options](const CLI::results_t& texts) {
    options.serve = 0;
    if (texts.empty() || texts.back().empty()) return true;
    uint16_t port = 0;
    if (!CLI::detail::lexical_cast(texts.back(), port)) return false;
    options.serve = port;
    return true;
  };
  view->add_option("--serve", CLI::callback_t(read_port),
                   "write no file: serve the page to browsers of this computer until Ctrl-C, at a "
                   "free port or this one; prints the address, which has a secret in it")
      ->type_name("PORT")
      ->expected(0, 1)
      ->excludes(output);
}

void add_va(CLI::App& app, VaOptions& options) {
  CLI::App* va = app.add_subcommand(
      "va", "GPU virtual addresses in a trace: the map of a process, the walk and history of one");
  va->add_option("TRACE", options.trace,
                 "a trace as text: what run and verify write to --trace FILE.txt")
      ->required();
  va->add_option("--process", options.process,
                 "number or name of the process (the only one, or a list of them)")
      ->type_name("P");
  va->add_option("--at", options.at, "the moment: 1234 (ns), 5us, 2.5ms, 1s (the end of the trace)")
      ->type_name("TIME");
  va->add_option("--address", options.address,
                 "walk this address through the page tables, and tell what happened to it")
      ->type_name("ADDRESS");
  add_reports(va, options.reports, "the addresses as JSON");
  va->footer(
      "Page tables are shown as the driver was told to write them, in that order; the hardware is "
      "behind by what is queued. Times count from the start of the run's clock.");
}

/// The commands with their options, and what was read into them.
struct CommandLine {
  CommandLine();
  /// Reads the words behind the program's name. A value is the exit code: there is nothing to run.
  std::optional<int> read(std::vector<std::string> arguments);
  int run();

  CLI::App app{"dxgkit: the WDDM graphics kernel in a Linux process", "dxgkit"};
  RunOptions run_options;
  VerifyOptions verify_options;
  dxgkit::tool::CheckOptions check_options;
  dxgkit::tool::FuzzOptions fuzz_options;
  dxgkit::tool::GlOptions gl_options;
  std::string doctor_driver, init_driver;
  Reports doctor_reports;
  std::optional<std::string> doctor_registry;
  EvictBenchOptions evict_options;
  VaOptions va_options;
  dxgkit::tool::ViewOptions view_options;
  dxgkit::tool::SimArguments simulation;
  dxgkit::tool::CampaignOptions campaign_options;
  Reports situations_reports;
  dxgkit::tool::SupportOptions support_options;
  Reports devices_reports;
  std::string served_model, served_socket;
  dxgkit::tool::RunClientOptions run_client_options;
  dxgkit::tool::RecordOptions record_options;
  dxgkit::tool::ServeOptions serve_options;
  dxgkit::serve::AdapterProcessOptions adapter_options;
  dxgkit::tool::StatusOptions status_options;
  std::string client_folder, driver_folder;
  dxgkit::tool::AttachOptions attach_options;
  std::string area;
  std::vector<std::string> explain_words;
  Reports explain_reports;
  std::string topic;
  CLI::App* doctor = nullptr;
  CLI::App* init = nullptr;
  CLI::App* attach = nullptr;
  CLI::App* situations = nullptr;
  CLI::App* support = nullptr;
  CLI::App* devices = nullptr;
  CLI::App* serve_device = nullptr;
  CLI::App* new_client = nullptr;
  CLI::App* new_driver = nullptr;
  CLI::App* rules = nullptr;
  CLI::App* explain = nullptr;
  CLI::App* manual = nullptr;
  std::string manual_folder;
  bool check_examples = false;
};

/// Man pages and completions, or whether every example is one that the parser takes.
int manual_command(const CommandLine& line) {
  if (line.check_examples) {
    int code = 0;
    for (const dxgkit::tool::Example& one : dxgkit::tool::examples()) {
      CommandLine typed;
      // `help COMMAND` is over with reading.
      if (typed.read(dxgkit::tool::words_of(one)).value_or(0) == 0) continue;
      say(stderr, "dxgkit: no command line: {}\n", one.line);
      code = 1;
    }
    return code;
  }
  if (line.manual_folder.empty()) return dxgkit::tool::bad_input("manual: which folder?");
  const auto written =
      dxgkit::tool::write_manual(line.app, dxgkit::version().text, line.manual_folder);
  return written.has_value() ? 0 : dxgkit::tool::not_written(written.error());
}

CommandLine::CommandLine() {
  app.require_subcommand(1);
  app.formatter(std::make_shared<dxgkit::tool::HelpFormatter>());
  const dxgkit::Version own = dxgkit::version();
  app.set_version_flag(
      "--version",
      fmt::format("dxgkit {} ({}), DXGKDDI_INTERFACE_VERSION 0x{:X} to 0x{:X}", own.text,
                  own.commit, own.oldest_interface, own.newest_interface),
      "version, commit, and interface versions a driver may declare");
  add_run(app, run_options);
  add_check(app, check_options);
  add_verify(app, verify_options);

  dxgkit::tool::add_fuzz(app, fuzz_options);

  dxgkit::tool::add_gl(app, gl_options);

  doctor = app.add_subcommand("doctor", "what a driver is, and whether it can be started");
  doctor->add_option("DRIVER", doctor_driver, "softgpu, or the path of a driver (.sys or .so)")
      ->required();
  doctor->add_option("--registry", doctor_registry, "values the driver reads (TOML or JSON)");
  add_reports(doctor, doctor_reports, "the diagnosis as JSON");
  init = app.add_subcommand("init", "write dxgkit.toml beside a driver, after a look at it");
  init->add_option("FILE", init_driver, "the path of a driver (.sys or .so)")->required();

  add_evict_bench(app, evict_options);

  add_va(app, va_options);
  add_view(app, view_options);

  dxgkit::tool::add_simulation(app, simulation);
  dxgkit::tool::add_campaign(app, campaign_options);

  attach = app.add_subcommand("attach",
                              "print the line that runs a debugger up to a finding of a report");
  attach->add_option("REPORT", attach_options.report, "what check or verify wrote to --json=FILE")
      ->required();
  attach->add_option("--rule", attach_options.rule, "of the finding (the first mistake)")
      ->type_name("RULE");
  attach->add_flag("--lldb", attach_options.lldb, "for lldb; without it for gdb");

  situations = app.add_subcommand(
      "situations", "what a driver may be confronted with, and the rules that each one tries");
  add_reports(situations, situations_reports, "the situations as JSON");

  support = app.add_subcommand("support",
                               "what is supported: DDIs, callbacks, NT exports, D3DKMT functions");
  support->add_option("NAME", support_options.name, "only names with this text in them");
  support->add_flag("--refused", support_options.refused, "only what is refused");
  support->add_flag("--ddi", support_options.ddis, "only driver entries (DxgkDdi*)");
  add_reports(support, support_options.reports, "the tables as JSON");
  devices = app.add_subcommand("devices", "the devices there are, with their options");
  add_reports(devices, devices_reports, "the devices as JSON");
  serve_device = app.add_subcommand(
      "serve-device", "a device model for other processes: a vfio-user server, until Ctrl-C");
  serve_device
      ->add_option("MODEL", served_model,
                   "what is served, as `dxgkit devices` lists it: NAME[,OPTION=VALUE...], or a "
                   "plug-in, FILE.so")
      ->required();
  serve_device
      ->add_option("--socket", served_socket,
                   "the socket to listen at; clients come with --device vfio-user:PATH")
      ->required()
      ->type_name("PATH");
  dxgkit::tool::add_run_client(app, run_client_options);
  dxgkit::tool::add_record(app, record_options);
  dxgkit::tool::add_serve(app, serve_options, adapter_options, status_options);
  new_driver = app.add_subcommand(
      "new", "write a miniport that works, with its client plug-in and CMake file, to begin with");
  new_driver->add_option("FOLDER", driver_folder, "new; its name is the driver's")->required();
  new_client = app.add_subcommand(
      "new-client", "write the skeleton of a client plug-in, for --client of verify and fuzz");
  new_client->add_option("FOLDER", client_folder, "new; its name is the plug-in's")->required();
  rules = app.add_subcommand("rules", "the rulebook: its areas, or the rules of one");
  rules->add_option("AREA", area, "like PATCH");
  explain =
      app.add_subcommand("explain", "a rule in full, or what a bug check and its parameters say");
  explain
      ->add_option("RULE|CODE", explain_words,
                   "like PATCH-08; or like 0x119 0x1: a bug check and its parameters, hexadecimal")
      ->required();
  add_reports(explain, explain_reports, "the answer as JSON");
  app.add_subcommand("help", "this list, or how a command is used")
      ->add_option("COMMAND", topic, "as `dxgkit COMMAND --help`");
  manual = app.add_subcommand("manual", "man pages and completions, for the build");
  manual->group("");
  manual->add_option("FOLDER", manual_folder, "where they go");
  manual->add_flag("--check-examples", check_examples, "read every example as if it were typed");
  dxgkit::tool::add_settings(app);
}

std::optional<int> CommandLine::read(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    say(stdout, "{}", app.help());
    return dxgkit::tool::kExitBadInput;
  }
  if (arguments.front() == "run-client")
    run_client_options.program = dxgkit::tool::take_program(arguments);
  if (arguments.front() == "record")
    record_options.client.program = dxgkit::tool::take_program(arguments);
  if (arguments.front() == "campaign")
    campaign_options.passed = dxgkit::tool::take_program(arguments);
  if (arguments.front() == "gl") gl_options.command = dxgkit::tool::take_program(arguments);
  dxgkit::tool::name_replay_of_recording(arguments);
  arguments = dxgkit::tool::prepared(std::move(arguments));
  std::optional<CommandLine> trial;
  const auto make_trial = [&trial]() -> CLI::App& { return trial.emplace().app; };
  if (const auto added = dxgkit::tool::add_settings_file(arguments, app, make_trial); !added)
    return dxgkit::tool::bad_input(added.error());
  if (const auto unknown = dxgkit::tool::unknown_command(app, arguments))
    return dxgkit::tool::bad_input(*unknown);
  try {
    std::ranges::reverse(arguments);  // as CLI11 wants it
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return dxgkit::tool::bad_input(dxgkit::tool::explain(app, error));
  }
  return std::nullopt;
}

int CommandLine::run() {
  if (const auto code = dxgkit::tool::run_simulation(app, simulation)) return *code;
  if (app.got_subcommand("campaign")) return dxgkit::tool::campaign_command(campaign_options);
  if (app.got_subcommand("evict-bench")) return dxgkit::tool::evict_bench_command(evict_options);
  if (app.got_subcommand("check")) return dxgkit::tool::check_command(check_options);
  if (app.got_subcommand("verify")) return dxgkit::tool::verify_command(verify_options);
  if (app.got_subcommand("fuzz")) return dxgkit::tool::fuzz_command(fuzz_options);
  if (app.got_subcommand("gl")) return dxgkit::tool::gl_command(gl_options);
  if (app.got_subcommand("va")) return dxgkit::tool::va_command(va_options);
  if (app.got_subcommand("view")) return dxgkit::tool::view_command(view_options);
  if (doctor->parsed())
    return dxgkit::tool::doctor_command(doctor_driver, doctor_registry, doctor_reports);
  if (attach->parsed()) return dxgkit::tool::attach_command(attach_options);
  if (init->parsed()) return dxgkit::tool::init_command(init_driver);
  if (devices->parsed()) return dxgkit::tool::devices_command(devices_reports);
  if (serve_device->parsed())
    return dxgkit::tool::serve_device_command(served_model, served_socket);
  if (app.got_subcommand("run-client")) return dxgkit::tool::run_client_command(run_client_options);
  if (const auto code = dxgkit::tool::run_record_command(app, record_options)) return *code;
  if (app.got_subcommand("serve")) return dxgkit::tool::serve_command(serve_options);
  if (app.got_subcommand("serve-adapter"))
    return dxgkit::serve::run_adapter_process(adapter_options);
  if (app.got_subcommand("status")) return dxgkit::tool::status_command(status_options);
  if (support->parsed()) return dxgkit::tool::support_command(support_options);
  if (situations->parsed()) return dxgkit::tool::situations_command(situations_reports);
  if (new_driver->parsed()) return dxgkit::tool::new_command(driver_folder);
  if (new_client->parsed()) return dxgkit::tool::new_client_command(client_folder);
  if (rules->parsed()) return dxgkit::tool::rules_command(area);
  if (explain->parsed()) return dxgkit::tool::explain_command(explain_words, explain_reports);
  if (manual->parsed()) return manual_command(*this);
  return dxgkit::tool::run_command(run_options);
}

/// Files that are opened later must not take the numbers of streams that the caller closed. Returns
/// false if stdout is closed.
bool open_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    if (stream == STDOUT_FILENO) return false;
    static_cast<void>(!open("/dev/null", O_RDWR));  // the lowest free number: this one
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  using dxgkit::tool::not_written;
  if (!open_streams()) return not_written("stdout: it is closed");
  try {
    CommandLine line;
    const std::optional<int> over = line.read(std::vector<std::string>(argv + 1, argv + argc));
    return dxgkit::tool::exit_code_of_output(over.has_value() ? *over : line.run());
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return not_written("stdout: " + error.code().message());
    if (std::ferror(stderr) != 0) return dxgkit::tool::kExitNotWritten;
    throw;
  }
}
