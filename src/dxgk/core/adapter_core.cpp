#include "dxgk/core/adapter_core.h"

#include <fmt/format.h>

#include <utility>

#include "dxgk/core/late_selection.h"

namespace dxgkit::dxgk {

AdapterCore::AdapterCore(Owner& owner, Luid luid, const Surroundings& around,
                         const AdapterOptions& options)
    : AdapterEnvironment(luid, around, options),
      owner_(owner),
      interface_version_(around.driver != nullptr ? around.driver->interface_version() : 0),
      display_only_(around.driver != nullptr && around.driver->display_only()),
      lane_(around.runtime, fmt::format("adapter {}", luid.low)) {}

void AdapterCore::open_port(port::AdapterHost& host) {
  port_ = std::make_unique<port::AdapterPort>(*around_.driver, around_.kernel, around_.machine,
                                              around_.function, host, around_.findings);
  port_->levels().set_lane_check([this] { return lane_.is_current(); });
  port_->set_fault_injector(options_.faults);
  port_->set_situation_log(options_.situations);
  port_->set_reference_checks(options_.check_level == CheckLevel::kReference);
}

void AdapterCore::fail(verifier::Finding finding) {
  // After the first the machine would stand still; what comes then is its consequence.
  if (!become_fatal()) return;
  around_.findings.report(std::move(finding));
  lane_.post_from_interrupt([this]() DXGKIT_REQUIRES(on_lane) { owner_.stop_after_failure(); });
}

void AdapterCore::fail_as_reported() {
  if (!become_fatal()) return;
  lane_.post_from_interrupt([this]() DXGKIT_REQUIRES(on_lane) { owner_.stop_after_failure(); });
}

void AdapterCore::progress() {
  owner_.advance_waiting();
  progress_.fetch_add(1);
  if (blocked_.load() != 0) around_.runtime.wake_all(progress_);
}

bool AdapterCore::block_until(const std::function<bool()>& ready) {
  select_what_is_left();   // it may be what is waited for
  Waiting waiting(*this);  // before the first look, so that progress() made after it wakes us
  bool done = false;
  bool hopeless = false;
  for (;;) {
    const uint32_t seen = waiting.seen();
    lane_.run([&]() DXGKIT_REQUIRES(on_lane) {
      done = ready();
      hopeless = failed_;
    });
    if (done || hopeless) return done;
    waiting.wait_helping(seen);
  }
}

bool AdapterCore::block_until_awake(const std::function<bool()>& ready) {
  return block_until([&]() DXGKIT_REQUIRES(on_lane) { return power_phase_.awake() && ready(); });
}

void AdapterCore::while_stable(const std::function<void()>& work) {
  if (GatePass pass(gate_); pass) {
    work();
    return;
  }
  stopped_.wait();
  work();
}

}  // namespace dxgkit::dxgk
