// Segments in the general case: the AGP aperture, bad memory, strides, bank tables, budget groups.
#include <sys/mman.h>

#include <cstring>

#include "tests/contract/memory_fixture.h"

namespace dxgkit::contract {
namespace {

using SegmentsTest = ContractTest;

constexpr uint64_t kAgpBytes = 8 * kMebibyte;

void wddm20(ScriptedMiniport& miniport) {
  miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
}

/// The third segment becomes the AGP segment; what AGP does not read is poison.
void agp_segment(ScriptedMiniport& miniport) {
  testing::ScriptedSegment& agp = miniport.config.segments[2];
  agp.flags = {};
  agp.flags.Agp = 1;
  agp.base_address = 0xDEAD'0000'0007;
  agp.size = 12345;
  agp.commit_limit = 1;
  agp.cpu_translated_address = 0xDEAD'BEEF;
}

// --- AGP ---

TEST_F(SegmentsTest, AnAgpApertureIsToldAndItsSegmentGivesTrueBusAddresses) {
  DXGKIT_COVERS("SEG-10", "SEG-12", "SEG-18", "SEG-23", "SEG-36");
  bare([](Stack& stack) {
    ASSERT_EQ(stack.machine.add_agp_aperture(stack.miniport.function(), kAgpBytes),
              Status::kSuccess);
    agp_segment(stack.miniport);
    ASSERT_EQ(stack.start(), Status::kSuccess) << ::testing::PrintToString(stack.rules());
    for (const testing::QueryCall& query : stack.miniport.calls().queries) {
      if (query.args.Type != DXGKQAITYPE_QUERYSEGMENT3) continue;
      DXGK_QUERYSEGMENTIN in;
      ASSERT_EQ(query.in.size(), sizeof in);
      std::memcpy(&in, query.in.data(), sizeof in);
      EXPECT_EQ(static_cast<uint64_t>(in.AgpApertureBase.QuadPart), bus::Machine::kAgpApertureBase);
      EXPECT_EQ(static_cast<uint64_t>(in.AgpApertureSize.QuadPart), kAgpBytes);
      EXPECT_NE(in.AgpFlags.Value, 0U);
    }
    Client client(stack);
    ContextBuffers context = client.make_context();
    ScriptedAllocation description;
    description.size = 24 * kKibibyte;
    description.supported_read = description.supported_write = kAperture;
    description.flags = 1;  // CpuVisible
    const D3DKMT_HANDLE allocation = client.make_allocation(description);
    void* cpu = nullptr;
    ASSERT_EQ(client.lock(allocation, &cpu), 0);
    for (size_t i = 0; i < description.size; ++i)
      static_cast<std::byte*>(cpu)[i] = static_cast<std::byte>(i * 7 >> 3);
    std::vector<std::byte> written(description.size);
    std::memcpy(written.data(), cpu, written.size());
    ASSERT_EQ(client.unlock(allocation), 0);
    const uint64_t place = address_after_render(stack, client, context, allocation);
    EXPECT_GE(place, bus::Machine::kAgpApertureBase);
    EXPECT_LE(place + description.size, bus::Machine::kAgpApertureBase + kAgpBytes);
    // The device uses the address as it is; scattered pages are one range behind the GART.
    std::vector<std::byte> read(description.size);
    ASSERT_TRUE(stack.machine.dma_read(bus::PhysicalAddress{place}, read));
    EXPECT_EQ(read, written);
    EXPECT_FALSE(stack.machine.dma_read(bus::PhysicalAddress{place + 1}, read))
        << "nothing is mapped behind it";
    // All of the aperture is there to be had, whatever Size said.
    const D3DKMT_HANDLE rest = client.make_allocation(kAgpBytes - description.size, kAperture);
    const uint64_t other = address_after_render(stack, client, context, rest);
    EXPECT_GE(other, bus::Machine::kAgpApertureBase);
    EXPECT_LE(other + kAgpBytes - description.size, bus::Machine::kAgpApertureBase + kAgpBytes);
    ASSERT_EQ(client.destroy_allocation(allocation), 0);
    stack.drive();
    EXPECT_FALSE(stack.machine.translate(bus::PhysicalAddress{place}).has_value());
    EXPECT_TRUE(operations(stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT).empty());
    EXPECT_TRUE(operations(stack, DXGK_OPERATION_UNMAP_APERTURE_SEGMENT).empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(SegmentsTest, EvictionFromTheAgpApertureKeepsContentAndNeedsNoDriver) {
  DXGKIT_COVERS("SEG-36", "SEG-18");
  bare([](Stack& stack) {
    ASSERT_EQ(stack.machine.add_agp_aperture(stack.miniport.function(), 64 * kKibibyte),
              Status::kSuccess);
    agp_segment(stack.miniport);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE a = client.make_allocation(40 * kKibibyte, kAperture);
    const D3DKMT_HANDLE b = client.make_allocation(40 * kKibibyte, kAperture);
    const std::array<std::byte, 2> marks{std::byte{0xA1}, std::byte{0xB2}};
    for (int round = 0; round < 3; ++round) {
      for (const D3DKMT_HANDLE handle : {a, b}) {
        const bus::PhysicalAddress place{address_after_render(stack, client, context, handle)};
        const size_t which = handle == a ? 0 : 1;
        std::array<std::byte, 1> seen{};
        ASSERT_TRUE(
            stack.machine.dma_read(bus::PhysicalAddress{place.value + 39 * kKibibyte}, seen));
        if (round > 0) {
          EXPECT_EQ(seen[0], marks[which]) << round;
        }
        seen[0] = marks[which];
        ASSERT_TRUE(
            stack.machine.dma_write(bus::PhysicalAddress{place.value + 39 * kKibibyte}, seen));
      }
    }
    EXPECT_TRUE(stack.miniport.calls().paging.empty());
    EXPECT_GE(stack.statistics().packets_completed, 6U);
  });
}

TEST_F(SegmentsTest, PagingBuffersLiveInAnAgpSegmentToo) {
  DXGKIT_COVERS("SEG-47", "SEG-18");
  bare([](Stack& stack) {
    ASSERT_EQ(stack.machine.add_agp_aperture(stack.miniport.function(), kAgpBytes),
              Status::kSuccess);
    agp_segment(stack.miniport);
    stack.miniport.config.paging_buffer_segment = 3;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    ContextBuffers context = client.make_context();
    static_cast<void>(
        address_after_render(stack, client, context, client.make_allocation(4096, kHidden)));
    const testing::SubmitCall paging = stack.miniport.calls().submits.at(0);
    EXPECT_EQ(paging.args.Flags.Paging, 1U);
    EXPECT_EQ(paging.args.DmaBufferSegmentId, 3U);
    const auto address = static_cast<uint64_t>(paging.args.DmaBufferPhysicalAddress.QuadPart);
    std::array<std::byte, 4> magic;
    ASSERT_TRUE(stack.machine.dma_read(bus::PhysicalAddress{address}, magic));
    const uint32_t expected = testing::PagingRecord::kMagic;
    EXPECT_EQ(std::memcmp(magic.data(), &expected, 4), 0) << "the device reads it there";
  });
}

/// What refuses the start; the finding's rule.
struct AgpRow {
  const char* sentence;
  const char* rule;
  uint64_t aperture_bytes;
  bus::Gart gart;
  void (*prepare)(ScriptedMiniport&);
};
class AgpRefusal : public ContractTest, public ::testing::WithParamInterface<AgpRow> {};
TEST_P(AgpRefusal, FailsTheStart) {
  DXGKIT_COVERS(GetParam().rule, "SEG-11");
  bare([](Stack& stack) {
    if (GetParam().aperture_bytes != 0) {
      ASSERT_EQ(stack.machine.add_agp_aperture(stack.miniport.function(), GetParam().aperture_bytes,
                                               GetParam().gart),
                Status::kSuccess);
    }
    agp_segment(stack.miniport);
    GetParam().prepare(stack.miniport);
    EXPECT_EQ(stack.start(), Status::kDeviceConfigurationError);
    EXPECT_EQ(stack.only_finding().rule, GetParam().rule);
    EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kStartFail);
    EXPECT_EQ(stack.miniport.count("DxgkDdiStopDevice"), 1U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiRemoveDevice"), 1U);
    const bool told = GetParam().aperture_bytes != 0 && GetParam().gart == bus::Gart::kPresent;
    for (const testing::QueryCall& query : stack.miniport.calls().queries) {
      if (query.args.Type != DXGKQAITYPE_QUERYSEGMENT3) continue;
      EXPECT_EQ(query.in == std::vector<std::byte>(sizeof(DXGK_QUERYSEGMENTIN)), !told);
    }
  });
}
const AgpRow kAgpRows[] = {
    {"NoAperture", "SEG-12", 0, bus::Gart::kNone, [](auto&) {}},
    {"AnApertureWithoutGartDriver", "SEG-12", kAgpBytes, bus::Gart::kNone, [](auto&) {}},
    {"ASecondAgpSegment", "SEG-14", kAgpBytes, bus::Gart::kPresent,
     [](ScriptedMiniport& m) { m.config.segments.push_back(m.config.segments[2]); }},
    {"AgpBesideCpuVisible", "SEG-13", kAgpBytes, bus::Gart::kPresent,
     [](ScriptedMiniport& m) { m.config.segments[2].flags.CpuVisible = 1; }},
    {"AgpFromWddmTwoOnWhereNothingWasTold", "SEG-12", kAgpBytes, bus::Gart::kPresent, wddm20},
    {"AMemorySegmentOverTheAgpAperture", "SEG-46", kAgpBytes, bus::Gart::kPresent,
     [](ScriptedMiniport& m) {
       m.config.segments[1].base_address = bus::Machine::kAgpApertureBase + 4096;
     }},
};
INSTANTIATE_TEST_SUITE_P(Rows, AgpRefusal, ::testing::ValuesIn(kAgpRows),
                         [](const auto& row) { return std::string(row.param.sentence); });

// --- bad memory ---

TEST_F(SegmentsTest, NothingIsPlacedInRangesTheDriverCallsBad) {
  DXGKIT_COVERS("SEG-45");
  with_client(
      [](Stack& stack, Client& client) {
        size_t asked = 0;
        for (const testing::QueryCall& query : stack.miniport.calls().queries) {
          if (query.args.Type != DXGKQAITYPE_SEGMENTMEMORYSTATE) continue;
          ++asked;
          DXGK_QUERYSEGMENTMEMORYSTATE state;
          std::memcpy(&state, query.out_before.data(), sizeof state);
          EXPECT_EQ(state.DriverSegmentId, 2U);
          EXPECT_EQ(state.PhysicalAdapterIndex, 0U);
          EXPECT_EQ(state.NumInvalidMemoryRanges, 3U);
          EXPECT_NE(state.pMemoryRanges, nullptr);
        }
        EXPECT_EQ(asked, 1U) << "of the one segment that has some";
        // 256 KiB: pages 0..15, 20..39 and 44..63 are sound.
        std::vector<bool> used(64);
        for (int i = 0; i < 14; ++i) {
          const D3DKMT_HANDLE handle = client.make_allocation(16 * kKibibyte, kHidden);
          const uint64_t page = (address_after_page_in(stack, client, handle) - kHiddenBase) / 4096;
          for (uint64_t p = page; p < page + 4; ++p) {
            EXPECT_FALSE((p >= 16 && p < 20) || (p >= 40 && p < 44)) << p;
            EXPECT_FALSE(used.at(p)) << "all fourteen fit at once";
            used[p] = true;
          }
        }
        EXPECT_TRUE(operations(stack, DXGK_OPERATION_TRANSFER).empty());
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        ScriptedAllocation wide;
        wide.size = 84 * kKibibyte;
        wide.supported_read = wide.supported_write = kHidden;
        D3DKMT_HANDLE handle = 0;
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(client.create_allocation(wide, &handle), nt_status(Status::kInvalidParameter))
            << "fits between no two bad ranges";
        EXPECT_EQ(digest(stack, {&client}).free_pages, before.free_pages);
      },
      [](ScriptedMiniport& miniport) {
        wddm20(miniport);
        testing::ScriptedSegment& hidden = miniport.config.segments[1];
        hidden.size = 256 * kKibibyte;
        hidden.bad_ranges = {{40 * 4096, 2 * 4096}, {16 * 4096, 4 * 4096}, {42 * 4096, 2 * 4096}};
        hidden.invalid_ranges = 3;
      });
}

struct BadRow {
  const char* sentence;
  std::vector<port::MemoryRange> ranges;
  uint32_t count;
};
class BadRangeRefusal : public ContractTest, public ::testing::WithParamInterface<BadRow> {};
TEST_P(BadRangeRefusal, FailsTheStart) {
  DXGKIT_COVERS("SEG-45");
  bare([](Stack& stack) {
    wddm20(stack.miniport);
    stack.miniport.config.segments[1].size = kMebibyte;
    stack.miniport.config.segments[1].bad_ranges = GetParam().ranges;
    stack.miniport.config.segments[1].invalid_ranges = GetParam().count;
    EXPECT_EQ(stack.start(), Status::kDeviceConfigurationError);
    EXPECT_EQ(stack.only_finding().rule, "SEG-45");
    EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kStartFail);
  });
}
const BadRow kBadRows[] = {
    {"OffsetInsideAPage", {{2048, 4096}}, 1},
    {"SizeOfHalfAPage", {{4096, 2048}}, 1},
    {"SizeZero", {{4096, 0}}, 1},
    {"BehindTheEnd", {{kMebibyte, 4096}}, 1},
    {"AcrossTheEnd", {{kMebibyte - 4096, 8192}}, 1},
    {"AnAddressInsteadOfAnOffset", {{kHiddenBase, 4096}}, 1},
    {"EndThatWraps", {{UINT64_MAX - 4095, 8192}}, 1},
    {"MoreRangesThanPages", {}, 257},
    {"HugeCount", {}, UINT32_MAX},
    {"CountWithoutAnAnswer", {}, 2},
    {"MoreAnswersThanCounted", {{0, 4096}, {8192, 4096}}, 1},
};
INSTANTIATE_TEST_SUITE_P(Rows, BadRangeRefusal, ::testing::ValuesIn(kBadRows),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(SegmentsTest, OverlappingBadRangesAreReportedAndTheirUnionIsBad) {
  DXGKIT_COVERS("SEG-45");
  running(
      [](Stack& stack) {
        EXPECT_EQ(stack.only_finding().rule, "SEG-45");
        EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kViolation);
        const vidmm::SegmentDesc segment = stack.adapter().core().memory().segments()[1];
        ASSERT_EQ(segment.invalid_ranges.size(), 1U);
        EXPECT_EQ(segment.invalid_ranges[0], (vidmm::ByteRange{4096, 5 * 4096}));
      },
      [](ScriptedMiniport& miniport) {
        wddm20(miniport);
        miniport.config.segments[1].bad_ranges = {{8192, 4 * 4096}, {4096, 2 * 4096}};
        miniport.config.segments[1].invalid_ranges = 2;
      });
}

TEST_F(SegmentsTest, ABadRangeIsJoinedWithTheOneBeforeItOnly) {
  DXGKIT_COVERS("SEG-45");
  running(
      [](Stack& stack) {
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        const vidmm::SegmentDesc segment = stack.adapter().core().memory().segments()[1];
        const std::vector<vidmm::ByteRange> joined = {{0, 4096}, {17 * 4096, 5 * 4096}};
        EXPECT_EQ(segment.invalid_ranges, joined);
      },
      [](ScriptedMiniport& miniport) {
        wddm20(miniport);
        miniport.config.segments[1].bad_ranges = {
            {19 * 4096, 3 * 4096}, {17 * 4096, 2 * 4096}, {0, 4096}};
        miniport.config.segments[1].invalid_ranges = 3;
      });
}

// --- what is ignored, and strides ---

TEST_F(SegmentsTest, PopulatedFromSystemMemoryMeansNothingOnAnAperture) {
  DXGKIT_COVERS("SEG-38");
  with_client(
      [](Stack& stack, Client& client) {
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        ContextBuffers context = client.make_context();
        static_cast<void>(
            address_after_render(stack, client, context, client.make_allocation(4096, kAperture)));
        EXPECT_EQ(operations(stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT).size(), 1U);
        EXPECT_TRUE(operations(stack, DXGK_OPERATION_FILL).empty());
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.segments[2].flags.PopulatedFromSystemMemory = 1;
      });
}

/// A driver that answers type 4 with an element of its own size.
struct StrideRow {
  const char* sentence;
  int64_t change;  // to the stride proposed
  bool accepted;
};
class Strides : public ContractTest, public ::testing::WithParamInterface<StrideRow> {};
TEST_P(Strides, AreFollowedOrRefused) {
  DXGKIT_COVERS("SEG-09");
  bare([](Stack& stack) {
    wddm20(stack.miniport);
    stack.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
      if (args->Type != DXGKQAITYPE_QUERYSEGMENT4)
        return stack.miniport.default_query_adapter_info(args);
      auto* out = static_cast<DXGK_QUERYSEGMENTOUT4*>(args->pOutputData);
      if (out->NbSegment == 0) return stack.miniport.default_query_adapter_info(args);
      const SIZE_T stride = static_cast<SIZE_T>(static_cast<int64_t>(out->SegmentDescriptorStride) +
                                                GetParam().change);
      if (GetParam().accepted) out->SegmentDescriptorStride = stride;
      const NTSTATUS status = stack.miniport.default_query_adapter_info(args);
      out->SegmentDescriptorStride = stride;
      return status;
    };
    const Status status = stack.start();
    if (!GetParam().accepted) {
      EXPECT_EQ(status, Status::kDeviceConfigurationError);
      EXPECT_EQ(stack.only_finding().rule, "SEG-09");
      EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kStartFail);
      return;
    }
    ASSERT_EQ(status, Status::kSuccess) << ::testing::PrintToString(stack.rules());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    const auto segments = stack.adapter().core().memory().segments();
    ASSERT_EQ(segments.size(), 3U);
    EXPECT_EQ(segments[1].base_address, kHiddenBase);
    EXPECT_EQ(segments[2].kind, vidmm::SegmentKind::kAperture);
  });
}
const StrideRow kStrideRows[] = {
    {"AsProposed", 0, true},
    {"EightMore", 8, true},
    {"SixtyFourMore", 64, true},
    {"OneLess", -1, false},
    {"HalfOfOurs", -60, false},
    {"ZeroOrLess", -100000, false},
    {"ManyTimesTheArray", 1 << 20, false},
};
INSTANTIATE_TEST_SUITE_P(Rows, Strides, ::testing::ValuesIn(kStrideRows),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(SegmentsTest, OldDriversAreAskedWithTheirOwnStructures) {
  DXGKIT_COVERS("SEG-02", "SEG-03", "SEG-24", "SEG-26");
  // Type 1: a bank table whose optional last entry is on a page nobody may read.
  auto* pages = static_cast<std::byte*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
  auto* table = reinterpret_cast<SIZE_T*>(pages + 4096 - 2 * sizeof(SIZE_T));
  table[0] = kMebibyte;
  table[1] = 3 * kMebibyte;
  running(
      [](Stack& stack) {
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        const vidmm::SegmentDesc banked = stack.adapter().core().memory().segments()[1];
        EXPECT_EQ(banked.bank_end_offsets,
                  (std::vector<uint64_t>{kMebibyte, 3 * kMebibyte, 256 * kMebibyte}));
        EXPECT_TRUE(stack.adapter().core().memory().segments()[0].bank_end_offsets.empty());
      },
      [&](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_VISTA;
        miniport.config.preemption_aware = miniport.config.cancel_command_aware = false;
        miniport.config.segments[1].flags.UseBanking = 1;
        miniport.config.segments[1].bank_count = 3;
        miniport.config.segments[1].bank_table = table;
        // Dangling, and not to be touched: UseBanking is clear.
        miniport.config.segments[0].bank_count = 64;
        miniport.config.segments[0].bank_table = reinterpret_cast<SIZE_T*>(pages + 4096);
      });
  munmap(pages, 8192);
}

// --- budgets, pitch ---

TEST_F(SegmentsTest, BudgetGroupsComeFromTheFlags) {
  DXGKIT_COVERS("SEG-43");
  const auto groups = [](Stack& stack) {
    vidmm::MemoryManager& memory = stack.adapter().core().memory();
    std::vector<vidmm::SegmentGroup> found;
    for (uint32_t id = 1; id <= 3; ++id) found.push_back(memory.group_of(SegmentId{id}));
    return found;
  };
  using enum vidmm::SegmentGroup;
  running(
      [&](Stack& stack) {
        EXPECT_EQ(groups(stack), (std::vector{kLocal, kLocal, kNonLocal})) << "by kind";
        EXPECT_EQ(stack.adapter().core().memory().group_usage(kLocal).size_bytes, 320 * kMebibyte);
        EXPECT_EQ(stack.adapter().core().memory().group_usage(kNonLocal).size_bytes,
                  64 * kMebibyte);
      },
      wddm20);
  running(
      [&](Stack& stack) {
        EXPECT_EQ(groups(stack), (std::vector{kNonLocal, kLocal, kLocal})) << "by flag";
        EXPECT_EQ(stack.adapter().core().memory().group_usage(kLocal).size_bytes, 256 * kMebibyte)
            << "segment 3 is no target";
        EXPECT_EQ(stack.adapter().core().memory().group_usage(kNonLocal).size_bytes,
                  64 * kMebibyte);
      },
      [](ScriptedMiniport& miniport) {
        wddm20(miniport);
        auto& segments = miniport.config.segments;
        segments[0].flags.NonLocalBudgetGroup = segments[0].flags.ApplicationTarget = 1;
        segments[1].flags.LocalBudgetGroup = segments[1].flags.ApplicationTarget = 1;
        segments[2].flags.LocalBudgetGroup = 1;
      });
}

TEST_F(SegmentsTest, APitchedSegmentReservesThePitchedSizeAndWritesBackThePlainOne) {
  DXGKIT_COVERS("SEG-39");
  with_client(
      [](Stack& stack, Client& client) {
        MemoryGpu gpu(stack);
        ContextBuffers context = client.make_context();
        ScriptedAllocation pitched;
        pitched.size = 96 * kKibibyte;
        pitched.pitch_aligned_size = 160 * kKibibyte;
        pitched.supported_read = pitched.supported_write = kHidden;
        pitched.eviction = kAperture;
        const D3DKMT_HANDLE first = client.make_allocation(pitched);
        const D3DKMT_HANDLE second = client.make_allocation(pitched);
        const uint64_t a = address_after_render(stack, client, context, first);
        std::memset(gpu.at(a), 0x5A, pitched.size);
        const uint64_t b = address_after_render(stack, client, context, second);
        EXPECT_EQ(a, b) << "two of 160 KiB do not fit into 256";
        const std::vector<testing::PagingCall> out = operations(stack, DXGK_OPERATION_TRANSFER);
        ASSERT_EQ(out.size(), 1U);
        EXPECT_EQ(out[0].args.Transfer.TransferSize, pitched.size);
        EXPECT_EQ(out[0].args.Transfer.Destination.SegmentId, 0U)
            << "the pitched aperture is not for eviction";
        EXPECT_EQ(operations(stack, DXGK_OPERATION_FILL).at(0).args.Fill.FillSize,
                  pitched.pitch_aligned_size);
        EXPECT_EQ(gpu.at(address_after_render(stack, client, context, first))[pitched.size - 1],
                  std::byte{0x5A});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.segments[1].size = 256 * kKibibyte;
        miniport.config.segments[1].flags.PitchAlignment = 1;
        miniport.config.segments[2].flags.PitchAlignment = 1;
      });
}

TEST_F(SegmentsTest, ALargeBarBesideACpuHostApertureIsWorthAWord) {
  DXGKIT_COVERS("SEG-49");
  const auto start = [](uint64_t size, std::vector<std::string> expected) {
    running(
        [&](Stack& stack) {
          EXPECT_EQ(stack.rules(), expected);
          if (!expected.empty()) {
            EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kWarning);
          }
        },
        [&](ScriptedMiniport& miniport) {
          wddm20(miniport);
          miniport.config.segments[0].flags = {};
          miniport.config.segments[0].flags.SupportsCpuHostAperture = 1;
          miniport.config.segments[1].size = size;
        });
  };
  start(4096, {});  // the BAR of 64 MiB shows less than all
  running([](Stack& stack) { EXPECT_EQ(stack.rules(), std::vector<std::string>{"SEG-49"}); },
          [](ScriptedMiniport& miniport) {
            wddm20(miniport);
            miniport.config.segments[0].flags = {};
            miniport.config.segments[0].flags.SupportsCpuHostAperture = 1;
            miniport.config.segments[0].size = 32 * kMebibyte;
            miniport.config.segments[1].size = 32 * kMebibyte;
          });
}

TEST_F(SegmentsTest, ARefusedMappingIsExplainedByTheFlagThatPromisedIt) {
  DXGKIT_COVERS("SEG-36");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
      if (args->Operation == DXGK_OPERATION_MAP_APERTURE_SEGMENT)
        return nt_status(Status::kNotSupported);
      return stack.miniport.default_build_paging(args);
    };
    ContextBuffers context = client.make_context();
    static_cast<void>(client.render(context, work_on({client.make_allocation(4096, kAperture)})));
    stack.settle();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"SEG-36"});
    EXPECT_EQ(stack.findings.all()[0].bugcheck_code, 0x10EU);
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
  });
}

}  // namespace
}  // namespace dxgkit::contract
