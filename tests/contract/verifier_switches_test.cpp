// The adapter verifier's switches: each changes the way, none the result.
#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "devices/softgpu/softgpu.h"
#include "tests/contract/memory_fixture.h"
#include "thunks/client.h"
#include "tools/dxgkit/job.h"

namespace dxgkit::contract {
namespace {

using dxgk::kVerifierSwitches;
using dxgk::kVerifierSwitchNames;
using dxgk::VerifierSwitch;
using dxgk::VerifierSwitches;

using Strikes = std::array<uint64_t, kVerifierSwitches>;

constexpr uint64_t kUnit = 64 * kKibibyte;

uint64_t of(const Strikes& strikes, VerifierSwitch which) {
  return strikes[static_cast<size_t>(which)];
}

// --- the picture of `dxgkit run`, drawn with too little video memory ---

struct Drawn {
  bool done = false;
  tool::Picture picture;
  std::string error, findings;
  Strikes strikes{};
};

Drawn draw(const tool::Plan& plan, const tool::Picture& source, VerifierSwitches switches) {
  Drawn drawn;
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    verifier::Findings findings;
    bus::Machine machine(uint64_t{64} << 20);
    softgpu::SoftGpuConfig device;
    device.vram_bytes = align_up(plan.vram_least_bytes + plan.working_set_bytes / 4, kPageBytes);
    softgpu::SoftGpu gpu(*runtime, machine, device);
    ASSERT_EQ(machine.add_function(gpu.function()), Status::kSuccess);
    nt::Kernel kernel(*runtime, machine, findings);
    {
      std::string message;
      auto driver = port::Driver::load(
          kernel, findings, {.name = "softgpu", .path = SOFTGPU_ELF, .entry = nullptr}, &message);
      ASSERT_TRUE(driver.has_value()) << message;
      dxgk::System system(*runtime, machine, kernel, findings);
      dxgk::AdapterOptions options;
      options.verifier = switches;
      const auto adapter = system.start_adapter(**driver, gpu.function(), options);
      ASSERT_TRUE(adapter.has_value());
      tool::JobResult job = tool::run_job(*runtime, system, *adapter, plan, source, nullptr);
      drawn.error = job.error;
      drawn.picture = std::move(job.picture);
      drawn.strikes = system.statistics(*adapter)->verifier_strikes;
      drawn.done = true;
    }
    for (const verifier::Finding& finding : findings.all())
      drawn.findings += verifier::to_text(finding);
  });
  return drawn;
}

TEST(VerifierSwitches, ThePictureIsTheSameUnderEachOfThem) {
  DXGKIT_COVERS("REND-28");
  const tool::Plan plan = tool::make_plan(96, 64, 32);
  const tool::Picture source = tool::draw_picture(96, 64, 5);
  const tool::Picture golden = tool::reference_result(source);
  std::vector<VerifierSwitches> rows(1);  // none
  for (const auto& named : kVerifierSwitchNames) rows.emplace_back().set(named.which);
  VerifierSwitches& most = rows.emplace_back();
  for (const auto& named : kVerifierSwitchNames) most.set(named.which);
  Strikes all{};
  for (const VerifierSwitches& row : rows) {
    SCOPED_TRACE(::testing::Message() << "switches " << row.on);
    const Drawn drawn = draw(plan, source, row);
    ASSERT_TRUE(drawn.done);
    EXPECT_EQ(drawn.error, "");
    EXPECT_EQ(drawn.findings, "");
    EXPECT_TRUE(drawn.picture == golden);
    for (size_t i = 0; i < kVerifierSwitches; ++i) {
      all[i] += drawn.strikes[i];
      if ((row.on >> i & 1U) == 0) {
        EXPECT_EQ(drawn.strikes[i], 0U) << "switch " << i << " is off";
      }
    }
  }
  // The job neither offers nor pins a client's memory; the rest is in the test below.
  for (const VerifierSwitch which : {VerifierSwitch::kAlwaysRepatch, VerifierSwitch::kNeverPrepatch,
                                     VerifierSwitch::kTakeSplitPoint})
    EXPECT_GT(of(all, which), 0U) << static_cast<int>(which);
}

// --- content behind the scripted driver ---

using SwitchTest = ContractTest;

ScriptedAllocation surface(uint32_t segments, uint64_t units = 1, uint32_t preferred = 0) {
  ScriptedAllocation description;
  description.size = units * kUnit;
  description.supported_read = description.supported_write = segments;
  description.preferred = preferred;
  description.flags = 1;  // CpuVisible
  return description;
}

/// A driver that knows existing memory and has swizzling ranges.
struct SwitchDriver {
  static inline Stack* stack = nullptr;
  static void prepare(Stack& stack_in) {
    stack = &stack_in;
    ScriptedMiniport& m = stack_in.miniport;
    m.config.segments[0].size = 4 * kUnit;
    m.config.segments[1].size = 4 * kUnit;
    m.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.NumberOfSwizzlingRanges = 2; };
    m.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiGetStandardAllocationDriverData = describe;
      table.DxgkDdiAcquireSwizzlingRange = acquire;
      table.DxgkDdiReleaseSwizzlingRange = release;
    };
  }
  static NTSTATUS NTAPI describe(const HANDLE, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA* args) {
    args->ResourcePrivateDriverDataSize = 0;
    args->AllocationPrivateDriverDataSize = sizeof(ScriptedAllocation);
    if (args->pAllocationPrivateDriverData == nullptr) return 0;
    const D3DKMDT_GDISURFACEDATA& data = *args->pCreateGdiSurfaceData;
    const ScriptedAllocation allocation{.size = uint64_t{data.Width} * data.Height,
                                        .supported_read = kAperture,
                                        .supported_write = kAperture,
                                        .flags = 1 | 16};
    std::memcpy(args->pAllocationPrivateDriverData, &allocation, sizeof allocation);
    return 0;
  }
  // The range shows what the segment shows.
  static NTSTATUS NTAPI acquire(const HANDLE, DXGKARG_ACQUIRESWIZZLINGRANGE*) { return 0; }
  static NTSTATUS NTAPI release(const HANDLE, const DXGKARG_RELEASESWIZZLINGRANGE*) { return 0; }
};

/// One client's work that comes by every switch. What it reads back, byte by byte, is its result.
class Story {
 public:
  Story(Stack& stack, Client& client)
      : stack_(stack), client_(client), gpu_(stack), context_(client.make_context()) {}

  std::vector<std::byte> result;
  int reclaimed = -1;  // what the offer cost

  void run() {
    locks();
    demotion();
    fragments();
    offers();
    parts();
    own_pages();
  }

 private:
  D3DKMT_HANDLE make(const ScriptedAllocation& description, uint64_t seed) {
    const D3DKMT_HANDLE handle = client_.make_allocation(description);
    void* address = nullptr;
    EXPECT_EQ(client_.lock(handle, &address), 0);
    if (address == nullptr) {
      for (const verifier::Finding& finding : stack_.findings.all())
        ADD_FAILURE() << verifier::to_text(finding);
      return handle;
    }
    fill(static_cast<std::byte*>(address), description.size, seed);
    EXPECT_EQ(client_.unlock(handle), 0);
    use(handle);
    return handle;
  }
  void use(D3DKMT_HANDLE handle) {
    EXPECT_EQ(client_.render(context_, work_on({handle})), 0);
    stack_.drive();
  }
  /// By the GPU's own way: where it is when a packet uses it.
  void read(D3DKMT_HANDLE handle, uint64_t bytes) {
    const uint64_t address = address_after_render(stack_, client_, context_, handle);
    for (uint64_t page = 0; page < bytes; page += kPageBytes) {
      const std::byte* const at = gpu_.at(address + page);
      result.insert(result.end(), at, at + kPageBytes);
    }
  }
  void drop(std::initializer_list<D3DKMT_HANDLE> handles) {
    for (const D3DKMT_HANDLE handle : handles)
      stack_.blocking([&] { EXPECT_EQ(client_.destroy_allocation(handle, 2), 0); });
    stack_.drive();
  }
  void lock_and_change(D3DKMT_HANDLE handle, UINT flags, uint64_t seed) {
    D3DKMT_LOCK args{};
    args.hDevice = client_.device;
    args.hAllocation = handle;
    args.Flags.Value = flags;
    NTSTATUS status = 1;
    stack_.blocking([&] { status = client_.call([&] { return D3DKMTLock(&args); }); });
    ASSERT_EQ(status, 0);
    auto* bytes = static_cast<std::byte*>(args.pData);
    result.insert(result.end(), bytes, bytes + kUnit);
    fill(bytes, kUnit / 2, seed);
    D3DKMT_UNLOCK unlock{};
    unlock.hDevice = client_.device;
    unlock.NumAllocations = 1;
    unlock.phAllocations = &handle;
    EXPECT_EQ(client_.call([&] { return D3DKMTUnlock(&unlock); }), 0);
  }
  void locks() {
    constexpr UINT kAcquireAperture = 1U << 6;
    const D3DKMT_HANDLE plain = make(surface(kVisible | kAperture, 1, 1), 1);
    const D3DKMT_HANDLE swizzled = make(surface(kVisible | kAperture, 1, 1), 2);
    lock_and_change(plain, 0, 3);
    lock_and_change(swizzled, kAcquireAperture, 4);
    read(plain, kUnit);
    read(swizzled, kUnit);
    drop({plain, swizzled});
  }
  void demotion() {  // the fifth finds room in the other segment
    std::vector<D3DKMT_HANDLE> all;
    for (uint64_t i = 0; i < 5; ++i) all.push_back(make(surface(kVisible | kHidden, 1, 2), 10 + i));
    for (const D3DKMT_HANDLE handle : all) read(handle, kUnit);
    for (const D3DKMT_HANDLE handle : all) drop({handle});
  }
  void fragments() {
    std::vector<D3DKMT_HANDLE> all;
    for (uint64_t i = 0; i < 4; ++i) all.push_back(make(surface(kHidden), 20 + i));
    drop({all[0], all[2]});
    const D3DKMT_HANDLE wide = make(surface(kHidden, 2), 30);
    for (const D3DKMT_HANDLE handle : {all[1], all[3]}) read(handle, kUnit);
    read(wide, 2 * kUnit);
    drop({all[1], all[3], wide});
  }
  void offers() {
    const D3DKMT_HANDLE offered = make(surface(kHidden), 40);
    D3DKMT_OFFERALLOCATIONS offer{};
    offer.hDevice = client_.device;
    offer.HandleList = &offered;
    offer.NumAllocations = 1;
    offer.Priority = D3DKMT_OFFER_PRIORITY_NORMAL;
    EXPECT_EQ(client_.call([&] { return D3DKMTOfferAllocations(&offer); }), 0);
    stack_.drive();
    const bool in_place = stack_.adapter().core().memory().usage(SegmentId{2}).allocations == 1;
    std::vector<D3DKMT_HANDLE> others;
    for (uint64_t i = 0; i < 4; ++i) others.push_back(make(surface(kHidden), 50 + i));
    BOOL lost = 77;
    D3DKMT_RECLAIMALLOCATIONS reclaim{};
    reclaim.hDevice = client_.device;
    reclaim.HandleList = &offered;
    reclaim.NumAllocations = 1;
    reclaim.pDiscarded = &lost;
    EXPECT_EQ(client_.call([&] { return D3DKMTReclaimAllocations(&reclaim); }), 0);
    reclaimed = lost;
    left_at_once = !in_place;
    for (const D3DKMT_HANDLE handle : others) read(handle, kUnit);
    if (lost == 0) {
      // A client goes on with what it was told is there.
      std::vector<std::byte> before;
      before.swap(result);
      read(offered, kUnit);
      expect_filled(result.data(), kUnit, 40);
      result.swap(before);
    }
    for (const D3DKMT_HANDLE handle : others) drop({handle});
    drop({offered});
  }
  void parts() {  // three allocations, a split point before each
    std::vector<D3DKMT_HANDLE> all;
    for (uint64_t i = 0; i < 3; ++i) all.push_back(make(surface(kHidden), 60 + i));
    Work work = work_on({all[0], all[1], all[2]});
    for (uint32_t i = 0; i < 3; ++i) work.patches[i].SplitOffset = 16 * i;
    const size_t first = stack_.miniport.calls().patches.size();
    EXPECT_EQ(client_.render(context_, work), 0);
    stack_.drive();
    // What the hardware saw at each patched place in the end.
    const auto patches = stack_.miniport.calls().patches;
    std::map<uint32_t, uint64_t> addresses;
    for (size_t i = first; i < patches.size(); ++i) {
      const DXGKARG_PATCH& args = patches[i].args;
      if (args.Flags.Paging != 0) continue;
      for (UINT k = 0; k < args.PatchLocationListSubmissionLength; ++k) {
        const port::PatchLocation& one =
            patches[i].patches[args.PatchLocationListSubmissionStart + k];
        addresses[one.patch_offset] = patches[i].allocations[one.allocation_index].physical_address;
      }
    }
    EXPECT_EQ(addresses.size(), 3U);
    for (const D3DKMT_HANDLE handle : all) read(handle, kUnit);
    for (const D3DKMT_HANDLE handle : all) drop({handle});
  }
  void own_pages() {
    void* const memory =
        mmap(nullptr, kUnit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(static_cast<std::byte*>(memory), kUnit, 70);
    const uint64_t free_pages = stack_.machine.free_page_count();
    D3DDDI_ALLOCATIONINFO2 info{};
    info.pSystemMem = memory;
    D3DKMT_CREATESTANDARDALLOCATION standard{};
    standard.Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
    standard.ExistingHeapData.Size = kUnit;
    D3DKMT_CREATEALLOCATION args{};
    args.hDevice = client_.device;
    args.pStandardAllocation = &standard;
    args.NumAllocations = 1;
    args.pAllocationInfo2 = &info;
    args.Flags = std::bit_cast<D3DKMT_CREATEALLOCATIONFLAGS>(
        UINT{1U << 0 | 1U << 1 | 1U << 5 | 1U << 11 | 1U << 16});
    EXPECT_EQ(client_.call([&] { return D3DKMTCreateAllocation2(&args); }), 0);
    read(info.hAllocation, kUnit);
    D3DKMT_DESTROYALLOCATION2 gone{};
    gone.hDevice = client_.device;
    gone.hResource = args.hResource;
    gone.Flags.SynchronousDestroy = 1;
    stack_.blocking(
        [&] { EXPECT_EQ(client_.call([&] { return D3DKMTDestroyAllocation2(&gone); }), 0); });
    EXPECT_EQ(stack_.machine.free_page_count(), free_pages) << "pinned once, and let go of";
    munmap(memory, kUnit);
  }

 public:
  bool left_at_once = false;

 private:
  Stack& stack_;
  Client& client_;
  MemoryGpu gpu_;
  ContextBuffers context_;
};

struct Told {
  std::vector<std::byte> result;
  int reclaimed = -1;
  bool left_at_once = false;
  Strikes strikes{};
  dxgk::AdapterStatistics statistics;
  std::vector<std::string> rules;
};

TEST_F(SwitchTest, EachStrikesAndContentStays) {
  DXGKIT_COVERS("REND-28");
  const auto tell = [](VerifierSwitches switches) {
    Told told;
    bare([&](Stack& stack) {
      SwitchDriver::prepare(stack);
      stack.options.verifier = switches;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      {
        Client client(stack);
        Story story(stack, client);
        story.run();
        told.result = std::move(story.result);
        told.reclaimed = story.reclaimed;
        told.left_at_once = story.left_at_once;
        stack.miniport.hooks = {};
      }
      told.statistics = stack.statistics();
      told.strikes = told.statistics.verifier_strikes;
      told.rules = stack.rules();
    });
    return told;
  };
  const Told plain = tell({});
  ASSERT_FALSE(plain.result.empty());
  EXPECT_EQ(plain.strikes, Strikes{});
  EXPECT_EQ(plain.reclaimed, 1) << "discarded under pressure";
  EXPECT_FALSE(plain.left_at_once);
  for (const auto& named : kVerifierSwitchNames) {
    SCOPED_TRACE(named.name);
    VerifierSwitches one;
    one.set(named.which);
    const Told told = tell(one);
    EXPECT_EQ(told.rules, std::vector<std::string>{});
    EXPECT_TRUE(told.result == plain.result) << "the result differs";
    Strikes expected{};
    EXPECT_GT(of(told.strikes, named.which), 0U) << "it struck nowhere";
    expected[static_cast<size_t>(named.which)] = of(told.strikes, named.which);
    EXPECT_EQ(told.strikes, expected);
    // What it is meant to change, beside its own counter.
    switch (named.which) {
      case VerifierSwitch::kTakeSplitPoint:
        EXPECT_EQ(told.statistics.splits, plain.statistics.splits + 2);
        break;
      case VerifierSwitch::kAlwaysDiscardOffer:
        EXPECT_TRUE(told.left_at_once);
        EXPECT_EQ(told.reclaimed, 1);
        break;
      case VerifierSwitch::kNeverDiscardOffer:
        EXPECT_EQ(told.reclaimed, 0);
        break;
      case VerifierSwitch::kForceComplexLock:
      case VerifierSwitch::kFailAcquireSwizzlingRange:
        EXPECT_GT(told.statistics.page_outs, plain.statistics.page_outs);
        break;
      case VerifierSwitch::kNoDemotion:
      case VerifierSwitch::kFailDefragPass:
        EXPECT_GT(told.statistics.evictions, plain.statistics.evictions);
        break;
      default:
        break;
    }
  }
}

// An adapter whose driver has failed is called no more, whatever is to be done twice.
TEST_F(SwitchTest, APatchThatFailsIsNotRepeated) {
  DXGKIT_COVERS("REND-28", "PATCH-31");
  bare([](Stack& stack) {
    stack.options.verifier.set(VerifierSwitch::kAlwaysRepatch);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    ContextBuffers context = client.make_context();
    int calls = 0;
    stack.miniport.hooks.patch = [&](const DXGKARG_PATCH*) {
      return nt_status(++calls == 1 ? Status::kNoMemory : Status::kSuccess);
    };
    ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.settle();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(stack.only_finding().rule, "PATCH-31");
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 0U);
    stack.miniport.hooks.patch = nullptr;
  });
}

}  // namespace
}  // namespace dxgkit::contract
