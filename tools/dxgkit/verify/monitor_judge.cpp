#include "tools/dxgkit/verify/monitor_judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/spelling.h"

namespace dxgkit::tool::verify {
namespace {

constexpr size_t kBlockBytes = 128;  // of an EDID

using Monitors = std::span<const bus::DeviceMonitor>;

bool is_described(const bus::DeviceMonitor& monitor) { return !monitor.descriptor.empty(); }

}  // namespace

const bus::DeviceMonitor* monitor_of(std::span<const std::byte> told, Monitors monitors,
                                     size_t place) {
  const auto same = std::ranges::find_if(monitors, [&](const bus::DeviceMonitor& monitor) {
    return !told.empty() && std::ranges::equal(monitor.descriptor, told);
  });
  if (same != monitors.end()) return &*same;
  return place < monitors.size() ? &monitors[place] : nullptr;
}

std::string judge_descriptor(std::span<const std::byte> told, Monitors monitors, size_t place) {
  if (std::ranges::none_of(monitors, is_described)) {
    if (told.size() % kBlockBytes == 0) return {};  // one of the driver's own, or none
    return fmt::format("it gives {}, which are no blocks, and the device has none",
                       counted(told.size(), "byte"));
  }
  if (told.empty()) return "it gives no descriptor, and the device has one";
  const bus::DeviceMonitor* const monitor = monitor_of(told, monitors, place);
  if (monitor == nullptr || !is_described(*monitor)) return "the device has no such descriptor";
  const std::vector<std::byte>& known = monitor->descriptor;
  if (std::ranges::equal(known, told)) return {};
  const auto [is, should] = std::ranges::mismatch(told, known);
  if (is == told.end() || should == known.end()) {
    return fmt::format("it gives {}, and the device has {}", counted(told.size(), "byte"),
                       known.size());
  }
  return fmt::format("byte {} is {:#04x}, and the device has {:#04x}", is - told.begin(),
                     std::to_integer<unsigned>(*is), std::to_integer<unsigned>(*should));
}

std::optional<bus::DeviceMonitor::Size> missing_size(const bus::DeviceMonitor& monitor,
                                                     std::span<const dxgk::DisplayMode> modes) {
  for (const bus::DeviceMonitor::Size& size : monitor.sizes) {
    if (std::ranges::find(modes, dxgk::DisplayMode{size.width, size.height}) == modes.end())
      return size;
  }
  return std::nullopt;
}

}  // namespace dxgkit::tool::verify
