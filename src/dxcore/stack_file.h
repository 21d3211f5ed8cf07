// The file that DXGKIT_STACK names: which machine and which driver the kernel inside this process
// has.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "dxgkit/stack.h"

namespace dxgkit::dxcore {

struct StackFile {
  StackOptions options;
  AdapterOptions adapter;
  std::string driver;    // the path of an image
  std::string findings;  // the file that findings are appended to; empty: standard error
};

/// @param text    TOML; docs/clients.md lists the keys.
/// @param folder  where relative paths begin, without a slash at its end.
/// The error is one sentence that names the key or the line.
std::expected<StackFile, std::string> parse_stack_file(std::string_view text,
                                                       const std::string& folder);

/// Reads and parses a file.
std::expected<StackFile, std::string> read_stack_file(const std::string& path);

}  // namespace dxgkit::dxcore
