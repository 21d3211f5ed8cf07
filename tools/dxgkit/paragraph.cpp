#include "tools/dxgkit/paragraph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace dxgkit::tool {

std::string wrapped(std::string_view text, std::string_view first, std::string_view indent) {
  std::string out;
  std::string line(first);
  bool has_word = false;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(' ', begin);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view word = text.substr(begin, end - begin);
    if (has_word && line.size() + 1 + word.size() > kTextColumns) {
      out += line + "\n";
      line = indent;
      has_word = false;
    }
    if (has_word) line += ' ';
    line += word;
    has_word = true;
    begin = end + 1;
  }
  return out + line + "\n";
}

std::string heading(std::string_view title) { return fmt::format("\n{}\n", title); }

std::string point(std::string_view text) { return wrapped(text, "  - ", "    "); }

std::string upper(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

}  // namespace dxgkit::tool
