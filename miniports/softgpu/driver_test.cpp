// The driver on the host: life, objects, and what Render and paging leave where.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "miniports/softgpu/fake_world.h"

namespace softgpu {
namespace {

// --- life ---

TEST_F(Driver, StartsBothEnginesAndLeavesNothingBehind) {
  load_and_start();
  for (UINT i = 0; i < SGPU_NODE_COUNT; ++i) {
    EXPECT_TRUE(node(i).enabled);
    EXPECT_EQ(node(i).registers[SGPU_NODE_RING_SIZE], kRingEntries);
  }
  EXPECT_EQ(world.global[SGPU_REG_INT_ENABLE], SGPU_INT_ALL);
  stop_and_expect_nothing_left();
  EXPECT_FALSE(node(0).enabled);
  EXPECT_EQ(world.global[SGPU_REG_INT_ENABLE], 0U);
}

TEST_F(Driver, AFailedStartCleansUpAfterItself) {
  load();
  world.vendor = 0x1234;
  EXPECT_EQ(start(), STATUS_DEVICE_CONFIGURATION_ERROR);
  EXPECT_EQ(world.mappings, 0);
  world.vendor = SGPU_PCI_VENDOR_ID;
  node(1).answers_reset = false;
  EXPECT_EQ(start(), STATUS_IO_DEVICE_ERROR);
  EXPECT_EQ(world.contiguous, 0);
  remove_and_expect_nothing_left();
}

TEST_F(Driver, DeclaresEveryEntryOfAPatchingRenderDriver) {
  ASSERT_EQ(DriverEntry(nullptr, nullptr), STATUS_SUCCESS);
  EXPECT_EQ(table().Version, 0x4002U);
  EXPECT_NE(table().DxgkDdiRender, nullptr);
  EXPECT_NE(table().DxgkDdiRenderKm, nullptr);
  EXPECT_NE(table().DxgkDdiPatch, nullptr);
  EXPECT_NE(table().DxgkDdiCancelCommand, nullptr);
  EXPECT_NE(table().DxgkDdiGetNodeMetadata, nullptr);
  EXPECT_NE(table().DxgkDdiCollectDbgInfo, nullptr);
  EXPECT_EQ(table().DxgkDdiPresent, nullptr);
  EXPECT_EQ(table().DxgkDdiCommitVidPn, nullptr);
}

TEST_F(Driver, SegmentsComeInTwoPasses) {
  load_and_start();
  std::array<DXGK_SEGMENTDESCRIPTOR3, 2> descriptors;
  std::memset(descriptors.data(), 0xA5, sizeof(descriptors));
  DXGK_QUERYSEGMENTOUT3 out;
  std::memset(&out, 0xA5, sizeof(out));
  out.pSegmentDescriptor = nullptr;
  DXGKARG_QUERYADAPTERINFO args = {};
  args.Type = DXGKQAITYPE_QUERYSEGMENT3;
  args.pOutputData = &out;
  args.OutputDataSize = sizeof(out);
  ASSERT_EQ(table().DxgkDdiQueryAdapterInfo(world.adapter, &args), STATUS_SUCCESS);
  EXPECT_EQ(out.NbSegment, 2U);
  EXPECT_EQ(out.PagingBufferSize, 0xA5A5A5A5U) << "the first pass gives the count and nothing else";
  out.pSegmentDescriptor = descriptors.data();
  ASSERT_EQ(table().DxgkDdiQueryAdapterInfo(world.adapter, &args), STATUS_SUCCESS);
  EXPECT_EQ(out.PagingBufferSegmentId, 0U);
  EXPECT_EQ(out.PagingBufferSize, kPagingBufferBytes);
  EXPECT_EQ(descriptors[0].Flags.Value, 1U << 2) << "CpuVisible";
  EXPECT_EQ(descriptors[0].CpuTranslatedAddress.QuadPart, 0xE00000000);
  EXPECT_EQ(descriptors[0].Size, UINT64{64} << 20) << "whole pages";
  EXPECT_EQ(descriptors[0].CommitLimit, descriptors[0].Size);
  EXPECT_EQ(descriptors[1].Flags.Value, 1U << 0 | 1U << 4) << "Aperture, CacheCoherent";
  EXPECT_EQ(descriptors[1].Reserved, 0U);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, CapsFitTheBufferOfTheDeclaredVersion) {
  load_and_start();
  std::array<UCHAR, 552 + 8> bytes;
  bytes.fill(0xA5);
  DXGKARG_QUERYADAPTERINFO args = {};
  args.Type = DXGKQAITYPE_DRIVERCAPS;
  args.pOutputData = bytes.data();
  args.OutputDataSize = 551;
  EXPECT_EQ(table().DxgkDdiQueryAdapterInfo(world.adapter, &args), STATUS_BUFFER_TOO_SMALL);
  EXPECT_EQ(bytes[0], 0xA5);
  args.OutputDataSize = 552;
  EXPECT_EQ(table().DxgkDdiQueryAdapterInfo(world.adapter, &args), STATUS_SUCCESS);
  EXPECT_EQ(bytes[552], 0xA5);
  DXGK_DRIVERCAPS caps;
  std::memcpy(&caps, bytes.data(), sizeof(caps));
  EXPECT_EQ(caps.WDDMVersion, DXGKDDI_WDDMv1_3);
  EXPECT_EQ(caps.GpuEngineTopology.NbAsymetricProcessingNodes, 2U);
  EXPECT_EQ(caps.MemoryManagementCaps.PagingNode, 1U);
  DXGKARG_GETNODEMETADATA metadata;
  EXPECT_EQ(table().DxgkDdiGetNodeMetadata(world.adapter, 0, &metadata), STATUS_SUCCESS);
  EXPECT_EQ(metadata.EngineType, DXGK_ENGINE_TYPE_3D);
  EXPECT_EQ(table().DxgkDdiGetNodeMetadata(world.adapter, 2, &metadata), STATUS_INVALID_PARAMETER);
  stop_and_expect_nothing_left();
}

// --- objects, Render, paging ---

TEST_F(Driver, ACommandBufferGoesAllTheWay) {
  load_and_start();
  DXGKARG_CREATEDEVICE device = {};
  ASSERT_EQ(table().DxgkDdiCreateDevice(world.adapter, &device), STATUS_SUCCESS);
  DXGKARG_CREATECONTEXT context = {};
  context.NodeOrdinal = 2;
  EXPECT_EQ(table().DxgkDdiCreateContext(device.hDevice, &context), STATUS_INVALID_PARAMETER);
  context.NodeOrdinal = 0;
  ASSERT_EQ(table().DxgkDdiCreateContext(device.hDevice, &context), STATUS_SUCCESS);
  EXPECT_EQ(context.ContextInfo.DmaBufferSegmentSet, 0U);

  SgpuUmdAllocation request = {};
  request.magic = SGPU_UMD_ALLOCATION_MAGIC;
  request.version = SGPU_UMD_VERSION;
  request.kind = SGPU_UMD_KIND_SURFACE;
  request.width = 100;
  request.height = 10;
  DXGK_ALLOCATIONINFO info = {};
  info.pPrivateDriverData = &request;
  info.PrivateDriverDataSize = sizeof(request);
  DXGKARG_CREATEALLOCATION create = {};
  create.NumAllocations = 1;
  create.pAllocationInfo = &info;
  create.Flags.Resource = 1;
  ASSERT_EQ(table().DxgkDdiCreateAllocation(world.adapter, &create), STATUS_SUCCESS);
  EXPECT_EQ(request.pitch_bytes, 448U);
  EXPECT_EQ(info.Size, 4480U);
  EXPECT_EQ(info.SupportedWriteSegmentSet, 1U);
  EXPECT_EQ(info.Flags.Value, 0U);
  EXPECT_NE(create.hResource, nullptr);

  world.handles[0x40000001] = info.hAllocation;
  std::array<DXGK_OPENALLOCATIONINFO, 2> opens = {};
  opens[0].hAllocation = 0x40000001;
  opens[1].hAllocation = 0x40000002;
  DXGKARG_OPENALLOCATION open = {};
  open.NumAllocations = 2;
  open.pOpenAllocation = opens.data();
  EXPECT_EQ(table().DxgkDdiOpenAllocation(device.hDevice, &open), STATUS_INVALID_HANDLE);
  EXPECT_EQ(opens[0].hDeviceSpecificAllocation, nullptr);
  open.NumAllocations = 1;
  ASSERT_EQ(table().DxgkDdiOpenAllocation(device.hDevice, &open), STATUS_SUCCESS);

  struct {
    SgpuUmdBufferHeader header;
    SgpuUmdFill fill;
  } user = {};
  user.header = {SGPU_UMD_BUFFER_MAGIC, SGPU_UMD_VERSION, sizeof(user), 0};
  user.fill.header = {SGPU_UMD_OP_FILL, sizeof(user.fill)};
  user.fill.size_bytes = 4480;
  DXGK_ALLOCATIONLIST entry = {};
  entry.hDeviceSpecificAllocation = opens[0].hDeviceSpecificAllocation;
  entry.WriteOperation = 1;
  std::array<UCHAR, 256> dma = {};
  SubmissionRecord record = {0, 77, {0, 0}};  // left by the buffer's last life
  std::array<D3DDDI_PATCHLOCATIONLIST, 4> patches = {};
  DXGKARG_RENDER render = {};
  render.pCommand = &user;
  render.CommandLength = sizeof(user);
  render.pDmaBuffer = dma.data();
  render.DmaSize = sizeof(dma);
  render.pDmaBufferPrivateData = &record;
  render.DmaBufferPrivateDataSize = sizeof(record);
  render.pAllocationList = &entry;
  render.AllocationListSize = 1;
  render.pPatchLocationListOut = patches.data();
  render.PatchLocationListOutSize = 4;
  ASSERT_EQ(table().DxgkDdiRender(context.hContext, &render), STATUS_SUCCESS);
  EXPECT_EQ(render.pDmaBuffer, dma.data() + sizeof(SgpuFill));
  EXPECT_EQ(render.pDmaBufferPrivateData, &record + 1);
  EXPECT_EQ(render.pPatchLocationListOut, patches.data() + 2);
  EXPECT_EQ(record.resume_offset, 0U);

  entry.SegmentId = 1;
  entry.PhysicalAddress.QuadPart = static_cast<LONGLONG>(SGPU_VRAM_BASE + 0x7000);
  DXGKARG_PATCH patch_args = {};
  patch_args.pDmaBuffer = dma.data();
  patch_args.DmaBufferSubmissionEndOffset = sizeof(SgpuFill);
  patch_args.pAllocationList = &entry;
  patch_args.AllocationListSize = 1;
  patch_args.pPatchLocationList = patches.data();
  patch_args.PatchLocationListSize = 2;
  patch_args.PatchLocationListSubmissionLength = 2;
  ASSERT_EQ(table().DxgkDdiPatch(world.adapter, &patch_args), STATUS_SUCCESS);
  SgpuFill fill;
  std::memcpy(&fill, dma.data(), sizeof(fill));
  EXPECT_EQ(fill.destination, SGPU_VRAM_BASE + 0x7000);

  user.header.magic = 0;
  render.pDmaBuffer = dma.data();
  render.pDmaBufferPrivateData = &record;
  render.pPatchLocationListOut = patches.data();
  EXPECT_EQ(table().DxgkDdiRender(context.hContext, &render), STATUS_GRAPHICS_DRIVER_MISMATCH);
  EXPECT_EQ(render.pDmaBuffer, dma.data()) << "a refused buffer moves nothing";

  DXGKARG_CLOSEALLOCATION close = {};
  close.NumAllocations = 1;
  close.pOpenHandleList = &opens[0].hDeviceSpecificAllocation;
  EXPECT_EQ(table().DxgkDdiCloseAllocation(device.hDevice, &close), STATUS_SUCCESS);
  DXGKARG_DESTROYALLOCATION destroy = {};
  destroy.NumAllocations = 1;
  destroy.pAllocationList = &info.hAllocation;
  destroy.hResource = create.hResource;
  destroy.Flags.DestroyResource = 1;
  EXPECT_EQ(table().DxgkDdiDestroyAllocation(world.adapter, &destroy), STATUS_SUCCESS);
  EXPECT_EQ(table().DxgkDdiDestroyContext(context.hContext), STATUS_SUCCESS);
  EXPECT_EQ(table().DxgkDdiDestroyDevice(device.hDevice), STATUS_SUCCESS);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, AllocationsComeAllOrNone) {
  load_and_start();
  std::array<SgpuUmdAllocation, 3> requests = {};
  std::array<DXGK_ALLOCATIONINFO, 3> infos = {};
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].magic = SGPU_UMD_ALLOCATION_MAGIC;
    requests[i].version = SGPU_UMD_VERSION;
    requests[i].placement = SGPU_UMD_PLACE_STAGING;
    requests[i].size_bytes = 4096;
    infos[i].pPrivateDriverData = &requests[i];
    infos[i].PrivateDriverDataSize = sizeof(requests[i]);
  }
  DXGKARG_CREATEALLOCATION create = {};
  create.NumAllocations = 3;
  create.pAllocationInfo = infos.data();
  const size_t before = world.pool.size();
  const auto refused = [&](NTSTATUS status, const char* why) {
    EXPECT_EQ(table().DxgkDdiCreateAllocation(world.adapter, &create), status) << why;
    EXPECT_EQ(world.pool.size(), before) << why;
  };
  requests[2].magic = 0;
  refused(STATUS_GRAPHICS_DRIVER_MISMATCH, "magic");
  requests[2].magic = SGPU_UMD_ALLOCATION_MAGIC;
  requests[2].size_bytes = 0;
  refused(STATUS_INVALID_PARAMETER, "empty");
  requests[2].size_bytes = UINT64{SGPU_UMD_ALLOCATION_BYTES_MAX} + 1;
  refused(STATUS_INVALID_PARAMETER, "too large");
  requests[2].size_bytes = 4096;
  requests[2].placement = 3;
  refused(STATUS_INVALID_PARAMETER, "placement");
  requests[2].placement = SGPU_UMD_PLACE_ANY;
  infos[2].PrivateDriverDataSize = 8;
  refused(STATUS_INVALID_PARAMETER, "short");
  infos[2].PrivateDriverDataSize = sizeof(SgpuUmdAllocation);
  world.pool_allocations_left = 2;
  refused(STATUS_NO_MEMORY, "pool");
  stop_and_expect_nothing_left();
}

TEST_F(Driver, PagingOperationsPackAndEachTakesARecord) {
  load_and_start();
  std::array<UCHAR, 4096> dma = {};
  std::array<SubmissionRecord, 3> records = {};
  DXGKARG_BUILDPAGINGBUFFER args = {};
  args.pDmaBuffer = dma.data();
  args.DmaSize = sizeof(dma);
  args.pDmaBufferPrivateData = records.data();
  args.DmaBufferPrivateDataSize = sizeof(records);
  args.Operation = DXGK_OPERATION_FILL;
  args.Fill.FillSize = 4096;
  args.Fill.Destination.SegmentId = 1;
  args.Fill.Destination.SegmentAddress.QuadPart = static_cast<LONGLONG>(SGPU_VRAM_BASE);
  ASSERT_EQ(table().DxgkDdiBuildPagingBuffer(world.adapter, &args), STATUS_SUCCESS);
  EXPECT_EQ(args.pDmaBuffer, dma.data() + sizeof(SgpuFill));
  EXPECT_EQ(args.pDmaBufferPrivateData, &records[1]);

  struct {
    MDL mdl;
    std::array<PFN_NUMBER, 4> frames;
  } list = {{}, {0x100, 0x101, 0x205, 0x103}};
  args.DmaSize = 2048;
  args.Operation = DXGK_OPERATION_TRANSFER;
  args.Transfer = {};
  args.Transfer.TransferOffset = 0x2000;
  args.Transfer.TransferSize = 8192;
  args.Transfer.Source.SegmentId = 1;
  args.Transfer.Source.SegmentAddress.QuadPart = static_cast<LONGLONG>(SGPU_VRAM_BASE + 0x10000);
  args.Transfer.Destination.pMdl = &list.mdl;
  args.Transfer.MdlOffset = 1;
  ASSERT_EQ(table().DxgkDdiBuildPagingBuffer(world.adapter, &args), STATUS_SUCCESS);
  SgpuCopyPages copy;
  std::memcpy(&copy, dma.data() + sizeof(SgpuFill), sizeof(copy));
  EXPECT_EQ(copy.linear, SGPU_VRAM_BASE + 0x12000) << "the byte offset is the segment's";
  EXPECT_EQ(copy.direction, SGPU_COPY_TO_PAGES);
  std::array<UINT64, 2> pages;
  std::memcpy(pages.data(), dma.data() + sizeof(SgpuFill) + sizeof(copy), sizeof(pages));
  EXPECT_EQ(pages[0], 0x101000U) << "the page offset is the list's";
  EXPECT_EQ(pages[1], 0x205000U);
  EXPECT_EQ(args.pDmaBufferPrivateData, &records[2]);

  // Nothing to do leaves nothing behind.
  void* const dma_before = args.pDmaBuffer;
  args.Transfer.TransferSize = 0;
  EXPECT_EQ(table().DxgkDdiBuildPagingBuffer(world.adapter, &args), STATUS_SUCCESS);
  args.Operation = DXGK_OPERATION_DISCARD_CONTENT;
  EXPECT_EQ(table().DxgkDdiBuildPagingBuffer(world.adapter, &args), STATUS_SUCCESS);
  EXPECT_EQ(args.pDmaBuffer, dma_before);
  EXPECT_EQ(args.pDmaBufferPrivateData, &records[2]);

  // No room for a record: the kernel is to come with a fresh buffer.
  args.DmaBufferPrivateDataSize = sizeof(SubmissionRecord) - 1;
  args.Operation = DXGK_OPERATION_UNMAP_APERTURE_SEGMENT;
  EXPECT_EQ(table().DxgkDdiBuildPagingBuffer(world.adapter, &args),
            STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
  EXPECT_EQ(args.pDmaBuffer, dma_before);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, AccessesToAFewBytesTouchOneWord) {
  load_and_start();
  std::array<UCHAR, 4096> dma = {};
  std::array<SubmissionRecord, 2> records = {};
  DXGKARG_BUILDPAGINGBUFFER args = {};
  args.pDmaBuffer = dma.data();
  args.DmaSize = sizeof(dma);
  args.pDmaBufferPrivateData = records.data();
  args.DmaBufferPrivateDataSize = sizeof(records);
  args.Operation = DXGK_OPERATION_READ_PHYSICAL;
  args.ReadPhysical.SegmentId = 1;
  args.ReadPhysical.PhysicalAddress.QuadPart = static_cast<LONGLONG>(SGPU_VRAM_BASE + 0x2006);
  ASSERT_EQ(table().DxgkDdiBuildPagingBuffer(world.adapter, &args), STATUS_SUCCESS);
  SgpuCopy copy;
  std::memcpy(&copy, dma.data(), sizeof(copy));
  EXPECT_EQ(copy.header.opcode, SgpuU32{SGPU_OP_COPY});
  EXPECT_EQ(copy.source, SGPU_VRAM_BASE + 0x2004);
  EXPECT_EQ(copy.destination, SGPU_VRAM_BASE + 0x2004) << "the bytes stay as they are";
  EXPECT_EQ(copy.size, 4U);

  args.Operation = DXGK_OPERATION_WRITE_PHYSICAL;
  args.WritePhysical.SegmentId = 1;
  args.WritePhysical.PhysicalAddress.QuadPart = static_cast<LONGLONG>(SGPU_VRAM_BASE + 0x3008);
  ASSERT_EQ(table().DxgkDdiBuildPagingBuffer(world.adapter, &args), STATUS_SUCCESS);
  SgpuFill fill;
  std::memcpy(&fill, dma.data() + sizeof(copy), sizeof(fill));
  EXPECT_EQ(fill.header.opcode, SgpuU32{SGPU_OP_FILL});
  EXPECT_EQ(fill.destination, SGPU_VRAM_BASE + 0x3008);
  EXPECT_EQ(fill.size, 4U);
  EXPECT_EQ(args.pDmaBuffer, dma.data() + sizeof(copy) + sizeof(fill));
  stop_and_expect_nothing_left();
}

}  // namespace
}  // namespace softgpu
