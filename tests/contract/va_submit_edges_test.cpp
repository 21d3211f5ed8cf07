// D3DKMTSubmitCommand argument by argument: bounds, flags, what the driver is shown.
#include "tests/contract/two_adapters.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using VaSubmitEdgesTest = GpuVaTest;
constexpr NTSTATUS kUnsupported = nt_status(Status::kNotSupported);

uint64_t commands_of(GpuVaStack& stack, VaClient& client) {
  const D3DKMT_HANDLE code = client.make_allocation(kPage, kMemorySet);
  client.list({code});
  stack.drive();
  const uint64_t va = client.make_mapping(code, 1);
  EXPECT_TRUE(stack.gpu.write(client.process_handle(), va, dxgkit::testing::gpu_commands({})));
  return va;
}
D3DKMT_SUBMITCOMMAND submission(const VaClient& client, uint64_t va) {
  D3DKMT_SUBMITCOMMAND args{};
  args.Commands = va;
  args.CommandLength = 24;
  args.BroadcastContextCount = 1;
  args.BroadcastContext[0] = client.context;
  return args;
}

// What is behind the bound, and what nobody does, is refused, and nothing is queued.
TEST_F(VaSubmitEdgesTest, RefusesWhatNobodyDoes) {
  DXGKIT_COVERS("SUB-36", "SUB-35", "THUNK-05");
  running(GpuVaConfig::gpu_physical_four_level(), [](GpuVaStack& stack) {
    VaClient client(stack);
    SecondAdapter second(stack);
    const D3DKMT_HANDLE there = second.make_device(client);
    D3DKMT_HANDLE elsewhere = 0;
    ASSERT_EQ(client.create_allocation({}, &elsewhere, there), 0);
    const uint64_t va = commands_of(stack, client);
    const D3DKMT_HANDLE primary = client.make_allocation(kPage, kMemorySet);
    client.list({primary});
    stack.drive();
    struct Row {
      const char* name;
      NTSTATUS status;
      std::function<void(D3DKMT_SUBMITCOMMAND&)> change;
    };
    const Row rows[] = {
        {"a seventeenth primary, which the next member looks like", kInvalid,
         [&](auto& args) {
           for (D3DKMT_HANDLE& one : args.WrittenPrimaries) one = primary;
           args.NumPrimaries = 17;
           args.NumHistoryBuffers = primary;
         }},
        {"history buffers", kUnsupported, [](auto& args) { args.NumHistoryBuffers = 1; }},
        {"a redirected present", kUnsupported,
         [](auto& args) { args.Flags.PresentRedirected = 1; }},
        {"a primary of another adapter", kInvalid,
         [&](auto& args) {
           args.NumPrimaries = 1;
           args.WrittenPrimaries[0] = elsewhere;
         }},
        {"a second one that is", kInvalid,
         [&](auto& args) {
           args.NumPrimaries = 2;
           args.WrittenPrimaries[0] = primary;
           args.WrittenPrimaries[1] = elsewhere;
         }},
    };
    for (const Row& row : rows) {
      SCOPED_TRACE(row.name);
      D3DKMT_SUBMITCOMMAND args = submission(client, va);
      row.change(args);
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(client.call([&] { return D3DKMTSubmitCommand(&args); }), row.status);
      stack.drive();
      EXPECT_EQ(digest(stack, {&client}), before);
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    }
    D3DKMT_SUBMITCOMMAND most = submission(client, va);
    for (D3DKMT_HANDLE& one : most.WrittenPrimaries) one = primary;
    most.NumPrimaries = 16;
    EXPECT_EQ(client.call([&] { return D3DKMTSubmitCommand(&most); }), 0);
    stack.drive();
    ASSERT_EQ(client.destroy_device(there), 0);
  });
}

// Null rendering comes from the flag of the call or of the context, and from nowhere else.
TEST_F(VaSubmitEdgesTest, NullRenderingIsOfTheCallOrTheContext) {
  DXGKIT_COVERS("SUB-23", "SUB-22");
  for (const bool of_context : {false, true}) {
    for (const bool of_call : {false, true}) {
      SCOPED_TRACE(::testing::Message() << of_context << of_call);
      running(GpuVaConfig::gpu_physical_four_level(), [&](GpuVaStack& stack) {
        VaClient client(stack);
        const uint64_t va = commands_of(stack, client);
        D3DKMT_CREATECONTEXTVIRTUAL create{};
        create.hDevice = client.device;
        create.Flags.NullRendering = of_context ? 1 : 0;
        stack.blocking([&] {
          ASSERT_EQ(client.call([&] { return D3DKMTCreateContextVirtual(&create); }), 0);
        });
        stack.gpu.clear_calls();
        D3DKMT_SUBMITCOMMAND args = submission(client, va);
        args.BroadcastContext[0] = create.hContext;
        args.Flags.NullRendering = of_call ? 1 : 0;
        ASSERT_EQ(client.call([&] { return D3DKMTSubmitCommand(&args); }), 0);
        stack.drive();
        const auto submits = stack.gpu.calls().submits;
        ASSERT_EQ(submits.size(), 1U);
        EXPECT_EQ(submits[0].args.Flags.NullRendering, of_context || of_call ? 1U : 0U);
      });
    }
  }
}

TEST_F(VaSubmitEdgesTest, EnginesBeyondTheFirstAreRefused) {
  DXGKIT_COVERS("SCHED-01");
  running(GpuVaConfig::gpu_physical_four_level(), [](GpuVaStack& stack) {
    VaClient client(stack);
    for (const UINT affinity : {0U, 1U, 2U, 3U, 1U << 31}) {
      SCOPED_TRACE(affinity);
      D3DKMT_CREATECONTEXTVIRTUAL create{};
      create.hDevice = client.device;
      create.EngineAffinity = affinity;
      const Digest before = digest(stack, {&client});
      NTSTATUS status = 1;
      stack.blocking(
          [&] { status = client.call([&] { return D3DKMTCreateContextVirtual(&create); }); });
      EXPECT_EQ(status, affinity <= 1 ? 0 : kInvalid);
      if (affinity > 1) {
        EXPECT_EQ(digest(stack, {&client}), before);
      }
    }
  });
}

// The driver that looks at private data first is shown the whole submission, with all contexts.
TEST_F(VaSubmitEdgesTest, TheDriverIsShownTheWholeSubmission) {
  DXGKIT_COVERS("SUB-34");
  std::vector<DXGKARG_VALIDATESUBMITCOMMAND> shown;
  running(
      GpuVaConfig::gpu_physical_four_level(),
      [&](GpuVaStack& stack) {
        VaClient client(stack);
        const uint64_t va = commands_of(stack, client);
        D3DKMT_SUBMITCOMMAND args = submission(client, va);
        args.BroadcastContext[1] = client.make_context_virtual(1);
        args.BroadcastContextCount = 2;
        std::vector<std::byte> data(12, std::byte{0x3C});
        args.pPrivateDriverData = data.data();
        args.PrivateDriverDataSize = 12;
        ASSERT_EQ(client.call([&] { return D3DKMTSubmitCommand(&args); }), 0);
        ASSERT_EQ(shown.size(), 1U);
        EXPECT_EQ(shown[0].Commands, va);
        EXPECT_EQ(shown[0].CommandLength, 24U);
        ASSERT_EQ(shown[0].ContextCount, 2U);
        EXPECT_EQ(shown[0].PrivateDriverDataSize, 12U);
        EXPECT_EQ(shown[0].UmdPrivateDataSize, 12U);
        EXPECT_EQ(shown[0].Flags.HardwareQueueSubmission, 0U);
        stack.drive();
        const auto submits = stack.gpu.calls().submits;
        ASSERT_GE(submits.size(), 2U);
        std::vector<HANDLE> ran;
        for (const auto& submit : submits) {
          if (submit.args.Flags.Paging == 0) ran.push_back(submit.args.hContext);
        }
        EXPECT_THAT(ran, ::testing::UnorderedElementsAre(shown[0].Context[0], shown[0].Context[1]));
      },
      [&](GpuVaStack& stack) {
        stack.gpu.on_validate = [&](DXGKARG_VALIDATESUBMITCOMMAND* args) -> NTSTATUS {
          shown.push_back(*args);
          return 0;
        };
        stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_6;
      });
}

}  // namespace
}  // namespace dxgkit::contract
