// A scripted driver with the entries of per-engine recovery, and what tests of timeouts share.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/work/timeout.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {

inline constexpr int64_t kDelay = 2 * runtime::kSecond;

/// The engine side of the driver. Defaults: alone in its group, not responsive, ResetEngine aborts
/// the oldest packet and drops the queue.
struct EngineResets {
  explicit EngineResets(ScriptedMiniport& miniport_in) : miniport(miniport_in) {
    miniport.extension = this;
    miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportPerEngineTDR = TRUE; };
    miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiQueryDependentEngineGroup = group_entry;
      table.DxgkDdiQueryEngineStatus = status_entry;
      table.DxgkDdiResetEngine = reset_entry;
      table.DxgkDdiCollectDbgInfo = collect_entry;
    };
  }
  NTSTATUS default_reset(DXGKARG_RESETENGINE* args) {
    const uint32_t node = args->NodeOrdinal;
    const std::vector<uint32_t> fences = miniport.outstanding(node);
    args->LastAbortedFenceId = fences.empty() ? miniport.last_completed(node) : fences.front();
    if (!fences.empty()) miniport.retire(node, fences.back());
    miniport.retire(node, args->LastAbortedFenceId);
    return 0;
  }

  ScriptedMiniport& miniport;
  std::function<NTSTATUS(DXGKARG_QUERYDEPENDENTENGINEGROUP*)> group;
  std::function<NTSTATUS(DXGKARG_QUERYENGINESTATUS*)> status;
  std::function<NTSTATUS(DXGKARG_RESETENGINE*)> reset;
  std::function<NTSTATUS(const DXGKARG_COLLECTDBGINFO*)> collect;
  std::vector<uint32_t> reset_nodes, reasons;

 private:
  static EngineResets& self(void* adapter) {
    return *static_cast<EngineResets*>(static_cast<ScriptedMiniport*>(adapter)->extension);
  }
  static NTSTATUS NTAPI group_entry(void* adapter, DXGKARG_QUERYDEPENDENTENGINEGROUP* args) {
    EngineResets& me = self(adapter);
    me.miniport.note("DxgkDdiQueryDependentEngineGroup");
    args->DependentNodeOrdinalMask = ULONGLONG{1} << args->NodeOrdinal;
    return me.group ? me.group(args) : 0;
  }
  static NTSTATUS NTAPI status_entry(void* adapter, DXGKARG_QUERYENGINESTATUS* args) {
    EngineResets& me = self(adapter);
    me.miniport.note("DxgkDdiQueryEngineStatus");
    args->EngineStatus.Value = 0;
    return me.status ? me.status(args) : 0;
  }
  static NTSTATUS NTAPI reset_entry(void* adapter, DXGKARG_RESETENGINE* args) {
    EngineResets& me = self(adapter);
    me.miniport.note("DxgkDdiResetEngine");
    me.reset_nodes.push_back(args->NodeOrdinal);
    return me.reset ? me.reset(args) : me.default_reset(args);
  }
  static NTSTATUS NTAPI collect_entry(void* adapter, const DXGKARG_COLLECTDBGINFO* args) {
    EngineResets& me = self(adapter);
    me.miniport.note("DxgkDdiCollectDbgInfo");
    me.reasons.push_back(args->Reason);
    return me.collect ? me.collect(args) : 0;
  }
};

inline void pass(int64_t ns) { runtime::Runtime::current().sleep_for(ns); }
/// Lets the recovery thread and the lane come to rest.
inline void rest(Stack& stack) {
  for (int i = 0; i < 50; ++i) {
    pass(runtime::kMicrosecond);
    stack.settle();
  }
}
/// From a submission to the end of the recovery of a driver that never answers.
inline void wait_out(Stack& stack, int64_t ns = 2 * kDelay + 100 * runtime::kMillisecond) {
  pass(ns);
  rest(stack);
}

class TdrTest : public ContractTest {
 protected:
  using Body = std::function<void(Stack&, EngineResets&)>;
  /// A running adapter whose driver recovers engines; `policy` in place of the defaults.
  static void engines(const Body& body, dxgk::TimeoutPolicy policy = {},
                      const std::function<void(ScriptedMiniport&)>& prepare = nullptr) {
    bare([&](Stack& stack) {
      EngineResets resets(stack.miniport);
      if (prepare) prepare(stack.miniport);
      stack.options.timeouts = policy;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      body(stack, resets);
    });
  }
  static std::vector<dxgk::TimeoutReport> reports(Stack& stack) {
    return *stack.system->timeouts(stack.luid);
  }
  /// Which of these entries were called, in order.
  static std::vector<std::string> order(Stack& stack, const std::set<std::string>& of) {
    std::vector<std::string> names;
    for (const std::string& name : stack.miniport.calls().order) {
      if (of.contains(name)) names.push_back(name);
    }
    return names;
  }
};

}  // namespace dxgkit::contract
