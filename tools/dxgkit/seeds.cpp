#include "tools/dxgkit/seeds.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>

#include "tools/dxgkit/summary.h"

namespace dxgkit::tool {
namespace {

constexpr size_t kWorkersMax = 64;

/// Shared with the child processes. Lock-free atomics work across processes; nothing else is in
/// here.
struct Board {
  std::atomic<uint64_t> taken{0};  // seeds handed out so far
  std::atomic<uint64_t> passed{0}, failed{0};
  std::atomic<uint64_t> working_on[kWorkersMax]{};  // by worker; read after its death
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string replay_command(const RunOptions& options, const Plan& plan, uint64_t seed) {
  std::string command = fmt::format("dxgkit run --mode sim --seed {}", seed);
  if (options.driver != "softgpu") command += " --driver " + quoted(options.driver);
  if (options.model.has_value()) command += " --model " + model_name(*options.model);
  if (options.device.text != "softgpu") command += " --device " + options.device.text;
  if (options.registry.has_value()) command += " --registry " + quoted(*options.registry);
  if (options.special_pool) command += " --special-pool";
  if (options.verifier.has_value()) command += " --verifier " + options.verifier->text;
  if (options.input.has_value()) {
    command += " --input " + quoted(*options.input);
  } else {
    command += fmt::format(" --size {}x{}", plan.width, plan.height);
  }
  if (options.power_plan.has_value()) command += " --power-plan " + quoted(*options.power_plan);
  if (options.vram_bytes.has_value()) command += fmt::format(" --vram {}", *options.vram_bytes);
  return command;
}

/// One seed; empty if it passed, else why not.
std::string run_seed(SessionConfig config, uint64_t seed, const Plan& plan, const Picture& source,
                     const Picture& expected) {
  config.seed = seed;
  const SessionOutcome outcome = run_session(config, plan, source, nullptr);
  for (const PowerDone& done : outcome.power) {
    if (!is_success(done.status))
      return fmt::format("{} answered {}", power_step_name(done.planned.step),
                         status_name(done.status));
  }
  const bool removed = outcome.removed && outcome.message.ends_with("STATUS_DEVICE_REMOVED");
  if (outcome.kind != SessionOutcome::Kind::kRan && !removed) return outcome.message;
  const std::string result = removed ? "identical" : compare(plan, outcome.job, expected);
  if (!result.starts_with("identical")) return "result: " + result;
  for (const verifier::Finding& finding : outcome.findings) {
    if (finding.severity == verifier::Severity::kWarning) continue;
    return fmt::format("finding {} in {}: {}", finding.rule, finding.ddi, finding.actual);
  }
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

  void* shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    fmt::print(stderr, "dxgkit: no memory shared with child processes: {}\n", std::strerror(errno));
    return kExitFailed;
  }
  Board& board = *new (shared) Board;

  // Children share nothing but the board and stderr: one write per line keeps lines whole.
  const auto report = [&](uint64_t seed, const std::string& why) {
    const std::string line = fmt::format("seed {} failed: {}\n  replay: {}\n", seed, why,
                                         replay_command(options, plan, seed));
    static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
  };
  const auto work = [&](size_t worker) {
    while (true) {
      const uint64_t index = board.taken.fetch_add(1);
      if (index >= count) return;
      const uint64_t seed = range.first + index;
      board.working_on[worker].store(seed);
      const std::string why = run_seed(config, seed, plan, source, expected);
      if (why.empty()) {
        board.passed.fetch_add(1);
      } else {
        report(seed, why);
        board.failed.fetch_add(1);
      }
    }
  };

  std::fflush(nullptr);  // else children would print what is buffered again
  std::map<pid_t, size_t> workers;
  bool forked = true;
  const auto start_worker = [&](size_t worker) {
    const pid_t child = fork();
    if (child == 0) {
      work(worker);
      _exit(0);
    }
    if (child < 0) {
      forked = false;
      return;
    }
    workers[child] = worker;
  };
  const auto cpus = static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  for (size_t i = 0; i < std::min({cpus, kWorkersMax, static_cast<size_t>(count)}); ++i)
    start_worker(i);
  while (!workers.empty()) {
    int status = 0;
    const pid_t child = wait(&status);
    const auto found = workers.find(child);
    if (found == workers.end()) continue;
    const size_t worker = found->second;
    workers.erase(found);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    report(board.working_on[worker].load(),
           WIFSIGNALED(status)
               ? fmt::format("the process ended by signal {}", WTERMSIG(status))
               : fmt::format("the process ended with code {}", WEXITSTATUS(status)));
    board.failed.fetch_add(1);
    if (board.taken.load() < count) start_worker(worker);
  }
  const uint64_t passed = board.passed.load();
  const uint64_t failed = board.failed.load();
  munmap(shared, sizeof(Board));
  if (!forked)
    fmt::print(stderr, "dxgkit: a child process could not be started: {}\n", std::strerror(errno));
  fmt::print("seeds {}..{}: {} passed, {} failed ({:.1f} s)\n", range.first, range.last, passed,
             failed, static_cast<double>(clock->now() - began) / 1e9);
  return passed == count ? kExitDone : kExitFailed;
}

}  // namespace dxgkit::tool
