#include "record/replay.h"

#include <d3dkmthk.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "dxgkit/stack.h"
#include "record/recorder.h"
#include "tests/support/staging_allocation.h"

namespace dxgkit::record {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kBytes = 8192;

/// A kernel with one adapter and one client process, to which the calling thread belongs.
void in_kernel(Mode mode, uint64_t seed, const std::function<void(ClientProcess&)>& body) {
  StackOptions options;
  options.mode = mode;
  options.seed = seed;
  const auto outcome = Stack::run(options, [&](Stack& stack) {
    const auto driver = stack.load(bundled_driver("softgpu_wddm2").value());
    ASSERT_TRUE(driver.has_value());
    ASSERT_TRUE(stack.start(**driver).has_value());
    const auto client = stack.make_client("client");
    const ClientProcess::Attach attach(*client);
    body(*client);
  });
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->findings, IsEmpty());
}

/// What a program does: memory, then a fence that it signals and waits for.
void program(Recorder& recorder) {
  const auto call = [&](std::string_view name, void* arguments) {
    EXPECT_EQ(recorder.call(arguments::number_of(name), arguments, [] { return -1; }), 0) << name;
  };
  D3DKMT_ADAPTERINFO adapter{};
  D3DKMT_ENUMADAPTERS2 all{.NumAdapters = 1, .pAdapters = &adapter};
  call("D3DKMTEnumAdapters2", &all);
  D3DKMT_CREATEDEVICE device{};
  device.hAdapter = adapter.hAdapter;
  call("D3DKMTCreateDevice", &device);
  StagingAllocation made(device.hDevice, kBytes);
  call("D3DKMTCreateAllocation2", &made.create);
  for (const int value : {0x5A, 0x5B}) {  // the second lock sees what the first wrote
    D3DKMT_LOCK2 lock{};
    lock.hDevice = device.hDevice;
    lock.hAllocation = made.info.hAllocation;
    call("D3DKMTLock2", &lock);
    std::memset(lock.pData, value, kBytes);
    D3DKMT_UNLOCK2 unlock{.hDevice = device.hDevice, .hAllocation = made.info.hAllocation};
    call("D3DKMTUnlock2", &unlock);
  }
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence{};
  fence.hDevice = device.hDevice;
  fence.Info.Type = D3DDDI_MONITORED_FENCE;
  call("D3DKMTCreateSynchronizationObject2", &fence);
  const UINT64 value = 7;
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal{};
  signal.hDevice = device.hDevice;
  signal.ObjectCount = 1;
  signal.ObjectHandleArray = &fence.hSyncObject;
  signal.FenceValueArray = &value;
  call("D3DKMTSignalSynchronizationObjectFromCpu", &signal);
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
  wait.hDevice = device.hDevice;
  wait.ObjectCount = 1;
  wait.ObjectHandleArray = &fence.hSyncObject;
  wait.FenceValueArray = &value;
  call("D3DKMTWaitForSynchronizationObjectFromCpu", &wait);
}

/// Positions of the calls of `program`.
constexpr size_t kFirstUnlock = 4, kSecondLock = 5, kSignal = 8, kWait = 9, kAll = 10;

Recording recorded() {
  static const Recording once = [] {
    const std::string path = ::testing::TempDir() + "dxgkit-replay-" + std::to_string(getpid());
    in_kernel(Mode::kRealThreads, 1, [&](ClientProcess&) {
      auto recorder = Recorder::create(path, "program");
      ASSERT_TRUE(recorder.has_value()) << recorder.error();
      program(**recorder);
      EXPECT_EQ((*recorder)->finish(), "");
    });
    auto read = read_recording(path);
    unlink(path.c_str());
    EXPECT_TRUE(read.has_value());
    return std::move(*read);
  }();
  return once;
}

struct Replayed {
  ReplayResult result;
  std::vector<std::string> differences;
};

Replayed replayed(const Recording& recording, uint64_t seed, Mode mode = Mode::kSimulation) {
  Replayed out;
  in_kernel(mode, seed, [&](ClientProcess& client) {
    ReplayOptions options;
    options.on_difference = [&](size_t call, const std::string& text) {
      out.differences.push_back(std::to_string(call) + ": " + text);
    };
    options.on_stuck = [&] { client.end(); };
    out.result = replay(*dxgk::Process::current(), recording, options);
  });
  return out;
}

TEST(Replay, TheSameKernelGivesTheSame) {
  const Recording recording = recorded();
  ASSERT_EQ(recording.calls.size(), kAll);
  size_t wrote = 0, saw = 0;
  for (const Bytes& bytes : recording.calls[kFirstUnlock].memory) wrote += bytes.bytes.size();
  for (const Bytes& bytes : recording.calls[kSecondLock].memory) saw += bytes.bytes.size();
  EXPECT_EQ(wrote, kBytes);
  EXPECT_EQ(saw, kBytes);
  for (const Mode mode : {Mode::kRealThreads, Mode::kSimulation}) {
    const Replayed again = replayed(recording, 1, mode);
    EXPECT_THAT(again.differences, IsEmpty());
    EXPECT_EQ(again.result.made, kAll);
    EXPECT_EQ(again.result.left_out, 0U);
  }
}

TEST(Replay, WhatOverlappedIsOrderedByTheSeed) {
  // The wait began on another thread before the signal, and returned after it.
  Recording recording = recorded();
  Call& signal = recording.calls[kSignal];
  Call& wait = recording.calls[kWait];
  wait.thread = signal.thread + 1;
  wait.begin = signal.begin;
  wait.fences.clear();
  for (uint64_t seed = 1; seed <= 20; ++seed)
    ASSERT_THAT(replayed(recording, seed).differences, IsEmpty()) << seed;
}

TEST(Replay, MemoryThatDiffersIsFound) {
  Recording recording = recorded();
  recording.calls[kFirstUnlock].memory.front().bytes[3] = std::byte{0x11};
  const Replayed again = replayed(recording, 1);
  ASSERT_EQ(again.differences.size(), 1U);
  EXPECT_THAT(again.differences[0], HasSubstr("6: byte 3 of allocation 0x"));
  EXPECT_THAT(again.differences[0], HasSubstr(" is 0x11, and was 0x5a"));
}

TEST(Replay, ACallThatNeverReturnsEndsTheReplay) {
  Recording recording = recorded();
  recording.calls.erase(recording.calls.begin() + kSignal);
  recording.calls.back().fences.clear();
  const Replayed again = replayed(recording, 1);
  ASSERT_FALSE(again.differences.empty());
  EXPECT_EQ(again.differences[0], "9: it does not return");
}

TEST(Replay, AFenceThatStaysBehindIsFound) {
  // What the program saw, without the call that made it so.
  Recording recording = recorded();
  ASSERT_EQ(recording.calls[kWait].fences.size(), 1U);
  EXPECT_EQ(recording.calls[kWait].fences[0].value, 7U);
  recording.calls.erase(recording.calls.begin() + kSignal, recording.calls.end());
  recording.calls.push_back(recorded().calls[kFirstUnlock]);
  Call& last = recording.calls.back();
  last.begin = recording.calls[kSignal - 1].end + 1;
  last.end = last.begin + 1;
  last.fences = recorded().calls[kWait].fences;
  const Replayed again = replayed(recording, 1);
  ASSERT_FALSE(again.differences.empty());
  EXPECT_THAT(again.differences[0], HasSubstr("9: before it, fence 0x"));
  EXPECT_THAT(again.differences[0], HasSubstr(" is at 0, and was at 7"));
}

TEST(Replay, UnrecordedCallsAreLeftOut) {
  Recording recording = recorded();
  Call& none = recording.calls[kWait];
  none.request.clear();
  none.reply.clear();
  none.unrecorded = "its arguments do not go into a message";
  const Replayed again = replayed(recording, 1);
  EXPECT_THAT(again.differences, IsEmpty());
  EXPECT_EQ(again.result.left_out, 1U);
  EXPECT_EQ(again.result.made, kAll - 1);
}

}  // namespace
}  // namespace dxgkit::record
