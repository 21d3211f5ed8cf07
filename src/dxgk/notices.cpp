#include "dxgk/notices.h"

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/diagnostic_reports.h"
#include "dxgk/display/display.h"
#include "dxgk/display/display_level_two.h"
#include "dxgk/system_impl.h"

namespace dxgkit::dxgk {
namespace {

constexpr size_t kIoBytesMost = 1U << 20;  // our choice

/// The adapter, entered for the scope of a call.
class Entered {
 public:
  Entered(System& system, Luid luid)
      : adapter_(system.impl().find(luid)), pass_(adapter_ ? adapter_->core().gate() : closed()) {}

  Status status() const {
    if (!adapter_) return Status::kInvalidParameter;
    return pass_ && adapter_->core().running() ? Status::kSuccess : Status::kDeviceRemoved;
  }
  Adapter& adapter() { return *adapter_; }

 private:
  static Gate& closed() {
    static Gate gate;
    static_cast<void>(gate.close());
    return gate;
  }
  const Ref<Adapter> adapter_;
  const GatePass pass_;
};

}  // namespace

Result<port::AcpiWishes> Notices::acpi_event(Luid luid, const port::AcpiEvent& event) {
  Entered entered(system_, luid);
  DXGKIT_RETURN_ERROR_IF_FAILED(entered.status());
  Adapter& adapter = entered.adapter();
  if (!adapter.core().port().has_entry("DxgkDdiNotifyAcpiEvent"))
    return Error(Status::kNotSupported);
  Result<port::AcpiWishes> wishes = Error(Status::kDeviceRemoved);
  static_cast<void>(level_two(adapter.floor(), [&] {
    wishes = adapter.core().port().notices().acpi_event(event);
    return Status::kSuccess;
  }));
  Display* const display = adapter.floor().display;
  if (!wishes.has_value() || display == nullptr) return wishes;
  if (wishes->poll_children) display->poll_children({.interruptible = true});
  if (wishes->change_mode || wishes->change_topology)
    static_cast<void>(display->take_recommendation({}));  // a failure has been told
  return wishes;
}

Result<uint32_t> Notices::io_request(Luid luid, uint32_t source, const port::IoRequest& request) {
  Entered entered(system_, luid);
  DXGKIT_RETURN_ERROR_IF_FAILED(entered.status());
  Adapter& adapter = entered.adapter();
  if (!adapter.core().port().has_entry("DxgkDdiDispatchIoRequest"))
    return Error(Status::kNotSupported);
  if (source >= adapter.core().facts().start.video_present_sources)
    return Error(Status::kInvalidParameter);
  if (request.in.size() > kIoBytesMost || request.out.size() > kIoBytesMost)
    return Error(Status::kInvalidParameter);
  Result<uint32_t> filled = Error(Status::kDeviceRemoved);
  static_cast<void>(level_two(adapter.floor(), [&] {
    filled = adapter.core().port().notices().io_request(source, request);
    return Status::kSuccess;
  }));
  return filled;
}

Result<port::DiagnosticTypes> Notices::diagnostic_types(Luid luid,
                                                        port::DiagnosticCategory category) {
  Entered entered(system_, luid);
  DXGKIT_RETURN_ERROR_IF_FAILED(entered.status());
  return entered.adapter().core().port().diagnostics().query_types(category);
}

Status Notices::enable_diagnostics(Luid luid, port::DiagnosticCategory category, uint32_t types) {
  Entered entered(system_, luid);
  DXGKIT_RETURN_IF_FAILED(entered.status());
  port::DiagnosticPort& driver = entered.adapter().core().port().diagnostics();
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const port::DiagnosticTypes has, driver.query_types(category));
  if ((types & ~(has.noninvasive | has.invasive)) != 0) return Status::kInvalidParameter;
  return driver.control(category, types);
}

Result<std::vector<port::DiagnosticReport>> Notices::take_diagnostics(Luid luid) {
  Entered entered(system_, luid);
  DXGKIT_RETURN_ERROR_IF_FAILED(entered.status());
  return entered.adapter().floor().diagnostics->take();
}

Status Notices::reset_to_text(Luid luid) {
  Entered entered(system_, luid);
  DXGKIT_RETURN_IF_FAILED(entered.status());
  return entered.adapter().core().port().notices().reset_device();
}

}  // namespace dxgkit::dxgk
