#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/companion_file.h"
#include "sim/process_pool.h"
#include "tools/dxgkit/campaign/engine.h"
#include "tools/dxgkit/campaign/process.h"

namespace dxgkit::tool::campaign {
namespace {

/// A task ends its own process first.
constexpr int kTasksEndMs = 15'000;

class LocalEngine : public Engine {
 public:
  explicit LocalEngine(const EngineOptions& options)
      : options_(options), jobs_(sim::workers_for(options.jobs)) {}

  std::expected<void, std::string> begin(const std::vector<uint32_t>& shards) override {
    waiting_ = shards;
    std::ranges::reverse(waiting_);  // the next one is last
    return {};
  }

  std::expected<bool, std::string> at_work() override {
    drop_ended();
    while (tasks_.size() < jobs_ && !waiting_.empty()) {
      const uint32_t shard = waiting_.back();
      auto task =
          Process::start(task_words(options_.folder, options_.manifest, shard, options_.scratch),
                         {}, options_.folder.log_of(shard), SIGTERM);
      if (!task.has_value()) return std::unexpected(task.error());
      waiting_.pop_back();
      tasks_.emplace(shard, std::move(*task));
    }
    return !tasks_.empty();
  }

  void stop() override {
    waiting_.clear();
    for (const auto& [shard, task] : tasks_) task.signal(SIGTERM);
    for (int ms = 0; ms < kTasksEndMs && !tasks_.empty(); ms += kLookMs) {
      static_cast<void>(wait_or_interrupt(kLookMs));
      drop_ended();
    }
    tasks_.clear();  // kills
  }

  bool lives_on() const override { return false; }

 private:
  void drop_ended() {
    for (auto at = tasks_.begin(); at != tasks_.end();)
      at = at->second.end().has_value() ? tasks_.erase(at) : std::next(at);
  }

  const EngineOptions options_;
  const size_t jobs_;
  std::vector<uint32_t> waiting_;
  std::map<uint32_t, Process> tasks_;  // by shard
};

}  // namespace

std::vector<std::string> task_words(const Folder& folder, const Manifest& manifest, uint32_t shard,
                                    const std::string& scratch) {
  std::vector<std::string> words{
      own_program(), "campaign", "shard",
      folder.path,      "--shard",  fmt::format("{}/{}", shard + 1, manifest.shards)};
  if (!scratch.empty()) words.insert(words.end(), {"--scratch", scratch});
  return words;
}

std::unique_ptr<Engine> local_engine(const EngineOptions& options) {
  return std::make_unique<LocalEngine>(options);
}

}  // namespace dxgkit::tool::campaign
