#include "dxgk/display_exercise.h"

#include <array>
#include <utility>

#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/display/display_level_two.h"
#include "dxgk/memory_exercise.h"
#include "dxgk/system_impl.h"

namespace dxgkit::dxgk {
namespace {

port::EnumPivot kind_of(vidpn::Pivot::Kind kind) {
  switch (kind) {
    case vidpn::Pivot::Kind::kSource:
      return port::EnumPivot::kSource;
    case vidpn::Pivot::Kind::kTarget:
      return port::EnumPivot::kTarget;
    case vidpn::Pivot::Kind::kScaling:
      return port::EnumPivot::kScaling;
    case vidpn::Pivot::Kind::kRotation:
      return port::EnumPivot::kRotation;
    case vidpn::Pivot::Kind::kNone:
      break;
  }
  return port::EnumPivot::kNone;
}

}  // namespace

DisplayExercise::DisplayExercise(Ref<Adapter> adapter) : adapter_(std::move(adapter)) {}
DisplayExercise::~DisplayExercise() = default;
DisplayExercise::DisplayExercise(DisplayExercise&&) noexcept = default;

Display& DisplayExercise::display() const { return *adapter_->floor().display; }
AdapterCore& DisplayExercise::core() const { return display().shared().core(); }

Result<DisplayExercise> DisplayExercise::on(System& system, Luid luid) {
  Ref<Adapter> adapter = system.impl().find(luid);
  if (!adapter) return Error(Status::kInvalidParameter);
  if (adapter->floor().display == nullptr) return Error(Status::kNotSupported);
  return DisplayExercise(std::move(adapter));
}

const vidpn::Profile& DisplayExercise::profile() const {
  return display().monitors().manager().profile();
}

bool DisplayExercise::has_entry(const char* name) const { return core().port().has_entry(name); }

std::vector<uint32_t> DisplayExercise::connected_targets() {
  const DisplayLock lock(display().shared());
  std::vector<uint32_t> targets;
  for (const uint32_t target : profile().targets) {
    if (display().monitors().connected(target)) targets.push_back(target);
  }
  return targets;
}

vidpn::Network DisplayExercise::active() { return display().active_network(); }

bool DisplayExercise::visible(uint32_t source) {
  const DisplayLock lock(display().shared());
  return display().active().visible(source);
}

DisplayExercise::Answer DisplayExercise::is_supported(const vidpn::Network* network, uint32_t nth) {
  const DisplayLock lock(display().shared());
  if (!core().running()) return {.status = Status::kDeviceRemoved};
  Answer answer;
  vidpn::DdiCall call(display().monitors().manager(), vidpn::Ddi::kIsSupportedVidPn,
                      network == nullptr ? vidpn::Network{} : *network);
  call.fail_function(nth);
  const Result<bool> supported =
      core().port().vidpn().is_supported_vidpn(network == nullptr ? nullptr : call.vidpn());
  answer.status = supported.has_value() ? Status::kSuccess : supported.error();
  answer.supported = supported.has_value() && *supported;
  call.finish(answer.status, core().kernel().driver_is_dead());
  answer.failed = call.failed_function();
  return answer;
}

DisplayExercise::Answer DisplayExercise::enumerate(const vidpn::Network& network,
                                                   const vidpn::Pivot& pivot, uint32_t nth) {
  const DisplayLock lock(display().shared());
  if (!core().running()) return {.status = Status::kDeviceRemoved};
  Answer answer;
  vidpn::DdiCall call(display().monitors().manager(), vidpn::Ddi::kEnumVidPnCofuncModality, network,
                      pivot);
  call.fail_function(nth);
  answer.status = core().port().vidpn().enum_cofunc_modality(call.vidpn(), kind_of(pivot.kind),
                                                             pivot.source, pivot.target);
  answer.network = call.finish(answer.status, core().kernel().driver_is_dead());
  answer.failed = call.failed_function();
  return answer;
}

DisplayExercise::Answer DisplayExercise::recommend_monitor_modes(uint32_t target, uint32_t nth) {
  const DisplayLock lock(display().shared());
  if (!core().running()) return {.status = Status::kDeviceRemoved};
  if (!display().monitors().connected(target)) return {.status = Status::kInvalidParameter};
  Answer answer;
  vidpn::DdiCall call(display().monitors().manager(), vidpn::Ddi::kRecommendMonitorModes, target);
  call.fail_function(nth);
  answer.status = level_two(display().shared().floor(), [&] {
    return core().port().vidpn().recommend_monitor_modes(target, call.monitor_mode_set(),
                                                         call.monitor_mode_set_interface());
  });
  call.finish(answer.status, core().kernel().driver_is_dead());
  answer.failed = call.failed_function();
  return answer;
}

DisplayExercise::Answer DisplayExercise::commit_again(uint32_t source, uint32_t nth) {
  const DisplayLock lock(display().shared());
  if (!core().running()) return {.status = Status::kDeviceRemoved};
  Answer answer;
  answer.status = display().modes().commit_with_failure(source, nth, &answer.failed);
  return answer;
}

Status DisplayExercise::clear_and_show() {
  DXGKIT_RETURN_IF_FAILED(clear());
  return show_monitors();
}

Status DisplayExercise::clear() {
  const DisplayLock lock(display().shared());
  if (!core().running()) return Status::kDeviceRemoved;
  const char* step = "";
  return display().modes().clear(&step);
}

Status DisplayExercise::show_monitors() {
  const DisplayLock lock(display().shared());
  if (!core().running()) return Status::kDeviceRemoved;
  const char* step = "";
  return display().modes().follow_monitors(&step);
}

Status DisplayExercise::update_path(const vidpn::Path& path) {
  const DisplayLock lock(display().shared());
  if (!core().running()) return Status::kDeviceRemoved;
  return level_two(display().shared().floor(),
                   [&] { return core().port().vidpn().update_active_present_path(path); });
}

Status DisplayExercise::set_visible(uint32_t source, bool visible) {
  const DisplayLock lock(display().shared());
  if (!core().running()) return Status::kDeviceRemoved;
  const char* step = "";
  return display().modes().make_visible(source, visible, &step);
}

Result<std::vector<std::byte>> DisplayExercise::descriptor(uint32_t target) {
  const DisplayLock lock(display().shared());
  if (!core().running()) return Error(Status::kDeviceRemoved);
  return core().port().children().query_device_descriptor(target);
}

size_t DisplayExercise::ask_descriptor_parts(uint32_t target) {
  const DisplayLock lock(display().shared());
  if (!core().running()) return 0;
  port::ChildPort children = core().port().children();
  const Result<std::vector<std::byte>> whole = children.query_device_descriptor(target);
  if (!whole.has_value()) return 0;
  const auto size = static_cast<uint32_t>(whole->size());
  const std::array<std::pair<uint32_t, uint32_t>, 9> parts{{{0, 1},
                                                            {0, 64},
                                                            {1, 127},
                                                            {100, 28},
                                                            {64, 128},
                                                            {0, size + 128},
                                                            {size - 1, 128},
                                                            {size - 64, 65},
                                                            {size, 128}}};
  size_t asked = 0;
  for (const auto& [offset, bytes] : parts) {
    if (bytes > port::ChildPort::kDescriptorPartMax) continue;
    static_cast<void>(children.query_descriptor_part(target, offset, bytes, *whole));
    ++asked;
  }
  return asked;
}

Status DisplayExercise::fill_primary(uint32_t source, uint32_t pattern) {
  const DisplayLock lock(display().shared());
  if (!core().running()) return Status::kDeviceRemoved;
  if (display().primaries() == nullptr) return Status::kNotSupported;
  const OpenedAllocation* const primary = display().primaries()->opened(source);
  if (primary == nullptr) return Status::kNotSupported;
  const Status status = MemoryExercise(*adapter_).fill(primary->allocation->id, pattern);
  return status == Status::kInvalidParameter ? Status::kNotSupported : status;
}

Status DisplayExercise::present(const DisplayPresent& request) {
  return display().presents().present(request, DisplayOnlyPresents::Occluded::kPresented);
}

size_t DisplayExercise::ask_copy_surfaces() {
  constexpr uint32_t kWidth = 37, kHeight = 11;
  using Kind = port::AllocationsPort::CopySurface;
  port::AllocationsPort allocations = core().port().allocations();
  size_t made = 0;
  for (const Kind kind : {Kind::kShadow, Kind::kStaging})
    made += allocations.describe_copy_surface(kind, kWidth, kHeight).has_value() ? 1 : 0;
  return made;
}

void DisplayExercise::ask_other_interrupts() {
  const DisplayLock lock(display().shared());
  if (!core().running()) return;
  static_cast<void>(level_two(display().shared().floor(), [&] {
    core().port().scanout().ask_other_interrupts();
    return Status::kSuccess;
  }));
}

Status DisplayExercise::wait_for_vblank(uint32_t source) {
  const Result<size_t> came = display().wait_for_vblank(source);
  return came.has_value() ? Status::kSuccess : came.error();
}

Status DisplayExercise::scan_line(uint32_t source, bool* in_vertical_blank, uint32_t* line) {
  return display().scan_line(source, in_vertical_blank, line);
}

Result<DisplayExercise::BugCheckScreen> DisplayExercise::enable_system_display() {
  if (!has_entry("DxgkDdiSystemDisplayEnable")) return Error(Status::kNotSupported);
  BugCheckScreen screen;
  DXGKIT_RETURN_ERROR_IF_FAILED(core().port().scanout().system_display_enable(
      display().active().post_target(), &screen.width, &screen.height, &screen.format));
  return screen;
}

Status DisplayExercise::write_system_display(std::span<const std::byte> pixels, uint32_t width,
                                             uint32_t height, uint32_t stride_bytes, uint32_t x,
                                             uint32_t y) {
  return core().port().scanout().system_display_write(pixels, width, height, stride_bytes, x, y);
}

}  // namespace dxgkit::dxgk
