#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "tools/dxgkit/campaign/campaign_options.h"
#include "tools/dxgkit/campaign/manifest.h"
#include "tools/dxgkit/command_line.h"

namespace dxgkit::tool {
namespace {

/// Actions that take an option; the others refuse it.
const std::map<std::string_view, std::vector<std::string_view>> kActionsOf = {
    {"--driver", {"run"}},  {"--seeds", {"run"}},        {"--work", {"run"}},
    {"--shards", {"run"}},  {"--engine", {"run"}},       {"--jobs", {"run"}},
    {"--retries", {"run"}}, {"--slurm-option", {"run"}}, {"--scratch", {"run", "shard"}},
    {"--shard", {"shard"}}, {"--again", {"shard"}},      {"--json", {"run", "status", "report"}},
};

}  // namespace

void add_campaign(CLI::App& app, CampaignOptions& options) {
  CLI::App* command = app.add_subcommand(
      "campaign", "many seeds as many tasks, here or on a cluster: run, status, stop, report");
  command
      ->add_option("ACTION", options.action,
                   "run: begin a campaign, or go on with one; status: how far it is; stop: end its "
                   "tasks; report: what came of its seeds; shard: one task, which the others begin")
      ->required()
      ->check(CLI::IsMember({"run", "status", "stop", "report", "shard"}));
  command->add_option("FOLDER", options.folder, "where its files are (campaign)");
  command->add_option("--driver", options.driver, "softgpu, or the path of a driver (.sys or .so)");
  command
      ->add_option("--work", options.work,
                   "what runs a seed: sim: worlds around a driver for softgpu; verify: the steps "
                   "of verify, in simulation, for any driver; fuzz: hostile processes (sim)")
      ->check(CLI::IsMember({"sim", "verify", "fuzz"}));
  command
      ->add_option_function<std::string>(
          "--seeds",
          [&options](const std::string& text) {
            const auto seeds = sim::parse_seeds(text);
            if (!seeds.has_value() || seeds->last > campaign::kSeedMost)
              throw CLI::ValidationError("--seeds is a number or FIRST..LAST");
            options.seeds = *seeds;
          },
          "FIRST..LAST, of a campaign that begins")
      ->type_name("A..B");
  command
      ->add_option("--shards", options.shards,
                   "parts of the seeds, a task each (as many as the seeds call for)")
      ->check(CLI::Range(1U, campaign::kShardsMost));
  command
      ->add_option("--engine", options.engine,
                   "where tasks run: local: processes here; slurm: an array job of Slurm; none: "
                   "elsewhere, by `campaign shard` (local)")
      ->check(CLI::IsMember({"local", "slurm", "none"}));
  command
      ->add_option("--jobs", options.jobs,
                   "tasks at once (local: as many as processors; slurm: what Slurm permits)")
      ->check(CLI::Range(1U, 10'000U));
  command->add_option("--retries", options.retries, "of tasks that are lost")
      ->check(CLI::Range(0U, 1000U))
      ->capture_default_str();
  command
      ->add_option("--slurm-option", options.slurm_options,
                   "for sbatch, like --partition=long; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("OPTION");
  command->add_option(
      "--scratch", options.scratch,
      "folder for databases that tasks are writing, on a disk of the task's machine "
      "(the campaign's folder)");
  command->add_option("--shard", options.shard, "which task")->type_name("I/N");
  command->add_flag("--again", options.again, "run it though its results are there, and compare");
  add_reports(command, options.reports, "how far it is, or what came of its seeds, as JSON");
  command->footer(
      "Words behind -- are options of the command that runs the seeds: dxgkit campaign run --seeds "
      "1..1000 -- --faults none. See docs/campaigns.md.");
  command->callback([command, &options] {
    for (const CLI::Option* option : command->get_options()) {
      const std::string name = option->get_name();
      const auto found = kActionsOf.find(name);
      if (found == kActionsOf.end() || option->count() == 0) continue;
      if (std::ranges::find(found->second, options.action) == found->second.end())
        throw CLI::ValidationError(fmt::format("campaign {} takes no {}", options.action, name));
    }
    if (options.action == "shard" && options.shard.empty())
      throw CLI::ValidationError("campaign shard: which one? --shard I/N is required");
    if (options.action != "run" && !options.passed.empty())
      throw CLI::ValidationError(
          fmt::format("campaign {} takes no words behind --", options.action));
  });
}

}  // namespace dxgkit::tool
