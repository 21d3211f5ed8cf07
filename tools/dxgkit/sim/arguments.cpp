#include "tools/dxgkit/sim/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/spelling.h"
#include "sim/fault_plan.h"
#include "tools/dxgkit/command_line.h"
#include "tools/dxgkit/options.h"

namespace dxgkit::tool {
namespace {

void add_worlds(CLI::App* command, Worlds& worlds) {
  command->add_option("DRIVER", worlds.driver,
                      "softgpu (both of its models), or the path of a driver for the same device "
                      "(.sys or .so)");
  command->add_flag_callback(
      "--builtin", [&worlds] { worlds.driver.clear(); },
      "the drivers that come with dxgkit, as without DRIVER");
  command
      ->add_option_function<std::string>(
          "--device",
          [](const std::string& text) {
            const auto device = parse_device(text);
            if (!device.has_value()) throw CLI::ValidationError(device.error());
            if (const auto fits = check_mode(*device, Mode::kSim); !fits)
              throw CLI::ValidationError(fits.error());
            // Clients, content and faults of the worlds are softgpu's, with options that seeds
            // draw.
            if (device->type->name == kDefaultDevice && device->options.all().empty()) return;
            throw CLI::ValidationError(
                "--device " + text +
                ": the worlds of sim can have only softgpu so far, with what the seed draws");
          },
          "softgpu, which the worlds are made around")
      ->type_name("DEVICE");
  command
      ->add_option("--faults", worlds.changes.faults,
                   "what goes wrong, where not as the seed draws it: a list of none, all, KIND, "
                   "KIND=RATE (per million), -KIND; taken from left to right")
      ->check([](const std::string& text) {
        return sim::FaultPlan{}.change(text).value_or(std::string());
      })
      ->type_name("PLAN");
  add_waivers(command, worlds.waivers);
  const auto number = [&](const char* name, std::optional<uint32_t>& to, uint32_t least,
                          uint32_t most, const char* help) {
    command->add_option(name, to, help)->check(CLI::Range(least, most))->type_name("N");
  };
  number("--clients", worlds.changes.clients, 1, 64, "client processes of each world");
  number("--operations", worlds.changes.operations, 0, 1'000'000,
         "of each client while faults strike");
  add_machine(command, worlds.changes,
              "every machine has at least so much memory (as the seed draws it)");
  number("--operations-healed", worlds.changes.operations_healed, 0, 1'000'000, "and afterwards");
  command
      ->add_option_function<std::string>(
          "--canary",
          [&worlds](const std::string& name) {
            const auto found = std::ranges::find(sim::kCanaryNames, name);
            worlds.canary = static_cast<sim::Canary>(found - sim::kCanaryNames.begin());
          },
          "a bug on purpose, to see the checks find it")
      ->check([](const std::string& name) -> std::string {
        if (std::ranges::find(sim::kCanaryNames, name) != sim::kCanaryNames.end()) return {};
        std::string known;
        for (const std::string_view one : sim::kCanaryNames)
          known += fmt::format("{}{}", known.empty() ? "" : ", ", one);
        return fmt::format("'{}' is no such bug; there are {}{}", name, known,
                           did_you_mean(name, sim::kCanaryNames));
      });
}

/// "2/8".
bool read_shard(const std::string& text, SimOptions& options) {
  const char* const end = text.data() + text.size();
  uint32_t shard = 0, shards = 0;
  const auto [slash, error] = std::from_chars(text.data(), end, shard);
  if (error != std::errc{} || slash == end || *slash != '/') return false;
  const auto [at, other] = std::from_chars(slash + 1, end, shards);
  if (other != std::errc{} || at != end || shard == 0 || shard > shards) return false;
  options.shard = shard - 1;
  options.shards = shards;
  return true;
}

}  // namespace

void add_simulation(CLI::App& app, SimArguments& arguments) {
  CLI::App* run = app.add_subcommand(
      "sim", "worlds that go wrong: many seeds, each with clients, faults and checks");
  SimOptions& options = arguments.sim;
  add_worlds(run, options.worlds);
  run->add_option_function<std::string>(
         "--seeds",
         [&options](const std::string& text) {
           const auto seeds = sim::parse_seeds(text);
           if (!seeds.has_value()) throw CLI::ValidationError("--seeds is a number or FIRST..LAST");
           options.seeds = *seeds;
         },
         "FIRST..LAST (1..1000)")
      ->type_name("A..B");
  run->add_option_function<std::string>(
         "--shard",
         [&options](const std::string& text) {
           if (!read_shard(text, options))
             throw CLI::ValidationError("--shard is I/N, I from 1 to N");
         },
         "of the seeds every N-th, from the I-th on")
      ->type_name("I/N");
  run->add_option("--jobs", options.jobs, "processes at once (as many as processors)")
      ->check(CLI::Range(1U, 64U));
  run->add_option("--twice-every", options.twice_every,
                  "every n-th seed runs twice, with the same trace; 0: none")
      ->capture_default_str();
  run->add_option("--failures", options.failures_most, "after so many no further seed is begun")
      ->capture_default_str();
  run->add_option("--db", options.db, "keep what came of each seed (SQLite)")->type_name("FILE");
  run->add_flag("--quiet", options.quiet, "no progress");
  add_reports(run, options.reports, "numbers and failures as JSON");

  CLI::App* replay = app.add_subcommand(
      "replay", "one seed of sim again, byte for byte; or replay FILE.dxgk, a recording");
  replay->add_option("SEED", arguments.replay.seed)->required();
  add_worlds(replay, arguments.replay.worlds);
  replay
      ->add_option("--trace", arguments.replay.trace,
                   "write what happened: text, to FILE.pftrace for Perfetto")
      ->type_name("FILE");
  replay
      ->add_option("--until", arguments.replay.until,
                   "stop at this event: its number, or text of its line in the trace")
      ->type_name("EVENT");
  replay->add_option("--db", arguments.replay.db, "compare with what sim kept there")
      ->type_name("FILE");
  CLI::Option* gdb =
      replay->add_flag("--gdb", arguments.replay.gdb, "under gdb, which stops at that event");
  replay->add_option("--break", arguments.replay.breakpoints, "stop where the driver has this")
      ->type_name("FUNCTION|FILE:LINE")
      ->needs(gdb);
  replay->add_flag("--stop-here", arguments.replay.stop_here)->group("");

  CLI::App* shrink = app.add_subcommand(
      "shrink", "fewest faults, clients and operations with which a seed still fails");
  shrink->add_option("SEED", arguments.shrink.seed)->required();
  add_worlds(shrink, arguments.shrink.worlds);

  CLI::App* diff = app.add_subcommand("diff", "where two traces (text) part");
  diff->add_option("A", arguments.diff_a)->required();
  diff->add_option("B", arguments.diff_b)->required();

  CLI::App* merge = app.add_subcommand("merge", "results of several sim --db into one database");
  merge->add_option("OUT", arguments.merged)->required();
  merge->add_option("IN", arguments.to_merge)->required();
}

std::optional<int> run_simulation(const CLI::App& app, const SimArguments& arguments) {
  if (app.got_subcommand("sim")) return sim_command(arguments.sim);
  if (app.got_subcommand("replay")) return replay_command(arguments.replay);
  if (app.got_subcommand("shrink")) return shrink_command(arguments.shrink);
  if (app.got_subcommand("diff")) return diff_command(arguments.diff_a, arguments.diff_b);
  if (app.got_subcommand("merge")) return merge_command(arguments.merged, arguments.to_merge);
  return std::nullopt;
}

}  // namespace dxgkit::tool
