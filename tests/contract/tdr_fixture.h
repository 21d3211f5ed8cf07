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

/// On nodes in the middle, long after the start, with a delay and limits that are nobody's
/// defaults.
class OddTdrTest : public TdrTest {
 protected:
  using Strings = std::vector<std::string>;
  static constexpr uint32_t kNode = 2, kOther = 1;
  static constexpr int64_t kLong = 3 * runtime::kSecond;

  static dxgk::TimeoutPolicy policy() {
    dxgk::TimeoutPolicy policy;
    policy.delay_ns = kLong;
    policy.ddi_delay_ns = 7 * runtime::kSecond;
    policy.limit_count = 3;
    policy.limit_time_ns = 50 * runtime::kSecond;
    return policy;
  }
  /// Four nodes, paging on the last.
  static void odd_driver(ScriptedMiniport& miniport) {
    miniport.config.nodes = 4;
    miniport.config.paging_node = 3;
  }
  static void odd_engines(const Body& body, dxgk::TimeoutPolicy asked = policy()) {
    engines(
        [&](Stack& stack, EngineResets& resets) {
          pass(1234 * runtime::kMillisecond);
          body(stack, resets);
        },
        asked, odd_driver);
  }
  /// The same without per-engine recovery.
  static void odd_plain(const std::function<void(Stack&)>& body,
                        dxgk::TimeoutPolicy asked = policy()) {
    bare([&](Stack& stack) {
      odd_driver(stack.miniport);
      stack.options.timeouts = asked;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      pass(1234 * runtime::kMillisecond);
      body(stack);
    });
  }
  static void wait_long(Stack& stack) { wait_out(stack, 2 * kLong + 100 * runtime::kMillisecond); }
  static void render(Client& client, ContextBuffers& context, int times = 1) {
    for (int i = 0; i < times; ++i) ASSERT_EQ(client.render(context, work_on({})), 0);
  }
  static verifier::Finding finding(Stack& stack, const char* rule) {
    const std::vector<verifier::Finding> all = stack.findings.all();
    const auto found = std::ranges::find(all, rule, &verifier::Finding::rule);
    EXPECT_NE(found, all.end()) << rule << ": " << ::testing::PrintToString(stack.rules());
    return found == all.end() ? verifier::Finding{} : *found;
  }
  static Strings steps(const dxgk::TimeoutReport& report) {
    Strings texts;
    for (const dxgk::TimeoutStep& step : report.steps) texts.push_back(step.text);
    return texts;
  }
  static NTSTATUS leave_five_bytes(const DXGKARG_COLLECTDBGINFO* args) {
    static_cast<std::byte*>(args->pBuffer)[4] = std::byte{1};
    return 0;
  }
  /// A reset that aborts the `which`th packet on hardware and drops the queue.
  static std::function<NTSTATUS(DXGKARG_RESETENGINE*)> abort_packet(Stack& stack, size_t which) {
    return [&stack, which](DXGKARG_RESETENGINE* args) {
      const std::vector<uint32_t> fences = stack.miniport.outstanding(args->NodeOrdinal);
      args->LastAbortedFenceId = fences.at(which);
      stack.miniport.retire(args->NodeOrdinal, fences.back());
      stack.miniport.retire(args->NodeOrdinal, fences.at(which));
      return 0;
    };
  }
};

}  // namespace dxgkit::contract
