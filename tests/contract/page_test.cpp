// Paging operations, and a GPU that carries them out, so that content is seen to survive.
#include <algorithm>
#include <cstring>

#include "tests/contract/fixture.h"
#include "tests/contract/memory_gpu.h"

namespace dxgkit::contract {
namespace {

using PageTest = ContractTest;

std::vector<testing::PagingCall> of(Stack& stack, DXGK_BUILDPAGINGBUFFER_OPERATION operation) {
  std::vector<testing::PagingCall> calls = stack.miniport.calls().paging;
  std::erase_if(calls, [&](const auto& call) { return call.args.Operation != operation; });
  return calls;
}
void small_memory(ScriptedMiniport& miniport) { miniport.config.segments[1].size = kMebibyte; }

TEST_F(PageTest, ContentLargerThanVideoMemorySurvivesEvictionAndPageInByteForByte) {
  DXGKIT_COVERS("PAGE-17", "PAGE-19", "PAGE-23", "PAGE-14", "RES-24", "ALLOC-35", "ALLOC-41");
  with_client(
      [](Stack& stack, Client& client) {
        MemoryGpu gpu(stack);
        constexpr size_t kCount = 5;
        constexpr uint64_t kBytes = 400 * kKibibyte;  // two fit at once
        ContextBuffers context = client.make_context();
        std::vector<D3DKMT_HANDLE> allocations;
        for (size_t i = 0; i < kCount; ++i) {
          ScriptedAllocation description;
          description.size = kBytes;
          description.supported_read = description.supported_write = kHidden;
          description.flags = 1;  // CpuVisible, to be compared from the CPU at the end
          allocations.push_back(client.make_allocation(description));
        }
        const auto place_after = [&](size_t i) {
          EXPECT_EQ(client.render(context, work_on({allocations[i]})), 0);
          stack.drive();
          return stack.miniport.calls().patches.back().allocations.at(0).physical_address;
        };
        std::vector<std::vector<std::byte>> expected(kCount, std::vector<std::byte>(kBytes));
        for (int round = 0; round < 4; ++round) {
          for (size_t i = 0; i < kCount; ++i) {
            std::byte* memory = gpu.at(place_after(i));
            ASSERT_EQ(std::memcmp(memory, expected[i].data(), kBytes), 0)
                << "round " << round << " allocation " << i;
            for (uint64_t b = 0; b < kBytes; ++b) {
              expected[i][b] = static_cast<std::byte>(
                  (b * 7 + i * 31 + static_cast<uint64_t>(round) * 101) >> (b % 3));
            }
            std::memcpy(memory, expected[i].data(), kBytes);
          }
        }
        EXPECT_EQ(gpu.fills, kCount) << "zeros at first use";
        EXPECT_GE(gpu.transfers_in, 10U);
        EXPECT_GE(gpu.transfers_out, gpu.transfers_in);
        // What the CPU sees is the same.
        for (size_t i = 0; i < kCount; ++i) {
          void* address = nullptr;
          static_cast<void>(place_after(i));
          EXPECT_EQ(client.lock(allocations[i], &address),
                    nt_status(Status::kGraphicsCantEvictPinnedAllocation))
              << "hidden memory, and no aperture it could be shown through";
          static_cast<void>(place_after((i + 1) % kCount));
          static_cast<void>(place_after((i + 2) % kCount));
          ASSERT_EQ(client.lock(allocations[i], &address), 0) << "in system memory now";
          EXPECT_EQ(std::memcmp(address, expected[i].data(), kBytes), 0) << i;
          EXPECT_EQ(client.unlock(allocations[i]), 0);
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      small_memory);
}

TEST_F(PageTest, WhatTheCpuWroteIsWhatTheGpuSees) {
  DXGKIT_COVERS("PAGE-17", "ALLOC-40");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    ContextBuffers context = client.make_context();
    for (const uint32_t segments : {kHidden, kAperture}) {
      ScriptedAllocation description;
      description.size = 16 * kKibibyte;
      description.supported_read = description.supported_write = segments;
      description.flags = 1;  // CpuVisible
      const D3DKMT_HANDLE allocation = client.make_allocation(description);
      void* address = nullptr;
      ASSERT_EQ(client.lock(allocation, &address), 0);
      std::memset(address, 0x6D, 16 * kKibibyte);
      ASSERT_EQ(client.unlock(allocation), 0);
      ASSERT_EQ(client.render(context, work_on({allocation})), 0);
      stack.drive();
      const uint64_t place =
          stack.miniport.calls().patches.back().allocations.at(0).physical_address;
      for (uint64_t page = 0; page < 4; ++page)
        EXPECT_EQ(*gpu.at(place + page * 4096 + 5), std::byte{0x6D});
    }
  });
}

TEST_F(PageTest, ATransferNamesAnMdlOnOneSideAndBasePlusOffsetOnTheOther) {
  DXGKIT_COVERS("PAGE-16", "PAGE-17", "PAGE-19", "PAGE-18");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE first = client.make_allocation(640 * kKibibyte, kHidden);
        const D3DKMT_HANDLE second = client.make_allocation(640 * kKibibyte, kHidden);
        for (const D3DKMT_HANDLE handle : {first, second, first}) {
          ASSERT_EQ(client.render(context, work_on({handle})), 0);
          stack.drive();
        }
        const std::vector<testing::PagingCall> transfers = of(stack, DXGK_OPERATION_TRANSFER);
        ASSERT_EQ(transfers.size(), 3U) << "first out, second out, first in";
        for (size_t i = 0; i < 3; ++i) {
          const auto& transfer = transfers[i].args.Transfer;
          const bool in = i == 2;
          EXPECT_NE(transfer.hAllocation, nullptr);
          EXPECT_EQ(transfer.TransferSize, 640 * kKibibyte);
          EXPECT_EQ(transfer.TransferOffset, 0U);
          EXPECT_EQ(transfer.MdlOffset, 0U);
          EXPECT_EQ(transfer.Flags.TransferStart, 1U);
          EXPECT_EQ(transfer.Flags.TransferEnd, 1U);
          EXPECT_EQ(transfer.Source.SegmentId, in ? 0U : 2U);
          EXPECT_EQ(transfer.Destination.SegmentId, in ? 2U : 0U);
          const auto address = static_cast<uint64_t>(
              (in ? transfer.Destination.SegmentAddress : transfer.Source.SegmentAddress).QuadPart);
          EXPECT_GE(address, kHiddenBase);
          EXPECT_LE(address + transfer.TransferSize, kHiddenBase + kMebibyte);
          EXPECT_EQ((in ? transfers[i].source_pages : transfers[i].destination_pages).size(), 160U);
        }
        EXPECT_EQ(transfers[2].source_pages, transfers[0].destination_pages);
        EXPECT_EQ(transfers[2].args.Transfer.hAllocation, transfers[0].args.Transfer.hAllocation);
        EXPECT_NE(transfers[1].args.Transfer.hAllocation, transfers[0].args.Transfer.hAllocation);
      },
      small_memory);
}

TEST_F(PageTest, ApertureMappingsNamePagesAndUnmappingTheDummyPage) {
  DXGKIT_COVERS("PAGE-26", "PAGE-27", "PAGE-29");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE plain = client.make_allocation(32 * kKibibyte, kAperture);
        ScriptedAllocation description;
        description.size = 16 * kKibibyte;
        description.supported_read = description.supported_write = kAperture;
        description.flags = 1U | 1U << 2;  // CpuVisible, Cached
        const D3DKMT_HANDLE cached = client.make_allocation(description);
        ASSERT_EQ(client.render(context, work_on({plain, cached})), 0);
        stack.drive();
        const std::vector<testing::PagingCall> maps =
            of(stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT);
        ASSERT_EQ(maps.size(), 2U);
        for (size_t i = 0; i < 2; ++i) {
          const auto& map = maps[i].args.MapApertureSegment;
          EXPECT_EQ(map.SegmentId, 3U);
          EXPECT_NE(map.hAllocation, nullptr);
          EXPECT_EQ(map.NumberOfPages, i == 0 ? 8U : 4U);
          EXPECT_EQ(maps[i].source_pages.size(), i == 0 ? 8U : 4U);
          EXPECT_EQ(map.MdlOffset, 0U);
          EXPECT_EQ(map.Flags.CacheCoherent, i == 0 ? 0U : 1U);
        }
        ASSERT_EQ(client.destroy_allocation(plain), 0);
        stack.drive();
        const std::vector<testing::PagingCall> unmaps =
            of(stack, DXGK_OPERATION_UNMAP_APERTURE_SEGMENT);
        ASSERT_EQ(unmaps.size(), 1U);
        const auto& unmap = unmaps[0].args.UnmapApertureSegment;
        EXPECT_EQ(unmap.SegmentId, 3U);
        EXPECT_EQ(unmap.OffsetInPages, maps[0].args.MapApertureSegment.OffsetInPages);
        EXPECT_EQ(unmap.NumberOfPages, 8U);
        const auto dummy = static_cast<uint64_t>(unmap.DummyPage.QuadPart);
        EXPECT_NE(stack.machine.system_pointer(bus::PhysicalAddress{dummy}, 4096), nullptr);
        EXPECT_EQ(dummy % 4096, 0U);
        for (const uint64_t page : maps[0].source_pages) EXPECT_NE(page * 4096, dummy);
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[2].flags.CacheCoherent = 1; });
}

TEST_F(PageTest, TheFirstOperationOfABufferIsAlignedAndLaterOnesArePacked) {
  DXGKIT_COVERS("PAGE-04", "PAGE-14", "SEG-48", "PAGE-01");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation(), client.make_allocation(),
                                              client.make_allocation()})),
              0);
    stack.drive();
    const ScriptedCalls calls = stack.miniport.calls();
    ASSERT_EQ(calls.paging.size(), 3U);
    const auto start = reinterpret_cast<uint64_t>(calls.paging[0].args.pDmaBuffer);
    EXPECT_EQ(start % 4096, 0U);
    for (size_t i = 0; i < 3; ++i) {
      const DXGKARG_BUILDPAGINGBUFFER& args = calls.paging[i].args;
      EXPECT_EQ(reinterpret_cast<uint64_t>(args.pDmaBuffer), start + 64 * i);
      EXPECT_EQ(args.DmaSize, 16 * kKibibyte - 64 * i) << "PagingBufferSize, less what is used";
      EXPECT_EQ(args.DmaBufferPrivateDataSize, 64U);
      EXPECT_EQ(args.MultipassOffset, 0U);
      EXPECT_NE(args.hSystemContext, nullptr);
    }
    ASSERT_EQ(calls.submits.size(), 2U) << "one submission for all three, then the rendering";
    EXPECT_EQ(calls.submits[0].args.DmaBufferSubmissionEndOffset, 192U);
    EXPECT_EQ(calls.submits[0].args.hContext, calls.paging[0].args.hSystemContext);
    EXPECT_EQ(calls.submits[0].args.NodeOrdinal, 1U) << "the paging node";
  });
}

TEST_F(PageTest, AnOperationTooLargeForItsBufferGoesOnInTheNextOne) {
  DXGKIT_COVERS("PAGE-08", "PAGE-09", "PAGE-10", "PAGE-18", "PAGE-20");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
      if (args->Operation != DXGK_OPERATION_FILL) return stack.miniport.default_build_paging(args);
      std::memset(args->pDmaBuffer, 0x33, 128);
      args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 128;
      args->MultipassOffset += 10;
      return args->MultipassOffset == 30 ? NTSTATUS{0}
                                         : nt_status(Status::kGraphicsInsufficientDmaBuffer);
    };
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation(), client.make_allocation()})),
              0);
    stack.drive();
    const ScriptedCalls calls = stack.miniport.calls();
    ASSERT_EQ(calls.paging.size(), 6U);
    const UINT offsets[] = {0, 10, 20, 0, 10, 20};
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(calls.paging[i].args.MultipassOffset, offsets[i]) << i;
      const auto& fill = calls.paging[i].args.Fill;
      const auto& first = calls.paging[i - i % 3].args.Fill;
      EXPECT_EQ(fill.hAllocation, first.hAllocation);
      EXPECT_EQ(fill.FillSize, first.FillSize);
      EXPECT_EQ(fill.Destination.SegmentAddress.QuadPart,
                first.Destination.SegmentAddress.QuadPart);
    }
    EXPECT_EQ(stack.statistics().multipass_paging, 4U);
    std::vector<UINT> lengths;
    for (const testing::SubmitCall& call : calls.submits) {
      if (call.args.Flags.Paging == 0) continue;
      lengths.push_back(call.args.DmaBufferSubmissionEndOffset -
                        call.args.DmaBufferSubmissionStartOffset);
    }
    // The parts that ended in INSUFFICIENT leave on their own; the third of the first and the first
    // of the second operation share a buffer.
    EXPECT_EQ(lengths, (std::vector<UINT>{128, 128, 256, 128, 128}));
    EXPECT_EQ(calls.submits.back().args.Flags.Paging, 0U) << "rendering waits for all of it";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(PageTest, BusyMeansWaitUntilIdleAndAskAgainWithTheFlag) {
  DXGKIT_COVERS("PAGE-12");
  with_client(
      [](Stack& stack, Client& client) {
        size_t busy = 0;
        stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
          if (args->Operation == DXGK_OPERATION_TRANSFER &&
              args->Transfer.Flags.AllocationIsIdle == 0) {
            ++busy;
            return nt_status(Status::kGraphicsAllocationBusy);
          }
          return stack.miniport.default_build_paging(args);
        };
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE first = client.make_allocation(640 * kKibibyte, kHidden);
        const D3DKMT_HANDLE second = client.make_allocation(640 * kKibibyte, kHidden);
        for (const D3DKMT_HANDLE handle : {first, second, first}) {
          ASSERT_EQ(client.render(context, work_on({handle})), 0);
          stack.drive();
        }
        EXPECT_EQ(busy, 3U);
        const std::vector<testing::PagingCall> transfers = of(stack, DXGK_OPERATION_TRANSFER);
        ASSERT_EQ(transfers.size(), 6U);
        for (size_t i = 1; i < 6; i += 2)
          EXPECT_EQ(transfers[i].args.Transfer.Flags.AllocationIsIdle, 1U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      },
      small_memory);
}

/// What a driver may not do in BuildPagingBuffer; all stop the adapter.
struct Mutant {
  const char* sentence;
  const char* rule;
  uint32_t code, parameter;
  NTSTATUS (*build)(DXGKARG_BUILDPAGINGBUFFER*);
  size_t calls = 1;
};
class PageMutant : public ContractTest, public ::testing::WithParamInterface<Mutant> {};
TEST_P(PageMutant, StopsTheAdapter) {
  DXGKIT_COVERS(GetParam().rule, "THUNK-07");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.build_paging = [](DXGKARG_BUILDPAGINGBUFFER* args) {
      return GetParam().build(args);
    };
    ContextBuffers context = client.make_context();
    static_cast<void>(
        client.render(context, work_on({client.make_allocation(64 * kKibibyte, kHidden)})));
    stack.settle();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, GetParam().rule);
    EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(finding.bugcheck_code, GetParam().code);
    EXPECT_EQ(finding.bugcheck_parameter, GetParam().parameter);
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 0U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiBuildPagingBuffer"), GetParam().calls);
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
    // The end of the adapter is orderly all the same: Stack's destructor checks that nothing leaks.
  });
}
NTSTATUS moved(DXGKARG_BUILDPAGINGBUFFER* args, int64_t by) {
  args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + by;
  return 0;
}
const Mutant kMutants[] = {
    {"PastTheBufferByOne", "PAGE-05", 0x10E, 0x12,
     [](auto* a) { return moved(a, int64_t{a->DmaSize} + 1); }},
    {"BeforeTheBuffer", "PAGE-05", 0x10E, 0x12, [](auto* a) { return moved(a, -1); }},
    {"PrivateDataPastItsEnd", "PAGE-06", 0x10E, 0x13,
     [](auto* a) {
       a->pDmaBufferPrivateData = static_cast<std::byte*>(a->pDmaBufferPrivateData) + 65;
       return moved(a, 64);
     }},
    {"ReturnsNoMemory", "PAGE-07", 0x10E, 0xB, [](auto*) { return nt_status(Status::kNoMemory); }},
    {"ReturnsPending", "PAGE-07", 0x10E, 0xB, [](auto*) { return nt_status(Status::kPending); }},
    {"InsufficientForEver", "PAGE-11", 0x10E, 0xB,
     [](auto*) { return nt_status(Status::kGraphicsInsufficientDmaBuffer); }, 2},
    {"BusyForAFill", "PAGE-13", 0x10E, 0xB,
     [](auto*) { return nt_status(Status::kGraphicsAllocationBusy); }},
};
INSTANTIATE_TEST_SUITE_P(Rows, PageMutant, ::testing::ValuesIn(kMutants),
                         [](const auto& row) { return std::string(row.param.sentence); });

// A pass that comes no further is wrong only over an empty buffer of full size, and only the second
// time in a row. A driver comes further by bytes or by MultipassOffset.
TEST_F(PageTest, APassThatComesNoFurtherMayBeFollowedByOneThatDoes) {
  DXGKIT_COVERS("PAGE-11", "PAGE-10");
  struct Pass {
    UINT bytes, offset;  // written; MultipassOffset from here on
    bool done;
    UINT room;  // of the buffer it gets
  };
  constexpr UINT kAll = 16 * 1024, kRest = kAll - 64;
  const Pass passes[] = {
      {64, 0, true, kAll},    // the first operation: the buffer is in use from here on
      {0, 0, false, kRest},   // the second: too little room in the rest
      {0, 0, false, kAll},    // and none at all over a whole buffer, once
      {128, 0, false, kAll},  // further, by bytes alone
      {0, 0, false, kAll},    // once
      {0, 7, false, kAll},    // further, by the offset alone
      {0, 7, false, kAll},    // once
      {64, 9, true, kAll},    // the end of the second
      {0, 0, false, kRest},   // the third starts anew
      {0, 0, false, kAll},    // once
      {64, 0, true, kAll},
  };
  with_client([&](Stack& stack, Client& client) {
    size_t at = 0;
    UINT offset = 0;
    stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
      const Pass& pass = passes[at];
      EXPECT_EQ(args->DmaSize, pass.room) << at;
      EXPECT_EQ(args->MultipassOffset, offset) << at;
      std::memset(args->pDmaBuffer, 0x33, pass.bytes);
      args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + pass.bytes;
      args->MultipassOffset = pass.offset;
      offset = pass.done ? 0 : pass.offset;
      ++at;
      return pass.done ? NTSTATUS{0} : nt_status(Status::kGraphicsInsufficientDmaBuffer);
    };
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation(), client.make_allocation(),
                                              client.make_allocation()})),
              0);
    stack.drive();
    EXPECT_EQ(at, std::size(passes));
    EXPECT_EQ(stack.statistics().multipass_paging, 8U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

// Bytes in every pass are no progress if the operation never ends. Each pass over a whole buffer
// may do as little as a page, and a few may do nothing that counts.
TEST_F(PageTest, AnOperationTakesNoMorePassesThanItHasPages) {
  DXGKIT_COVERS("PAGE-11");
  for (const bool moves : {false, true}) {
    SCOPED_TRACE(moves);
    with_client([&](Stack& stack, Client& client) {
      constexpr size_t kPages = 16, kMost = kPages + 8;
      stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
        std::memset(args->pDmaBuffer, 0x33, 64);
        args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 64;
        if (moves) args->MultipassOffset ^= 1;  // there and back
        return nt_status(Status::kGraphicsInsufficientDmaBuffer);
      };
      ContextBuffers context = client.make_context();
      static_cast<void>(client.render(
          context, work_on({client.make_allocation(kPages * 4 * kKibibyte, kHidden)})));
      stack.drive();
      EXPECT_GT(stack.miniport.count("DxgkDdiBuildPagingBuffer"), kMost);
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "PAGE-11");
      EXPECT_EQ(finding.bugcheck_code, 0x10EU);
      EXPECT_EQ(finding.bugcheck_parameter, 0xBU);
      EXPECT_EQ(
          finding.actual,
          "It returned STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER 25 times over whole "
          "paging buffers of 16384 bytes, for one operation of 16 pages; the last time it wrote "
          "64 bytes, and MultipassOffset went from 0 to " +
              std::string(moves ? "1." : "0."));
    });
  }
}

// Each operation has its passes for itself: many that take some each are no operation without end.
TEST_F(PageTest, PassesAreCountedForEachOperationAnew) {
  DXGKIT_COVERS("PAGE-11");
  with_client([](Stack& stack, Client& client) {
    constexpr int kPasses = 7;  // of at most nine for an operation of a page
    int passes = 0;
    stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
      std::memset(args->pDmaBuffer, 0x33, 64);
      args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 64;
      return ++passes % kPasses == 0 ? NTSTATUS{0}
                                     : nt_status(Status::kGraphicsInsufficientDmaBuffer);
    };
    ContextBuffers context = client.make_context();
    Work work;
    for (int i = 0; i < 4; ++i)
      work.allocations.push_back({client.make_allocation(4 * kKibibyte, kHidden)});
    for (uint32_t i = 0; i < 4; ++i) work.patches.push_back(patch_at(i, 16 * i));
    ASSERT_EQ(client.render(context, work), 0);
    stack.drive();
    EXPECT_EQ(passes, 4 * kPasses);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

TEST_F(PageTest, ADriverWithoutPrivateDataForPagingGetsNone) {
  DXGKIT_COVERS("SEG-48", "PAGE-06");
  for (const uint32_t bytes : {0U, 96U}) {
    SCOPED_TRACE(bytes);
    with_client(
        [&](Stack& stack, Client& client) {
          ContextBuffers context = client.make_context();
          ASSERT_EQ(
              client.render(context, work_on({client.make_allocation(), client.make_allocation()})),
              0);
          stack.drive();
          const ScriptedCalls calls = stack.miniport.calls();
          ASSERT_EQ(calls.paging.size(), 2U);
          for (const testing::PagingCall& call : calls.paging) {
            EXPECT_EQ(call.args.DmaBufferPrivateDataSize, bytes);
          }
          ASSERT_EQ(calls.submits.size(), 2U);
          const DXGKARG_SUBMITCOMMAND& submit = calls.submits[0].args;
          ASSERT_EQ(submit.Flags.Paging, 1U);
          EXPECT_EQ(submit.pDmaBufferPrivateData, calls.paging[0].args.pDmaBufferPrivateData)
              << "memory of its own, or what stands for none";
          EXPECT_EQ(submit.DmaBufferPrivateDataSize, bytes);
          EXPECT_EQ(calls.patches[0].args.pDmaBufferPrivateData, submit.pDmaBufferPrivateData);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](ScriptedMiniport& miniport) { miniport.config.paging_private_bytes = bytes; });
  }
}

// However little private data there is, a byte behind it is seen.
TEST_F(PageTest, AByteBehindThePrivateDataIsFound) {
  DXGKIT_COVERS("PAGE-06", "SEG-48");
  for (const uint32_t bytes : {1U, 2U, 96U}) {
    SCOPED_TRACE(bytes);
    with_client(
        [&](Stack& stack, Client& client) {
          stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
            EXPECT_EQ(args->DmaBufferPrivateDataSize, bytes);
            static_cast<std::byte*>(args->pDmaBufferPrivateData)[bytes] ^= std::byte{0x55};
            return moved(args, 64);
          };
          ContextBuffers context = client.make_context();
          static_cast<void>(client.render(context, work_on({client.make_allocation()})));
          stack.settle();
          const verifier::Finding finding = stack.only_finding();
          EXPECT_EQ(finding.rule, "PAGE-06");
          EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
          EXPECT_EQ(finding.bugcheck_parameter, 0x13U);
          EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 0U);
        },
        [&](ScriptedMiniport& miniport) { miniport.config.paging_private_bytes = bytes; });
  }
}

TEST_F(PageTest, BusyWithAllocationIsIdleIsFatal) {
  DXGKIT_COVERS("PAGE-13");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE first = client.make_allocation(640 * kKibibyte, kHidden);
        const D3DKMT_HANDLE second = client.make_allocation(640 * kKibibyte, kHidden);
        ASSERT_EQ(client.render(context, work_on({first})), 0);
        stack.drive();
        stack.miniport.hooks.build_paging = [](DXGKARG_BUILDPAGINGBUFFER*) {
          return nt_status(Status::kGraphicsAllocationBusy);
        };
        static_cast<void>(client.render(context, work_on({second})));
        stack.drive();
        EXPECT_EQ(stack.only_finding().rule, "PAGE-13");
        EXPECT_EQ(stack.only_finding().bugcheck_code, 0x10EU);
      },
      small_memory);
}

TEST_F(PageTest, ABufferFilledToItsLastByteIsLegal) {
  DXGKIT_COVERS("PAGE-05", "PAGE-06");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.build_paging = [](DXGKARG_BUILDPAGINGBUFFER* args) {
      args->pDmaBufferPrivateData =
          static_cast<std::byte*>(args->pDmaBufferPrivateData) + args->DmaBufferPrivateDataSize;
      return moved(args, args->DmaSize);
    };
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation(), client.make_allocation()})),
              0);
    stack.drive();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 3U);
  });
}

TEST_F(PageTest, RenderingThatDependsOnPagingWaitsForIt) {
  DXGKIT_COVERS("SCHED-14", "PAGE-28");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation()})), 0);
    stack.settle();
    EXPECT_EQ(stack.miniport.outstanding(0).size(), 0U);
    EXPECT_EQ(stack.miniport.outstanding(1).size(), 1U);
    stack.miniport.complete_next(1);
    stack.settle();
    EXPECT_EQ(stack.miniport.outstanding(0).size(), 1U);
    stack.drive();
  });
}

TEST_F(PageTest, VictimsGoByPriorityThenByLastUse) {
  DXGKIT_COVERS("RES-22", "PAGE-24");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const auto with_priority = [&](uint32_t priority) {
          ScriptedAllocation description;
          description.size = 256 * kKibibyte;
          description.supported_read = description.supported_write = kHidden;
          description.priority = priority;
          return client.make_allocation(description);
        };
        // Four fill the segment: the low one was used last, the high one first.
        const D3DKMT_HANDLE high = with_priority(0xA0000000), old = with_priority(0x78000000),
                            young = with_priority(0x78000000), low = with_priority(0x28000000);
        std::vector<void*> handles;
        for (const D3DKMT_HANDLE handle : {high, old, young, low}) {
          ASSERT_EQ(client.render(context, work_on({handle})), 0);
          stack.drive();
          handles.push_back(stack.miniport.calls().paging.back().args.Fill.hAllocation);
        }
        for (int i = 0; i < 2; ++i) {
          ASSERT_EQ(client.render(context, work_on({with_priority(0xC8000000)})), 0);
          stack.drive();
        }
        const std::vector<testing::PagingCall> out = of(stack, DXGK_OPERATION_TRANSFER);
        ASSERT_EQ(out.size(), 2U);
        EXPECT_EQ(out[0].args.Transfer.hAllocation, handles[3]) << "the lowest priority";
        EXPECT_EQ(out[1].args.Transfer.hAllocation, handles[1]) << "the least recently used";
      },
      small_memory);
}

}  // namespace
}  // namespace dxgkit::contract
