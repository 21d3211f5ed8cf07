// Levels, classes, reentrancy.
#include <cstring>
#include <set>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using IrqlTest = ContractTest;

uint8_t current_irql() { return nt::CallFrame::current().irql(); }

TEST_F(IrqlTest, EachDdiIsCalledAtItsLevel) {
  DXGKIT_COVERS("IRQL-01", "INT-06");
  std::map<std::string, std::set<int>> levels;
  const auto seen = [&](const char* ddi) { levels[ddi].insert(current_irql()); };
  with_client([&](Stack& stack, Client& client) {
    auto& m = stack.miniport;
    m.hooks.create_context = [&](void* d, DXGKARG_CREATECONTEXT* a) {
      seen("passive");
      return m.default_create_context(d, a);
    };
    m.hooks.create_allocation = [&](DXGKARG_CREATEALLOCATION* a) {
      seen("passive");
      return m.default_create_allocation(a);
    };
    m.hooks.open_allocation = [&](void* d, const DXGKARG_OPENALLOCATION* a) {
      seen("passive");
      return m.default_open_allocation(d, a);
    };
    m.hooks.close_allocation = [&](void* d, const DXGKARG_CLOSEALLOCATION* a) {
      seen("passive");
      return m.default_close_allocation(d, a);
    };
    m.hooks.destroy_allocation = [&](const DXGKARG_DESTROYALLOCATION* a) {
      seen("passive");
      return m.default_destroy_allocation(a);
    };
    m.hooks.render = [&](void* c, DXGKARG_RENDER* a) {
      seen("passive");
      return m.default_render(c, a);
    };
    m.hooks.patch = [&](const DXGKARG_PATCH* a) {
      seen("passive");
      return m.default_patch(a);
    };
    m.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* a) {
      seen("passive");
      return m.default_build_paging(a);
    };
    m.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND* a) {
      seen("dispatch");
      return m.default_submit(a);
    };
    m.hooks.preempt = [&](const DXGKARG_PREEMPTCOMMAND* a) {
      seen("dispatch");
      return m.default_preempt(a);
    };
    m.hooks.dpc = [&] {
      seen("dispatch");
      m.default_dpc();
    };
    m.hooks.interrupt = [&](ULONG message) {
      seen("device");
      return m.default_interrupt(message);
    };
    ContextBuffers low = client.make_context(), high = client.make_context();
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY priority{};
    priority.hContext = low.handle;
    priority.Priority = -1;
    ASSERT_EQ(client.call([&] { return D3DKMTSetContextSchedulingPriority(&priority); }), 0);
    const D3DKMT_HANDLE handle = client.make_allocation();
    ASSERT_EQ(client.render(high, work_on({handle})), 0);
    stack.drive();
    ASSERT_EQ(client.render(low, work_on({handle})), 0);
    stack.settle();
    ASSERT_EQ(client.render(high, work_on({handle})), 0);
    stack.settle();
    ASSERT_EQ(m.calls().preempts.size(), 1U);
    m.preempted(0, m.calls().preempts[0].PreemptionFenceId, m.last_completed(0));
    stack.drive();
    ASSERT_EQ(client.destroy_allocation(handle, 2), 0);
    stack.drive();
  });
  EXPECT_EQ(levels["passive"], std::set<int>{nt::kPassiveLevel});
  EXPECT_EQ(levels["dispatch"], std::set<int>{nt::kDispatchLevel});
  EXPECT_EQ(levels["device"], std::set<int>{nt::kDeviceLevel});
}

TEST_F(IrqlTest, ADriverThatReturnsAtAnotherLevelIsFound) {
  DXGKIT_COVERS("IRQL-01");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.render = [&](void* context, DXGKARG_RENDER* args) {
      const NTSTATUS status = stack.miniport.default_render(context, args);
      nt::CallFrame::current().raise(nt::kDispatchLevel);
      return status;
    };
    ContextBuffers context = client.make_context();
    EXPECT_EQ(client.render(context, work_on({})), 0);
    EXPECT_EQ(stack.only_finding().rule, "IRQL-01");
    EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kViolation);
    EXPECT_EQ(stack.only_finding().ddi, "DxgkDdiRender");
    stack.miniport.hooks.render = nullptr;
    EXPECT_EQ(client.render(context, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(stack.findings.total(), 1U);
  });
}

TEST_F(IrqlTest, AnAnswerThatIsNoNtstatusIsFound) {
  DXGKIT_COVERS("NT-22");
  struct Row {
    NTSTATUS answer;
    bool odd;
  };
  const Row rows[] = {{static_cast<NTSTATUS>(0x80070005), true},  // an HRESULT
                      {static_cast<NTSTATUS>(0xC0000017), false}};
  for (const Row& row : rows) {
    with_client([&](Stack& stack, Client& client) {
      stack.miniport.hooks.create_context = [&](void*, DXGKARG_CREATECONTEXT*) {
        return row.answer;
      };
      ContextBuffers none;
      EXPECT_EQ(client.create_context(&none), row.answer);
      EXPECT_EQ(none.handle, 0U);
      EXPECT_EQ(stack.rules(),
                row.odd ? std::vector<std::string>{"NT-22"} : std::vector<std::string>{});
      stack.miniport.hooks.create_context = nullptr;
      EXPECT_EQ(client.create_context(&none), 0);
    });
  }
}

TEST_F(IrqlTest, SchedulerClassDdisNeverOverlapWhileManyClientsWork) {
  DXGKIT_COVERS("IRQL-04", "IRQL-05", "IRQL-06");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    int inside = 0, most = 0, level_zero = 0, most_level_zero = 0;
    with_client(
        [&](Stack& stack, Client& client) {
          auto& m = stack.miniport;
          const auto scheduler_class = [&](const auto& call) {
            most = std::max(most, ++inside);
            runtime::Runtime::current().sleep_for(100);
            const NTSTATUS status = call();
            --inside;
            return status;
          };
          m.hooks.patch = [&](const DXGKARG_PATCH* a) {
            return scheduler_class([&] { return m.default_patch(a); });
          };
          m.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* a) {
            return scheduler_class([&] { return m.default_build_paging(a); });
          };
          m.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND* a) {
            most = std::max(most, ++inside);
            const NTSTATUS status = m.default_submit(a);
            --inside;
            return status;
          };
          m.hooks.render = [&](void* c, DXGKARG_RENDER* a) {
            most_level_zero = std::max(most_level_zero, ++level_zero);
            runtime::Runtime::current().sleep_for(1000);
            const NTSTATUS status = m.default_render(c, a);
            --level_zero;
            return status;
          };
          std::vector<std::unique_ptr<Stack::Background>> threads;
          std::vector<ContextBuffers> contexts(4);
          for (ContextBuffers& context : contexts) context = client.make_context();
          for (ContextBuffers& context : contexts) {
            threads.push_back(std::make_unique<Stack::Background>(stack, [&] {
              for (int i = 0; i < 5; ++i)
                EXPECT_EQ(client.render(context, work_on({client.make_allocation()})), 0);
            }));
          }
          for (const auto& thread : threads) thread->finish();
          threads.clear();
          stack.drive();
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          EXPECT_EQ(stack.statistics().packets_completed, stack.statistics().packets_submitted);
          m.hooks = {};
        },
        nullptr, seed);
    EXPECT_EQ(most, 1) << "seed " << seed;
    EXPECT_GT(most_level_zero, 1) << "Render is fully reentrant; seed " << seed;
  }
}

TEST_F(IrqlTest, SynchronizeExecutionRunsAtDeviceLevelAndNeedsAConnectedInterrupt) {
  DXGKIT_COVERS("IRQL-10");
  static uint8_t level = 0;
  running([](Stack& stack) {
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    Client client(stack);
    NTSTATUS status = 1;
    BOOLEAN result = FALSE;
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      status = callbacks.DxgkCbSynchronizeExecution(
          callbacks.DeviceHandle,
          [](void*) NTAPI -> BOOLEAN {
            level = current_irql();
            return TRUE;
          },
          nullptr, 0, &result);
      return NTSTATUS{0};
    };
    D3DKMT_ESCAPE escape{};
    escape.hAdapter = client.adapter;
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    ASSERT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(result, TRUE);
    EXPECT_EQ(level, nt::kDeviceLevel);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(IrqlTest, ACallbackAboveItsLevelIsAViolation) {
  DXGKIT_COVERS("IRQL-12");
  with_client([](Stack& stack, Client& client) {
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    stack.miniport.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND* args) {
      DXGK_DEVICE_INFO info{};
      static_cast<void>(callbacks.DxgkCbGetDeviceInformation(callbacks.DeviceHandle, &info));
      return stack.miniport.default_submit(args);
    };
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(stack.only_finding().rule, "IRQL-12");
    EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kViolation);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

}  // namespace
}  // namespace dxgkit::contract
