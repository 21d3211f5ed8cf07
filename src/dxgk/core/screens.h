// Names under which clients find adapters and their screens.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "bus/machine.h"
#include "dxgk/core/adapter_options.h"

namespace dxgkit::dxgk {

/// A video present source of an adapter.
struct Screen {
  Luid adapter;
  uint32_t source = 0;
  auto operator<=>(const Screen&) const = default;
};

/// Numbers of screens and of device contexts. No number is given twice. Not thread-safe: whoever
/// has one guards it.
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

 private:
  std::map<uint32_t, Screen> screens_;   // by number
  std::map<uint64_t, Screen> contexts_;  // by number
  uint32_t last_screen_ = 0;
  uint64_t last_context_ = 0;
};

/// The path of an adapter's device interface: "\\?\PCI#VEN_...#...#{GUID of display adapters}".
std::u16string device_path(const bus::PciIdentity& identity, Luid adapter);

}  // namespace dxgkit::dxgk
