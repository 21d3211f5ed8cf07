// Text for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dxgkit::tool {

inline constexpr size_t kTextColumns = 100;

/// The text with lines of at most kTextColumns, broken at spaces. The first begins with `first`,
/// the others with `indent`, which is at least as long. A longer word stays whole.
std::string wrapped(std::string_view text, std::string_view first, std::string_view indent);
inline std::string wrapped(std::string_view text, std::string_view indent) {
  return wrapped(text, indent, indent);
}
/// A line of its own, behind an empty one.
std::string heading(std::string_view title);
/// Wrapped behind a dash.
std::string point(std::string_view text);
/// ASCII letters in upper case.
std::string upper(std::string_view text);

}  // namespace dxgkit::tool
