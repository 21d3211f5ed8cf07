// The common start and end of every thunk: the calling process, one capture of the arguments, the
// exact status, outputs.
#pragma once

#include <d3dkmthk.h>

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "arguments/facts.h"
#include "base/guarded_copy.h"
#include "base/status.h"
#include "dxgk/core/process.h"
#include "dxgk/system_impl.h"
#include "thunks/members.h"
#include "trace/causes.h"
#include "trace/trace.h"

namespace dxgkit::thunks {

/// STATUS_PROCESS_IS_TERMINATING: the answer to threads of a process from the moment it begins to
/// end.
inline constexpr Status kProcessIsTerminating{0xC000010A};

/// For the trace: why the call under way is refused.
inline void note_refusal(trace::RefusalReason reason, uint64_t handle = 0) {
  trace::emit(trace::EventKind::kWhyRefused, static_cast<uint64_t>(reason), handle);
}

/// Emits the trace events around a thunk, with the caller's process. Null process: the thread is
/// bound to none.
class CallScope {
 public:
  explicit CallScope(std::string_view name);
  ~CallScope() {
    if (inside_) process_->gate().leave();
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  dxgk::Process* process() const { return process_; }
  /// The reason to refuse the caller. kInvalidParameter: its thread is bound to no process.
  /// kProcessIsTerminating: its process has begun to end. kSuccess: no reason.
  Status admission() const {
    if (process_ == nullptr) return Status::kInvalidParameter;
    return inside_ ? Status::kSuccess : kProcessIsTerminating;
  }
  NTSTATUS finish(Status status);
  /// The end of a call whose caller `admission` refuses.
  NTSTATUS finish_refused();
  /// The end of a call whose arguments cannot be used.
  NTSTATUS finish_bad_arguments(trace::RefusalReason reason) {
    note_refusal(reason);
    return finish(Status::kInvalidParameter);
  }

 private:
  dxgk::Process* process_;
  const bool inside_;
  uint64_t name_ = 0;
};

/// Copies the argument structure of `Function` once (THUNK-02), runs `body(process, arguments)`,
/// and copies outputs back when the table of arguments says so (arguments/facts.h): a failing thunk
/// changes nothing (THUNK-05), except where rules name outputs of failure. A structure that is
/// null, unreadable, or cannot take the outputs is refused first (THUNK-01).
template <auto Function, typename Args, typename Body>
NTSTATUS call(Args* client_arguments, Body&& body) {
  using Facts = arguments::FunctionFacts<Function>;
  using arguments::Writes;
  static_assert(std::is_invocable_v<decltype(Function), Args*>);
  CallScope scope(Facts::name());
  if (!is_success(scope.admission())) return scope.finish_refused();
  if (client_arguments == nullptr) return scope.finish_bad_arguments(trace::RefusalReason::kNull);
  std::remove_const_t<Args> captured;
  if (!guarded_copy(&captured, client_arguments, sizeof captured))
    return scope.finish_bad_arguments(trace::RefusalReason::kUnreadable);
  // Some prototypes say const of a structure that is written.
  auto* const client = const_cast<std::remove_const_t<Args>*>(client_arguments);
  if constexpr (Facts::kWrites != Writes::kNever) {
    if (!guarded_copy(client, &captured, sizeof captured))
      return scope.finish_bad_arguments(trace::RefusalReason::kUnreadable);
  }
  const Status status = body(*scope.process(), captured);
  if constexpr (Facts::kWrites != Writes::kNever) {
    if (Facts::kWrites == Writes::kAlways || is_success(status)) {
      // The structure was writable before the call. A caller that unmapped it meanwhile loses only
      // its own outputs.
      static_cast<void>(guarded_copy(client, &captured, sizeof captured));
    }
  }
  return scope.finish(status);
}

/// The body of a function whose page names no STATUS_DEVICE_REMOVED: to it a device that is lost,
/// or whose adapter has stopped, is a bad parameter (THUNK-07, THUNK-55).
template <auto body>
inline constexpr auto without_removal = [](dxgk::Process& process, auto& args) {
  const Status status = body(process, args);
  return status == Status::kDeviceRemoved ? Status::kInvalidParameter : status;
};

/// The adapter of `object`'s device, entered for the scope of a call; kDeviceRemoved when it is
/// stopped or failed (THUNK-07).
#define DXGKIT_ENTER(adapter_reference) DXGKIT_ENTER_CORE((adapter_reference).core())

/// The same, by what the adapter stands on.
#define DXGKIT_ENTER_CORE(core_reference)                          \
  ::dxgkit::dxgk::GatePass gate_pass((core_reference).gate());     \
  if (!gate_pass || !(core_reference).running()) {                 \
    note_refusal(::dxgkit::trace::RefusalReason::kAdapterStopped); \
    return ::dxgkit::Status::kDeviceRemoved;                       \
  }                                                                \
  static_assert(true)

/// Declares `device`, which `handle` names, and enters its adapter for the scope of a call.
/// kInvalidParameter: `handle` names no device. kDeviceRemoved: also if the device is in error.
#define DXGKIT_ENTER_DEVICE(device, process, handle)                                        \
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const ::dxgkit::dxgk::Ref<::dxgkit::dxgk::Device> device,  \
                                 (process).handles().find<::dxgkit::dxgk::Device>(handle)); \
  DXGKIT_ENTER((device)->adapter());                                                        \
  if ((device)->lost()) {                                                                   \
    note_refusal(::dxgkit::trace::RefusalReason::kDeviceLost, handle);                      \
    return ::dxgkit::Status::kDeviceRemoved;                                                \
  }                                                                                         \
  static_assert(true)

/// The adapter that owns the floor on which a client's object stands.
inline dxgk::Adapter& adapter_of(const dxgk::SyncFloor& floor) {
  DXGKIT_CHECK(floor.adapter.type() == dxgk::ObjectType::kAdapter);
  return static_cast<dxgk::Adapter&>(floor.adapter);
}

}  // namespace dxgkit::thunks
