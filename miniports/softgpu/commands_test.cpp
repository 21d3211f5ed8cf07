// What hostile and honest command buffers become, on the host: the same sources the driver has.
#include "miniports/softgpu/commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/covers.h"

namespace softgpu {
namespace {

// A user command must be the hardware command with references for addresses.
static_assert(SGPU_UMD_OP_FENCE_WRITE == SGPU_OP_FENCE_WRITE && SGPU_UMD_OP_COPY == SGPU_OP_COPY &&
              SGPU_UMD_OP_FILL == SGPU_OP_FILL && SGPU_UMD_OP_BLIT2D == SGPU_OP_BLIT2D &&
              SGPU_UMD_OP_CONVOLVE == SGPU_OP_CONVOLVE && SGPU_UMD_OP_DELAY == SGPU_OP_DELAY &&
              SGPU_UMD_OP_DOWNSCALE == SGPU_OP_DOWNSCALE &&
              SGPU_UMD_OP_CHECKSUM == SGPU_OP_CHECKSUM &&
              SGPU_UMD_OP_SEM_WAIT == SGPU_OP_SEM_WAIT &&
              SGPU_UMD_OP_SEM_SIGNAL == SGPU_OP_SEM_SIGNAL);
#define SGPU_SAME(user, user_field, hardware, field) \
  static_assert(sizeof(user) == sizeof(hardware) &&  \
                offsetof(user, user_field) == offsetof(hardware, field))
SGPU_SAME(SgpuUmdFence, width, SgpuFenceWrite, width);
SGPU_SAME(SgpuUmdCopy, size_bytes, SgpuCopy, size);
SGPU_SAME(SgpuUmdFill, pattern, SgpuFill, pattern);
SGPU_SAME(SgpuUmdBlit2d, height, SgpuBlit2d, height);
SGPU_SAME(SgpuUmdConvolve, flags, SgpuConvolve, flags);
SGPU_SAME(SgpuUmdConvolve, kernel2, SgpuConvolve, kernel2);
SGPU_SAME(SgpuUmdDownscale, source_height, SgpuDownscale, source_height);
SGPU_SAME(SgpuUmdChecksum, kind, SgpuChecksum, kind);
SGPU_SAME(SgpuUmdDelay, duration_ns, SgpuDelay, duration_ns);
static_assert(offsetof(SgpuFenceWrite, address) == 8 && offsetof(SgpuFill, destination) == 8 &&
              offsetof(SgpuCopy, destination) == 16 && offsetof(SgpuBlit2d, destination) == 16 &&
              offsetof(SgpuConvolve, destination) == 16 &&
              offsetof(SgpuDownscale, destination) == 16 && offsetof(SgpuChecksum, result) == 16);
// What crosses the boundary to user mode keeps its size.
static_assert(sizeof(SgpuUmdAdapterInfo) == 48 && sizeof(SgpuUmdAllocation) == 40 &&
              sizeof(SgpuUmdContext) == 16 && sizeof(SgpuUmdBufferHeader) == 16 &&
              sizeof(SgpuUmdReference) == 8 && sizeof(SgpuUmdCommand) == 8 &&
              sizeof(SgpuUmdNodeState) == 32 && sizeof(SgpuUmdEscape) == 144);

constexpr UCHAR kCanary = 0xA5;
constexpr UINT64 kAllocationBytes = 1 << 20;

NTSTATUS read_plain(void* to, const void* from, SIZE_T bytes) {
  std::memcpy(to, from, bytes);
  return STATUS_SUCCESS;
}
NTSTATUS read_nothing(void* to, const void*, SIZE_T bytes) {
  std::memset(to, 0, bytes);
  return STATUS_INVALID_USER_BUFFER;
}

/// A command buffer being written, as user mode writes it.
class UserBuffer {
 public:
  UserBuffer() : bytes_(sizeof(SgpuUmdBufferHeader)) {}

  template <typename Command>
  UserBuffer& add(UINT opcode, Command command) {
    command.header.opcode = opcode;
    command.header.size_bytes = sizeof(command);
    const auto* raw = reinterpret_cast<const UCHAR*>(&command);
    starts_.push_back(static_cast<UINT>(bytes_.size()));
    bytes_.insert(bytes_.end(), raw, raw + sizeof(command));
    finish();
    return *this;
  }
  void finish() {
    const SgpuUmdBufferHeader header = {SGPU_UMD_BUFFER_MAGIC, SGPU_UMD_VERSION,
                                        static_cast<UINT>(bytes_.size()), 0};
    std::memcpy(bytes_.data(), &header, sizeof(header));
  }
  std::vector<UCHAR>& bytes() { return bytes_; }
  const std::vector<UINT>& starts() const { return starts_; }

 private:
  std::vector<UCHAR> bytes_;
  std::vector<UINT> starts_;
};

SgpuUmdCopy copy_command(UINT source, UINT source_offset, UINT destination, UINT offset,
                         UINT64 bytes) {
  SgpuUmdCopy c = {};
  c.source = {source, source_offset};
  c.destination = {destination, offset};
  c.size_bytes = bytes;
  return c;
}
SgpuUmdFill fill_command(UINT destination, UINT offset, UINT64 bytes) {
  SgpuUmdFill c = {};
  c.destination = {destination, offset};
  c.size_bytes = bytes;
  c.pattern = 0x11223344;
  return c;
}
SgpuUmdConvolve convolve_command() {
  SgpuUmdConvolve c = {};
  c.source = {0, 0};
  c.destination = {1, 0};
  c.source_pitch = 256;
  c.destination_pitch = 256;
  c.source_width = 64;
  c.source_height = 64;
  c.output_x = 1;
  c.output_y = 1;
  c.output_width = 62;
  c.output_height = 62;
  c.kernel_width = 3;
  c.kernel_height = 3;
  c.divisor = 16;
  return c;
}
SgpuUmdDownscale downscale_command() {
  SgpuUmdDownscale c = {};
  c.source = {0, 0};
  c.destination = {1, 0};
  c.source_pitch = 256;
  c.destination_pitch = 128;
  c.source_width = 63;
  c.source_height = 63;
  return c;
}
SgpuUmdBlit2d blit_command() {
  SgpuUmdBlit2d c = {};
  c.source = {0, 4};
  c.destination = {1, 8};
  c.source_pitch = 512;
  c.destination_pitch = 300;
  c.width_bytes = 300;
  c.height = 10;
  return c;
}
SgpuUmdChecksum checksum_command() {
  SgpuUmdChecksum c = {};
  c.source = {0, 3};
  c.result = {1, 16};
  c.pitch = 100;
  c.width_bytes = 99;
  c.height = 7;
  return c;
}
SgpuUmdFence fence_command(UINT width) {
  SgpuUmdFence c = {};
  c.memory = {2, 64};
  c.value = 7;
  c.width = width;
  return c;
}
SgpuUmdDelay delay_command() {
  SgpuUmdDelay c = {};
  c.duration_ns = 5;
  return c;
}

/// One of each, all valid.
UserBuffer every_command() {
  UserBuffer user;
  user.add(SGPU_UMD_OP_COPY, copy_command(0, 16, 1, 4096, 100))
      .add(SGPU_UMD_OP_FILL, fill_command(2, 4, 400))
      .add(SGPU_UMD_OP_BLIT2D, blit_command())
      .add(SGPU_UMD_OP_CONVOLVE, convolve_command())
      .add(SGPU_UMD_OP_DELAY, delay_command())
      .add(SGPU_UMD_OP_DOWNSCALE, downscale_command())
      .add(SGPU_UMD_OP_CHECKSUM, checksum_command())
      .add(SGPU_UMD_OP_FENCE_WRITE, fence_command(4))
      .add(SGPU_UMD_OP_SEM_WAIT, fence_command(8))
      .add(SGPU_UMD_OP_SEM_SIGNAL, fence_command(8));
  return user;
}

/// Kernel-side memory of one Render call, with canaries behind the two outputs.
class Call {
 public:
  Call(UINT dma_bytes, UINT patch_capacity)
      : dma_(dma_bytes + kGuard, kCanary),
        patches_((patch_capacity + kGuardPatches) * sizeof(D3DDDI_PATCHLOCATIONLIST), kCanary) {
    job_.read = read_plain;
    job_.node = SGPU_NODE_3D;
    job_.dma = dma_.data();
    job_.dma_size = dma_bytes;
    job_.patches = reinterpret_cast<D3DDDI_PATCHLOCATIONLIST*>(patches_.data());
    job_.patch_capacity = patch_capacity;
  }

  TranslateJob& job() { return job_; }
  NTSTATUS run(const std::vector<UCHAR>& user, const std::vector<DXGK_ALLOCATIONLIST>& list) {
    job_.command = user.data();
    job_.command_length = static_cast<UINT>(user.size());
    job_.allocations = list.data();
    job_.allocation_count = static_cast<UINT>(list.size());
    return translate(&job_);
  }
  bool guards_intact() const {
    const auto is_canary = [](UCHAR byte) { return byte == kCanary; };
    return std::all_of(dma_.begin() + job_.dma_size, dma_.end(), is_canary) &&
           std::all_of(patches_.begin() + static_cast<ptrdiff_t>(job_.patch_capacity *
                                                                 sizeof(D3DDDI_PATCHLOCATIONLIST)),
                       patches_.end(), is_canary);
  }
  std::vector<UCHAR> dma() const { return {dma_.begin(), dma_.begin() + job_.dma_used}; }
  std::vector<D3DDDI_PATCHLOCATIONLIST> patches() const {
    return {job_.patches, job_.patches + job_.patch_count};
  }

 private:
  static constexpr UINT kGuard = 512;
  static constexpr UINT kGuardPatches = 4;
  TranslateJob job_ = {};
  std::vector<UCHAR> dma_;
  std::vector<UCHAR> patches_;
};

class Commands : public ::testing::Test {
 protected:
  Commands() : opened_(4), list_(4) {
    for (size_t i = 0; i < list_.size(); ++i) {
      opened_[i] = {kAllocationBytes, &opened_[i]};
      list_[i] = {};
      list_[i].hDeviceSpecificAllocation = &opened_[i];
      list_[i].WriteOperation = 1;
    }
  }
  void place(size_t index, UINT segment, UINT64 address) {
    list_[index].SegmentId = segment & 0x1F;
    list_[index].PhysicalAddress.QuadPart = static_cast<LONGLONG>(address);
  }
  void place_all() {
    place(0, 1, SGPU_VRAM_BASE + 0x100000);
    place(1, 2, SGPU_APERTURE_BASE + 0x200000);
    place(2, 1, SGPU_VRAM_BASE + 0x300000);
    place(3, 1, SGPU_VRAM_BASE + 0x400000);
  }
  UINT64 address_of(const D3DDDI_PATCHLOCATIONLIST& location) const {
    return static_cast<UINT64>(list_[location.AllocationIndex].PhysicalAddress.QuadPart) +
           location.AllocationOffset;
  }
  /// Refused, and nothing left behind that the driver could hand on.
  void expect_refused(UserBuffer& user, NTSTATUS status, const char* why) {
    Call call(4096, 64);
    EXPECT_EQ(call.run(user.bytes(), list_), status) << why;
    EXPECT_TRUE(call.guards_intact()) << why;
    EXPECT_EQ(call.job().multipass_offset, 0U) << why;
  }

  std::vector<OpenAllocation> opened_;
  std::vector<DXGK_ALLOCATIONLIST> list_;
};

UINT64 word_at(const std::vector<UCHAR>& bytes, UINT offset) {
  UINT64 word;
  std::memcpy(&word, bytes.data() + offset, sizeof(word));
  return word;
}

TEST_F(Commands, AddressesOfPlacedAllocationsAreWrittenAtOnceAndAllAreListed) {
  place(0, 1, SGPU_VRAM_BASE + 0x1000);  // the other one is not in a segment
  UserBuffer user;
  user.add(SGPU_UMD_OP_COPY, copy_command(0, 0x30, 1, 0x40, 256));
  Call call(4096, 64);
  ASSERT_EQ(call.run(user.bytes(), list_), STATUS_SUCCESS);
  ASSERT_EQ(call.dma().size(), sizeof(SgpuCopy));
  SgpuCopy copy;
  std::memcpy(&copy, call.dma().data(), sizeof(copy));
  EXPECT_EQ(copy.header.opcode, SGPU_OP_COPY);
  EXPECT_EQ(copy.source, SGPU_VRAM_BASE + 0x1030);
  EXPECT_EQ(copy.destination, kUnpatched);
  EXPECT_EQ(copy.size, 256U);

  const auto patches = call.patches();
  ASSERT_EQ(patches.size(), 2U);
  EXPECT_EQ(patches[0].AllocationIndex, 0U);
  EXPECT_EQ(patches[0].AllocationOffset, 0x30U);
  EXPECT_EQ(patches[0].PatchOffset, offsetof(SgpuCopy, source));
  EXPECT_EQ(patches[0].SlotId, 0U);
  EXPECT_EQ(patches[1].AllocationIndex, 1U);
  EXPECT_EQ(patches[1].AllocationOffset, 0x40U);
  EXPECT_EQ(patches[1].PatchOffset, offsetof(SgpuCopy, destination));
  EXPECT_EQ(patches[1].SlotId, 1U);
}

TEST_F(Commands, EveryCommandBindsEverySlotAndSplitsInOrder) {
  // A part that starts at any split offset must not rely on, or leak, a binding of an earlier part.
  UserBuffer user = every_command();
  Call call(4096, 64);
  ASSERT_EQ(call.run(user.bytes(), list_), STATUS_SUCCESS);
  UINT last_split = 0;
  UINT bound = 0;
  for (const D3DDDI_PATCHLOCATIONLIST& location : call.patches()) {
    ASSERT_LT(UINT{location.SlotId}, kSlots);
    EXPECT_GE(location.SplitOffset, last_split);
    if (location.SplitOffset != last_split) {
      EXPECT_EQ(bound, (1U << kSlots) - 1) << "command at " << last_split;
      bound = 0;
    }
    bound |= 1U << location.SlotId;
    last_split = location.SplitOffset;
  }
  EXPECT_EQ(bound, (1U << kSlots) - 1);
}

TEST_F(Commands, PatchingAnUnplacedBufferGivesWhatPrepatchingGives) {
  UserBuffer user = every_command();
  Call early(4096, 64);
  Call late(4096, 64);
  ASSERT_EQ(late.run(user.bytes(), list_), STATUS_SUCCESS);
  std::vector<UCHAR> patched = late.dma();
  const auto patches = late.patches();
  place_all();
  ASSERT_EQ(early.run(user.bytes(), list_), STATUS_SUCCESS);

  PatchJob job = {};
  job.dma = patched.data();
  job.end = static_cast<UINT>(patched.size());
  job.allocations = list_.data();
  job.allocation_count = static_cast<UINT>(list_.size());
  job.patches = patches.data();
  job.patch_count = static_cast<UINT>(patches.size());
  job.length = job.patch_count;
  ASSERT_EQ(patch(job), STATUS_SUCCESS);
  EXPECT_EQ(patched, early.dma());

  const std::vector<UCHAR> once = patched;
  ASSERT_EQ(patch(job), STATUS_SUCCESS);
  EXPECT_EQ(patched, once) << "patching again changed something";

  place(0, 1, SGPU_VRAM_BASE + 0x700000);  // moved while preempted
  ASSERT_EQ(patch(job), STATUS_SUCCESS);
  for (const auto& location : patches) {
    EXPECT_EQ(word_at(patched, location.PatchOffset), address_of(location));
  }
}

TEST_F(Commands, PatchTouchesItsSliceOnlyEvenIfBufferAndListsBeginEarlier) {
  UserBuffer user = every_command();
  Call call(4096, 64);
  ASSERT_EQ(call.run(user.bytes(), list_), STATUS_SUCCESS);
  place_all();
  const auto patches = call.patches();
  // Every pair of commands as a slice.
  for (UINT first = 0; first < patches.size(); first += kSlots) {
    for (UINT last = first; last < patches.size(); last += kSlots) {
      std::vector<UCHAR> dma = call.dma();
      const std::vector<UCHAR> before = dma;
      PatchJob job = {};
      job.dma = dma.data();
      job.start = patches[first].SplitOffset;
      job.end = last + kSlots < patches.size() ? patches[last + kSlots].SplitOffset
                                               : static_cast<UINT>(dma.size());
      job.allocations = list_.data();
      job.allocation_count = static_cast<UINT>(list_.size());
      job.patches = patches.data();
      job.patch_count = static_cast<UINT>(patches.size());
      job.first = first;
      job.length = last + kSlots - first;
      ASSERT_EQ(patch(job), STATUS_SUCCESS);
      EXPECT_TRUE(std::equal(dma.begin(), dma.begin() + job.start, before.begin()));
      EXPECT_TRUE(std::equal(dma.begin() + job.end, dma.end(), before.begin() + job.end));
      for (UINT i = 0; i < patches.size(); ++i) {
        const bool inside = i >= first && i < first + job.length;
        EXPECT_EQ(word_at(dma, patches[i].PatchOffset),
                  inside ? address_of(patches[i]) : kUnpatched);
      }
    }
  }
}

TEST_F(Commands, PatchRefusesPlacesOutsideTheSliceAndTheAllocationList) {
  UserBuffer user = every_command();
  Call call(4096, 64);
  ASSERT_EQ(call.run(user.bytes(), list_), STATUS_SUCCESS);
  place_all();
  std::vector<UCHAR> dma = call.dma();
  const std::vector<UCHAR> before = dma;
  const D3DDDI_PATCHLOCATIONLIST good = call.patches()[0];
  const auto refused = [&](D3DDDI_PATCHLOCATIONLIST location, UINT start, UINT end) {
    PatchJob job = {};
    job.dma = dma.data();
    job.start = start;
    job.end = end;
    job.allocations = list_.data();
    job.allocation_count = static_cast<UINT>(list_.size());
    job.patches = &location;
    job.patch_count = 1;
    job.length = 1;
    return patch(job) == STATUS_INVALID_PARAMETER && dma == before;
  };
  const UINT all = static_cast<UINT>(dma.size());
  auto bad = good;
  bad.AllocationIndex = 4;
  EXPECT_TRUE(refused(bad, 0, all)) << "behind the allocation list";
  bad = good;
  bad.PatchOffset = all - 7;
  EXPECT_TRUE(refused(bad, 0, all)) << "ends behind the buffer";
  bad.PatchOffset = all;
  EXPECT_TRUE(refused(bad, 0, all)) << "behind the buffer";
  bad.PatchOffset = 0xFFFFFFF8;
  EXPECT_TRUE(refused(bad, 0, all)) << "wraps";
  EXPECT_TRUE(refused(good, good.PatchOffset + 1, all)) << "begins before the slice";
  EXPECT_TRUE(refused(good, 0, good.PatchOffset + 7)) << "ends behind the slice";
  EXPECT_TRUE(refused(good, 0, 7)) << "a slice without room for any";
}

TEST_F(Commands, AnUnboundSlotIsLeftAlone) {
  UserBuffer user;
  user.add(SGPU_UMD_OP_FILL, fill_command(0, 0, 64));
  Call call(4096, 64);
  ASSERT_EQ(call.run(user.bytes(), list_), STATUS_SUCCESS);
  std::vector<UCHAR> dma = call.dma();
  const std::vector<UCHAR> before = dma;
  const auto patches = call.patches();
  place_all();
  list_[0].hDeviceSpecificAllocation = nullptr;
  PatchJob job = {};
  job.dma = dma.data();
  job.end = static_cast<UINT>(dma.size());
  job.allocations = list_.data();
  job.allocation_count = static_cast<UINT>(list_.size());
  job.patches = patches.data();
  job.patch_count = job.length = static_cast<UINT>(patches.size());
  EXPECT_EQ(patch(job), STATUS_SUCCESS);
  EXPECT_EQ(dma, before);
}

TEST_F(Commands, PassesAtEveryBufferSizeJoinToTheSameCommands) {
  place_all();
  UserBuffer user = every_command();
  Call whole(4096, 64);
  ASSERT_EQ(whole.run(user.bytes(), list_), STATUS_SUCCESS);
  const UINT total = whole.job().dma_used;
  const UINT largest = sizeof(SgpuConvolve);
  for (UINT size = 0; size <= total; ++size) {
    for (const UINT capacity : {0U, 1U, 2U, 3U, 5U, 64U}) {
      std::vector<UCHAR> joined;
      std::vector<D3DDDI_PATCHLOCATIONLIST> joined_patches;
      UINT offset = 0;
      NTSTATUS status;
      do {
        Call call(size, capacity);
        call.job().multipass_offset = offset;
        status = call.run(user.bytes(), list_);
        ASSERT_TRUE(call.guards_intact());
        if (status == STATUS_NO_MEMORY) break;
        ASSERT_LE(call.job().dma_used, size);
        ASSERT_LE(call.job().patch_count, capacity);
        if (status == STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER) {
          ASSERT_GT(call.job().multipass_offset, offset) << "no progress: the kernel would loop";
        }
        for (D3DDDI_PATCHLOCATIONLIST location : call.patches()) {
          location.PatchOffset += static_cast<UINT>(joined.size());
          location.SplitOffset += static_cast<UINT>(joined.size());
          joined_patches.push_back(location);
        }
        const auto part = call.dma();
        joined.insert(joined.end(), part.begin(), part.end());
        offset = call.job().multipass_offset;
      } while (status == STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
      if (size < largest || capacity < kSlots) {
        EXPECT_EQ(status, STATUS_NO_MEMORY) << size << ' ' << capacity;
        continue;
      }
      ASSERT_EQ(status, STATUS_SUCCESS) << size << ' ' << capacity;
      EXPECT_EQ(joined, whole.dma());
      ASSERT_EQ(joined_patches.size(), whole.patches().size());
      EXPECT_EQ(std::memcmp(joined_patches.data(), whole.patches().data(),
                            joined_patches.size() * sizeof(D3DDDI_PATCHLOCATIONLIST)),
                0);
    }
  }
}

TEST_F(Commands, RefusesWithTheDocumentedStatus) {
  const auto broken = [this](NTSTATUS status, const char* why, auto change) {
    UserBuffer user = every_command();
    change(user);
    expect_refused(user, status, why);
  };
  const auto header_of = [](UserBuffer& user) {
    return reinterpret_cast<SgpuUmdBufferHeader*>(user.bytes().data());
  };
  broken(STATUS_GRAPHICS_DRIVER_MISMATCH, "magic", [&](auto& u) { header_of(u)->magic ^= 1; });
  broken(STATUS_GRAPHICS_DRIVER_MISMATCH, "version", [&](auto& u) { header_of(u)->version = 9; });
  broken(STATUS_INVALID_PARAMETER, "flags", [&](auto& u) { header_of(u)->flags = 1; });
  broken(STATUS_INVALID_PARAMETER, "odd size", [&](auto& u) { header_of(u)->size_bytes -= 4; });
  broken(STATUS_INVALID_USER_BUFFER, "too long", [&](auto& u) { header_of(u)->size_bytes += 8; });
  broken(STATUS_INVALID_USER_BUFFER, "no header", [&](auto& u) { header_of(u)->size_bytes = 8; });
  broken(STATUS_INVALID_USER_BUFFER, "cut off", [&](auto& u) { header_of(u)->size_bytes -= 8; });
  broken(STATUS_INVALID_USER_BUFFER, "nothing", [&](auto& u) { u.bytes().resize(8); });

  const auto one = [this](NTSTATUS status, const char* why, UINT opcode, auto command) {
    UserBuffer user;
    user.add(opcode, command);
    expect_refused(user, status, why);
  };
  one(STATUS_ILLEGAL_INSTRUCTION, "unknown opcode", SGPU_OP_COUNT, delay_command());
  for (const UINT opcode : {SGPU_OP_NOP, SGPU_OP_END, SGPU_OP_COPY_PAGES, SGPU_OP_MAP_APERTURE,
                            SGPU_OP_UNMAP_APERTURE}) {
    one(STATUS_PRIVILEGED_INSTRUCTION, "the kernel's", opcode, delay_command());
  }
  one(STATUS_INVALID_PARAMETER, "wrong size", SGPU_UMD_OP_COPY, blit_command());
  one(STATUS_INVALID_HANDLE, "index", SGPU_UMD_OP_COPY, copy_command(4, 0, 1, 0, 8));
  one(STATUS_INVALID_HANDLE, "index", SGPU_UMD_OP_COPY, copy_command(0xFFFFFFFF, 0, 1, 0, 8));
  one(STATUS_INVALID_USER_BUFFER, "end", SGPU_UMD_OP_COPY,
      copy_command(0, 8, 1, 0, kAllocationBytes - 7));
  one(STATUS_INVALID_USER_BUFFER, "wraps", SGPU_UMD_OP_COPY,
      copy_command(0, 0xFFFFFFFF, 1, 0, 0xFFFFFFFFFFFFFFFF));
  one(STATUS_INVALID_PARAMETER, "empty", SGPU_UMD_OP_COPY, copy_command(0, 0, 1, 0, 0));
  one(STATUS_INVALID_PARAMETER, "alignment", SGPU_UMD_OP_FILL, fill_command(0, 2, 8));
  one(STATUS_INVALID_PARAMETER, "size", SGPU_UMD_OP_FILL, fill_command(0, 0, 6));
  auto blit = blit_command();
  blit.height = 0;
  one(STATUS_INVALID_PARAMETER, "rows", SGPU_UMD_OP_BLIT2D, blit);
  blit = blit_command();
  blit.destination_pitch = 299;
  one(STATUS_INVALID_PARAMETER, "pitch", SGPU_UMD_OP_BLIT2D, blit);
  blit = blit_command();
  blit.height = 0xFFFFFFFF;
  blit.source_pitch = 0xFFFFFFFF;
  one(STATUS_INVALID_USER_BUFFER, "huge", SGPU_UMD_OP_BLIT2D, blit);
  auto convolve = convolve_command();
  convolve.destination = {0, 4096};
  one(STATUS_INVALID_PARAMETER, "overlap", SGPU_UMD_OP_CONVOLVE, convolve);
  convolve = convolve_command();
  convolve.output_x = 3;
  one(STATUS_INVALID_PARAMETER, "outside", SGPU_UMD_OP_CONVOLVE, convolve);
  convolve = convolve_command();
  convolve.kernel_width = 9;
  one(STATUS_INVALID_PARAMETER, "kernel", SGPU_UMD_OP_CONVOLVE, convolve);
  convolve = convolve_command();
  convolve.divisor = 0;
  one(STATUS_INVALID_PARAMETER, "divisor", SGPU_UMD_OP_CONVOLVE, convolve);
  one(STATUS_INVALID_PARAMETER, "width", SGPU_UMD_OP_SEM_WAIT, fence_command(2));
  auto fence = fence_command(8);
  fence.memory.offset = 4;
  one(STATUS_INVALID_PARAMETER, "alignment", SGPU_UMD_OP_FENCE_WRITE, fence);
  auto delay = delay_command();
  delay.duration_ns = SGPU_UMD_DELAY_MAX_NS + 1;
  one(STATUS_INVALID_PARAMETER, "delay", SGPU_UMD_OP_DELAY, delay);

  list_[1].WriteOperation = 0;
  one(STATUS_INVALID_PARAMETER, "read only", SGPU_UMD_OP_COPY, copy_command(0, 0, 1, 0, 8));
  list_[1].hDeviceSpecificAllocation = nullptr;
  one(STATUS_INVALID_HANDLE, "empty entry", SGPU_UMD_OP_COPY, copy_command(0, 0, 1, 0, 8));
}

TEST_F(Commands, OneAllocationListedTwiceStillOverlaps) {
  OpenAllocation again = opened_[0];
  list_[1].hDeviceSpecificAllocation = &again;  // another open of the same memory
  UserBuffer user;
  user.add(SGPU_UMD_OP_DOWNSCALE, downscale_command());
  expect_refused(user, STATUS_INVALID_PARAMETER, "overlap under two handles");
}

TEST_F(Commands, TheCopyNodeRunsNoImageCommands) {
  UserBuffer user;
  user.add(SGPU_UMD_OP_DOWNSCALE, downscale_command());
  Call call(4096, 64);
  call.job().node = SGPU_NODE_COPY;
  EXPECT_EQ(call.run(user.bytes(), list_), STATUS_ILLEGAL_INSTRUCTION);
  UserBuffer copy;
  copy.add(SGPU_UMD_OP_COPY, copy_command(0, 0, 1, 0, 8));
  EXPECT_EQ(call.run(copy.bytes(), list_), STATUS_SUCCESS);
}

TEST_F(Commands, AnUnreadableBufferIsTheCallersFault) {
  UserBuffer user = every_command();
  Call call(4096, 64);
  call.job().read = read_nothing;
  EXPECT_EQ(call.run(user.bytes(), list_), STATUS_INVALID_USER_BUFFER);
}

UINT g_header_reads = 0;
/// User mode turns the command into MAP_APERTURE between the check and the copy.
NTSTATUS read_swapped(void* to, const void* from, SIZE_T bytes) {
  std::memcpy(to, from, bytes);
  SgpuUmdCommand header;
  std::memcpy(&header, to, std::min<SIZE_T>(bytes, sizeof(header)));
  if (header.opcode != SGPU_UMD_OP_COPY || header.size_bytes != sizeof(SgpuUmdCopy)) {
    return STATUS_SUCCESS;
  }
  if (++g_header_reads > 1) {
    header.opcode = SGPU_OP_MAP_APERTURE;
    std::memcpy(to, &header, sizeof(header));
  }
  return STATUS_SUCCESS;
}

TEST_F(Commands, WhatWasCheckedIsWhatRunsEvenIfItChangesInBetween) {
  UserBuffer user;
  user.add(SGPU_UMD_OP_COPY, copy_command(0, 0, 1, 0, 8));
  Call call(4096, 64);
  call.job().read = read_swapped;
  g_header_reads = 0;
  ASSERT_EQ(call.run(user.bytes(), list_), STATUS_SUCCESS);
  EXPECT_EQ(g_header_reads, 2U);
  SgpuCommandHeader header;
  std::memcpy(&header, call.dma().data(), sizeof(header));
  EXPECT_EQ(header.opcode, SGPU_OP_COPY);
}

std::mt19937_64* g_racing = nullptr;
/// User mode on another processor: what is read is not always what was read before.
NTSTATUS read_racing(void* to, const void* from, SIZE_T bytes) {
  std::memcpy(to, from, bytes);
  if ((*g_racing)() % 4 == 0 && bytes >= 4) {
    const size_t word = (*g_racing)() % (bytes / 4) * 4;
    const auto value = static_cast<UINT>((*g_racing)() % 0x200000);
    std::memcpy(static_cast<UCHAR*>(to) + word, &value, sizeof(value));
  }
  return STATUS_SUCCESS;
}

/// What the hardware would do with one command: every range it touches, from its fields alone.
struct Touched {
  UINT64 address, bytes;
  bool written;
};
std::vector<Touched> touched_by(const UCHAR* command) {
  SgpuCommandHeader header;
  std::memcpy(&header, command, sizeof(header));
  const auto as = [command](auto* out) { std::memcpy(out, command, sizeof(*out)); };
  const auto rect = [](UINT64 pitch, UINT64 row, UINT64 rows) { return (rows - 1) * pitch + row; };
  switch (header.opcode) {
    case SGPU_OP_FENCE_WRITE:
    case SGPU_OP_SEM_SIGNAL:
    case SGPU_OP_SEM_WAIT: {
      SgpuFenceWrite c;
      as(&c);
      return {{c.address, c.width, header.opcode != SGPU_OP_SEM_WAIT}};
    }
    case SGPU_OP_COPY: {
      SgpuCopy c;
      as(&c);
      return {{c.source, c.size, false}, {c.destination, c.size, true}};
    }
    case SGPU_OP_FILL: {
      SgpuFill c;
      as(&c);
      return {{c.destination, c.size, true}};
    }
    case SGPU_OP_BLIT2D: {
      SgpuBlit2d c;
      as(&c);
      return {{c.source, rect(c.source_pitch, c.width_bytes, c.height), false},
              {c.destination, rect(c.destination_pitch, c.width_bytes, c.height), true}};
    }
    case SGPU_OP_CONVOLVE: {
      SgpuConvolve c;
      as(&c);
      return {{c.source, rect(c.source_pitch, UINT64{4} * c.source_width, c.source_height), false},
              {c.destination,
               rect(c.destination_pitch, UINT64{4} * c.output_width, c.output_height), true}};
    }
    case SGPU_OP_DOWNSCALE: {
      SgpuDownscale c;
      as(&c);
      return {{c.source, rect(c.source_pitch, UINT64{4} * c.source_width, c.source_height), false},
              {c.destination,
               rect(c.destination_pitch, UINT64{4} * ((c.source_width + 1) / 2),
                    (c.source_height + 1) / 2),
               true}};
    }
    case SGPU_OP_CHECKSUM: {
      SgpuChecksum c;
      as(&c);
      return {{c.source, rect(c.pitch, c.width_bytes, c.height), false}, {c.result, 8, true}};
    }
    default:
      return {};
  }
}

TEST_F(Commands, NoMutationOfAValidBufferEscapesItsAllocations) {
  // Two million random words would find a missing check only by luck, so the mutations go where
  // fields are: whole words of valid commands, with values near the limits.
  std::mt19937_64 random(20261121);
  g_racing = &random;
  place_all();
  list_[3].WriteOperation = 0;
  const std::vector<UINT> interesting = {
      0,    1,       2,        3,        4,          7,          8,          63,
      4096, 0xFFFFF, 0x100000, 0x100001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF};
  UINT accepted = 0;
  UINT refused = 0;
  for (int round = 0; round < 60000; ++round) {
    UserBuffer user = every_command();
    std::vector<UCHAR>& bytes = user.bytes();
    const size_t mutations = random() % 4;
    for (size_t i = 0; i < mutations; ++i) {
      const size_t at = random() % (bytes.size() / 4) * 4;
      const UINT value = random() % 3 == 0 ? static_cast<UINT>(random())
                                           : interesting[random() % interesting.size()];
      std::memcpy(bytes.data() + at, &value, sizeof(value));
    }
    Call call(static_cast<UINT>(random() % 1024), static_cast<UINT>(random() % 24));
    call.job().read = round % 2 == 0 ? read_plain : read_racing;
    call.job().multipass_offset =
        random() % 3 == 0 ? user.starts()[random() % user.starts().size()] : 0;
    const NTSTATUS status = call.run(bytes, list_);
    ASSERT_TRUE(call.guards_intact());
    if (status != STATUS_SUCCESS && status != STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER) {
      ++refused;
      continue;
    }
    ++accepted;
    ASSERT_LE(call.job().dma_used, call.job().dma_size);
    ASSERT_LE(call.job().patch_count, call.job().patch_capacity);
    const std::vector<UCHAR> dma = call.dma();
    for (size_t at = 0; at < dma.size();) {
      SgpuCommandHeader header;
      std::memcpy(&header, dma.data() + at, sizeof(header));
      for (const Touched& range : touched_by(dma.data() + at)) {
        const auto inside = [&range](const DXGK_ALLOCATIONLIST& entry) {
          const auto base = static_cast<UINT64>(entry.PhysicalAddress.QuadPart);
          return range.address >= base && range.bytes <= kAllocationBytes &&
                 range.address - base <= kAllocationBytes - range.bytes &&
                 (!range.written || entry.WriteOperation != 0);
        };
        ASSERT_TRUE(std::any_of(list_.begin(), list_.end(), inside))
            << "opcode " << header.opcode << " touches " << range.address << '+' << range.bytes;
      }
      at += header.size;
    }
    PatchJob job = {};
    std::vector<UCHAR> copy = dma;
    const auto patches = call.patches();
    job.dma = copy.data();
    job.end = static_cast<UINT>(copy.size());
    job.allocations = list_.data();
    job.allocation_count = static_cast<UINT>(list_.size());
    job.patches = patches.data();
    job.patch_count = job.length = static_cast<UINT>(patches.size());
    ASSERT_EQ(patch(job), STATUS_SUCCESS);
    ASSERT_EQ(copy, dma) << "everything was placed: patching may not change a byte";
  }
  EXPECT_GT(accepted, 5000U);
  EXPECT_GT(refused, 5000U);
}

}  // namespace
}  // namespace softgpu
