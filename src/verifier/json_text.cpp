#include "verifier/json_text.h"

#include <fmt/format.h>

namespace dxgkit::verifier {
namespace {

/// Bytes of the UTF-8 sequence at the start of `text`; 0 if it is none (also too long a form, or a
/// surrogate).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80            ? 1
                        : first >> 5 == 0b110   ? 2
                        : first >> 4 == 0b1110  ? 3
                        : first >> 3 == 0b11110 ? 4
                                                : 0;
  if (length == 0 || text.size() < length) return 0;
  if (length == 1) return 1;
  uint32_t code = first & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 0b10) return 0;
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
  return length;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
      continue;
    }
    const char c = text.front();
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out.append(text, 0, length);
    }
    text.remove_prefix(length);
  }
  return out + '"';
}

}  // namespace dxgkit::verifier
