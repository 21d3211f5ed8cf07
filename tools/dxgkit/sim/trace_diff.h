// The first difference of two traces. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dxgkit::tool {

struct Divergence {
  size_t line = 0;   // from 1: the first that differs
  std::string text;  // the lines before it, then both sides, marked as in a diff
};
/// Why bytes are no text, or nothing if they are. Text has no control characters but tabs and ends
/// of lines.
std::optional<std::string> not_text(std::string_view bytes);
/// Compares any text line by line. Nothing if the two are equal.
std::optional<Divergence> diverge(std::string_view a, std::string_view b);

}  // namespace dxgkit::tool
