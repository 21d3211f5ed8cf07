// What the wire of segment enumeration looks like; single descriptions are checked in
// src/dxgk/adapter/segment_rules_test.cpp.
#include <sys/mman.h>

#include <cstring>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using SegTest = ContractTest;

std::vector<testing::QueryCall> segment_queries(Stack& stack) {
  std::vector<testing::QueryCall> queries = stack.miniport.calls().queries;
  std::erase_if(queries, [](const testing::QueryCall& call) {
    return call.args.Type != DXGKQAITYPE_QUERYSEGMENT &&
           call.args.Type != DXGKQAITYPE_QUERYSEGMENT3 &&
           call.args.Type != DXGKQAITYPE_QUERYSEGMENT4;
  });
  return queries;
}

TEST_F(SegTest, TheTypeOfTheDeclaredModelIsAskedTwice) {
  DXGKIT_COVERS("SEG-01", "SEG-02", "SEG-15");
  const std::pair<uint32_t, DXGK_QUERYADAPTERINFOTYPE> models[] = {
      {DXGKDDI_INTERFACE_VERSION_WIN7, DXGKQAITYPE_QUERYSEGMENT},
      {DXGKDDI_INTERFACE_VERSION_WIN8, DXGKQAITYPE_QUERYSEGMENT3},
      {DXGKDDI_INTERFACE_VERSION_WDDM1_3, DXGKQAITYPE_QUERYSEGMENT3},
      {DXGKDDI_INTERFACE_VERSION_WDDM2_0, DXGKQAITYPE_QUERYSEGMENT4}};
  for (const auto& [version, type] : models) {
    SCOPED_TRACE(version);
    running(
        [&](Stack& stack) {
          const std::vector<testing::QueryCall> queries = segment_queries(stack);
          ASSERT_EQ(queries.size(), 2U);
          EXPECT_EQ(queries[0].args.Type, type);
          EXPECT_EQ(queries[1].args.Type, type);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](ScriptedMiniport& miniport) {
          miniport.config.version = version;
          if (version < DXGKDDI_INTERFACE_VERSION_WIN8)
            miniport.config.preemption_aware = miniport.config.cancel_command_aware = false;
        });
  }
}

TEST_F(SegTest, TheFirstPassAsksForTheCountAndTheSecondGivesTheArray) {
  DXGKIT_COVERS("SEG-03", "SEG-10", "SEG-11");
  running([](Stack& stack) {
    const std::vector<testing::QueryCall> queries = segment_queries(stack);
    ASSERT_EQ(queries.size(), 2U);
    DXGK_QUERYSEGMENTOUT3 first, second;
    ASSERT_EQ(queries[0].out_before.size(), sizeof first);
    std::memcpy(&first, queries[0].out_before.data(), sizeof first);
    std::memcpy(&second, queries[1].out_before.data(), sizeof second);
    EXPECT_EQ(first.pSegmentDescriptor, nullptr);
    EXPECT_NE(second.pSegmentDescriptor, nullptr);
    EXPECT_EQ(second.NbSegment, 3U);
    for (const testing::QueryCall& query : queries)
      EXPECT_EQ(query.in, std::vector<std::byte>(sizeof(DXGK_QUERYSEGMENTIN)))
          << "no AGP: all zero";
  });
  running(
      [](Stack& stack) {
        const std::vector<testing::QueryCall> queries = segment_queries(stack);
        ASSERT_EQ(queries.size(), 2U);
        DXGK_QUERYSEGMENTOUT4 first, second;
        std::memcpy(&first, queries[0].out_before.data(), sizeof first);
        std::memcpy(&second, queries[1].out_before.data(), sizeof second);
        EXPECT_EQ(first.NbSegment, 0U);
        EXPECT_EQ(second.NbSegment, 3U);
        EXPECT_EQ(queries[0].in, std::vector<std::byte>(sizeof(DXGK_QUERYSEGMENTIN4)))
            << "PhysicalAdapterIndex 0";
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      });
}

TEST_F(SegTest, ADriverThatWritesMoreInTheFirstPassIsFoundAndStarts) {
  DXGKIT_COVERS("SEG-04");
  running(
      [](Stack& stack) {
        EXPECT_EQ(stack.only_finding().rule, "SEG-04");
        EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kViolation);
      },
      [](ScriptedMiniport& miniport) {
        miniport.hooks.query_adapter_info = [&miniport](const DXGKARG_QUERYADAPTERINFO* args) {
          const NTSTATUS status = miniport.default_query_adapter_info(args);
          if (args->Type == DXGKQAITYPE_QUERYSEGMENT3) {
            auto* out = static_cast<DXGK_QUERYSEGMENTOUT3*>(args->pOutputData);
            if (out->pSegmentDescriptor == nullptr) out->PagingBufferSize = 4096;
          }
          return status;
        };
      });
}

TEST_F(SegTest, AWiderStrideOfTheDriverIsHonoured) {
  DXGKIT_COVERS("SEG-09");
  running(
      [](Stack& stack) {
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        Client client(stack);
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE handle = client.make_allocation(4096, 1U << 1);
        client.list({handle});
        ASSERT_EQ(client.render(context, work_on({handle})), 0);
        stack.drive();
        EXPECT_EQ(stack.miniport.calls().patches.back().allocations.at(0).physical_address,
                  0x2'0000'0000U)
            << "the second descriptor was found";
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.hooks.query_adapter_info = [&miniport](const DXGKARG_QUERYADAPTERINFO* args) {
          if (args->Type != DXGKQAITYPE_QUERYSEGMENT4)
            return miniport.default_query_adapter_info(args);
          auto* out = static_cast<DXGK_QUERYSEGMENTOUT4*>(args->pOutputData);
          if (out->NbSegment != 0) out->SegmentDescriptorStride += 64;
          return miniport.default_query_adapter_info(args);
        };
      });
}

TEST_F(SegTest, TheOptionalLastBankEntryIsNotRead) {
  DXGKIT_COVERS("SEG-26");
  // Two entries at the end of a page, nothing behind it.
  auto* pages = static_cast<std::byte*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
  auto* table = reinterpret_cast<SIZE_T*>(pages + 4096 - 2 * sizeof(SIZE_T));
  table[0] = kMebibyte;
  table[1] = 2 * kMebibyte;
  running([](Stack& stack) { EXPECT_EQ(stack.rules(), std::vector<std::string>{}); },
          [&](ScriptedMiniport& miniport) {
            miniport.config.segments[1].flags.UseBanking = 1;
            miniport.config.segments[1].bank_count = 3;
            miniport.config.segments[1].bank_table = table;
          });
  munmap(pages, 8192);
}

TEST_F(SegTest, WithoutUseBankingTheTableIsNotTouched) {
  DXGKIT_COVERS("SEG-24");
  running([](Stack& stack) { EXPECT_EQ(stack.rules(), std::vector<std::string>{}); },
          [](ScriptedMiniport& miniport) {
            miniport.config.segments[1].bank_count = 0xDEADBEEF;
            miniport.config.segments[1].bank_table = reinterpret_cast<SIZE_T*>(uintptr_t{8});
          });
}

TEST_F(SegTest, AnApertureTakesNoMoreThanItsCommitLimit) {
  DXGKIT_COVERS("SEG-30");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers one = client.make_context(), two = client.make_context();
        const D3DKMT_HANDLE first = client.make_allocation(96 * kKibibyte, 1U << 2);
        const D3DKMT_HANDLE second = client.make_allocation(64 * kKibibyte, 1U << 2);
        ASSERT_EQ(client.render(one, work_on({first})), 0);
        stack.settle();
        ASSERT_TRUE(stack.miniport.complete_next(1));
        stack.settle();
        ASSERT_EQ(client.render(two, work_on({second})), 0);
        stack.settle();
        EXPECT_TRUE(stack.miniport.outstanding(1).empty()) << "96 + 64 KiB pass the limit of 128";
        stack.drive();
        EXPECT_EQ(stack.statistics().packets_completed, stack.statistics().packets_submitted);
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.segments[2].commit_limit = 128 * kKibibyte;
      });
}

TEST_F(SegTest, AddressesOfSegmentsStayFixedAcrossUse) {
  DXGKIT_COVERS("SEG-07", "SEG-08", "SEG-17");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const uint64_t bases[] = {0x1'0000'0000, 0x2'0000'0000, 0x4'0000'0000};
    for (int round = 0; round < 3; ++round) {
      for (uint32_t segment = 0; segment < 3; ++segment) {
        const D3DKMT_HANDLE handle = client.make_allocation(4096, 1U << segment);
        ASSERT_EQ(client.render(context, work_on({handle})), 0);
        stack.drive();
        const port::AllocationListEntry entry =
            stack.miniport.calls().patches.back().allocations.at(0);
        EXPECT_EQ(entry.segment(), segment + 1) << "one-based";
        EXPECT_EQ(entry.physical_address - bases[segment],
                  (entry.physical_address - bases[segment]) / 4096 * 4096);
        EXPECT_LT(entry.physical_address - bases[segment], 64 * kMebibyte);
      }
    }
  });
}

// What is only in the read set: below 2.0 it is a place and has to exist, from 2.0 on it is
// neither.
TEST_F(SegTest, WhatOnlyTheReadSetNamesCountsBelowWddm2) {
  DXGKIT_COVERS("ALLOC-07", "ALLOC-08");
  constexpr uint32_t kUnknown = 1U << 20;
  for (const uint32_t version :
       {uint32_t{DXGKDDI_INTERFACE_VERSION_WDDM1_3}, uint32_t{DXGKDDI_INTERFACE_VERSION_WDDM2_0}}) {
    const bool old = version < DXGKDDI_INTERFACE_VERSION_WDDM2_0;
    const auto made = [&](uint32_t read, uint32_t write, uint32_t preferred, bool expected) {
      SCOPED_TRACE(std::to_string(version) + ": " + std::to_string(read) + ", " +
                   std::to_string(write));
      with_client(
          [&](Stack& stack, Client& client) {
            ScriptedAllocation description;
            description.supported_read = read;
            description.supported_write = write;
            description.preferred = preferred;
            D3DKMT_HANDLE handle = 0;
            const NTSTATUS status = client.create_allocation(description, &handle);
            EXPECT_EQ(status == 0, expected);
            EXPECT_EQ(handle != 0, expected);
            EXPECT_EQ(stack.rules(),
                      expected ? std::vector<std::string>{} : std::vector<std::string>{"ALLOC-07"});
          },
          [&](ScriptedMiniport& miniport) { miniport.config.version = version; });
    };
    made(kUnknown, kHidden, 0, !old);
    made(kVisible, kUnknown, 0, false);
    made(kUnknown | kVisible, kHidden, 0, !old);
    made(kVisible, kHidden, 1, old);  // prefers segment 1
    made(kVisible, kHidden, 2, true);
  }
}

}  // namespace
}  // namespace dxgkit::contract
