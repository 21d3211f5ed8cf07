// A stack whose driver has hardware queues (tests/support/scripted_hw_queue.h), and its clients.
#pragma once

#include <utility>
#include <vector>

#include "tests/contract/va_fixture.h"
#include "tests/support/scripted_hw_queue.h"

namespace dxgkit::contract {

using dxgkit::testing::HwWork;
using dxgkit::testing::ScriptedHwContext;
using dxgkit::testing::ScriptedHwQueue;
using dxgkit::testing::ScriptedHwQueues;

class HwStack : public GpuVaStack {
 public:
  explicit HwStack(GpuVaConfig config) : GpuVaStack(std::move(config)), hw(miniport, gpu) {}
  ~HwStack() {
    hw.paused = false;
    blocking([&] { system.reset(); });
    driver.reset();
    if (!expect_leaks) {
      EXPECT_EQ(hw.live(), 0U) << "hardware contexts or queues nobody destroyed";
      EXPECT_EQ(hw.faults, 0U) << "buffers the engine could not read, or fences it could not write";
    }
  }
  ScriptedHwQueues hw;
};

class HwTest : public ::testing::Test {
 protected:
  using Body = std::function<void(HwStack&)>;
  static void bare(const Body& body, GpuVaConfig config = GpuVaConfig::gpu_physical_four_level(),
                   uint64_t seed = 1) {
    const auto runtime = runtime::make_sim_runtime(
        {.seed = seed, .time_limit = 3600 * runtime::kSecond, .stack_bytes = 512 * 1024});
    runtime->run_main([&] {
      HwStack stack(std::move(config));
      body(stack);
    });
  }
  static void running(const Body& body, const Body& prepare = nullptr,
                      GpuVaConfig config = GpuVaConfig::gpu_physical_four_level()) {
    bare(
        [&](HwStack& stack) {
          if (prepare) prepare(stack);
          ASSERT_EQ(stack.start(), Status::kSuccess);
          body(stack);
        },
        std::move(config));
  }
};

/// A hardware queue as its client sees it.
struct ClientQueue {
  D3DKMT_HANDLE context = 0, handle = 0, fence = 0;
  const uint64_t* cpu = nullptr;
  uint64_t va = 0;
  uint64_t next = 0;
};

/// A client with a page of commands, resident and mapped.
struct HwClient : VaClient {
  explicit HwClient(HwStack& stack_in, const char* name = "client")
      : VaClient(stack_in, name), hw_stack(stack_in) {
    memory = make_allocation(4 * kPage, kMemorySet);
    list({memory});
    stack.drive();
    va = make_mapping(memory, 4);
  }
  ~HwClient() { hw_stack.hw.paused = false; }  // it ends with the engines at work
  HwStack& hw_stack;
  D3DKMT_HANDLE memory = 0;
  uint64_t va = 0;

  NTSTATUS create_hw_context(D3DKMT_CREATEHWCONTEXT& args) {
    NTSTATUS status = 0;
    stack.blocking([&] { status = call([&] { return D3DKMTCreateHwContext(&args); }); });
    return status;
  }
  D3DKMT_HANDLE make_hw_context(UINT node = 0) {
    D3DKMT_CREATEHWCONTEXT args{};
    args.hDevice = device;
    args.NodeOrdinal = node;
    EXPECT_EQ(create_hw_context(args), 0);
    return args.hHwContext;
  }
  NTSTATUS create_hw_queue(D3DKMT_CREATEHWQUEUE& args) {
    NTSTATUS status = 0;
    stack.blocking([&] { status = call([&] { return D3DKMTCreateHwQueue(&args); }); });
    return status;
  }
  ClientQueue make_hw_queue(D3DKMT_HANDLE on, UINT flags = 0) {
    D3DKMT_CREATEHWQUEUE args{};
    args.hHwContext = on;
    args.Flags.Value = flags;
    EXPECT_EQ(create_hw_queue(args), 0);
    return {on,
            args.hHwQueue,
            args.hHwQueueProgressFence,
            static_cast<const uint64_t*>(args.HwQueueProgressFenceCPUVirtualAddress),
            args.HwQueueProgressFenceGPUVirtualAddress,
            0};
  }
  ClientQueue make_hw_queue() { return make_hw_queue(make_hw_context()); }
  NTSTATUS destroy_hw_queue(D3DKMT_HANDLE which) {
    const D3DKMT_DESTROYHWQUEUE args{.hHwQueue = which};
    NTSTATUS status = 0;
    stack.blocking([&] { status = call([&] { return D3DKMTDestroyHwQueue(&args); }); });
    return status;
  }
  NTSTATUS destroy_hw_context(D3DKMT_HANDLE which) {
    const D3DKMT_DESTROYHWCONTEXT args{.hHwContext = which};
    NTSTATUS status = 0;
    stack.blocking([&] { status = call([&] { return D3DKMTDestroyHwContext(&args); }); });
    return status;
  }
  void write(std::initializer_list<GpuCommand> commands, uint64_t at = 0) {
    ASSERT_TRUE(hw_stack.gpu.write(process_handle(), at == 0 ? va : at,
                                   dxgkit::testing::gpu_commands(commands)));
  }
  D3DKMT_SUBMITCOMMANDTOHWQUEUE submit_args(ClientQueue& to) const {
    D3DKMT_SUBMITCOMMANDTOHWQUEUE args{};
    args.hHwQueue = to.handle;
    args.HwQueueProgressFenceId = ++to.next;
    args.CommandBuffer = va;
    args.CommandLength = sizeof(GpuCommand);
    return args;
  }
  NTSTATUS submit(const D3DKMT_SUBMITCOMMANDTOHWQUEUE& args) {
    return call([&] { return D3DKMTSubmitCommandToHwQueue(&args); });
  }
  NTSTATUS submit(ClientQueue& to) { return submit(submit_args(to)); }
  NTSTATUS wait(const ClientQueue& on, D3DKMT_HANDLE object, uint64_t value) {
    D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE args{};
    args.hHwQueue = on.handle;
    args.ObjectCount = 1;
    args.ObjectHandleArray = &object;
    args.FenceValueArray = &value;
    return call([&] { return D3DKMTSubmitWaitForSyncObjectsToHwQueue(&args); });
  }
  NTSTATUS signal(const ClientQueue& on, D3DKMT_HANDLE object, uint64_t value) {
    D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE args{};
    args.BroadcastHwQueueCount = 1;
    args.BroadcastHwQueueArray = &on.handle;
    args.ObjectCount = 1;
    args.ObjectHandleArray = &object;
    args.FenceValueArray = &value;
    return call([&] { return D3DKMTSubmitSignalSyncObjectsToHwQueue(&args); });
  }
  using VaClient::submit;
};

}  // namespace dxgkit::contract
