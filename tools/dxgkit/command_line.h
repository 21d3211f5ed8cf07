// The words of the command line, before and after CLI11 has read them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

/// Takes "--" and what follows off the arguments: another program with its arguments.
std::vector<std::string> take_program(std::vector<std::string>& arguments);

/// The command line as CLI11 shall read it: `help COMMAND` is `COMMAND --help`, and a report
/// without
/// `=FILE` goes to stdout.
std::vector<std::string> prepared(std::vector<std::string> arguments);

/// The error of a first word that is no command of `app`.
std::optional<std::string> unknown_command(const CLI::App& app,
                                           const std::vector<std::string>& arguments);

/// One line for an error of app.parse. An option that the command does not have comes first,
/// whatever else is wrong.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

/// Adds --json, --sarif and --junit, as far as there are texts for them. They mean the same in all
/// commands: alone they print to stdout, with `=FILE` they write a file.
void add_reports(CLI::App* command, Reports& reports, const char* json, const char* sarif = nullptr,
                 const char* junit = nullptr);

/// Adds --waive and --waivers: rules that are broken on purpose.
void add_waivers(CLI::App* command, WaiverChoice& waivers);

/// Adds --memory and --processors. `memory_help` says how much there is without the option.
void add_machine(CLI::App* command, const std::function<void(uint64_t bytes)>& set_memory,
                 const std::function<void(uint32_t number)>& set_processors,
                 const char* memory_help);
/// The same for what has memory_bytes and processors: MachineOptions, sim::Changes.
template <typename Machine>
void add_machine(CLI::App* command, Machine& machine, const char* memory_help) {
  add_machine(
      command, [&machine](uint64_t bytes) { machine.memory_bytes = bytes; },
      [&machine](uint32_t number) { machine.processors = number; }, memory_help);
}

}  // namespace dxgkit::tool
