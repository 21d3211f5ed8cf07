// What the trace says of packets: which, of which context, on which node, with which fence.
#include <gmock/gmock.h>

#include "tests/support/covers.h"
#include "trace/trace.h"
#include "vidsch/scheduler_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = trace::EventKind;

constexpr NodeOrdinal kFirst{3}, kSecond{5};  // ordinals are no indexes

/// Kind, packet, context, c, d, node.
struct Line {
  Kind kind;
  uint64_t packet, context, c, d;
  uint16_t node;
  bool operator==(const Line&) const = default;
  friend void PrintTo(const Line& line, std::ostream* out) {
    *out << static_cast<int>(line.kind) << " packet " << line.packet << " context " << line.context
         << " c " << line.c << " d " << line.d << " node " << line.node;
  }
};

class SchedulerTraceTest : public SchedulerTest {
 protected:
  SchedulerTraceTest() { trace::set_current(&recorder_); }
  ~SchedulerTraceTest() override { trace::set_current(nullptr); }
  void begin(uint32_t depth) {
    start({{.node = kFirst, .hardware_queue_depth = depth, .preemptible = true},
           {.node = kSecond, .hardware_queue_depth = depth, .preemptible = true}});
    add(kA, 0, kFirst);
    add(kB, 0, kSecond);
    ASSERT_EQ(scheduler_->create_context(kPagingContext, {.node = kSecond, .is_system = true}),
              Status::kSuccess);
  }
  /// What has been added since the last look.
  std::vector<Line> lines() {
    std::vector<Line> all;
    const std::vector<trace::Event> events = recorder_.events();
    for (size_t i = seen_; i < events.size(); ++i) {
      const trace::Event& e = events[i];
      all.push_back({static_cast<Kind>(e.kind), e.a, e.b, e.c, e.d, e.node});
    }
    seen_ = events.size();
    return all;
  }

  trace::Recorder recorder_{{.now_ns = [] { return 0; }, .thread = [] { return 0U; }}};
  size_t seen_ = 0;
};

TEST_F(SchedulerTraceTest, APacketsWay) {
  begin(1);
  queue(kB, 11);
  EXPECT_THAT(lines(), IsEmpty());
  engine_.answers[12] = EnginePort::Prepare::kWaiting;
  queue(kB, 12);
  EXPECT_THAT(lines(), IsEmpty());
  scheduler_->ready(PacketId{12});
  EXPECT_THAT(lines(), IsEmpty());
  page(13);
  EXPECT_THAT(lines(), IsEmpty());
  ASSERT_EQ(complete(1, kSecond), FenceReport::kAccepted);
  EXPECT_THAT(lines(), IsEmpty());
  ASSERT_TRUE(scheduler_->request_preemption(kSecond));
  ASSERT_EQ(scheduler_->preempted(kSecond, SubmissionFenceId{3}, SubmissionFenceId{1}, ++now_),
            FenceReport::kAccepted);
  EXPECT_THAT(lines(), IsEmpty());
  scheduler_->fail_context(kB);
  EXPECT_THAT(lines(), IsEmpty());
}

}  // namespace
}  // namespace dxgkit::vidsch
