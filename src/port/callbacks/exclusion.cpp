#include "port/callbacks/exclusion.h"

#include <fmt/format.h>

#include <utility>

#include "port/core/ddi_call.h"
#include "port/core/port_core.h"

namespace dxgkit::port {
namespace {

constexpr const char* kCallback = "DxgkCbExcludeAdapterAccess";
constexpr DdiInfo kRoutine{"DxgkProtectedCallback", nt::kPassiveLevel, DdiClass::kLevelTwo};
constexpr DdiInfo kRoutineEvicted{"DxgkProtectedCallback", nt::kPassiveLevel, DdiClass::kExclusive};
// No protection: the routine may run beside any other call, sleep included.
constexpr DdiInfo kRoutineUnprotected{"DxgkProtectedCallback", nt::kPassiveLevel,
                                      DdiClass::kLevelZeroBeside};

void call_routine(PortCore& core, const DdiInfo& info, DXGKDDI_PROTECTED_CALLBACK routine,
                  void* routine_context, Status protection) {
  if (is_dead(core)) return;
  DdiCall call(core, info, static_cast<uint32_t>(to_ntstatus(protection)));
  static_cast<void>(
      call.no_answer(routine, core.context, routine_context, to_ntstatus(protection)));
}

}  // namespace

Status exclude_access(PortCore& core, ULONG attributes, DXGKDDI_PROTECTED_CALLBACK routine,
                      void* routine_context) {
  const auto refuse = [&](std::string actual, std::string expected, std::string fix) {
    return core.violation("IRQL-11", kCallback, std::move(actual), std::move(expected),
                          std::move(fix), Status::kInvalidParameter);
  };
  const bool evict = (attributes & DXGK_EXCLUDE_EVICT_ALL) != 0;
  const bool synchronous = (attributes & DXGK_EXCLUDE_CALL_SYNCHRONOUS) != 0;
  if (routine == nullptr) {
    return refuse("DxgkProtectedCallback is NULL.", "It is the routine to call.",
                  "Pass the routine that needs the adapter for itself.");
  }
  if (evict && synchronous) {
    return refuse(fmt::format("Attributes is {:#x}.", attributes),
                  "DXGK_EXCLUDE_EVICT_ALL and DXGK_EXCLUDE_CALL_SYNCHRONOUS exclude each other.",
                  "Leave the eviction out, or let the routine be called later.");
  }
  if ((attributes & ~ULONG{DXGK_EXCLUDE_EVICT_ALL | DXGK_EXCLUDE_CALL_SYNCHRONOUS}) != 0)
    return Status::kNotSupported;  // the root port, and undocumented values
  if (!synchronous) {
    return core.host.exclude_access(
        evict, [&core, evict, routine, routine_context](Status protection) {
          const DdiInfo& how = !is_success(protection) ? kRoutineUnprotected
                               : evict                 ? kRoutineEvicted
                                                       : kRoutine;
          call_routine(core, how, routine, routine_context, protection);
        });
  }
  if (!core.levels.has_adapter_to_itself()) {
    return refuse(fmt::format("DXGK_EXCLUDE_CALL_SYNCHRONOUS was asked for in {}.",
                              nt::CallFrame::current().name()),
                  "That is for calls from a DDI of synchronization level two or three, which has "
                  "the adapter for itself already.",
                  "Leave the attribute out, and wait for the routine to be called.");
  }
  // In the middle of the DDI that asked.
  nt::CallFrame& caller = nt::CallFrame::current();
  bool abandoned = false;
  {
    nt::CallFrame frame(core.kernel, kRoutine.name, nt::kPassiveLevel);
    frame.owner = &core;
    abandoned =
        !frame.call_void(routine, core.context, routine_context, to_ntstatus(Status::kSuccess));
    if (!abandoned && frame.irql() != nt::kPassiveLevel) [[unlikely]] {
      core.irql_violation(kRoutine, frame.irql());
      frame.restore_entry_irql();
    }
  }
  if (abandoned) caller.abandon();
  return Status::kSuccess;
}

}  // namespace dxgkit::port
