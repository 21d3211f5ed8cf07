#include "dxgk/display/vsync_control.h"

#include <fmt/format.h>

#include <string>

#include "dxgk/work/timeout.h"

namespace dxgkit::dxgk {

VsyncControl::VsyncControl(DisplayCore& display, Owner& owner)
    : display_(display),
      core_(display.core()),
      owner_(owner),
      saves_power_(
          port::flip_caps_of(core_.caps(), core_.interface_version()).vsync_power_save_aware) {
  watch_ = core_.runtime().make_timer([this] {
    core_.lane().post_from_interrupt(
        [this]() DXGKIT_REQUIRES(on_lane) { on_watch(); });  // ended by end()
  });
}

VsyncControl::~VsyncControl() = default;

void VsyncControl::want(bool on) {
  if (wanted_ == on) return;
  wanted_ = on;
  owner_.control_vsync(on);
}

void VsyncControl::start() {
  if (!saves_power_) want(true);
  look();
}

void VsyncControl::look() {
  if (ended_ || !owner_.vsync_needed()) return;
  want(true);
  if (watching_ || core_.options().tdr_delay_ns <= 0) return;
  watching_ = true;
  sign_of_life_ = core_.runtime().now();
  watch_->arm(sign_of_life_ + core_.options().tdr_delay_ns);
}

void VsyncControl::on_vsync() { sign_of_life_ = core_.runtime().now(); }

void VsyncControl::rest() {
  if (saves_power_) want(false);
}

void VsyncControl::told(bool enabled) {
  on_ = enabled;
  sign_of_life_ = core_.runtime().now();
}

void VsyncControl::end() {
  ended_ = true;
  watch_.reset();
}

void VsyncControl::on_watch() {
  watching_ = false;
  if (ended_ || core_.failed() || !owner_.vsync_needed()) return;
  const runtime::TimeNs now = core_.runtime().now();
  const runtime::TimeNs limit = core_.options().tdr_delay_ns;
  if (!on_) sign_of_life_ = now;  // the driver has not been told yet
  if (now - sign_of_life_ < limit) {
    watching_ = true;
    watch_->arm(sign_of_life_ + limit);
    return;
  }
  // TDR-31. Only here is a vertical sync noticed that does not come.
  const std::string actual =
      fmt::format("No vertical sync was reported for {} ms, with flips or waiters to serve.",
                  (now - sign_of_life_) / runtime::kMillisecond);
  sign_of_life_ = now;
  core_.findings().report(verifier::Finding{
      .rule = "TDR-31",
      .severity = verifier::Severity::kViolation,
      .ddi = "DxgkDdiControlInterrupt",
      .actual = actual,
      .expected = fmt::format("Once enabled, every vertical sync is reported (DISP-13); one that "
                              "stays out for {} ms is a timeout.",
                              limit / runtime::kMillisecond),
      .fix = "Report DXGK_INTERRUPT_CRTC_VSYNC from the ISR after DxgkDdiControlInterrupt has "
             "enabled it, and acknowledge the interrupt in the device.",
      .windows = "The adapter is reset, and the mode is set again."});
  display_.floor().timeout->require_adapter_reset(NodeOrdinal{0}, actual);
}

}  // namespace dxgkit::dxgk
