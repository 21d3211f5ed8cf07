#include "tools/dxgkit/verify/monitors.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/spelling.h"
#include "dxgk/display_exercise.h"
#include "tools/dxgkit/verify/canvas.h"
#include "tools/dxgkit/verify/monitor_judge.h"

namespace dxgkit::tool::verify {
namespace {

using Monitors = std::span<const bus::DeviceMonitor>;

Answer<void> check_descriptor(Bench& bench, std::span<const std::byte> told, Monitors monitors,
                              size_t place, uint32_t target) {
  const std::string wrong = judge_descriptor(told, monitors, place);
  if (wrong.empty()) return {};
  bench.findings().report(
      {.rule = "CAPS-18",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiQueryDeviceDescriptor",
       .actual = fmt::format("Of child {} {}.", target, wrong),
       .expected = "The monitor's descriptor as the device has it, byte for byte.",
       .fix = "Read all blocks when the monitor is connected, and keep them as they are.",
       .windows = "The monitor gets other modes than it has, or the default ones."});
  return std::unexpected("a monitor's descriptor is not the device's");
}

Answer<void> check_sizes(Bench& bench, const bus::DeviceMonitor& monitor,
                         const dxgk::DisplaySource& source) {
  const auto size = missing_size(monitor, source.modes);
  if (!size) return {};
  bench.findings().report(
      {.rule = "DISP-41",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiEnumVidPnCofuncModality",
       .actual = fmt::format("Source {} offers {}, and not {}x{}, which the device tells of the "
                             "monitor at child {}.",
                             source.id, counted(source.modes.size(), "mode"), size->width,
                             size->height, *source.target),
       .expected = "Each size of the monitor is offered.",
       .fix = "Follow the bytes of the monitor's detailed timings into the mode table.",
       .windows = "The picture is scaled, or parts of it are not shown."});
  return std::unexpected("a size of a monitor is not offered");
}

}  // namespace

Answer<void> check_monitors(Bench& bench) {
  if (bench.screen() == nullptr) return {};
  const std::vector<bus::DeviceMonitor> monitors = bench.screen()->monitors();
  if (monitors.empty()) return {};
  Result<dxgk::DisplayExercise> exercise = dxgk::DisplayExercise::on(bench.system(), bench.luid());
  if (!exercise.has_value()) return {};  // it drives no screen
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return std::unexpected(sources.error());
  size_t place = 0;
  for (const uint32_t target : exercise->connected_targets()) {
    const auto told = exercise->descriptor(target);
    const std::vector<std::byte> none;
    const std::vector<std::byte>& descriptor = told.has_value() ? *told : none;
    DXGKIT_VERIFY_TRY(check_descriptor(bench, descriptor, monitors, place, target));
    const bus::DeviceMonitor* const monitor = monitor_of(descriptor, monitors, place++);
    const auto source = std::ranges::find(*sources, target, &dxgk::DisplaySource::target);
    if (monitor != nullptr && source != sources->end())
      DXGKIT_VERIFY_TRY(check_sizes(bench, *monitor, *source));
  }
  return {};
}

}  // namespace dxgkit::tool::verify
