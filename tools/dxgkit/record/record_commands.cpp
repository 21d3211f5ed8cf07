#include "tools/dxgkit/record/record_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "arguments/table.h"
#include "base/spelling.h"
#include "record/file.h"
#include "record/message.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "wire/call_text.h"

namespace dxgkit::tool {
namespace {

/// `record`: run-client, and every call goes to the file.
int record_command(const RecordOptions& options) {
  if (options.client.program.empty()) return bad_input("record needs a program: -- PROGRAM");
  std::error_code error;
  const std::string path = std::filesystem::absolute(options.out, error).string();
  if (std::filesystem::exists(path, error)) {
    if (!record::is_recording(path))
      return bad_input(fmt::format("{}: it is no recording, and stays", options.out));
    std::filesystem::remove(path, error);
  }
  if (const auto writable = check_writable(path); !writable.has_value())
    return bad_input(writable.error());
  RunClientOptions client = options.client;
  client.recording = path;
  const int code = run_client_command(client);
  if (!std::filesystem::exists(path, error)) {
    say(stderr, "dxgkit: {}: there is no recording, for {} called no kernel\n", options.out,
        client.program.front());
    return code != 0 ? code : kExitFailed;
  }
  return code;
}

/// The arguments of a call with its outputs.
std::string text_of(const record::Call& call) {
  if (!call.unrecorded.empty())
    return fmt::format("{}(...) = {:#x}, not recorded: {}",
                       arguments::functions()[call.function].name,
                       static_cast<uint32_t>(call.result), call.unrecorded);
  const auto request = record::read_request(call.request);
  const auto reply = record::read_reply(*request, call.request, call.reply);
  const std::byte* arguments = call.request.data() + request->blocks.front().at;
  if (!reply->contents.empty() && reply->contents.front().block == 0)
    arguments = reply->contents.front().bytes.data();
  return wire::call_text(call.function, arguments, call.result);
}

int calls_command(const std::string& path) {
  const auto recording = record::read_recording(path);
  if (!recording.has_value()) return bad_input(recording.error());
  std::map<uint32_t, size_t> threads;
  for (const record::Call& call : recording->calls)
    threads.try_emplace(call.thread, threads.size() + 1);
  say(stdout, "{} of {} on {}\n", counted(recording->calls.size(), "call"), recording->process.name,
      counted(threads.size(), "thread"));
  const int64_t start = recording->calls.empty() ? 0 : recording->calls.front().time_ns;
  for (size_t i = 0; i < recording->calls.size(); ++i) {
    const record::Call& call = recording->calls[i];
    size_t wrote = 0, saw = 0;
    for (const record::Bytes& bytes : call.memory)
      (bytes.seen != 0 ? saw : wrote) += bytes.bytes.size();
    say(stdout, "{:6} {:10.3f} ms  thread {}  {}{}{}\n", i + 1,
        static_cast<double>(call.time_ns - start) / 1e6, threads.at(call.thread), text_of(call),
        wrote == 0 ? "" : fmt::format(", had written {}", counted(wrote, "byte")),
        saw == 0 ? "" : fmt::format(", saw {}", counted(saw, "new byte")));
  }
  if (recording->cut.empty()) return kExitDone;
  say(stderr, "dxgkit: {}: {}\n", path, recording->cut);
  return kExitFailed;
}

}  // namespace

void name_replay_of_recording(std::vector<std::string>& arguments) {
  const bool recording =
      std::ranges::any_of(arguments, [](const std::string& one) { return one.ends_with(".dxgk"); });
  if (!arguments.empty() && arguments.front() == "replay" && recording)
    arguments.front() = kReplayRecording;
}

void add_record(CLI::App& app, RecordOptions& options) {
  CLI::App* const record = app.add_subcommand(
      "record", "run-client, with every D3DKMT call of the program kept in a file");
  record->add_option("-o,--output", options.out, "the recording; an older one is replaced")
      ->required()
      ->type_name("FILE.dxgk");
  add_run_client_options(record, options.client);
  record->footer(
      "-- PROGRAM [ARGUMENT...] comes last. The first process that calls the kernel is recorded. "
      "Its "
      "calls are made as those of another process: see docs/clients.md.");
  CLI::App* const calls =
      app.add_subcommand("calls", "the calls of a recording, in the order in which they returned");
  calls->add_option("FILE", options.printed, "what `dxgkit record` wrote")->required();
  CLI::App* const replay =
      app.add_subcommand(kReplayRecording, "replay FILE.dxgk: the calls of a recording once more");
  replay->group("");
  ReplayRecordingOptions& again = options.replay;
  replay->add_option("FILE", again.recording, "what `dxgkit record` wrote")->required();
  again.driver = kBuiltInDriver;
  replay
      ->add_option("--driver", again.driver, "a .sys file, its ELF twin, or softgpu, softgpu_wddm2")
      ->type_name("FILE")
      ->capture_default_str();
  replay->add_option("--device", again.devices, "a device of the machine; may be repeated")
      ->type_name("NAME[,OPTION=VALUE...]");
  replay->add_option("--registry", again.registry, "what the driver reads (docs/registry.md)")
      ->type_name("FILE");
  replay
      ->add_option_function<std::string>(
          "--mode",
          [&again](const std::string& text) {
            const auto mode = parse_mode(text);
            if (!mode.has_value()) throw CLI::ValidationError("--mode", mode.error());
            again.mode = *mode;
          },
          "os: real threads; sim: one seed decides every interleaving (os)")
      ->type_name("MODE");
  replay
      ->add_option_function<std::string>(
          "--seed",
          [&again](const std::string& text) {
            const auto seed = parse_seed(text);
            if (!seed.has_value()) throw CLI::ValidationError("--seed", seed.error());
            again.seed = *seed;
          },
          "seed of the simulation (1)")
      ->type_name("N");
  replay
      ->add_option_function<std::string>(
          "--seeds",
          [&again](const std::string& text) {
            const auto seeds = parse_seeds(text);
            if (!seeds.has_value()) throw CLI::ValidationError("--seeds", seeds.error());
            again.seeds = *seeds;
          },
          "a simulation for each seed: what was concurrent comes in another order")
      ->type_name("A..B")
      ->excludes("--seed");
  replay->footer(
      "Exit code 0: every status and everything that came out was as recorded, and there is no "
      "finding but warnings; 1: something differs, or the driver broke a rule. Differences are "
      "told by the number of the "
      "call, as `dxgkit calls` shows it.");
}

std::optional<int> run_record_command(const CLI::App& app, const RecordOptions& options) {
  if (app.got_subcommand("record")) return record_command(options);
  if (app.got_subcommand(kReplayRecording)) return replay_recording_command(options.replay);
  if (app.got_subcommand("calls")) return calls_command(options.printed);
  return std::nullopt;
}

}  // namespace dxgkit::tool
