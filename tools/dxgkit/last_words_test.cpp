// Notes of processes that end.
#include "tools/dxgkit/last_words.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>

#include "base/check.h"
#include "tests/support/covers.h"

namespace dxgkit::tool {
namespace {

int status_of(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

Problem problem(const char* key, const char* rule) {
  Problem one{.key = key, .finding = {}};
  one.finding.rule = rule;
  one.finding.place.stack = {"a.sys+0x1"};
  return one;
}

/// A check of ours that fails accuses no driver, and says which check it was.
TEST(LastWords, OfAFailedCheckAreOurs) {
  DXGKIT_COVERS("NT-37");
  const LastWords words;
  const int status = status_of([&] {
    words.listen(7, 0);
    DXGKIT_CHECK(1 + 1 == 3);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  const Problem last = words.of(7, "A run", "it ended");
  EXPECT_EQ(last.key.find("kernel: CHECK(1 + 1 == 3) failed at "), 0U) << last.key;
  EXPECT_EQ(last.finding.rule, "NT-37");
  EXPECT_NE(last.finding.severity, verifier::Severity::kBugCheck);
  EXPECT_EQ(last.finding.bugcheck_code, 0U);
  // Another abort is the driver's.
  status_of([&] {
    words.listen(8, 0);
    std::abort();
  });
  EXPECT_EQ(words.of(8, "A run", "it ended").finding.rule, "NT-01");
}

TEST(LastWords, KeepProblemsOfTheRunThatEnded) {
  const LastWords words;
  status_of([&] {
    words.listen(1, 0);
    LastWords::keep(problem("one", "A-01"));
    words.listen(2, 0);
    LastWords::keep(problem("two", "A-02"));
    LastWords::keep(problem("three", "A-03"));
    raise(SIGKILL);
  });
  EXPECT_TRUE(words.kept(1).empty());
  const std::vector<Problem> kept = words.kept(2);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].key, "two");
  EXPECT_EQ(kept[1].finding.rule, "A-03");
  EXPECT_EQ(kept[1].finding.place.stack.size(), 1U);
  EXPECT_TRUE(words.kept(3).empty());
}

/// What does not fit is left out, and does no harm.
TEST(LastWords, KeepNoMoreThanThereIsRoomFor) {
  const LastWords words;
  const int status = status_of([&] {
    words.listen(1, 0);
    Problem large = problem("large", "A-01");
    large.finding.actual.assign(50'000, 'x');
    for (int i = 0; i < 20; ++i) LastWords::keep(large);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(words.kept(1).size(), 5U);
}

}  // namespace
}  // namespace dxgkit::tool
