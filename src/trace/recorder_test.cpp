#include <gtest/gtest.h>

#include <atomic>

#include "runtime/runtime.h"
#include "trace/trace.h"

namespace dxgkit::trace {
namespace {

/// A clock moved by hand; thread numbers are what the test says.
struct HandClock {
  int64_t now = 0;
  Recorder::Clock clock() {
    return {.now_ns = [this] { return now; }, .thread = [] { return 3u; }};
  }
};

TEST(Recorder, KeepsEveryFieldOfAnEvent) {
  HandClock hand;
  hand.now = 17;
  Recorder recorder(hand.clock());
  recorder.record(EventKind::kPlaced, 1, 2, 3, 4, 5);
  const std::vector<Event> events = recorder.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].time_ns, 17);
  EXPECT_EQ(events[0].thread, 3u);
  EXPECT_EQ(events[0].kind, 42);
  EXPECT_EQ(events[0].node, 5);
  EXPECT_EQ(events[0].a, 1u);
  EXPECT_EQ(events[0].b, 2u);
  EXPECT_EQ(events[0].c, 3u);
  EXPECT_EQ(events[0].d, 4u);
}

// Files keep hashes of runs: what is noted about a run does not change its hash.
TEST(Recorder, TheHashOfARunLeavesOutItsCauses) {
  const Event event{.time_ns = 5, .kind = static_cast<uint16_t>(EventKind::kEvicted), .a = 7};
  const Event cause{.time_ns = 5, .kind = static_cast<uint16_t>(EventKind::kWhyEvicted), .a = 7};
  const Event owner{.time_ns = 5, .kind = static_cast<uint16_t>(EventKind::kContextOwner), .a = 7};
  const std::vector<Event> bare{event, event}, told{cause, event, cause, event, owner};
  EXPECT_EQ(hash_of(bare), hash_of(told));
  const std::vector<Event> one{event};
  EXPECT_NE(hash_of(bare), hash_of(one));
  EXPECT_FALSE(is_cause(static_cast<uint16_t>(EventKind::kPageTablesLost)));
}

// Events of one OS thread keep their order even if the times are equal and the logical threads
// differ, as in sim.
TEST(Recorder, KeepsTheOrderOfOneThreadAtEqualTimes) {
  uint32_t thread = 9;
  Recorder recorder({.now_ns = [] { return 5; }, .thread = [&] { return thread--; }});
  for (uint64_t i = 0; i < 10; ++i) recorder.record(EventKind::kMarker, i);
  const std::vector<Event> events = recorder.events();
  ASSERT_EQ(events.size(), 10u);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(events[i].a, i);
}

// Several OS threads: nothing is lost, times never go back, each thread's events keep their order.
TEST(Recorder, MergesThreadsByTime) {
  const std::unique_ptr<runtime::Runtime> os = runtime::make_os_runtime();
  std::atomic<int64_t> now = 0;
  Recorder recorder({.now_ns = [&] { return now.fetch_add(1) / 4; },
                     .thread = [&] { return os->thread_number() - 1; }});
  constexpr uint64_t kEach = 20'000;
  os->run_main([&] {
    std::vector<std::unique_ptr<runtime::Thread>> threads;
    for (int t = 0; t < 4; ++t) {
      threads.push_back(os->spawn("recording", [&] {
        for (uint64_t i = 0; i < kEach; ++i) recorder.record(EventKind::kMarker, i);
      }));
    }
    for (auto& thread : threads) thread->join();
  });
  const std::vector<Event> events = recorder.events();
  ASSERT_EQ(events.size(), 4 * kEach);
  uint64_t next[4] = {};
  int64_t last = 0;
  for (const Event& event : events) {
    EXPECT_GE(event.time_ns, last);
    last = event.time_ns;
    ASSERT_LT(event.thread, 4u);
    EXPECT_EQ(event.a, next[event.thread]++);
  }
  const std::vector<Event> later = recorder.events(kEach);
  ASSERT_EQ(later.size(), 3 * kEach);
  EXPECT_EQ(later.front().a, events[kEach].a);
  EXPECT_EQ(later.back().a, events.back().a);
  EXPECT_TRUE(recorder.events(4 * kEach + 1).empty());
}

// The start is left out in whatever pieces the events are kept.
TEST(Recorder, GivesWhatComesBehindTheFirst) {
  HandClock hand;
  Recorder recorder(hand.clock());
  constexpr size_t kAll = 10'000;
  for (uint64_t i = 0; i < kAll; ++i) recorder.record(EventKind::kMarker, i);
  for (const size_t first : {size_t{0}, size_t{1}, kAll / 2, kAll - 1, kAll, kAll + 1}) {
    const std::vector<Event> events = recorder.events(first);
    ASSERT_EQ(events.size(), first < kAll ? kAll - first : 0U) << first;
    for (size_t i = 0; i < events.size(); ++i) ASSERT_EQ(events[i].a, first + i);
  }
}

// Memory is bounded: the oldest events go, and are counted.
TEST(Recorder, DropsAndCountsTheOldest) {
  HandClock hand;
  Recorder recorder(hand.clock(), 10'000);
  for (uint64_t i = 0; i < 100'000; ++i) recorder.record(EventKind::kMarker, i);
  const std::vector<Event> events = recorder.events();
  EXPECT_LE(events.size(), 10'000u);
  EXPECT_GE(events.size(), 4'096u);
  EXPECT_EQ(events.size() + recorder.dropped(), 100'000u);
  EXPECT_EQ(events.back().a, 99'999u);
  for (size_t i = 1; i < events.size(); ++i) EXPECT_EQ(events[i].a, events[i - 1].a + 1);
}

TEST(Recorder, WorksWithTheSmallestBound) {
  HandClock hand;
  Recorder recorder(hand.clock(), 1);
  for (uint64_t i = 0; i < 5; ++i) recorder.record(EventKind::kMarker, i);
  ASSERT_EQ(recorder.events().size(), 1u);
  EXPECT_EQ(recorder.events()[0].a, 4u);
  EXPECT_EQ(recorder.dropped(), 4u);
}

TEST(Recorder, InternsNamesDensely) {
  HandClock hand;
  Recorder recorder(hand.clock());
  EXPECT_EQ(recorder.name_id("DxgkDdiPatch"), 0u);
  EXPECT_EQ(recorder.name_id("other"), 1u);
  EXPECT_EQ(recorder.name_id("DxgkDdiPatch"), 0u);
  EXPECT_EQ(recorder.names(), (std::vector<std::string>{"DxgkDdiPatch", "other"}));
}

// A thread that alternates between recorders writes to the right one; a dead one's address means
// nothing.
TEST(Recorder, SeveralRecordersOnOneThread) {
  HandClock hand;
  for (int round = 0; round < 3; ++round) {
    auto first = std::make_unique<Recorder>(hand.clock());
    auto second = std::make_unique<Recorder>(hand.clock());
    for (uint64_t i = 0; i < 4; ++i) {
      first->record(EventKind::kMarker, 1);
      second->record(EventKind::kMarker, 2);
    }
    ASSERT_EQ(first->events().size(), 4u);
    ASSERT_EQ(second->events().size(), 4u);
    for (const Event& event : first->events()) EXPECT_EQ(event.a, 1u);
  }
}

TEST(Recorder, EmitGoesToTheCurrentRecorderOrNowhere) {
  HandClock hand;
  emit(EventKind::kMarker);
  {
    Recorder recorder(hand.clock());
    set_current(&recorder);
    emit(EventKind::kMarker, 1);
    EXPECT_EQ(recorder.events().size(), 1u);
  }
  EXPECT_EQ(current(), nullptr);
}

}  // namespace
}  // namespace dxgkit::trace
