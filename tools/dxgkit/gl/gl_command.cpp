// dxgkit gl: a GL program on a driver.
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/spelling.h"
#include "nt/call_log.h"
#include "port/driver.h"
#include "runtime/interrupt.h"
#include "tools/dxgkit/child.h"
#include "tools/dxgkit/command_line.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/finding_json.h"
#include "tools/dxgkit/gl/d3dkmt_backend.h"
#include "tools/dxgkit/gl/gl_options.h"
#include "tools/dxgkit/gl/program.h"
#include "tools/dxgkit/gl/program_text.h"
#include "tools/dxgkit/gl/separate_programs.h"
#include "tools/dxgkit/gl/server.h"
#include "tools/dxgkit/gl/system_client.h"
#include "tools/dxgkit/gl/thread_conversation.h"
#include "tools/dxgkit/hang.h"
#include "tools/dxgkit/kernel_config.h"
#include "tools/dxgkit/last_words.h"
#include "tools/dxgkit/picture.h"
#include "tools/dxgkit/report.h"
#include "tools/dxgkit/start_story.h"
#include "tools/dxgkit/view/notes.h"
#include "tools/dxgkit/waivers.h"
#include "trace/trace.h"

namespace dxgkit::tool {
namespace {

/// The only path that the Mesa of Debian 12 knows.
constexpr const char* kDefaultSocket = "/tmp/.virgl_test";
/// A kernel in a jail starts no process: one renderer, which is there before, is for all programs.
constexpr const char* kJailedDevice3d = "virtio-gpu,3d=on,memory=1G,modes=64x64";
/// Each program has a renderer of its own. The screen is small, because the kernel's primary for it
/// stays in the aperture.
constexpr const char* kDefaultDevice3d = "virtio-gpu,3d=on,renderers=each,memory=1G,modes=64x64";
constexpr uint64_t kDefaultMemoryBytes = uint64_t{4} << 30;  // only what is touched costs memory
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kApertureMost = uint64_t{1} << 30;
constexpr const char* kApertureValue = "ApertureSize";  // of the driver's key, in MiB
/// Pictures in a report.
constexpr size_t kFramesMost = 24;

struct GlSetting {
  const GlOptions& options;
  std::string driver_path, driver_name;
  DeviceChoice device;
  nt::KernelConfig kernel;
};

struct Outcome {
  std::optional<int> program_code;  // none: it was not started, for the reason `message`
  bool bad_input = false;           // then the message is about that
  std::string message;
  std::vector<std::string> before;  // of a failed start, see start_story.h
  std::string lost;                 // why the device left by itself; empty: it did not
  std::vector<gl::ProgramRecord> programs;
  dxgk::AdapterStatistics statistics;
  std::vector<dxgk::TimeoutReport> timeouts;
  std::vector<verifier::Finding> findings;
  trace::Recording recording;
};

std::string describe(Status status) {
  const std::string_view name = status_name(status);
  return name.empty() ? fmt::format("status 0x{:08X}", static_cast<uint32_t>(status))
                      : std::string(name);
}

std::string rest_of(const std::string& sentence) {
  return sentence.ends_with(".") ? sentence.substr(0, sentence.size() - 1) : sentence;
}

gl::Answer<void> check_driver(dxgk::System& system, LUID adapter) {
  const gl::SystemClient client(system, "gl");
  return gl::check_driver(adapter);
}

/// Runs the program on an adapter that has started.
void run_program(runtime::Runtime& runtime, const GlSetting& setting, dxgk::System& system,
                 dxgk::Luid adapter, Outcome& outcome) {
  const LUID luid{adapter.low, adapter.high};
  if (const auto fits = check_driver(system, luid); !fits) {
    outcome.bad_input = true;
    outcome.message = fmt::format("{}: {}", setting.driver_name, fits.error());
    return;
  }
  const std::string& path = setting.options.socket;
  auto listener = vfiouser::listen_at(path);
  if (!listener.has_value()) {
    outcome.bad_input = true;
    outcome.message = listener.error();
    return;
  }
  gl::Server server(
      runtime, std::move(*listener),
      [&](vfiouser::Descriptor socket) {
        return std::make_unique<gl::ThreadConversation>(
            runtime, std::move(socket),
            [&](const std::string& name) {
              return gl::D3dkmtBackend::create(std::make_unique<gl::SystemClient>(system, name),
                                               luid, name);
            },
            setting.options.report.has_value() ? gl::KeepFrames::kYes : gl::KeepFrames::kNo);
      },
      [](const std::string& line) { say(stderr, "dxgkit gl: {}\n", line); });
  const char* const display = std::getenv("DISPLAY");
  auto program = gl::Program::start(setting.options.command,
                                    gl::gl_environment(path, display != nullptr && *display != 0));
  if (program.has_value()) {
    outcome.program_code = program->wait(runtime, runtime::interrupt_fd());
  } else {
    outcome.bad_input = true;
    outcome.message = program.error();
  }
  unlink(path.c_str());
  outcome.programs = server.stop();
}

void run_inside(runtime::Runtime& runtime, const GlSetting& setting, verifier::Findings& findings,
                Outcome& outcome) {
  WorldConfig config;
  config.devices = {setting.device};
  config.memory_bytes = setting.options.machine.memory_bytes.value_or(kDefaultMemoryBytes);
  config.vram_bytes = setting.options.vram_bytes;
  config.kernel = setting.kernel;
  auto world = World::create(runtime, findings, config);
  if (!world.has_value()) {
    outcome.bad_input = true;
    outcome.message = world.error();
    return;
  }
  const std::vector<std::string> engines = (*world)->device().engine_names();
  for (size_t node = 0; node < engines.size(); ++node)
    trace::emit_name(trace::ObjectClass::kNode, node, engines[node]);
  nt::Kernel& kernel = (*world)->kernel();
  std::optional<nt::CallLog> calls(std::in_place, kernel);
  port::DriverSource image;
  image.name = setting.driver_name;
  image.path = setting.driver_path;
  std::string message;
  auto driver = port::Driver::load(kernel, findings, image, &message);
  if (!driver.has_value()) {
    outcome.bad_input = driver.error() == Status::kInvalidImageFormat && findings.total() == 0;
    outcome.message = fmt::format("{}: {}", setting.driver_path,
                                  message.empty() ? describe(driver.error()) : message);
    outcome.before = start_story(*calls, setting.driver_path, setting.device);
    return;
  }
  dxgk::System system(runtime, (*world)->machine(), kernel, findings);
  dxgk::AdapterOptions adapter_options;
  if (!setting.options.hang_packet.has_value())
    adapter_options.tdr_delay_ns = kBusyMachineTdrDelayNs;
  const auto adapter = system.start_adapter(**driver, (*world)->function(), adapter_options);
  if (!adapter.has_value()) {
    outcome.message = fmt::format("the adapter did not start: {}", describe(adapter.error()));
    outcome.before = start_story(*calls, setting.driver_path, setting.device);
    return;
  }
  calls.reset();
  (*world)->on_loss([&](size_t, const std::string& why) {
    if (outcome.lost.empty()) outcome.lost = why;
    static_cast<void>(system.remove_adapter(*adapter));
  });
  if (setting.options.hang_packet.has_value()) {
    const bus::EngineFaults faults[] = {
        {.hang_at_entry = *setting.options.hang_packet, .hangs_max = 1}};
    if (bus::FaultInjection* const injection = (*world)->device().faults()) {
      injection->set_faults(faults);
    } else {
      outcome.bad_input = true;
      outcome.message = "--hang: the device cannot be told to stop";
    }
  }
  if (outcome.message.empty()) run_program(runtime, setting, system, *adapter, outcome);
  (*world)->on_loss(nullptr);
  if (const auto statistics = system.statistics(*adapter); statistics.has_value())
    outcome.statistics = *statistics;
  if (auto timeouts = system.timeouts(*adapter); timeouts.has_value())
    outcome.timeouts = std::move(*timeouts);
  // If the verifier has stopped the adapter already, this fails, which is fine.
  static_cast<void>(system.stop_adapter(*adapter));
}

Outcome run(const GlSetting& setting) {
  Outcome outcome;
  verifier::Findings findings;
  findings.set_waivers(&setting.options.waivers.list);
  findings.set_listener(
      [](const verifier::Finding& finding) { LastWords::keep({.key = {}, .finding = finding}); });
  const auto runtime = runtime::make_os_runtime(1);
  std::optional<trace::Recorder> recorder;
  if (setting.options.trace.has_value() || setting.options.report.has_value())
    recorder.emplace(
        trace::Recorder::Clock{.now_ns = [&runtime] { return runtime->now(); },
                               .thread = [&runtime] { return runtime->thread_number(); }});
  runtime->run_main([&] {
    trace::set_current(recorder.has_value() ? &*recorder : nullptr);
    run_inside(*runtime, setting, findings, outcome);
    trace::set_current(nullptr);
  });
  outcome.findings = findings.all();
  if (recorder.has_value())
    outcome.recording = {.events = recorder->events(),
                         .names = recorder->names(),
                         .threads = runtime->thread_names(),
                         .dropped = recorder->dropped()};
  return outcome;
}

using gl::Rows;

Rows adapter_rows(const dxgk::AdapterStatistics& statistics) {
  return {
      {"packets",
       fmt::format("{} submitted, {} completed, {} faulted", statistics.packets_submitted,
                   statistics.packets_completed, statistics.packets_faulted)},
      {"memory", fmt::format("{}, {} back, {}, {}, {}", counted(statistics.evictions, "eviction"),
                             statistics.returns, counted(statistics.page_ins, "page-in"),
                             counted(statistics.page_outs, "page-out"),
                             counted(statistics.aperture_maps, "aperture map"))},
      {"resets", fmt::format("{} of an engine, {} of the adapter", statistics.engine_resets,
                             statistics.adapter_resets)}};
}

std::string result_of(const Outcome& outcome) {
  if (!outcome.program_code.has_value()) return outcome.message;
  std::string text = fmt::format("exit code {}", *outcome.program_code);
  if (!outcome.lost.empty()) text += "; the device left the machine: " + outcome.lost;
  return text;
}

nlohmann::ordered_json json_of(const GlSetting& setting, const Outcome& outcome) {
  nlohmann::ordered_json json;
  json["driver"] = setting.driver_name;
  json["device"] = setting.device.text;
  json["command"] = setting.options.command;
  json["exit_code"] = nullptr;
  if (outcome.program_code.has_value()) json["exit_code"] = *outcome.program_code;
  json["result"] = result_of(outcome);
  json["programs"] = gl::programs_json(outcome.programs);
  const dxgk::AdapterStatistics& statistics = outcome.statistics;
  json["statistics"] = {{"packets_submitted", statistics.packets_submitted},
                        {"packets_completed", statistics.packets_completed},
                        {"packets_faulted", statistics.packets_faulted},
                        {"evictions", statistics.evictions},
                        {"returns", statistics.returns},
                        {"page_ins", statistics.page_ins},
                        {"page_outs", statistics.page_outs},
                        {"aperture_maps", statistics.aperture_maps},
                        {"engine_resets", statistics.engine_resets},
                        {"adapter_resets", statistics.adapter_resets}};
  json["timeouts"] = hang_json(outcome.timeouts);
  json["findings"] = nlohmann::ordered_json::array();
  for (const verifier::Finding& finding : outcome.findings)
    json["findings"].push_back(verifier::to_text(finding));
  json["waivers"] = waivers_json(setting.options.waivers.list);
  return json;
}

/// The last frames, in the order of their times, as the report page reads them.
nlohmann::ordered_json frames_json(const Outcome& outcome) {
  std::vector<std::pair<const gl::ProgramRecord*, const gl::KeptFrame*>> frames;
  for (const gl::ProgramRecord& program : outcome.programs) {
    for (const gl::KeptFrame& frame : program.last_frames) frames.emplace_back(&program, &frame);
  }
  std::ranges::stable_sort(frames, {}, [](const auto& one) { return one.second->time; });
  if (frames.size() > kFramesMost)
    frames.erase(frames.begin(), frames.end() - static_cast<ptrdiff_t>(kFramesMost));
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [program, frame] : frames) {
    const auto png = encode_png(frame->picture);
    if (!png.has_value()) continue;
    list.push_back({{"program", program->name},
                    {"number", frame->number},
                    {"time_ns", frame->time},
                    {"width", frame->width},
                    {"height", frame->height},
                    {"picture", data_url("image/png", *png)}});
  }
  return list;
}

/// What the report page shows beside the recording.
nlohmann::ordered_json report_head(const GlSetting& setting, const Outcome& outcome) {
  nlohmann::ordered_json head;
  head["result"] = result_of(outcome);
  head["driver"] = setting.driver_name;
  head["sections"] = nlohmann::ordered_json::array();
  const auto add = [&](const std::string& title, const Rows& rows) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& [name, value] : rows) list.push_back({name, value});
    head["sections"].push_back({{"title", title}, {"rows", std::move(list)}});
  };
  add("Programs", gl::program_rows(outcome.programs));
  add("Adapter", adapter_rows(outcome.statistics));
  for (const dxgk::TimeoutReport& report : outcome.timeouts) add("Timeout", hang_rows(report));
  head["findings"] = findings_for_page(outcome.findings);
  head["frames"] = frames_json(outcome);
  return head;
}

/// Adds an output's failure.
void note(int& code, const std::expected<void, std::string>& written) {
  if (!written.has_value()) code = not_written(written.error());
}

int conclude(const GlSetting& setting, const Outcome& outcome) {
  const GlOptions& options = setting.options;
  if (outcome.bad_input) return bad_input(rest_of(outcome.message));
  for (const verifier::Finding& finding : outcome.findings)
    say(stderr, "{}\n", verifier::to_text(finding));
  if (!outcome.message.empty())
    say(stderr, "dxgkit: {}\n{}", outcome.message, story_text(outcome.before));
  if (!outcome.lost.empty()) say(stderr, "dxgkit: the device left the machine: {}\n", outcome.lost);
  for (const dxgk::TimeoutReport& report : outcome.timeouts) {
    say(stderr, "dxgkit gl: {}\n", report.cause);
    for (const auto& [name, value] : hang_rows(report)) say(stderr, "  {}: {}\n", name, value);
  }
  Rows rows = gl::program_rows(outcome.programs);
  for (auto& row : adapter_rows(outcome.statistics)) rows.push_back(std::move(row));
  for (const auto& [name, value] : rows) say(stderr, "dxgkit gl: {}: {}\n", name, value);

  const bool broken = std::ranges::any_of(outcome.findings, verifier::is_mistake);
  int code = outcome.program_code.value_or(kExitFailed);
  if (code == 0 && (broken || !outcome.lost.empty())) code = kExitFailed;
  if (runtime::interrupted()) code = kExitInterrupted;
  if (options.frame.has_value()) {
    const int frame = gl::write_frame(*options.frame, outcome.programs);
    if (frame != kExitDone) code = frame;
  }
  if (options.trace.has_value())
    note(code, write_file(*options.trace, trace_file(*options.trace, outcome.recording,
                                                     report_head(setting, outcome))));
  if (options.report.has_value())
    note(code, write_file(*options.report,
                          make_report(outcome.recording, report_head(setting, outcome))));
  const std::string text =
      json_of(setting, outcome).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  if (!write_output(options.reports.json, text + "\n")) code = kExitNotWritten;
  return code;
}

/// The key `service` as the text of a registry file; empty: nothing is in it.
std::string registry_of(const GlOptions& options) {
  if (!options.aperture_bytes.has_value()) return {};
  return nlohmann::json{{"service", {{kApertureValue, *options.aperture_bytes / kMiB}}}}.dump();
}

/// The process with the driver ended.
int tell_end(const LastWords& words, const ChildEnd& end) {
  const std::string how = end.kind == ChildEnd::Kind::kLeft
                              ? fmt::format("it ended itself with exit code {}", end.code)
                              : fmt::format("it ended by signal {}", end.code);
  const Problem problem = words.of(0, "The run", how);
  if (!problem.broken_around_it.empty()) return bad_input(problem.broken_around_it);
  for (const Problem& kept : words.kept(0)) say(stderr, "{}\n", verifier::to_text(kept.finding));
  say(stderr, "{}\n", verifier::to_text(problem.finding));
  say(stderr, "dxgkit: the process with the driver was lost: {}\n", how);
  return kExitFailed;
}

}  // namespace

void add_gl(CLI::App& app, GlOptions& options) {
  CLI::App* gl = app.add_subcommand(
      "gl",
      "run an OpenGL program whose commands go through a driver of the virtio GPU: dxgkit gl "
      "[OPTIONS] -- PROGRAM ARGUMENTS...");
  options.driver = kBuiltInDriverVirtioGpu;
  gl->add_option(
        "--driver", options.driver,
        "virtiogpu, virtiogpu_wddm2, or the path of a driver with their user-mode interface "
        "(.sys, or .so: its ELF form)")
      ->capture_default_str();
  gl->add_option(
        "--device", CLI::callback_t([&options](const CLI::results_t& texts) {
          auto device = parse_device(texts.back());
          if (!device.has_value()) throw CLI::ValidationError("--device", device.error());
          options.device = std::move(*device);
          return true;
        }),
        fmt::format("what the driver finds, as `dxgkit devices` lists it ({})", kDefaultDevice3d))
      ->expected(1)
      ->type_name("DEVICE");
  const auto bytes = [gl](const char* name, std::optional<uint64_t>& value, const char* help) {
    gl->add_option(name, CLI::callback_t([name, &value](const CLI::results_t& texts) {
                     const auto parsed = parse_bytes(texts.back());
                     if (!parsed.has_value()) throw CLI::ValidationError(name, parsed.error());
                     value = *parsed;
                     return true;
                   }),
                   help)
        ->expected(1)
        ->type_name("SIZE");
  };
  bytes("--vram", options.vram_bytes, "video memory of a device that has some");
  bytes("--aperture", options.aperture_bytes,
        "the aperture that our driver makes, whole MiB (1G): the value ApertureSize of its key");
  options.socket = kDefaultSocket;
  gl->add_option("--socket", options.socket,
                 "where programs connect; the Mesa of Debian 12 knows the default only")
      ->capture_default_str()
      ->type_name("PATH");
  gl->add_option("--clients", CLI::callback_t([&options](const CLI::results_t& texts) {
                   const auto place = parse_client_place(texts.back());
                   if (!place.has_value()) throw CLI::ValidationError("--clients", place.error());
                   options.clients = *place;
                   return true;
                 }),
                 "where each program's connection lives: threads: in the process of the kernel; "
                 "processes: in one of its own, with the kernel in another one, as by `dxgkit "
                 "serve` (threads)")
      ->expected(1)
      ->type_name("threads|processes");
  add_machine(gl, options.machine, "memory of the machine, like 1G (4G)");
  gl->add_option("--registry", options.registry, "values the driver reads (TOML or JSON)");
  gl->add_flag("--special-pool", options.special_pool,
               "put every pool block at the end of a page: overruns fault where they happen");
  gl->add_flag("--trace-imports", options.trace_imports, "every call of an import is in the trace");
  gl->add_option("--hang", options.hang_packet,
                 "the device stops dead at that request, and the kernel recovers")
      ->check(CLI::Range(1U, UINT32_MAX))
      ->type_name("N");
  gl->add_option("--frame", options.frame, "write the last picture that was shown (PNG)");
  gl->add_option("--trace", options.trace, "write a Perfetto trace; to FILE.txt: text");
  gl->add_option("--report", options.report, "write the report page (HTML)");
  add_waivers(gl, options.waivers);
  gl->add_flag("--in-process", options.in_process,
               "run the driver in this process, for a debugger");
  add_reports(gl, options.reports, "what was done as JSON");
  gl->footer(
      "The exit code is the program's. 1, if it is 0 and the driver broke a rule or the device "
      "left; 2: nothing was run; 5: an output cannot be written; 130: interrupted.");
}

int gl_command(const GlOptions& options) {
  runtime::catch_interrupts();
  if (options.command.empty())
    return bad_input("gl: which program? `dxgkit gl [OPTIONS] -- PROGRAM ARGUMENTS...`");
  const auto path = find_loadable_driver(options.driver);
  if (!path.has_value()) return bad_input(path.error());
  GlSetting setting{.options = options,
                    .driver_path = *path,
                    .driver_name = std::filesystem::path(options.driver).filename().string(),
                    .device = {},
                    .kernel = {}};
  const bool separately = options.clients == ClientPlace::kProcesses;
  if (const std::string name = gl_only_with_threads(options); separately && !name.empty())
    return bad_input(name + ": not with --clients processes");
  auto device = options.device.has_value()
                    ? *options.device
                    : parse_device(separately ? kJailedDevice3d : kDefaultDevice3d);
  if (!device.has_value()) return bad_input(device.error());
  if (separately && device->options.find("renderers").value_or("one") == "each")
    return bad_input(
        "renderers=each: not with --clients processes, where the kernel starts no others");
  setting.device = std::move(*device);
  auto kernel = read_kernel_config(options.registry, options.special_pool, options.trace_imports);
  if (!kernel.has_value()) return bad_input(kernel.error());
  setting.kernel = std::move(*kernel);
  setting.kernel.processors = options.machine.processors;
  if (options.aperture_bytes.has_value()) {
    if (*options.aperture_bytes == 0 || *options.aperture_bytes % kMiB != 0 ||
        *options.aperture_bytes > kApertureMost)
      return bad_input(fmt::format("--aperture {}: 1M to 1G, whole MiB", *options.aperture_bytes));
    setting.kernel.registry[nt::KernelConfig::kDriverKey][kApertureValue] =
        nt::RegistryValue::dword(static_cast<uint32_t>(*options.aperture_bytes / kMiB));
  }
  if (const int code = options.reports.check(); code != kExitDone) return code;
  if (const int code = check_outputs({&options.trace, &options.report, &options.frame});
      code != kExitDone)
    return code;
  if (separately)
    return run_gl_separately(options, *path, setting.device,
                             options.machine.memory_bytes.value_or(kDefaultMemoryBytes),
                             registry_of(options));
  if (options.in_process) return conclude(setting, run(setting));

  const LastWords words;
  const ChildEnd end = run_in_child(
      [&](Heartbeat& heartbeat) {
        words.listen(0, 0);
        const Outcome outcome = run(setting);
        heartbeat.finishing();
        return conclude(setting, outcome);
      },
      INT_MAX, ChildInterrupts::kReachIt);  // a program may take its time
  switch (end.kind) {
    case ChildEnd::Kind::kExited:
      return end.code;
    case ChildEnd::Kind::kNotStarted:
      return bad_input("a child process could not be started");
    case ChildEnd::Kind::kInterrupted:
      return kExitInterrupted;
    default:
      return tell_end(words, end);
  }
}

}  // namespace dxgkit::tool
