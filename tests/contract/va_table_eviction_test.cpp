// Page tables under memory pressure: those of processes without work give way, and are there again,
// saying the same, before anybody runs on them. And what the CPU writes waits for no more than its
// own content.
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/exercise.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/va/table_eviction.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using port::PageTableUpdateMode;

constexpr uint64_t kLeaf = 2 * kMebibyte;  // what a leaf table covers
constexpr uint64_t kLeaves = 24;
constexpr uint64_t kSegmentPages = 512;

class VaTableEvictionTest : public GpuVaTest {
 protected:
  /// Tables and content in one segment, with little memory.
  static void everywhere(const Body& body, const Body& prepare = nullptr) {
    GpuVaConfig by_address = GpuVaConfig::gpu_physical_four_level(1);
    by_address.update_mode = PageTableUpdateMode::kGpuVirtual;
    const std::vector<std::pair<const char*, GpuVaConfig>> all = {
        {"four levels, GPU physical", GpuVaConfig::gpu_physical_four_level(1)},
        {"four levels, GPU virtual", by_address},
        {"two levels, GPU physical", GpuVaConfig::two_level(PageTableUpdateMode::kGpuPhysical, 1)},
    };
    for (const auto& [name, config] : all) {
      SCOPED_TRACE(name);
      running(config, body, [&](GpuVaStack& stack) {
        stack.miniport.config.segments[0].size = kSegmentPages * kPage;
        if (prepare) prepare(stack);
      });
      if (HasFatalFailure()) return;
    }
  }
};

/// Whether those of a process that maps something in kLeaves places gave way.
bool tables_are_away(GpuVaStack& stack) {
  size_t tables = 0;
  stack.adapter().core().lane().run([&] {
    stack.adapter().floor().tables->for_each([&](gpuva::TableId, const dxgk::TableMemory& table) {
      tables += table.room.value != 0 ? 1 : 0;
    });
  });
  return tables < kLeaves;
}

/// A client whose few pages are mapped in many places, with content that can be told apart.
struct Sparse {
  explicit Sparse(GpuVaStack& stack_in, const char* name = "sparse")
      : stack(stack_in), client(stack_in, name) {
    data = client.make_allocation(8 * kPage, kMemorySet);
    client.list({data});
    stack.drive();
    for (uint64_t i = 0; i < kLeaves; ++i) client.make_mapping(data, 8, at(i));
    for (uint64_t page = 1; page < 8; ++page)
      EXPECT_TRUE(stack.gpu.write(client.process_handle(), at(0) + page * kPage, page * 7));
    // Page 0: work that reads the others, each through all of its tables.
    std::vector<std::byte> commands;
    for (uint64_t i = 0; i < kReads; ++i) {
      const auto one = dxgkit::testing::gpu_commands({GpuCommand::read(read_at(i))});
      commands.insert(commands.end(), one.begin(), one.end());
    }
    EXPECT_TRUE(stack.gpu.write(client.process_handle(), at(0), commands));
    run_and_check(client.context);  // work may have written what is listed: it is kept
  }
  static constexpr uint64_t kReads = kLeaves * 5;
  static uint64_t read_at(uint64_t i) { return at(i % kLeaves) + (1 + i % 7) * kPage; }
  /// The engine finds through its tables what was written there.
  void run_and_check(D3DKMT_HANDLE context) {
    stack.gpu.clear_calls();
    ASSERT_EQ(client.submit(context, at(2), kReads * 24), 0);
    stack.drive();
    const auto reads = stack.gpu.reads();
    ASSERT_EQ(reads.size(), kReads) << (stack.rules().empty() ? "" : stack.only_finding().actual);
    for (uint64_t i = 0; i < kReads; ++i) {
      EXPECT_EQ(reads[i].va, read_at(i));
      EXPECT_EQ(reads[i].value, (1 + i % 7) * 7);
    }
  }
  static uint64_t at(uint64_t i) { return (16 + i) * kLeaf; }
  bool evicted() const { return tables_are_away(stack); }
  /// Work of one read; what it finds comes through its tables.
  void run(uint64_t va) {
    ASSERT_TRUE(stack.gpu.root_of(client.process_handle()).has_value());
    ASSERT_EQ(client.submit(client.context, va, 0), 0);
    stack.drive();
  }
  void check(uint64_t i) const {
    for (uint64_t page = 1; page < 8; ++page) {
      const auto walk = client.walk(at(i) + page * kPage);
      ASSERT_TRUE(walk.valid) << i << ": " << walk.why;
      ASSERT_EQ(stack.gpu.read(client.process_handle(), at(i) + page * kPage), page * 7) << i;
    }
  }
  GpuVaStack& stack;
  VaClient client;
  D3DKMT_HANDLE data = 0;
};

/// Roots that were given to contexts since: tables came back.
int new_roots(GpuVaStack& stack) { return stack.gpu.calls().roots.empty() ? 0 : 1; }

/// More than is left beside the tables of a Sparse client, and less than there is.
uint64_t nearly_all() { return (kSegmentPages - kLeaves / 2) * kPage; }

TEST_F(VaTableEvictionTest, TablesOfAnIdleProcessGiveWayAndComeBack) {
  DXGKIT_COVERS("VA-29", "PAGE-33", "VA-06");
  everywhere([](GpuVaStack& stack) {
    Sparse one(stack);
    ListingClient other(stack, "other");
    const D3DKMT_HANDLE large = other.make_allocation(nearly_all(), kMemorySet);
    EXPECT_FALSE(one.evicted());
    const auto root = stack.gpu.root_of(one.client.process_handle());
    ASSERT_TRUE(root.has_value());
    stack.gpu.clear_calls();
    other.list({large});
    stack.drive();
    EXPECT_TRUE(other.in_memory(large));
    EXPECT_TRUE(one.evicted());
    // What was translated through the root that goes is forgotten, once, whatever it was.
    int flushes = 0;
    for (const auto& flush : stack.gpu.calls().flushes) {
      if (flush.hProcess != one.client.process_handle()) continue;
      ++flushes;
      EXPECT_EQ(flush.RootPageTableAddress.SegmentId, root->address.segment.value);
      EXPECT_EQ(flush.RootPageTableAddress.SegmentOffset, root->address.offset);
      EXPECT_EQ(flush.StartVirtualAddress, 0U);
      EXPECT_EQ(flush.EndVirtualAddress, 0U);
    }
    EXPECT_EQ(flushes, 1);
    // Nobody is told; what changes meanwhile changes at once, as there is nothing to write.
    VaClient& client = one.client;
    EXPECT_EQ(client.free_va(one.at(3), 8 * kPage), 0);
    auto args = client.map_args(one.data, 4, one.at(kLeaves));
    args.OffsetInPages = 2;
    EXPECT_EQ(client.map(args), 0);
    EXPECT_EQ(args.PagingFenceValue, 0U);
    EXPECT_TRUE(one.evicted());
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    // The other one lets go as it is idle; work brings everything back first.
    stack.gpu.clear_calls();
    one.run(one.at(0));
    EXPECT_FALSE(stack.gpu.calls().roots.empty());
    for (uint64_t i = 0; i < kLeaves; ++i) {
      if (i != 3) one.check(i);
    }
    EXPECT_FALSE(client.walk(one.at(3)).valid);
    for (uint64_t page = 0; page < 4; ++page) {
      EXPECT_EQ(client.walk(one.at(kLeaves) + page * kPage).place,
                client.walk(one.at(0) + (page + 2) * kPage).place);
    }
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What no device lists, as what is paged in by hand, finds room the same way.
TEST_F(VaTableEvictionTest, TablesOfAnIdleProcessGiveWayToWhatIsNotListed) {
  DXGKIT_COVERS("VA-29");
  everywhere([](GpuVaStack& stack) {
    Sparse one(stack);
    ListingClient other(stack, "other");
    const D3DKMT_HANDLE large = other.make_allocation(nearly_all(), kMemorySet);
    ASSERT_FALSE(one.evicted());
    stack.blocking([&] {
      const auto placed =
          dxgk::Exercise::on(*stack.system, stack.luid)->memory().page_in(*other.process, large);
      ASSERT_TRUE(placed.has_value());
      EXPECT_EQ(placed->segment, SegmentId{1});
    });
    EXPECT_TRUE(one.evicted());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Two processes that cannot have their tables and content at the same time take turns, and each
// finds what it left.
TEST_F(VaTableEvictionTest, ProcessesTakeTurns) {
  DXGKIT_COVERS("VA-29", "PAGE-33");
  everywhere(
      [](GpuVaStack& stack) {
        Sparse one(stack, "one");
        Sparse two(stack, "two");
        for (Sparse* each : {&one, &two}) {
          // Pages, as tables that have come back are where there was room, and do not move.
          std::vector<D3DKMT_HANDLE> pages;
          for (int i = 0; i < 128; ++i)
            pages.push_back(each->client.make_allocation(kPage, kMemorySet));
          each->client.list(pages);
          stack.drive();
        }
        int lost = 0;
        for (int round = 0; round < 3; ++round) {
          for (Sparse* turn : {&one, &two}) {
            turn->run_and_check(turn->client.context);
            lost += new_roots(stack);
          }
        }
        // A context made meanwhile gets the root of tables that are complete.
        const D3DKMT_HANDLE context = one.client.make_context_virtual();
        one.run_and_check(context);
        two.run_and_check(two.client.context);
        one.run_and_check(context);
        EXPECT_GE(new_roots(stack), 1) << "and loses it like the others";
        EXPECT_GE(lost, 5) << "each turn costs the other one's";
        EXPECT_TRUE(stack.gpu.faults().empty());
        EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
        EXPECT_EQ(two.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](GpuVaStack& stack) {
        // Content and tables of one are 163 pages, with the other one's tables 190.
        stack.miniport.config.segments[0].size = 180 * kPage;
      });
}

// Work that is queued or on the hardware keeps the tables it walks.
TEST_F(VaTableEvictionTest, TablesInUseStay) {
  DXGKIT_COVERS("VA-29");
  everywhere([](GpuVaStack& stack) {
    Sparse one(stack);
    ASSERT_TRUE(stack.gpu.write(
        one.client.process_handle(), one.at(0),
        dxgkit::testing::gpu_commands({GpuCommand::write(one.at(kLeaves - 1) + 9, 5)})));
    ASSERT_EQ(one.client.submit(one.client.context, one.at(0), 24), 0);
    stack.settle();
    ListingClient other(stack, "other");
    const D3DKMT_HANDLE large = other.make_allocation(nearly_all(), kMemorySet);
    EXPECT_GE(other.make_resident({large}), 0);
    stack.settle();
    EXPECT_FALSE(one.evicted());
    EXPECT_FALSE(other.in_memory(large));
    stack.drive();
    EXPECT_TRUE(other.in_memory(large));
    EXPECT_TRUE(one.evicted());
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Tables that are being written stay until that is done, though nobody runs on them.
TEST_F(VaTableEvictionTest, TablesThatAreWrittenStay) {
  DXGKIT_COVERS("VA-29");
  everywhere([](GpuVaStack& stack) {
    Sparse one(stack);
    auto args = one.client.map_args(one.data, 4, one.at(kLeaves));
    args.OffsetInPages = 2;
    ASSERT_EQ(one.client.map(args), kPendingStatus);
    stack.settle();
    ASSERT_LT(one.client.queue.value(), args.PagingFenceValue) << "the hardware has not written it";
    ListingClient other(stack, "other");
    const D3DKMT_HANDLE large = other.make_allocation(nearly_all(), kMemorySet);
    EXPECT_GE(other.make_resident({large}), 0);
    stack.settle();
    EXPECT_FALSE(one.evicted());
    EXPECT_FALSE(other.in_memory(large));
    stack.drive();
    EXPECT_TRUE(other.in_memory(large));
    EXPECT_TRUE(one.evicted());
    one.run(one.at(0));
    for (uint64_t page = 0; page < 4; ++page) {
      EXPECT_EQ(one.client.walk(one.at(kLeaves) + page * kPage).place,
                one.client.walk(one.at(0) + (page + 2) * kPage).place);
    }
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

/// Lists nearly all memory for work of `other` that is on the hardware: the tables of `one` are
/// away.
void crowd_out(GpuVaStack& stack, VaClient& other) {
  const D3DKMT_HANDLE code = other.make_allocation(kPage, kMemorySet);
  other.list({code});
  stack.drive();
  const uint64_t va = other.make_mapping(code, 1);
  ASSERT_TRUE(stack.gpu.write(other.process_handle(), va,
                              dxgkit::testing::gpu_commands({GpuCommand::read(va + 64)})));
  other.list({other.make_allocation(nearly_all(), kMemorySet)});
  stack.drive();
  ASSERT_TRUE(tables_are_away(stack));
  stack.gpu.clear_calls();
  ASSERT_EQ(other.submit(other.context, va, 24), 0);
  stack.settle();
}

// While another's work has the memory its tables need, work waits; nobody loses a device.
TEST_F(VaTableEvictionTest, WorkWaitsForMemoryForItsTables) {
  DXGKIT_COVERS("VA-29");
  everywhere([](GpuVaStack& stack) {
    Sparse one(stack, "one");
    VaClient other(stack, "other");
    ASSERT_NO_FATAL_FAILURE(crowd_out(stack, other));
    ASSERT_EQ(one.client.submit(one.client.context, one.at(2), Sparse::kReads * 24), 0);
    stack.settle();
    EXPECT_TRUE(one.evicted()) << "the other one's work is on the hardware, with all it lists";
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    stack.drive();
    EXPECT_EQ(stack.gpu.reads().size(), 1 + Sparse::kReads);
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Tables on their way back for one device are waited for by all of the process: one that lists
// nothing has nothing else to wait for.
TEST_F(VaTableEvictionTest, NoDeviceOfTheProcessRunsBeforeTheyAreBack) {
  DXGKIT_COVERS("VA-29");
  everywhere([](GpuVaStack& stack) {
    Sparse one(stack, "one");
    VaClient& client = one.client;
    const D3DKMT_HANDLE first = std::exchange(client.device, client.make_device());
    const D3DKMT_HANDLE beside = client.make_context_virtual();
    client.device = first;
    VaClient other(stack, "other");
    ASSERT_NO_FATAL_FAILURE(crowd_out(stack, other));
    // Both wait for the memory that the other one's work has, and are asked again together.
    ASSERT_EQ(client.submit(client.context, one.at(2), Sparse::kReads * 24), 0);
    ASSERT_EQ(client.submit(beside, one.at(2), Sparse::kReads * 24), 0);
    stack.settle();
    EXPECT_TRUE(one.evicted());
    stack.drive();
    EXPECT_EQ(stack.gpu.reads().size(), 1 + 2 * Sparse::kReads);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// A list counts with the tables that lead to it, and with those that stay, as a second space's do:
// what does not fit beside them is refused, and fits when they have gone.
TEST_F(VaTableEvictionTest, WhatDoesNotFitBesideTablesIsRefused) {
  DXGKIT_COVERS("RES-05", "VA-29");
  everywhere([](GpuVaStack& stack) {
    Sparse one(stack, "one");
    auto third = std::make_unique<VaClient>(stack, "third");
    static_cast<void>(third->make_reservation(64 * kPage));  // and so a second space
    std::vector<D3DKMT_HANDLE> pages;
    NTSTATUS status = 0;
    while (status >= 0) {
      ASSERT_LT(pages.size(), kSegmentPages - kLeaves) << "tables were not counted";
      pages.push_back(one.client.make_allocation(kPage, kMemorySet));
      stack.drive();
      const uint64_t usage = one.client.memory().CurrentUsage;
      const uint64_t fence = one.client.queue.value();
      status = one.client.make_resident({pages.back()});
      if (status < 0) {  // others may have made room in vain; nothing else has happened
        EXPECT_EQ(one.client.memory().CurrentUsage, usage);
        EXPECT_EQ(one.client.queue.value(), fence);
        EXPECT_FALSE(one.client.in_memory(pages.back()));
      }
      stack.drive();
    }
    EXPECT_EQ(status, nt_status(Status::kNoMemory));
    // What was accepted is there, and works.
    one.run_and_check(one.client.context);
    for (size_t i = 0; i + 1 < pages.size(); ++i) EXPECT_TRUE(one.client.in_memory(pages[i]));
    third.reset();
    stack.drive();
    EXPECT_GE(one.client.make_resident({pages.back()}), 0);
    stack.drive();
    EXPECT_TRUE(one.client.in_memory(pages.back()));
    one.run_and_check(one.client.context);
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Tables count where those of their level live: leaves elsewhere, directories beside the content.
TEST_F(VaTableEvictionTest, TablesCountInTheSegmentOfTheirLevel) {
  DXGKIT_COVERS("RES-05", "VA-03");
  static constexpr uint64_t kPages = 64, kPlaces = 20, kFar = uint64_t{1} << 30;
  GpuVaConfig config = GpuVaConfig::gpu_physical_four_level(1);
  config.levels[0].segment = 0;
  running(
      config,
      [](GpuVaStack& stack) {
        VaClient client(stack);
        const D3DKMT_HANDLE data = client.make_allocation(kPage, kMemorySet);
        client.list({data});
        stack.drive();
        for (uint64_t i = 1; i <= kPlaces; ++i) client.make_mapping(data, 1, i * kFar);
        uint64_t listed = 0;
        for (NTSTATUS status = 0; status >= 0; ++listed) {
          ASSERT_LT(listed, kPages);
          status = client.make_resident({client.make_allocation(kPage, kMemorySet)});
          stack.drive();
        }
        // Beside it: a directory for each place, two above them, and the content that is mapped.
        EXPECT_EQ(listed - 1, kPages - kPlaces - 2 - 1);
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](GpuVaStack& stack) { stack.miniport.config.segments[0].size = kPages * kPage; });
}

// The list was accepted and then outgrown by tables: its device is in error with its next work, and
// nobody waits for ever.
TEST_F(VaTableEvictionTest, AListThatTablesOutgrowPutsItsDeviceInError) {
  DXGKIT_COVERS("RES-03", "VA-29");
  everywhere([](GpuVaStack& stack) {
    Sparse one(stack, "one");
    Client bystander(stack, "bystander");
    NTSTATUS status = 0;
    for (size_t i = 0; status >= 0 && i < kSegmentPages; ++i) {
      status = one.client.make_resident({one.client.make_allocation(kPage, kMemorySet)});
      stack.drive();
    }
    ASSERT_EQ(status, nt_status(Status::kNoMemory));
    for (uint64_t i = 0; i < 4; ++i) {
      D3DDDI_MAPGPUVIRTUALADDRESS args = one.client.map_args(one.data, 1, one.at(2 * kLeaves + i));
      EXPECT_GE(one.client.map(args), 0);
      stack.drive();
    }
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    ASSERT_EQ(one.client.submit(one.client.context, one.at(2), Sparse::kReads * 24), 0);
    stack.drive();
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
    EXPECT_EQ(bystander.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    // The process goes on with another device.
    EXPECT_EQ(one.client.destroy_device(one.client.device), 0);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// The list with what is to come does not fit beside the tables, and the list as queued work knows
// it does: the tables that were found for the first must not be in the way of the second.
TEST_F(VaTableEvictionTest, WorkRunsBesideAListThatDoesNotFitYet) {
  DXGKIT_COVERS("RES-03", "VA-29");
  everywhere([](GpuVaStack& stack) {
    Sparse one(stack, "one");
    VaClient other(stack, "other");
    std::vector<D3DKMT_HANDLE> pages;
    for (NTSTATUS status = 0; status >= 0 && pages.size() < kSegmentPages; stack.drive()) {
      pages.push_back(one.client.make_allocation(kPage, kMemorySet));
      status = one.client.make_resident({pages.back()});
    }
    const D3DKMT_HANDLE refused = pages.back();
    ASSERT_NO_FATAL_FAILURE(crowd_out(stack, other));
    ASSERT_EQ(one.client.submit(one.client.context, one.at(2), Sparse::kReads * 24), 0);
    stack.settle();
    // The queued work needs the first page, which makes room for the last only then.
    EXPECT_EQ(one.client.evict({pages.front()}), 0);
    EXPECT_EQ(one.client.make_resident({refused}), kPendingStatus);
    stack.drive();
    EXPECT_EQ(stack.gpu.reads().size(), 1 + Sparse::kReads);
    EXPECT_TRUE(one.client.in_memory(refused));
    EXPECT_EQ(one.client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// A process ends, power goes, and entries want to be invalidated first: nothing is left over.
TEST_F(VaTableEvictionTest, WhileTheyAreAway) {
  DXGKIT_COVERS("PAGE-02", "PAGE-39");
  everywhere([](GpuVaStack& stack) {
    ListingClient other(stack, "other");
    const D3DKMT_HANDLE large = other.make_allocation(nearly_all(), kMemorySet);
    {
      Sparse one(stack);
      other.list({large});
      stack.drive();
      EXPECT_TRUE(one.evicted());
    }
    stack.drive();
    EXPECT_TRUE(stack.gpu.processes().size() == 1);
    ASSERT_EQ(other.evict({large}), 0);
    stack.drive();
    Sparse one(stack);
    other.list({large});
    stack.drive();
    EXPECT_TRUE(one.evicted());
    ASSERT_EQ(other.evict({large}), 0);
    stack.drive();
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
      if (state == PowerDeviceD3) stack.gpu.lose_power();
      return STATUS_SUCCESS;
    };
    for (const dxgk::PowerTarget target : {dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kD0})
      stack.blocking([&] { EXPECT_TRUE(stack.system->set_power(stack.luid, target).has_value()); });
    stack.miniport.hooks.set_power_state = nullptr;
    stack.drive();
    one.run(one.at(0));
    one.check(5);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
  everywhere(
      [](GpuVaStack& stack) {
        Sparse one(stack);
        ListingClient other(stack, "other");
        const D3DKMT_HANDLE large = other.make_allocation(nearly_all(), kMemorySet);
        EXPECT_EQ(other.make_resident({large}), nt_status(Status::kNoMemory)) << "they stay";
        stack.drive();
        EXPECT_FALSE(one.evicted());
        one.check(kLeaves - 1);
      },
      [](GpuVaStack& stack) { stack.gpu.config.explicit_invalidation = true; });
}

// Tables that the CPU writes: an entry waits for content on its way to the page it shows, and for
// nothing else that is being paged.
TEST_F(VaTableEvictionTest, EntriesOfTheCpuWaitForTheirOwnContentOnly) {
  DXGKIT_COVERS("VA-29");
  running(GpuVaConfig::cpu_virtual_two_level(), [](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE here = client.make_allocation(4 * kPage, kMemorySet);
    const D3DKMT_HANDLE coming = client.make_allocation(4 * kPage, kMemorySet);
    client.list({here});
    stack.drive();
    client.make_mapping(here, 4);  // the root has grown, and the table is there
    EXPECT_EQ(client.make_resident({coming}), kPendingStatus);
    stack.settle();
    auto first = client.map_args(here, 4);
    auto second = client.map_args(coming, 4);
    EXPECT_GE(client.map(first), 0);
    EXPECT_GE(client.map(second), 0);
    stack.settle();
    EXPECT_TRUE(client.walk(first.VirtualAddress).valid) << "its content is there";
    EXPECT_FALSE(client.walk(second.VirtualAddress).valid) << "somebody else's is";
    stack.drive();
    EXPECT_TRUE(client.walk(second.VirtualAddress).valid);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// While tables come back, one paging packet after another, nobody is told a root that leads to less
// than what is mapped, or to more: what has no place now has none there either.
TEST_F(VaTableEvictionTest, ARootIsToldOnceItsTablesSayEverything) {
  DXGKIT_COVERS("VA-29", "PAGE-33");
  everywhere([](GpuVaStack& stack) {
    Sparse one(stack);
    const D3DKMT_HANDLE away = one.client.make_allocation(8 * kPage, kMemorySet);
    const uint64_t nowhere = one.client.make_mapping(away, 8, Sparse::at(kLeaves + 1));
    ListingClient other(stack, "other");
    const D3DKMT_HANDLE large = other.make_allocation(nearly_all(), kMemorySet);
    other.list({large});
    stack.drive();
    ASSERT_TRUE(one.evicted());
    auto exercise = dxgk::Exercise::on(*stack.system, stack.luid);
    ASSERT_TRUE(exercise.has_value());
    const auto told = [&] { return exercise->gpu_va_root(*one.client.process).has_value(); };
    EXPECT_FALSE(told());
    ASSERT_EQ(one.client.submit(one.client.context, Sparse::at(2), 24), 0);
    stack.settle();
    bool ever = told();
    for (int packets = 0; packets < 1000; ++packets) {
      bool any = false;
      for (uint32_t node = 0; node < 2 && !any; ++node) any = stack.miniport.complete_next(node);
      stack.settle();
      if (told() && !ever) {
        ever = true;
        for (uint64_t i = 0; i < kLeaves; ++i) one.check(i);
        EXPECT_FALSE(one.client.walk(nowhere).valid);
      }
      if (!any) break;
    }
    EXPECT_TRUE(ever);
  });
}

/// A process that maps one page of an aperture in many places: content that is in reach of the
/// engine needs no memory of the segment, and its tables do.
struct Outside {
  explicit Outside(GpuVaStack& stack_in) : stack(stack_in), client(stack_in, "outside") {
    page = client.make_allocation(kPage, kApertureSet);
    before = client.make_allocation(kPage, kApertureSet);
    client.list({page});
    stack.drive();
    for (uint64_t i = 0; i < kLeaves; ++i) client.make_mapping(page, 1, Sparse::at(i));
    EXPECT_TRUE(stack.gpu.write(
        client.process_handle(), Sparse::at(0),
        dxgkit::testing::gpu_commands({GpuCommand::read(Sparse::at(kLeaves - 1) + 64)})));
    EXPECT_EQ(client.evict({page}), 0);
    stack.drive();
  }
  /// Something is on the paging engine, and the page is behind it.
  void come_back() {
    EXPECT_EQ(client.make_resident({before}), kPendingStatus);
    EXPECT_EQ(client.make_resident({page}), kPendingStatus);
  }
  void check() {
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    ASSERT_EQ(client.submit(client.context, Sparse::at(0), 24), 0);
    stack.drive();
    EXPECT_EQ(stack.gpu.reads().size(), 2U) << "its own, and that of the other process";
    for (uint64_t i = 0; i < kLeaves; ++i) EXPECT_TRUE(client.walk(Sparse::at(i)).valid) << i;
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  }
  GpuVaStack& stack;
  VaClient client;
  D3DKMT_HANDLE page = 0, before = 0;
};

// Content arrives while another's work has the memory that its tables need. Its device is not in
// error, as work of the process waits for its tables.
TEST_F(VaTableEvictionTest, ContentArrivesBeforeThereIsRoomForItsTables) {
  DXGKIT_COVERS("VA-29");
  everywhere([](GpuVaStack& stack) {
    Outside one(stack);
    VaClient other(stack, "other");
    ASSERT_NO_FATAL_FAILURE(crowd_out(stack, other));
    one.come_back();
    for (int i = 0; i < 20 && stack.miniport.complete_next(1); ++i) stack.settle();
    EXPECT_TRUE(tables_are_away(stack));
    one.check();
  });
}

// The same while work of the process itself is on the hardware: it was prepared without that
// content, and goes on. What comes behind it waits for the tables.
TEST_F(VaTableEvictionTest, ContentArrivesBesideWorkOfItsProcess) {
  DXGKIT_COVERS("VA-29");
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack, "one");
    const D3DKMT_HANDLE code = client.make_allocation(kPage, kApertureSet);
    const D3DKMT_HANDLE page = client.make_allocation(kPage, kApertureSet);
    client.list({code});
    stack.drive();
    const uint64_t va = client.make_mapping(code, 1);
    for (uint64_t i = 0; i < kLeaves; ++i) client.make_mapping(page, 1, Sparse::at(i));
    const auto commands = [&](uint64_t from) {
      return dxgkit::testing::gpu_commands({GpuCommand::read(from)});
    };
    ASSERT_TRUE(stack.gpu.write(client.process_handle(), va, commands(va + 64)));
    ASSERT_TRUE(
        stack.gpu.write(client.process_handle(), va + 24, commands(Sparse::at(kLeaves - 1) + 64)));
    VaClient other(stack, "other");
    ASSERT_NO_FATAL_FAILURE(crowd_out(stack, other));
    ASSERT_EQ(client.submit(client.context, va, 24), 0);
    stack.settle();
    ASSERT_EQ(stack.miniport.outstanding(0).size(), 2U);
    EXPECT_EQ(client.make_resident({page}), kPendingStatus);
    while (stack.miniport.complete_next(1)) stack.settle();
    EXPECT_FALSE(client.walk(Sparse::at(kLeaves - 1)).valid) << "no room for its tables";
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    ASSERT_EQ(client.submit(client.context, va + 24, 24), 0);
    stack.settle();
    EXPECT_EQ(stack.miniport.outstanding(0).size(), 2U);
    EXPECT_TRUE(stack.gpu.reads().empty());
    stack.drive();
    EXPECT_EQ(stack.gpu.reads().size(), 3U);
    EXPECT_TRUE(client.walk(Sparse::at(kLeaves - 1)).valid);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// The same, and a context of the process asks for its root meanwhile, in vain and again.
TEST_F(VaTableEvictionTest, AContextWaitsForRoomWhileContentComesIn) {
  DXGKIT_COVERS("VA-29");
  everywhere([](GpuVaStack& stack) {
    Outside one(stack);
    VaClient& client = one.client;
    VaClient other(stack, "other");
    const auto away = [&] {
      bool gone = false;
      stack.adapter().core().lane().run(
          [&] { gone = stack.adapter().floor().table_eviction->tables_are_away(*client.process); });
      return gone;
    };
    client.list({one.page});
    stack.drive();
    ASSERT_FALSE(tables_are_away(stack));
    ASSERT_NO_FATAL_FAILURE(crowd_out(stack, other));
    ASSERT_TRUE(away());
    EXPECT_EQ(client.evict({one.page}), 0);
    one.come_back();
    D3DKMT_CREATECONTEXTVIRTUAL args{};
    args.hDevice = client.device;
    NTSTATUS status = -1;
    {
      Stack::Background making(
          stack, [&] { status = client.call([&] { return D3DKMTCreateContextVirtual(&args); }); });
      EXPECT_FALSE(making.finished());
      for (int i = 0; i < 20 && stack.miniport.complete_next(1); ++i)
        EXPECT_FALSE(making.finished());
      EXPECT_TRUE(away());
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      making.finish();
    }
    EXPECT_EQ(status, 0);
    client.context = args.hContext;
    one.check();
  });
}

}  // namespace
}  // namespace dxgkit::contract
