// Context allocations of drivers with GPU virtual addresses: updates the driver asks for.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "dxgk/adapter/adapter.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

class VaContextTest : public GpuVaTest {
 protected:
  /// In each way of writing tables.
  static void everywhere(const Body& body) {
    auto all = kinds();
    all.emplace_back("GPU virtual",
                     GpuVaConfig::two_level(port::PageTableUpdateMode::kGpuVirtual, 2));
    for (auto& [name, config] : all) {
      SCOPED_TRACE(name);
      running(config, body);
      if (HasFatalFailure()) return;
    }
  }
};

/// The driver's side: what it allocates for all contexts of the client's device, from its escape.
class Updater {
 public:
  Updater(GpuVaStack& stack, VaClient& client) : stack_(stack), client_(client) {}

  /// Runs `body` inside DxgkDdiEscape; it may wait for the GPU.
  void in_driver(const std::function<void()>& body) {
    stack_.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      body();
      return nt_status(Status::kSuccess);
    };
    D3DKMT_ESCAPE escape{};
    escape.hAdapter = client_.adapter;
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    EXPECT_EQ(client_.call([&] { return D3DKMTEscape(&escape); }), 0);
    stack_.miniport.hooks.escape = nullptr;
  }
  HANDLE create(uint64_t size) {
    HANDLE made = nullptr;
    in_driver([&] {
      DXGKARGCB_CREATECONTEXTALLOCATION args{};
      args.hAdapter = stack_.miniport.callbacks().DeviceHandle;
      args.hDevice = reinterpret_cast<HANDLE>(uint64_t{client_.device});
      args.hDriverAllocation = reinterpret_cast<HANDLE>(uint64_t{0xC0DE});
      args.ContextAllocationFlags.SharedAcrossContexts = 1;
      args.Size = size;
      args.SupportedSegmentSet = kMemorySet;
      EXPECT_EQ(stack_.miniport.callbacks().DxgkCbCreateContextAllocation(&args), 0);
      made = args.hAllocation;
    });
    return made;
  }
  NTSTATUS update(HANDLE allocation, std::vector<uint8_t> data) {
    DXGKARGCB_UPDATECONTEXTALLOCATION args{};
    args.hAllocation = allocation;
    args.pPrivateDriverData = data.data();
    args.PrivateDriverDataSize = static_cast<UINT>(data.size());
    const DXGKRNL_INTERFACE& kernel = stack_.miniport.callbacks();
    return kernel.DxgkCbUpdateContextAllocation(kernel.DeviceHandle, &args);
  }
  NTSTATUS update_and_wait(HANDLE allocation, const std::vector<uint8_t>& data) {
    NTSTATUS status = -1;
    stack_.blocking([&] { in_driver([&] { status = update(allocation, data); }); });
    return status;
  }
  vidmm::Placement place(HANDLE allocation) {
    vidmm::Placement place;
    stack_.adapter().core().lane().run([&] {
      place = stack_.adapter().core().memory().placement(
          AllocationId{reinterpret_cast<uint64_t>(allocation)});
    });
    return place;
  }
  uint32_t pins(HANDLE allocation) {
    uint32_t pins = 0;
    stack_.adapter().core().lane().run([&] {
      pins = stack_.adapter().core().memory().pin_count(
          AllocationId{reinterpret_cast<uint64_t>(allocation)});
    });
    return pins;
  }
  std::vector<uint8_t> content(HANDLE allocation, size_t bytes) {
    const vidmm::Placement where = place(allocation);
    const std::byte* memory = stack_.gpu.memory({where.segment, where.offset_bytes}, bytes);
    std::vector<uint8_t> out(bytes);
    if (memory != nullptr) std::memcpy(out.data(), memory, bytes);
    return out;
  }

 private:
  GpuVaStack& stack_;
  VaClient& client_;
};

// The update is written where the allocation is, whatever its size, when the call returns and not
// before, and it is content like any other: it comes back after the memory was given to others.
TEST_F(VaContextTest, AnUpdateIsDoneWhenTheCallReturns) {
  DXGKIT_COVERS("PAGE-43", "PAGE-42");
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack);
    Updater updater(stack, client);
    for (const uint64_t size : {16 * kPage, 700 * kPage, 6000 * kPage}) {
      SCOPED_TRACE(size);
      const HANDLE saved = updater.create(size);
      const std::vector<uint8_t> first = {1, 2, 3, 4, 5};
      NTSTATUS status = -1;
      {
        Stack::Background call(
            stack, [&] { updater.in_driver([&] { status = updater.update(saved, first); }); });
        EXPECT_FALSE(call.finished()) << "the hardware has not done it";
        EXPECT_EQ(updater.pins(saved), 1U) << "it stays where it is written";
        call.finish();
      }
      EXPECT_EQ(status, 0);
      EXPECT_EQ(updater.pins(saved), 0U);
      EXPECT_EQ(updater.content(saved, first.size()), first);
      const std::vector<uint8_t> second = {9, 8};
      EXPECT_EQ(updater.update_and_wait(saved, second), 0);
      EXPECT_EQ(updater.content(saved, first.size()), (std::vector<uint8_t>{9, 8, 3, 4, 5}));
      // Out of memory and back.
      stack.blocking([&] {
        std::vector<vidmm::PagingOp> operations;
        bool done = false;
        stack.adapter().core().lane().run([&] {
          const auto leave = stack.adapter().core().memory().evict(
              AllocationId{reinterpret_cast<uint64_t>(saved)});
          ASSERT_TRUE(leave.has_value());
          stack.adapter().floor().paging->enqueue(*leave, [&done] { done = true; });
          stack.adapter().core().pump();
        });
        static_cast<void>(stack.adapter().core().block_until([&] { return done; }));
      });
      EXPECT_EQ(updater.place(saved).segment, kSystemMemory);
      EXPECT_EQ(updater.update_and_wait(saved, {7}), 0);
      EXPECT_EQ(updater.content(saved, first.size()), (std::vector<uint8_t>{7, 8, 3, 4, 5}));
      updater.in_driver([&] {
        const DXGKRNL_INTERFACE& kernel = stack.miniport.callbacks();
        EXPECT_EQ(kernel.DxgkCbDestroyContextAllocation(kernel.DeviceHandle, saved), 0);
      });
      stack.drive();
    }
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// While one is being written another waits for its range of the scratch area: each lands in its own
// place.
TEST_F(VaContextTest, TwoUpdatesAtOnceDoNotMeet) {
  DXGKIT_COVERS("PAGE-43");
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack);
    Updater updater(stack, client);
    const std::vector<HANDLE> saved = {updater.create(16 * kPage), updater.create(16 * kPage)};
    const std::vector<std::vector<uint8_t>> data = {{1, 2, 3}, {4, 5, 6}};
    std::atomic<size_t> next = 0;
    std::atomic<int> done = 0;
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      const size_t i = next++;
      if (updater.update(saved[i], data[i]) == 0) ++done;
      return nt_status(Status::kSuccess);
    };
    const auto escape = [&] {
      D3DKMT_ESCAPE args{};
      args.hAdapter = client.adapter;
      args.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
      EXPECT_EQ(client.call([&] { return D3DKMTEscape(&args); }), 0);
    };
    {
      Stack::Background first(stack, escape);
      Stack::Background second(stack, escape);
      EXPECT_FALSE(first.finished());
      EXPECT_FALSE(second.finished());
      first.finish();
      second.finish();
    }
    stack.miniport.hooks.escape = nullptr;
    EXPECT_EQ(done, 2);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(updater.content(saved[i], 3), data[i]);
    EXPECT_TRUE(stack.gpu.faults().empty());
  });
}

TEST_F(VaContextTest, AnUpdateThatCannotBeIsRefused) {
  DXGKIT_COVERS("PAGE-43");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    Updater updater(stack, client);
    const HANDLE saved = updater.create(16 * kPage);
    const uint64_t executed = stack.gpu.executed();
    // Where it would wait for itself: inside the DDI that builds what it waits for.
    NTSTATUS inside = 0;
    bool once = true;
    stack.gpu.on_build = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
      if (std::exchange(once, false)) inside = updater.update(saved, {1});
      return stack.gpu.default_build(args);
    };
    client.list({client.make_allocation(kPage, kMemorySet)});
    stack.drive();
    stack.gpu.on_build = nullptr;
    EXPECT_FALSE(once);
    EXPECT_EQ(inside, nt_status(Status::kInvalidParameter));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"PAGE-43"});
    // Data that is not there.
    DXGKARGCB_UPDATECONTEXTALLOCATION args{};
    args.hAllocation = saved;
    args.PrivateDriverDataSize = 4;
    updater.in_driver([&] {
      const DXGKRNL_INTERFACE& kernel = stack.miniport.callbacks();
      EXPECT_EQ(kernel.DxgkCbUpdateContextAllocation(kernel.DeviceHandle, &args),
                nt_status(Status::kInvalidParameter));
    });
    EXPECT_EQ(stack.findings.count("RES-31"), 1U);
    EXPECT_EQ(updater.place(saved).segment, kSystemMemory) << "nothing of it happened";
    EXPECT_EQ(updater.pins(saved), 0U);
    EXPECT_GT(stack.gpu.executed(), executed);
    EXPECT_EQ(updater.update_and_wait(saved, {4}), 0);
    EXPECT_EQ(updater.content(saved, 1), std::vector<uint8_t>{4});
  });
}

// What a unique driver protection covers is moved under that protection, so a move is split where
// it begins and ends; nothing else of the paging process has one.
TEST_F(VaContextTest, MovesUseTheProtectionOfWhatTheyMove) {
  DXGKIT_COVERS("PAGE-36", "PAGE-35");
  constexpr uint64_t kUnique = uint64_t{1} << 63;
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(16 * kPage, kMemorySet);
    client.list({a});
    stack.drive();
    const uint64_t va = client.make_mapping(a, 16);
    for (uint64_t page = 0; page < 16; ++page)
      ASSERT_TRUE(stack.gpu.write(client.process_handle(), va + page * kPage, 100 + page));
    ASSERT_EQ(client.free_va(va, 16 * kPage), 0);
    // Pages 3..5 twice, 9..11 with another one; the rest plain.
    const auto map = [&](uint64_t first, uint64_t pages, uint64_t driver_protection) {
      auto args = client.map_args(a, pages);
      args.OffsetInPages = first;
      args.DriverProtection = driver_protection;
      return client.make_mapping(args);
    };
    const uint64_t at_3 = map(3, 3, kUnique | 0x11);
    map(4, 2, kUnique | 0x11);
    map(9, 3, kUnique | 0x22);
    map(0, 3, 0x33);  // not unique: nobody else's business
    for (int round = 0; round < 2; ++round) {
      stack.gpu.clear_calls();
      if (round == 0) {
        ASSERT_EQ(client.evict({a}), 0);
      } else {
        client.list({a});
      }
      stack.drive();
      const auto calls = stack.gpu.calls();
      std::vector<uint64_t> sizes;
      for (const auto& transfer : calls.transfers) {
        if (transfer.hAllocation != nullptr) sizes.push_back(transfer.TransferSizeInBytes / kPage);
      }
      EXPECT_EQ(sizes, (std::vector<uint64_t>{3, 3, 3, 3, 4}));
      // In the paging process: each protection on as many pages as it has, and on no others.
      std::map<uint64_t, uint64_t> pages;
      for (const auto& update : calls.updates) {
        if (update.args.hProcess != stack.gpu.system_process()) continue;
        pages[update.args.DriverProtection] += update.args.NumPageTableEntries;
        if (update.args.DriverProtection == 0) continue;
        // Where the allocation is, not on the side of its backing.
        for (const port::PageTableEntry& entry : update.entries)
          EXPECT_NE(entry.flags & gpuva::kPteSegmentMask, 0U);
      }
      EXPECT_EQ(pages[kUnique | 0x11], 3U);
      EXPECT_EQ(pages[kUnique | 0x22], 3U);
      EXPECT_EQ(pages.count(0x33), 0U);
    }
    EXPECT_EQ(stack.gpu.read(client.process_handle(), at_3 + kPage), 104U);
    EXPECT_EQ(client.walk(at_3).driver_protection, kUnique | 0x11);
    EXPECT_TRUE(stack.gpu.faults().empty());
  });
}

// Two unique protections side by side are two moves.
TEST_F(VaContextTest, ProtectionsSideBySideStayApart) {
  DXGKIT_COVERS("PAGE-36", "PAGE-35", "VA-24");
  constexpr uint64_t kUnique = uint64_t{1} << 63;
  everywhere([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE a = client.make_allocation(16 * kPage, kMemorySet);
    client.list({a});
    stack.drive();
    for (const auto& [first, pages, driver_protection] :
         {std::tuple<uint64_t, uint64_t, uint64_t>{3, 3, kUnique | 0x11}, {6, 4, kUnique | 0x22}}) {
      auto args = client.map_args(a, pages);
      args.OffsetInPages = first;
      args.DriverProtection = driver_protection;
      client.make_mapping(args);
    }
    stack.gpu.clear_calls();
    ASSERT_EQ(client.evict({a}), 0);
    stack.drive();
    const auto calls = stack.gpu.calls();
    std::vector<uint64_t> sizes;
    for (const auto& transfer : calls.transfers) {
      if (transfer.hAllocation != nullptr) sizes.push_back(transfer.TransferSizeInBytes / kPage);
    }
    EXPECT_EQ(sizes, (std::vector<uint64_t>{3, 3, 4, 6}));
    std::map<uint64_t, uint64_t> pages;
    for (const auto& update : calls.updates) {
      if (update.args.hProcess == stack.gpu.system_process())
        pages[update.args.DriverProtection] += update.args.NumPageTableEntries;
    }
    EXPECT_EQ(pages[kUnique | 0x11], 3U);
    EXPECT_EQ(pages[kUnique | 0x22], 4U);
    EXPECT_TRUE(stack.gpu.faults().empty());
  });
}

}  // namespace
}  // namespace dxgkit::contract
