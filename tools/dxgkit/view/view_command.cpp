// dxgkit view: the page of a trace.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <expected>
#include <filesystem>
#include <vector>

#include "runtime/interrupt.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/report.h"
#include "tools/dxgkit/sim/trace_diff.h"
#include "tools/dxgkit/view/notes.h"
#include "tools/dxgkit/view/page_server.h"
#include "tools/dxgkit/view/view_options.h"
#include "trace/trace.h"

namespace dxgkit::tool {
namespace {

namespace fs = std::filesystem;

/// The trace that a path means: the file, or the only text file in the folder.
std::expected<std::string, std::string> trace_path(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (entry.path().extension() == ".txt" && entry.is_regular_file(error))
      found.push_back(entry.path().string());
  std::ranges::sort(found);
  if (found.size() == 1) return found[0];
  if (found.empty())
    return std::unexpected(fmt::format("{}: the folder has no trace as text, FILE.txt", path));
  return std::unexpected(fmt::format("{}: the folder has {} text files; name one, like {}", path,
                                     found.size(), found[0]));
}

struct Run {
  std::string path, text;
  trace::Recording recording;
  nlohmann::ordered_json notes;
};

std::expected<Run, std::string> read_run(const std::string& named) {
  const auto path = trace_path(named);
  if (!path.has_value()) return std::unexpected(path.error());
  auto text = read_file(*path);
  if (!text.has_value()) return std::unexpected(text.error());
  nlohmann::ordered_json notes = take_notes(&*text);
  auto recording = trace::from_text(*text);
  if (!recording.has_value())
    return std::unexpected(
        fmt::format("{}: {} (write one with --trace FILE.txt)", *path, recording.error()));
  if (recording->events.empty()) return std::unexpected(*path + ": the trace has no events");
  // Texts have no names of threads.
  constexpr uint32_t kThreadsMost = 65536;
  uint32_t last = 0;
  for (const trace::Event& event : recording->events) last = std::max(last, event.thread);
  for (uint32_t thread = 0; thread <= std::min(last, kThreadsMost); ++thread)
    recording->threads.push_back(fmt::format("thread {}", thread));
  return Run{.path = *path,
             .text = std::move(*text),
             .recording = std::move(*recording),
             .notes = std::move(notes)};
}

/// The time at the beginning of a line, from 1; nothing behind the last one.
std::optional<int64_t> time_of_line(std::string_view text, size_t line) {
  for (; line > 1; --line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    text.remove_prefix(end + 1);
  }
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  int64_t time = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), time);
  if (error != std::errc()) return std::nullopt;
  return time;
}

nlohmann::ordered_json comparison(const Run& a, const Run& b) {
  nlohmann::ordered_json told{{"a", fs::path(a.path).filename().string()},
                              {"b", fs::path(b.path).filename().string()}};
  if (told["a"] == told["b"]) {
    told["a"] = a.path;
    told["b"] = b.path;
  }
  const std::optional<Divergence> found = diverge(a.text, b.text);
  if (!found.has_value()) return told;
  const auto time = [&found](const Run& run) -> nlohmann::ordered_json {
    const std::optional<int64_t> at = time_of_line(run.text, found->line);
    return at.has_value() ? nlohmann::ordered_json(*at) : nlohmann::ordered_json();
  };
  told["difference"] = {
      {"line", found->line}, {"text", found->text}, {"a_ns", time(a)}, {"b_ns", time(b)}};
  return told;
}

int serve_page(const std::string& page, uint16_t port) {
  runtime::catch_interrupts();
  const auto runtime = runtime::make_os_runtime(1);
  int code = kExitDone;
  runtime->run_main([&] {
    auto server = PageServer::listen(port);
    if (!server.has_value()) {
      code = bad_input(server.error());
      return;
    }
    fmt::print("{}\n", server->address());
    std::fflush(stdout);
    server->serve(*runtime, page, runtime::interrupt_fd());
  });
  return code;
}

}  // namespace

int view_command(const ViewOptions& options) {
  auto run = read_run(options.run);
  if (!run.has_value()) return bad_input(run.error());
  nlohmann::ordered_json told = std::move(run->notes);
  told["name"] = fs::path(run->path).filename().string();
  std::optional<Run> other;
  if (options.compare.has_value()) {
    auto second = read_run(*options.compare);
    if (!second.has_value()) return bad_input(second.error());
    other = std::move(*second);
    told["compare"] = comparison(*run, *other);
  }
  run->text = std::string();  // as large as the recording, and not needed any more
  if (other.has_value()) other->text = std::string();
  const std::string output =
      options.output.value_or(fs::path(run->path).replace_extension(".html").string());
  const std::string page =
      make_report(run->recording, told, other.has_value() ? &other->recording : nullptr);
  if (options.serve.has_value()) return serve_page(page, *options.serve);
  if (!write_output(output, page)) return kExitNotWritten;
  if (output != kToStdout) fmt::print("wrote {}: open it in a browser\n", output);
  return kExitDone;
}

}  // namespace dxgkit::tool
