#include "vidsch/flip_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/covers.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kA = 0x1000, kB = 0x2000, kC = 0x3000, kD = 0x4000;

/// A display: latches at each vertical sync the oldest address that waits for one.
class Screen : public FlipPort {
 public:
  explicit Screen(uint32_t depth = 1) : queue(*this, depth) { queue.show(kA); }
  void program(const FlipRequest& flip, bool at_once) override {
    said.push_back((at_once ? "now " : "next ") + std::to_string(flip.id));
    if (at_once) {
      address = flip.surface;
    } else {
      waiting.push_back(flip.surface);
    }
  }
  void done(const FlipRequest& flip) override { said.push_back("done " + std::to_string(flip.id)); }
  void flip(uint64_t id, uint64_t surface, uint32_t interval = 1) {
    queue.announce({.id = id, .surface = surface, .interval = interval});
    queue.reach(id);
  }
  FlipQueue::Vsync sync() {
    if (!waiting.empty()) {
      address = waiting.front();
      waiting.erase(waiting.begin());
    }
    const FlipQueue::Vsync result = queue.vsync(address);
    EXPECT_TRUE(queue.validate());
    return result;
  }
  std::vector<std::string> take() { return std::exchange(said, {}); }

  FlipQueue queue;
  std::vector<std::string> said;
  std::vector<uint64_t> waiting;
  uint64_t address = kA;
};

TEST(FlipQueue, AFlipIsDoneWhenVerticalSyncReportsItsAddress) {
  DXGKIT_COVERS("DISP-07");
  Screen screen;
  screen.flip(1, kB);
  EXPECT_THAT(screen.take(), ElementsAre("next 1"));
  EXPECT_EQ(screen.queue.vsync(kA), FlipQueue::Vsync::kShown) << "too late for this one";
  EXPECT_THAT(screen.take(), IsEmpty());
  EXPECT_EQ(screen.sync(), FlipQueue::Vsync::kFlipped);
  EXPECT_THAT(screen.take(), ElementsAre("done 1"));
  EXPECT_EQ(screen.queue.shown(), kB);
  EXPECT_EQ(screen.queue.pending(), 0U);
}

TEST(FlipQueue, NothingIsProgrammedBeforeTheGpuIsThereNorOutOfOrder) {
  Screen screen(2);
  screen.queue.announce({.id = 1, .surface = kB});
  screen.queue.announce({.id = 2, .surface = kC});
  screen.queue.reach(2);
  EXPECT_THAT(screen.take(), IsEmpty());
  EXPECT_FALSE(screen.queue.needs_vsync());
  screen.queue.reach(1);
  EXPECT_THAT(screen.take(), ElementsAre("next 1", "next 2"));
  EXPECT_TRUE(screen.queue.needs_vsync());
}

TEST(FlipQueue, AFlipIsReachedOnce) {
  DXGKIT_COVERS("DISP-07");
  Screen screen;
  screen.flip(1, kB);
  EXPECT_THAT(screen.take(), ElementsAre("next 1"));
  screen.queue.reach(1);  // it is in hardware
  screen.queue.reach(7);  // and this is no flip
  EXPECT_THAT(screen.take(), IsEmpty());
  EXPECT_TRUE(screen.queue.validate());
  EXPECT_EQ(screen.sync(), FlipQueue::Vsync::kFlipped);
  EXPECT_THAT(screen.take(), ElementsAre("done 1"));
  screen.flip(2, kC);
  EXPECT_THAT(screen.take(), ElementsAre("next 2")) << "hardware has room again";
}

TEST(FlipQueue, HardwareHoldsSoManyAndTheNextWaits) {
  DXGKIT_COVERS("DISP-06");
  for (const uint32_t depth : {0U, 1U, 2U, 3U}) {
    Screen screen(depth);
    const size_t room = depth == 0 ? 1 : depth;
    const uint64_t surfaces[] = {kB, kC, kD, kA, kB};
    for (uint64_t id = 1; id <= 5; ++id) screen.flip(id, surfaces[id - 1]);
    EXPECT_EQ(screen.queue.in_hardware(), room);
    for (int i = 0; i < 5; ++i) {
      screen.sync();
      EXPECT_LE(screen.queue.in_hardware(), room);
    }
    EXPECT_EQ(screen.queue.pending(), 0U);
    EXPECT_EQ(screen.queue.shown(), kB);
  }
}

TEST(FlipQueue, AnIntervalHoldsTheFrameBefore) {
  DXGKIT_COVERS("DISP-04");
  for (uint32_t interval = 1; interval <= 4; ++interval) {
    Screen screen(2);
    screen.flip(1, kB, 1);
    screen.sync();
    screen.take();
    screen.flip(2, kC, interval);
    uint32_t syncs = 0;
    while (screen.queue.pending() != 0 && syncs < 10) {
      screen.sync();
      ++syncs;
    }
    EXPECT_EQ(syncs, interval);
  }
  Screen at_once;
  at_once.flip(1, kB, 0);
  EXPECT_THAT(at_once.take(), ElementsAre("now 1"));
  EXPECT_EQ(at_once.address, kB) << "without a sync";
  at_once.flip(2, kC, 0);
  EXPECT_THAT(at_once.take(), ElementsAre("now 2", "done 1")) << "1 is off the screen already";
  at_once.flip(3, kD, 1);
  EXPECT_THAT(at_once.take(), IsEmpty()) << "one in hardware";
  at_once.sync();
  EXPECT_THAT(at_once.take(), ElementsAre("done 2", "next 3"));
  at_once.flip(4, kA, 0);
  EXPECT_THAT(at_once.take(), IsEmpty()) << "it may not overtake 3";
  at_once.sync();
  EXPECT_THAT(at_once.take(), ElementsAre("done 3", "now 4"));
}

TEST(FlipQueue, AFlipToWhatIsShownWaitsForVerticalBlank) {
  DXGKIT_COVERS("DISP-10");
  Screen screen(2);
  screen.flip(1, kA);
  EXPECT_THAT(screen.take(), IsEmpty()) << "there is nothing to program";
  EXPECT_TRUE(screen.queue.needs_vsync());
  screen.sync();
  EXPECT_THAT(screen.take(), ElementsAre("done 1"));
  screen.flip(2, kB);
  screen.flip(3, kB, 2);
  EXPECT_THAT(screen.take(), ElementsAre("next 2"));
  screen.sync();
  EXPECT_THAT(screen.take(), ElementsAre("done 2"));
  screen.sync();
  EXPECT_THAT(screen.take(), IsEmpty());
  screen.sync();
  EXPECT_THAT(screen.take(), ElementsAre("done 3"));
}

// A report of vertical sync must name one flip: the hardware never holds a surface twice.
TEST(FlipQueue, ASurfaceThatIsInHardwareOrShownIsNotProgrammedAgain) {
  DXGKIT_COVERS("DISP-07");
  Screen screen(3);
  screen.flip(1, kB);
  screen.flip(2, kC);
  screen.flip(3, kB);
  EXPECT_THAT(screen.take(), ElementsAre("next 1", "next 2"));
  screen.sync();
  EXPECT_THAT(screen.take(), ElementsAre("done 1")) << "shown, and the same address still";
  screen.sync();
  EXPECT_THAT(screen.take(), ElementsAre("done 2", "next 3"));
}

// A flip at once has replaced everything before it. Another flip beside it would make a report
// ambiguous.
TEST(FlipQueue, NothingIsProgrammedBesideWhatCameAtOnce) {
  DXGKIT_COVERS("DISP-07");
  Screen screen(3);
  screen.flip(1, kB, 0);
  screen.flip(2, kC, 1);
  EXPECT_THAT(screen.take(), ElementsAre("now 1"));
  screen.sync();
  EXPECT_THAT(screen.take(), ElementsAre("done 1", "next 2"));
  screen.sync();
  screen.take();
  screen.queue.announce({.id = 3, .surface = kD, .interval = 0, .by_driver = true});
  screen.queue.reach(3);
  screen.flip(4, kA, 0);
  EXPECT_THAT(screen.take(), IsEmpty()) << "nor does it overtake what the driver programs";
  EXPECT_EQ(screen.queue.vsync(kD), FlipQueue::Vsync::kFlipped);
  EXPECT_THAT(screen.take(), ElementsAre("done 3", "now 4"));
}

TEST(FlipQueue, AnAddressNobodyAskedForChangesNothing) {
  Screen screen;
  screen.flip(1, kB);
  screen.take();
  EXPECT_EQ(screen.queue.vsync(kC), FlipQueue::Vsync::kUnknown);
  EXPECT_EQ(screen.queue.vsync(0), FlipQueue::Vsync::kUnknown);
  EXPECT_THAT(screen.take(), IsEmpty());
  EXPECT_EQ(screen.queue.shown(), kA);
  EXPECT_EQ(screen.queue.pending(), 1U);
}

TEST(FlipQueue, WhatIsNeverReachedLeavesAndAModeSetEndsAll) {
  Screen screen;
  screen.queue.announce({.id = 1, .surface = kB});
  screen.queue.announce({.id = 2, .surface = kC});
  screen.queue.reach(2);
  EXPECT_TRUE(screen.queue.cancel(1));
  EXPECT_THAT(screen.take(), ElementsAre("next 2"));
  EXPECT_FALSE(screen.queue.cancel(2)) << "in hardware";
  EXPECT_FALSE(screen.queue.cancel(7));
  screen.queue.announce({.id = 3, .surface = kD});
  screen.queue.show(kA);
  EXPECT_THAT(screen.take(), ElementsAre("done 2", "done 3"));
  EXPECT_EQ(screen.queue.shown(), kA);
  EXPECT_EQ(screen.queue.pending(), 0U);
}

TEST(FlipQueue, ADriversOwnFlipIsNotProgrammed) {
  Screen screen;
  screen.queue.announce({.id = 1, .surface = kB, .by_driver = true});
  screen.queue.reach(1);
  EXPECT_THAT(screen.take(), IsEmpty());
  EXPECT_EQ(screen.queue.vsync(kB), FlipQueue::Vsync::kFlipped);
  EXPECT_THAT(screen.take(), ElementsAre("done 1"));
}

/// Against a display that latches: order kept, depth kept, every flip ends once, intervals held.
TEST(FlipQueue, RandomFlipsKeepTheirPromises) {
  DXGKIT_COVERS("DISP-04", "DISP-06", "DISP-07");
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const uint32_t depth = random() % 4;
    Screen screen(depth);
    uint64_t next = 1, syncs = 0;
    std::vector<uint64_t> unreached, finished;
    std::vector<uint32_t> intervals(1);
    std::vector<uint64_t> shown_at(1, 0);
    std::set<uint64_t> cancelled;
    const auto look = [&] {
      for (const std::string& one : screen.take()) {
        if (!one.starts_with("done ")) continue;
        finished.push_back(std::stoull(one.substr(5)));
        shown_at.push_back(syncs);
      }
    };
    for (int step = 0; step < 300; ++step) {
      const uint32_t what = random() % 8;
      if (what < 2 && screen.queue.pending() < 6) {
        intervals.push_back(static_cast<uint32_t>(random() % 5));
        screen.queue.announce(
            {.id = next, .surface = (1 + random() % 4) * 0x1000, .interval = intervals.back()});
        unreached.push_back(next++);
      } else if (what < 4 && !unreached.empty()) {
        const size_t which = random() % unreached.size();
        screen.queue.reach(unreached[which]);
        unreached.erase(unreached.begin() + static_cast<std::ptrdiff_t>(which));
      } else if (what == 4 && !unreached.empty() && random() % 4 == 0) {
        EXPECT_TRUE(screen.queue.cancel(unreached.back()));
        cancelled.insert(unreached.back());
        unreached.pop_back();
      } else if (what >= 5) {
        ++syncs;
        EXPECT_NE(screen.sync(), FlipQueue::Vsync::kUnknown);
      }
      ASSERT_TRUE(screen.queue.validate());
      ASSERT_LE(screen.queue.in_hardware(), depth == 0 ? 1 : depth);
      look();
    }
    for (const uint64_t id : unreached) screen.queue.reach(id);
    look();
    for (int i = 0; i < 60; ++i) {
      ++syncs;
      screen.sync();
      look();
    }
    EXPECT_EQ(screen.queue.pending(), 0U) << "seed " << seed;
    EXPECT_TRUE(std::ranges::is_sorted(finished));
    EXPECT_EQ(finished.size() + cancelled.size(), next - 1);
    for (size_t i = 0; i < finished.size(); ++i)
      EXPECT_GE(shown_at[i + 1] - shown_at[i], intervals[finished[i]]) << "seed " << seed;
  }
}

// Only the first flip can be due: one behind it waits for it.
TEST(FlipQueue, AVerticalSyncIsNeededForTheFirstFlipOnly) {
  DXGKIT_COVERS("DISP-07");
  Screen screen;
  screen.queue.announce({.id = 1, .surface = kB, .interval = 1});
  screen.queue.announce({.id = 2, .surface = kC, .interval = 1});
  screen.queue.reach(2);
  EXPECT_FALSE(screen.queue.needs_vsync());
  screen.queue.reach(1);
  screen.queue.announce({.id = 3, .surface = kD, .interval = 1});
  EXPECT_TRUE(screen.queue.needs_vsync());
}

}  // namespace
}  // namespace dxgkit::vidsch
