#include "port/ddi/protected_sessions.h"

#include <fmt/format.h>

#include "port/core/ddi_call.h"
#include "port/core/guarded_output.h"
#include "port/core/port_core.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCreateSession{"DxgkDdiCreateProtectedSession", nt::kPassiveLevel,
                                 DdiClass::kLevelZero};
constexpr DdiInfo kDestroySession{"DxgkDdiDestroyProtectedSession", nt::kPassiveLevel,
                                  DdiClass::kLevelZero};

}  // namespace

bool ProtectedSessionPort::complete() const {
  return core_.version >= kInterfaceWddm23 && core_.ddi.DxgkDdiCreateProtectedSession != nullptr &&
         core_.ddi.DxgkDdiDestroyProtectedSession != nullptr;
}

Result<void*> ProtectedSessionPort::create(uint64_t session, std::span<std::byte> data) {
  DXGKIT_RETURN_ERROR_IF_FAILED(
      callable(core_, kInterfaceWddm23, core_.ddi.DxgkDdiCreateProtectedSession));
  DXGKARG_CREATEPROTECTEDSESSION arguments{};
  arguments.hProtectedSession = reinterpret_cast<HANDLE>(session);
  GuardedOutput output(data);
  arguments.pPrivateDriverData = data.empty() ? nullptr : output.data();
  arguments.PrivateDriverDataSize = size_of(data);
  DdiCall call(core_, kCreateSession, session);
  const Status status = call(core_.ddi.DxgkDdiCreateProtectedSession, core_.context, &arguments);
  static_cast<void>(output.finish(core_, kCreateSession.name, "pPrivateDriverData"));
  if (!is_success(status)) return Error(status);
  return arguments.hProtectedSession;
}

Status ProtectedSessionPort::destroy(void* session) {
  DXGKIT_RETURN_IF_FAILED(
      callable(core_, kInterfaceWddm23, core_.ddi.DxgkDdiDestroyProtectedSession));
  DdiCall call(core_, kDestroySession);
  const Status status = call(core_.ddi.DxgkDdiDestroyProtectedSession, core_.context, session);
  if (is_success(status) || status == Status::kDeviceRemoved) return status;
  return core_.violation(
      "OPT-10", kDestroySession.name, fmt::format("It answered {}.", hex(status)),
      "STATUS_SUCCESS: nobody has the session any more, and it is not named again.",
      "Free the keys and what else the session has by whatever means, and return STATUS_SUCCESS.",
      status);
}

}  // namespace dxgkit::port
