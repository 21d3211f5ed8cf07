// What the driver says of its MMU, and paging operations on page tables.
#include <map>

#include "miniports/softgpu/gpuva_world.h"

namespace softgpu {
namespace {

class GpuVaCaps : public GpuVa {};
class GpuVaPaging : public GpuVa {
 protected:
  void SetUp() override { load_and_start(); }
  void TearDown() override { stop_and_expect_nothing_left(); }
};
class GpuVaChoice : public Driver {};

// --- which model ---

TEST_F(GpuVaChoice, WithoutAValueTheDriverPatches) {
  load_and_start();
  EXPECT_NE(table().DxgkDdiRender, nullptr);
  EXPECT_NE(table().DxgkDdiPatch, nullptr);
  EXPECT_NE(table().DxgkDdiSubmitCommand, nullptr);
  EXPECT_EQ(table().DxgkDdiSubmitCommandVirtual, nullptr);
  EXPECT_EQ(table().DxgkDdiSetRootPageTable, nullptr);
  DXGK_GPUMMUCAPS mmu = {};
  DXGKARG_QUERYADAPTERINFO query = {};
  query.Type = DXGKQAITYPE_GPUMMUCAPS;
  query.pOutputData = &mmu;
  query.OutputDataSize = sizeof(mmu);
  EXPECT_EQ(table().DxgkDdiQueryAdapterInfo(world.adapter, &query), STATUS_NOT_SUPPORTED);
  DXGK_DRIVERCAPS caps = {};
  query.Type = DXGKQAITYPE_DRIVERCAPS;
  query.pOutputData = &caps;
  query.OutputDataSize = sizeof(caps);
  EXPECT_EQ(table().DxgkDdiQueryAdapterInfo(world.adapter, &query), STATUS_SUCCESS);
  EXPECT_EQ(caps.MemoryManagementCaps.VirtualAddressingSupported, 0U);
  EXPECT_EQ(caps.MemoryManagementCaps.GpuMmuSupported, 0U);
  // Contexts of the other model are not made.
  DXGKARG_CREATEDEVICE device = {};
  ASSERT_EQ(table().DxgkDdiCreateDevice(world.adapter, &device), STATUS_SUCCESS);
  DXGKARG_CREATECONTEXT context = {};
  context.Flags.VirtualAddressing = 1;
  EXPECT_EQ(table().DxgkDdiCreateContext(device.hDevice, &context), STATUS_INVALID_PARAMETER);
  context.Flags.VirtualAddressing = 0;
  EXPECT_EQ(table().DxgkDdiCreateContext(device.hDevice, &context), STATUS_SUCCESS);
  EXPECT_EQ(context.ContextInfo.PatchLocationListSize, kPatchListSize);
  table().DxgkDdiDestroyContext(context.hContext);
  table().DxgkDdiDestroyDevice(device.hDevice);
  stop_and_expect_nothing_left();
}

TEST_F(GpuVaChoice, AValueThatIsNoModelIsRefused) {
  world.has_memory_model = true;
  world.memory_model = 4;
  EXPECT_EQ(DriverEntry(nullptr, nullptr), STATUS_INVALID_PARAMETER);
  EXPECT_EQ(table().DxgkDdiAddDevice, nullptr) << "never introduced itself";
  world.memory_model = 1;
  world.memory_model_type = REG_SZ;
  EXPECT_EQ(DriverEntry(nullptr, nullptr), STATUS_INVALID_PARAMETER);
  EXPECT_EQ(world.open_keys, 0);
  world.memory_model_type = REG_DWORD;
  EXPECT_EQ(DriverEntry(nullptr, nullptr), STATUS_SUCCESS);
  world.memory_model = 0;
  EXPECT_EQ(DriverEntry(nullptr, nullptr), STATUS_SUCCESS);
  EXPECT_NE(table().DxgkDdiRender, nullptr);
}

// --- caps ---

TEST_P(GpuVaCaps, TheTableHasTheEntriesOfTheModel) {
  load_and_start();
  EXPECT_EQ(table().DxgkDdiRender, nullptr);
  EXPECT_EQ(table().DxgkDdiPatch, nullptr);
  EXPECT_EQ(table().DxgkDdiSubmitCommand, nullptr);
  EXPECT_NE(table().DxgkDdiSubmitCommandVirtual, nullptr);
  EXPECT_NE(table().DxgkDdiSetRootPageTable, nullptr);
  EXPECT_NE(table().DxgkDdiCreateProcess, nullptr);
  EXPECT_NE(table().DxgkDdiDestroyProcess, nullptr);
  EXPECT_NE(table().DxgkDdiBuildPagingBuffer, nullptr);
  EXPECT_EQ(table().DxgkDdiGetRootPageTableSize != nullptr, !four());
  stop_and_expect_nothing_left();
}

TEST_P(GpuVaCaps, TheCapsAgreeWithTheLevels) {
  load_and_start();
  DXGK_DRIVERCAPS caps = {};
  ASSERT_EQ(query(DXGKQAITYPE_DRIVERCAPS, &caps), STATUS_SUCCESS);
  EXPECT_EQ(caps.MemoryManagementCaps.VirtualAddressingSupported, 1U);
  EXPECT_EQ(caps.MemoryManagementCaps.GpuMmuSupported, 1U);
  EXPECT_EQ(caps.MemoryManagementCaps.IoMmuSupported, 0U);

  DXGK_GPUMMUCAPS mmu;
  std::memset(&mmu, 0xFF, sizeof(mmu));
  EXPECT_EQ(query(DXGKQAITYPE_GPUMMUCAPS, &mmu, sizeof(mmu) - 1), STATUS_BUFFER_TOO_SMALL);
  ASSERT_EQ(query(DXGKQAITYPE_GPUMMUCAPS, &mmu), STATUS_SUCCESS);
  EXPECT_EQ(mmu.ReadOnlyMemorySupported, 1U);
  EXPECT_EQ(mmu.NoExecuteMemorySupported, 1U);
  EXPECT_EQ(mmu.ZeroInPteSupported, 1U);
  EXPECT_EQ(mmu.LargePageSupported, 0U);
  EXPECT_EQ(mmu.DualPteSupported, 0U);
  EXPECT_EQ(mmu.LeafPageTableSizeFor64KPagesInBytes, large() ? 4096U : 0U);
  EXPECT_EQ(mmu.PageTableLevelCount, four() ? 4U : 2U);
  EXPECT_EQ(mmu.PageTableUpdateMode,
            four() ? DXGK_PAGETABLEUPDATE_GPU_PHYSICAL : DXGK_PAGETABLEUPDATE_CPU_VIRTUAL);
  EXPECT_EQ(mmu.VirtualAddressBitCount, four() ? 48U : 30U);

  UINT bits = 12;
  DXGK_PAGE_TABLE_LEVEL_DESC desc = {};
  DXGK_QUERYPAGETABLELEVELDESCIN in = {};
  for (UINT level = 0; level < mmu.PageTableLevelCount; ++level) {
    in.LevelIndex = static_cast<WORD>(level);
    std::memset(&desc, 0xFF, sizeof(desc));
    ASSERT_EQ(query(DXGKQAITYPE_PAGETABLELEVELDESC, &desc, sizeof(desc), &in, sizeof(in)),
              STATUS_SUCCESS);
    bits += desc.PageTableIndexBitCount;
    EXPECT_EQ(desc.PageTableSizeInBytes, 4096U);
    EXPECT_EQ(desc.PageTableAlignmentInBytes, 4096U);
    EXPECT_EQ(desc.PageTableSegmentId, four() && !large() ? kSegmentVram : 0);
    EXPECT_EQ(desc.PagingProcessPageTableSegmentId, 0U);
  }
  // A root that grows begins smaller than it may become.
  EXPECT_EQ(bits, four() ? 48U : 27U);
  in.LevelIndex = static_cast<WORD>(mmu.PageTableLevelCount);
  EXPECT_EQ(query(DXGKQAITYPE_PAGETABLELEVELDESC, &desc, sizeof(desc), &in, sizeof(in)),
            STATUS_INVALID_PARAMETER);
  in.LevelIndex = 0;
  EXPECT_EQ(query(DXGKQAITYPE_PAGETABLELEVELDESC, &desc, sizeof(desc), &in, 1),
            STATUS_INVALID_PARAMETER);
  EXPECT_EQ(query(DXGKQAITYPE_PAGETABLELEVELDESC, &desc, sizeof(desc)), STATUS_INVALID_PARAMETER);
  EXPECT_EQ(query(DXGKQAITYPE_PAGETABLELEVELDESC, &desc, sizeof(desc) - 1, &in, sizeof(in)),
            STATUS_BUFFER_TOO_SMALL);

  SgpuUmdAdapterInfo info = {};
  ASSERT_EQ(query(DXGKQAITYPE_UMDRIVERPRIVATE, &info), STATUS_SUCCESS);
  EXPECT_EQ(info.flags, SGPU_UMD_ADAPTER_EXPLICIT_RESIDENCY | SGPU_UMD_ADAPTER_GPU_VA);
  EXPECT_EQ(info.va_bits, mmu.VirtualAddressBitCount);
  stop_and_expect_nothing_left();
}

TEST_P(GpuVaCaps, OnlyLargePagesAskForAlignment) {
  load_and_start();
  std::array<DXGK_SEGMENTDESCRIPTOR4, kSegmentCount> segments = {};
  DXGK_QUERYSEGMENTOUT4 out = {};
  out.NbSegment = kSegmentCount;
  out.pSegmentDescriptor = reinterpret_cast<BYTE*>(segments.data());
  out.SegmentDescriptorStride = sizeof(segments[0]);
  ASSERT_EQ(query(DXGKQAITYPE_QUERYSEGMENT4, &out), STATUS_SUCCESS);
  EXPECT_EQ(segments[0].Flags.Use64KBPages, large() ? 1U : 0U);
  EXPECT_EQ(segments[1].Flags.Use64KBPages, 0U);
  EXPECT_EQ(segments[0].Size % (large() ? 65536 : 4096), 0U);
  for (const UINT placement : {SGPU_UMD_PLACE_VRAM, SGPU_UMD_PLACE_STAGING, SGPU_UMD_PLACE_ANY}) {
    SgpuUmdAllocation request = {};
    request.magic = SGPU_UMD_ALLOCATION_MAGIC;
    request.version = SGPU_UMD_VERSION;
    request.placement = placement;
    request.size_bytes = 100;
    DXGK_ALLOCATIONINFO info = {};
    info.pPrivateDriverData = &request;
    info.PrivateDriverDataSize = sizeof(request);
    DXGKARG_CREATEALLOCATION args = {};
    args.NumAllocations = 1;
    args.pAllocationInfo = &info;
    ASSERT_EQ(table().DxgkDdiCreateAllocation(world.adapter, &args), STATUS_SUCCESS);
    EXPECT_EQ(info.Alignment, large() && placement != SGPU_UMD_PLACE_STAGING ? 65536U : 4096U);
    DXGKARG_DESTROYALLOCATION destroyed = {};
    destroyed.NumAllocations = 1;
    destroyed.pAllocationList = &info.hAllocation;
    ASSERT_EQ(table().DxgkDdiDestroyAllocation(world.adapter, &destroyed), STATUS_SUCCESS);
  }
  stop_and_expect_nothing_left();
}

TEST_P(GpuVaCaps, TheRootIsMeasuredInGroups) {
  load_and_start();
  if (four()) {
    EXPECT_EQ(table().DxgkDdiGetRootPageTableSize, nullptr);
  } else {
    const auto size = [&](UINT* entries) {
      DXGKARG_GETROOTPAGETABLESIZE args = {};
      args.NumberOfPte = *entries;
      const SIZE_T bytes = table().DxgkDdiGetRootPageTableSize(world.adapter, &args);
      *entries = args.NumberOfPte;
      return bytes;
    };
    const std::map<UINT, std::pair<UINT, SIZE_T>> expected = {
        {0, {64, 4096}},      {1, {64, 4096}},
        {64, {64, 4096}},     {65, {128, 4096}},
        {512, {512, 4096}},   {513, {576, 8192}},
        {1024, {1024, 8192}}, {0xFFFFFFFF, {0x80000, 0x400000}},
    };
    for (const auto& [asked, answer] : expected) {
      UINT entries = asked;
      EXPECT_EQ(size(&entries), answer.second) << asked;
      EXPECT_EQ(entries, answer.first) << asked;
    }
  }
  stop_and_expect_nothing_left();
}

SOFTGPU_ALL_MODELS(GpuVaCaps);

// --- contexts ---

TEST_P(GpuVaPaging, ContextsAreVirtualAndNeedNoBuffersOfTheKernel) {
  const HANDLE process = create_process(0x1234);
  const HANDLE device = create_device(process);
  DXGKARG_CREATECONTEXT args;
  ASSERT_EQ(try_context(device, false, true, SGPU_NODE_3D, &args), STATUS_SUCCESS);
  EXPECT_EQ(args.ContextInfo.DmaBufferSize, 0U);
  EXPECT_EQ(args.ContextInfo.AllocationListSize, 0U);
  EXPECT_EQ(args.ContextInfo.PatchLocationListSize, 0U);
  EXPECT_EQ(args.ContextInfo.DmaBufferPrivateDataSize,
            sizeof(SgpuUmdSubmission) + sizeof(SubmissionRecord));
  EXPECT_EQ(args.ContextInfo.PagingCompanionNodeId, SGPU_NODE_COPY);
  table().DxgkDdiDestroyContext(args.hContext);
  EXPECT_EQ(try_context(device, false, false, SGPU_NODE_3D, &args), STATUS_INVALID_PARAMETER);
  EXPECT_EQ(args.hContext, nullptr);
  EXPECT_EQ(try_context(device, false, true, 2, &args), STATUS_INVALID_PARAMETER);
  ASSERT_EQ(try_context(device, true, true, SGPU_NODE_COPY, &args), STATUS_SUCCESS);
  EXPECT_EQ(args.ContextInfo.DmaBufferPrivateDataSize, sizeof(SubmissionRecord));
  table().DxgkDdiDestroyContext(args.hContext);
  table().DxgkDdiDestroyDevice(device);
  table().DxgkDdiDestroyProcess(world.adapter, process);
  // Without memory nothing is half there.
  world.pool_allocations_left = 0;
  DXGKARG_CREATEPROCESS none = {};
  EXPECT_EQ(table().DxgkDdiCreateProcess(world.adapter, &none), STATUS_NO_MEMORY);
  EXPECT_EQ(none.hKmdProcess, nullptr);
  world.pool_allocations_left = 1000;
}

// --- page tables ---

/// All kinds of entries, and what the manual wants for them.
struct Case {
  DXGK_PTE from;
  SgpuU64 leaf;
  SgpuU64 above;
};
std::vector<Case> all_kinds() {
  std::vector<Case> cases;
  const auto add = [&](DXGK_PTE from, SgpuU64 leaf, SgpuU64 above) {
    cases.push_back({from, leaf, above});
  };
  add({}, 0, 0);
  DXGK_PTE invalid = pte(kSegmentVram, 5);
  invalid.Valid = 0;
  add(invalid, 0, 0);
  add(pte(0, 0x12345), 0x12345001, 0x12345001);
  add(pte(kSegmentVram, 0x77), SGPU_VRAM_BASE + 0x77001, SGPU_VRAM_BASE + 0x77001);
  add(pte(kSegmentAperture, 3), SGPU_APERTURE_BASE + 0x3001, SGPU_APERTURE_BASE + 0x3001);
  add(pte(9, 3), SGPU_PTE_VALID, SGPU_PTE_VALID);  // no such segment: leads to nothing
  DXGK_PTE fixed = pte(kSegmentVram, 1);
  fixed.ReadOnly = fixed.NoExecute = fixed.CacheCoherent = 1;
  add(fixed,
      (SGPU_VRAM_BASE + 0x1000) | SGPU_PTE_VALID | SGPU_PTE_READ_ONLY | SGPU_PTE_NO_EXECUTE |
          SGPU_PTE_COHERENT,
      (SGPU_VRAM_BASE + 0x1000) | SGPU_PTE_VALID);
  DXGK_PTE zero = {};
  zero.Zero = 1;
  add(zero, SGPU_PTE_VALID | SGPU_PTE_ZERO, SGPU_PTE_VALID | SGPU_PTE_ZERO);
  zero.Valid = 1;
  add(zero, SGPU_PTE_VALID | SGPU_PTE_ZERO, SGPU_PTE_VALID | SGPU_PTE_ZERO);
  return cases;
}

TEST_P(GpuVaPaging, ByTheCpuEntriesAreWrittenBeforeReturn) {
  for (const UINT level : {0U, 1U}) {
    for (const UINT buffer : {0U, kDmaBytes}) {
      std::vector<SgpuU64> table_memory(64, 0xDEAD);
      std::vector<DXGK_PTE> entries;
      const std::vector<Case> cases = all_kinds();
      for (const Case& one : cases) entries.push_back(one.from);
      const Built built = build_once(
          update({.cpu = table_memory.data(), .level = level, .start = 10}, &entries), buffer);
      EXPECT_EQ(built.status, STATUS_SUCCESS);
      EXPECT_TRUE(built.bytes.empty());
      for (size_t i = 0; i < table_memory.size(); ++i) {
        SgpuU64 want = 0xDEAD;
        if (i >= 10 && i < 10 + cases.size()) {
          want = level == 0 ? cases[i - 10].leaf : cases[i - 10].above;
        }
        EXPECT_EQ(table_memory[i], want) << i;
      }
      // One for all.
      std::vector<DXGK_PTE> one = {pte(0, 1)};
      EXPECT_EQ(build_once(update({.cpu = table_memory.data(),
                                   .level = level,
                                   .start = 1,
                                   .count = 62,
                                   .repeat = true},
                                  &one),
                           buffer)
                    .status,
                STATUS_SUCCESS);
      EXPECT_EQ(table_memory[0], 0xDEADU);
      for (size_t i = 1; i < 63; ++i) EXPECT_EQ(table_memory[i], 0x1001U);
      EXPECT_EQ(table_memory[63], 0xDEADU);
    }
  }
}

/// Runs WRITE_PTES commands on memory that is a map.
void apply(const std::vector<UCHAR>& bytes, UINT flags, std::map<UINT64, SgpuU64>* memory) {
  for (size_t at = 0; at < bytes.size();) {
    const auto command = command_at<SgpuWritePtes>(bytes, at, SGPU_OP_WRITE_PTES);
    if (command.header.opcode != SGPU_OP_WRITE_PTES) return;
    const bool repeat = (command.flags & SGPU_PTES_REPEAT) != 0;
    EXPECT_EQ(command.flags & ~SGPU_PTES_REPEAT, flags);
    const UINT listed = repeat ? 1 : command.count;
    ASSERT_EQ(command.header.size, sizeof(command) + listed * sizeof(SgpuU64));
    ASSERT_LE(command.count, SGPU_PTES_MAX);
    for (UINT i = 0; i < command.count; ++i) {
      SgpuU64 entry = 0;
      std::memcpy(&entry, bytes.data() + at + sizeof(command) + (repeat ? 0 : i) * sizeof(entry),
                  sizeof(entry));
      (*memory)[command.table + i * sizeof(entry)] = entry;
    }
    at += command.header.size;
  }
}

TEST_P(GpuVaPaging, ByTheGpuEveryBufferSizeGivesTheSameTable) {
  std::vector<DXGK_PTE> entries;
  for (UINT i = 0; i < 300; ++i) entries.push_back(pte(i % 3, i));
  const auto expected = [&](UINT64 table) {
    std::map<UINT64, SgpuU64> memory;
    for (UINT i = 0; i < 300; ++i) memory[table + 8 * (100 + i)] = hardware_entry(entries[i], 0);
    return memory;
  };
  for (UINT bytes = 32; bytes < 3000; bytes += bytes < 400 ? 8 : 136) {
    std::map<UINT64, SgpuU64> physical;
    apply(build(update({.mode = DXGK_PAGETABLEUPDATE_GPU_PHYSICAL,
                        .physical = place(kSegmentVram, 0x9000),
                        .start = 100},
                       &entries),
                bytes),
          SGPU_PTES_PHYSICAL, &physical);
    EXPECT_EQ(physical, expected(SGPU_VRAM_BASE + 0x9000)) << bytes;
    std::map<UINT64, SgpuU64> by_address;
    apply(
        build(update({.mode = DXGK_PAGETABLEUPDATE_GPU_VIRTUAL, .address = 0x5550000, .start = 100},
                     &entries),
              bytes),
        0, &by_address);
    EXPECT_EQ(by_address, expected(0x5550000)) << bytes;
  }
  // Too small for anything: nothing is written and nothing is counted.
  const Built none = build_once(
      update({.mode = DXGK_PAGETABLEUPDATE_GPU_PHYSICAL, .physical = place(0, 0x9000)}, &entries),
      24);
  EXPECT_EQ(none.status, STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
  EXPECT_TRUE(none.bytes.empty());
  EXPECT_EQ(none.multipass, 0U);
}

TEST_P(GpuVaPaging, OfALeafOf64KiBPagesEachSixteenthEntryIsWritten) {
  std::vector<DXGK_PTE> entries;
  for (UINT i = 0; i < 160; ++i) entries.push_back(pte(kSegmentVram, 0x100 + i));
  const auto expected = [](UINT i) {
    return SGPU_VRAM_BASE + 0x100000 + UINT64{SGPU_LARGE_PAGE_BYTES} * i + SGPU_PTE_VALID;
  };
  std::vector<SgpuU64> memory(32, 0xDEAD);
  EXPECT_EQ(
      build_once(update({.cpu = memory.data(), .start = 64, .large = true}, &entries), 0).status,
      STATUS_SUCCESS);
  for (UINT i = 0; i < 32; ++i) {
    EXPECT_EQ(memory[i], i >= 4 && i < 14 ? expected(i - 4) : 0xDEADU) << i;
  }
  for (const UINT buffer : {32U, 48U, 100U, kDmaBytes}) {
    std::map<UINT64, SgpuU64> by_gpu;
    apply(build(update({.mode = DXGK_PAGETABLEUPDATE_GPU_PHYSICAL,
                        .physical = place(0, 0x7000),
                        .start = 64,
                        .large = true},
                       &entries),
                buffer),
          SGPU_PTES_PHYSICAL, &by_gpu);
    ASSERT_EQ(by_gpu.size(), 10U);
    for (UINT i = 0; i < 10; ++i) EXPECT_EQ(by_gpu[0x7000 + 8 * (4 + i)], expected(i));
  }
  std::vector<DXGK_PTE> invalid(1);
  EXPECT_EQ(
      build_once(
          update({.cpu = memory.data(), .count = 512, .repeat = true, .large = true}, &invalid), 0)
          .status,
      STATUS_SUCCESS);
  for (const SgpuU64 entry : memory) EXPECT_EQ(entry, 0U);
  // Above the leaf the flag changes nothing, but the entry says what the leaf is.
  DXGK_PTE up = pte(0, 9);
  up.PageTablePageSize = DXGK_PTE_PAGE_TABLE_PAGE_64KB;
  EXPECT_EQ(hardware_entry(up, 1), 0x9000 | SGPU_PTE_VALID | SGPU_PTE_64K);
  EXPECT_EQ(hardware_entry(up, 0), 0x9000 | SGPU_PTE_VALID);
  EXPECT_EQ(hardware_entry(up, 2), 0x9000 | SGPU_PTE_VALID);
  std::vector<DXGK_PTE> ups = {up, up};
  EXPECT_EQ(
      build_once(update({.cpu = memory.data(), .level = 1, .start = 1, .large = true}, &ups), 0)
          .status,
      STATUS_SUCCESS);
  EXPECT_EQ(memory[0], 0U);
  EXPECT_EQ(memory[1], hardware_entry(up, 1));
  EXPECT_EQ(memory[2], hardware_entry(up, 1));
}

TEST_P(GpuVaPaging, ARepeatedEntryIsOneCommand) {
  std::vector<DXGK_PTE> one = {pte(kSegmentVram, 3)};
  const auto bytes = build(update({.mode = DXGK_PAGETABLEUPDATE_GPU_PHYSICAL,
                                   .physical = place(0, 0x7000),
                                   .level = 1,
                                   .start = 4,
                                   .count = 500,
                                   .repeat = true},
                                  &one));
  EXPECT_EQ(bytes.size(), sizeof(SgpuWritePtes) + 8);
  std::map<UINT64, SgpuU64> memory;
  apply(bytes, SGPU_PTES_PHYSICAL, &memory);
  ASSERT_EQ(memory.size(), 500U);
  EXPECT_EQ(memory.begin()->first, 0x7020U);
  for (const auto& [address, entry] : memory) EXPECT_EQ(entry, SGPU_VRAM_BASE + 0x3001);
}

TEST_P(GpuVaPaging, FlushesNameTheRootAndRatherTooMuch) {
  const auto flushed = [&](D3DGPU_PHYSICAL_ADDRESS root, UINT64 start, UINT64 end) {
    const auto bytes = build(flush(root, start, end), sizeof(SgpuFlushTlb));
    EXPECT_EQ(bytes.size(), sizeof(SgpuFlushTlb));
    return command_at<SgpuFlushTlb>(bytes, 0, SGPU_OP_FLUSH_TLB);
  };
  auto command = flushed(place(kSegmentVram, 0x4000), 0x10000, 0x20000);
  EXPECT_EQ(command.root, SGPU_VRAM_BASE + 0x4000);
  EXPECT_EQ(command.start, 0x10000U);
  EXPECT_EQ(command.end, 0x20000U);
  command = flushed(place(0, 0x4000), 0x10001, 0x1FFFF);  // inclusive ends and odd beginnings
  EXPECT_EQ(command.root, 0x4000U);
  EXPECT_EQ(command.start, 0x10000U);
  EXPECT_EQ(command.end, 0x20000U);
  for (const UINT64 end : {UINT64{0}, ~UINT64{0}}) {  // everything
    command = flushed(place(0, 0x4000), 0, end);
    EXPECT_EQ(command.start, 0U);
    EXPECT_EQ(command.end, 0U);
  }
  EXPECT_EQ(build_once(flush(place(0, 0x4000), 0, 0), sizeof(SgpuFlushTlb) - 8).status,
            STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
  EXPECT_TRUE(world.tlb_flushes.empty());
}

TEST_P(GpuVaPaging, WithoutABufferTheFlushIsOverAtReturn) {
  world.tlb_busy_looks = 5;
  EXPECT_EQ(build_once(flush(place(0, 0x4000), 0x1000, 0x3000), 0).status, STATUS_SUCCESS);
  ASSERT_EQ(world.tlb_flushes.size(), 1U);
  EXPECT_EQ(world.tlb_flushes[0].root, 0x4000U);
  EXPECT_EQ(world.tlb_flushes[0].start, 0x1000U);
  EXPECT_EQ(world.tlb_flushes[0].end, 0x3000U);
  EXPECT_EQ(world.tlb_busy_looks, 0U) << "waited for";
}

TEST_P(GpuVaPaging, EntriesAreCopiedRangeByRange) {
  std::vector<DXGK_BUILDPAGINGBUFFER_COPY_RANGE> ranges;
  for (UINT i = 0; i < 20; ++i) {
    ranges.push_back({.NumPageTableEntries = i + 1,
                      .SrcPageTableAddress = UINT64{0x10000} * (i + 1),
                      .DstPageTableAddress = UINT64{0x900000} + UINT64{0x10000} * i,
                      .SrcStartPteIndex = i,
                      .DstStartPteIndex = 2 * i});
  }
  DXGKARG_BUILDPAGINGBUFFER args = {};
  args.Operation = DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES;
  args.CopyPageTableEntries.NumRanges = static_cast<UINT>(ranges.size());
  args.CopyPageTableEntries.pRanges = ranges.data();
  for (const UINT buffer : {32U, 40U, 96U, kDmaBytes}) {
    const auto bytes = build(args, buffer);
    ASSERT_EQ(bytes.size(), 20 * sizeof(SgpuCopyPtes));
    for (UINT i = 0; i < 20; ++i) {
      const auto copy =
          command_at<SgpuCopyPtes>(bytes, i * sizeof(SgpuCopyPtes), SGPU_OP_COPY_PTES);
      EXPECT_EQ(copy.source, ranges[i].SrcPageTableAddress + 8 * i);
      EXPECT_EQ(copy.destination, ranges[i].DstPageTableAddress + 16 * i);
      EXPECT_EQ(copy.count, i + 1);
      EXPECT_EQ(copy.flags, 0U) << "by address";
    }
  }
}

TEST_P(GpuVaPaging, TransfersAndFillsGoByFinalAddresses) {
  DXGKARG_BUILDPAGINGBUFFER args = {};
  args.Operation = DXGK_OPERATION_VIRTUAL_TRANSFER;
  args.TransferVirtual.SourceVirtualAddress = 0x100000;
  args.TransferVirtual.DestinationVirtualAddress = 0x900000;
  args.TransferVirtual.TransferSizeInBytes = UINT64{5} << 30;
  args.TransferVirtual.AllocationOffsetInBytes = 0x4000;  // told, not added
  auto bytes = build(args);
  const auto copy = command_at<SgpuCopy>(bytes, 0, SGPU_OP_COPY);
  EXPECT_EQ(bytes.size(), sizeof(copy));
  EXPECT_EQ(copy.source, 0x100000U);
  EXPECT_EQ(copy.destination, 0x900000U);
  EXPECT_EQ(copy.size, UINT64{5} << 30);

  args = {};
  args.Operation = DXGK_OPERATION_VIRTUAL_FILL;
  args.FillVirtual.DestinationVirtualAddress = 0x300000;
  args.FillVirtual.FillSizeInBytes = 0x2000;
  args.FillVirtual.FillPattern = 0xABCD;
  args.FillVirtual.AllocationOffsetInBytes = 0x4000;
  bytes = build(args);
  const auto fill = command_at<SgpuFill>(bytes, 0, SGPU_OP_FILL);
  EXPECT_EQ(fill.destination, 0x300000U);
  EXPECT_EQ(fill.size, 0x2000U);
  EXPECT_EQ(fill.pattern, 0xABCDU);
}

TEST_P(GpuVaPaging, WhatBelongsToTheOtherModelIsRefused) {
  for (const DXGK_BUILDPAGINGBUFFER_OPERATION operation :
       {DXGK_OPERATION_TRANSFER, DXGK_OPERATION_FILL, DXGK_OPERATION_SPECIAL_LOCK_TRANSFER,
        DXGK_OPERATION_READ_PHYSICAL, DXGK_OPERATION_WRITE_PHYSICAL,
        DXGK_OPERATION_INIT_CONTEXT_RESOURCE, DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION}) {
    DXGKARG_BUILDPAGINGBUFFER args = {};
    args.Operation = operation;
    const Built built = build_once(args);
    EXPECT_EQ(built.status, STATUS_NOT_SUPPORTED) << operation;
    EXPECT_TRUE(built.bytes.empty());
  }
  // The aperture is of both.
  DXGKARG_BUILDPAGINGBUFFER args = {};
  args.Operation = DXGK_OPERATION_UNMAP_APERTURE_SEGMENT;
  args.UnmapApertureSegment.SegmentId = kSegmentAperture;
  args.UnmapApertureSegment.OffsetInPages = 7;
  args.UnmapApertureSegment.NumberOfPages = 2;
  args.UnmapApertureSegment.DummyPage.QuadPart = 0x8000;
  const auto unmap = command_at<SgpuUnmapAperture>(build(args), 0, SGPU_OP_UNMAP_APERTURE);
  EXPECT_EQ(unmap.first_page, 7U);
  EXPECT_EQ(unmap.page_count, 2U);
}

TEST_P(GpuVaPaging, NoticesNeedNoBuffer) {
  for (const UINT buffer : {0U, 8U, kDmaBytes}) {
    DXGKARG_BUILDPAGINGBUFFER args = {};
    args.Operation = DXGK_OPERATION_NOTIFY_RESIDENCY;
    args.NotifyResidency.Resident = 1;
    args.NotifyResidency.PhysicalAddress = place(kSegmentVram, 0x1000);
    Built built = build_once(args, buffer);
    EXPECT_EQ(built.status, STATUS_SUCCESS);
    EXPECT_TRUE(built.bytes.empty());
    args = {};
    args.Operation = DXGK_OPERATION_DISCARD_CONTENT;
    built = build_once(args, buffer);
    EXPECT_EQ(built.status, STATUS_SUCCESS);
    EXPECT_TRUE(built.bytes.empty());
  }
}

SOFTGPU_ALL_MODELS(GpuVaPaging);

}  // namespace
}  // namespace softgpu
