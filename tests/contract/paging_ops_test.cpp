// Paging operations in the general case: sub-transfers, parking, plain copies, resets, address
// lists, notices, and paging beside rendering.
#include <cstring>

#include "tests/contract/memory_fixture.h"

namespace dxgkit::contract {
namespace {

using PagingOps = ContractTest;

/// A stack whose transfers are cut at 64 KiB, with video memory of 256 KiB.
void with_chunks(const std::function<void(Stack&, Client&)>& body,
                 void (*bare)(const std::function<void(Stack&)>&, uint64_t)) {
  bare(
      [&](Stack& stack) {
        stack.options.transfer_chunk_bytes = 64 * kKibibyte;
        stack.miniport.config.segments[1].size = 256 * kKibibyte;
        ASSERT_EQ(stack.start(), Status::kSuccess);
        Client client(stack);
        body(stack, client);
        stack.miniport.hooks = {};
      },
      1);
}

TEST_F(PagingOps, ALargeTransferIsSeveralWithStartOnTheFirstAndEndOnTheLast) {
  DXGKIT_COVERS("PAGE-17", "PAGE-18", "PAGE-19", "PAGE-20");
  with_chunks(
      [](Stack& stack, Client& client) {
        MemoryGpu gpu(stack);
        size_t insufficient = 0;
        stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
          // Every second sub-transfer wants another buffer: its fields repeat.
          if (args->Operation == DXGK_OPERATION_TRANSFER && args->MultipassOffset == 0 &&
              args->Transfer.TransferOffset % (128 * kKibibyte) != 0) {
            args->MultipassOffset = 77;
            ++insufficient;
            const NTSTATUS written = stack.miniport.default_build_paging(args);
            EXPECT_EQ(written, 0);
            return nt_status(Status::kGraphicsInsufficientDmaBuffer);
          }
          return stack.miniport.default_build_paging(args);
        };
        ContextBuffers context = client.make_context();
        const uint64_t bytes = 204 * kKibibyte;
        const D3DKMT_HANDLE first = client.make_allocation(bytes, kHidden);
        const D3DKMT_HANDLE second = client.make_allocation(bytes, kHidden);
        fill(gpu.at(address_after_render(stack, client, context, first)), bytes, 1);
        fill(gpu.at(address_after_render(stack, client, context, second)), bytes, 2);
        expect_filled(gpu.at(address_after_render(stack, client, context, first)), bytes, 1);
        expect_filled(gpu.at(address_after_render(stack, client, context, second)), bytes, 2);
        EXPECT_GT(insufficient, 0U);
        uint64_t done = 0;
        size_t pass = 0;
        size_t whole_transfers = 0;
        void* moving = nullptr;
        for (const testing::PagingCall& call : operations(stack, DXGK_OPERATION_TRANSFER)) {
          const auto& part = call.args.Transfer;
          const uint64_t wanted = std::min<uint64_t>(64 * kKibibyte, bytes - done);
          EXPECT_EQ(part.TransferOffset, done);
          EXPECT_EQ(part.MdlOffset, done / 4096);
          EXPECT_EQ(part.TransferSize, wanted);
          EXPECT_EQ(part.Flags.TransferStart, done == 0 ? 1U : 0U);
          EXPECT_EQ(part.Flags.TransferEnd, done + wanted == bytes ? 1U : 0U);
          if (done == 0 && pass == 0) moving = part.hAllocation;
          EXPECT_EQ(part.hAllocation, moving) << "no other transfer before the End of this one";
          const bool again = done % (128 * kKibibyte) != 0 && pass == 0;
          EXPECT_EQ(call.args.MultipassOffset, pass == 0 ? 0U : 77U);
          pass = again ? 1 : 0;
          if (again) continue;
          done += wanted;
          if (done == bytes) {
            done = 0;
            ++whole_transfers;
          }
        }
        EXPECT_EQ(done, 0U);
        EXPECT_EQ(whole_transfers, 5U) << "out, out, in, out, in";
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      &bare);
}

TEST_F(PagingOps, ALargeMappingOfAnApertureIsSeveralThatNameTheirPagesInOneList) {
  DXGKIT_COVERS("PAGE-26", "PAGE-27", "PAGE-29");
  with_chunks(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        constexpr uint64_t kBytes = 204 * kKibibyte, kPartPages = 16;
        // A neighbour is in front of it, so that its place does not begin at page 0.
        const D3DKMT_HANDLE before = client.make_allocation(8 * kKibibyte, kAperture);
        const D3DKMT_HANDLE large = client.make_allocation(kBytes, kAperture);
        ASSERT_EQ(client.render(context, work_on({before})), 0);
        stack.drive();
        ASSERT_EQ(client.render(context, work_on({large})), 0);
        stack.drive();
        const std::vector<testing::PagingCall> maps =
            operations(stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT);
        ASSERT_EQ(maps.size(), 5U) << "one, and four of at most 64 KiB";
        const auto& neighbour = maps[0].args.MapApertureSegment;
        EXPECT_EQ(neighbour.NumberOfPages, 2U);
        const auto& first = maps[1].args.MapApertureSegment;
        EXPECT_GE(first.OffsetInPages, neighbour.OffsetInPages + neighbour.NumberOfPages);
        uint64_t done = 0;
        for (size_t i = 1; i < maps.size(); ++i) {
          const auto& map = maps[i].args.MapApertureSegment;
          EXPECT_EQ(map.hAllocation, first.hAllocation);
          EXPECT_EQ(map.OffsetInPages, first.OffsetInPages + done);
          EXPECT_EQ(map.MdlOffset, done);
          EXPECT_EQ(map.NumberOfPages, std::min(kPartPages, kBytes / 4096 - done));
          EXPECT_EQ(maps[i].source_pages, maps[1].source_pages) << "all of its pages, each time";
          done += map.NumberOfPages;
        }
        EXPECT_EQ(done, kBytes / 4096);
        EXPECT_EQ(maps[1].source_pages.size(), done);
        // It goes as one.
        ASSERT_EQ(client.destroy_allocation(large), 0);
        stack.drive();
        const std::vector<testing::PagingCall> unmaps =
            operations(stack, DXGK_OPERATION_UNMAP_APERTURE_SEGMENT);
        ASSERT_EQ(unmaps.size(), 1U);
        EXPECT_EQ(unmaps[0].args.UnmapApertureSegment.OffsetInPages, first.OffsetInPages);
        EXPECT_EQ(unmaps[0].args.UnmapApertureSegment.NumberOfPages, done);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      &bare);
}

// One MDL describes less than 4 GiB: behind 2 GiB another list begins, as long as what is left.
TEST_F(PagingOps, AListOfPagesDescribesTwoGibibytesAtMost) {
  DXGKIT_COVERS("PAGE-26", "PAGE-27");
  constexpr uint64_t kGibibyte = 1024 * kMebibyte, kRest = 64 * kKibibyte;
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    Stack stack({}, 3 * kGibibyte);
    stack.options.transfer_chunk_bytes = kGibibyte;
    stack.miniport.config.segments[2].size = 4 * kGibibyte;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      Client client(stack);
      ContextBuffers context = client.make_context();
      const D3DKMT_HANDLE large = client.make_allocation(2 * kGibibyte + kRest, kAperture);
      ASSERT_EQ(client.render(context, work_on({large})), 0);
      stack.drive();
      const std::vector<testing::PagingCall> maps =
          operations(stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT);
      ASSERT_EQ(maps.size(), 3U);
      constexpr uint64_t kPages = kGibibyte / 4096, kRestPages = kRest / 4096;
      const uint64_t first = maps[0].args.MapApertureSegment.OffsetInPages;
      for (uint64_t i = 0; i < 3; ++i) {
        SCOPED_TRACE(i);
        const auto& map = maps[i].args.MapApertureSegment;
        EXPECT_EQ(map.OffsetInPages, first + i * kPages);
        EXPECT_EQ(map.NumberOfPages, i == 2 ? kRestPages : kPages);
        EXPECT_EQ(map.MdlOffset, i == 1 ? kPages : 0);
        EXPECT_EQ(maps[i].source_pages.size(), i == 2 ? kRestPages : 2 * kPages);
      }
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(PagingOps, FragmentsAreJoinedByMovesAndContentFollows) {
  DXGKIT_COVERS("PAGE-24", "RES-22");
  with_chunks(
      [](Stack& stack, Client& client) {
        MemoryGpu gpu(stack);
        ContextBuffers context = client.make_context();
        std::vector<D3DKMT_HANDLE> quarters;
        for (uint64_t i = 0; i < 4; ++i) {
          quarters.push_back(client.make_allocation(64 * kKibibyte, kHidden));
          fill(gpu.at(address_after_render(stack, client, context, quarters[i])), 64 * kKibibyte,
               i);
        }
        for (const size_t gone : {1U, 3U}) EXPECT_EQ(client.destroy_allocation(quarters[gone]), 0);
        stack.drive();
        const uint64_t evictions = stack.statistics().evictions;
        const D3DKMT_HANDLE half = client.make_allocation(128 * kKibibyte, kHidden);
        fill(gpu.at(address_after_render(stack, client, context, half)), 128 * kKibibyte, 9);
        EXPECT_EQ(gpu.transfers_out, 1U) << "of the one in the way";
        EXPECT_EQ(gpu.transfers_in, 1U);
        EXPECT_EQ(stack.statistics().evictions, evictions) << "it moved, nobody left";
        const size_t operations_so_far = stack.miniport.calls().paging.size();
        for (const size_t i : {0U, 2U}) {
          expect_filled(gpu.at(address_after_render(stack, client, context, quarters[i])),
                        64 * kKibibyte, i);
        }
        expect_filled(gpu.at(address_after_render(stack, client, context, half)), 128 * kKibibyte,
                      9);
        EXPECT_EQ(stack.miniport.calls().paging.size(), operations_so_far) << "all are resident";
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      &bare);
}

TEST_F(PagingOps, ABusySubTransferWaitsAndTheRestIsIdleToo) {
  DXGKIT_COVERS("PAGE-12", "PAGE-19");
  with_chunks(
      [](Stack& stack, Client& client) {
        MemoryGpu gpu(stack);
        stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
          if (args->Operation == DXGK_OPERATION_TRANSFER &&
              args->Transfer.TransferOffset == 64 * kKibibyte &&
              args->Transfer.Flags.AllocationIsIdle == 0) {
            return nt_status(Status::kGraphicsAllocationBusy);
          }
          return stack.miniport.default_build_paging(args);
        };
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE first = client.make_allocation(192 * kKibibyte, kHidden);
        fill(gpu.at(address_after_render(stack, client, context, first)), 192 * kKibibyte, 3);
        static_cast<void>(address_after_render(stack, client, context,
                                               client.make_allocation(192 * kKibibyte, kHidden)));
        std::vector<std::pair<uint64_t, UINT>> seen;
        for (const testing::PagingCall& call : operations(stack, DXGK_OPERATION_TRANSFER)) {
          seen.emplace_back(call.args.Transfer.TransferOffset / (64 * kKibibyte),
                            call.args.Transfer.Flags.AllocationIsIdle);
        }
        EXPECT_EQ(seen, (std::vector<std::pair<uint64_t, UINT>>{{0, 0}, {1, 0}, {1, 1}, {2, 1}}));
        expect_filled(gpu.at(address_after_render(stack, client, context, first)), 192 * kKibibyte,
                      3);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      &bare);
}

TEST_F(PagingOps, AVictimIsParkedThroughTheApertureItsDriverNamed) {
  DXGKIT_COVERS("ALLOC-09", "PAGE-17");
  with_chunks(
      [](Stack& stack, Client& client) {
        MemoryGpu gpu(stack);
        ContextBuffers context = client.make_context();
        ScriptedAllocation description;
        description.size = 192 * kKibibyte;
        description.supported_read = description.supported_write = kHidden;
        description.eviction = kAperture;
        std::vector<D3DKMT_HANDLE> handles;
        for (uint64_t i = 0; i < 3; ++i) {
          handles.push_back(client.make_allocation(description));
          fill(gpu.at(address_after_render(stack, client, context, handles[i])), description.size,
               i);
        }
        const std::vector<testing::PagingCall> out = operations(stack, DXGK_OPERATION_TRANSFER);
        ASSERT_EQ(out.size(), 6U) << "two victims, three parts each";
        for (const testing::PagingCall& call : out) {
          EXPECT_EQ(call.args.Transfer.Source.SegmentId, 2U);
          EXPECT_EQ(call.args.Transfer.Destination.SegmentId, 3U) << "not straight to pages";
          EXPECT_GE(call.args.Transfer.Destination.SegmentAddress.QuadPart,
                    static_cast<LONGLONG>(kApertureBase));
        }
        EXPECT_EQ(order(stack)[1], DXGK_OPERATION_MAP_APERTURE_SEGMENT)
            << "mapped before anything is copied there";
        for (int round = 0; round < 2; ++round) {
          for (uint64_t i = 0; i < 3; ++i)
            expect_filled(gpu.at(address_after_render(stack, client, context, handles[i])),
                          description.size, i);
        }
        // Two are parked; all mappings go with their allocations.
        for (const D3DKMT_HANDLE handle : handles) EXPECT_EQ(client.destroy_allocation(handle), 0);
        stack.drive();
        uint64_t mapped = 0, unmapped = 0;
        for (const auto& map : operations(stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT))
          mapped += map.args.MapApertureSegment.NumberOfPages;
        for (const auto& unmap : operations(stack, DXGK_OPERATION_UNMAP_APERTURE_SEGMENT))
          unmapped += unmap.args.UnmapApertureSegment.NumberOfPages;
        EXPECT_EQ(mapped, unmapped);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      &bare);
}

TEST_F(PagingOps, APlainCopyNamesNoAllocation) {
  DXGKIT_COVERS("PAGE-21", "PAGE-17");
  with_chunks(
      [](Stack& stack, Client& client) {
        MemoryGpu gpu(stack);
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE mine = client.make_allocation(16 * kKibibyte, kHidden);
        const uint64_t taken = address_after_render(stack, client, context, mine) - kHiddenBase;
        std::vector<std::byte> bytes(100 * kKibibyte);
        fill(bytes.data(), bytes.size(), 9);
        const SegmentId segment{2};
        std::vector<std::byte> back;
        stack.blocking([&] {
          dxgk::Exercise by_hand = exercise(stack);
          EXPECT_EQ(by_hand.memory().write_plain(segment, 64 * kKibibyte, bytes), Status::kSuccess);
          const auto read = by_hand.memory().read_plain(segment, 64 * kKibibyte, bytes.size());
          ASSERT_TRUE(read.has_value());
          back = *read;
          const size_t calls = stack.miniport.calls().paging.size();
          EXPECT_EQ(by_hand.memory().write_plain(segment, taken, bytes), Status::kInvalidParameter)
              << "somebody's place";
          EXPECT_EQ(by_hand.memory().write_plain(segment, 200 * kKibibyte, bytes),
                    Status::kInvalidParameter);
          EXPECT_EQ(by_hand.memory().write_plain(SegmentId{3}, 0, bytes),
                    Status::kInvalidParameter);
          EXPECT_EQ(by_hand.memory().write_plain(SegmentId{9}, 0, bytes),
                    Status::kInvalidParameter);
          EXPECT_EQ(by_hand.memory().read_plain(segment, 4096, 100).error(),
                    Status::kInvalidParameter);
          EXPECT_EQ(stack.miniport.calls().paging.size(), calls) << "refused before the driver";
        });
        EXPECT_EQ(back, bytes);
        EXPECT_EQ(std::memcmp(gpu.at(kHiddenBase + 64 * kKibibyte), bytes.data(), bytes.size()), 0);
        const std::vector<testing::PagingCall> copies = operations(stack, DXGK_OPERATION_TRANSFER);
        ASSERT_EQ(copies.size(), 4U);
        for (const testing::PagingCall& call : copies)
          EXPECT_EQ(call.args.Transfer.hAllocation, nullptr);
        EXPECT_EQ(copies[0].args.Transfer.Destination.SegmentId, 2U);
        EXPECT_EQ(copies[2].args.Transfer.Source.SegmentId, 2U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      &bare);
}

TEST_F(PagingOps, ATouchNamesAPhysicalAddressAndNothingElse) {
  DXGKIT_COVERS("PAGE-25");
  with_chunks(
      [](Stack& stack, Client&) {
        MemoryGpu gpu(stack);
        stack.blocking([&] {
          dxgk::Exercise by_hand = exercise(stack);
          EXPECT_EQ(by_hand.memory().touch(SegmentId{2}, 8200, false), Status::kSuccess);
          EXPECT_EQ(by_hand.memory().touch(SegmentId{2}, 8208, true), Status::kSuccess);
          EXPECT_EQ(by_hand.memory().touch(SegmentId{3}, 0, true), Status::kInvalidParameter);
        });
        EXPECT_EQ(gpu.touches, 2U);
        const ScriptedCalls calls = stack.miniport.calls();
        ASSERT_EQ(calls.paging.size(), 2U);
        EXPECT_EQ(calls.paging[0].args.Operation, DXGK_OPERATION_READ_PHYSICAL);
        EXPECT_EQ(calls.paging[0].args.ReadPhysical.SegmentId, 2U);
        EXPECT_EQ(calls.paging[0].args.ReadPhysical.PhysicalAddress.QuadPart,
                  static_cast<LONGLONG>(kHiddenBase + 8200));
        EXPECT_EQ(calls.paging[1].args.Operation, DXGK_OPERATION_WRITE_PHYSICAL);
        EXPECT_EQ(calls.paging[1].args.WritePhysical.PhysicalAddress.QuadPart,
                  static_cast<LONGLONG>(kHiddenBase + 8208));
      },
      &bare);
}

TEST_F(PagingOps, AfterAResetTheDriverIsToldOfEachAllocationThatLostItsContent) {
  DXGKIT_COVERS("PAGE-22");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE first = client.make_allocation(64 * kKibibyte, kHidden);
    const D3DKMT_HANDLE second = client.make_allocation(32 * kKibibyte, kHidden);
    const D3DKMT_HANDLE mapped = client.make_allocation(16 * kKibibyte, kAperture);
    const uint64_t place = address_after_render(stack, client, context, first);
    fill(gpu.at(place), 64 * kKibibyte, 5);
    static_cast<void>(address_after_render(stack, client, context, second));
    const uint64_t shown = address_after_render(stack, client, context, mapped);
    *gpu.at(shown) = std::byte{0x77};
    stack.miniport.clear_calls();
    stack.blocking([&] { EXPECT_EQ(exercise(stack).reset_losing_content(), Status::kSuccess); });
    const ScriptedCalls calls = stack.miniport.calls();
    const auto position = [&](std::string_view ddi) {
      return std::ranges::find(calls.order, ddi) - calls.order.begin();
    };
    EXPECT_LT(position("DxgkDdiResetFromTimeout"), position("DxgkDdiBuildPagingBuffer"));
    EXPECT_LT(position("DxgkDdiBuildPagingBuffer"), position("DxgkDdiRestartFromTimeout"));
    const std::vector<testing::PagingCall> lost = operations(stack, DXGK_OPERATION_TRANSFER);
    ASSERT_EQ(lost.size(), 2U) << "memory segments only";
    for (const testing::PagingCall& call : lost) {
      EXPECT_EQ(call.args.Transfer.TransferSize, 0U);
      EXPECT_NE(call.args.Transfer.hAllocation, nullptr);
      EXPECT_EQ(call.args.Transfer.Source.SegmentId, 2U) << "where it was";
      EXPECT_EQ(call.args.Transfer.Destination.SegmentId, 0U);
    }
    EXPECT_EQ(static_cast<uint64_t>(lost[0].args.Transfer.Source.SegmentAddress.QuadPart), place);
    EXPECT_EQ(operations(stack, DXGK_OPERATION_UNMAP_APERTURE_SEGMENT).size(), 1U);
    EXPECT_EQ(gpu.lost, 2U);
    // What is gone starts again from zeros; what an aperture showed was in system memory.
    EXPECT_EQ(*gpu.at(address_after_render(stack, client, context, first)), std::byte{0});
    EXPECT_EQ(*gpu.at(address_after_render(stack, client, context, mapped)), std::byte{0x77});
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(PagingOps, MapApertureSegment2GivesAnAddressListInsteadOfAnMdl) {
  DXGKIT_COVERS("PAGE-30", "PAGE-26");
  for (const bool supported : {true, false}) {
    with_client(
        [&](Stack& stack, Client& client) {
          MemoryGpu gpu(stack);
          const uint64_t one =
              address_after_page_in(stack, client, client.make_allocation(4096, kAperture));
          const D3DKMT_HANDLE many = client.make_allocation(40 * kKibibyte, kAperture);
          const uint64_t place = address_after_page_in(stack, client, many);
          EXPECT_NE(one, place);
          fill(gpu.at(place + 36 * kKibibyte), 4096, 1);
          EXPECT_EQ(operations(stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT).size(),
                    supported ? 0U : 2U);
          const auto maps = operations(stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT2);
          ASSERT_EQ(maps.size(), supported ? 2U : 0U);
          if (!supported) return;
          const auto& single = maps[0].args.MapApertureSegment2;
          EXPECT_EQ(single.Adl.PageCount, 1U);
          EXPECT_EQ(single.Adl.Flags.Contiguous, 1U) << "one page is contiguous";
          EXPECT_EQ(single.Adl.BasePageNumber, maps[0].source_pages[0]);
          const auto& list = maps[1].args.MapApertureSegment2;
          EXPECT_EQ(list.SegmentId, 3U);
          EXPECT_EQ(list.NumberOfPages, 10U);
          EXPECT_EQ(list.OffsetInPages, (place - kApertureBase) / 4096);
          EXPECT_EQ(list.AdlOffset, 0U);
          EXPECT_EQ(list.CpuVisibleAddress, nullptr);
          EXPECT_NE(list.hAllocation, nullptr);
          EXPECT_EQ(list.Adl.PageCount, 10U);
          EXPECT_EQ(list.Adl.Flags.Contiguous, 0U) << "client memory is scattered";
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](ScriptedMiniport& miniport) {
          miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_9;
          miniport.config.caps = [supported](DXGK_DRIVERCAPS& caps) {
            caps.MemoryManagementCaps.MapAperture2Supported = supported ? 1 : 0;
          };
        });
  }
}

TEST_F(PagingOps, ResidencyNoticesGoToAllocationsThatAskedAndToNoOther) {
  DXGKIT_COVERS("PAGE-41");
  with_client(
      [](Stack& stack, Client& client) {
        MemoryGpu gpu(stack);
        ScriptedAllocation description;
        description.size = 192 * kKibibyte;
        description.supported_read = description.supported_write = kHidden;
        description.flags = 1U << 15 | 1U << 16;  // AccessedPhysically, ExplicitResidency...
        const D3DKMT_HANDLE told = client.make_allocation(description);
        const D3DKMT_HANDLE other = client.make_allocation(192 * kKibibyte, kHidden);
        const uint64_t place = address_after_page_in(stack, client, told);
        static_cast<void>(address_after_page_in(stack, client, told));
        EXPECT_EQ(order(stack), (std::vector{DXGK_OPERATION_FILL, DXGK_OPERATION_NOTIFY_RESIDENCY}))
            << "once per commit, after the content";
        const auto arrived = operations(stack, DXGK_OPERATION_NOTIFY_RESIDENCY).at(0);
        EXPECT_EQ(arrived.args.NotifyResidency.Resident, 1U);
        EXPECT_EQ(arrived.args.NotifyResidency.PhysicalAddress.SegmentId, 2U);
        EXPECT_EQ(arrived.args.NotifyResidency.PhysicalAddress.SegmentOffset, place - kHiddenBase);
        stack.miniport.clear_calls();
        static_cast<void>(address_after_page_in(stack, client, other));
        EXPECT_EQ(order(stack), (std::vector{DXGK_OPERATION_NOTIFY_RESIDENCY,
                                             DXGK_OPERATION_TRANSFER, DXGK_OPERATION_FILL}));
        const auto left = operations(stack, DXGK_OPERATION_NOTIFY_RESIDENCY).at(0);
        EXPECT_EQ(left.args.NotifyResidency.Resident, 0U);
        EXPECT_EQ(left.args.NotifyResidency.PhysicalAddress.SegmentId, 0U);
        EXPECT_EQ(left.args.NotifyResidency.PhysicalAddress.SegmentOffset, 0U);
        EXPECT_EQ(left.args.NotifyResidency.hAllocation, arrived.args.NotifyResidency.hAllocation);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.segments[1].size = 256 * kKibibyte;
      });
}

TEST_F(PagingOps, AnEvictionNoticePrecedesLeavingTheAperture) {
  DXGKIT_COVERS("PAGE-48");
  for (const uint32_t version :
       {uint32_t{DXGKDDI_INTERFACE_VERSION_WDDM3_2}, uint32_t{DXGKDDI_INTERFACE_VERSION_WDDM3_0}}) {
    with_client(
        [&](Stack& stack, Client& client) {
          ScriptedAllocation description;
          description.size = 96 * kKibibyte;
          description.supported_read = description.supported_write = kAperture;
          description.flags2 = 1U << 4;  // NotifyEviction
          static_cast<void>(
              address_after_page_in(stack, client, client.make_allocation(description)));
          stack.miniport.clear_calls();
          static_cast<void>(address_after_page_in(
              stack, client, client.make_allocation(64 * kKibibyte, kAperture)));
          if (version < DXGKDDI_INTERFACE_VERSION_WDDM3_2) {
            EXPECT_EQ(order(stack), (std::vector{DXGK_OPERATION_UNMAP_APERTURE_SEGMENT,
                                                 DXGK_OPERATION_MAP_APERTURE_SEGMENT}));
            return;
          }
          EXPECT_EQ(order(stack),
                    (std::vector{DXGK_OPERATION_NOTIFY_ALLOC, DXGK_OPERATION_UNMAP_APERTURE_SEGMENT,
                                 DXGK_OPERATION_MAP_APERTURE_SEGMENT}));
          const auto notice = operations(stack, DXGK_OPERATION_NOTIFY_ALLOC).at(0);
          EXPECT_EQ(notice.args.NotifyAllocation.Flags.Value, 1U);
          EXPECT_EQ(notice.args.NotifyAllocation.OffsetInBytes, 0U);
          EXPECT_EQ(notice.args.NotifyAllocation.SizeInBytes, 96 * kKibibyte);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](ScriptedMiniport& miniport) {
          miniport.config.version = version;
          miniport.config.segments[2].commit_limit = 128 * kKibibyte;
        });
  }
}

TEST_F(PagingOps, PagingRunsOnItsNodeWhileOtherNodesRender) {
  DXGKIT_COVERS("PAGE-28", "PAGE-01");
  for (const uint32_t paging_node : {0U, 1U}) {
    with_client(
        [&](Stack& stack, Client& client) {
          const uint32_t other_node = 1 - paging_node;
          ContextBuffers busy = client.make_context(other_node);
          const D3DKMT_HANDLE used = client.make_allocation(16 * kKibibyte, kHidden);
          ASSERT_EQ(client.render(busy, work_on({used})), 0);
          stack.settle();
          ASSERT_TRUE(stack.miniport.complete_next(paging_node)) << "its fill";
          stack.settle();
          ASSERT_EQ(stack.miniport.outstanding(other_node).size(), 1U);
          // Others come in meanwhile; what is in use stays where it is, and stays busy.
          ContextBuffers next = client.make_context(other_node);
          ASSERT_EQ(client.render(next, work_on({client.make_allocation(16 * kKibibyte, kHidden),
                                                 client.make_allocation(8192, kAperture)})),
                    0);
          stack.settle();
          EXPECT_EQ(stack.miniport.outstanding(paging_node).size(), 1U)
              << "paging overlaps rendering";
          EXPECT_EQ(stack.miniport.outstanding(other_node).size(), 1U);
          for (const testing::SubmitCall& submit : stack.miniport.calls().submits) {
            EXPECT_EQ(submit.args.NodeOrdinal,
                      submit.args.Flags.Paging != 0 ? paging_node : other_node);
          }
          ASSERT_TRUE(stack.miniport.complete_next(paging_node));
          stack.settle();
          EXPECT_EQ(stack.miniport.outstanding(other_node).size(), 2U);
          stack.drive();
          EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
        },
        [&](ScriptedMiniport& miniport) { miniport.config.paging_node = paging_node; });
  }
}

}  // namespace
}  // namespace dxgkit::contract
