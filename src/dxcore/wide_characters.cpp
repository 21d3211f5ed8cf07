#include "dxcore/wide_characters.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace dxgkit::dxcore {
namespace {

/// A structure with texts of fixed length: bytes, then characters, as often as there are texts.
struct Layout {
  KMTQUERYADAPTERINFOTYPE type;
  size_t bytes;   // of the structure with two-byte characters
  size_t before;  // bytes before the first text
  size_t characters;
  size_t texts;  // one behind the other
};

constexpr auto kLayouts = std::to_array<Layout>({
    {KMTQAITYPE_UMDRIVERNAME, sizeof(D3DKMT_UMDFILENAMEINFO), 4, 260, 1},
    {KMTQAITYPE_UMOPENGLINFO, sizeof(D3DKMT_OPENGLINFO), 0, 260, 1},
    {KMTQAITYPE_ADAPTERREGISTRYINFO, sizeof(D3DKMT_ADAPTERREGISTRYINFO), 0, 260, 4},
    {KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER, sizeof(D3DKMT_ADAPTERREGISTRYINFO), 0, 260, 4},
    {KMTQAITYPE_DLIST_DRIVER_NAME, sizeof(D3DKMT_DLIST_DRIVER_NAME), 0, 260, 1},
    {KMTQAITYPE_CPDRIVERNAME, sizeof(D3DKMT_CPDRIVERNAME), 0, 260, 1},
    {KMTQAITYPE_NODEMETADATA, sizeof(D3DKMT_NODEMETADATA), 8, 32, 1},
    {KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID, sizeof(D3DKMT_QUERY_ADAPTER_UNIQUE_GUID), 0, 40, 1},
    {KMTQUITYPE_GPUVERSION, sizeof(D3DKMT_GPUVERSION), 4, 32, 2},
    {KMTQAITYPE_DRIVER_DESCRIPTION, sizeof(D3DKMT_DRIVER_DESCRIPTION), 0, 4096, 1},
    {KMTQAITYPE_DRIVER_DESCRIPTION_RENDER, sizeof(D3DKMT_DRIVER_DESCRIPTION), 0, 4096, 1},
});

const Layout* layout_of(KMTQUERYADAPTERINFOTYPE type) {
  const auto* const found = std::ranges::find(kLayouts, type, &Layout::type);
  return found == kLayouts.end() ? nullptr : found;
}

constexpr size_t kNameBefore = offsetof(D3DDDI_QUERYREGISTRY_INFO, ValueName);
constexpr size_t kNameCharacters = sizeof(D3DDDI_QUERYREGISTRY_INFO::ValueName) / 2;
constexpr size_t kNumbers = offsetof(D3DDDI_QUERYREGISTRY_INFO, OutputDword) -
                            offsetof(D3DDDI_QUERYREGISTRY_INFO, ValueType);
constexpr size_t kWideOutput = kNameBefore + 4 * kNameCharacters + kNumbers;
constexpr size_t kOutput = offsetof(D3DDDI_QUERYREGISTRY_INFO, OutputDword);
constexpr size_t kOutputMin = sizeof(D3DDDI_QUERYREGISTRY_INFO) - kOutput;

/// REG_SZ, REG_EXPAND_SZ and REG_MULTI_SZ are texts.
bool is_text(ULONG value_type) { return value_type == 1 || value_type == 2 || value_type == 7; }

template <typename Char>
std::vector<Char> characters_at(std::span<const std::byte> data, size_t offset, size_t count) {
  std::vector<Char> all(count);
  std::memcpy(all.data(), data.data() + offset, count * sizeof(Char));
  return all;
}

}  // namespace

size_t widen(std::span<const char16_t> from, std::span<char32_t> to) {
  size_t written = 0;
  for (size_t i = 0; i < from.size() && written < to.size(); ++i) {
    char32_t character = from[i];
    const bool high = character >= 0xD800 && character < 0xDC00;
    if (high && i + 1 < from.size() && from[i + 1] >= 0xDC00 && from[i + 1] < 0xE000) {
      character = 0x10000 + ((character - 0xD800) << 10) + (from[i + 1] - 0xDC00u);
      ++i;
    }
    to[written++] = character;
  }
  std::ranges::fill(to.subspan(written), U'\0');
  return written;
}

bool narrow(std::span<const char32_t> from, std::span<char16_t> to) {
  while (!from.empty() && from.back() == 0) from = from.first(from.size() - 1);
  size_t written = 0;
  for (const char32_t character : from) {
    const size_t units = character >= 0x10000 ? 2 : 1;
    if (character > 0x10FFFF || written + units > to.size()) return false;
    if (units == 2) {
      to[written++] = static_cast<char16_t>(0xD800 + ((character - 0x10000) >> 10));
      to[written++] = static_cast<char16_t>(0xDC00 + ((character - 0x10000) & 0x3FF));
    } else {
      to[written++] = static_cast<char16_t>(character);
    }
  }
  std::ranges::fill(to.subspan(written), u'\0');
  return true;
}

bool WideQuery::is_wide(KMTQUERYADAPTERINFOTYPE type, size_t bytes) {
  if (type == KMTQAITYPE_QUERYREGISTRY) return bytes >= kWideOutput + kOutputMin;
  const Layout* const layout = layout_of(type);
  return layout != nullptr && bytes == layout->bytes + 2 * layout->characters * layout->texts;
}

void WideQuery::add_registry_parts(std::span<const std::byte> wide) {
  D3DDDI_QUERYREGISTRY_INFO numbers;
  std::memcpy(&numbers.ValueType, wide.data() + kWideOutput - kNumbers, kNumbers);
  const size_t room = wide.size() - kWideOutput;
  parts_ = {{kNameBefore, kNameCharacters}};
  if (is_text(numbers.ValueType))
    parts_.push_back({kNumbers, room / 4});
  else
    parts_.push_back({kNumbers + room, 0});
}

WideQuery::WideQuery(KMTQUERYADAPTERINFOTYPE type, std::span<const std::byte> wide)
    : wide_bytes_(wide.size()), registry_(type == KMTQAITYPE_QUERYREGISTRY) {
  if (registry_) {
    add_registry_parts(wide);
  } else {
    const Layout& layout = *layout_of(type);
    for (size_t i = 0; i < layout.texts; ++i)
      parts_.push_back({i == 0 ? layout.before : 0, layout.characters});
    parts_.push_back({layout.bytes - layout.before - 2 * layout.characters * layout.texts, 0});
  }
  size_t from = 0;
  for (const Part& part : parts_) {
    const size_t to = narrow_.size();
    narrow_.resize(to + part.bytes + 2 * part.characters);
    std::memcpy(narrow_.data() + to, wide.data() + from, part.bytes);
    from += part.bytes;
    const auto text = characters_at<char32_t>(wide, from, part.characters);
    std::vector<char16_t> narrowed(part.characters);
    // What only comes back may hold anything before: the name that is asked for must be a text.
    const bool is_text = narrow(text, narrowed);
    if (registry_ && &part == &parts_.front()) valid_ = is_text;
    if (is_text) {
      std::memcpy(narrow_.data() + to + part.bytes, narrowed.data(), 2 * part.characters);
    }
    from += 4 * part.characters;
  }
  if (registry_) narrow_.resize(std::max(narrow_.size(), sizeof(D3DDDI_QUERYREGISTRY_INFO)));
}

std::vector<std::byte> WideQuery::answer() const {
  std::vector<std::byte> wide(wide_bytes_);
  size_t from = 0, to = 0, last = 0;
  for (const Part& part : parts_) {
    std::memcpy(wide.data() + to, narrow_.data() + from, part.bytes);
    from += part.bytes;
    to += part.bytes;
    std::vector<char32_t> text(part.characters);
    last = widen(characters_at<char16_t>(narrow_, from, part.characters), text);
    std::memcpy(wide.data() + to, text.data(), 4 * part.characters);
    from += 2 * part.characters;
    to += 4 * part.characters;
  }
  if (registry_ && parts_.back().characters != 0) {  // its size is that of a text
    D3DDDI_QUERYREGISTRY_INFO info;
    std::memcpy(&info, narrow_.data(), sizeof info);
    const size_t units = std::min<size_t>(info.OutputValueSize / 2, parts_.back().characters);
    size_t size = size_t{info.OutputValueSize} * 2;
    if (info.Status == D3DDDI_QUERYREGISTRY_STATUS_SUCCESS) {
      std::vector<char32_t> text(last);
      size = 4 * widen(characters_at<char16_t>(narrow_, kOutput, units), text);
    }
    const auto bytes = static_cast<ULONG>(size);
    std::memcpy(wide.data() + kWideOutput - kNumbers +
                    offsetof(D3DDDI_QUERYREGISTRY_INFO, OutputValueSize) -
                    offsetof(D3DDDI_QUERYREGISTRY_INFO, ValueType),
                &bytes, sizeof bytes);
  }
  return wide;
}

}  // namespace dxgkit::dxcore
