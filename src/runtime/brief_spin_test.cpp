#include "runtime/brief_spin.h"

#include <gtest/gtest.h>

#include <atomic>

#include "runtime/host_thread.h"

namespace dxgkit::runtime {
namespace {

TEST(BriefSpin, EndsByItself) {
  const std::atomic<uint32_t> word{7};
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(spin_briefly(word, 7));
}

TEST(BriefSpin, SaysThatAWordHasChangedOnlyIfItHas) {
  // It need not look, on a busy machine. So only one of the answers is certain.
  std::atomic<uint32_t> word{7};
  for (int i = 0; i < 100; ++i) {
    if (spin_briefly(word, 8)) {
      EXPECT_NE(word.load(), 8U);
    }
    EXPECT_FALSE(spin_briefly(word, word.load()));
  }
}

TEST(BriefSpin, WhateverItSaysTheWordIsTheOther) {
  // Two threads that answer each other: each looks for a short time, as often as it takes.
  std::atomic<uint32_t> word{0};
  constexpr uint32_t kTurns = 2000;
  const auto take_turns = [&](uint32_t mine) {
    for (uint32_t turn = mine; turn < kTurns; turn += 2) {
      for (uint32_t seen = 0; (seen = word.load()) != turn;) {
        if (spin_briefly(word, seen)) {
          EXPECT_NE(word.load(), seen);
        }
      }
      word.store(turn + 1);
    }
  };
  HostThread other("other", [&] { take_turns(1); });
  take_turns(0);
  other.join();
  EXPECT_EQ(word.load(), kTurns);
}

}  // namespace
}  // namespace dxgkit::runtime
