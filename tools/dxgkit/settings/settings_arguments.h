// How the file beside a driver comes into the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <expected>
#include <functional>
#include <string>
#include <vector>

namespace dxgkit::tool {

/// Adds --config to every command that takes a driver.
void add_settings(CLI::App& app);

/// Puts the options of the file beside the driver behind those of the command line, where that does
/// not have them itself. What is given on the command line stands above the file.
/// @param arguments  as CLI11 will read them
/// @param app        the parser of the command line
/// @param make_trial makes another one, which tries each value
/// The error is one sentence that begins with the file. Without a file nothing changes; with one, a
/// line on stderr names it.
std::expected<void, std::string> add_settings_file(std::vector<std::string>& arguments,
                                                   const CLI::App& app,
                                                   const std::function<CLI::App&()>& make_trial);

/// True for the path of a registry that is a table of the file: nobody else can read that.
bool is_table_of_settings(const std::string& registry);

}  // namespace dxgkit::tool
