// Calls around the start and the end of an adapter and of its parts, for drivers that have them.
#include <map>

#include "dxgk/core/process.h"
#include "dxgk/displays.h"
#include "dxgk/memory/allocation.h"
#include "tests/contract/flip_fixture.h"
#include "vidpn/edid.h"

namespace dxgkit::contract {
namespace {

/// What the entries were called with.
struct Seen {
  std::vector<std::string> order;  // with the calls around them
  std::vector<DXGK_CHILD_CONTAINER_ID> defaults;
  std::vector<HANDLE> captures;
  UINT output = 0, input = 0;
  NTSTATUS answer = 0;
  bool sets_container = true, changes_container = false;
};
Seen* seen = nullptr;

NTSTATUS NTAPI pre_start(const HANDLE, DXGK_PRE_START_INFO* info) {
  EXPECT_EQ(nt::CallFrame::current().irql(), nt::kPassiveLevel);
  EXPECT_EQ(info->Input, 0U);
  EXPECT_EQ(info->Output, 0U);
  seen->order.emplace_back("pre-start");
  info->Output = seen->output;
  info->Input = seen->input;
  return seen->answer;
}

NTSTATUS NTAPI container(void*, ULONG child, DXGK_CHILD_CONTAINER_ID* id) {
  EXPECT_EQ(child, kTarget);
  seen->defaults.push_back(*id);
  if (seen->sets_container || seen->changes_container) id->ContainerId.Data1 = 0x12345678;
  return seen->sets_container ? 0 : static_cast<NTSTATUS>(0xC01D0001);
}

NTSTATUS NTAPI runtime_request(const HANDLE, const GUID* code, void* in, SIZE_T in_bytes, void* out,
                               SIZE_T out_bytes, SIZE_T* returned) {
  EXPECT_EQ(in, nullptr);
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(in_bytes + out_bytes, 0U);
  EXPECT_NE(returned, nullptr);
  const std::map<unsigned, const char*> names = {
      {0xcba549d4U, "prepare"}, {0x6c929c1dU, "started"}, {0x0a9d9621U, "stopped"}};
  seen->order.emplace_back(names.at(static_cast<unsigned>(code->Data1)));
  return 0;
}

NTSTATUS NTAPI stop_capture(const HANDLE, const DXGKARG_STOPCAPTURE* args) {
  EXPECT_EQ(nt::CallFrame::current().irql(), nt::kPassiveLevel);
  seen->captures.push_back(args->hAllocation);
  return seen->answer;
}

class StartNoticeTest : public FlipTest {
 protected:
  void SetUp() override { seen = &seen_; }
  void TearDown() override { seen = nullptr; }
  Seen seen_;
};

TEST_F(StartNoticeTest, FactsAreExchangedBeforeTheDeviceStarts) {
  DXGKIT_COVERS("OPT-30", "OPT-31");
  const auto start = [&](Stack& stack) {
    seen_.order.clear();
    stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_2;
    stack.miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiExchangePreStartInfo = pre_start;
    };
    stack.miniport.hooks.add_device = [&](void** context) {
      seen_.order.emplace_back("add");
      *context = stack.miniport.adapter_context();
      return NTSTATUS{0};
    };
    stack.miniport.hooks.start_device = [&](DXGK_START_INFO* info, DXGKRNL_INTERFACE* callbacks,
                                            ULONG* sources, ULONG* children) {
      seen_.order.emplace_back("start");
      return stack.miniport.default_start_device(info, callbacks, sources, children);
    };
    EXPECT_EQ(stack.start(), Status::kSuccess);
    EXPECT_EQ(seen_.order, (std::vector<std::string>{"add", "pre-start", "start"}));
  };
  bare([&](Stack& stack) {
    seen_.output = 3;
    start(stack);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
  bare([&](Stack& stack) {
    seen_.answer = nt_status(Status::kUnsuccessful);
    start(stack);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "the start goes on";
    seen_.answer = 0;
  });
  for (const bool input : {false, true}) {
    bare([&](Stack& stack) {
      seen_.output = input ? 0 : 4;
      seen_.input = input ? 1 : 0;
      start(stack);
      EXPECT_EQ(stack.only_finding().rule, "OPT-31");
    });
  }
}

TEST_F(StartNoticeTest, RuntimePowerIsAnnouncedAndEnded) {
  DXGKIT_COVERS("OPT-34");
  for (const bool managed : {true, false}) {
    bare([&](Stack& stack) {
      seen_.order.clear();
      stack.miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
        table.DxgkDdiPowerRuntimeControlRequest = runtime_request;
      };
      stack.miniport.config.caps = [&](DXGK_DRIVERCAPS& caps) {
        caps.SupportRuntimePowerManagement = managed ? TRUE : FALSE;
      };
      stack.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
        if (args->Type != DXGKQAITYPE_NUMPOWERCOMPONENTS)
          return stack.miniport.default_query_adapter_info(args);
        seen_.order.emplace_back("components");
        *static_cast<UINT*>(args->pOutputData) = 0;
        return NTSTATUS{0};
      };
      stack.miniport.hooks.stop_device = [&] {
        seen_.order.emplace_back("stop");
        return NTSTATUS{0};
      };
      ASSERT_EQ(stack.start(), Status::kSuccess);
      stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
      EXPECT_EQ(seen_.order, managed ? (std::vector<std::string>{"components", "prepare", "started",
                                                                 "stopped", "stop"})
                                     : std::vector<std::string>{"stop"});
    });
  }
}

TEST_F(StartNoticeTest, AMonitorHasTheContainerThatTheDriverSays) {
  DXGKIT_COVERS("OPT-32", "OPT-33");
  const auto with_monitor =
      [&](const std::function<void(Stack&, const dxgk::DisplayTarget&)>& body) {
        bare([&](Stack& stack) {
          seen_.defaults.clear();
          FlipDriver driver(stack);
          driver.display.config.children[0].edid = vidpn::build_edid(vidpn::default_edid());
          driver.more_table = [](DRIVER_INITIALIZATION_DATA& table) {
            table.DxgkDdiGetChildContainerId = container;
          };
          ASSERT_EQ(stack.start(), Status::kSuccess);
          const auto shown = dxgk::Displays(*stack.system).configuration(stack.luid);
          ASSERT_TRUE(shown.has_value());
          ASSERT_EQ(seen_.defaults.size(), 1U);
          EXPECT_EQ(seen_.defaults[0].EldInfo.PortId, kTarget);
          EXPECT_NE(seen_.defaults[0].EldInfo.ManufacturerName, 0);
          ASSERT_TRUE(shown->targets[0].container.has_value());
          body(stack, shown->targets[0]);
        });
      };
  const auto data1 = [](const dxgk::DisplayTarget& target) {
    uint32_t value = 0;
    std::memcpy(&value, target.container->data(), sizeof value);
    return value;
  };
  with_monitor([&](Stack& stack, const dxgk::DisplayTarget& target) {
    EXPECT_EQ(data1(target), 0x12345678U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
  seen_.sets_container = false;
  with_monitor([&](Stack& stack, const dxgk::DisplayTarget& target) {
    EXPECT_EQ(data1(target), static_cast<uint32_t>(seen_.defaults[0].ContainerId.Data1));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
  seen_.changes_container = true;
  with_monitor([&](Stack& stack, const dxgk::DisplayTarget& target) {
    EXPECT_NE(data1(target), 0x12345678U);
    EXPECT_EQ(stack.only_finding().rule, "OPT-33");
  });
}

TEST_F(StartNoticeTest, CaptureStopsBeforeItsBufferGoes) {
  DXGKIT_COVERS("OPT-35", "OPT-36");
  const auto prepare = [](ScriptedMiniport& miniport) {
    miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiStopCapture = stop_capture;
    };
  };
  constexpr uint32_t kCapture = 1U << 9;
  const auto driver_handle = [](Client& client, D3DKMT_HANDLE allocation) {
    return (*client.process->handles().find<dxgk::OpenedAllocation>(allocation))->driver_allocation;
  };
  with_client(
      [&](Stack& stack, Client& client) {
        const D3DKMT_HANDLE plain = client.make_allocation();
        const D3DKMT_HANDLE first = client.make_allocation({.flags = kCapture});
        const D3DKMT_HANDLE second = client.make_allocation({.flags = kCapture});
        const std::vector<HANDLE> handles = {driver_handle(client, first),
                                             driver_handle(client, second)};
        EXPECT_EQ(client.destroy_allocation(plain), 0);
        EXPECT_EQ(seen_.captures.size(), 0U);
        stack.blocking([&] { EXPECT_EQ(client.destroy_allocation(first), 0); });
        EXPECT_EQ(seen_.captures, std::vector<HANDLE>{handles[0]});
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        seen_.answer = nt_status(Status::kUnsuccessful);
        stack.blocking([&] { EXPECT_EQ(client.destroy_device(client.device), 0); });
        EXPECT_EQ(seen_.captures, handles) << "with its device";
        EXPECT_EQ(stack.only_finding().rule, "OPT-36");
      },
      prepare);
}

}  // namespace
}  // namespace dxgkit::contract
