#include "verifier/source_lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace dxgkit::verifier {
namespace {

// The first is what scripts/bootstrap installs.
constexpr const char* kPrograms[] = {"llvm-symbolizer-19", "llvm-symbolizer"};

/// A path as a person would type it.
std::string tidy_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error || !normal.is_absolute()) return normal.string();
  const std::filesystem::path below = normal.lexically_relative(here);
  return below.empty() || *below.begin() == ".." ? normal.string() : below.string();
}

/// Runs a program and gives what it wrote to stdout. None if there is no such program.
std::optional<std::string> output_of(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::string();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string out;
  for (char bytes[4096]; error == 0;) {
    const ssize_t got = read(ends[0], bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    out.append(bytes, static_cast<size_t>(got));
  }
  close(ends[0]);
  if (error != 0) return std::nullopt;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return out;
}

std::atomic<bool> is_missing{false};

/// What is known of each image's addresses. A lock would be a point where a simulated thread may
/// lose the processor, so each thread has its own.
class Symbols {
 public:
  std::vector<SourceFrame> at(const std::string& path, uint64_t rva) {
    const auto key = std::pair(path, rva);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    return known_[key] = is_missing ? std::vector<SourceFrame>() : ask(path, rva);
  }

 private:
  std::vector<SourceFrame> ask(const std::string& path, uint64_t rva) {
    for (const char* const program : kPrograms) {
      const std::optional<std::string> answer =
          output_of({program, "--relative-address", "--output-style=JSON", "--obj=" + path,
                     fmt::format("{:#x}", rva)});
      if (answer.has_value()) return parse_symbols(*answer);
    }
    is_missing = true;
    return {};
  }

  std::map<std::pair<std::string, uint64_t>, std::vector<SourceFrame>> known_;
};

Symbols& symbols() {
  thread_local Symbols all;
  return all;
}

}  // namespace

std::vector<SourceFrame> parse_symbols(std::string_view answer) {
  const auto all = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!all.is_array() || all.empty()) return {};
  std::vector<SourceFrame> frames;
  try {
    for (const auto& symbol : all[0].at("Symbol")) {
      SourceFrame frame{.function = symbol.at("FunctionName"),
                        .file = symbol.at("FileName"),
                        .line = symbol.at("Line"),
                        .begins = symbol.value("StartLine", 0U)};
      // Without debugging information there is the name of a symbol at most, which is known.
      if (frame.file.empty() || frame.file == "??") continue;
      if (frame.function == "??") frame.function.clear();
      frame.file = tidy_path(frame.file);
      frames.push_back(std::move(frame));
    }
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  return frames;
}

std::vector<SourceFrame> source_of(const Place& place) {
  if (place.path.empty()) return {};
  std::vector<SourceFrame> frames =
      symbols().at(place.path, place.after_call && place.rva != 0 ? place.rva - 1 : place.rva);
  if (place.entry && !frames.empty()) {
    // The function, and not what its first instruction does.
    frames.erase(frames.begin(), frames.end() - 1);
    if (frames[0].begins != 0) frames[0].line = frames[0].begins;
  }
  return frames;
}

std::vector<SourceFrame> source_of_frame(const Place& place, const std::string& frame) {
  const std::string prefix = place.image + "+0x";
  if (place.path.empty() || !frame.starts_with(prefix)) return {};
  uint64_t rva = 0;
  const auto [end, error] =
      std::from_chars(frame.data() + prefix.size(), frame.data() + frame.size(), rva, 16);
  if (error != std::errc{} || rva == 0) return {};
  // All but the innermost are return addresses.
  return symbols().at(place.path, rva == place.rva && !place.after_call ? rva : rva - 1);
}

std::string to_text(const SourceFrame& frame) {
  std::string text = frame.function;
  if (frame.file.empty()) return text;
  const std::string line = frame.line == 0 ? "" : fmt::format(":{}", frame.line);
  return text.empty() ? frame.file + line : fmt::format("{} ({}{})", text, frame.file, line);
}

bool symbolizer_is_missing() { return is_missing; }

}  // namespace dxgkit::verifier
