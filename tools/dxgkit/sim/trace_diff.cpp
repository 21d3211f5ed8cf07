#include "tools/dxgkit/sim/trace_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace dxgkit::tool {
namespace {

constexpr size_t kBefore = 5, kAfter = 5;

/// The next line; nothing behind the last.
std::optional<std::string_view> take_line(std::string_view* text) {
  if (text->empty()) return std::nullopt;
  const size_t end = text->find('\n');
  const std::string_view line = text->substr(0, end);
  *text = end == std::string_view::npos ? std::string_view{} : text->substr(end + 1);
  return line;
}

void append(std::string* out, char mark, std::string_view line) {
  *out += mark;
  *out += ' ';
  *out += line;
  *out += '\n';
}

void append_side(std::string* out, char mark, std::optional<std::string_view> line,
                 std::string_view rest) {
  if (!line.has_value()) return append(out, mark, "(ends here)");
  for (size_t i = 0; i <= kAfter && line.has_value(); ++i) {
    append(out, mark, *line);
    line = take_line(&rest);
  }
}

}  // namespace

std::optional<std::string> not_text(std::string_view bytes) {
  const auto control = std::ranges::find_if(bytes, [](char c) {
    return (c >= 0 && c < ' ' && c != '\n' && c != '\t' && c != '\r') || c == '\x7f';
  });
  if (control == bytes.end()) return std::nullopt;
  return fmt::format("not text: byte {} is {:#04x}", control - bytes.begin(), *control);
}

std::optional<Divergence> diverge(std::string_view a, std::string_view b) {
  std::deque<std::string_view> before;
  for (size_t number = 1;; ++number) {
    const auto one = take_line(&a), other = take_line(&b);
    if (!one.has_value() && !other.has_value()) return std::nullopt;
    if (one == other) {
      before.push_back(*one);
      if (before.size() > kBefore) before.pop_front();
      continue;
    }
    Divergence found{number, {}};
    for (const std::string_view line : before) append(&found.text, ' ', line);
    append_side(&found.text, '-', one, a);
    append_side(&found.text, '+', other, b);
    return found;
  }
}

}  // namespace dxgkit::tool
