#include "record/file.h"

#include <d3dkmthk.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "record/message.h"
#include "wire/client_call.h"

namespace dxgkit::record {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A call of D3DKMTDestroyDevice whose reply says that nothing changed.
Call destroy_device(uint64_t begin, int64_t result = 0) {
  D3DKMT_DESTROYDEVICE arguments{.hDevice = 0x40000040};
  wire::KernelMemory memory;
  const wire::ClientCall made(arguments::number_of("D3DKMTDestroyDevice"), &arguments, memory);
  Call call;
  call.function = arguments::number_of("D3DKMTDestroyDevice");
  call.thread = 7;
  call.begin = begin;
  call.end = begin + 1;
  call.time_ns = 1000;
  call.duration_ns = 5;
  call.result = result;
  call.request.assign(made.message().begin(), made.message().end());
  wire::Writer reply(&call.reply);
  reply.put(wire::kReply);
  reply.put(result);
  reply.put(uint32_t{0});  // windows
  reply.put(uint32_t{0});  // the structure has not changed
  return call;
}

class File : public ::testing::Test {
 protected:
  File() {
    std::string pattern = ::testing::TempDir() + "dxgkit-record-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/a.dxgk";
  }
  ~File() override {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }

  /// The bytes of a recording with these calls.
  std::vector<std::byte> file_of(const std::vector<Call>& calls, bool one_chunk_each = false) {
    unlink(path_.c_str());
    auto writer = FileWriter::create(path_);
    EXPECT_TRUE(writer.has_value());
    Chunk chunk;
    chunk.put(Process{41, "program"});
    for (const Call& call : calls) {
      chunk.put(call);
      if (!one_chunk_each) continue;
      (*writer)->write(chunk);
      chunk.clear();
    }
    (*writer)->write(chunk);
    (*writer)->finish();
    EXPECT_EQ((*writer)->error(), "");
    std::ifstream file(path_, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    const auto all = std::as_bytes(std::span(bytes));
    return {all.begin(), all.end()};
  }

  std::string folder_, path_;
};

TEST_F(File, EverythingThatWasPutIsRead) {
  Call call = destroy_device(1, -5);
  call.given = {};
  call.made = {{.number = 9, .inode = 77, .is_event = 0}};
  call.fences = {{.owner = 0x40000080, .value = 12}};
  call.memory = {{.allocation = 0x400000C0,
                  .seen = 1,
                  .offset = 8192,
                  .bytes = std::vector<std::byte>(4096, std::byte{0x5A})},
                 {.allocation = 0x400000C0, .offset = 1, .bytes = {std::byte{1}}}};
  Call none;
  none.function = arguments::number_of("D3DKMTRegisterTrimNotification");
  none.begin = 3;
  none.end = 4;
  none.unrecorded = "it calls\x1B";
  file_of({call, none});
  const auto read = read_recording(path_);
  ASSERT_TRUE(read.has_value()) << read.error();
  EXPECT_EQ(read->cut, "");
  EXPECT_EQ(read->process.id, 41U);
  EXPECT_EQ(read->process.name, "program");
  ASSERT_EQ(read->calls.size(), 2U);
  const Call& first = read->calls[0];
  EXPECT_EQ(first.function, call.function);
  EXPECT_EQ(first.thread, 7U);
  EXPECT_EQ(first.begin, 1U);
  EXPECT_EQ(first.end, 2U);
  EXPECT_EQ(first.time_ns, 1000);
  EXPECT_EQ(first.duration_ns, 5);
  EXPECT_EQ(first.result, -5);
  EXPECT_EQ(first.request, call.request);
  EXPECT_EQ(first.reply, call.reply);
  ASSERT_EQ(first.made.size(), 1U);
  EXPECT_EQ(first.made[0].inode, 77U);
  ASSERT_EQ(first.fences.size(), 1U);
  EXPECT_EQ(first.fences[0].value, 12U);
  ASSERT_EQ(first.memory.size(), 2U);
  EXPECT_EQ(first.memory[0].offset, 8192U);
  EXPECT_EQ(first.memory[0].seen, 1U);
  EXPECT_EQ(first.memory[0].bytes, call.memory[0].bytes);
  EXPECT_EQ(first.memory[1].bytes, call.memory[1].bytes);
  EXPECT_EQ(read->calls[1].unrecorded, "it calls?");
}

TEST_F(File, ARecordingIsNeverOverwritten) {
  file_of({destroy_device(1)});
  const auto second = FileWriter::create(path_);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error(), HasSubstr("File exists"));
  EXPECT_TRUE(read_recording(path_).has_value());
}

TEST_F(File, ATruncatedFileGivesAllWholeChunks) {
  const auto whole = file_of({destroy_device(1), destroy_device(3), destroy_device(5)}, true);
  size_t most = 0;
  for (size_t length = 24; length < whole.size(); ++length) {
    const auto read = read_recording(std::span(whole).first(length));
    ASSERT_TRUE(read.has_value()) << length << ": " << read.error();
    EXPECT_THAT(read->cut, HasSubstr(std::to_string(length)));
    ASSERT_GE(read->calls.size(), most);
    most = read->calls.size();
  }
  EXPECT_EQ(most, 3U);
}

TEST_F(File, AChangedByteIsAnErrorThatNamesThePlace) {
  const auto whole = file_of({destroy_device(1), destroy_device(3)}, true);
  for (size_t at = 0; at < whole.size(); ++at) {
    auto changed = whole;
    changed[at] ^= std::byte{0x10};
    const auto read = read_recording(changed);
    if (read.has_value()) {
      // The length of a chunk that is said to go beyond the end.
      EXPECT_NE(read->cut, "") << at;
    } else {
      EXPECT_THAT(read.error(), StartsWith("byte "));
    }
  }
  auto other_table = whole;
  other_table[16] ^= std::byte{1};
  EXPECT_EQ(read_recording(other_table).error(),
            "byte 16: it was recorded by another version of dxgkit");
}

TEST_F(File, CallsThatAreNoneAreRefused) {
  Call call = destroy_device(1);
  call.function = arguments::number_of("D3DKMTCreateDevice");
  EXPECT_THAT(read_recording(file_of({call})).error(), HasSubstr("another function"));
  call = destroy_device(1);
  call.reply.push_back({});
  EXPECT_THAT(read_recording(file_of({call})).error(), HasSubstr("behind the reply"));
  call = destroy_device(1);
  call.request.pop_back();
  EXPECT_THAT(read_recording(file_of({call})).error(), HasSubstr("call 1: "));
  call = destroy_device(1);
  call.given = {{}};
  EXPECT_THAT(read_recording(file_of({call})).error(), HasSubstr("descriptors"));
  EXPECT_THAT(read_recording(file_of({destroy_device(3), destroy_device(1)})).error(),
              HasSubstr("call 2: it returned before an earlier one"));
}

}  // namespace
}  // namespace dxgkit::record
