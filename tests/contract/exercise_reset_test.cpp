// What `dxgkit verify` asks of an adapter alone: resets and changes of power without a reason.
#include "dxgk/exercise.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

class ExerciseResetTest : public ContractTest {
 protected:
  static dxgk::Exercise on(Stack& stack) {
    return std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
  }
};

// What a client has on the hardware ends first.
TEST_F(ExerciseResetTest, TheDriverIsAloneWithIdleHardware) {
  DXGKIT_COVERS("TDR-24");
  struct Row {
    Status (dxgk::Exercise::*work)();
    const char* ddi;
  };
  const Row rows[] = {
      {&dxgk::Exercise::reset, "DxgkDdiResetFromTimeout"},
      {&dxgk::Exercise::reset_losing_content, "DxgkDdiResetFromTimeout"},
      {&dxgk::Exercise::power_cycle, "DxgkDdiSetPowerState"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(&row - rows);
    with_client([&](Stack& stack, Client& client) {
      ContextBuffers context = client.make_context();
      ASSERT_EQ(client.render(context, Work{}), 0);
      stack.settle();
      Status status = Status::kRetry;
      Stack::Background alone(stack, [&] { status = (on(stack).*row.work)(); });
      EXPECT_FALSE(alone.finished());
      EXPECT_EQ(stack.miniport.count(row.ddi), 0U);
      alone.finish();
      EXPECT_EQ(status, Status::kSuccess);
      EXPECT_NE(stack.miniport.count(row.ddi), 0U);
      ASSERT_EQ(client.render(context, Work{}), 0);
      stack.drive();
      EXPECT_EQ(client.wait_for_idle(), 0);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  }
}

// A reset that takes the content is a success only if the driver is there afterwards.
TEST_F(ExerciseResetTest, AResetThatTheDriverDoesNotSurviveIsNoSuccess) {
  DXGKIT_COVERS("TDR-24");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE hidden = client.make_allocation(64 * kKibibyte, 1U << 1);
    for (const bool fails : {false, true}) {
      SCOPED_TRACE(fails);
      ASSERT_EQ(client.render(context, work_on({hidden})), 0);
      stack.drive();
      if (fails) {
        stack.expect_leaks = true;
        stack.miniport.hooks.build_paging = [](DXGKARG_BUILDPAGINGBUFFER*) {
          return nt_status(Status::kUnsuccessful);
        };
      }
      stack.blocking([&] {
        EXPECT_EQ(on(stack).reset_losing_content(),
                  fails ? Status::kDeviceRemoved : Status::kSuccess);
      });
      EXPECT_EQ(stack.rules().size(), fails ? 1U : 0U);
    }
  });
}

// A driver whose reset fails has no way to go on.
TEST_F(ExerciseResetTest, AResetThatFailsIsABugCheck) {
  DXGKIT_COVERS("TDR-23");
  for (const bool restart : {false, true}) {
    for (const bool losing : {false, true}) {
      SCOPED_TRACE(restart);
      SCOPED_TRACE(losing);
      with_client([&](Stack& stack, Client&) {
        stack.expect_leaks = true;
        (restart ? stack.miniport.hooks.restart_from_timeout
                 : stack.miniport.hooks.reset_from_timeout) = [] {
          return nt_status(Status::kUnsuccessful);
        };
        stack.blocking([&] {
          dxgk::Exercise exercise = on(stack);
          EXPECT_EQ(losing ? exercise.reset_losing_content() : exercise.reset(),
                    Status::kDeviceRemoved);
          EXPECT_FALSE(exercise.running());
        });
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.rule, "TDR-23");
        EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
        EXPECT_EQ(finding.bugcheck_code, 0x116U);
        EXPECT_EQ(finding.bugcheck_parameter,
                  static_cast<uint32_t>(nt_status(Status::kUnsuccessful)));
        EXPECT_EQ(finding.ddi, restart ? "DxgkDdiRestartFromTimeout" : "DxgkDdiResetFromTimeout");
        EXPECT_EQ(stack.miniport.count("DxgkDdiRestartFromTimeout"), restart ? 1U : 0U);
      });
    }
  }
}

// Paging buffers in an aperture are not mapped while the power is away, or while the driver resets.
TEST_F(ExerciseResetTest, PagingBuffersLeaveTheirApertureMeanwhile) {
  DXGKIT_COVERS("PWR-01");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        ASSERT_EQ(client.render(context, work_on({client.make_allocation(64 * kKibibyte, 2)})), 0);
        stack.drive();
        int mapped = 0;
        stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
          if (args->Operation == DXGK_OPERATION_MAP_APERTURE_SEGMENT) ++mapped;
          if (args->Operation == DXGK_OPERATION_UNMAP_APERTURE_SEGMENT) --mapped;
          return stack.miniport.default_build_paging(args);
        };
        std::vector<int> meanwhile;
        std::vector<DEVICE_POWER_STATE> states;
        stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
          meanwhile.push_back(mapped);
          states.push_back(state);
          return STATUS_SUCCESS;
        };
        stack.miniport.hooks.reset_from_timeout = [&] {
          meanwhile.push_back(mapped);
          return STATUS_SUCCESS;
        };
        stack.blocking([&] {
          EXPECT_EQ(on(stack).power_cycle(), Status::kSuccess);
          EXPECT_EQ(on(stack).reset(), Status::kSuccess);
        });
        ASSERT_EQ(meanwhile.size(), 3U);
        EXPECT_LT(meanwhile[0], 0);
        EXPECT_EQ(meanwhile, std::vector<int>(3, meanwhile[0]));
        EXPECT_EQ(mapped, 0) << "all are back";
        EXPECT_EQ(states, (std::vector<DEVICE_POWER_STATE>{PowerDeviceD3, PowerDeviceD0}));
        ASSERT_EQ(client.render(context, work_on({client.make_allocation(64 * kKibibyte, 2)})), 0);
        stack.drive();
        EXPECT_EQ(client.wait_for_idle(), 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        stack.miniport.hooks.build_paging = nullptr;
        stack.miniport.hooks.set_power_state = nullptr;
        stack.miniport.hooks.reset_from_timeout = nullptr;
      },
      [](ScriptedMiniport& miniport) { miniport.config.paging_buffer_segment = 3; });
}

// A change of power state does not fail: the driver is told so, and woken again.
TEST_F(ExerciseResetTest, APowerCycleGoesOnWhateverTheDriverAnswers) {
  DXGKIT_COVERS("PWR-02");
  for (const DEVICE_POWER_STATE fails : {PowerDeviceD3, PowerDeviceD0}) {
    SCOPED_TRACE(int{fails});
    with_client([&](Stack& stack, Client&) {
      std::vector<DEVICE_POWER_STATE> states;
      stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
        states.push_back(state);
        return nt_status(state == fails ? Status::kUnsuccessful : Status::kSuccess);
      };
      stack.blocking([&] { EXPECT_EQ(on(stack).power_cycle(), Status::kSuccess); });
      EXPECT_EQ(states, (std::vector<DEVICE_POWER_STATE>{PowerDeviceD3, PowerDeviceD0}));
      EXPECT_EQ(stack.only_finding().rule, "PWR-02");
      stack.miniport.hooks.set_power_state = nullptr;
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
