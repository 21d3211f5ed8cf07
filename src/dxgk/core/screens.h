// Names under which clients find adapters and their screens.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bus/machine.h"
#include "dxgk/core/adapter_options.h"

namespace dxgkit::dxgk {

/// A video present source of an adapter.
struct Screen {
  Luid adapter;
  uint32_t source = 0;
  auto operator<=>(const Screen&) const = default;
};

/// Numbers of screens, of device contexts and of windows. No number is given twice. Not
/// thread-safe: whoever has one guards it.
class Screens {
 public:
  /// An adapter with so many sources has started: they are the next screens, in order.
  void add(Luid adapter, uint32_t sources);
  /// The adapter is gone, and so are its screens and the contexts on them.
  void remove(Luid adapter);
  /// "\\.\DISPLAY1" is the first screen. Nothing: another name, or no such screen.
  std::optional<Screen> find(std::u16string_view gdi_name) const;
  /// The name of a screen; empty if there is none.
  std::u16string name_of(const Screen& screen) const;

  /// A number that stands for a device context of the screen, above 0; 0: no such screen.
  uint64_t make_context(const Screen& screen);
  std::optional<Screen> find_context(uint64_t context) const;
  /// False: there is no such context.
  bool delete_context(uint64_t context);

  /// A number for a window whose client area lies on these screens, above 0; 0: one of them is
  /// none. No screens: the client area is empty.
  uint64_t make_window(std::vector<Screen> screens);
  /// The screens that are left of it. Nothing: no such window.
  std::optional<std::vector<Screen>> find_window(uint64_t window) const;
  /// False: there is no such window.
  bool delete_window(uint64_t window);

 private:
  bool is_there(const Screen& screen) const;

  std::map<uint32_t, Screen> screens_;               // by number
  std::map<uint64_t, Screen> contexts_;              // by number
  std::map<uint64_t, std::vector<Screen>> windows_;  // by number
  uint32_t last_screen_ = 0;
  uint64_t last_context_ = 0, last_window_ = 0;
};

/// The path of an adapter's device interface: "\\?\PCI#VEN_...#...#{GUID of display adapters}".
std::u16string device_path(const bus::PciIdentity& identity, Luid adapter);

}  // namespace dxgkit::dxgk
