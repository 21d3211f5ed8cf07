#include "dxgk/display/display.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dxgk/display/display_level_two.h"

namespace dxgkit::dxgk {
namespace {

/// DISP-06: MaxQueuedFlipOnVSync is one that hardware can have.
Status check_flip_depth(AdapterCore& core) {
  constexpr uint32_t kDepthMost = 15;  // our choice: beyond any hardware
  const port::FlipCaps caps = port::flip_caps_of(core.caps(), core.interface_version());
  if (caps.max_queued_on_vsync <= kDepthMost) return Status::kSuccess;
  core.findings().report(verifier::Finding{
      .rule = "DISP-06",
      .severity = verifier::Severity::kBugCheck,
      .ddi = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
      .actual = fmt::format("MaxQueuedFlipOnVSync is {}.", caps.max_queued_on_vsync),
      .expected = fmt::format("At most {} flips wait in hardware.", kDepthMost),
      .fix = "Report how many addresses the display takes before the next vertical sync: 1 for a "
             "single register.",
      .bugcheck_code = 0x119,
      .bugcheck_parameter = 0x4});
  return Status::kDeviceConfigurationError;
}

}  // namespace

Display::Display(DisplayFloor& floor, Primaries::Owner& owner,
                 std::vector<port::ChildInfo> children, uint32_t sources)
    : display_(floor, sources),
      core_(floor.core),
      monitors_(display_, std::move(children)),
      worker_(core_, static_cast<DisplayWorker::Owner&>(*this)),
      presents_(display_, active_),
      flips_(core_.display_only() ? nullptr
                                  : std::make_unique<Flips>(display_, worker_, monitors_)),
      owners_(core_.display_only() ? nullptr : std::make_unique<OwnedSources>(sources)),
      primaries_(core_.display_only()
                     ? nullptr
                     : std::make_unique<Primaries>(display_, active_, *flips_, owner)),
      overlays_(core_.display_only() ? nullptr : std::make_unique<Overlays>(display_, active_)),
      modes_(display_, {.monitors = monitors_,
                        .active = active_,
                        .presents = presents_,
                        .worker = worker_,
                        .primaries = primaries_.get(),
                        .flips = flips_.get(),
                        .overlays = overlays_.get()}),
      pointer_(display_) {
  if (core_.display_only()) return;
  clients_ =
      std::make_unique<ClientPrimaries>(display_, ClientPrimaries::Parts{.active = active_,
                                                                         .flips = *flips_,
                                                                         .owners = *owners_,
                                                                         .kernels = *primaries_,
                                                                         .modes = modes_,
                                                                         .worker = worker_});
}

Display::~Display() = default;

Status Display::describe() {
  if (flips_) DXGKIT_RETURN_IF_FAILED(check_flip_depth(core_));
  DXGKIT_RETURN_IF_FAILED(monitors_.describe());
  const DisplayLock lock(display_);
  modes_.describe();
  return Status::kSuccess;
}

Status Display::start(const char** step) {
  {
    const DisplayLock lock(display_);
    *step = "DxgkDdiDisplayDetectControl";
    const Status detects =
        core_.port().targets().detect(port::TargetsPort::Detect::kEnableHotPlug, 0, true);
    if (detects == Status::kDeviceRemoved) return detects;
    if (!is_success(detects) && detects != Status::kNotSupported)
      static_cast<void>(display_.failed_call(*step, detects));
    for (const uint32_t target : monitors_.manager().profile().targets) {
      if (const Status status = monitors_.attach(target, step); status == Status::kDeviceRemoved)
        return status;
    }
    // A driver that cannot show anything runs on, dark, as on Windows; the finding says why.
    const Status status = modes_.follow_monitors(step);
    if (status == Status::kDeviceRemoved) return status;
  }
  worker_.start();
  if (flips_) core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { flips_->start(); });
  return Status::kSuccess;
}

void Display::stop() {
  worker_.stop();
  const DisplayLock lock(display_);
  if (display_.stopped()) return;
  display_.set_stopped();
  if (overlays_) overlays_->end_all();
  if (flips_) core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { end_flips(); });
  active_.hide_all();
  if (primaries_) primaries_->end();
  monitors_.report_leaks();
}

void Display::end_flips() {
  overlays_->hardware_is_off();
  owners_->release_all();
  flips_->drop_all();
}

void Display::on_vsync(const port::InterruptReport& report) {
  if (flips_) flips_->on_vsync(report);
}

void Display::on_adapter_failed() {
  if (flips_) end_flips();
  presents_.on_adapter_failed();
}

void Display::hardware_was_reset() {
  worker_.hardware_was_reset();
  if (!flips_) return;
  overlays_->hardware_is_off();
  flips_->hardware_was_reset();
}

void Display::show_after_reset() {
  const DisplayLock lock(display_);
  if (!core_.running()) return;
  // It is shown when power is back.
  if (display_.power() != port::PowerState::kD0) return;
  active_.hide_all();
  const char* step = "";
  // A failure has been told.
  if (!active_.network().paths.empty()) static_cast<void>(modes_.recommit(&step));
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (flips_ && !core_.failed()) flips_->start();
  });
}

bool Display::work_on_flips() { return flips_ && flips_->work(); }

void Display::monitor_changed(uint32_t child, bool connected) {
  const DisplayLock lock(display_);
  if (!core_.running()) return;
  const bool changed = child == DisplayWorker::kConnectors ? monitors_.take_changes()
                                                           : monitors_.change(child, connected);
  if (!changed) return;
  const char* step = "";
  if (display_.power() == port::PowerState::kD0) static_cast<void>(modes_.follow_monitors(&step));
}

DisplayConfiguration Display::configuration() {
  const DisplayLock lock(display_);
  return {.display_only = display_.display_only(),
          .sources = modes_.sources(),
          .targets = monitors_.targets()};
}

vidpn::Network Display::active_network() {
  const DisplayLock lock(display_);
  return active_.network();
}

Status Display::set_mode(uint32_t source, const DisplayMode& mode) {
  const DisplayLock lock(display_);
  return modes_.set(source, {.size = mode});
}

Result<Scanout> Display::scanout(uint32_t source) {
  const DisplayLock lock(display_);
  if (display_.stopped()) return Error(Status::kDeviceRemoved);
  const std::optional<DisplayMode> mode = active_.mode_of(source);
  if (!mode.has_value()) return Error(Status::kInvalidParameter);
  return primaries_ ? primaries_->scanout(source, *mode) : presents_.scanout(source, *mode);
}

Result<Handle> Display::shared_primary(uint32_t source) {
  const DisplayLock lock(display_);
  if (!display_.has_source(source)) return Error(Status::kInvalidParameter);
  return primaries_ ? primaries_->shared(source) : Error(Status::kNotSupported);
}

bool Display::is_exclusive(uint32_t source) {
  bool exclusive = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    exclusive = owners_ != nullptr && owners_->is_exclusive(source);
  });
  return exclusive;
}

std::vector<std::pair<uint32_t, SourceOwnership>> Display::owned_by(const Process& process) {
  std::vector<std::pair<uint32_t, SourceOwnership>> owned;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (owners_ != nullptr) owned = owners_->of_process(process);
  });
  return owned;
}

void Display::poll_children(const Poll& poll) {
  using Awareness = port::ChildInfo::Awareness;
  const DisplayLock lock(display_);
  if (!core_.running()) return;
  const Status detects = core_.port().targets().detect(port::TargetsPort::Detect::kPollAll, 0,
                                                       poll.non_destructive_only);
  if (detects != Status::kNotSupported) {  // what it finds comes as a change (DISP-37)
    if (!is_success(detects))
      static_cast<void>(display_.failed_call("DxgkDdiDisplayDetectControl", detects));
    return;
  }
  bool changed = false;
  for (const port::ChildInfo& child : monitors_.children()) {
    if (child.awareness != Awareness::kPolled &&
        !(poll.interruptible && child.awareness == Awareness::kInterruptible))
      continue;
    const Result<bool> connected =
        core_.port().children().query_child_status(child.uid, poll.non_destructive_only);
    if (connected.has_value() && monitors_.change(child.uid, *connected)) changed = true;
  }
  const char* step = "";
  if (changed && !poll.keep_modes && display_.power() == port::PowerState::kD0)
    static_cast<void>(modes_.follow_monitors(&step));
}

Status Display::take_recommendation(std::span<const std::byte> wish) {
  worker_.wait_for_reset();
  const DisplayLock lock(display_);
  if (!core_.running() || display_.power() != port::PowerState::kD0) return Status::kDeviceRemoved;
  const char* step = "";
  return modes_.take_recommendation(wish, &step);
}

Result<size_t> Display::wait_for_vblank(uint32_t source, runtime::DescriptorWatch* others) {
  if (flips_ == nullptr) return Error(Status::kNotSupported);
  if (others != nullptr && others->empty()) others = nullptr;
  bool shown = false;
  uint64_t before = 0;
  {
    const DisplayLock lock(display_);
    shown = !display_.stopped() && active_.network().has_source(source);
  }
  if (!shown) return Error(Status::kInvalidParameter);
  if (others != nullptr) {
    if (const std::optional<size_t> now = others->first_readable()) return 1 + *now;
    const bool watched = others->start(
        [this] { core_.lane().run([this]() DXGKIT_REQUIRES(on_lane) { core_.progress(); }); });
    if (!watched) return Error(Status::kInsufficientResources);
  }
  // It stays a waiter until the next vertical sync, also if another object comes first.
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { before = flips_->add_waiter(source); });
  size_t object = 0;
  const bool came = core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    if (flips_->vsyncs(source) != before || core_.gate().closed()) return true;
    const std::optional<size_t> now = others != nullptr ? others->first_readable() : std::nullopt;
    if (now.has_value()) object = 1 + *now;
    return now.has_value();
  });
  if (!came || core_.gate().closed()) return Error(Status::kDeviceRemoved);
  return object;
}

Status Display::scan_line(uint32_t source, bool* in_vertical_blank, uint32_t* line) {
  std::optional<uint32_t> target;
  {
    const DisplayLock lock(display_);
    target = active_.target_of(source);
  }
  if (!target.has_value()) return Status::kInvalidParameter;
  return core_.port().scanout().get_scan_line(*target, in_vertical_blank, line);
}

void Display::suspend() {
  const DisplayLock lock(display_);
  if (display_.stopped() || display_.power() != port::PowerState::kD0) return;
  display_.set_power(port::PowerState::kD3);
  if (overlays_) overlays_->turn_off_all();
  const char* step = "";
  for (uint32_t id = 0; id < display_.source_count(); ++id) {
    shown_before_sleep_[id] = active_.visible(id);
    if (active_.visible(id)) static_cast<void>(modes_.make_visible(id, false, &step));
    if (flips_) core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { flips_->unpin(id); });
    if (primaries_) primaries_->unpin(id);
  }
}

void Display::wake() {
  const DisplayLock lock(display_);
  if (display_.stopped() || display_.power() != port::PowerState::kD3) return;
  display_.set_power(port::PowerState::kD0);
  const char* step = "";
  for (uint32_t id = 0; id < display_.source_count(); ++id) {
    Ref<OpenedAllocation> clients;
    if (flips_)
      core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { clients = flips_->on_screen(id); });
    if (clients) {
      if (!is_success(clients_->place(id, clients, /*again=*/true, &step))) continue;
    } else if (primaries_ && primaries_->has(id) &&
               !is_success(primaries_->show_again(id, &step))) {
      continue;
    }
    if (shown_before_sleep_[id]) static_cast<void>(modes_.make_visible(id, true, &step));
  }
}

Status Display::set_power(port::PowerState state, port::PowerAction action) {
  if (!display_.display_only()) return Status::kNotSupported;
  const DisplayLock lock(display_);
  if (!core_.running()) return Status::kDeviceRemoved;
  if (state == display_.power()) return Status::kSuccess;
  const char* step = "";
  const auto set_children = [&] {
    for (const port::ChildInfo& child : monitors_.children()) {
      static_cast<void>(level_two(display_.floor(), [&] {
        return core_.port().power().set_power_state(child.uid, state, action);
      }));
    }
  };
  const auto set_adapter = [&] {
    static_cast<void>(level_two(
        display_.floor(), [&] { return core_.port().power().set_power_state({}, state, action); }));
  };
  if (state == port::PowerState::kD0) {
    set_adapter();
    set_children();
    display_.set_power(state);
    // Hardware has forgotten its mode: the same VidPN once more, then visible.
    return modes_.recommit(&step);
  }
  for (uint32_t id = 0; id < display_.source_count(); ++id) {
    if (active_.visible(id)) DXGKIT_RETURN_IF_FAILED(modes_.make_visible(id, false, &step));
  }
  set_children();
  set_adapter();
  display_.set_power(state);
  return core_.running() ? Status::kSuccess : Status::kDeviceRemoved;
}

}  // namespace dxgkit::dxgk
