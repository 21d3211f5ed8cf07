#include "vidsch/sync_objects.h"

#include <gmock/gmock.h>

#include <map>
#include <random>

#include "tests/support/covers.h"
#include "trace/trace.h"
#include "vidsch/sync_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SyncObjectsTest : public SyncFixture {
 protected:
  void make(SyncObjectId id, SyncKind kind, uint64_t initial = 0, uint64_t maximum = 0,
            std::atomic<uint64_t>* storage = nullptr) {
    ASSERT_EQ(sync_.create(
                  id, {.kind = kind, .initial = initial, .maximum = maximum, .storage = storage}),
              Status::kSuccess);
  }
  /// Starts a CPU wait that notes its name and status in `ended_`.
  CpuWaitId wait(int name, std::vector<SyncPoint> points, WaitMode mode = WaitMode::kAll) {
    return wait_cpu(std::move(points), mode,
                    [this, name](Status status) { ended_.emplace_back(name, status); });
  }

  std::vector<std::pair<int, Status>> ended_;
};

TEST_F(SyncObjectsTest, CreationRefusesImpossibleCounts) {
  DXGKIT_COVERS("SYNC-03");
  const auto create = [&](SyncKind kind, uint64_t initial, uint64_t maximum) {
    const Status status = sync_.create(kX, {.kind = kind, .initial = initial, .maximum = maximum});
    EXPECT_EQ(sync_.contains(kX), is_success(status));
    return status;
  };
  EXPECT_EQ(create(SyncKind::kSemaphore, 1, 0), Status::kInvalidParameter);
  EXPECT_EQ(create(SyncKind::kSemaphore, 3, 2), Status::kInvalidParameter);
  EXPECT_EQ(create(SyncKind::kMutex, 2, 0), Status::kInvalidParameter);
  EXPECT_EQ(create(SyncKind::kSemaphore, 2, 2), Status::kSuccess);
  EXPECT_EQ(sync_.value(kX), 2U);
  EXPECT_EQ(sync_.kind(kX), SyncKind::kSemaphore);
  EXPECT_EQ(signal({{kX}}), Status::kInvalidParameter) << "beyond the maximum";
  EXPECT_EQ(sync_.value(kX), 2U);
}

TEST_F(SyncObjectsTest, MutexHasOneOwnerAtATime) {
  DXGKIT_COVERS("SYNC-02");
  make(kX, SyncKind::kMutex, 1);
  EXPECT_FALSE(gpu_wait(10, {{kX}})) << "created owned";
  EXPECT_FALSE(gpu_wait(11, {{kX}}));
  EXPECT_EQ(signal({{kX}}), Status::kSuccess);
  EXPECT_THAT(woken_, ElementsAre(10)) << "the one that waited longest, and only that";
  EXPECT_EQ(sync_.value(kX), 1U);
  EXPECT_EQ(signal({{kX}}), Status::kSuccess);
  EXPECT_THAT(woken_, ElementsAre(10, 11));
  EXPECT_EQ(signal({{kX}}), Status::kSuccess);
  EXPECT_EQ(signal({{kX}}), Status::kInvalidParameter) << "free already";
  EXPECT_TRUE(gpu_wait(12, {{kX}}));
  EXPECT_FALSE(gpu_wait(13, {{kX}}));
}

TEST_F(SyncObjectsTest, OwnersDeathFreesItsMutexForTheNextWaiter) {
  DXGKIT_COVERS("SYNC-27");
  make(kX, SyncKind::kMutex);
  make(kY, SyncKind::kMutex);
  ASSERT_TRUE(gpu_wait(10, {{kX}}));
  ASSERT_TRUE(gpu_wait(11, {{kY}}));
  ASSERT_FALSE(gpu_wait(12, {{kX}}));
  sync_.abandon(ContextId{10});
  EXPECT_THAT(woken_, ElementsAre(12));
  EXPECT_EQ(sync_.value(kY), 1U) << "another owner's is not touched";
}

TEST_F(SyncObjectsTest, SemaphoreCountsAndServesInOrder) {
  make(kX, SyncKind::kSemaphore, 1, 3);
  EXPECT_TRUE(gpu_wait(10, {{kX}}));
  EXPECT_FALSE(gpu_wait(11, {{kX}}));
  EXPECT_FALSE(gpu_wait(12, {{kX}}));
  EXPECT_EQ(signal({{kX}}), Status::kSuccess);
  EXPECT_THAT(woken_, ElementsAre(11));
  EXPECT_EQ(signal({{kX}, {kX}}), Status::kSuccess);
  EXPECT_THAT(woken_, ElementsAre(11, 12));
  EXPECT_EQ(sync_.value(kX), 1U);
}

TEST_F(SyncObjectsTest, FenceIsReachedAtOrAboveTheValue) {
  DXGKIT_COVERS("SYNC-04");
  make(kX, SyncKind::kFence, 5);
  EXPECT_TRUE(gpu_wait(10, {{kX, 4}}));
  EXPECT_TRUE(gpu_wait(11, {{kX, 5}}));
  EXPECT_FALSE(gpu_wait(12, {{kX, 6}}));
  EXPECT_FALSE(gpu_wait(13, {{kX, 8}}));
  EXPECT_EQ(signal({{kX, 7}}), Status::kSuccess);
  EXPECT_THAT(woken_, ElementsAre(12));
}

TEST_F(SyncObjectsTest, FenceDoesNotFallWithoutRewind) {
  DXGKIT_COVERS("SYNC-08");
  std::atomic<uint64_t> storage{0};
  make(kX, SyncKind::kFence, 5);
  make(kY, SyncKind::kMonitoredFence, 5, 0, &storage);
  for (const SyncObjectId id : {kX, kY}) {
    EXPECT_EQ(signal({{id, 3}}), Status::kSuccess);
    EXPECT_EQ(sync_.value(id), 5U);
    EXPECT_EQ(signal({{id, 3, true}}), Status::kSuccess);
    EXPECT_EQ(sync_.value(id), 3U);
  }
  EXPECT_EQ(storage.load(), 3U);
}

TEST_F(SyncObjectsTest, CpuSignalIsPublishedAndWakes) {
  DXGKIT_COVERS("SYNC-18");
  std::atomic<uint64_t> storage{99};
  make(kX, SyncKind::kMonitoredFence, 1, 0, &storage);
  EXPECT_EQ(storage.load(), 1U) << "the initial value is visible from creation";
  uint64_t seen_by_waiter = 0;
  const std::vector<SyncPoint> points{{kX, 2}};
  sync_.wait_cpu(points, WaitMode::kAll, [&](Status) { seen_by_waiter = storage.load(); });
  EXPECT_FALSE(gpu_wait(10, {{kX, 2}}));
  EXPECT_EQ(signal({{kX, 2}}), Status::kSuccess);
  EXPECT_EQ(seen_by_waiter, 2U) << "the value is there before anybody is woken";
  EXPECT_THAT(woken_, ElementsAre(10));
}

TEST_F(SyncObjectsTest, DirectWritesAreNoticedByReread) {
  DXGKIT_COVERS("SYNC-19");
  std::atomic<uint64_t> x{0};
  std::atomic<uint64_t> y{0};
  make(kX, SyncKind::kMonitoredFence, 0, 0, &x);
  make(kY, SyncKind::kMonitoredFence, 0, 0, &y);
  wait(1, {{kX, 3}});
  EXPECT_FALSE(gpu_wait(10, {{kY, 1}}));
  x.store(3, std::memory_order_release);
  EXPECT_THAT(ended_, IsEmpty());
  sync_.reread();
  EXPECT_THAT(ended_, ElementsAre(std::pair(1, Status::kSuccess)));
  EXPECT_THAT(woken_, IsEmpty());
  y.store(1, std::memory_order_release);
  sync_.reread();
  EXPECT_THAT(woken_, ElementsAre(10));
}

TEST_F(SyncObjectsTest, CpuWaitsForAllOrAnyAndEndsAtOnceIfReached) {
  DXGKIT_COVERS("SYNC-21");
  make(kX, SyncKind::kMonitoredFence, 1);
  make(kY, SyncKind::kMonitoredFence);
  wait(1, {{kX, 1}, {kY, 0}});
  EXPECT_THAT(ended_, ElementsAre(std::pair(1, Status::kSuccess)));
  wait(2, {{kX, 1}, {kY, 1}}, WaitMode::kAny);
  EXPECT_EQ(ended_.size(), 2U);
  wait(3, {{kX, 2}, {kY, 2}});
  wait(4, {{kX, 2}, {kY, 2}}, WaitMode::kAny);
  ended_.clear();
  EXPECT_EQ(signal({{kX, 2}}), Status::kSuccess);
  EXPECT_THAT(ended_, ElementsAre(std::pair(4, Status::kSuccess)));
  EXPECT_EQ(signal({{kY, 2}}), Status::kSuccess);
  EXPECT_EQ(ended_.size(), 2U);
}

TEST_F(SyncObjectsTest, ReachedValuesAreLatchedAgainstRewinds) {
  DXGKIT_COVERS("SYNC-23");
  make(kX, SyncKind::kMonitoredFence);
  make(kY, SyncKind::kMonitoredFence);
  wait(1, {{kX, 5}, {kY, 5}});
  EXPECT_FALSE(gpu_wait(10, {{kX, 5}, {kY, 5}}));
  EXPECT_EQ(signal({{kX, 5}}), Status::kSuccess);
  EXPECT_EQ(signal({{kX, 0, true}}), Status::kSuccess);
  EXPECT_THAT(ended_, IsEmpty());
  EXPECT_EQ(signal({{kY, 5}}), Status::kSuccess);
  EXPECT_THAT(ended_, ElementsAre(std::pair(1, Status::kSuccess)));
  EXPECT_THAT(woken_, ElementsAre(10));
}

TEST_F(SyncObjectsTest, DestructionFailsCpuWaitersAndLetsGpuWaitersThrough) {
  DXGKIT_COVERS("SYNC-28");
  make(kX, SyncKind::kMonitoredFence);
  make(kY, SyncKind::kMonitoredFence);
  wait(1, {{kX, 1}, {kY, 1}});
  wait(2, {{kX, 1}, {kY, 1}}, WaitMode::kAny);
  wait(3, {{kY, 1}});
  EXPECT_FALSE(gpu_wait(10, {{kX, 1}}));
  EXPECT_FALSE(gpu_wait(11, {{kX, 1}, {kY, 1}}));
  sync_.destroy(kX);
  EXPECT_TRUE(sync_.validate());
  EXPECT_FALSE(sync_.contains(kX));
  EXPECT_THAT(ended_, ElementsAre(std::pair(1, Status::kInvalidHandle),
                                  std::pair(2, Status::kInvalidHandle)));
  EXPECT_THAT(woken_, ElementsAre(10)) << "11 still waits for the other object";
  EXPECT_EQ(signal({{kY, 1}}), Status::kSuccess);
  EXPECT_THAT(woken_, ElementsAre(10, 11));
  wait(4, {{kX, 1}});
  EXPECT_EQ(ended_.back(), std::pair(4, Status::kInvalidHandle));
  EXPECT_TRUE(gpu_wait(12, {{kX, 9}}));
}

TEST_F(SyncObjectsTest, AWaitForAllTakesEverythingOrNothing) {
  make(kX, SyncKind::kSemaphore, 1, 2);
  make(kY, SyncKind::kMutex, 1);
  EXPECT_FALSE(gpu_wait(10, {{kX}, {kY}}));
  EXPECT_EQ(sync_.value(kX), 1U) << "not taken while the mutex is owned";
  EXPECT_TRUE(gpu_wait(11, {{kX}})) << "a wait that cannot go on holds up nobody";
  EXPECT_EQ(signal({{kY}}), Status::kSuccess);
  EXPECT_EQ(sync_.value(kY), 0U);
  EXPECT_EQ(signal({{kX}}), Status::kSuccess);
  EXPECT_THAT(woken_, ElementsAre(10));
  EXPECT_EQ(sync_.value(kX), 0U);
  EXPECT_EQ(sync_.value(kY), 1U);
  EXPECT_FALSE(gpu_wait(12, {{kX}, {kX}})) << "named twice, needs two";
  EXPECT_EQ(signal({{kX}}), Status::kSuccess);
  EXPECT_EQ(sync_.value(kX), 1U);
  EXPECT_EQ(signal({{kX}}), Status::kSuccess);
  EXPECT_THAT(woken_, ElementsAre(10, 12));
  EXPECT_EQ(sync_.value(kX), 0U);
}

TEST_F(SyncObjectsTest, ARefusedSignalChangesNothing) {
  make(kX, SyncKind::kSemaphore, 0, 1);
  make(kY, SyncKind::kFence);
  EXPECT_FALSE(gpu_wait(10, {{kY, 4}}));
  EXPECT_EQ(signal({{kY, 4}, {kX}, {kX}}), Status::kInvalidParameter);
  EXPECT_EQ(sync_.value(kX), 0U);
  EXPECT_EQ(sync_.value(kY), 0U);
  EXPECT_THAT(woken_, IsEmpty());
}

TEST_F(SyncObjectsTest, ARefusedSignalTakesBackEachObjectInItsWay) {
  constexpr SyncObjectId kSemaphore{3}, kFull{4}, kFence{5};
  make(kX, SyncKind::kMutex, 1);
  make(kFence, SyncKind::kMonitoredFence, 5);
  make(kSemaphore, SyncKind::kSemaphore, 2, 9);
  make(kFull, SyncKind::kSemaphore, 2, 2);
  EXPECT_FALSE(gpu_wait(10, {{kX}})) << "created owned";
  EXPECT_EQ(signal({{kX}, {kFence, 7}, {kSemaphore}, {kFull}}), Status::kInvalidParameter);
  EXPECT_EQ(sync_.value(kX), 1U);
  EXPECT_EQ(sync_.value(kFence), 5U);
  EXPECT_EQ(sync_.value(kSemaphore), 2U);
  EXPECT_EQ(sync_.value(kFull), 2U);
}

TEST_F(SyncObjectsTest, WithdrawnWaitsAreForgotten) {
  make(kX, SyncKind::kFence);
  const CpuWaitId id = wait(1, {{kX, 1}});
  EXPECT_TRUE(sync_.cancel_wait(id));
  EXPECT_FALSE(sync_.cancel_wait(id));
  EXPECT_FALSE(gpu_wait(10, {{kX, 1}}));
  sync_.cancel_gpu_wait(ContextId{10});
  EXPECT_EQ(signal({{kX, 1}}), Status::kSuccess);
  EXPECT_THAT(ended_, IsEmpty());
  EXPECT_THAT(woken_, IsEmpty());
  const CpuWaitId done = wait(2, {{kX, 1}});
  EXPECT_FALSE(sync_.cancel_wait(done)) << "over at once";
}

TEST_F(SyncObjectsTest, NotificationIsCalledForEachSignal) {
  int calls = 0;
  ASSERT_EQ(sync_.create(kX, {.kind = SyncKind::kCpuNotification, .notify = [&] { ++calls; }}),
            Status::kSuccess);
  EXPECT_EQ(signal({{kX}}), Status::kSuccess);
  EXPECT_EQ(signal({{kX}}), Status::kSuccess);
  EXPECT_EQ(calls, 2);
}

TEST_F(SyncObjectsTest, CallbacksMayCallBack) {
  make(kX, SyncKind::kFence);
  make(kY, SyncKind::kFence);
  wait(2, {{kY, 1}});
  const std::vector<SyncPoint> points{{kX, 1}};
  sync_.wait_cpu(points, WaitMode::kAll, [&](Status) {
    EXPECT_EQ(signal({{kY, 1}}), Status::kSuccess);
    EXPECT_THAT(ended_, IsEmpty()) << "after this callback, not inside it";
    sync_.destroy(kX);
  });
  wait(3, {{kX, 2}});
  EXPECT_EQ(sync_.signal(points), Status::kSuccess);
  EXPECT_THAT(ended_,
              ElementsAre(std::pair(2, Status::kSuccess), std::pair(3, Status::kInvalidHandle)));
}

TEST_F(SyncObjectsTest, SignalsAndSatisfactionsAreTraced) {
  trace::Recorder recorder({.now_ns = [] { return int64_t{0}; }, .thread = [] { return 0U; }});
  trace::set_current(&recorder);
  make(kX, SyncKind::kFence);
  EXPECT_FALSE(gpu_wait(10, {{kX, 2}}));
  const std::vector<SyncPoint> points{{kX, 2}};
  EXPECT_EQ(sync_.signal(points, ContextId{11}), Status::kSuccess);
  trace::set_current(nullptr);
  std::vector<std::pair<uint16_t, uint64_t>> seen;
  for (const trace::Event& event : recorder.events()) {
    if (event.a == kX.value && event.b == 2) seen.emplace_back(event.kind, event.c);
  }
  const auto number = [](trace::EventKind kind) { return static_cast<uint16_t>(kind); };
  EXPECT_THAT(seen, ElementsAre(std::pair(number(trace::EventKind::kSyncWait), 10U),
                                std::pair(number(trace::EventKind::kSyncSignal), 11U),
                                std::pair(number(trace::EventKind::kSyncSatisfied), 10U)));
}

// --- model ---

/// The obvious thing: every wait in one list, everything looked at again after each change, oldest
/// wait first, until nothing changes. Single-point signals, so that the order between objects is no
/// question.
class Model {
 public:
  struct Point {
    uint64_t object, value;
    bool latched = false;
  };
  struct Wait {
    int name;
    bool cpu;
    bool any;
    std::vector<Point> points;
  };
  std::map<uint64_t, SyncKind> kinds;
  std::map<uint64_t, uint64_t> values, maxima;
  std::vector<Wait> waits;
  std::vector<std::pair<int, Status>> ended;

  bool satisfied(Wait& wait) {
    std::map<uint64_t, uint64_t> left = values;
    bool all = true;
    // Latch whatever is reached now, then see whether everything can be had together.
    for (Point& p : wait.points) {
      if (kinds.at(p.object) == SyncKind::kFence && values.at(p.object) >= p.value)
        p.latched = true;
    }
    for (Point& p : wait.points) {
      bool got = false;
      switch (kinds.at(p.object)) {
        case SyncKind::kFence:
          got = p.latched;
          break;
        case SyncKind::kSemaphore:
          got = left[p.object] > 0 && left[p.object]-- > 0;
          break;
        case SyncKind::kMutex:
          got = left[p.object] == 0 && ++left[p.object] == 1;
          break;
        default:
          break;
      }
      if (got && wait.any) {
        values = left;
        return true;
      }
      all = all && got;
    }
    if (all && !wait.any) values = left;
    return all && !wait.any;
  }
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < waits.size(); ++i) {
        if (!satisfied(waits[i])) continue;
        ended.emplace_back(waits[i].name, Status::kSuccess);
        waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(i));
        changed = true;
        break;
      }
    }
  }
  Status signal(uint64_t object, uint64_t value, bool rewind) {
    uint64_t& v = values.at(object);
    switch (kinds.at(object)) {
      case SyncKind::kFence:
        if (rewind || value > v) v = value;
        break;
      case SyncKind::kSemaphore:
        if (v == maxima.at(object)) return Status::kInvalidParameter;
        ++v;
        break;
      case SyncKind::kMutex:
        if (v == 0) return Status::kInvalidParameter;
        v = 0;
        break;
      default:
        break;
    }
    settle();
    return Status::kSuccess;
  }
};

class SyncObjectsModelTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SyncObjectsModelTest, AgreesWithTheObviousModel) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  std::mt19937 random(GetParam());
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  std::vector<std::pair<int, Status>> ended;
  SyncObjects sync([&](ContextId context) {
    ended.emplace_back(static_cast<int>(context.value), Status::kSuccess);
  });
  Model model;
  uint64_t next_object = 1;
  int next_name = 1;
  size_t total = 0;
  std::map<int, CpuWaitId> cpu_waits;
  for (int step = 0; step < 2000; ++step) {
    std::vector<uint64_t> objects;
    for (const auto& [id, kind] : model.kinds) objects.push_back(id);
    const uint32_t what = below(100);
    if (objects.size() < 2 || (what < 3 && objects.size() < 6)) {
      const auto kind = static_cast<SyncKind>(below(3));  // mutex, semaphore, fence
      const uint64_t id = next_object++;
      const uint64_t maximum = kind == SyncKind::kSemaphore ? 1 + below(3) : 0;
      const uint64_t initial = below(2);
      ASSERT_EQ(
          sync.create(SyncObjectId{id}, {.kind = kind, .initial = initial, .maximum = maximum}),
          Status::kSuccess);
      model.kinds[id] = kind;
      model.values[id] = initial;
      model.maxima[id] = maximum;
    } else if (what < 50) {
      const uint64_t object = objects[below(static_cast<uint32_t>(objects.size()))];
      const SyncPoint point{SyncObjectId{object}, below(12), below(4) == 0};
      const std::vector<SyncPoint> points{point};
      ASSERT_EQ(sync.signal(points), model.signal(object, point.value, point.allow_rewind));
    } else if (what < 50 + (model.waits.size() < 40 ? 45 : 15)) {
      Model::Wait wait{.name = next_name++, .cpu = below(2) == 0, .any = false, .points = {}};
      wait.any = wait.cpu && below(2) == 0;
      std::vector<SyncPoint> points;
      for (uint32_t n = 1 + below(3); n-- > 0;) {
        const uint64_t object = objects[below(static_cast<uint32_t>(objects.size()))];
        const uint64_t value = below(12);
        points.push_back({SyncObjectId{object}, value});
        wait.points.push_back({object, value});
      }
      const int name = wait.name;
      if (model.satisfied(wait)) {
        model.ended.emplace_back(name, Status::kSuccess);
      } else {
        model.waits.push_back(wait);
      }
      if (wait.cpu) {
        cpu_waits[name] =
            sync.wait_cpu(points, wait.any ? WaitMode::kAny : WaitMode::kAll,
                          [&ended, name](Status status) { ended.emplace_back(name, status); });
      } else if (sync.wait_gpu(ContextId{static_cast<uint64_t>(name)}, points)) {
        ended.emplace_back(name, Status::kSuccess);
      }
    } else if (!model.waits.empty()) {
      const size_t i = below(static_cast<uint32_t>(model.waits.size()));
      const Model::Wait wait = model.waits[i];
      model.waits.erase(model.waits.begin() + static_cast<std::ptrdiff_t>(i));
      if (wait.cpu) {
        ASSERT_TRUE(sync.cancel_wait(cpu_waits.at(wait.name)));
      } else {
        sync.cancel_gpu_wait(ContextId{static_cast<uint64_t>(wait.name)});
      }
    }
    ASSERT_TRUE(sync.validate()) << "step " << step;
    ASSERT_EQ(ended, model.ended) << "step " << step;
    total += ended.size();
    ended.clear();
    model.ended.clear();
    for (const auto& [id, value] : model.values) {
      ASSERT_EQ(sync.value(SyncObjectId{id}), value) << "object " << id << ", step " << step;
    }
  }
  EXPECT_GT(total, 200U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SyncObjectsModelTest, ::testing::Range(1U, 11U));

}  // namespace
}  // namespace dxgkit::vidsch
