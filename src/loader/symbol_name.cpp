#include "loader/symbol_name.h"

#include <algorithm>

namespace dxgkit::loader {

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

std::string readable_name(std::string_view name) {
  if (name.size() < 2 || name[0] != '?' || name[1] == '?') return printable(name);
  std::string decorated(name.substr(1));
  std::ranges::replace(decorated, '~', '@');
  const size_t end = decorated.find("@@");
  if (end == std::string::npos) return printable(name);
  std::string out;
  std::string_view parts = std::string_view(decorated).substr(0, end);
  while (!parts.empty()) {
    const size_t at = parts.find('@');
    const std::string_view part = parts.substr(0, at);
    std::string scope(part.starts_with("?A") ? "(anonymous)" : part);
    out = out.empty() ? scope : scope + "::" + out;
    parts = at == std::string_view::npos ? std::string_view() : parts.substr(at + 1);
  }
  return printable(out);
}

}  // namespace dxgkit::loader
