// Whole files in and out, with errors a user can act on.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace dxgkit::tool {

/// The bytes of a regular file. The error is one sentence that begins with the path.
std::expected<std::string, std::string> read_file(const std::string& path);

/// Replaces `path` as a whole: the bytes go to a temporary file beside it, which is then renamed.
/// On failure `path` is as it was and the temporary file is gone.
std::expected<void, std::string> write_file(const std::string& path, std::string_view bytes);

/// The path that an output's option has when it is given alone.
inline constexpr std::string_view kToStdout = "-";

/// Writes an output that an option asks for: to the path, or to stdout for "-"; nothing without the
/// option. False: it could not be written, and stderr says why.
bool write_output(const std::optional<std::string>& path, std::string_view text);

/// Checks that write_file can work, by making its temporary file and removing it again. Nothing is
/// left, and `path` is as it was. The error is one sentence that begins with the path.
std::expected<void, std::string> check_writable(const std::string& path);

/// As fmt::print, but without an exception if the text cannot be written. For code that runs in a
/// runtime, and for processes of their own; exit_code_of_output tells of it at the end.
template <typename... Values>
void say(std::FILE* out, fmt::format_string<Values...> format, Values&&... values) {
  const std::string text = fmt::format(format, std::forward<Values>(values)...);
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), out));
}

/// At the end of a process: `code`, or kExitNotWritten and a line on stderr if text for stdout was
/// lost.
int exit_code_of_output(int code);

}  // namespace dxgkit::tool
