#include "tools/dxgkit/attach/attach.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/companion_file.h"
#include "base/spelling.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/shell_word.h"

namespace dxgkit::tool {
namespace {

using nlohmann::json;

struct FoundFinding {
  std::string rule, actual;
};

std::string text_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void add_findings(const json& list, std::vector<FoundFinding>& all) {
  if (!list.is_array()) return;
  for (const json& one : list) {
    if (!one.is_object() || text_at(one, "severity") == "warning" ||
        !text_at(one, "because_of").empty() || !text_at(one, "waived").empty())
      continue;
    all.push_back({text_at(one, "rule"), text_at(one, "actual")});
  }
}

/// Of a report of `check`, worst first, or of `verify`, in their order.
std::vector<FoundFinding> findings_in(const json& report) {
  std::vector<FoundFinding> all;
  if (const auto wrong = report.find("wrong"); wrong != report.end()) {
    add_findings(*wrong, all);
  } else if (const auto steps = report.find("steps"); steps != report.end() && steps->is_array()) {
    for (const json& step : *steps) {
      if (step.is_object()) add_findings(step.value("findings", json::array()), all);
    }
  }
  return all;
}

/// The words of a shell's line. Nothing for quotes that do not end.
std::optional<std::vector<std::string>> words_in(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false, any = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\'') {
      inside = !inside;
      any = true;
    } else if (!inside && c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      any = true;
    } else if (!inside && c == ' ') {
      if (any) words.push_back(std::move(word));
      word.clear();
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  if (inside) return std::nullopt;
  if (any) words.push_back(std::move(word));
  return words;
}

bool is_rule_id(std::string_view text) {
  return !text.empty() && text.size() <= 32 && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-';
  });
}

/// With many seeds a finding names its own.
std::optional<uint64_t> seed_in(std::string_view actual) {
  constexpr std::string_view kBefore = " That was with seed ";
  const size_t at = actual.rfind(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  const char* const begin = actual.data() + at + kBefore.size();
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(begin, actual.data() + actual.size(), seed);
  return error == std::errc{} ? std::optional(seed) : std::nullopt;
}

/// The words behind `dxgkit`, for one run in one process.
std::vector<std::string> one_run(const std::vector<std::string>& command, std::string_view actual) {
  std::vector<std::string> words = {"verify", "--in-process"};
  const std::optional<uint64_t> seed = seed_in(actual);
  for (size_t i = 2; i < command.size(); ++i) {
    const bool series = command[i] == "--seeds" || command[i] == "--thorough";
    const bool has_value = command[i] == "--seeds";
    if (series || (seed.has_value() && (command[i] == "--seed" || command[i] == "--mode"))) {
      if (has_value || !series) ++i;
      continue;
    }
    words.push_back(command[i]);
  }
  if (seed.has_value()) {
    for (const std::string& more : {std::string("--mode"), std::string("sim"),
                                    std::string("--seed"), fmt::format("{}", *seed)})
      words.push_back(more);
  }
  return words;
}

std::string gdb_script() {
  std::error_code error;
  const std::string script =
      find_companion({"dxgkit.py", DXGKIT_GDB_FROM_TOOL, {DXGKIT_GDB_SOURCE}});
  return std::filesystem::exists(script, error) ? script : "";
}

}  // namespace

std::expected<std::string, std::string> attach_line(std::string_view report,
                                                    const AttachOptions& options,
                                                    const std::string& tool,
                                                    const std::string& script) {
  const json parsed = json::parse(report, nullptr, /*allow_exceptions=*/false);
  const auto words = parsed.is_object() ? words_in(text_at(parsed, "command")) : std::nullopt;
  if (!words.has_value() || words->size() < 3 || (*words)[0] != "dxgkit" || (*words)[1] != "verify")
    return std::unexpected("it is no report: `dxgkit check --json=FILE` writes one");
  const std::vector<FoundFinding> all = findings_in(parsed);
  if (all.empty()) return std::unexpected("nothing is wrong in it");
  auto found = all.begin();
  if (options.rule.has_value()) {
    found = std::ranges::find(all, *options.rule, &FoundFinding::rule);
    if (found == all.end()) {
      const std::string meant = did_you_mean(
          *options.rule, all, [](const FoundFinding& one) -> std::string_view { return one.rule; });
      return std::unexpected(fmt::format("it has no finding of {}{}", *options.rule, meant));
    }
  }
  if (!is_rule_id(found->rule)) return std::unexpected("it is no report: a finding has no rule");
  std::vector<std::string> line;
  // The first argument of the function that every finding passes is the rule.
  if (options.lldb) {
    line = {"lldb",
            "-o",
            fmt::format("breakpoint set -n dxgkit_finding -c '(int)strcmp((char*)$rdi, \"{}\") == "
                        "0'",
                        found->rule),
            "-o",
            "process launch --stop-at-entry",
            "-o",
            "process handle SIGSEGV SIG38 --stop false --notify false --pass true",
            "-o",
            "continue",
            "--",
            tool};
  } else {
    line = {"gdb",
            "-ex",
            "set breakpoint pending on",
            "-ex",
            "handle SIGSEGV SIG38 nostop noprint pass",
            "-ex",
            fmt::format("break dxgkit_finding if $_streq((char*) $rdi, \"{}\")", found->rule)};
    if (!script.empty()) line.insert(line.end(), {"-x", script});
    line.insert(line.end(), {"-ex", "run", "--args", tool});
  }
  for (std::string& word : one_run(*words, found->actual)) line.push_back(std::move(word));
  std::string text;
  for (const std::string& word : line) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

int attach_command(const AttachOptions& options) {
  const std::expected<std::string, std::string> report = read_file(options.report);
  if (!report.has_value()) return bad_input(report.error());
  const auto line = attach_line(*report, options, own_program(), gdb_script());
  if (!line.has_value()) return bad_input(fmt::format("{}: {}", options.report, line.error()));
  say(stdout, "{}\n", *line);
  return kExitDone;
}

}  // namespace dxgkit::tool
