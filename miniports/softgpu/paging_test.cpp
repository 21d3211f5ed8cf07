// Paging plans, run by a model of the engine that is as simple as can be.
#include "miniports/softgpu/paging.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "tests/support/covers.h"

namespace softgpu {
namespace {

constexpr UINT kPage = SGPU_PAGE_BYTES;
constexpr UCHAR kCanary = 0xA5;

/// Memory by GPU address, and an aperture. A command that would make the engine fault fails.
class Model {
 public:
  std::map<UINT64, UCHAR> memory;
  std::map<UINT, UINT64> aperture;

  void run(const UCHAR* bytes, UINT size) {
    for (UINT at = 0; at < size;) {
      ASSERT_EQ(at % 8, 0U);
      ASSERT_GE(size - at, sizeof(SgpuCommandHeader));
      SgpuCommandHeader header;
      std::memcpy(&header, bytes + at, sizeof(header));
      ASSERT_GE(header.size, sizeof(header));
      ASSERT_LE(header.size, size - at) << "a command cut off by the end of the buffer";
      step(header, bytes + at);
      at += header.size;
    }
  }

 private:
  template <typename Command>
  static std::vector<UINT64> pages_of(const Command& command, const UCHAR* bytes) {
    EXPECT_EQ(command.header.size, sizeof(command) + command.page_count * 8);
    std::vector<UINT64> pages(command.page_count);
    std::memcpy(pages.data(), bytes + sizeof(command), pages.size() * 8);
    return pages;
  }
  void step(const SgpuCommandHeader& header, const UCHAR* bytes) {
    switch (header.opcode) {
      case SGPU_OP_COPY: {
        SgpuCopy c;
        std::memcpy(&c, bytes, sizeof(c));
        for (UINT64 i = 0; i < c.size; ++i) memory[c.destination + i] = memory[c.source + i];
        return;
      }
      case SGPU_OP_COPY_PAGES: {
        SgpuCopyPages c;
        std::memcpy(&c, bytes, sizeof(c));
        const auto pages = pages_of(c, bytes);
        ASSERT_EQ(c.page_offset, 0U);
        ASSERT_LE(c.size, UINT64{c.page_count} * kPage);
        for (UINT64 i = 0; i < c.size; ++i) {
          const UINT64 at = pages[i / kPage] + i % kPage;
          if (c.direction == SGPU_COPY_TO_PAGES) {
            memory[at] = memory[c.linear + i];
          } else {
            memory[c.linear + i] = memory[at];
          }
        }
        return;
      }
      case SGPU_OP_FILL: {
        SgpuFill c;
        std::memcpy(&c, bytes, sizeof(c));
        ASSERT_EQ(c.size % 4, 0U);
        for (UINT64 i = 0; i < c.size; ++i) {
          memory[c.destination + i] = static_cast<UCHAR>(c.pattern >> i % 4 * 8);
        }
        return;
      }
      case SGPU_OP_MAP_APERTURE: {
        SgpuMapAperture c;
        std::memcpy(&c, bytes, sizeof(c));
        const auto pages = pages_of(c, bytes);
        for (UINT i = 0; i < c.page_count; ++i) aperture[c.first_page + i] = pages[i];
        return;
      }
      case SGPU_OP_UNMAP_APERTURE: {
        SgpuUnmapAperture c;
        std::memcpy(&c, bytes, sizeof(c));
        for (UINT i = 0; i < c.page_count; ++i) aperture[c.first_page + i] = c.dummy_page;
        return;
      }
      default:
        FAIL() << "opcode " << header.opcode;
    }
  }
};

/// Builds an operation in as many buffers of `size` bytes as it takes and runs each. Returns how
/// many; 0 if a whole empty buffer made no progress.
template <typename Build>
UINT build_all(Model* model, UINT size, Build build) {
  UINT multipass = 0;
  for (UINT buffers = 1;; ++buffers) {
    std::vector<UCHAR> bytes(size + 64, kCanary);
    PagingBuffer buffer = {bytes.data(), size, 0};
    const UINT before = multipass;
    const NTSTATUS status = build(&buffer, &multipass);
    EXPECT_LE(buffer.used, size);
    for (UINT i = buffer.used; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], kCanary);
    model->run(bytes.data(), buffer.used);
    if (status == STATUS_SUCCESS) return buffers;
    EXPECT_EQ(status, STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
    if (multipass == before) return 0;
  }
}

/// Scattered frames, so that a page taken for its neighbour shows.
std::vector<PFN_NUMBER> frames(UINT count) {
  std::vector<PFN_NUMBER> result;
  for (UINT i = 0; i < count; ++i) result.push_back(0x100000 + (i * 7919) % 4096);
  return result;
}
UCHAR content(UINT64 i) { return static_cast<UCHAR>(i * 31 + i / kPage * 7); }

TEST(Paging, TransfersMoveEveryByteAtEveryBufferSize) {
  // The kernel repeats the whole operation for each pass, TransferStart included: that is the same
  // transfer going on, not a new one.
  DXGKIT_COVERS("PAGE-20");
  constexpr UINT64 kBytes = 3 * kPage - 100;
  const auto pages = frames(3);
  const TransferSide linear = {nullptr, SGPU_VRAM_BASE + 0x10000};
  const TransferSide paged = {pages.data(), 0};
  for (UINT size = sizeof(SgpuCopyPages); size <= 80; ++size) {
    for (const bool to_pages : {false, true}) {
      Model model;
      for (UINT64 i = 0; i < kBytes; ++i) {
        model.memory[to_pages ? linear.address + i : pages[i / kPage] * kPage + i % kPage] =
            content(i);
      }
      const UINT buffers = build_all(&model, size, [&](PagingBuffer* buffer, UINT* multipass) {
        return build_transfer(buffer, to_pages ? linear : paged, to_pages ? paged : linear, kBytes,
                              multipass);
      });
      if (size < sizeof(SgpuCopyPages) + 8) {
        EXPECT_EQ(buffers, 0U);
        continue;
      }
      const UINT per_buffer = (size - static_cast<UINT>(sizeof(SgpuCopyPages))) / 8;
      EXPECT_LE(buffers, (3 + per_buffer - 1) / per_buffer) << size;
      for (UINT64 i = 0; i < kBytes; ++i) {
        const UINT64 at = to_pages ? pages[i / kPage] * kPage + i % kPage : linear.address + i;
        ASSERT_EQ(model.memory[at], content(i)) << "byte " << i << ", buffer of " << size;
      }
      const UINT64 past = to_pages ? pages[2] * kPage + kBytes % kPage : linear.address + kBytes;
      EXPECT_EQ(model.memory.count(past), 0U) << "wrote past the end";
    }
  }
}

TEST(Paging, PageListsOnBothSidesMovePageByPage) {
  const auto all = frames(8);
  const TransferSide source = {all.data(), 0};
  const TransferSide destination = {all.data() + 4, 0};
  Model model;
  for (UINT64 i = 0; i < 4 * kPage; ++i)
    model.memory[all[i / kPage] * kPage + i % kPage] = content(i);
  const UINT buffers =
      build_all(&model, sizeof(SgpuCopy), [&](PagingBuffer* buffer, UINT* multipass) {
        return build_transfer(buffer, source, destination, 4 * kPage, multipass);
      });
  EXPECT_EQ(buffers, 4U);
  for (UINT64 i = 0; i < 4 * kPage; ++i) {
    ASSERT_EQ(model.memory[all[4 + i / kPage] * kPage + i % kPage], content(i));
  }
}

TEST(Paging, BetweenSegmentsOneCopyDoesIt) {
  Model model;
  model.memory[SGPU_VRAM_BASE] = 42;
  const TransferSide source = {nullptr, SGPU_VRAM_BASE};
  const TransferSide destination = {nullptr, SGPU_APERTURE_BASE + 0x5000};
  EXPECT_EQ(build_all(&model, sizeof(SgpuCopy),
                      [&](PagingBuffer* buffer, UINT* multipass) {
                        return build_transfer(buffer, source, destination, 1, multipass);
                      }),
            1U);
  EXPECT_EQ(model.memory[SGPU_APERTURE_BASE + 0x5000], 42);
}

TEST(Paging, ApertureMapsInPassesAndUnmapsToTheDummyPage) {
  const auto pages = frames(9);
  for (UINT size = sizeof(SgpuMapAperture) + 8; size <= 120; ++size) {
    Model model;
    const UINT buffers = build_all(&model, size, [&](PagingBuffer* buffer, UINT* multipass) {
      return build_map_aperture(buffer, 100, pages.data(), 9, multipass);
    });
    EXPECT_GT(buffers, 0U);
    ASSERT_EQ(model.aperture.size(), 9U);
    for (UINT i = 0; i < 9; ++i) EXPECT_EQ(model.aperture[100 + i], pages[i] * kPage);
    EXPECT_EQ(build_all(&model, size,
                        [&](PagingBuffer* buffer, UINT*) {
                          return build_unmap_aperture(buffer, 100, 9, 0x123000);
                        }),
              1U);
    ASSERT_EQ(model.aperture.size(), 9U);
    for (UINT i = 0; i < 9; ++i) EXPECT_EQ(model.aperture[100 + i], 0x123000U);
  }
}

TEST(Paging, FillsWholeWords) {
  Model model;
  EXPECT_EQ(build_all(&model, sizeof(SgpuFill),
                      [](PagingBuffer* buffer, UINT*) {
                        return build_fill(buffer, SGPU_VRAM_BASE, 10, 0x04030201);
                      }),
            1U);
  ASSERT_EQ(model.memory.size(), 12U);
  for (UINT i = 0; i < 12; ++i) EXPECT_EQ(model.memory[SGPU_VRAM_BASE + i], i % 4 + 1);
}

TEST(Paging, NothingIsWrittenWhereNothingFits) {
  UCHAR bytes[64];
  std::memset(bytes, kCanary, sizeof(bytes));
  const auto pages = frames(1);
  UINT multipass = 0;
  for (UINT size = 0; size < sizeof(SgpuMapAperture) + 8; ++size) {
    PagingBuffer buffer = {bytes, size, 0};
    EXPECT_EQ(build_map_aperture(&buffer, 0, pages.data(), 1, &multipass),
              STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
    EXPECT_EQ(build_fill(&buffer, SGPU_VRAM_BASE, 4096, 0),
              STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
    EXPECT_EQ(buffer.used, 0U);
  }
  EXPECT_EQ(multipass, 0U);
  for (const UCHAR byte : bytes) EXPECT_EQ(byte, kCanary);
}

}  // namespace
}  // namespace softgpu
