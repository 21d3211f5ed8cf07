#include "dxgk/core/registry_texts.h"

#include <algorithm>
#include <cstring>

namespace dxgkit::dxgk {
namespace {

std::u16string text_of(const nt::RegistryValue& value) {
  std::u16string text(value.data.size() / sizeof(char16_t), u'\0');
  std::memcpy(text.data(), value.data.data(), text.size() * sizeof(char16_t));
  return text;
}

std::u16string up_to_terminator(std::u16string_view text) {
  return std::u16string(text.substr(0, text.find(u'\0')));
}

}  // namespace

std::optional<std::u16string> registry_text(nt::Kernel& kernel, std::u16string_view key,
                                            std::u16string_view name) {
  const std::optional<nt::RegistryValue> value = nt::registry_value(kernel, key, name);
  if (!value.has_value()) return std::nullopt;
  if (value->type != nt::kRegSz && value->type != nt::kRegExpandSz && value->type != nt::kRegBinary)
    return std::nullopt;
  return up_to_terminator(text_of(*value));
}

std::vector<std::u16string> registry_texts(nt::Kernel& kernel, std::u16string_view key,
                                           std::u16string_view name) {
  const std::optional<nt::RegistryValue> value = nt::registry_value(kernel, key, name);
  std::vector<std::u16string> texts;
  if (!value.has_value()) return texts;
  const std::u16string whole = text_of(*value);
  std::u16string_view rest = whole;
  if (value->type == nt::kRegSz) return {up_to_terminator(rest)};
  if (value->type != nt::kRegMultiSz) return texts;
  while (!rest.empty() && rest.front() != u'\0') {
    texts.push_back(up_to_terminator(rest));
    rest.remove_prefix(std::min(rest.size(), texts.back().size() + 1));
  }
  return texts;
}

std::optional<uint32_t> registry_number(nt::Kernel& kernel, std::u16string_view key,
                                        std::u16string_view name) {
  const std::optional<nt::RegistryValue> value = nt::registry_value(kernel, key, name);
  uint32_t number = 0;
  if (!value.has_value() || value->type != nt::kRegDword || value->data.size() != sizeof number)
    return std::nullopt;
  std::memcpy(&number, value->data.data(), sizeof number);
  return number;
}

std::optional<uint64_t> parse_version(std::u16string_view text) {
  uint64_t version = 0;
  for (int part = 0; part < 4; ++part) {
    const size_t end = part == 3 ? text.size() : text.find(u'.');
    if (end == std::u16string_view::npos || end == 0 || end > 5) return std::nullopt;
    uint64_t number = 0;
    for (const char16_t digit : text.substr(0, end)) {
      if (digit < u'0' || digit > u'9') return std::nullopt;
      number = number * 10 + (digit - u'0');
    }
    if (number > UINT16_MAX) return std::nullopt;
    version = version << 16 | number;
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return version;
}

}  // namespace dxgkit::dxgk
