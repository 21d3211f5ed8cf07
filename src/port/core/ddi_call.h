// The one place where a DDI is entered and left.
#pragma once

#include <cstdint>
#include <optional>

#include "port/core/port_core.h"
#include "trace/trace.h"

namespace dxgkit::port {

/// One DDI call: frame, class check, trace, IRQL check.
class DdiCall {
 public:
  DdiCall(PortCore& core, const DdiInfo& info, uint64_t argument = 0,
          uint16_t node = trace::kNoNode)
      : core_(prepared(core, info)),
        info_(info),
        frame_(core.kernel, info.name, info.irql),
        node_(node) {
    frame_.owner = &core;
    core_.levels.enter(info_.ddi_class);
    if (core_.situations != nullptr && info_.situation.has_value()) [[unlikely]]
      core_.situations->reach(*info_.situation);
    if (trace::Recorder* recorder = trace::current(); recorder != nullptr) [[unlikely]] {
      recorder->record(trace::EventKind::kDdiEnter, recorder->name_id(info.name), info.irql,
                       argument, 0, node);
    }
  }
  ~DdiCall() {
    if (core_.removed.load(std::memory_order_relaxed)) [[unlikely]]
      core_.report_lost_accesses(info_.name);
    core_.levels.leave(info_.ddi_class);
  }
  DdiCall(const DdiCall&) = delete;
  DdiCall& operator=(const DdiCall&) = delete;

  /// Calls the entry. kDeviceRemoved if the driver died inside; a finding was reported and the host
  /// knows.
  template <typename Entry, typename... A>
  Status operator()(Entry entry, A... arguments) {
    if (core_.faults != nullptr) [[unlikely]] {
      if (const std::optional<Status> answer = core_.faults->before_ddi(info_.name)) {
        completed_ = true;
        return done(*answer);
      }
    }
    int32_t status = to_ntstatus(Status::kDeviceRemoved);
    if (!came_back(frame_.call(entry, &status, arguments...))) return done(Status::kDeviceRemoved);
    if (status != 0) [[unlikely]]
      core_.check_answer(info_, status);
    return done(from_ntstatus(status));
  }
  /// The same for an entry that returns nothing.
  template <typename Entry, typename... A>
  Status no_answer(Entry entry, A... arguments) {
    return done(came_back(frame_.call_void(entry, arguments...)) ? Status::kSuccess
                                                                 : Status::kDeviceRemoved);
  }
  /// The same for an entry that returns a number. The number is unchanged unless the result is
  /// kSuccess.
  template <typename Entry, typename R, typename... A>
  Status value(Entry entry, R* result, A... arguments) {
    return done(came_back(frame_.call(entry, result, arguments...)) ? Status::kSuccess
                                                                    : Status::kDeviceRemoved);
  }
  bool completed() const { return completed_; }

 private:
  /// False: the driver died inside.
  bool came_back(bool completed) {
    completed_ = completed;
    if (completed && frame_.irql() != info_.irql) [[unlikely]] {
      core_.irql_violation(info_, frame_.irql());
      frame_.restore_entry_irql();
    }
    return completed;
  }
  Status done(Status status) {
    if (trace::Recorder* recorder = trace::current(); recorder != nullptr) [[unlikely]] {
      recorder->record(trace::EventKind::kDdiExit, recorder->name_id(info_.name),
                       static_cast<uint32_t>(to_ntstatus(status)), frame_.irql(), 0, node_);
    }
    return status;
  }
  /// Runs before this thread has a frame for this call.
  static PortCore& prepared(PortCore& core, const DdiInfo& info) {
    if (info.ddi_class == DdiClass::kLevelTwo) [[unlikely]]
      core.host.before_exclusive_ddi(info.name, AdapterHost::SyncLevel::kTwo);
    if (info.ddi_class == DdiClass::kExclusive) [[unlikely]]
      core.host.before_exclusive_ddi(info.name, AdapterHost::SyncLevel::kThree);
    return core;
  }

  PortCore& core_;
  const DdiInfo& info_;
  nt::CallFrame frame_;
  uint16_t node_;
  bool completed_ = false;
};

}  // namespace dxgkit::port
