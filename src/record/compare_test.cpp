#include "record/compare.h"

#include <d3dkmthk.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ntstatus.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "wire/client_call.h"

namespace dxgkit::record {
namespace {

using arguments::Names;

/// One call, as one kernel makes it.
struct Made {
  /// Of D3DKMTCreateDevice.
  Made(uint32_t adapter, int64_t result, uint32_t device, uint32_t list_size = 0) {
    D3DKMT_CREATEDEVICE arguments{};
    arguments.hAdapter = adapter;
    std::vector<std::byte> content = ask("D3DKMTCreateDevice", &arguments);
    std::memcpy(content.data() + offsetof(D3DKMT_CREATEDEVICE, hDevice), &device, sizeof device);
    std::memcpy(content.data() + offsetof(D3DKMT_CREATEDEVICE, AllocationListSize), &list_size,
                sizeof list_size);
    // Between two members: whatever a client's stack held.
    content[offsetof(D3DKMT_CREATEDEVICE, AllocationListSize) + sizeof list_size] = std::byte{0x6F};
    give(result, content);
  }
  /// Of D3DKMTRender.
  struct Rendered {
    uint32_t queued = 0, list_size = 0;
  };
  explicit Made(const Rendered& rendered) {
    D3DKMT_RENDER arguments{};
    std::vector<std::byte> content = ask("D3DKMTRender", &arguments);
    std::memcpy(content.data() + offsetof(D3DKMT_RENDER, QueuedBufferCount), &rendered.queued,
                sizeof rendered.queued);
    std::memcpy(content.data() + offsetof(D3DKMT_RENDER, NewAllocationListSize),
                &rendered.list_size, sizeof rendered.list_size);
    give(0, content);
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  Side side() const { return {request, reply}; }

  /// The arguments, which the kernel's content replaces.
  std::vector<std::byte> ask(std::string_view name, void* arguments) {
    wire::KernelMemory memory;
    const wire::ClientCall call(arguments::number_of(name), arguments, memory);
    request.assign(call.message().begin(), call.message().end());
    parsed = read_request(request).value();
    const Block& block = parsed.blocks[0];
    return {request.begin() + static_cast<ptrdiff_t>(block.at),
            request.begin() + static_cast<ptrdiff_t>(block.at + block.bytes)};
  }
  void give(int64_t result, const std::vector<std::byte>& content) {
    wire::Writer writer(&answer);
    writer.put(wire::kReply);
    writer.put(result);
    writer.put(uint32_t{0});
    writer.put(uint32_t{1});
    writer.bytes(content.data(), content.size());
    reply = read_reply(parsed, request, answer).value();
  }

  std::vector<std::byte> request, answer;
  Request parsed;
  Reply reply;
};

std::string compared(const Made& recorded, const Made& replayed, NameMap& names) {
  return compare(recorded.parsed, recorded.side(), replayed.side(), names);
}

TEST(Compare, AnotherStatusIsADifference) {
  NameMap names;
  const Made was(0x40000000, 0, 0x40000040), now(0x40000000, STATUS_NO_MEMORY, 0);
  EXPECT_EQ(compared(was, now, names), "the status is 0xc0000017, and was 0x00000000");
  EXPECT_EQ(names.there(Names::kHandle, 0x40000040), 0x40000040U) << "nothing was learned";
}

TEST(Compare, AnotherOutputIsADifferenceWithItsName) {
  NameMap names;
  const Made was(0x40000000, 0, 0x40000040, 7), now(0x40000000, 0, 0x40000040, 9);
  EXPECT_EQ(compared(was, now, names), "AllocationListSize is 0x9, and was 0x7");
  EXPECT_EQ(compared(was, was, names), "");
}

TEST(Compare, HowMuchWorkIsQueuedDependsOnTheMoment) {
  NameMap names;
  const Made was(Made::Rendered{.queued = 7, .list_size = 4});
  EXPECT_EQ(compared(was, Made(Made::Rendered{.queued = 2, .list_size = 4}), names), "");
  EXPECT_EQ(compared(was, Made(Made::Rendered{.queued = 7, .list_size = 5}), names),
            "NewAllocationListSize is 0x5, and was 0x4");
}

TEST(Compare, AHandleMayHaveAnotherNumberAndIsReplacedFromThenOn) {
  NameMap names;
  const Made was(0x40000000, 0, 0x40000040), now(0x40000000, 0, 0x40000080);
  EXPECT_EQ(compared(was, now, names), "");
  EXPECT_EQ(names.renamed(), 1U);
  D3DKMT_DESTROYDEVICE arguments{.hDevice = 0x40000040};
  wire::KernelMemory memory;
  const wire::ClientCall call(arguments::number_of("D3DKMTDestroyDevice"), &arguments, memory);
  std::vector<std::byte> request(call.message().begin(), call.message().end());
  const Request parsed = read_request(request).value();
  rename(names, parsed, request);
  std::memcpy(&arguments, request.data() + parsed.blocks[0].at, sizeof arguments);
  EXPECT_EQ(arguments.hDevice, 0x40000080U);
}

TEST(Compare, AHandleThatIsMissingIsADifference) {
  NameMap names;
  const Made was(0x40000000, 0, 0x40000040), now(0x40000000, 0, 0);
  EXPECT_EQ(compared(was, now, names), "hDevice is 0x0, and was 0x40000040");
}

TEST(Compare, AHandleOfTheArgumentsIsTheOneThatWasGiven) {
  NameMap names;
  names.learn(Names::kHandle, 0x40000000, 0x400000C0);
  const Made was(0x40000000, 0, 0x40000040);
  EXPECT_EQ(compared(was, Made(0x400000C0, 0, 0x40000040), names), "");
}

TEST(Names, AnAddressMayLieInsideWhatBeginsBelowIt) {
  NameMap names;
  EXPECT_EQ(names.there(Names::kGpuAddress, 0x1000), 0x1000U);
  names.learn(Names::kGpuAddress, 0x10000, 0x50000);
  names.learn(Names::kGpuAddress, 0x20000, 0x20000);
  EXPECT_EQ(names.there(Names::kGpuAddress, 0x10010), 0x50010U);
  EXPECT_EQ(names.there(Names::kGpuAddress, 0x20010), 0x20010U);
  EXPECT_EQ(names.there(Names::kGpuAddress, 0xFFF), 0xFFFU);
  EXPECT_EQ(names.there(Names::kHandle, 0x10000), 0x10000U) << "another kind of name";
  names.learn(Names::kHandle, 0x40, 0x80);
  EXPECT_EQ(names.there(Names::kHandle, 0x41), 0x41U) << "handles have no inside";
  EXPECT_EQ(names.there(Names::kHandle, 0), 0U);
}

}  // namespace
}  // namespace dxgkit::record
