// Memory that the verifier moves by hand: content arrives where it is sent, and what cannot be done
// changes nothing.
#include <cstring>
#include <functional>
#include <vector>

#include "dxgk/core/process.h"
#include "tests/contract/memory_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr uint64_t kPage = 4096;
using Content = std::vector<std::byte>;
using Rules = std::vector<std::string>;

Content content_of(uint64_t bytes, uint64_t seed) {
  Content content(bytes);
  fill(content.data(), bytes, seed);
  return content;
}

/// A hidden segment of 256 KiB, transfers cut at 8 KiB, a GPU that carries them out, and an
/// allocation of the client's in the first place of the segment.
struct Scene {
  Stack& stack;
  Client& client;
  MemoryGpu& gpu;
  D3DKMT_HANDLE first;
  dxgk::Exercise by_hand;

  dxgk::MemoryExercise memory() const { return by_hand.memory(); }
  /// Runs on a thread of its own while the GPU works; nothing may change.
  void refused(const char* what, Status expected, const std::function<Status()>& call) {
    SCOPED_TRACE(what);
    const Digest before = digest(stack, {&client});
    Status status = Status::kRetry;
    stack.blocking([&] { status = call(); });
    EXPECT_EQ(status, expected);
    EXPECT_EQ(digest(stack, {&client}), before);
  }
  vidmm::Placement page_in(D3DKMT_HANDLE allocation) {
    vidmm::Placement place;
    stack.blocking([&] {
      const auto placed = memory().page_in(*client.process, allocation);
      ASSERT_TRUE(placed.has_value());
      place = *placed;
    });
    return place;
  }
  Status page_out(D3DKMT_HANDLE allocation) {
    Status status = Status::kRetry;
    stack.blocking([&] { status = memory().page_out(*client.process, allocation); });
    return status;
  }
};

class MemoryExerciseTest : public ContractTest {
 protected:
  static void scene(const std::function<void(Scene&)>& body,
                    const std::function<void(ScriptedMiniport&)>& prepare = nullptr) {
    bare([&](Stack& stack) {
      stack.options.transfer_chunk_bytes = 8 * kKibibyte;
      stack.miniport.config.segments[1].size = 256 * kKibibyte;
      if (prepare) prepare(stack.miniport);
      ASSERT_EQ(stack.start(), Status::kSuccess);
      Client client(stack);
      {
        MemoryGpu gpu(stack);
        Scene it{stack, client, gpu, client.make_allocation(3 * kPage, kHidden), exercise(stack)};
        EXPECT_EQ(it.page_in(it.first).offset_bytes, 0U);
        body(it);
        EXPECT_EQ(stack.rules(), Rules{});
        stack.miniport.hooks = {};
      }
    });
  }
};

TEST_F(MemoryExerciseTest, WhatIsPagedInStaysUntilItIsPagedOut) {
  DXGKIT_COVERS("PAGE-16");
  scene([](Scene& it) {
    const uint64_t bytes = 5 * kPage;
    const D3DKMT_HANDLE second = it.client.make_allocation(bytes, kHidden);
    const vidmm::Placement place = it.page_in(second);
    EXPECT_EQ(place.segment, SegmentId{2});
    EXPECT_EQ(place.offset_bytes, 3 * kPage);
    EXPECT_EQ(place.gpu_address, kHiddenBase + 3 * kPage);
    fill(it.gpu.at(place.gpu_address), bytes, 1);
    const size_t calls = it.stack.miniport.calls().paging.size();
    EXPECT_EQ(it.page_in(second), place) << "there already";
    EXPECT_EQ(it.stack.miniport.calls().paging.size(), calls);

    EXPECT_EQ(it.page_out(second), Status::kSuccess);
    EXPECT_EQ(it.gpu.transfers_out, 3U) << "20 KiB in parts of 8";
    std::memset(it.gpu.at(place.gpu_address), 0xEE, bytes);
    it.refused("it is out already", Status::kSuccess,
               [&] { return it.memory().page_out(*it.client.process, second); });
    expect_filled(it.gpu.at(it.page_in(second).gpu_address), bytes, 1);
    // Nobody holds it: what needs the room gets it.
    const D3DKMT_HANDLE all = it.client.make_allocation(256 * kKibibyte, kHidden);
    EXPECT_EQ(it.page_in(all).offset_bytes, 0U);
    expect_filled(it.gpu.at(it.page_in(second).gpu_address), bytes, 1);
  });
}

TEST_F(MemoryExerciseTest, OnlyAllocationsOfTheProcessArePaged) {
  DXGKIT_COVERS("THUNK-04");
  scene([](Scene& it) {
    Client other(it.stack, "other");
    const D3DKMT_HANDLE theirs = other.make_allocation(kPage, kHidden);
    for (const D3DKMT_HANDLE wrong : {D3DKMT_HANDLE{0}, it.client.device, theirs + 0x40000}) {
      it.refused("in", Status::kInvalidParameter,
                 [&] { return it.memory().page_in(*it.client.process, wrong).error(); });
      it.refused("out", Status::kInvalidParameter,
                 [&] { return it.memory().page_out(*it.client.process, wrong); });
      it.refused("fill", Status::kInvalidParameter,
                 [&] { return it.memory().fill(*it.client.process, wrong, 1); });
      EXPECT_FALSE(it.memory().scribble_backing(*it.client.process, wrong, std::byte{1}));
    }
  });
}

TEST_F(MemoryExerciseTest, WhatHasNoRoomIsNotPagedIn) {
  scene([](Scene& it) {
    const D3DKMT_HANDLE used = it.client.make_allocation(200 * kKibibyte, kHidden);
    const D3DKMT_HANDLE more = it.client.make_allocation(100 * kKibibyte, kHidden);
    ContextBuffers context = it.client.make_context(0);
    ASSERT_EQ(it.client.render(context, work_on({used})), 0);
    it.stack.settle();
    while (it.stack.miniport.complete_next(1)) it.stack.settle();
    // The packet is on hardware; what it uses stays.
    const size_t calls = it.stack.miniport.calls().paging.size();
    const auto placed = it.memory().page_in(*it.client.process, more);
    ASSERT_FALSE(placed.has_value());
    EXPECT_EQ(placed.error(), Status::kGraphicsAllocationBusy);
    EXPECT_EQ(it.stack.miniport.calls().paging.size(), calls);
    EXPECT_EQ(it.memory().page_out(*it.client.process, used), Status::kGraphicsAllocationBusy);
    EXPECT_EQ(it.stack.miniport.calls().paging.size(), calls);
    it.stack.drive();
    EXPECT_EQ(it.page_in(more).segment, SegmentId{2});
  });
}

// The same for content without an allocation: a segment that is in use has no room for it.
TEST_F(MemoryExerciseTest, WhatHasNoRoomDoesNotGoThroughASegment) {
  scene([](Scene& it) {
    const D3DKMT_HANDLE used = it.client.make_allocation(200 * kKibibyte, kHidden);
    ContextBuffers context = it.client.make_context(0);
    ASSERT_EQ(it.client.render(context, work_on({used})), 0);
    it.stack.settle();
    while (it.stack.miniport.complete_next(1)) it.stack.settle();
    const Digest before = digest(it.stack, {&it.client});
    for (const bool filled : {false, true}) {
      const Result<Content> moved = it.memory().through_segment(
          SegmentId{2}, filled ? content_of(100 * kKibibyte, 1) : Content(), 100 * kKibibyte);
      ASSERT_FALSE(moved.has_value());
      EXPECT_EQ(moved.error(), Status::kGraphicsAllocationBusy);
      EXPECT_EQ(digest(it.stack, {&it.client}), before);
    }
    it.stack.drive();
  });
}

// An aperture is read through what is mapped there, whole pages that all lie inside it.
TEST_F(MemoryExerciseTest, AnApertureIsReadByItsPages) {
  DXGKIT_COVERS("PAGE-21");
  scene([](Scene& it) {
    const uint64_t bytes = 3 * kPage;
    static_cast<void>(it.page_in(it.client.make_allocation(2 * kPage, kAperture)));  // not at 0
    const D3DKMT_HANDLE mapped = it.client.make_allocation(bytes, kAperture);
    const vidmm::Placement place = it.page_in(mapped);
    ASSERT_EQ(place.segment, SegmentId{3});
    ASSERT_GT(place.offset_bytes, 0U);
    const Content wanted = content_of(bytes, 4);
    for (uint64_t at = 0; at < bytes; at += kPage)
      std::memcpy(it.gpu.at(place.gpu_address + at), wanted.data() + at, kPage);
    const auto read = [&](uint32_t segment, uint64_t offset, uint64_t size) {
      Result<Content> seen = Error(Status::kRetry);
      it.stack.blocking(
          [&] { seen = it.memory().read_aperture(SegmentId{segment}, offset, size); });
      return seen;
    };
    const Result<Content> seen = read(3, place.offset_bytes + kPage, 2 * kPage);
    ASSERT_TRUE(seen.has_value());
    EXPECT_EQ(*seen, Content(wanted.begin() + kPage, wanted.end()));
    const uint64_t size = it.stack.miniport.config.segments[2].size;
    const struct {
      const char* what;
      uint32_t segment;
      uint64_t offset, size;
    } wrong[] = {
        {"system memory", 0, 0, kPage},
        {"a memory segment", 2, 0, kPage},
        {"behind the last segment", 4, 0, kPage},
        {"nothing", 3, 0, 0},
        {"from within a page", 3, 8, kPage},
        {"a part of a page", 3, 0, kPage - 8},
        {"more than there is", 3, size - kPage, 2 * kPage},
        {"behind the end", 3, size, kPage},
        {"around the end", 3, kPage, 0 - kPage},
    };
    for (const auto& row : wrong) {
      it.refused(row.what, Status::kInvalidParameter, [&] {
        return it.memory().read_aperture(SegmentId{row.segment}, row.offset, row.size).error();
      });
    }
  });
}

TEST_F(MemoryExerciseTest, OnlyWhatIsInAMemorySegmentIsFilled) {
  DXGKIT_COVERS("PAGE-51");
  scene([](Scene& it) {
    const D3DKMT_HANDLE filled = it.client.make_allocation(5 * kPage, kHidden);
    const D3DKMT_HANDLE mapped = it.client.make_allocation(kPage, kAperture);
    const auto fill_it = [&](D3DKMT_HANDLE which) {
      return [&, which] { return it.memory().fill(*it.client.process, which, 0x1122'3344); };
    };
    it.refused("in system memory", Status::kInvalidParameter, fill_it(filled));
    EXPECT_EQ(it.page_in(mapped).segment, SegmentId{3});
    it.refused("in an aperture", Status::kInvalidParameter, fill_it(mapped));
    const vidmm::Placement place = it.page_in(filled);
    std::memset(it.gpu.at(kHiddenBase), 0x5A, 256 * kKibibyte);
    it.stack.miniport.clear_calls();
    it.stack.blocking([&] { EXPECT_EQ(fill_it(filled)(), Status::kSuccess); });
    const std::vector<testing::PagingCall> calls = operations(it.stack, DXGK_OPERATION_FILL);
    ASSERT_FALSE(calls.empty());
    EXPECT_NE(calls[0].args.Fill.hAllocation, nullptr);
    EXPECT_EQ(calls[0].args.Fill.FillPattern, 0x1122'3344U);
    EXPECT_EQ(calls[0].args.Fill.Destination.SegmentId, 2U);
    Content wanted(256 * kKibibyte, std::byte{0x5A});
    for (uint64_t at = 0; at < 5 * kPage; at += 4)
      std::memcpy(&wanted[place.offset_bytes + at], "\x44\x33\x22\x11", 4);
    EXPECT_EQ(std::memcmp(it.gpu.at(kHiddenBase), wanted.data(), wanted.size()), 0);
  });
}

// The pages behind an allocation are spoilt only while nobody needs them.
// Content is written behind an allocation that is out, all of it or a part; what does not fit is
// not.
TEST_F(MemoryExerciseTest, BackingPagesAreWrittenWhileTheContentIsThere) {
  scene([](Scene& it) {
    const uint64_t bytes = 3 * kPage;
    const D3DKMT_HANDLE out = it.client.make_allocation(bytes, kHidden);
    const auto write = [&](D3DKMT_HANDLE which, uint64_t size) {
      return it.memory().write_backing(*it.client.process, which, content_of(size, 5));
    };
    EXPECT_FALSE(write(it.first, kPage)) << "it is in its segment";
    EXPECT_FALSE(write(it.client.device, kPage));
    EXPECT_FALSE(write(out, bytes + 1));
    static_cast<void>(it.page_in(out));  // from here on it has content
    EXPECT_EQ(it.page_out(out), Status::kSuccess);
    for (const uint64_t size : {uint64_t{kPage / 2}, uint64_t{2 * kPage + 8}, bytes}) {
      SCOPED_TRACE(size);
      EXPECT_TRUE(write(out, size));
      expect_filled(it.gpu.at(it.page_in(out).gpu_address), size, 5);
      EXPECT_EQ(it.page_out(out), Status::kSuccess);
    }
  });
}

TEST_F(MemoryExerciseTest, BackingPagesAreSpoiltWhileTheContentIsElsewhere) {
  DXGKIT_COVERS("PAGE-16");
  scene([](Scene& it) {
    constexpr uint64_t kBytes = 3 * kPage;
    const D3DKMT_HANDLE away = it.client.make_allocation(kBytes, kHidden);
    const D3DKMT_HANDLE mapped = it.client.make_allocation(kBytes, kAperture);
    const auto pages_of = [&](D3DKMT_HANDLE which) {
      Content content;
      const auto opened =
          it.client.process->handles().find<dxgk::OpenedAllocation>(dxgk::Handle{which});
      for (const uint64_t page : (*opened)->allocation->pages.numbers()) {
        const std::byte* bytes =
            it.stack.machine.system_pointer(bus::PhysicalAddress{page * kPage}, kPage);
        content.insert(content.end(), bytes, bytes + kPage);
      }
      return content;
    };
    const auto scribble = [&](D3DKMT_HANDLE which, int value) {
      return it.memory().scribble_backing(*it.client.process, which, std::byte(value));
    };
    const Content before = pages_of(away);
    ASSERT_EQ(before.size(), kBytes);
    EXPECT_FALSE(scribble(away, 0xA1)) << "the content is there";
    EXPECT_EQ(pages_of(away), before);
    const vidmm::Placement place = it.page_in(away);
    fill(it.gpu.at(place.gpu_address), kBytes, 4);
    EXPECT_TRUE(scribble(away, 0xA2));
    EXPECT_EQ(pages_of(away), Content(kBytes, std::byte{0xA2}));
    expect_filled(it.gpu.at(place.gpu_address), kBytes, 4);
    EXPECT_EQ(it.page_out(away), Status::kSuccess);
    EXPECT_EQ(pages_of(away), content_of(kBytes, 4));
    static_cast<void>(it.page_in(mapped));
    const Content shown = pages_of(mapped);
    EXPECT_FALSE(scribble(mapped, 0xA3)) << "an aperture shows them";
    EXPECT_EQ(pages_of(mapped), shown);
  });
}

TEST_F(MemoryExerciseTest, BytesWithoutAnAllocationGoToPlacesThatNobodyHas) {
  DXGKIT_COVERS("PAGE-21");
  scene(
      [](Scene& it) {
        struct Row {
          const char* what;
          uint32_t segment;
          uint64_t offset, bytes;
        };
        constexpr uint64_t kEnd = 256 * kKibibyte;
        const Row wrong[] = {
            {"system memory", 0, 8 * kPage, kPage},
            {"an aperture", 3, 8 * kPage, kPage},
            {"behind the last segment", 4, 8 * kPage, kPage},
            {"nothing", 2, 8 * kPage, 0},
            {"a part of a page", 2, 8 * kPage, kPage + 512},
            {"from within a page", 2, 8 * kPage + 512, kPage},
            {"behind the segment", 2, kEnd, kPage},
            {"over the end", 2, kEnd - kPage, 2 * kPage},
            {"so far that it wraps", 2, 0 - kPage, 2 * kPage},
            {"the last page of somebody's", 2, 2 * kPage, 2 * kPage},
            {"with somebody's at its end", 2, 58 * kPage, 3 * kPage},
            {"somebody's in the middle", 2, 59 * kPage, 3 * kPage},
            {"begins in memory that is not there", 2, 21 * kPage, kPage},
            {"ends in memory that is not there", 2, 19 * kPage, 2 * kPage},
            {"around memory that is not there", 2, 19 * kPage, 4 * kPage},
        };
        const Row right[] = {
            {"behind somebody's", 2, 3 * kPage, kPage},
            {"up to memory that is not there", 2, 17 * kPage, 3 * kPage},
            {"right behind it", 2, 22 * kPage, 5 * kPage},
            {"up to somebody's", 2, 57 * kPage, 3 * kPage},
            {"to the end of the segment", 2, kEnd - 3 * kPage, 3 * kPage},
            {"the first segment", 1, 9 * kPage, 4 * kPage},
        };
        ScriptedAllocation at_the_end;
        at_the_end.size = kPage;
        at_the_end.alignment = 4 * kPage;
        at_the_end.supported_read = at_the_end.supported_write = kHidden;
        D3DKMT_HANDLE handle = 0;
        // The only one that fits into page 60: the rest is taken meanwhile.
        std::vector<D3DKMT_HANDLE> takers;
        for (uint64_t page = 4; page < 64; page += 4) {
          takers.push_back(it.client.make_allocation(at_the_end));
          if (it.page_in(takers.back()).offset_bytes == 60 * kPage) handle = takers.back();
        }
        ASSERT_NE(handle, 0U);
        for (const D3DKMT_HANDLE taker : takers) {
          if (taker == handle) continue;
          EXPECT_EQ(it.client.destroy_allocation(taker), 0);
        }
        it.stack.drive();
        ASSERT_EQ(it.page_in(it.first).offset_bytes, 0U) << "it gave way to one of them";
        for (const Row& row : wrong) {
          const SegmentId segment{row.segment};
          const Content content(row.bytes);
          it.refused(row.what, Status::kInvalidParameter,
                     [&] { return it.memory().write_plain(segment, row.offset, content); });
          it.refused(row.what, Status::kInvalidParameter, [&] {
            return it.memory().read_plain(segment, row.offset, row.bytes).error();
          });
          it.refused(row.what, Status::kInvalidParameter, [&] {
            return it.memory().move_plain(segment, row.offset, 30 * kPage, row.bytes);
          });
          it.refused(row.what, Status::kInvalidParameter, [&] {
            return it.memory().move_plain(segment, 30 * kPage, row.offset, row.bytes);
          });
        }
        uint64_t seed = 20;
        for (const Row& row : right) {
          SCOPED_TRACE(row.what);
          const SegmentId segment{row.segment};
          const uint64_t base = it.by_hand.segments()[row.segment - 1].base_address;
          const Content content = content_of(row.bytes, ++seed);
          const uint64_t free_pages = it.stack.machine.free_page_count();
          it.stack.blocking([&] {
            EXPECT_EQ(it.memory().write_plain(segment, row.offset, content), Status::kSuccess);
            EXPECT_EQ(std::memcmp(it.gpu.at(base + row.offset), content.data(), row.bytes), 0);
            const auto back = it.memory().read_plain(segment, row.offset, row.bytes);
            ASSERT_TRUE(back.has_value());
            EXPECT_EQ(*back, content);
            EXPECT_EQ(it.memory().move_plain(segment, row.offset, 30 * kPage, row.bytes),
                      Status::kSuccess);
            EXPECT_EQ(std::memcmp(it.gpu.at(base + 30 * kPage), content.data(), row.bytes), 0);
          });
          EXPECT_EQ(it.stack.machine.free_page_count(), free_pages);
        }
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.segments[1].bad_ranges = {{20 * kPage, 2 * kPage}};
        miniport.config.segments[1].invalid_ranges = 1;
      });
}

TEST_F(MemoryExerciseTest, ATouchIsOfABytesPlaceThatNobodyHas) {
  DXGKIT_COVERS("PAGE-25");
  scene([](Scene& it) {
    const struct {
      uint32_t segment;
      uint64_t offset;
    } wrong[] = {
        {0, 8 * kPage}, {3, 8 * kPage}, {4, 8 * kPage}, {2, 3 * kPage - 8}, {2, 256 * kKibibyte}};
    for (const auto& row : wrong) {
      for (const bool write : {false, true}) {
        it.refused("", Status::kInvalidParameter,
                   [&] { return it.memory().touch(SegmentId{row.segment}, row.offset, write); });
      }
    }
    it.stack.blocking([&] {
      EXPECT_EQ(it.memory().touch(SegmentId{2}, 256 * kKibibyte - 8, true), Status::kSuccess);
      EXPECT_EQ(it.memory().touch(SegmentId{1}, 3 * kPage + 24, false), Status::kSuccess);
    });
    EXPECT_EQ(it.gpu.touches, 2U);
  });
}

TEST_F(MemoryExerciseTest, ContentOfTheKernelsOwnGoesThroughAMemorySegment) {
  DXGKIT_COVERS("PAGE-16", "PAGE-31");
  scene([](Scene& it) {
    const D3DKMT_HANDLE victim = it.client.make_allocation(100 * kKibibyte, kHidden);
    fill(it.gpu.at(it.page_in(victim).gpu_address), 100 * kKibibyte, 6);
    fill(it.gpu.at(kHiddenBase), 3 * kPage, 7);
    const auto through = [&](uint32_t segment, const Content& content, uint64_t bytes) {
      Result<Content> back = Error(Status::kRetry);
      it.stack.blocking(
          [&] { back = it.memory().through_segment(SegmentId{segment}, content, bytes); });
      return back;
    };
    const uint64_t free_pages = it.stack.machine.free_page_count();
    const uint64_t objects = it.stack.miniport.live_objects();
    for (const uint32_t segment : {1U, 2U}) {
      SCOPED_TRACE(segment);
      for (const uint64_t bytes : {kPage, 5 * kPage, 256 * kKibibyte}) {
        const Content content = content_of(bytes, 8 + segment);
        const size_t in = it.gpu.transfers_in, fills = it.gpu.fills;
        const Result<Content> moved = through(segment, content, 7);
        ASSERT_TRUE(moved.has_value());
        EXPECT_EQ(*moved, content);
        EXPECT_GT(it.gpu.transfers_in, in);
        EXPECT_EQ(it.gpu.fills, fills);
        const Result<Content> filled = through(segment, {}, bytes);
        ASSERT_TRUE(filled.has_value());
        EXPECT_EQ(*filled, Content(bytes));
        EXPECT_GT(it.gpu.fills, fills);
      }
    }
    EXPECT_EQ(it.stack.machine.free_page_count(), free_pages);
    EXPECT_EQ(it.stack.miniport.live_objects(), objects);
    // Who gave way has kept what it had.
    expect_filled(it.gpu.at(it.page_in(victim).gpu_address), 100 * kKibibyte, 6);
    expect_filled(it.gpu.at(it.page_in(it.first).gpu_address), 3 * kPage, 7);

    const struct {
      const char* what;
      uint32_t segment;
      uint64_t content, bytes;
      Status status;
    } wrong[] = {
        {"system memory", 0, kPage, 0, Status::kInvalidParameter},
        {"an aperture", 3, kPage, 0, Status::kInvalidParameter},
        {"behind the last segment", 4, kPage, 0, Status::kInvalidParameter},
        {"nothing", 2, 0, 0, Status::kInvalidParameter},
        {"a part of a page", 2, 0, kPage + 8, Status::kInvalidParameter},
        {"content of a part of a page", 2, kPage + 8, kPage, Status::kInvalidParameter},
        {"more than there is", 2, 260 * kKibibyte, 0, Status::kInvalidParameter},
        {"more pages than the machine has", 1, 0, 128 * kMebibyte, Status::kNoMemory},
    };
    for (const auto& row : wrong) {
      it.refused(row.what, row.status, [&] {
        return it.memory()
            .through_segment(SegmentId{row.segment}, Content(row.content), row.bytes)
            .error();
      });
    }
  });
}

// Content leaves all segments, unless somebody uses it or looks at it.
TEST_F(MemoryExerciseTest, EverythingLeavesAllSegments) {
  DXGKIT_COVERS("PAGE-16");
  scene([](Scene& it) {
    constexpr uint64_t kBytes = 6 * kPage;
    const D3DKMT_HANDLE hidden = it.client.make_allocation(kBytes, kHidden);
    const D3DKMT_HANDLE visible = it.client.make_allocation(kBytes, 1);
    const D3DKMT_HANDLE mapped = it.client.make_allocation(kBytes, kAperture);
    fill(it.gpu.at(it.page_in(hidden).gpu_address), kBytes, 1);
    fill(it.gpu.at(it.page_in(visible).gpu_address), kBytes, 2);
    static_cast<void>(it.page_in(mapped));
    ContextBuffers context = it.client.make_context(0);
    ASSERT_EQ(it.client.render(context, work_on({hidden})), 0);
    it.stack.settle();
    while (it.stack.miniport.complete_next(1)) it.stack.settle();
    Status status = Status::kRetry;
    {
      Stack::Background evicting(it.stack, [&] { status = it.by_hand.evict_all(); });
      while (!evicting.finished(50) && it.stack.miniport.complete_next(1)) it.stack.settle();
      evicting.finish();
    }
    EXPECT_EQ(status, Status::kGraphicsAllocationBusy);
    it.stack.drive();
    it.stack.blocking([&] { EXPECT_EQ(it.by_hand.evict_all(), Status::kSuccess); });
    // It was mapped in parts, and goes as one.
    uint64_t mapped_pages = 0, unmapped_pages = 0;
    for (const auto& call : operations(it.stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT))
      mapped_pages += call.args.MapApertureSegment.NumberOfPages;
    for (const auto& call : operations(it.stack, DXGK_OPERATION_UNMAP_APERTURE_SEGMENT))
      unmapped_pages += call.args.UnmapApertureSegment.NumberOfPages;
    EXPECT_EQ(mapped_pages, kBytes / kPage);
    EXPECT_EQ(unmapped_pages, mapped_pages);
    it.refused("again", Status::kSuccess, [&] { return it.by_hand.evict_all(); });
    expect_filled(it.gpu.at(it.page_in(visible).gpu_address), kBytes, 2);
    expect_filled(it.gpu.at(it.page_in(hidden).gpu_address), kBytes, 1);
  });
}

// The last segment is one like the others, and there is none behind it.
TEST_F(MemoryExerciseTest, TheLastSegmentMayBeMemory) {
  DXGKIT_COVERS("PAGE-21");
  scene(
      [](Scene& it) {
        const Content content = content_of(2 * kPage, 3);
        it.stack.blocking([&] {
          EXPECT_EQ(it.memory().write_plain(SegmentId{2}, 8 * kPage, content), Status::kSuccess);
          const auto through = it.memory().through_segment(SegmentId{2}, content, 0);
          ASSERT_TRUE(through.has_value());
          EXPECT_EQ(*through, content);
        });
        it.refused("behind it", Status::kInvalidParameter,
                   [&] { return it.memory().through_segment(SegmentId{3}, content, 0).error(); });
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments.pop_back(); });
}

}  // namespace
}  // namespace dxgkit::contract
