// dxgkit replay, dxgkit shrink, dxgkit diff: one seed, again and again.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/companion_file.h"
#include "base/spelling.h"
#include "tools/dxgkit/child.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/sim/driver_face.h"
#include "tools/dxgkit/sim/results.h"
#include "tools/dxgkit/sim/shrink.h"
#include "tools/dxgkit/sim/sim_options.h"
#include "tools/dxgkit/sim/trace_diff.h"
#include "tools/dxgkit/view/notes.h"
#include "tools/dxgkit/waivers.h"

namespace dxgkit::tool {
namespace {

constexpr int kSeedMsMost = 600'000;
constexpr size_t kLinesBefore = 20;

sim::SeedOptions options_of(const Worlds& worlds, const DriverOfWorlds& driver, uint64_t seed) {
  sim::SeedOptions options;
  options.seed = seed;
  options.canary = worlds.canary;
  options.changes = worlds.changes;
  options.driver = driver.path;
  options.face = driver.face;
  options.waivers = worlds.waivers.list;
  options.trace = true;
  return options;
}

std::string text_of(const trace::Recorder& recorder) {
  return trace::to_text({.events = recorder.events(),
                         .names = recorder.names(),
                         .threads = {},
                         .dropped = recorder.dropped()});
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// The number of the event `until` means; 0: there is none.
uint64_t find_event(const sim::SeedOptions& options, const std::string& until) {
  uint64_t number = 0;
  const char* const end = until.data() + until.size();
  const auto [at, error] = std::from_chars(until.data(), end, number);
  if (error == std::errc{} && at == end) return number;
  // Finds the line with the text. The run up to there repeats. It may end its process, so it runs
  // in a child, which leaves the trace in a file.
  char path[] = "/tmp/dxgkit-replay-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return 0;
  close(file);
  const std::string text_path = std::string(path) + ".txt";
  sim::SeedOptions looking = options;
  looking.trace_path = text_path;
  static_cast<void>(run_in_child(
      [&](Heartbeat&) {
        static_cast<void>(sim::run_seed(looking));
        return 0;
      },
      kSeedMsMost));
  const auto text = read_file(text_path);
  unlink(path);
  unlink(text_path.c_str());
  if (!text.has_value()) return 0;
  const std::vector<std::string_view> lines = lines_of(*text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find(until) != std::string_view::npos) return i + 1;
  }
  return 0;
}

[[noreturn]] void stop_at(const trace::Recorder& recorder, uint64_t event, bool trap) {
  const std::string text = text_of(recorder);
  const std::vector<std::string_view> lines = lines_of(text);
  const size_t first = lines.size() > kLinesBefore ? lines.size() - kLinesBefore : 0;
  for (size_t i = first; i < lines.size(); ++i) fmt::print("{}\n", lines[i]);
  fmt::print("stopped before event {}\n", event);
  std::fflush(stdout);
  // The debugger shows the code that is about to emit it.
  if (trap) static_cast<void>(raise(SIGTRAP));
  _exit(kExitDone);
}

int run_gdb(const ReplayOptions& options, uint64_t event) {
  // The driver is not loaded yet. The kernel answers SIGSEGV of paged memory and of instructions
  // that only a kernel may execute, and reports the rest.
  std::vector<std::string> arguments = {"gdb", "-ex", "set breakpoint pending on", "-ex",
                                        "handle SIGSEGV SIG38 nostop noprint pass"};
  for (const std::string& place : options.breakpoints) {
    arguments.emplace_back("-ex");
    arguments.push_back("break " + place);
  }
  std::string command = fmt::format("exec \"$@\" -ex run --args '{}' replay {}{}", own_program(),
                                    options.seed, options.worlds.as_options());
  if (event != 0) command += fmt::format(" --until {} --stop-here", event);
  std::vector<char*> words = {const_cast<char*>("sh"), const_cast<char*>("-c"), command.data(),
                              const_cast<char*>("sh")};
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  execv("/bin/sh", words.data());
  fmt::print(stderr, "dxgkit: gdb could not be started\n");
  return kExitFailed;
}

}  // namespace

int replay_command(const ReplayOptions& options) {
  const auto driver = driver_of(options.worlds.driver);
  if (!driver.has_value()) return bad_input(driver.error());
  sim::SeedOptions one = options_of(options.worlds, *driver, options.seed);
  uint64_t event = 0;
  if (options.until.has_value()) {
    event = find_event(one, *options.until);
    if (event == 0) {
      fmt::print(stderr, "dxgkit: no event of seed {} has '{}' in its line\n", options.seed,
                 *options.until);
      return kExitBadInput;
    }
  }
  if (options.gdb) return run_gdb(options, event);
  fmt::print("seed {}: {}\n", options.seed, sim::WorldPlan::draw(one).describe());
  std::fflush(stdout);
  one.trace_path = options.trace.value_or("");
  one.stop_at_event = event;
  one.at_stop = [&](const trace::Recorder& recorder) {
    stop_at(recorder, event, options.stop_here);
  };
  std::vector<verifier::Finding> findings;
  const auto told = std::move(one.on_finding);
  one.on_finding = [&](const verifier::Finding& finding) {
    findings.push_back(finding);
    if (told) told(finding);
  };
  one.trace_notes = [&](const sim::SeedOutcome& outcome) {
    return notes_line({{"result", outcome.passed() ? "passed" : "failed: " + outcome.failure},
                       {"driver", driver->path},
                       {"findings", findings_for_page(findings)}});
  };
  const sim::SeedOutcome outcome = sim::run_seed(one);
  fmt::print("{}\n  trace {:016x}, {:.3f} ms simulated\n",
             outcome.passed() ? "passed" : "failed: " + outcome.failure, outcome.trace_hash,
             static_cast<double>(outcome.counters.simulated_ns) / 1e6);
  fmt::print("{}", waivers_text(options.worlds.waivers.list));
  if (event != 0) {
    fmt::print("  it has no event {}\n", event);
    return kExitFailed;
  }
  if (options.db.has_value()) {
    const auto results = Results::open(*options.db);
    if (!results.has_value()) return bad_input(results.error());
    bool found = false, same = false;
    static_cast<void>(results->each([&](const sim::SeedResult& kept) {
      if (kept.seed != options.seed) return;
      found = true;
      same = kept.trace_hash == outcome.trace_hash;
    }));
    fmt::print("  {}\n", !found ? "it is not in the database"
                         : same ? "the trace is the one that was kept"
                                : "the trace is another than the one that was kept");
    if (!same) return kExitFailed;
  }
  return outcome.passed() ? kExitDone : kExitFailed;
}

int shrink_command(const ShrinkOptions& options) {
  const auto driver = driver_of(options.worlds.driver);
  if (!driver.has_value()) return bad_input(driver.error());
  // Each try runs in a process of its own; its failure comes back in shared memory.
  constexpr size_t kTextMost = 4096;
  void* const shared =
      mmap(nullptr, kTextMost, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return kExitFailed;
  auto* const text = static_cast<char*>(shared);
  const auto failure_of = [&](const sim::Changes& changes) -> std::string {
    sim::SeedOptions one = options_of(options.worlds, *driver, options.seed);
    one.changes = changes;
    std::memset(text, 0, kTextMost);
    const ChildEnd end = run_in_child(
        [&](Heartbeat&) {
          std::freopen("/dev/null", "w", stderr);  // a try that dies says so at length
          const sim::SeedOutcome outcome = sim::run_seed(one);
          std::memcpy(text, outcome.failure.data(),
                      std::min(outcome.failure.size(), kTextMost - 1));
          return 0;
        },
        kSeedMsMost);
    if (end.kind == ChildEnd::Kind::kExited && end.code == 0) return text;
    return fmt::format("the process ended ({} {})", static_cast<int>(end.kind), end.code);
  };
  const std::string failure = failure_of(options.worlds.changes);
  if (failure.empty()) {
    fmt::print("seed {} passes: there is nothing to shrink\n", options.seed);
    return kExitBadInput;
  }
  const std::string shape = shape_of(failure);
  const sim::WorldPlan plan =
      sim::WorldPlan::draw(options_of(options.worlds, *driver, options.seed));
  fmt::print("seed {}: {}\n  the world: {}\n", options.seed, failure, plan.describe());
  std::fflush(stdout);
  const Shrunk shrunk = shrink(
      plan, options.worlds.changes,
      [&](const sim::Changes& changes) { return shape_of(failure_of(changes)) == shape; },
      [](const std::string& what) {
        fmt::print("  fails {}\n", what);
        std::fflush(stdout);
      });
  Worlds smaller = options.worlds;
  smaller.changes = shrunk.changes;
  sim::SeedOptions one = options_of(smaller, *driver, options.seed);
  fmt::print("{}; it still says: {}\n  the world: {}\n  replay: dxgkit replay {}{}\n",
             counted(shrunk.tries, "try", "tries"), failure_of(shrunk.changes),
             sim::WorldPlan::draw(one).describe(), options.seed, smaller.as_options());
  munmap(shared, kTextMost);
  return kExitFailed;
}

int diff_command(const std::string& a, const std::string& b) {
  const auto one = read_file(a), other = read_file(b);
  for (const auto& [path, text] : {std::pair(&a, &one), std::pair(&b, &other)}) {
    if (!text->has_value()) return bad_input(text->error());
    if (const auto why = not_text(**text))
      return bad_input(fmt::format("{}: {} (write one with --trace FILE.txt)", *path, *why));
  }
  const std::optional<Divergence> found = diverge(*one, *other);
  if (!found.has_value()) {
    fmt::print("the traces are the same\n");
    return kExitDone;
  }
  fmt::print("they part at line {} (- {}, + {}):\n{}", found->line, a, b, found->text);
  return kExitFailed;
}

}  // namespace dxgkit::tool
