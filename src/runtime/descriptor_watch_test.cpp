// Proves that a watch tells of descriptors that become readable, with real threads and in
// simulation, and that it ends without one.
#include "runtime/descriptor_watch.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

#include "runtime/sync.h"

namespace dxgkit::runtime {
namespace {

/// Three eventfds, closed at the end.
struct Events {
  std::array<int, 3> fds{};
  Events() {
    for (int& fd : fds) fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  }
  ~Events() {
    for (const int fd : fds) close(fd);
  }
  void signal(size_t index) const { EXPECT_EQ(eventfd_write(fds[index], 1), 0); }
  void reset(size_t index) const {
    eventfd_t value = 0;
    EXPECT_EQ(eventfd_read(fds[index], &value), 0);
  }
};

/// Runs `body` with real threads, and in simulation with some seeds.
void in_both(const std::function<void(Runtime&)>& body) {
  {
    const std::unique_ptr<Runtime> runtime = make_os_runtime();
    runtime->run_main([&] { body(*runtime); });
  }
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::unique_ptr<Runtime> runtime = make_sim_runtime(seed);
    runtime->run_main([&] { body(*runtime); });
  }
}

TEST(DescriptorWatch, TellsOfEachThatBecomesReadable) {
  in_both([](Runtime& runtime) {
    const Events events;
    DescriptorWatch watch(runtime);
    for (const int fd : events.fds) ASSERT_TRUE(watch.add(fd));
    ASSERT_TRUE(watch.add(events.fds[1])) << "twice";
    EXPECT_EQ(watch.first_readable(), std::nullopt);
    std::atomic<uint32_t> told{0};
    ASSERT_TRUE(watch.start([&] {
      told.fetch_add(1);
      runtime.wake_all(told);
    }));
    for (const size_t index : {size_t{2}, size_t{1}, size_t{0}}) {
      const uint32_t before = told.load();
      const std::unique_ptr<Thread> other = runtime.spawn("client", [&] { events.signal(index); });
      while (told.load() == before) runtime.wait(told, before);
      other->join();
      EXPECT_EQ(watch.first_readable(), index) << "the first in order";
    }
    for (const size_t index : {size_t{0}, size_t{1}, size_t{2}}) events.reset(index);
    EXPECT_EQ(watch.first_readable(), std::nullopt) << "nothing was kept";
  });
}

TEST(DescriptorWatch, TellsOfOneThatIsReadableAtTheStart) {
  in_both([](Runtime& runtime) {
    const Events events;
    events.signal(1);
    Event told;
    DescriptorWatch watch(runtime);
    ASSERT_TRUE(watch.add(events.fds[1]));
    ASSERT_TRUE(watch.start([&] { told.set(); }));
    told.wait();
    EXPECT_EQ(watch.first_readable(), 0U);
  });
}

TEST(DescriptorWatch, KeepsACopy) {
  in_both([](Runtime& runtime) {
    const int own = eventfd(0, EFD_CLOEXEC);
    const int other = dup(own);
    Event told;
    DescriptorWatch watch(runtime);
    ASSERT_TRUE(watch.add(own));
    ASSERT_EQ(close(own), 0);
    EXPECT_FALSE(watch.add(own)) << "not open";
    EXPECT_FALSE(watch.add(-1));
    ASSERT_TRUE(watch.start([&] { told.set(); }));
    ASSERT_EQ(eventfd_write(other, 1), 0);
    told.wait();
    EXPECT_EQ(watch.first_readable(), 0U);
    close(other);
  });
}

TEST(DescriptorWatch, EndsWhenNothingHappens) {
  in_both([](Runtime& runtime) {
    const Events events;
    for (const bool starts : {false, true}) {
      bool told = false;
      {
        DescriptorWatch watch(runtime);
        ASSERT_TRUE(watch.add(events.fds[0]));
        if (starts) {
          ASSERT_TRUE(watch.start([&] { told = true; }));
        }
      }
      EXPECT_FALSE(told);
    }
  });
}

}  // namespace
}  // namespace dxgkit::runtime
