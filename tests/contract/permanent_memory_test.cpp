// PermanentSysMem: a client goes on with content of its own in system memory, while the GPU has a
// copy in a memory segment.
#include <array>
#include <cstring>
#include <vector>

#include "tests/contract/lock_fixture.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kPermanent = 1U << 1 | kCpuVisible;
constexpr uint64_t kPages = 6, kSize = kPages * kPageBytes;

ScriptedAllocation permanent(uint32_t segments = kHidden) {
  ScriptedAllocation description = described(segments, kPermanent);
  description.size = kSize;
  return description;
}

/// A client that keeps a buffer: what it holds in `mine` is what the allocation is to hold.
class Keeper {
 public:
  Keeper(Stack& stack, Client& client, uint32_t segments = kHidden)
      : stack_(stack), client_(client), context_(client.make_context()) {
    const D3DKMT_HANDLE before = client.make_allocation(3 * kPageBytes, kHidden);
    Work reads = work_on({before});
    reads.allocations[0].write = false;
    EXPECT_EQ(client.render(context_, reads), 0);
    handle = client.make_allocation(permanent(segments));
  }
  /// Locks these pages (none: all), answers the address.
  std::byte* lock_pages(std::vector<UINT> pages = {}, UINT flags = 0) {
    D3DKMT_LOCK args = lock_args(handle, flags);
    args.pPages = pages.data();
    args.NumPages = static_cast<UINT>(pages.size());
    EXPECT_EQ(lock(client_, args), 0);
    return static_cast<std::byte*>(args.pData);
  }
  /// Changes whole pages of the locked content, and of the client's own.
  void write(std::byte* address, std::vector<UINT> pages, uint64_t seed) {
    for (const UINT page : pages) {
      fill(mine.data() + page * kPageBytes, kPageBytes, seed + page);
      std::memcpy(address + page * kPageBytes, mine.data() + page * kPageBytes, kPageBytes);
    }
  }
  void unlock_now() { EXPECT_EQ(unlock(client_, {handle}), 0); }
  /// A packet uses it; answers where.
  uint64_t use(bool writes = false) {
    Work work = work_on({handle});
    work.allocations[0].write = writes;
    EXPECT_EQ(client_.render(context_, work), 0);
    stack_.drive();
    return stack_.miniport.calls().patches.back().allocations.at(0).physical_address;
  }
  void page_out() {
    dxgk::Exercise by_hand = exercise(stack_);
    stack_.blocking(
        [&] { EXPECT_EQ(by_hand.memory().page_out(*client_.process, handle), Status::kSuccess); });
  }
  D3DKMT_HANDLE handle = 0;
  std::vector<std::byte> mine = std::vector<std::byte>(kSize);

 private:
  Stack& stack_;
  Client& client_;
  ContextBuffers context_;
};

struct Part {
  uint64_t offset, size;
  UINT mdl_page;
  bool in;
  bool operator==(const Part&) const = default;
};
/// The transfers since the last time, as the driver was told.
std::vector<Part> transfers(Stack& stack) {
  std::vector<Part> found;
  for (const testing::PagingCall& call : operations(stack, DXGK_OPERATION_TRANSFER)) {
    const auto& transfer = call.args.Transfer;
    found.push_back({transfer.TransferOffset, transfer.TransferSize, transfer.MdlOffset,
                     transfer.Source.SegmentId == 0});
    EXPECT_NE(transfer.hAllocation, nullptr);
    EXPECT_EQ(transfer.Flags.TransferStart, 1U);
    EXPECT_EQ(transfer.Flags.TransferEnd, 1U);
  }
  stack.miniport.clear_calls();
  return found;
}
Part all(bool in) { return {0, kSize, 0, in}; }

using PermanentMemoryTest = ContractTest;

TEST_F(PermanentMemoryTest, UnlockingWritesTheLockedRangeUpAndEvictingTransfersNothing) {
  DXGKIT_COVERS("ALLOC-48");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Keeper keeper(stack, client);
    keeper.write(keeper.lock_pages(), {0, 1, 2, 3, 4, 5}, 10);
    stack.miniport.clear_calls();
    keeper.unlock_now();
    EXPECT_THAT(transfers(stack), IsEmpty()) << "it is in system memory only";
    const uint64_t place = keeper.use();
    ASSERT_GT(place, kHiddenBase);
    EXPECT_THAT(transfers(stack), ElementsAre(all(true)));
    EXPECT_EQ(std::memcmp(gpu.at(place), keeper.mine.data(), kSize), 0);
    // Two neighbours, and a page that is not locked.
    std::byte* const address = keeper.lock_pages({3, 2});
    EXPECT_EQ(std::memcmp(address, keeper.mine.data(), kSize), 0);
    keeper.write(address, {2, 3}, 50);
    std::vector<std::byte> there = keeper.mine;
    keeper.write(address, {5}, 70);
    stack.drive();
    EXPECT_THAT(transfers(stack), IsEmpty()) << "it looks at its own";
    keeper.unlock_now();
    stack.drive();
    EXPECT_THAT(transfers(stack), ElementsAre(Part{2 * kPageBytes, 2 * kPageBytes, 2, true}));
    EXPECT_EQ(std::memcmp(gpu.at(place), there.data(), kSize), 0) << "and no more than that";
    EXPECT_EQ(keeper.use(), place) << "it has not moved";
    EXPECT_THAT(transfers(stack), IsEmpty());
    keeper.page_out();
    EXPECT_EQ(count(stack, DXGK_OPERATION_DISCARD_CONTENT), 1U);
    EXPECT_THAT(transfers(stack), IsEmpty()) << "dropped";
    const uint64_t again = keeper.use();
    EXPECT_THAT(transfers(stack), ElementsAre(all(true)));
    EXPECT_EQ(std::memcmp(gpu.at(again), keeper.mine.data(), kSize), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Each stretch of locked pages is one transfer, whatever lies before it, and in which lock it was.
TEST_F(PermanentMemoryTest, PagesThatWereLockedGoUpAsTheirStretches) {
  DXGKIT_COVERS("ALLOC-48");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Keeper keeper(stack, client);
    keeper.use();
    keeper.write(keeper.lock_pages({5, 0, 3}), {0, 3, 5}, 10);
    keeper.write(keeper.lock_pages({4, 3}), {3, 4}, 20);
    transfers(stack);
    keeper.unlock_now();
    keeper.unlock_now();
    stack.drive();
    std::vector<Part> parts = transfers(stack);
    const std::vector<Part> wanted{{0, kPageBytes, 0, true},
                                   {3 * kPageBytes, 3 * kPageBytes, 3, true}};
    ASSERT_GE(parts.size(), 2U);
    for (size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(parts[i], wanted[i % 2]) << i;
    EXPECT_EQ(std::memcmp(gpu.at(keeper.use()), keeper.mine.data(), kSize), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Its first content comes from the CPU while a filled copy is in the segment.
TEST_F(PermanentMemoryTest, WhatIsWrittenFirstInPlaceIsContent) {
  DXGKIT_COVERS("ALLOC-48");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Keeper keeper(stack, client);
    keeper.use();
    EXPECT_THAT(transfers(stack), IsEmpty()) << "filled";
    keeper.write(keeper.lock_pages({2}), {2}, 20);
    keeper.unlock_now();
    stack.drive();
    keeper.page_out();
    const uint64_t place = keeper.use();
    EXPECT_EQ(std::memcmp(gpu.at(place), keeper.mine.data(), kSize), 0);
  });
}

TEST_F(PermanentMemoryTest, EachRunOfLockedPagesGoesUpByItself) {
  DXGKIT_COVERS("ALLOC-48");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Keeper keeper(stack, client);
    const uint64_t place = keeper.use();
    static_cast<void>(transfers(stack));
    keeper.write(keeper.lock_pages({4, 1, 1}), {1, 4}, 20);
    keeper.unlock_now();
    stack.drive();
    EXPECT_THAT(transfers(stack), ElementsAre(Part{kPageBytes, kPageBytes, 1, true},
                                              Part{4 * kPageBytes, kPageBytes, 4, true}));
    EXPECT_EQ(std::memcmp(gpu.at(place), keeper.mine.data(), kSize), 0);
    // Locks within locks: each unlock brings up what was locked by then, the last one too.
    keeper.write(keeper.lock_pages({1, 2}), {1, 2}, 30);
    keeper.write(keeper.lock_pages({2, 3}), {3}, 30);
    keeper.unlock_now();
    stack.drive();
    EXPECT_THAT(transfers(stack), ElementsAre(Part{kPageBytes, 3 * kPageBytes, 1, true}));
    keeper.unlock_now();
    stack.drive();
    EXPECT_THAT(transfers(stack), ElementsAre(Part{kPageBytes, 3 * kPageBytes, 1, true}));
    EXPECT_EQ(std::memcmp(gpu.at(place), keeper.mine.data(), kSize), 0);
    // And the next lock begins anew. A flag makes the list void.
    keeper.write(keeper.lock_pages({5}), {5}, 40);
    keeper.unlock_now();
    keeper.write(keeper.lock_pages({5}, kLockEntire), {0}, 40);
    keeper.unlock_now();
    stack.drive();
    EXPECT_THAT(transfers(stack),
                ElementsAre(Part{5 * kPageBytes, kPageBytes, 5, true}, all(true)));
    EXPECT_EQ(std::memcmp(gpu.at(place), keeper.mine.data(), kSize), 0);
  });
}

TEST_F(PermanentMemoryTest, WhatTheGpuWroteIsWrittenBackInPlaceBeforeALock) {
  DXGKIT_COVERS("ALLOC-48");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Keeper keeper(stack, client);
    const uint64_t place = keeper.use(true);
    fill(gpu.at(place), kSize, 5);
    stack.miniport.clear_calls();
    D3DKMT_LOCK args = lock_args(keeper.handle, kDonotWait);
    EXPECT_EQ(lock_now(client, args), kBusy) << "it is on its way back";
    stack.drive();
    void* address = nullptr;
    ASSERT_EQ(client.lock(keeper.handle, &address), 0);
    EXPECT_THAT(transfers(stack), ElementsAre(all(false)));
    expect_filled(static_cast<std::byte*>(address), kSize, 5);
    static_cast<std::byte*>(address)[kSize - 1] = std::byte{0x77};
    EXPECT_EQ(client.unlock(keeper.handle), 0);
    stack.drive();
    EXPECT_THAT(transfers(stack), ElementsAre(all(true))) << "Lock2 locks all of it";
    EXPECT_EQ(gpu.at(place)[kSize - 1], std::byte{0x77});
    EXPECT_EQ(keeper.use(), place) << "it stayed";
    keeper.page_out();
    EXPECT_THAT(transfers(stack), IsEmpty());
    // Dirty again, it is transferred as it leaves.
    keeper.use(true);
    static_cast<void>(transfers(stack));
    keeper.page_out();
    EXPECT_THAT(transfers(stack), ElementsAre(all(false)));
  });
}

// The copy is up to date before the work that was submitted behind the unlock begins.
TEST_F(PermanentMemoryTest, WorkBehindAnUnlockWaitsForTheCopy) {
  DXGKIT_COVERS("ALLOC-48");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Keeper keeper(stack, client);
    keeper.use();
    ContextBuffers context = client.make_context(0);
    keeper.write(keeper.lock_pages({1}), {1}, 20);
    keeper.unlock_now();
    ASSERT_EQ(client.render(context, work_on({keeper.handle})), 0);
    stack.settle();
    EXPECT_EQ(stack.miniport.outstanding(1).size(), 1U) << "paging";
    EXPECT_TRUE(stack.miniport.outstanding(0).empty());
    static_cast<void>(stack.miniport.complete(1, stack.miniport.outstanding(1).front()));
    stack.settle();
    EXPECT_EQ(stack.miniport.outstanding(0).size(), 1U);
    stack.drive();
  });
}

// A plain allocation in a segment that the CPU sees is locked where it is; this one is not.
TEST_F(PermanentMemoryTest, ALockNeverShowsASegment) {
  DXGKIT_COVERS("ALLOC-48");
  for (const uint32_t segments : {kVisible, kAperture}) {
    SCOPED_TRACE(segments);
    with_client([&](Stack& stack, Client& client) {
      Keeper keeper(stack, client, segments);
      const uint64_t place = keeper.use();
      static_cast<void>(transfers(stack));
      std::byte* const address = keeper.lock_pages();
      std::memcpy(address, "in the pages", 13);
      if (segments == kVisible) {
        const Swizzler reader(stack);
        EXPECT_EQ(reader.text_at(reader.bar() + place - 0x1'0000'0000), "");
      }
      keeper.unlock_now();
      stack.drive();
      if (segments == kAperture) {
        EXPECT_THAT(transfers(stack), IsEmpty()) << "an aperture shows those very pages";
      } else {
        EXPECT_THAT(transfers(stack), ElementsAre(all(true)));
      }
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  }
}

TEST_F(PermanentMemoryTest, ALockSurvivesSleepWithWhatTheCpuWrites) {
  DXGKIT_COVERS("ALLOC-48", "ALLOC-40");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Keeper keeper(stack, client);
    keeper.use();
    std::byte* const address = keeper.lock_pages({0, 4});
    keeper.write(address, {0}, 60);
    static_cast<void>(transfers(stack));
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
    });
    EXPECT_THAT(transfers(stack), IsEmpty()) << "clean";
    keeper.write(address, {4}, 60);
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
    });
    keeper.unlock_now();
    const uint64_t place = keeper.use();
    EXPECT_EQ(std::memcmp(gpu.at(place), keeper.mine.data(), kSize), 0);
  });
}

// It ends in the process that has it locked, and another one goes on with it.
TEST_F(PermanentMemoryTest, WhatWasLockedGoesUpWhenTheOpeningEnds) {
  DXGKIT_COVERS("ALLOC-48");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Client other(stack, "other");
    ScriptedAllocation data = permanent();
    D3DDDI_ALLOCATIONINFO info{};
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 1;
    create.pAllocationInfo = &info;
    create.Flags.CreateResource = create.Flags.CreateShared = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
    D3DDDI_OPENALLOCATIONINFO one{};
    D3DKMT_OPENRESOURCE open{};
    std::array<std::byte, 4096> buffer{};
    open.hDevice = other.device;
    open.hGlobalShare = create.hGlobalShare;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo = &one;
    open.pTotalPrivateDriverDataBuffer = buffer.data();
    open.TotalPrivateDriverDataBufferSize = buffer.size();
    ASSERT_EQ(other.call([&] { return D3DKMTOpenResource(&open); }), 0);
    ContextBuffers context = other.make_context();
    Work reads = work_on({one.hAllocation});
    reads.allocations[0].write = false;
    ASSERT_EQ(other.render(context, reads), 0);
    stack.drive();
    const uint64_t place = stack.miniport.calls().patches.back().allocations.at(0).physical_address;
    D3DKMT_LOCK args = lock_args(info.hAllocation);
    ASSERT_EQ(lock(client, args), 0);
    fill(static_cast<std::byte*>(args.pData), kSize, 9);
    static_cast<void>(transfers(stack));
    stack.blocking([&] { EXPECT_EQ(client.destroy_device(client.device), 0); });
    EXPECT_THAT(transfers(stack), ElementsAre(all(true)));
    expect_filled(gpu.at(place), kSize, 9);
    client.device = client.make_device();
  });
}

// Nobody is left who could go on with it.
TEST_F(PermanentMemoryTest, WhatWasLockedGoesNowhereWhenTheAllocationEnds) {
  DXGKIT_COVERS("ALLOC-48");
  with_client([](Stack& stack, Client& client) {
    Keeper keeper(stack, client);
    ASSERT_GT(keeper.use(), kHiddenBase);
    keeper.write(keeper.lock_pages(), {0, 1, 2, 3, 4, 5}, 30);
    static_cast<void>(transfers(stack));
    EXPECT_EQ(client.destroy_allocation(keeper.handle), 0);
    stack.drive();
    EXPECT_THAT(transfers(stack), IsEmpty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(PermanentMemoryTest, PagesThatTouchJoinTheirRunAndNoOther) {
  DXGKIT_COVERS("ALLOC-48");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Keeper keeper(stack, client);
    keeper.use();
    static_cast<void>(transfers(stack));
    keeper.write(keeper.lock_pages({5, 1, 1, 4}), {1, 4, 5}, 20);
    keeper.unlock_now();
    stack.drive();
    EXPECT_THAT(transfers(stack), ElementsAre(Part{kPageBytes, kPageBytes, 1, true},
                                              Part{4 * kPageBytes, 2 * kPageBytes, 4, true}));
  });
}

class PermanentVaTest : public GpuVaTest {};

// Work at virtual addresses lists nothing: the unlock returns when the copy is what the CPU wrote.
TEST_F(PermanentVaTest, AtVirtualAddressesTheUnlockWaitsForTheCopy) {
  DXGKIT_COVERS("ALLOC-48");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE handle = client.make_allocation(permanent());
    client.list({handle});
    stack.drive();
    const uint64_t va = client.make_mapping(handle, kPages);
    ASSERT_TRUE(stack.gpu.write(client.process_handle(), va + 2 * kPage, 0x1111));
    D3DKMT_LOCK args{};
    args.hAllocation = handle;
    std::vector<UINT> pages{4};
    args.pPages = pages.data();
    args.NumPages = 1;
    ASSERT_EQ(lock(client, args), 0);
    const uint64_t value = 0x2222;
    std::memcpy(static_cast<std::byte*>(args.pData) + 2 * kPage, &value, sizeof value);
    std::memcpy(static_cast<std::byte*>(args.pData) + 4 * kPage, &value, sizeof value);
    NTSTATUS status = 1;
    Stack::Background unlocking(stack, [&] { status = unlock(client, {handle}); });
    EXPECT_FALSE(unlocking.finished());
    unlocking.finish();
    EXPECT_EQ(status, 0);
    EXPECT_EQ(stack.gpu.read(client.process_handle(), va + 4 * kPage), value);
    EXPECT_NE(stack.gpu.read(client.process_handle(), va + 2 * kPage), value) << "not locked";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Its process destroys what another of its threads has just unlocked.
TEST_F(PermanentVaTest, AnUnlockReturnsAlsoWhenItsAllocationGoesMeanwhile) {
  DXGKIT_COVERS("ALLOC-48", "ALLOC-30");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    const D3DKMT_HANDLE handle = client.make_allocation(permanent());
    client.list({handle});
    stack.drive();
    D3DKMT_LOCK args = lock_args(handle);
    ASSERT_EQ(lock(client, args), 0);
    NTSTATUS status = 1;
    Stack::Background unlocking(stack, [&] { status = unlock(client, {handle}); });
    ASSERT_FALSE(unlocking.finished()) << "it waits for the copy";
    D3DKMT_DESTROYALLOCATION2 destroy{};
    destroy.hDevice = client.device;
    destroy.phAllocationList = &handle;
    destroy.AllocationCount = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTDestroyAllocation2(&destroy); }), 0);
    unlocking.finish();
    EXPECT_EQ(status, 0);
    EXPECT_EQ(unlock(client, {handle}), kInvalid);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
