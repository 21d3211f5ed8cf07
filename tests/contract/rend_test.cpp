// D3DKMTRender to DxgkDdiRender: capture, translation, multipass, splitting.
#include <fmt/format.h>

#include <cstring>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using RendTest = ContractTest;

std::vector<testing::SubmitCall> renders_submitted(Stack& stack) {
  std::vector<testing::SubmitCall> calls = stack.miniport.calls().submits;
  std::erase_if(calls, [](const auto& call) { return call.args.Flags.Paging != 0; });
  return calls;
}

TEST_F(RendTest, ReachesRenderAndWithRenderKmRenderKm) {
  DXGKIT_COVERS("REND-01", "IRQL-01");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    Work work = work_on({});
    ASSERT_EQ(client.render(context, work), 0);
    work.flags.RenderKm = 1;
    ASSERT_EQ(client.render(context, work), 0);
    stack.drive();
    const ScriptedCalls calls = stack.miniport.calls();
    ASSERT_EQ(calls.renders.size(), 2U);
    EXPECT_FALSE(calls.renders[0].render_km);
    EXPECT_TRUE(calls.renders[1].render_km);
    EXPECT_EQ(stack.miniport.count("DxgkDdiRender"), 1U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiRenderKm"), 1U);
  });
}

TEST_F(RendTest, TheBufferIsAlignedItsPrivateDataZeroAtFirstAndNeverWrittenAfterwards) {
  DXGKIT_COVERS("REND-02");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.render = [&](void* driver_context, DXGKARG_RENDER* args) {
      std::memset(args->pDmaBufferPrivateData, 0x5A, args->DmaBufferPrivateDataSize);
      return stack.miniport.default_render(driver_context, args);
    };
    ContextBuffers context = client.make_context();
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(client.render(context, work_on({})), 0);
      stack.drive();
    }
    const std::vector<testing::RenderCall> renders = stack.miniport.calls().renders;
    ASSERT_EQ(renders.size(), 2U);
    EXPECT_EQ(reinterpret_cast<uint64_t>(renders[0].args.pDmaBuffer) % 4096, 0U);
    EXPECT_EQ(renders[0].private_before, std::vector<std::byte>(256));
    ASSERT_EQ(renders[1].args.pDmaBuffer, renders[0].args.pDmaBuffer) << "reused";
    EXPECT_EQ(renders[1].private_before, std::vector<std::byte>(256, std::byte{0x5A}));
  });
}

TEST_F(RendTest, CommandsAndPatchesArriveAsTheClientsOwnPointers) {
  DXGKIT_COVERS("REND-03");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const void* command = context.command;
    const void* patches = context.patches;
    Work work = work_on({client.make_allocation()});
    work.fill = std::byte{0x3C};
    ASSERT_EQ(client.render(context, work), 0);
    stack.drive();
    const testing::RenderCall call = stack.miniport.calls().renders.at(0);
    EXPECT_EQ(call.args.pCommand, command);
    EXPECT_EQ(call.args.CommandLength, 256U);
    EXPECT_EQ(call.args.pPatchLocationListIn, patches);
    EXPECT_EQ(call.args.PatchLocationListInSize, 1U);
    EXPECT_EQ(call.command, std::vector<std::byte>(256, std::byte{0x3C}));
    EXPECT_GE(call.args.PatchLocationListOutSize, 128U);
    EXPECT_EQ(call.args.DmaSize, 16 * kKibibyte);
    EXPECT_EQ(call.args.MultipassOffset, 0U);
  });
}

TEST_F(RendTest, TheAllocationListIsTranslatedEntryByEntry) {
  DXGKIT_COVERS("REND-04", "REND-06", "ALLOC-25");
  with_client([](Stack& stack, Client& client) {
    std::vector<void*> opened;
    stack.miniport.hooks.open_allocation = [&](void* device, const DXGKARG_OPENALLOCATION* args) {
      const NTSTATUS status = stack.miniport.default_open_allocation(device, args);
      opened.push_back(args->pOpenAllocation[0].hDeviceSpecificAllocation);
      return status;
    };
    const D3DKMT_HANDLE a = client.make_allocation(64 * kKibibyte, kHidden);
    const D3DKMT_HANDLE b = client.make_allocation(64 * kKibibyte, 1U);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({a})), 0);
    stack.drive();
    const uint64_t place_of_a =
        stack.miniport.calls().patches.back().allocations[0].physical_address;
    Work work;
    work.allocations = {{b, false}, {0, false}, {a, true}, {b, true}};
    ASSERT_EQ(client.render(context, work), 0);
    stack.drive();
    const std::vector<port::AllocationListEntry> list =
        stack.miniport.calls().renders.at(1).allocations;
    ASSERT_EQ(list.size(), 4U);
    EXPECT_EQ(list[0].device_handle, opened[1]);
    EXPECT_FALSE(list[0].write());
    EXPECT_EQ(list[0].segment(), 0U) << "never paged in";
    EXPECT_EQ(list[0].physical_address, 0U);
    EXPECT_EQ(list[1].device_handle, nullptr) << "a NULL entry stays one";
    EXPECT_EQ(list[2].device_handle, opened[0]);
    EXPECT_TRUE(list[2].write());
    EXPECT_EQ(list[2].segment(), 2U) << "the last known place";
    EXPECT_EQ(list[2].physical_address, place_of_a);
    EXPECT_EQ(list[3].device_handle, opened[1]);
    EXPECT_TRUE(list[3].write());
  });
}

/// What a client can get wrong, one thing at a time.
TEST_F(RendTest, WrongArgumentsAreRefusedAndNothingChanges) {
  DXGKIT_COVERS("REND-04", "REND-05", "THUNK-03", "THUNK-05", "THUNK-15", "THUNK-16");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE good = client.make_allocation();
    const D3DKMT_HANDLE stale = client.make_allocation();
    ASSERT_EQ(client.destroy_allocation(stale, 2), 0);
    const D3DKMT_HANDLE other_device = client.make_device();
    D3DKMT_HANDLE elsewhere = 0;
    ASSERT_EQ(client.create_allocation({}, &elsewhere, other_device), 0);
    struct Row {
      const char* sentence;
      Status status;
      std::function<void(D3DKMT_RENDER&)> broken;
    };
    const auto list = [&](D3DKMT_HANDLE handle) {
      return [&context, handle](D3DKMT_RENDER& args) {
        context.allocations[0] = {};
        context.allocations[0].hAllocation = handle;
        args.AllocationCount = 1;
      };
    };
    const Row rows[] = {
        {"no command at all", Status::kInvalidParameter, [](auto& a) { a.CommandLength = 0; }},
        {"command one byte too long", Status::kInvalidParameter,
         [&](auto& a) { a.CommandLength = context.command_bytes + 1; }},
        {"command starts at the end", Status::kInvalidParameter,
         [&](auto& a) { a.CommandOffset = context.command_bytes; }},
        {"offset plus length wraps", Status::kInvalidParameter,
         [](auto& a) { a.CommandOffset = UINT32_MAX, a.CommandLength = 2; }},
        {"more allocations than the list has", Status::kInvalidParameter,
         [&](auto& a) { a.AllocationCount = context.allocation_count + 1; }},
        {"all ones allocations", Status::kInvalidParameter,
         [](auto& a) { a.AllocationCount = UINT32_MAX; }},
        {"more patches than the list has", Status::kInvalidParameter,
         [&](auto& a) { a.PatchLocationCount = context.patch_count + 1; }},
        {"a reserved flag", Status::kInvalidParameter, [](auto& a) { a.Flags.Reserved = 1; }},
        {"a reserved bit of an allocation list entry", Status::kInvalidParameter,
         [&](auto& a) {
           list(good)(a);
           context.allocations[0].Value |= 1U << 31;
         }},
        {"a reserved bit beside a handle that never was", Status::kInvalidParameter,
         [&](auto& a) {
           list(0x7FFFFFC0)(a);
           context.allocations[0].Value |= 1U << 5;
         }},
        {"a handle that never was", Status::kInvalidHandle, list(0x7FFFFFC0)},
        {"a stale handle", Status::kInvalidHandle, list(stale)},
        {"a device's handle", Status::kInvalidHandle, list(client.device)},
        {"an allocation of another device", Status::kInvalidParameter, list(elsewhere)},
        {"65 broadcast contexts", Status::kInvalidParameter,
         [](auto& a) { a.BroadcastContextCount = 65; }},
        {"a broadcast to itself", Status::kInvalidParameter,
         [](auto& a) {
           a.BroadcastContextCount = 1;
           a.BroadcastContext[0] = a.hContext;
         }},
        {"a device's handle as context", Status::kInvalidParameter,
         [&](auto& a) { a.hContext = client.device; }},
        {"no context", Status::kInvalidParameter, [](auto& a) { a.hContext = 0; }},
    };
    for (const Row& row : rows) {
      SCOPED_TRACE(row.sentence);
      D3DKMT_RENDER args{};
      args.hContext = context.handle;
      args.CommandLength = 64;
      row.broken(args);
      const bool known_context = args.hContext == context.handle;
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(client.call([&] { return D3DKMTRender(&args); }), nt_status(row.status));
      EXPECT_EQ(digest(stack, {&client}), before);
      if (known_context) {
        EXPECT_EQ(args.pNewCommandBuffer, context.command) << "on failure too";
        EXPECT_EQ(args.NewCommandBufferSize, context.command_bytes);
        EXPECT_EQ(args.pNewAllocationList, context.allocations);
        EXPECT_EQ(args.NewPatchLocationListSize, context.patch_count);
      }
    }
    EXPECT_EQ(client.render(context, work_on({good})), 0) << "and the context still works";
    stack.drive();
  });
}

TEST_F(RendTest, TheLargestLegalSizesAreTaken) {
  DXGKIT_COVERS("THUNK-16", "THUNK-14");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    EXPECT_EQ(context.command_bytes, 16 * kKibibyte);
    EXPECT_EQ(context.allocation_count, 64U);
    EXPECT_EQ(context.patch_count, 128U);
    const D3DKMT_HANDLE allocation = client.make_allocation();
    Work work;
    work.command_bytes = 16 * kKibibyte;
    work.allocations.assign(64, {allocation});
    for (uint32_t i = 0; i < 128; ++i) work.patches.push_back(patch_at(i % 64, 8 * i));
    EXPECT_EQ(client.render(context, work), 0);
    stack.drive();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    EXPECT_EQ(stack.statistics().patch_locations, 128U);
  });
}

/// A driver that translates 256 bytes per pass.
NTSTATUS in_steps(DXGKARG_RENDER* args) {
  const UINT left = args->CommandLength - args->MultipassOffset;
  const UINT now = std::min(left, 256U);
  std::memcpy(args->pDmaBuffer,
              static_cast<const std::byte*>(args->pCommand) + args->MultipassOffset, now);
  args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + now;
  args->MultipassOffset += now;
  return args->MultipassOffset == args->CommandLength
             ? NTSTATUS{0}
             : nt_status(Status::kGraphicsInsufficientDmaBuffer);
}

TEST_F(RendTest, InsufficientBufferMeansSubmitAndCallAgainWithTheDriversOffset) {
  DXGKIT_COVERS("REND-09", "REND-11");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.render = [](void*, DXGKARG_RENDER* args) { return in_steps(args); };
    ContextBuffers context = client.make_context();
    Work work;
    work.command_bytes = 1000;
    D3DKMT_RENDER out{};
    ASSERT_EQ(client.render(context, work, &out), 0);
    EXPECT_EQ(out.QueuedBufferCount, 4U);
    const std::vector<testing::RenderCall> renders = stack.miniport.calls().renders;
    ASSERT_EQ(renders.size(), 4U);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(renders[i].args.MultipassOffset, 256 * i);
      EXPECT_EQ(renders[i].args.pCommand, renders[0].args.pCommand);
      EXPECT_EQ(renders[i].args.CommandLength, 1000U);
    }
    EXPECT_NE(renders[1].args.pDmaBuffer, renders[0].args.pDmaBuffer) << "a new buffer";
    stack.drive();
    const std::vector<testing::SubmitCall> submits = renders_submitted(stack);
    ASSERT_EQ(submits.size(), 4U);
    const UINT ends[] = {256, 256, 256, 232};
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(submits[i].args.DmaBufferSubmissionEndOffset, ends[i]);
    // The next Render starts at 0 again.
    ASSERT_EQ(client.render(context, work), 0);
    EXPECT_EQ(stack.miniport.calls().renders[4].args.MultipassOffset, 0U);
    stack.drive();
  });
}

// A part that the kernel refuses ends the call: the driver is not asked for those behind it.
TEST_F(RendTest, ABadPatchListInOnePassEndsTheCall) {
  DXGKIT_COVERS("REND-09", "PATCH-27");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.render = [](void*, DXGKARG_RENDER* args) {
      if (args->MultipassOffset == 256) {
        *args->pPatchLocationListOut = {};
        args->pPatchLocationListOut->AllocationIndex = args->AllocationListSize;
        ++args->pPatchLocationListOut;
      }
      return in_steps(args);
    };
    ContextBuffers context = client.make_context();
    Work work;
    work.command_bytes = 1000;
    EXPECT_EQ(client.render(context, work), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"PATCH-27"});
    EXPECT_EQ(stack.miniport.count("DxgkDdiRender"), 2U);
    stack.drive();
    EXPECT_EQ(renders_submitted(stack).size(), 1U) << "the pass before it";
    stack.miniport.hooks.render = nullptr;
    EXPECT_EQ(client.render(context, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(renders_submitted(stack).size(), 2U);
  });
}

TEST_F(RendTest, ADriverThatAsksForBuffersWithoutProgressIsStoppedAndTheClientGoesOn) {
  DXGKIT_COVERS("REND-09");
  with_client([](Stack& stack, Client& client) {
    // It gets as far as byte 96 and no further.
    stack.miniport.hooks.render = [](void*, DXGKARG_RENDER* args) {
      args->MultipassOffset = 96;
      return nt_status(Status::kGraphicsInsufficientDmaBuffer);
    };
    ContextBuffers context = client.make_context();
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kInvalidParameter));
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "REND-09");
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    EXPECT_EQ(finding.actual,
              "It asked for another DMA buffer 2 times without writing anything or moving "
              "MultipassOffset (96).");
    EXPECT_EQ(stack.miniport.count("DxgkDdiRender"), 3U);
    EXPECT_EQ(stack.statistics().multipass_renders, 2U) << "the third was given up";
    stack.miniport.hooks.render = nullptr;
    EXPECT_EQ(client.render(context, work_on({})), 0);
    stack.drive();
  });
}

TEST_F(RendTest, WhoGuaranteedOneBufferAndAsksForAnotherIsStopped) {
  DXGKIT_COVERS("REND-10");
  for (const bool guaranteed : {false, true}) {
    SCOPED_TRACE(guaranteed);
    with_client(
        [&](Stack& stack, Client& client) {
          stack.miniport.hooks.render = [](void*, DXGKARG_RENDER* args) { return in_steps(args); };
          ContextBuffers context = client.make_context();
          Work work;
          work.command_bytes = 200;  // fits
          EXPECT_EQ(client.render(context, work), 0);
          stack.drive();
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          work.command_bytes = 1000;
          const NTSTATUS status = client.render(context, work);
          if (!guaranteed) {
            EXPECT_EQ(status, 0);
            stack.drive();
            EXPECT_EQ(stack.rules(), std::vector<std::string>{});
            return;
          }
          EXPECT_EQ(status, nt_status(Status::kDeviceRemoved));
          const verifier::Finding finding = stack.only_finding();
          EXPECT_EQ(finding.rule, "REND-10");
          EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
          EXPECT_EQ(finding.actual, "It asked for another DMA buffer after 256 of 16384 bytes.");
          EXPECT_EQ(finding.bugcheck_code, 0x10EU);
          EXPECT_EQ(finding.bugcheck_parameter, 0x16U);
          EXPECT_EQ(renders_submitted(stack).size(), 1U);
        },
        [&](ScriptedMiniport& miniport) {
          miniport.hooks.create_device = [&miniport, guaranteed](DXGKARG_CREATEDEVICE* args) {
            static thread_local DXGK_DEVICEINFO info;
            const NTSTATUS status = miniport.default_create_device(args);
            info = {};
            info.Flags.GuaranteedDmaBufferContract = guaranteed ? 1 : 0;
            args->pInfo = &info;
            return status;
          };
        });
  }
}

TEST_F(RendTest, PatchingContextsTakeNoVirtualSubmission) {
  DXGKIT_COVERS("REND-27", "SUB-01");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    D3DKMT_SUBMITCOMMAND submit{};
    submit.Commands = 0x10000;
    submit.CommandLength = 64;
    submit.BroadcastContextCount = 1;
    submit.BroadcastContext[0] = context.handle;
    EXPECT_EQ(client.call([&] { return D3DKMTSubmitCommand(&submit); }),
              nt_status(Status::kInvalidParameter));
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_submitted, 0U);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(client.render(context, work_on({})), 0);
    stack.drive();
  });
}

/// Outputs that leave their buffers: fatal with 10E, 12.
struct Overrun {
  const char* sentence;
  void (*move)(DXGKARG_RENDER*);
};
class RendOverrun : public ContractTest, public ::testing::WithParamInterface<Overrun> {};
TEST_P(RendOverrun, StopsTheAdapter) {
  DXGKIT_COVERS("REND-08");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.render = [](void*, DXGKARG_RENDER* args) {
      GetParam().move(args);
      return NTSTATUS{0};
    };
    ContextBuffers context = client.make_context();
    const NTSTATUS status = client.render(context, work_on({}));
    EXPECT_LT(status, 0);
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "REND-08");
    EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(finding.bugcheck_code, 0x10EU);
    EXPECT_EQ(finding.bugcheck_parameter, 0x12U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 0U);
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
  });
}
const Overrun kOverruns[] = {
    {"DmaBufferOneByteTooFar",
     [](auto* a) { a->pDmaBuffer = static_cast<std::byte*>(a->pDmaBuffer) + a->DmaSize + 1; }},
    {"DmaBufferBeforeItsStart",
     [](auto* a) { a->pDmaBuffer = static_cast<std::byte*>(a->pDmaBuffer) - 1; }},
    {"DmaBufferNull", [](auto* a) { a->pDmaBuffer = nullptr; }},
    {"PatchListOneElementTooFar",
     [](auto* a) { a->pPatchLocationListOut += a->PatchLocationListOutSize + 1; }},
    {"PatchListInTheMiddleOfAnElement",
     [](auto* a) {
       a->pPatchLocationListOut = reinterpret_cast<D3DDDI_PATCHLOCATIONLIST*>(
           reinterpret_cast<std::byte*>(a->pPatchLocationListOut) + 4);
     }},
    {"PrivateDataOneByteTooFar",
     [](auto* a) {
       a->pDmaBufferPrivateData =
           static_cast<std::byte*>(a->pDmaBufferPrivateData) + a->DmaBufferPrivateDataSize + 1;
     }},
};
INSTANTIATE_TEST_SUITE_P(Rows, RendOverrun, ::testing::ValuesIn(kOverruns),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(RendTest, ABufferFilledToItsLastByteIsLegal) {
  DXGKIT_COVERS("REND-08");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.render = [](void*, DXGKARG_RENDER* args) {
      args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + args->DmaSize;
      args->pDmaBufferPrivateData =
          static_cast<std::byte*>(args->pDmaBufferPrivateData) + args->DmaBufferPrivateDataSize;
      return NTSTATUS{0};
    };
    ContextBuffers context = client.make_context();
    EXPECT_EQ(client.render(context, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(renders_submitted(stack).at(0).args.DmaBufferSubmissionEndOffset, 16 * kKibibyte);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(RendTest, DocumentedFailuresRejectOnlyTheSubmission) {
  DXGKIT_COVERS("REND-15", "REND-16");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    for (const Status status :
         {Status::kNoMemory, Status::kPrivilegedInstruction, Status::kIllegalInstruction,
          Status::kInvalidParameter, Status::kInvalidUserBuffer, Status::kInvalidHandle,
          Status::kGraphicsDriverMismatch}) {
      stack.miniport.hooks.render = [&](void*, DXGKARG_RENDER*) { return nt_status(status); };
      EXPECT_EQ(client.render(context, work_on({})), nt_status(status));
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    EXPECT_EQ(stack.miniport.count("DxgkDdiPatch"), 0U);
    stack.miniport.hooks.render = nullptr;
    EXPECT_EQ(client.render(context, work_on({})), 0);
    stack.drive();
  });
}

TEST_F(RendTest, AnUndocumentedCodeIsFoundAndBecomesInvalidParameter) {
  DXGKIT_COVERS("REND-16");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    stack.miniport.hooks.render = [](void*, DXGKARG_RENDER*) {
      return nt_status(Status::kUnsuccessful);
    };
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kInvalidParameter));
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "REND-16");
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

TEST_F(RendTest, AGpuExceptionPutsTheDeviceInError) {
  DXGKIT_COVERS("REND-15", "TDR-27", "THUNK-27");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    stack.miniport.hooks.render = [](void*, DXGKARG_RENDER*) {
      return nt_status(Status::kGraphicsGpuExceptionOnDevice);
    };
    EXPECT_EQ(client.render(context, work_on({})),
              nt_status(Status::kGraphicsGpuExceptionOnDevice));
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    stack.miniport.hooks.render = nullptr;
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(client.destroy_context(context.handle), 0) << "destroying works";
  });
}

/// Segments are numbered from 1: the first two here are memory, the third an aperture.
struct BufferSegments {
  const char* sentence;
  uint32_t set;
  uint32_t wrong;  // 0: a context is made
};
class RendSegments : public ContractTest, public ::testing::WithParamInterface<BufferSegments> {};
TEST_P(RendSegments, DmaBuffersLiveInAperturesOnly) {
  DXGKIT_COVERS("REND-13");
  running(
      [](Stack& stack) {
        Client client(stack);
        const Digest before = digest(stack, {&client});
        ContextBuffers context;
        if (GetParam().wrong == 0) {
          EXPECT_EQ(client.create_context(&context), 0);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          return;
        }
        EXPECT_EQ(client.create_context(&context), nt_status(Status::kInvalidParameter));
        EXPECT_EQ(context.handle, 0U);
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.rule, "REND-13");
        EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
        EXPECT_EQ(finding.ddi, "DxgkDdiCreateContext");
        EXPECT_EQ(finding.actual,
                  fmt::format("DmaBufferSegmentSet is 0x{:X}; segment {} is no aperture segment.",
                              GetParam().set, GetParam().wrong));
        Digest after = digest(stack, {&client});
        after.findings = before.findings;
        after.driver_calls = before.driver_calls;  // CreateContext and DestroyContext
        EXPECT_EQ(after, before);
      },
      [](ScriptedMiniport& miniport) { miniport.config.dma_segment_set = GetParam().set; });
}
const BufferSegments kBufferSegments[] = {
    {"TheAperture", 1U << 2, 0},
    {"VisibleMemory", 1U << 0, 1},
    {"HiddenMemory", 1U << 1, 2},
    {"MemoryBesideTheAperture", 1U << 2 | 1U << 1, 2},
    {"NoSegmentBesideTheAperture", 1U << 3 | 1U << 2, 4},
    {"TheLastOfThirtyTwo", 1U << 31 | 1U << 2, 32},
};
INSTANTIATE_TEST_SUITE_P(Rows, RendSegments, ::testing::ValuesIn(kBufferSegments),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(RendTest, BuffersGrowOnRequestAndNeverShrinkBelowTheDriversSizes) {
  DXGKIT_COVERS("REND-14", "THUNK-15");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const auto resize = [&](UINT command, UINT allocations, UINT patches) {
      D3DKMT_RENDER args{};
      args.hContext = context.handle;
      args.CommandLength = 16;
      args.NewCommandBufferSize = command;
      args.NewAllocationListSize = allocations;
      args.NewPatchLocationListSize = patches;
      args.Flags.ResizeCommandBuffer = args.Flags.ResizeAllocationList =
          args.Flags.ResizePatchLocationList = 1;
      EXPECT_EQ(client.call([&] { return D3DKMTRender(&args); }), 0);
      stack.drive();
      return std::vector<UINT>{args.NewCommandBufferSize, args.NewAllocationListSize,
                               args.NewPatchLocationListSize};
    };
    EXPECT_EQ(resize(32 * 1024, 100, 200), (std::vector<UINT>{32 * 1024, 100, 200}));
    EXPECT_EQ(resize(1, 1, 1), (std::vector<UINT>{16 * 1024, 64, 128}));
  });
}

struct BadPatch {
  const char* sentence;
  const char* rule;
  D3DDDI_PATCHLOCATIONLIST second;
  const char* said;
};
class RendPatchList : public ContractTest, public ::testing::WithParamInterface<BadPatch> {};
TEST_P(RendPatchList, IsRejectedWithAFinding) {
  DXGKIT_COVERS(GetParam().rule);
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.render = [](void*, DXGKARG_RENDER* args) {
      args->pPatchLocationListOut[0] = patch_at(0, 64, 64);
      args->pPatchLocationListOut[1] = GetParam().second;
      args->pPatchLocationListOut += 2;
      args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 256;
      return NTSTATUS{0};
    };
    ContextBuffers context = client.make_context();
    EXPECT_EQ(client.render(context, work_on({client.make_allocation()})),
              nt_status(Status::kInvalidParameter));
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, GetParam().rule);
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    EXPECT_EQ(finding.ddi, "DxgkDdiRender");
    EXPECT_EQ(finding.actual, GetParam().said);
    stack.drive();
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 0U);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}
const BadPatch kBadPatches[] = {
    {"SplitOffsetThatFalls", "REND-22", patch_at(0, 80, 63),
     "Patch element 1 has SplitOffset 63 after 64, PatchOffset 80."},
    {"SplitOffsetBehindThePatch", "REND-22", patch_at(0, 80, 81),
     "Patch element 1 has SplitOffset 81 after 64, PatchOffset 80."},
    {"SlotPastTheMaximum", "REND-22", patch_at(0, 80, 64, 0, 257),
     "Patch element 1 has SlotId 257; MaxAllocationListSlotId is 256."},
    {"AllocationIndexPastTheList", "PATCH-27", patch_at(1, 240, 200),
     "Patch element 1 names allocation index 1 of 1."},
    {"PatchOffsetPastTheBuffer", "PATCH-27", patch_at(0, 256, 64),
     "Patch element 1 patches offset 256 of a DMA buffer of 256 bytes."},
};
INSTANTIATE_TEST_SUITE_P(Rows, RendPatchList, ::testing::ValuesIn(kBadPatches),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(RendTest, WhatDoesNotFitAtOnceRunsInPartsInOrderWithPagingBetween) {
  DXGKIT_COVERS("REND-21", "REND-25", "REND-06");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        Work work;
        work.command_bytes = 1024;
        for (uint32_t i = 0; i < 3; ++i) {
          work.allocations.push_back({client.make_allocation(640 * kKibibyte, kHidden)});
          work.patches.push_back(patch_at(i, 256 * i + 16, 256 * i));
        }
        ASSERT_EQ(client.render(context, work), 0);
        stack.drive();
        EXPECT_EQ(stack.statistics().splits, 2U);
        const std::vector<testing::SubmitCall> submits = stack.miniport.calls().submits;
        std::vector<std::pair<UINT, UINT>> parts;
        std::vector<bool> paging;
        for (const testing::SubmitCall& call : submits) {
          paging.push_back(call.args.Flags.Paging != 0);
          if (call.args.Flags.Paging == 0)
            parts.emplace_back(call.args.DmaBufferSubmissionStartOffset,
                               call.args.DmaBufferSubmissionEndOffset);
        }
        EXPECT_EQ(parts, (std::vector<std::pair<UINT, UINT>>{{0, 256}, {256, 512}, {512, 1024}}));
        EXPECT_EQ(paging, (std::vector<bool>{true, false, true, false, true, false}));
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = kMebibyte; });
}

TEST_F(RendTest, ANullEntryUnbindsItsSlotSoThatItsAllocationMayGo) {
  DXGKIT_COVERS("REND-23");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE first = client.make_allocation(640 * kKibibyte, kHidden);
        const D3DKMT_HANDLE second = client.make_allocation(640 * kKibibyte, kHidden);
        Work work;
        work.command_bytes = 1024;
        work.allocations = {{first}, {0}, {second}};
        work.patches = {patch_at(0, 16, 0, 0, 5), patch_at(1, 528, 512, 0, 5),
                        patch_at(2, 544, 512, 0, 6)};
        ASSERT_EQ(client.render(context, work), 0);
        stack.drive();
        EXPECT_EQ(stack.statistics().splits, 1U);
        EXPECT_EQ(renders_submitted(stack).size(), 2U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = kMebibyte; });
}

/// What the second part says of slots 5 and 6, which the first one bound.
struct SecondPart {
  const char* sentence;
  std::vector<D3DDDI_PATCHLOCATIONLIST> patches;
  bool slots = true;
  uint32_t leaked = 0;  // the slot
};
class RendLeak : public ContractTest, public ::testing::WithParamInterface<SecondPart> {};
TEST_P(RendLeak, EveryPartSaysWhatBecomesOfEarlierBindings) {
  DXGKIT_COVERS("REND-26", "REND-22");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        Work work;
        work.command_bytes = 1024;
        const D3DKMT_HANDLE first = client.make_allocation(640 * kKibibyte, kHidden);
        work.allocations = {
            {first}, {0}, {client.make_allocation(640 * kKibibyte, kHidden)}, {first, false}};
        work.patches = {patch_at(0, 16, 0, 0, 5), patch_at(3, 32, 0, 0, 6)};
        work.patches.insert(work.patches.end(), GetParam().patches.begin(),
                            GetParam().patches.end());
        EXPECT_EQ(client.render(context, work), 0);
        stack.drive();
        if (GetParam().leaked == 0) {
          EXPECT_EQ(stack.statistics().splits, 1U);
          // A driver without slots that names one is told so, and served.
          const std::vector<std::string> none;
          EXPECT_EQ(stack.rules(), GetParam().slots ? none : std::vector<std::string>{"REND-22"});
          return;
        }
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.rule, "REND-26");
        EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
        EXPECT_EQ(
            finding.actual,
            fmt::format("The part of the DMA buffer from offset 512 on neither reprograms nor "
                        "unbinds slot {}, which holds allocation index {} since before.",
                        GetParam().leaked, GetParam().leaked == 5 ? 0 : 3));
        EXPECT_EQ(finding.bugcheck_code, 0x10EU);
        EXPECT_EQ(finding.bugcheck_parameter, 0x27U);
        EXPECT_EQ(renders_submitted(stack).size(), 0U);
        EXPECT_EQ(client.render(context, work), nt_status(Status::kDeviceRemoved));
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.segments[1].size = kMebibyte;
        if (!GetParam().slots) miniport.config.max_slot_id = 0;
      });
}
const SecondPart kSecondParts[] = {
    {"BindsBothAgain", {patch_at(2, 528, 512, 0, 5), patch_at(2, 544, 512, 0, 6)}},
    {"UnbindsOne", {patch_at(2, 528, 512, 0, 5), patch_at(1, 544, 512, 0, 6)}},
    {"IsSilentOfOne", {patch_at(2, 528, 512, 0, 5)}, true, 6},
    {"IsSilentOfBoth", {patch_at(2, 528, 512, 0, 7)}, true, 5},
    {"IsSilentWithoutSlots", {patch_at(2, 528, 512, 0, 5)}, false, 0},
};
INSTANTIATE_TEST_SUITE_P(Rows, RendLeak, ::testing::ValuesIn(kSecondParts),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(RendTest, IfEvenOneStepDoesNotFitTheDeviceFailsAndItsNeighbourGoesOn) {
  DXGKIT_COVERS("REND-24", "SCHED-17");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        Client neighbour(stack, "neighbour");
        ContextBuffers theirs = neighbour.make_context();
        const D3DKMT_HANDLE first = client.make_allocation(640 * kKibibyte, kHidden);
        const D3DKMT_HANDLE second = client.make_allocation(640 * kKibibyte, kHidden);
        ASSERT_EQ(client.render(context, work_on({first, second})), 0);  // one step for both
        ASSERT_EQ(neighbour.render(theirs, work_on({neighbour.make_allocation()})), 0);
        stack.drive();
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
        EXPECT_EQ(client.render(context, work_on({first})), nt_status(Status::kDeviceRemoved));
        EXPECT_EQ(neighbour.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
        EXPECT_EQ(renders_submitted(stack).size(), 1U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "no fault of the driver";
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = kMebibyte; });
}

TEST_F(RendTest, QueuedBufferCountCountsThisOne) {
  DXGKIT_COVERS("THUNK-17");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    for (UINT i = 1; i <= 3; ++i) {
      D3DKMT_RENDER out{};
      ASSERT_EQ(client.render(context, work_on({}), &out), 0);
      EXPECT_EQ(out.QueuedBufferCount, i);
    }
    stack.drive();
    D3DKMT_RENDER out{};
    ASSERT_EQ(client.render(context, work_on({}), &out), 0);
    EXPECT_EQ(out.QueuedBufferCount, 1U);
    stack.drive();
  });
}

}  // namespace
}  // namespace dxgkit::contract
