// Whole files in and out, with errors a user can act on.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace dxgkit::tool {

/// The bytes of a regular file. The error is one sentence that begins with the path.
std::expected<std::string, std::string> read_file(const std::string& path);

/// Replaces `path` as a whole: the bytes go to a temporary file beside it, which is then renamed.
/// On failure `path` is as it was and the temporary file is gone.
std::expected<void, std::string> write_file(const std::string& path, std::string_view bytes);

/// Writes an output that an option asks for: to the path, or to stdout for "-"; nothing without the
/// option. False: it could not be written, and stderr says why.
bool write_output(const std::optional<std::string>& path, std::string_view text);

/// Checks that write_file can work: the folder exists and can be written. The error is one sentence
/// that begins with the path.
std::expected<void, std::string> check_writable(const std::string& path);

}  // namespace dxgkit::tool
