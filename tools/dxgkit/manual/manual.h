// Man pages and completions, made from the command line that the tool itself parses.
#pragma once

#include <CLI/CLI.hpp>
#include <expected>
#include <string>
#include <vector>

namespace dxgkit::tool {

/// A command as a person sees it.
struct ManualCommand {
  std::string name;
  /// The parser's commands behind it. The first has its description. Further ones, which are
  /// hidden, take over for other arguments, as the replay of a recording does for `replay`.
  std::vector<const CLI::App*> forms;
};

/// The commands of `app` that are not hidden, in the order of its help.
std::vector<ManualCommand> manual_commands(const CLI::App& app);

/// A man page in roff: of one command, or with `command` null of the whole tool.
std::string man_page(const CLI::App& app, const std::string& version, const ManualCommand* command);

std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);
std::string fish_completion(const CLI::App& app);

/// Writes man1/dxgkit.1, man1/dxgkit-COMMAND.1, bash/dxgkit, zsh/_dxgkit and fish/dxgkit.fish below
/// `folder`, which it makes. The error is one line.
std::expected<void, std::string> write_manual(const CLI::App& app, const std::string& version,
                                              const std::string& folder);

}  // namespace dxgkit::tool
