// Submission to contexts with virtual addressing.
#include "base/guarded_copy.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using VaSubmitTest = GpuVaTest;

/// A client with a mapped, resident page of commands.
struct Submitter {
  explicit Submitter(GpuVaStack& stack_in, const char* name = "client")
      : stack(stack_in), client(stack_in, name) {
    memory = client.make_allocation(4 * kPage, kMemorySet);
    client.list({memory});
    stack.drive();
    va = client.make_mapping(memory, 4);
    process = client.process_handle();
  }
  void write(std::initializer_list<GpuCommand> commands) {
    ASSERT_TRUE(stack.gpu.write(process, va, dxgkit::testing::gpu_commands(commands)));
  }
  GpuVaStack& stack;
  VaClient client;
  D3DKMT_HANDLE memory = 0;
  uint64_t va = 0;
  void* process = nullptr;
};

TEST_F(VaSubmitTest, TheDriverGetsTheClientsValuesAndACopyOfItsPrivateData) {
  DXGKIT_COVERS("SUB-31", "SUB-32", "SUB-18");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    one.write({GpuCommand::write(one.va + kPage, 5)});
    std::vector<std::byte> data(40, std::byte{0x3C});
    stack.gpu.clear_calls();
    ASSERT_EQ(one.client.submit(one.client.context, one.va, 24, data), 0);
    std::ranges::fill(data, std::byte{0xFF});  // nothing of it is looked at any more
    stack.drive();
    const auto submits = stack.gpu.calls().submits;
    ASSERT_EQ(submits.size(), 1U);
    EXPECT_EQ(submits[0].args.DmaBufferVirtualAddress, one.va);
    EXPECT_EQ(submits[0].args.DmaBufferSize, 24U);
    EXPECT_EQ(submits[0].args.DmaBufferUmdPrivateDataSize, 40U);
    EXPECT_EQ(submits[0].args.DmaBufferPrivateDataSize, stack.gpu.config.private_bytes);
    ASSERT_GE(submits[0].private_data.size(), 41U);
    EXPECT_EQ(submits[0].private_data[39], std::byte{0x3C});
    EXPECT_EQ(submits[0].private_data[40], std::byte{0});
    EXPECT_EQ(stack.gpu.read(one.process, one.va + kPage), 5U);
  });
}

TEST_F(VaSubmitTest, TheStatisticsCountTheBytesOfEachSubmission) {
  DXGKIT_COVERS("SUB-31");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    one.write({GpuCommand::write(one.va + kPage, 5)});
    const uint64_t before = stack.statistics().dma_bytes;
    for (const uint32_t bytes : {24U, 48U}) {
      ASSERT_EQ(one.client.submit(one.client.context, one.va, bytes), 0);
    }
    stack.drive();
    EXPECT_EQ(stack.statistics().dma_bytes, before + 24 + 48);
  });
}

TEST_F(VaSubmitTest, TwoProcessesUseTheSameAddresses) {
  DXGKIT_COVERS("SUB-30", "VA-07");
  running([](GpuVaStack& stack) {
    Submitter a(stack, "a");
    Submitter b(stack, "b");
    ASSERT_EQ(a.va, b.va);
    ASSERT_NE(a.process, b.process);
    a.write({GpuCommand::write(a.va + kPage, 11)});
    b.write({GpuCommand::write(b.va + kPage, 22)});
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(a.client.submit(a.client.context, a.va, 24), 0);
      ASSERT_EQ(b.client.submit(b.client.context, b.va, 24), 0);
    }
    stack.drive();
    EXPECT_EQ(stack.gpu.read(a.process, a.va + kPage), 11U);
    EXPECT_EQ(stack.gpu.read(b.process, b.va + kPage), 22U);
    EXPECT_TRUE(stack.gpu.faults().empty());
  });
}

TEST_F(VaSubmitTest, RefusesWhatTheRulesForbid) {
  DXGKIT_COVERS("SUB-33", "SUB-35", "SUB-36");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    Submitter other(stack, "other");
    using Args = D3DKMT_SUBMITCOMMAND;
    std::vector<std::byte> data(4096);
    const uint32_t room = stack.gpu.config.private_bytes;
    const std::vector<std::pair<const char*, std::function<void(Args&)>>> rows = {
        {"no context", [](Args& a) { a.BroadcastContextCount = 0; }},
        {"65 contexts", [](Args& a) { a.BroadcastContextCount = 65; }},
        {"17 primaries", [](Args& a) { a.NumPrimaries = 17; }},
        {"no such context", [](Args& a) { a.BroadcastContext[0] = 1; }},
        {"foreign context", [&](Args& a) { a.BroadcastContext[0] = other.client.queue.handle; }},
        {"no such primary", [](Args& a) { a.NumPrimaries = 1; }},
        {"too much private data", [&](Args& a) { a.PrivateDriverDataSize = room + 1; }},
        {"reserved flags", [](Args& a) { a.Flags.Reserved = 1; }},
    };
    for (const auto& [what, change] : rows) {
      SCOPED_TRACE(what);
      stack.drive();
      const Digest before = digest(stack, {&one.client, &other.client});
      Args args{};
      args.Commands = one.va;
      args.CommandLength = 24;
      args.BroadcastContextCount = 1;
      args.BroadcastContext[0] = one.client.context;
      args.pPrivateDriverData = data.data();
      args.PrivateDriverDataSize = room;
      change(args);
      EXPECT_EQ(one.client.call([&] { return D3DKMTSubmitCommand(&args); }),
                nt_status(Status::kInvalidParameter));
      stack.drive();
      EXPECT_EQ(digest(stack, {&one.client, &other.client}), before);
    }
    // As much as there is room for is fine.
    EXPECT_EQ(one.client.submit(one.client.context, one.va, 24, std::vector<std::byte>(room)), 0);
    stack.drive();
  });
}

TEST_F(VaSubmitTest, RenderIsForPatchingContextsOnly) {
  DXGKIT_COVERS("REND-27", "SUB-01");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    stack.drive();
    const Digest before = digest(stack, {&one.client});
    D3DKMT_RENDER render{};
    render.hContext = one.client.context;
    render.CommandLength = 16;
    EXPECT_EQ(one.client.call([&] { return D3DKMTRender(&render); }),
              nt_status(Status::kInvalidParameter));
    stack.drive();
    EXPECT_EQ(digest(stack, {&one.client}), before);
    EXPECT_EQ(one.client.submit(one.client.context, one.va, 24), 0);
    stack.drive();
  });
}

TEST_F(VaSubmitTest, EveryContextOfABroadcastGetsTheBuffer) {
  DXGKIT_COVERS("SUB-35");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    one.write({GpuCommand::write(one.va + kPage, 5)});
    const D3DKMT_HANDLE second = one.client.make_context_virtual();
    stack.gpu.clear_calls();
    D3DKMT_SUBMITCOMMAND args{};
    args.Commands = one.va;
    args.CommandLength = 24;
    args.BroadcastContextCount = 2;
    args.BroadcastContext[0] = one.client.context;
    args.BroadcastContext[1] = second;
    ASSERT_EQ(one.client.call([&] { return D3DKMTSubmitCommand(&args); }), 0);
    stack.drive();
    const auto submits = stack.gpu.calls().submits;
    ASSERT_EQ(submits.size(), 2U);
    EXPECT_NE(submits[0].args.hContext, submits[1].args.hContext);
  });
}

// The driver judges a buffer malformed: the device pays, and the fence counts as complete.
TEST_F(VaSubmitTest, ARefusedBufferPutsItsDeviceInError) {
  DXGKIT_COVERS("SUB-28", "SUB-29");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    Submitter other(stack, "other");
    one.write({GpuCommand::write(one.va + kPage, 5)});
    other.write({GpuCommand::write(other.va + kPage, 6)});
    const uint64_t bad = one.va + 2 * kPage;
    stack.gpu.on_submit = [&](const DXGKARG_SUBMITCOMMANDVIRTUAL* args) -> NTSTATUS {
      if (args->DmaBufferVirtualAddress == bad) return nt_status(Status::kInvalidParameter);
      return stack.gpu.default_submit_virtual(args);
    };
    ASSERT_EQ(other.client.submit(other.client.context, other.va, 24), 0);
    ASSERT_EQ(one.client.submit(one.client.context, bad, 24), 0);
    // From then on, not from when the fence counts as complete.
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    ASSERT_EQ(other.client.submit(other.client.context, other.va, 24), 0);
    stack.drive();
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    EXPECT_EQ(one.client.submit(one.client.context, one.va, 24), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(other.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.gpu.read(other.process, other.va + kPage), 6U);
    EXPECT_EQ(other.client.wait_for_idle(), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    stack.gpu.on_submit = nullptr;
  });
}

// The driver refuses the buffer of the first context, and the second is of the same device: it gets
// nothing more.
TEST_F(VaSubmitTest, ABroadcastEndsWhereItsDeviceIsLost) {
  DXGKIT_COVERS("SUB-28", "SUB-35");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    one.write({GpuCommand::write(one.va + kPage, 5)});
    D3DKMT_SUBMITCOMMAND args{};
    args.Commands = one.va;
    args.CommandLength = 24;
    args.BroadcastContextCount = 2;
    args.BroadcastContext[0] = one.client.context;
    args.BroadcastContext[1] = one.client.make_context_virtual();
    stack.drive();
    size_t asked = 0;
    stack.gpu.on_submit = [&](const DXGKARG_SUBMITCOMMANDVIRTUAL*) -> NTSTATUS {
      ++asked;
      return nt_status(Status::kInvalidParameter);
    };
    EXPECT_EQ(one.client.call([&] { return D3DKMTSubmitCommand(&args); }),
              nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    stack.drive();
    EXPECT_EQ(asked, 1U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    stack.gpu.on_submit = nullptr;
  });
}

TEST_F(VaSubmitTest, AnyOtherRefusalIsFatal) {
  DXGKIT_COVERS("SUB-28");
  running([](GpuVaStack& stack) {
    stack.expect_leaks = true;
    Submitter one(stack);
    stack.gpu.on_submit = [](const DXGKARG_SUBMITCOMMANDVIRTUAL*) -> NTSTATUS {
      return nt_status(Status::kNoMemory);
    };
    ASSERT_EQ(one.client.submit(one.client.context, one.va, 24), 0);
    stack.drive();
    EXPECT_EQ(stack.only_finding().rule, "SUB-28");
    EXPECT_EQ(stack.only_finding().bugcheck_code, 0x119U);
    EXPECT_EQ(one.client.submit(one.client.context, one.va, 24), nt_status(Status::kDeviceRemoved));
    stack.gpu.on_submit = nullptr;
  });
}

TEST_F(VaSubmitTest, TheDriverLooksAtPrivateDataBeforeItIsQueued) {
  DXGKIT_COVERS("SUB-34");
  const auto accepts = [](GpuVaStack& stack) {
    stack.gpu.on_validate = [](DXGKARG_VALIDATESUBMITCOMMAND*) -> NTSTATUS { return 0; };
    stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_6;
  };
  running(
      [](GpuVaStack& stack) {
        Submitter one(stack);
        one.write({GpuCommand::write(one.va + kPage, 5)});
        stack.gpu.clear_calls();
        ASSERT_EQ(one.client.submit(one.client.context, one.va, 24), 0);
        EXPECT_TRUE(stack.gpu.calls().validations.empty()) << "there is nothing to look at";
        ASSERT_EQ(one.client.submit(one.client.context, one.va, 24, std::vector<std::byte>(8)), 0);
        EXPECT_EQ(stack.gpu.calls().validations.size(), 1U);
        stack.drive();
        const Digest before = digest(stack, {&one.client});
        stack.gpu.on_validate = [](DXGKARG_VALIDATESUBMITCOMMAND*) -> NTSTATUS {
          return nt_status(Status::kInvalidUserBuffer);
        };
        EXPECT_EQ(one.client.submit(one.client.context, one.va, 24, std::vector<std::byte>(8)),
                  nt_status(Status::kInvalidUserBuffer));
        stack.drive();
        Digest after = digest(stack, {&one.client});
        after.driver_calls = before.driver_calls;  // it was asked
        EXPECT_EQ(after, before);
        EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      },
      accepts);
}

TEST_F(VaSubmitTest, AWrittenPrimaryIsResidentOrTheDevicePays) {
  DXGKIT_COVERS("RES-26");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    const D3DKMT_HANDLE away = one.client.make_allocation(kPage, kMemorySet);
    D3DKMT_SUBMITCOMMAND args{};
    args.Commands = one.va;
    args.BroadcastContextCount = 1;
    args.BroadcastContext[0] = one.client.context;
    args.NumPrimaries = 1;
    args.WrittenPrimaries[0] = one.memory;
    EXPECT_EQ(one.client.call([&] { return D3DKMTSubmitCommand(&args); }), 0);
    stack.drive();
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    args.WrittenPrimaries[0] = away;
    EXPECT_EQ(one.client.call([&] { return D3DKMTSubmitCommand(&args); }),
              nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
  });
}

// A packet that never reached the hardware leaves with the client's values and without lists.
TEST_F(VaSubmitTest, CancelledWorkIsTakenBackByItsVirtualAddress) {
  DXGKIT_COVERS("CANCEL-17");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    one.write({GpuCommand::read(one.va + kMebibyte)});  // faults
    for (int i = 0; i < 4; ++i) {
      ASSERT_EQ(one.client.submit(one.client.context, one.va, 24,
                                  std::vector<std::byte>(16, std::byte{0x77})),
                0);
    }
    std::vector<DXGKARG_CANCELCOMMAND> cancelled;
    std::vector<std::byte> first;
    stack.miniport.hooks.cancel = [&](const DXGKARG_CANCELCOMMAND* args) {
      cancelled.push_back(*args);
      first.push_back(*static_cast<const std::byte*>(args->pDmaBufferPrivateData));
      return STATUS_SUCCESS;
    };
    stack.drive();
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    ASSERT_EQ(cancelled.size(), 2U) << "two were on the hardware";
    for (const DXGKARG_CANCELCOMMAND& args : cancelled) {
      EXPECT_EQ(args.pDmaBuffer, nullptr);
      EXPECT_EQ(args.DmaBufferVirtualAddress, one.va);
      EXPECT_EQ(args.DmaBufferSize, 24U);
      EXPECT_EQ(args.DmaBufferUmdPrivateDataSize, 16U);
      EXPECT_EQ(args.DmaBufferPrivateDataSize, stack.gpu.config.private_bytes);
      EXPECT_EQ(args.pAllocationList, nullptr);
      EXPECT_EQ(args.AllocationListSize, 0U);
      EXPECT_EQ(args.pPatchLocationList, nullptr);
      EXPECT_EQ(args.PatchLocationListSize, 0U);
    }
    EXPECT_EQ(first, std::vector<std::byte>(2, std::byte{0x77}));
    stack.miniport.hooks.cancel = nullptr;
  });
}

// A driver without private data of a DMA buffer gets an address that leads nowhere, as with
// submissions, also where an earlier packet had some.
TEST_F(VaSubmitTest, CancelledWorkWithoutPrivateDataHasNoneAtItsAddress) {
  DXGKIT_COVERS("CANCEL-12", "CANCEL-17", "SUB-11");
  running(
      [](GpuVaStack& stack) {
        Submitter one(stack);
        one.write({GpuCommand::read(one.va + kMebibyte)});  // faults
        for (int i = 0; i < 4; ++i) {
          ASSERT_EQ(one.client.submit(one.client.context, one.va, 24), 0);
        }
        std::vector<DXGKARG_CANCELCOMMAND> cancelled;
        stack.miniport.hooks.cancel = [&](const DXGKARG_CANCELCOMMAND* args) {
          cancelled.push_back(*args);
          return STATUS_SUCCESS;
        };
        stack.drive();
        ASSERT_EQ(cancelled.size(), 2U) << "two were on the hardware";
        char byte = 0;
        for (const DXGKARG_CANCELCOMMAND& args : cancelled) {
          EXPECT_EQ(args.DmaBufferPrivateDataSize, 0U);
          ASSERT_NE(args.pDmaBufferPrivateData, nullptr) << "a null check would hide the mistake";
          EXPECT_FALSE(guarded_copy(&byte, args.pDmaBufferPrivateData, 1));
        }
        stack.miniport.hooks.cancel = nullptr;
      },
      [](GpuVaStack& stack) { stack.gpu.config.private_bytes = 0; });
}

// Paging of such a driver, too: by the address its buffer has in the paging process.
TEST_F(VaSubmitTest, CancelledPagingIsTakenBackByItsVirtualAddress) {
  DXGKIT_COVERS("CANCEL-17", "CANCEL-20", "SUB-09", "SUB-10", "SUB-12");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    stack.drive();
    stack.gpu.clear_calls();
    // Each operation has two private bytes.
    const auto build = stack.miniport.hooks.build_paging;
    size_t operations = 0;
    stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
      const bool writes = args->pDmaBuffer != nullptr;
      const NTSTATUS status = build(args);
      if (writes && args->DmaBufferPrivateDataSize >= 2) {
        args->pDmaBufferPrivateData = static_cast<std::byte*>(args->pDmaBufferPrivateData) + 2;
        ++operations;
      }
      return status;
    };
    for (int i = 0; i < 5; ++i) one.client.list({one.client.make_allocation(kPage, kMemorySet)});
    stack.settle();
    std::vector<DXGKARG_SUBMITCOMMANDVIRTUAL> submits;
    for (const auto& call : stack.gpu.calls().submits) {
      EXPECT_EQ(call.args.Flags.Paging, 1U);
      submits.push_back(call.args);
    }
    ASSERT_EQ(submits.size(), 2U) << "and more in the software queue";
    stack.miniport.hooks.build_paging = build;
    const auto* private_end = static_cast<const std::byte*>(submits[0].pDmaBufferPrivateData) +
                              submits[0].DmaBufferPrivateDataSize;
    EXPECT_EQ(submits[1].pDmaBufferPrivateData, private_end) << "a part of its own";
    size_t private_bytes = submits[0].DmaBufferPrivateDataSize;
    private_bytes += submits[1].DmaBufferPrivateDataSize;
    private_end += submits[1].DmaBufferPrivateDataSize;
    std::vector<DXGKARG_CANCELCOMMAND> cancelled;
    stack.miniport.hooks.cancel = [&](const DXGKARG_CANCELCOMMAND* args) {
      cancelled.push_back(*args);
      return STATUS_SUCCESS;
    };
    stack.miniport.forget_outstanding();
    stack.machine.pull_out(stack.miniport.function());
    stack.blocking([&] { EXPECT_EQ(stack.system->remove_adapter(stack.luid), Status::kSuccess); });
    ASSERT_GE(cancelled.size(), 2U);
    uint64_t next = submits[1].DmaBufferVirtualAddress + submits[1].DmaBufferSize;
    for (const DXGKARG_CANCELCOMMAND& args : cancelled) {
      EXPECT_EQ(args.hContext, submits[1].hContext);
      EXPECT_EQ(args.pDmaBuffer, nullptr);
      EXPECT_EQ(args.DmaBufferVirtualAddress, next) << "behind the one before";
      EXPECT_GT(args.DmaBufferSize, 0U);
      EXPECT_EQ(args.DmaBufferSubmissionStartOffset, 0U);
      EXPECT_EQ(args.DmaBufferSubmissionEndOffset, args.DmaBufferSize);
      EXPECT_EQ(args.pDmaBufferPrivateData, private_end);
      EXPECT_EQ(args.DmaBufferPrivateDataSubmissionStartOffset, 0U);
      EXPECT_EQ(args.DmaBufferPrivateDataSubmissionEndOffset, args.DmaBufferPrivateDataSize);
      private_end += args.DmaBufferPrivateDataSize;
      private_bytes += args.DmaBufferPrivateDataSize;
      EXPECT_EQ(args.DmaBufferUmdPrivateDataSize, 0U);
      EXPECT_EQ(args.pAllocationList, nullptr);
      EXPECT_EQ(args.AllocationListSize, 0U);
      EXPECT_EQ(args.pPatchLocationList, nullptr);
      EXPECT_EQ(args.PatchLocationListSize, 0U);
      next = args.DmaBufferVirtualAddress + args.DmaBufferSize;
    }
    EXPECT_EQ(private_bytes, 2 * operations);
    stack.miniport.hooks.cancel = nullptr;
  });
}

// Before the paging fence there is no translation: the software GPU says so, and waits for nobody.
TEST_F(VaSubmitTest, UseBeforeTheFenceIsAFaultOfTheSubmittingContext) {
  DXGKIT_COVERS("VA-28", "THUNK-18");
  running([](GpuVaStack& stack) {
    Submitter one(stack);
    Submitter other(stack, "other");
    const D3DKMT_HANDLE away = one.client.make_allocation(kPage, kMemorySet);
    const uint64_t va = one.client.make_mapping(away, 1);  // mapped, and nowhere
    one.write({GpuCommand::read(va)});
    other.write({GpuCommand::write(other.va + kPage, 6)});
    ASSERT_EQ(one.client.submit(one.client.context, one.va, 24), 0);
    ASSERT_EQ(other.client.submit(other.client.context, other.va, 24), 0);
    stack.drive();
    ASSERT_EQ(stack.gpu.faults().size(), 1U);
    EXPECT_EQ(stack.gpu.faults()[0].va, va);
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    EXPECT_EQ(other.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.gpu.read(other.process, other.va + kPage), 6U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
