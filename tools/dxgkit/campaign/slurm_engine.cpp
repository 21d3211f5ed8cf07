#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <memory>

#include "base/companion_file.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/campaign/engine.h"
#include "tools/dxgkit/campaign/process.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/shell_word.h"

namespace dxgkit::tool::campaign {
namespace {

namespace fs = std::filesystem;

/// A controller answers many users: it is asked this often.
constexpr runtime::DurationNs kAskEvery = 3 * runtime::kSecond;
/// A controller that starts anew does not answer for some time. After that it counts as gone.
constexpr int kRefusalsMost = 20;
constexpr size_t kJobsMost = 1000;

std::string first_line(std::string_view text) {
  return printable(text.substr(0, std::min<size_t>(text.find('\n'), 500)));
}

/// Jobs of the campaign, in the order in which they were submitted. The file may come from anybody.
std::vector<uint64_t> known_jobs(const Folder& folder) {
  std::vector<uint64_t> jobs;
  const auto text = read_file(folder.jobs());
  std::string_view rest = text.has_value() ? std::string_view(*text) : std::string_view();
  while (!rest.empty() && jobs.size() < kJobsMost) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (const auto job = job_of(rest.substr(0, end))) jobs.push_back(*job);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return jobs;
}

/// The job has tasks that run or will. An error: the controller does not answer.
std::expected<bool, std::string> is_queued(uint64_t job) {
  const auto asked =
      run_program({"squeue", "--noheader", "--format=%T", fmt::format("--jobs={}", job)});
  if (!asked.has_value()) return std::unexpected(asked.error());
  // A job that ended a while ago is an error of this text; it is forgotten.
  if (asked->code != 0 && asked->text.find("Invalid job id") != std::string::npos) return false;
  if (asked->code != 0) return std::unexpected(fmt::format("squeue: {}", first_line(asked->text)));
  return asked->text.find_first_not_of(" \n") != std::string::npos;
}

class SlurmEngine : public Engine {
 public:
  explicit SlurmEngine(const EngineOptions& options) : options_(options) {}

  std::expected<void, std::string> begin(const std::vector<uint32_t>& shards) override;
  std::expected<bool, std::string> at_work() override;
  void stop() override { static_cast<void>(cancel_slurm_jobs(options_.folder)); }
  bool lives_on() const override { return true; }

 private:
  const EngineOptions options_;
  const std::unique_ptr<runtime::Runtime> clock_ = runtime::make_os_runtime();
  std::optional<uint64_t> job_;
  runtime::TimeNs asked_ = 0;
  int refusals_ = 0;  // in a row
};

std::expected<void, std::string> SlurmEngine::begin(const std::vector<uint32_t>& shards) {
  // One that an earlier `run` submitted is awaited first. What is missing then is submitted.
  const std::vector<uint64_t> before = known_jobs(options_.folder);
  if (!job_.has_value() && !before.empty()) {
    const auto queued = is_queued(before.back());
    if (!queued.has_value()) return std::unexpected(queued.error());
    if (*queued) {
      job_ = before.back();
      return {};
    }
  }
  const Folder& folder = options_.folder;
  if (folder.path.find('%') != std::string::npos)  // sbatch would replace it in the logs' names
    return std::unexpected(fmt::format("{}: Slurm takes no folder with '%'", folder.path));
  const std::string script =
      slurm_script(own_program(), folder, options_.manifest, options_.scratch);
  if (const auto written = write_file(folder.script(), script); !written)
    return std::unexpected(written.error());
  std::string array = array_of(shards);
  if (options_.jobs != 0) array += fmt::format("%{}", options_.jobs);
  std::vector<std::string> words{"sbatch",
                                 "--parsable",
                                 "--requeue",
                                 "--open-mode=append",
                                 "--job-name=dxgkit",
                                 "--array=" + array,
                                 "--output=" + folder.logs() + "/%7a.txt"};
  words.insert(words.end(), options_.slurm_options.begin(), options_.slurm_options.end());
  words.push_back(folder.script());
  const auto submitted = run_program(words);
  if (!submitted.has_value()) return std::unexpected(submitted.error());
  const auto job = submitted->code == 0 ? job_of(submitted->text) : std::nullopt;
  if (!job.has_value())
    return std::unexpected(fmt::format("sbatch: {}", first_line(submitted->text)));
  job_ = job;
  asked_ = clock_->now();
  std::string jobs;
  for (const uint64_t one : before) jobs += fmt::format("{}\n", one);
  const auto noted = write_file(folder.jobs(), jobs + fmt::format("{}\n", *job));
  if (!noted.has_value()) return std::unexpected(noted.error());
  return {};
}

std::expected<bool, std::string> SlurmEngine::at_work() {
  if (!job_.has_value()) return false;
  if (clock_->now() - asked_ < kAskEvery) return true;
  asked_ = clock_->now();
  const auto queued = is_queued(*job_);
  if (queued.has_value()) {
    refusals_ = 0;
    return *queued;
  }
  if (++refusals_ > kRefusalsMost) return std::unexpected(queued.error());
  return true;
}

}  // namespace

std::string array_of(const std::vector<uint32_t>& shards) {
  std::string text;
  for (size_t i = 0; i < shards.size();) {
    size_t end = i + 1;
    while (end < shards.size() && shards[end] == shards[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", shards[i] + 1);
    if (end - i > 1) text += fmt::format("-{}", shards[end - 1] + 1);
    i = end;
  }
  return text;
}

std::optional<uint64_t> job_of(std::string_view text) {
  uint64_t job = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, job);
  const bool over = at == end || *at == ';' || *at == '\n';
  return error == std::errc{} && over && job != 0 ? std::optional(job) : std::nullopt;
}

std::string slurm_script(const std::string& program, const Folder& folder, const Manifest& manifest,
                         const std::string& scratch) {
  std::string line = fmt::format("exec {} campaign shard {} --shard \"$SLURM_ARRAY_TASK_ID/{}\"",
                                 shell_word(program), shell_word(folder.path), manifest.shards);
  if (!scratch.empty()) line += " --scratch " + shell_word(scratch);
  return "#!/bin/sh\n# A task of a campaign: the shard that Slurm asks for.\n" + line + "\n";
}

std::expected<size_t, std::string> cancel_slurm_jobs(const Folder& folder) {
  size_t cancelled = 0;
  for (const uint64_t job : known_jobs(folder)) {
    const auto queued = is_queued(job);
    if (!queued.has_value()) return std::unexpected(queued.error());
    if (!*queued) continue;
    const auto done = run_program({"scancel", fmt::format("{}", job)});
    if (!done.has_value()) return std::unexpected(done.error());
    if (done->code != 0) return std::unexpected(fmt::format("scancel: {}", first_line(done->text)));
    ++cancelled;
  }
  return cancelled;
}

std::unique_ptr<Engine> slurm_engine(const EngineOptions& options) {
  return std::make_unique<SlurmEngine>(options);
}

}  // namespace dxgkit::tool::campaign
