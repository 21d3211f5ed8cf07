#include "dxgk/core/screens.h"

#include <fmt/format.h>

#include <algorithm>

namespace dxgkit::dxgk {
namespace {

constexpr std::u16string_view kScreenName = u"\\\\.\\DISPLAY";

std::u16string widen(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace

void Screens::add(Luid adapter, uint32_t sources) {
  for (uint32_t source = 0; source < sources; ++source)
    screens_.emplace(++last_screen_, Screen{adapter, source});
}

void Screens::remove(Luid adapter) {
  const auto gone = [&](const auto& entry) { return entry.second.adapter == adapter; };
  std::erase_if(screens_, gone);
  std::erase_if(contexts_, gone);
  // A window on its screens alone is nowhere now, as if it was minimized. Its client area is not
  // empty, so that it does not count as visible.
  for (auto& [number, parts] : windows_) {
    for (Screen& part : parts)
      if (part.adapter == adapter) part.adapter = {};
  }
}

std::optional<Screen> Screens::find(std::u16string_view gdi_name) const {
  if (!gdi_name.starts_with(kScreenName)) return std::nullopt;
  const std::u16string_view digits = gdi_name.substr(kScreenName.size());
  // No name has leading zeros, so that each screen has one name.
  if (digits.empty() || digits.size() > 9 || digits.front() == u'0') return std::nullopt;
  uint32_t number = 0;
  for (const char16_t digit : digits) {
    if (digit < u'0' || digit > u'9') return std::nullopt;
    number = number * 10 + static_cast<uint32_t>(digit - u'0');
  }
  const auto found = screens_.find(number);
  if (found == screens_.end()) return std::nullopt;
  return found->second;
}

std::u16string Screens::name_of(const Screen& screen) const {
  for (const auto& [number, known] : screens_) {
    if (known == screen) return std::u16string(kScreenName) + widen(fmt::format("{}", number));
  }
  return {};
}

uint64_t Screens::make_context(const Screen& screen) {
  // Far from every handle and descriptor, so that one is not taken for another.
  constexpr uint64_t kFirst = 0xDC0000;
  if (!is_there(screen)) return 0;
  const uint64_t context = kFirst + ++last_context_;
  contexts_.emplace(context, screen);
  return context;
}

std::optional<Screen> Screens::find_context(uint64_t context) const {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return std::nullopt;
  return found->second;
}

bool Screens::delete_context(uint64_t context) { return contexts_.erase(context) != 0; }

bool Screens::is_there(const Screen& screen) const {
  return std::ranges::any_of(screens_, [&](const auto& entry) { return entry.second == screen; });
}

uint64_t Screens::make_window(std::vector<Screen> screens) {
  constexpr uint64_t kFirst = 0x3A0000;  // as for contexts
  if (!std::ranges::all_of(screens, [&](const Screen& one) { return is_there(one); })) return 0;
  const uint64_t window = kFirst + ++last_window_;
  windows_.emplace(window, std::move(screens));
  return window;
}

std::optional<std::vector<Screen>> Screens::find_window(uint64_t window) const {
  const auto found = windows_.find(window);
  if (found == windows_.end()) return std::nullopt;
  return found->second;
}

bool Screens::delete_window(uint64_t window) { return windows_.erase(window) != 0; }

std::u16string device_path(const bus::PciIdentity& identity, Luid adapter) {
  return widen(
      fmt::format("\\\\?\\PCI#VEN_{:04X}&DEV_{:04X}&SUBSYS_{:04X}{:04X}&REV_{:02X}#{}&0&{:08X}#"
                  "{{5b45201d-f2f2-4f3b-85bb-30ff1f953599}}",
                  identity.vendor_id, identity.device_id, identity.subsystem_id,
                  identity.subsystem_vendor_id, identity.revision, adapter.high, adapter.low));
}

}  // namespace dxgkit::dxgk
