// Texts that a parser of TOML or JSON must not see.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dxgkit {

/// Why the text is none, a sentence that begins with its line: brackets or dotted keys whose
/// nesting the parser or a destructor would follow recursively, and control characters. Neither
/// format has control characters, and one of the parsers takes a zero for the beginning of a key
/// and gives up.
inline std::optional<std::string> why_no_plain_text(std::string_view text, size_t depth_max) {
  constexpr size_t kDotsMax = 32;  // of one line: dotted keys nest
  size_t depth = 0, dots = 0, line = 1;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t' && c != '\r' && c != '\n') || byte == 0x7F)
      return fmt::format("line {}: a control character ({:#04x}).", line, byte);
    if (c == '\n') {
      ++line;
      dots = 0;
    } else if (c == '.') {
      ++dots;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
    if (depth > depth_max)
      return fmt::format("line {}: brackets nest deeper than {}.", line, depth_max);
    if (dots > kDotsMax) return fmt::format("line {}: more than {} dots.", line, kDotsMax);
  }
  return std::nullopt;
}

}  // namespace dxgkit
