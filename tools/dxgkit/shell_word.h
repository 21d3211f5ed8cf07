// One word of a shell's line, readable where it needs no quotes.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

inline std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "-_./=,:+@%";
  const bool plain = !text.empty() && std::ranges::all_of(text, [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x80 && (std::isalnum(byte) != 0 || kPlain.find(c) != std::string_view::npos);
  });
  return plain ? text : shell_quoted(text);
}

}  // namespace dxgkit::tool
