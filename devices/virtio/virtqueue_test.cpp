// Split virtqueues: what a good driver offers comes out whole, and each way to be wrong is one
// error.
#include "devices/virtio/virtqueue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "devices/virtio/test_ring.h"

namespace dxgkit::virtio {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBase = 0x10000, kBuffers = 0x14000;
constexpr uint16_t kSize = 8;

struct Rig {
  explicit Rig(QueueFeatures features = {.indirect = true, .event_index = false})
      : queue(memory, ring.layout(), features) {}
  FlatMemory memory{kBase, 0x10000};
  TestRing ring{memory, kBase, kSize};
  Virtqueue queue;

  Chain take() {
    auto taken = queue.take();
    EXPECT_TRUE(taken.has_value()) << taken.error();
    EXPECT_TRUE(taken.has_value() && taken->has_value());
    return taken.has_value() && taken->has_value() ? **taken : Chain{};
  }
  std::string error() {
    const auto taken = queue.take();
    return taken.has_value() ? "no error" : taken.error();
  }
  bool is_empty() {
    const auto taken = queue.take();
    return taken.has_value() && !taken->has_value();
  }
};

TEST(Virtqueue, ChainsComeInOrderAndGoBack) {
  Rig rig;
  EXPECT_TRUE(rig.is_empty());
  rig.ring.offer_pair(2, {kBuffers, 16}, {kBuffers + 64, 32});
  rig.ring.put(5, {kBuffers + 128, 8, VIRTQ_DESC_WRITE, 0});
  rig.ring.offer(5);
  const Chain first = rig.take();
  EXPECT_EQ(first.head, 2U);
  EXPECT_EQ(first.readable_bytes, 16U);
  EXPECT_EQ(first.writable_bytes, 32U);
  const Chain second = rig.take();
  EXPECT_EQ(second.head, 5U);
  EXPECT_TRUE(second.readable.empty());
  EXPECT_TRUE(rig.is_empty());
  EXPECT_EQ(rig.queue.give_back(5, 8), true);
  EXPECT_EQ(rig.queue.give_back(2, 3), true);
  EXPECT_EQ(rig.ring.used_index(), 2U);
  EXPECT_EQ(rig.ring.used(0), std::pair(5U, 8U));
  EXPECT_EQ(rig.ring.used(1), std::pair(2U, 3U));
}

TEST(Virtqueue, IndicesWrap) {
  Rig rig;
  for (uint32_t i = 0; i < 0x10000 + 5; ++i) {
    rig.ring.put(3, {kBuffers + i % 64, 4, 0, 0});
    rig.ring.offer(3);
    ASSERT_EQ(rig.take().readable[0].address, kBuffers + i % 64);
    ASSERT_TRUE(rig.queue.give_back(3, 0).has_value());
  }
  EXPECT_EQ(rig.ring.used_index(), 5U);
}

/// Pieces are read as if they were one, from any place on, and what is behind the end is refused.
TEST(Virtqueue, BytesGoAcrossPieces) {
  Rig rig;
  rig.ring.put(0, {kBuffers, 3, VIRTQ_DESC_NEXT, 1});
  rig.ring.put(1, {kBuffers + 100, 0, VIRTQ_DESC_NEXT, 2});
  rig.ring.put(2, {kBuffers + 200, 5, VIRTQ_DESC_NEXT, 3});
  rig.ring.put(3, {kBuffers + 300, 2, VIRTQ_DESC_NEXT | VIRTQ_DESC_WRITE, 4});
  rig.ring.put(4, {kBuffers + 400, 2, VIRTQ_DESC_WRITE, 0});
  rig.ring.offer(0);
  for (uint32_t i = 0; i < 3; ++i) rig.memory.store(kBuffers + i, static_cast<uint8_t>(1 + i));
  for (uint32_t i = 0; i < 5; ++i)
    rig.memory.store(kBuffers + 200 + i, static_cast<uint8_t>(4 + i));
  const Chain chain = rig.take();
  std::array<uint8_t, 5> got{};
  EXPECT_TRUE(chain.read(rig.memory, 2, std::as_writable_bytes(std::span(got))));
  EXPECT_THAT(got, ::testing::ElementsAre(3, 4, 5, 6, 7));
  EXPECT_FALSE(chain.read(rig.memory, 4, std::as_writable_bytes(std::span(got))));
  const std::array<uint8_t, 3> given{7, 8, 9};
  EXPECT_TRUE(chain.write(rig.memory, 1, std::as_bytes(std::span(given))));
  EXPECT_FALSE(chain.write(rig.memory, 2, std::as_bytes(std::span(given))));
  EXPECT_EQ(rig.memory.bytes()[kBuffers - kBase + 301], std::byte{7});
  EXPECT_EQ(rig.memory.bytes()[kBuffers - kBase + 401], std::byte{9});
}

TEST(Virtqueue, AnIndirectTableIsAChain) {
  Rig rig;
  constexpr uint64_t kTable = kBuffers + 0x800;
  const TestDescriptor table[] = {{kBuffers, 4, VIRTQ_DESC_NEXT, 2},
                                  {kBuffers + 8, 1, 0, 0},
                                  {kBuffers + 16, 6, VIRTQ_DESC_WRITE, 0}};
  rig.memory.write(kTable, std::as_bytes(std::span(table)));
  // Bits of the descriptor that names the table mean nothing to the table.
  rig.ring.put(1, {kTable, sizeof(table), VIRTQ_DESC_INDIRECT | VIRTQ_DESC_WRITE, 0});
  rig.ring.offer(1);
  const Chain chain = rig.take();
  EXPECT_EQ(chain.head, 1U);
  EXPECT_EQ(chain.readable_bytes, 4U);
  EXPECT_EQ(chain.writable_bytes, 6U);
}

TEST(Virtqueue, HostileChainsAreErrors) {
  constexpr uint64_t kTable = kBuffers + 0x800;
  const struct {
    const char* what;
    std::vector<TestDescriptor> ring, table;
    const char* why;
  } rows[] = {
      {"a loop", {{kBuffers, 1, VIRTQ_DESC_NEXT, 0}}, {}, "more descriptors than the queue"},
      {"a next one that is none", {{kBuffers, 1, VIRTQ_DESC_NEXT, 8}}, {}, "descriptor 8 is named"},
      {"readable behind writable",
       {{kBuffers, 1, VIRTQ_DESC_NEXT | VIRTQ_DESC_WRITE, 1}, {kBuffers, 1, 0, 0}},
       {},
       "comes behind one that it writes"},
      {"too many bytes",
       {{kBuffers, UINT32_MAX, VIRTQ_DESC_NEXT, 1}, {kBuffers, 2, 0, 0}},
       {},
       "more than 2^32 bytes"},
      {"a table with a next one",
       {{kTable, 16, VIRTQ_DESC_INDIRECT | VIRTQ_DESC_NEXT, 1}},
       {{kBuffers, 1, 0, 0}},
       "has a next one"},
      {"a table in a table",
       {{kTable, 16, VIRTQ_DESC_INDIRECT, 0}},
       {{kTable, 16, VIRTQ_DESC_INDIRECT, 0}},
       "names another one"},
      {"half a descriptor", {{kTable, 24, VIRTQ_DESC_INDIRECT, 0}}, {}, "no whole descriptors"},
      {"an empty table", {{kTable, 0, VIRTQ_DESC_INDIRECT, 0}}, {}, "no whole descriptors"},
      {"a table that leaves the address space",
       {{UINT64_MAX - 3, 16, VIRTQ_DESC_INDIRECT, 0}},
       {},
       "is in no memory"},
      {"a table elsewhere", {{0x1000, 16, VIRTQ_DESC_INDIRECT, 0}}, {}, "is in no memory"},
      {"a loop in a table",
       {{kTable, 32, VIRTQ_DESC_INDIRECT, 0}},
       {{kBuffers, 1, VIRTQ_DESC_NEXT, 1}, {kBuffers, 1, VIRTQ_DESC_NEXT, 0}},
       "more descriptors than the queue"},
      {"a next one outside of the table",
       {{kTable, 16, VIRTQ_DESC_INDIRECT, 0}},
       {{kBuffers, 1, VIRTQ_DESC_NEXT, 1}},
       "descriptor 1 is named, of 1"},
  };
  for (const auto& row : rows) {
    Rig rig;
    for (size_t i = 0; i < row.ring.size(); ++i)
      rig.ring.put(static_cast<uint16_t>(i), row.ring[i]);
    rig.memory.write(kTable, std::as_bytes(std::span(row.table)));
    rig.ring.offer(0);
    EXPECT_THAT(rig.error(), HasSubstr(row.why)) << row.what;
  }
}

/// A chain has as many descriptors as the queue at most, wherever they are.
TEST(Virtqueue, AChainIsNoLongerThanTheQueue) {
  for (const uint16_t count : {kSize, static_cast<uint16_t>(kSize + 1)}) {
    Rig rig;
    constexpr uint64_t kTable = kBuffers + 0x800;
    for (uint16_t i = 0; i < count; ++i) {
      const TestDescriptor one{kBuffers, 1, static_cast<uint16_t>(i + 1 < count ? 1 : 0),
                               static_cast<uint16_t>(i + 1)};
      rig.memory.store(kTable + uint64_t{16} * i, one);
    }
    rig.ring.put(0, {kTable, uint32_t{16} * count, VIRTQ_DESC_INDIRECT, 0});
    rig.ring.offer(0);
    EXPECT_EQ(rig.error(),
              count == kSize ? "no error" : "a chain has more descriptors than the queue");
  }
}

TEST(Virtqueue, HostileRingsAreErrors) {
  {
    Rig rig;
    rig.ring.offer(kSize);
    EXPECT_THAT(rig.error(), HasSubstr("descriptor 8 is named, of 8"));
  }
  {
    Rig rig;
    rig.ring.set_index(kSize + 1);
    EXPECT_THAT(rig.error(), HasSubstr("index of the driver area is 9"));
  }
  {
    Rig rig;
    rig.ring.set_index(0xFFFF);  // backwards
    EXPECT_THAT(rig.error(), HasSubstr("index of the driver area is 65535"));
  }
  {
    Rig rig({.indirect = false, .event_index = false});
    rig.ring.put(0, {kBuffers, 16, VIRTQ_DESC_INDIRECT, 0});
    rig.ring.offer(0);
    EXPECT_THAT(rig.error(), HasSubstr("not negotiated"));
  }
  FlatMemory memory(kBase, 0x1000);
  for (const QueueLayout& layout :
       {QueueLayout{kBase, 0x100, kBase + 512, 4}, QueueLayout{0x100, kBase + 256, kBase + 512, 4},
        QueueLayout{kBase, kBase + 256, 0x100, 4}}) {
    TestRing driver_area(memory, 0, 4);
    memory.store(kBase + 256 + 2, uint16_t{1});
    Virtqueue queue(memory, layout, {});
    auto taken = queue.take();
    if (taken.has_value()) {
      const auto given = queue.give_back(0, 0);
      ASSERT_FALSE(given.has_value());
      EXPECT_THAT(given.error(), HasSubstr("device area"));
    }
  }
}

TEST(Virtqueue, InterruptsAreLeftOutAsTheDriverWants) {
  Rig plain;
  plain.ring.set_flags(VIRTQ_AVAIL_NO_INTERRUPT);
  EXPECT_EQ(plain.queue.give_back(0, 0), false);
  plain.ring.set_flags(0);
  EXPECT_EQ(plain.queue.give_back(0, 0), true);

  Rig rig({.indirect = true, .event_index = true});
  rig.ring.set_used_event(1);
  EXPECT_EQ(rig.queue.give_back(0, 0), false);  // entry 0
  EXPECT_EQ(rig.queue.give_back(0, 0), true);   // entry 1
  EXPECT_EQ(rig.queue.give_back(0, 0), false);
  rig.ring.set_flags(VIRTQ_AVAIL_NO_INTERRUPT);  // means nothing now
  rig.ring.set_used_event(3);
  EXPECT_EQ(rig.queue.give_back(0, 0), true);
}

/// An empty queue names the place at which the driver has to notify.
TEST(Virtqueue, TheDriverIsToldWhenToNotify) {
  Rig rig({.indirect = true, .event_index = true});
  rig.ring.put(0, {kBuffers, 1, 0, 0});
  rig.ring.offer(0);
  rig.ring.offer(0);
  rig.take();
  rig.take();
  EXPECT_EQ(rig.ring.avail_event(), 0U);
  EXPECT_TRUE(rig.is_empty());
  EXPECT_EQ(rig.ring.avail_event(), 2U);
}

TEST(Virtqueue, Layouts) {
  EXPECT_EQ(layout_error({0x1000, 0x2000, 0x3000, 8}, 8), std::nullopt);
  const QueueLayout wrong[] = {{0x1000, 0x2000, 0x3000, 0},         {0x1000, 0x2000, 0x3000, 6},
                               {0x1000, 0x2000, 0x3000, 16},        {0x1008, 0x2000, 0x3000, 8},
                               {0x1000, 0x2001, 0x3000, 8},         {0x1000, 0x2000, 0x3002, 8},
                               {UINT64_MAX - 15, 0x2000, 0x3000, 8}};
  for (const QueueLayout& layout : wrong) EXPECT_TRUE(layout_error(layout, 8).has_value());
}

}  // namespace
}  // namespace dxgkit::virtio
