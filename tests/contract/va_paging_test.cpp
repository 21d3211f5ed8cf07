// Page tables as the driver is asked to write them, in every update mode, and paging through the
// paging process's space.
#include <map>
#include <set>

#include "dxgk/adapter/adapter.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using dxgkit::testing::GpuVaCalls;
using port::PageTableUpdateMode;

/// Four levels, whose leaf tables may have pages of 64 KiB. `dual`: beside those of 4 KiB.
GpuVaConfig with_64k_tables(bool dual) {
  GpuVaConfig config = GpuVaConfig::gpu_physical_four_level();
  config.caps = [dual](DXGK_GPUMMUCAPS& caps) {
    caps.LeafPageTableSizeFor64KPagesInBytes = kPage;
    caps.DualPteSupported = dual ? 1 : 0;
  };
  return config;
}

class VaPagingTest : public GpuVaTest {
 protected:
  /// The two of the fixture, a root that grows in memory, and tables written by virtual address.
  static void everywhere(const Body& body, const Body& prepare = nullptr) {
    auto all = kinds();
    all.emplace_back("two levels, GPU physical, growing root",
                     GpuVaConfig::two_level(PageTableUpdateMode::kGpuPhysical, 2));
    all.emplace_back("two levels, GPU virtual",
                     GpuVaConfig::two_level(PageTableUpdateMode::kGpuVirtual, 2));
    GpuVaConfig four = GpuVaConfig::gpu_physical_four_level();
    four.update_mode = PageTableUpdateMode::kGpuVirtual;
    all.emplace_back("four levels, GPU virtual", four);
    for (auto& [name, config] : all) {
      SCOPED_TRACE(name);
      running(config, body, prepare);
      if (HasFatalFailure()) return;
    }
  }
};

// What every mode has in common: content comes and goes with the mapping, tables are never wrong.
TEST_F(VaPagingTest, ContentAndEntriesSurviveEveryKindOfTable) {
  DXGKIT_COVERS("VA-29", "VA-45", "PAGE-16", "PAGE-31", "PAGE-32");
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack);
    const uint64_t pages = 600;  // more than a window of the scratch area
    const D3DKMT_HANDLE a = client.make_allocation(pages * kPage, kMemorySet);
    client.list({a});
    stack.drive();
    const uint64_t va = client.make_mapping(a, pages);
    for (uint64_t page = 0; page < pages; page += 7)
      ASSERT_TRUE(stack.gpu.write(client.process_handle(), va + page * kPage, page * 3 + 1));
    stack.gpu.clear_calls();
    ASSERT_EQ(client.evict({a}), 0);
    stack.drive();
    EXPECT_FALSE(client.walk(va).valid);
    EXPECT_FALSE(client.walk(va + (pages - 1) * kPage).valid);
    client.list({a});
    stack.drive();
    for (uint64_t page = 0; page < pages; page += 7)
      ASSERT_EQ(stack.gpu.read(client.process_handle(), va + page * kPage), page * 3 + 1);
    const GpuVaCalls calls = stack.gpu.calls();
    // Chunk by chunk, both sides at addresses of the paging process, and the whole of it.
    std::map<uint32_t, uint64_t> moved;
    for (const auto& transfer : calls.transfers) {
      moved[static_cast<uint32_t>(transfer.TransferDirection)] += transfer.TransferSizeInBytes;
      EXPECT_NE(transfer.hAllocation, nullptr);
      EXPECT_NE(transfer.SourceVirtualAddress, 0U);
      EXPECT_NE(transfer.DestinationVirtualAddress, 0U);
      // Without the legacy cap; windows are of 4 KiB pages.
      EXPECT_EQ(transfer.SourcePageTable, 0U);
      EXPECT_EQ(transfer.DestinationPageTable, 0U);
      EXPECT_EQ(transfer.Flags.Flags, 0U);
    }
    // No protection of anybody's is wanted of it, so the windows have none.
    size_t windows = 0;
    for (const auto& update : calls.updates) {
      if (update.args.hProcess != stack.gpu.system_process()) continue;
      EXPECT_EQ(update.args.DriverProtection, 0U);
      ++windows;
    }
    EXPECT_GT(windows, 2U);
    EXPECT_EQ(moved[DXGK_MEMORY_TRANSFER_LOCAL_TO_SYSTEM], pages * kPage);
    EXPECT_EQ(moved[DXGK_MEMORY_TRANSFER_SYSTEM_TO_LOCAL], pages * kPage);
    EXPECT_GT(calls.transfers.size(), 2U);
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// One mapping of more entries than the driver is handed at a time: all of them are written, none
// twice.
TEST_F(VaPagingTest, ManyEntriesAreWrittenALimitedNumberAtATime) {
  DXGKIT_COVERS("VA-29", "VA-45");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    constexpr uint64_t kPages = 4096 + 700;
    const D3DKMT_HANDLE a = client.make_allocation(kPages * kPage, kMemorySet);
    client.list({a});
    stack.drive();
    stack.gpu.clear_calls();
    const uint64_t va = client.make_mapping(a, kPages);
    uint64_t entries = 0;
    for (const auto& update : stack.gpu.calls().updates) {
      if (update.args.hProcess != client.process_handle() || update.args.PageTableLevel != 0)
        continue;
      if (update.args.Flags.Repeat == 0) entries += update.args.NumPageTableEntries;
    }
    EXPECT_EQ(entries, kPages);
    const uint64_t first = client.walk(va).place.offset;
    for (uint64_t page = 0; page < kPages; ++page)
      ASSERT_EQ(client.walk(va + page * kPage).place.offset, first + page * kPage) << page;
    EXPECT_FALSE(client.walk(va + kPages * kPage).valid);
  });
}

// More moves at once than the scratch area has slots: none takes another's window away.
TEST_F(VaPagingTest, ManyMovesAtOnceKeepTheirContent) {
  DXGKIT_COVERS("PAGE-31");
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack);
    std::vector<D3DKMT_HANDLE> all;
    std::vector<uint64_t> at;
    for (uint64_t i = 0; i < 20; ++i) all.push_back(client.make_allocation(kPage, kMemorySet));
    client.list(all);
    stack.drive();
    for (uint64_t i = 0; i < all.size(); ++i) {
      at.push_back(client.make_mapping(all[i], 1));
      ASSERT_TRUE(stack.gpu.write(client.process_handle(), at[i], 1000 + i));
    }
    ASSERT_EQ(client.evict(all), 0);
    EXPECT_GT(stack.gpu.calls().transfers.size(), 4U) << "built before any has run";
    stack.drive();
    client.list(all);
    stack.drive();
    for (uint64_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(stack.gpu.read(client.process_handle(), at[i]), 1000 + i);
  });
}

TEST_F(VaPagingTest, PagingRunsInItsOwnProcessBuiltByTheCpu) {
  DXGKIT_COVERS("PAGE-01", "PAGE-02", "PAGE-03");
  everywhere([](GpuVaStack& stack) {
    const GpuVaCalls at_start = stack.gpu.calls();
    ASSERT_FALSE(at_start.updates.empty());
    void* const system = stack.gpu.system_process();
    for (const auto& update : at_start.updates) {
      EXPECT_TRUE(update.by_cpu);
      EXPECT_EQ(update.args.UpdateMode, DXGK_PAGETABLEUPDATE_CPU_VIRTUAL);
      EXPECT_EQ(update.args.hProcess, system);
    }
    EXPECT_FALSE(stack.gpu.walk(system, 0).valid);
    EXPECT_FALSE(stack.gpu.walk(system, 4095).valid);
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
    stack.gpu.clear_calls();
    client.list({a});
    stack.drive();
    client.make_mapping(a, 4);
    // Paging is submitted in the paging process's space, by virtual address.
    for (const auto& submit : stack.gpu.calls().submits) {
      EXPECT_EQ(stack.gpu.process_of(submit.args.hContext), system);
      EXPECT_TRUE(submit.args.Flags.Paging);
      EXPECT_TRUE(stack.gpu.walk(system, submit.args.DmaBufferVirtualAddress).valid);
    }
    EXPECT_FALSE(stack.gpu.calls().submits.empty());
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 0U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiPatch"), 0U);
  });
}

// A change in a table that has pages of 64 KiB beside it is of whole ones, which have the end of
// one buffer and the beginning of the next in them.
TEST_F(VaPagingTest, BuffersThatShare64KibKeepTheirPages) {
  DXGKIT_COVERS("PAGE-01", "VA-44");
  constexpr uint64_t kBuffers = 4, kEach = 7;  // pages, with the last of the guard
  for (const bool dual : {false, true}) {
    SCOPED_TRACE(dual ? "two entries for each 64 KiB" : "one kind of entries in a table");
    running(
        with_64k_tables(dual),
        [](GpuVaStack& stack) {
          const auto pages = stack.gpu.tables_of(stack.gpu.system_process()).pages;
          std::map<uint64_t, uint64_t> times;  // what stands in for nothing is there many times
          for (const auto& [va, walk] : pages) {
            if (walk.place.segment == kSystemMemory) ++times[walk.place.offset];
          }
          std::vector<uint64_t> of_buffers;
          for (const auto& [va, walk] : pages) {
            if (walk.place.segment == kSystemMemory && times[walk.place.offset] == 1)
              of_buffers.push_back(walk.place.offset);
          }
          ASSERT_EQ(of_buffers.size(), kBuffers * kEach);
          for (size_t i = 0; i < of_buffers.size(); ++i) {
            if (i % kEach != 0) {
              EXPECT_EQ(of_buffers[i], of_buffers[i - 1] + kPage) << i;
            }
          }
        },
        [](GpuVaStack& stack) { stack.miniport.config.paging_buffer_bytes = (kEach - 1) * kPage; });
  }
}

TEST_F(VaPagingTest, TablesAreWrittenInvalidFirstAndTheirEntriesFollowEachOther) {
  DXGKIT_COVERS("PAGE-33", "PAGE-34");
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(64 * kPage, kMemorySet);
    client.list({a});
    stack.drive();
    stack.gpu.clear_calls();
    const uint64_t va = client.make_mapping(a, 64);
    bool leaf_written = false;
    std::map<uint64_t, bool> initialised;  // by table
    const auto table_of = [](const dxgkit::testing::TableUpdateCall& update) {
      return update.args.UpdateMode == DXGK_PAGETABLEUPDATE_GPU_PHYSICAL
                 ? update.args.PageTableAddress.GpuPhysical.SegmentOffset
                 : reinterpret_cast<uint64_t>(update.args.PageTableAddress.CpuVirtual);
    };
    for (const auto& update : stack.gpu.calls().updates) {
      if (update.args.hProcess != client.process_handle()) continue;
      if (update.args.Flags.InitialUpdate) {
        initialised[table_of(update)] = true;
        EXPECT_EQ(update.args.hAllocation, nullptr);
        EXPECT_TRUE(update.args.Flags.Repeat);
        for (const auto& entry : update.entries) EXPECT_FALSE(entry.flags & gpuva::kPteValid);
      } else if (update.args.PageTableLevel == 0) {
        leaf_written = true;
        EXPECT_TRUE(initialised[table_of(update)]) << "written before it was made invalid";
        EXPECT_NE(update.args.hAllocation, nullptr);
        EXPECT_EQ(update.args.FirstPteVirtualAddress, va + update.args.AllocationOffsetInBytes);
        EXPECT_EQ(update.args.NumPageTableEntries, update.entries.size());
      } else {
        EXPECT_EQ(update.args.hAllocation, nullptr);
      }
    }
    EXPECT_TRUE(leaf_written);
  });
}

// A stale translation is what a missing flush looks like: the scripted engine keeps them.
TEST_F(VaPagingTest, WhatChangesIsFlushedBeforeItsOldPagesAreReused) {
  DXGKIT_COVERS("PAGE-37");
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
    const D3DKMT_HANDLE b = client.make_allocation(4 * kPage, kMemorySet);
    const D3DKMT_HANDLE code = client.make_allocation(kPage, kMemorySet);
    client.list({a, b, code});
    stack.drive();
    const uint64_t va = client.make_mapping(a, 4);
    const uint64_t at_b = client.make_mapping(b, 4);
    const uint64_t at_code = client.make_mapping(code, 1);
    const auto run = [&](GpuCommand command) {
      ASSERT_TRUE(stack.gpu.write(client.process_handle(), at_code,
                                  dxgkit::testing::gpu_commands({command})));
      ASSERT_EQ(client.submit(client.context, at_code, 24), 0);
      stack.drive();
    };
    run(GpuCommand::write(va, 1));  // now it is cached
    client.make_mapping(b, 4, va);
    run(GpuCommand::write(va, 2));
    EXPECT_EQ(stack.gpu.read(client.process_handle(), at_b), 2U);
    ASSERT_EQ(client.evict({b}), 0);
    stack.drive();
    run(GpuCommand::write(va, 3));
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
  });
}

TEST_F(VaPagingTest, ARootIsGivenToEveryContextAndGrowsUnderIdleOnes) {
  DXGKIT_COVERS("VA-05", "VA-06");
  // Of the fixture's two neither root grows: one has a root of one page, the other four levels.
  GpuVaConfig config = GpuVaConfig::two_level(PageTableUpdateMode::kGpuPhysical, 2);
  running(config, [](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE second = client.make_context_virtual();
    static_cast<void>(second);
    const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
    client.list({a});
    stack.drive();
    const uint64_t low = client.make_mapping(a, 4);
    const auto before = stack.gpu.root_of(client.process_handle());
    ASSERT_TRUE(before.has_value());
    // Work is on the hardware while the root has to grow: it ends first.
    ASSERT_TRUE(
        stack.gpu.write(client.process_handle(), low,
                        dxgkit::testing::gpu_commands({GpuCommand::write(low + kPage, 9)})));
    ASSERT_EQ(client.submit(client.context, low, 24), 0);
    stack.settle();
    stack.gpu.clear_calls();
    auto args = client.map_args(a, 4, uint64_t{0xF000'0000});
    ASSERT_EQ(client.map(args), kPendingStatus);
    while (stack.miniport.complete_next(1)) stack.settle();  // paging gets ahead
    EXPECT_TRUE(stack.gpu.calls().roots.empty()) << "the context is not idle";
    stack.drive();
    const auto calls = stack.gpu.calls();
    EXPECT_EQ(calls.roots.size(), 2U) << "each context of the process";
    const auto after = stack.gpu.root_of(client.process_handle());
    EXPECT_GT(after->entry_count, before->entry_count);
    EXPECT_NE(after->address, before->address);
    EXPECT_TRUE(client.walk(0xF000'0000 + kPage).valid);
    EXPECT_EQ(stack.gpu.read(client.process_handle(), low + kPage), 9U);
    EXPECT_FALSE(stack.gpu.calls().root_sizes.empty());
  });
  running(GpuVaConfig::gpu_physical_four_level(), [](GpuVaStack& stack) {
    VaClient client(stack);
    EXPECT_TRUE(stack.gpu.calls().root_sizes.empty());
  });
}

TEST_F(VaPagingTest, ProtectionBitsAreSetOnlyWhereTheyExist) {
  DXGKIT_COVERS("VA-21", "VA-22");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
    client.list({a});
    stack.drive();
    auto args = client.map_args(a, 4);
    for (const uint64_t bits : {uint64_t{0}, kWrite, kExecute, kWrite | kExecute}) {
      args.Protection = protection(bits);
      const auto walk = client.walk(client.make_mapping(args));
      ASSERT_TRUE(walk.valid);
      EXPECT_EQ(walk.writable, (bits & kWrite) != 0);
      EXPECT_EQ(walk.executable, (bits & kExecute) != 0);
    }
  });
  for (const auto& [name, config] : kinds()) {
    SCOPED_TRACE(name);
    GpuVaConfig plain = config;
    plain.read_only = plain.no_execute = plain.zero_in_pte = false;
    running(plain, [](GpuVaStack& stack) {
      VaClient client(stack);
      const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
      client.list({a});
      stack.drive();
      auto args = client.map_args(a, 4);
      args.Protection = protection(0);
      EXPECT_TRUE(client.walk(client.make_mapping(args)).writable);
      // Neither a bit for zeros, nor one that could protect a page of them.
      args = client.map_args(0, 4);
      args.Protection = protection(kZero);
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(client.map(args), nt_status(Status::kNotSupported));
      EXPECT_EQ(digest(stack, {&client}), before);
    });
    plain.read_only = true;
    running(plain, [](GpuVaStack& stack) {
      VaClient client(stack);
      auto args = client.map_args(0, 4);
      args.Protection = protection(kZero);
      const uint64_t va = client.make_mapping(args);
      const auto walk = client.walk(va);
      ASSERT_TRUE(walk.valid);
      EXPECT_FALSE(walk.writable);
      EXPECT_EQ(stack.gpu.read(client.process_handle(), va + 3 * kPage), 0U);
    });
    if (HasFatalFailure()) return;
  }
}

// The bit is for content that caches of the processor may have: cached allocations, where the
// processor's own memory lies behind the segment, and an MMU that has such a bit.
TEST_F(VaPagingTest, EntriesAreCoherentForCachedContentInAnAperture) {
  DXGKIT_COVERS("VA-22");
  constexpr uint32_t kCpuVisible = 1, kCached = 4;
  struct Row {
    const char* sentence;
    uint32_t segments, flags;
    bool supported, coherent;
  };
  for (const Row& row :
       {Row{"cached, in the aperture", kAperture, kCpuVisible | kCached, true, true},
        Row{"not cached", kAperture, kCpuVisible, true, false},
        Row{"without such a bit", kAperture, kCpuVisible | kCached, false, false},
        Row{"in local memory", kMemorySet, kCpuVisible | kCached, true, false}}) {
    SCOPED_TRACE(row.sentence);
    GpuVaConfig config = GpuVaConfig::gpu_physical_four_level();
    config.cache_coherent = row.supported;
    running(config, [&](GpuVaStack& stack) {
      VaClient client(stack);
      ScriptedAllocation description;
      description.size = 4 * kPage;
      description.supported_read = description.supported_write = row.segments;
      description.flags = row.flags;
      const D3DKMT_HANDLE allocation = client.make_allocation(description);
      client.list({allocation});
      stack.drive();
      const auto walk = client.walk(client.make_mapping(allocation, 4));
      ASSERT_TRUE(walk.valid) << walk.why;
      EXPECT_EQ(walk.cache_coherent, row.coherent);
    });
  }
}

// Pages of 64 KiB need a segment that says so. Such a segment takes aligned
// allocations only.
TEST_F(VaPagingTest, PagesOf64KibAreOfTheSegmentAndTheAllocation) {
  DXGKIT_COVERS("VA-43");
  struct Row {
    const char* sentence;
    bool segment;
    uint32_t alignment;
    bool large;
  };
  for (const Row& row : {Row{"a segment of such pages", true, 64 * 1024, true},
                         Row{"aligned to more", true, 256 * 1024, true},
                         Row{"the alignment alone", false, 64 * 1024, false}}) {
    SCOPED_TRACE(row.sentence);
    running(
        with_64k_tables(false),
        [&](GpuVaStack& stack) {
          VaClient client(stack);
          ScriptedAllocation description;
          description.size = 256 * kKibibyte;
          description.supported_read = description.supported_write = kMemorySet;
          description.alignment = row.alignment;
          const D3DKMT_HANDLE allocation = client.make_allocation(description);
          client.list({allocation});
          stack.drive();
          stack.gpu.clear_calls();
          client.make_mapping(allocation, 64);
          uint64_t small = 0, large = 0;
          for (const auto& update : stack.gpu.calls().updates) {
            if (update.args.Flags.Repeat != 0 || update.args.PageTableLevel != 0) continue;
            for (const auto& entry : update.entries) {
              if ((entry.flags & gpuva::kPteValid) == 0) continue;
              ++(update.args.Flags.Use64KBPages != 0 ? large : small);
            }
          }
          EXPECT_EQ(large != 0, row.large);
          EXPECT_EQ(small != 0, !row.large);
        },
        [&](GpuVaStack& stack) {
          stack.miniport.config.segments[0].flags.Use64KBPages = row.segment ? 1 : 0;
        });
  }
}

// What a window showed of an allocation that has gone is behind what it shows now, in the same 64
// KiB: nobody looks at those pages again.
TEST_F(VaPagingTest, AWindowKeepsNoPagesOfAnAllocationThatHasGone) {
  DXGKIT_COVERS("PAGE-31", "VA-29");
  running(with_64k_tables(false), [](GpuVaStack& stack) {
    VaClient client(stack);
    constexpr uint64_t kLarge = 10, kSmall = 3;
    const D3DKMT_HANDLE large = client.make_allocation(kLarge * kPage, kMemorySet);
    const D3DKMT_HANDLE small = client.make_allocation(kSmall * kPage, kMemorySet);
    // The pages of system memory that paging showed since.
    const auto shown = [&] {
      std::set<uint64_t> pages;
      for (const auto& update : stack.gpu.calls().updates) {
        if (update.args.hProcess != stack.gpu.system_process() || update.args.Flags.Repeat != 0)
          continue;
        for (const auto& entry : update.entries) {
          if ((entry.flags & (gpuva::kPteValid | gpuva::kPteSegmentMask)) == gpuva::kPteValid)
            pages.insert(entry.page);
        }
      }
      stack.gpu.clear_calls();
      return pages;
    };
    const auto move_out = [&](D3DKMT_HANDLE allocation, uint64_t pages) {
      client.list({allocation});
      stack.drive();
      const uint64_t va = client.make_mapping(allocation, pages);
      EXPECT_TRUE(stack.gpu.write(client.process_handle(), va, 0x77));
      static_cast<void>(shown());
      EXPECT_EQ(client.evict({allocation}), 0);
      stack.drive();
    };
    move_out(large, kLarge);
    const std::set<uint64_t> gone = shown();
    ASSERT_EQ(gone.size(), kLarge);
    EXPECT_EQ(client.destroy_allocation(large), 0);
    stack.drive();
    move_out(small, kSmall);
    const std::set<uint64_t> now = shown();
    EXPECT_EQ(now.size(), kSmall);
    for (const uint64_t page : now) EXPECT_FALSE(gone.contains(page)) << page;
  });
}

// Twenty pages that begin at 64 KiB: the first sixteen, where a leaf has a table for each size.
TEST_F(VaPagingTest, WithATableForEachSizeOnlyTheRestIsInSmallPages) {
  DXGKIT_COVERS("VA-43", "VA-44");
  for (const bool dual : {false, true}) {
    SCOPED_TRACE(dual ? "two tables" : "one table");
    running(
        with_64k_tables(dual),
        [&](GpuVaStack& stack) {
          VaClient client(stack);
          ScriptedAllocation description;
          description.size = 20 * kPage;
          description.supported_read = description.supported_write = 1;
          description.alignment = 64 * 1024;
          const D3DKMT_HANDLE allocation = client.make_allocation(description);
          client.list({allocation});
          stack.drive();
          stack.gpu.clear_calls();
          client.make_mapping(allocation, 20);
          uint64_t small = 0, large = 0;
          for (const auto& update : stack.gpu.calls().updates) {
            if (update.args.Flags.Repeat != 0 || update.args.PageTableLevel != 0) continue;
            if (update.args.hProcess != client.process_handle()) continue;
            for (const auto& entry : update.entries) {
              if ((entry.flags & gpuva::kPteValid) == 0) continue;
              ++(update.args.Flags.Use64KBPages != 0 ? large : small);
            }
          }
          EXPECT_EQ(large, dual ? 16U : 0U);
          EXPECT_EQ(small, dual ? 4U : 20U);
        },
        [](GpuVaStack& stack) { stack.miniport.config.segments[0].flags.Use64KBPages = 1; });
  }
}

TEST_F(VaPagingTest, AllContextsAreAwayWhileTablesThatNeedItChange) {
  DXGKIT_COVERS("PAGE-38");
  const auto needs_idle = [](GpuVaStack& stack) { stack.gpu.config.update_needs_idle = true; };
  const auto body = [](GpuVaStack& stack) {
    VaClient client(stack);
    VaClient other(stack, "other");
    const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
    client.list({a});
    stack.drive();
    const uint64_t va = client.make_mapping(a, 4);
    ASSERT_TRUE(stack.gpu.write(client.process_handle(), va,
                                dxgkit::testing::gpu_commands({GpuCommand::write(va + kPage, 9)})));
    ASSERT_EQ(client.submit(client.context, va, 24), 0);
    stack.settle();
    stack.gpu.clear_calls();
    auto args = client.map_args(a, 4);
    ASSERT_EQ(client.map(args), kPendingStatus);
    stack.settle();
    EXPECT_TRUE(stack.gpu.calls().updates.empty()) << "its context is on the hardware";
    stack.drive();
    EXPECT_TRUE(client.walk(args.VirtualAddress).valid);
    // And they come back.
    ASSERT_EQ(client.submit(client.context, va, 24), 0);
    stack.drive();
    EXPECT_EQ(client.wait_for_idle(), 0);
  };
  running(body, needs_idle);
}

// The first context of a process: where the hardware writes its root, the root is given when it
// has.
TEST_F(VaPagingTest, ARootIsGivenOnlyWhenItsTableIsWritten) {
  DXGKIT_COVERS("VA-06", "PAGE-33");
  everywhere([](GpuVaStack& stack) {
    ListingClient client(stack);
    stack.drive();
    stack.gpu.clear_calls();
    D3DKMT_CREATECONTEXTVIRTUAL args{};
    args.hDevice = client.device;
    Stack::Background making(stack, [&] {
      EXPECT_EQ(client.call([&] { return D3DKMTCreateContextVirtual(&args); }), 0);
    });
    static_cast<void>(making.finished());
    stack.settle();
    const bool by_cpu = stack.gpu.config.update_mode == PageTableUpdateMode::kCpuVirtual;
    EXPECT_FALSE(stack.gpu.calls().updates.empty());
    EXPECT_EQ(stack.gpu.calls().submits.empty(), by_cpu);
    EXPECT_EQ(stack.gpu.calls().roots.empty(), !by_cpu);
    stack.drive();
    EXPECT_FALSE(stack.gpu.calls().roots.empty());
    making.finish();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Tables take video memory, and give it back.
TEST_F(VaPagingTest, TablesGoWithWhatTheyMapAndTheRestWithTheProcess) {
  DXGKIT_COVERS("PAGE-39", "ALLOC-30");
  for (const bool explicit_invalidation : {false, true}) {
    everywhere(
        [](GpuVaStack& stack) {
          uint64_t free_before = 0;
          {
            VaClient client(stack);
            client.list({client.make_allocation(kPage, kMemorySet)});
            stack.drive();
            free_before = stack.machine.free_page_count();
            const D3DKMT_HANDLE a = client.make_allocation(4 * kPage, kMemorySet);
            client.list({a});
            stack.drive();
            std::vector<uint64_t> mapped;
            for (uint64_t i = 1; i < 20; ++i)
              mapped.push_back(client.make_mapping(a, 4, 0x0040'0000 * (i + 2)));
            for (const uint64_t va : mapped) EXPECT_EQ(client.free_va(va, 4 * kPage), 0);
            EXPECT_EQ(client.destroy_allocation(a), 0);
            stack.drive();
            EXPECT_EQ(stack.machine.free_page_count(), free_before);
          }
          stack.drive();
          EXPECT_TRUE(stack.gpu.processes().empty());
          EXPECT_TRUE(stack.gpu.faults().empty());
        },
        [&](GpuVaStack& stack) { stack.gpu.config.explicit_invalidation = explicit_invalidation; });
  }
}

}  // namespace
}  // namespace dxgkit::contract
