// Made-up traces: a life as it should be, and each way in which one is not.
#include "sim/packet_life.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dxgkit::sim {
namespace {

using trace::EventKind;

constexpr uint64_t kRender = 0, kPaging = 1;
constexpr uint64_t kFinished = 0, kReset = 3;
constexpr int64_t kPatience = 1'000;

class Trace {
 public:
  Trace& add(EventKind kind, uint64_t a, uint64_t b = 0, uint64_t c = 0) {
    trace::Event event;
    event.time_ns = time_ns_ += 10;
    event.kind = static_cast<uint16_t>(kind);
    event.node = 0;
    event.a = a;
    event.b = b;
    event.c = c;
    events_.push_back(event);
    return *this;
  }
  Trace& queued(uint64_t packet, uint64_t kind = kRender) {
    return add(EventKind::kPacketQueued, packet, 7, kind);
  }
  Trace& submitted(uint64_t packet, uint64_t fence) {
    return add(EventKind::kPacketSubmitted, packet, 7, fence);
  }
  Trace& starts(uint64_t fence) { return add(EventKind::kHardwareStart, 0, 0, fence); }
  Trace& ends(uint64_t fence, uint64_t how = kFinished) {
    return add(EventKind::kHardwareEnd, 0, how, fence);
  }
  Trace& completed(uint64_t packet) { return add(EventKind::kPacketCompleted, packet, 7); }
  Trace& cancelled(uint64_t packet) { return add(EventKind::kPacketCancelled, packet, 7); }
  Trace& preempted(uint64_t packet) { return add(EventKind::kPacketPreempted, packet, 7); }
  /// A whole life.
  Trace& lives(uint64_t packet, uint64_t fence) {
    return queued(packet).submitted(packet, fence).starts(fence).ends(fence).completed(packet);
  }
  Trace& waits(int64_t ns) {
    time_ns_ += ns;
    return *this;
  }
  PacketLives follow() const {
    const std::vector<std::string> names = {"", "client 3, context 7 on node 0"};
    return follow_packets(events_, names, kPatience);
  }
  std::string failure() const { return follow().failure; }

 private:
  std::vector<trace::Event> events_;
  int64_t time_ns_ = 0;
};

void expect_failure(const Trace& trace, const char* part) {
  EXPECT_NE(trace.failure().find(part), std::string::npos) << trace.failure();
}

TEST(PacketLife, AcceptsWhatIsInOrder) {
  Trace trace;
  trace.lives(1, 10).lives(2, 11);
  trace.queued(3, kPaging)
      .submitted(3, 12)
      .preempted(3)
      .submitted(3, 12)
      .starts(12)
      .ends(12)
      .completed(3);
  trace.queued(4).cancelled(4);
  EXPECT_EQ(trace.failure(), "");
  EXPECT_EQ(trace.follow().packets, 4U);
}

TEST(PacketLife, TellsWhomAResetHit) {
  Trace trace;
  trace.add(EventKind::kObjectName, 7, 1, static_cast<uint64_t>(trace::ObjectClass::kContext));
  trace.queued(1).submitted(1, 10).starts(10).ends(10, kReset).add(EventKind::kPacketFaulted, 1, 7);
  const PacketLives lives = trace.follow();
  EXPECT_EQ(lives.failure, "");
  ASSERT_EQ(lives.cut_short.size(), 1U);
  EXPECT_EQ(lives.cut_short[0].process, "client 3");
  EXPECT_EQ(lives.cut_short[0].fence, 10U);
}

TEST(PacketLife, FindsAPacketThatNeverEnds) {
  expect_failure(Trace().queued(1), "packet 1 never ended");
  expect_failure(Trace().queued(1).submitted(1, 10).starts(10).ends(10), "packet 1 never ended");
}

TEST(PacketLife, FindsAPacketThatEndsTwice) {
  expect_failure(Trace().lives(1, 10).cancelled(1), "ended twice");
}

TEST(PacketLife, FindsAPacketThatRunsTwice) {
  Trace trace;
  trace.queued(1)
      .submitted(1, 10)
      .starts(10)
      .ends(10)
      .preempted(1)
      .submitted(1, 11)
      .starts(11)
      .ends(11);
  expect_failure(trace.completed(1), "ran to its end twice");
}

TEST(PacketLife, FindsACompletionThatNeverRan) {
  expect_failure(Trace().queued(1).submitted(1, 10).completed(1), "did not run to its end");
}

TEST(PacketLife, FindsFencesThatFall) {
  expect_failure(Trace().lives(1, 10).queued(2).submitted(2, 9), "fence 9 of node 0 came after");
  expect_failure(Trace().lives(1, 10).queued(2).submitted(2, 10), "fence 10 of node 0 came after");
}

TEST(PacketLife, FindsAPagingPacketThatComesAgainAsAnother) {
  Trace trace;
  trace.queued(1, kPaging).submitted(1, 10).preempted(1).submitted(1, 11);
  expect_failure(trace, "came again as fence 11");
}

TEST(PacketLife, FindsABufferInUseAfterItsPacketEnded) {
  expect_failure(Trace().queued(1).submitted(1, 10).cancelled(1).starts(10), "which has ended");
  expect_failure(Trace().queued(1).submitted(1, 10).starts(10).cancelled(1).ends(10),
                 "which had ended");
  expect_failure(Trace().starts(10), "which nobody submitted");
}

TEST(PacketLife, FindsAPacketOnHardwareTwice) {
  expect_failure(Trace().queued(1).submitted(1, 10).submitted(1, 11), "on hardware already");
}

TEST(PacketLife, FindsAnEngineThatStandsTooLong) {
  Trace trace;
  trace.queued(1).submitted(1, 10).starts(10).waits(kPatience).ends(10, kReset);
  expect_failure(trace, "stood at fence 10");
  expect_failure(Trace().queued(1).submitted(1, 10).starts(10).waits(kPatience).queued(2),
                 "stood at fence 10");
}

TEST(PacketLife, LeavesTheDeviceAloneOnceTheAdapterFailed) {
  Trace trace;
  trace.queued(1).submitted(1, 10).starts(10).add(EventKind::kAdapterState, 1, 2);
  trace.cancelled(1).ends(10);
  EXPECT_EQ(trace.failure(), "");
  expect_failure(trace.queued(2), "packet 2 never ended");
}

}  // namespace
}  // namespace dxgkit::sim
