// The work of a recording: what goes into each submission, and what the program saw come out. The
// program is recorded here, with softgpu's driver below it.
#include "record/jobs.h"

#include <d3dkmthk.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dxgkit/stack.h"
#include "miniports/softgpu/softgpu_umd.h"
#include "record/recorder.h"
#include "tests/support/staging_allocation.h"

namespace dxgkit::record {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

constexpr uint32_t kSourceBytes = 8192, kResultBytes = 4096 + 100;
constexpr std::byte kWritten{0x5A}, kPattern{0x22};

/// A program with two allocations that the CPU sees, and a context.
class Program {
 public:
  explicit Program(Recorder& recorder) : recorder_(recorder) {
    D3DKMT_ADAPTERINFO adapter{};
    D3DKMT_ENUMADAPTERS2 all{.NumAdapters = 1, .pAdapters = &adapter};
    call("D3DKMTEnumAdapters2", &all);
    D3DKMT_CREATEDEVICE device{};
    device.hAdapter = adapter.hAdapter;
    call("D3DKMTCreateDevice", &device);
    device_ = device.hDevice;
    source = allocation(kSourceBytes);
    result = allocation(kResultBytes);
    SgpuUmdContext data{};
    data.magic = SGPU_UMD_CONTEXT_MAGIC;
    data.version = SGPU_UMD_VERSION;
    context_.hDevice = device_;
    context_.NodeOrdinal = SGPU_UMD_NODE_3D;
    context_.pPrivateDriverData = &data;
    context_.PrivateDriverDataSize = sizeof data;
    call("D3DKMTCreateContext", &context_);
  }

  std::byte* lock(D3DKMT_HANDLE allocation) {
    D3DKMT_LOCK2 lock{};
    lock.hDevice = device_;
    lock.hAllocation = allocation;
    call("D3DKMTLock2", &lock);
    return static_cast<std::byte*>(lock.pData);
  }
  void unlock(D3DKMT_HANDLE allocation) {
    D3DKMT_UNLOCK2 unlock{.hDevice = device_, .hAllocation = allocation};
    call("D3DKMTUnlock2", &unlock);
  }
  void fill(D3DKMT_HANDLE allocation, uint32_t bytes) {
    std::memset(lock(allocation), std::to_integer<int>(kWritten), bytes);
    unlock(allocation);
  }

  /// Fills the second half of `to`, and copies the beginning of `from` to its beginning.
  void submit(D3DKMT_HANDLE from, D3DKMT_HANDLE to) {
    struct {
      SgpuUmdBufferHeader header;
      SgpuUmdFill fill;
      SgpuUmdCopy copy;
    } commands{};
    commands.header = {.magic = SGPU_UMD_BUFFER_MAGIC,
                       .version = SGPU_UMD_VERSION,
                       .size_bytes = sizeof commands,
                       .flags = 0};
    commands.fill.header = {SGPU_UMD_OP_FILL, sizeof commands.fill};
    commands.fill.destination = {1, 2048};
    commands.fill.size_bytes = 2048;
    commands.fill.pattern = 0x22222222;
    commands.copy.header = {SGPU_UMD_OP_COPY, sizeof commands.copy};
    commands.copy.source = {0, 0};
    commands.copy.destination = {1, 0};
    commands.copy.size_bytes = 16 + submissions_++;  // no two are alike
    std::memcpy(context_.pCommandBuffer, &commands, sizeof commands);
    context_.pAllocationList[0] = {.hAllocation = from, .Value = 0};
    context_.pAllocationList[1] = {.hAllocation = to, .Value = 1};
    D3DKMT_RENDER render{};
    render.hContext = context_.hContext;
    render.CommandLength = sizeof commands;
    render.AllocationCount = 2;
    call("D3DKMTRender", &render);
    context_.pCommandBuffer = render.pNewCommandBuffer;
    context_.pAllocationList = render.pNewAllocationList;
  }

  void wait() {
    D3DKMT_WAITFORIDLE wait{.hDevice = device_};
    call("D3DKMTWaitForIdle", &wait);
  }

  D3DKMT_HANDLE allocation(uint32_t bytes) {
    StagingAllocation made(device_, bytes);
    call("D3DKMTCreateAllocation2", &made.create);
    return made.info.hAllocation;
  }

  D3DKMT_HANDLE source = 0, result = 0;

 private:
  void call(std::string_view name, void* arguments) {
    EXPECT_EQ(recorder_.call(arguments::number_of(name), arguments, [] { return -1; }), 0) << name;
  }

  Recorder& recorder_;
  D3DKMT_HANDLE device_ = 0;
  D3DKMT_CREATECONTEXT context_{};
  uint64_t submissions_ = 0;
};

Work work_of_program(const std::function<void(Program&)>& body) {
  const std::string path = ::testing::TempDir() + "dxgkit-jobs-" + std::to_string(getpid());
  StackOptions options;
  const auto outcome = Stack::run(options, [&](Stack& stack) {
    const auto driver = stack.load(bundled_driver("softgpu").value());
    ASSERT_TRUE(driver.has_value());
    ASSERT_TRUE(stack.start(**driver).has_value());
    const auto client = stack.make_client("client");
    const ClientProcess::Attach attach(*client);
    auto recorder = Recorder::create(path, "program");
    ASSERT_TRUE(recorder.has_value()) << recorder.error();
    Program program(**recorder);
    body(program);
    EXPECT_EQ((*recorder)->finish(), "");
  });
  EXPECT_TRUE(outcome.has_value());
  const auto recording = read_recording(path);
  unlink(path.c_str());
  EXPECT_TRUE(recording.has_value());
  return work_of(*recording);
}

std::span<const std::byte> part(const std::optional<std::vector<std::byte>>& of, size_t at,
                                size_t bytes) {
  return std::span(*of).subspan(at, bytes);
}

TEST(Jobs, ASubmissionHasWhatWentInAndWhatCameOut) {
  const Work work = work_of_program([](Program& program) {
    program.fill(program.source, kSourceBytes);
    program.submit(program.source, program.result);
    program.wait();
    program.lock(program.result);
    program.unlock(program.result);
  });
  ASSERT_THAT(work.jobs, SizeIs(1));
  const Job& job = work.jobs[0];
  EXPECT_EQ(job.node, SGPU_UMD_NODE_3D);
  EXPECT_THAT(job.context, SizeIs(sizeof(SgpuUmdContext)));
  EXPECT_THAT(job.commands,
              SizeIs(sizeof(SgpuUmdBufferHeader) + sizeof(SgpuUmdFill) + sizeof(SgpuUmdCopy)));
  ASSERT_THAT(job.uses, SizeIs(2));
  EXPECT_FALSE(job.uses[0].write);
  EXPECT_TRUE(job.uses[1].write);
  ASSERT_THAT(job.allocations, SizeIs(2));
  const Job::Memory& source = job.allocations[job.uses[0].allocation];
  const Job::Memory& result = job.allocations[job.uses[1].allocation];
  ASSERT_TRUE(source.before.has_value() && result.before.has_value() && result.after.has_value());
  EXPECT_FALSE(source.after.has_value());
  EXPECT_THAT(part(source.before, 0, kSourceBytes), Each(kWritten));
  // New memory is zeros, though the program locked it only afterwards.
  EXPECT_THAT(part(result.before, 0, kResultBytes), Each(std::byte{0}));
  EXPECT_THAT(part(result.after, 0, 16), Each(kWritten));
  EXPECT_THAT(part(result.after, 16, 2032), Each(std::byte{0}));
  EXPECT_THAT(part(result.after, 2048, 2048), Each(kPattern));
}

TEST(Recorder, LockedMemoryShowsNothingOfTheAllocationBefore) {
  work_of_program([](Program& program) {
    const D3DKMT_HANDLE other = program.allocation(kSourceBytes);
    const std::byte* const first = program.lock(program.source);
    program.unlock(program.source);
    program.fill(program.source, kSourceBytes);
    std::byte* const second = program.lock(other);
    ASSERT_EQ(second, first);  // the memory is used again
    EXPECT_THAT(std::span(second, kSourceBytes), Each(std::byte{0}));
    second[5000] = kPattern;
    program.unlock(other);
    EXPECT_THAT(std::span(program.lock(program.source), kSourceBytes), Each(kWritten));
    program.unlock(program.source);
    const std::byte* const again = program.lock(other);
    EXPECT_EQ(again[5000], kPattern);
    EXPECT_THAT(std::span(again, 5000), Each(std::byte{0}));
    program.unlock(other);
  });
}

TEST(Jobs, ASizeIsFoundWhereAllLocksAgree) {
  const Work work = work_of_program([](Program& program) {
    program.fill(program.source, kSourceBytes);
    program.fill(program.result, kResultBytes);
  });
  ASSERT_TRUE(work.asked_size.has_value());
  EXPECT_EQ(work.asked_size->offset, offsetof(SgpuUmdAllocation, size_bytes));
  EXPECT_EQ(work.asked_size->data_bytes, sizeof(SgpuUmdAllocation));
  ASSERT_THAT(work.allocations, SizeIs(2));
  EXPECT_EQ(work.allocations[0].size_bytes, kSourceBytes);
  EXPECT_EQ(work.allocations[1].size_bytes, kResultBytes);  // a lock shows whole pages
}

TEST(Jobs, OneLockSaysNothingOfAPlace) {
  const Work work =
      work_of_program([](Program& program) { program.fill(program.source, kSourceBytes); });
  EXPECT_FALSE(work.asked_size.has_value());
  ASSERT_THAT(work.allocations, SizeIs(2));
  EXPECT_EQ(work.allocations[0].size_bytes, kSourceBytes);
  EXPECT_EQ(work.allocations[1].size_bytes, 0U);
}

TEST(Jobs, NothingIsComparedThatDependsOnMemoryNobodyLookedAt) {
  const Work work = work_of_program([](Program& program) {
    program.fill(program.source, kSourceBytes);
    program.submit(program.source, program.result);
    program.submit(program.result, program.source);  // reads what only the GPU has seen
    program.wait();
    program.lock(program.source);
    program.unlock(program.source);
  });
  ASSERT_THAT(work.jobs, SizeIs(2));
  const Job& second = work.jobs[1];
  EXPECT_FALSE(second.allocations[second.uses[1].allocation].after.has_value());
  EXPECT_FALSE(second.allocations[second.uses[0].allocation].before.has_value());
  EXPECT_TRUE(second.allocations[second.uses[1].allocation].before.has_value());
}

TEST(Jobs, ALookBeforeTheEndOfTheWorkIsNoResult) {
  const Work work = work_of_program([](Program& program) {
    program.fill(program.source, kSourceBytes);
    program.submit(program.source, program.result);
    program.lock(program.result);  // waits for nothing that the recording could know
    program.unlock(program.result);
    program.fill(program.result, kResultBytes);
    program.wait();
  });
  ASSERT_THAT(work.jobs, SizeIs(1));
  const Job& job = work.jobs[0];
  EXPECT_FALSE(job.allocations[job.uses[1].allocation].after.has_value());
}

TEST(Jobs, WhatTheProgramWritesAfterwardsIsNoResult) {
  const Work work = work_of_program([](Program& program) {
    program.fill(program.source, kSourceBytes);
    program.submit(program.source, program.result);
    program.wait();
    program.fill(program.result, kResultBytes);  // it looks, and then it writes
    program.lock(program.result);
    program.unlock(program.result);
  });
  ASSERT_THAT(work.jobs, SizeIs(1));
  const Job& job = work.jobs[0];
  const auto& after = job.allocations[job.uses[1].allocation].after;
  ASSERT_TRUE(after.has_value());
  EXPECT_THAT(part(after, 2048, 2048), Each(kPattern));
}

}  // namespace
}  // namespace dxgkit::record
