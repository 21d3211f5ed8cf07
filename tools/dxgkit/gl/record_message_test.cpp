// The record of a connection that another process sends at its end.
#include "tools/dxgkit/gl/record_message.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "runtime/runtime.h"

namespace dxgkit::gl {
namespace {

constexpr uint32_t kBytes = 64 * 64 * 4;

struct Sockets {
  Sockets() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    ours = vfiouser::Descriptor(ends[0]);
    theirs = vfiouser::Descriptor(ends[1]);
  }
  std::expected<std::optional<ProgramRecord>, std::string> receive() {
    std::expected<std::optional<ProgramRecord>, std::string> record;
    const auto runtime = runtime::make_os_runtime(1);
    runtime->run_main([&] { record = receive_record(*runtime, ours.get()); });
    return record;
  }
  vfiouser::Descriptor ours, theirs;
};

ProgramRecord record_with_frame() {
  ProgramRecord record;
  record.name = "gears";
  record.wrong = "it named resource 7, which it does not have";
  record.counts = {.messages = 1, .streams = 2, .transfers = 3, .resources = 4, .frames = 5};
  const std::shared_ptr<SharedMemory> memory = SharedMemory::create(kBytes);
  std::memset(memory->bytes().data(), 0x5A, kBytes);
  record.frame = Frame{.resource = {.handle = 9,
                                    .target = 2,
                                    .format = 2,
                                    .bind = 128,
                                    .width = 64,
                                    .height = 64,
                                    .depth = 1,
                                    .array_size = 1,
                                    .data_bytes = kBytes},
                       .memory = memory};
  return record;
}

/// The bytes of a record, without its memory.
std::vector<char> bytes_of(const ProgramRecord& record) {
  Sockets sockets;
  EXPECT_TRUE(send_record(sockets.theirs.get(), record));
  std::vector<char> bytes(1 << 16);
  const ssize_t got = recv(sockets.ours.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return bytes;
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd"), end;
  return static_cast<size_t>(std::distance(open, end));
}

/// Sends bytes with descriptors, as a hostile process does.
void send_bytes(int socket, std::vector<char> bytes, const std::vector<int>& descriptors) {
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  if (!descriptors.empty()) {
    head.msg_control = control.data();
    head.msg_controllen = control.size();
    cmsghdr* const one = CMSG_FIRSTHDR(&head);
    one->cmsg_level = SOL_SOCKET;
    one->cmsg_type = SCM_RIGHTS;
    one->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(one), descriptors.data(), descriptors.size() * sizeof(int));
  }
  ASSERT_EQ(sendmsg(socket, &head, 0), static_cast<ssize_t>(bytes.size()));
}

TEST(RecordMessage, ComesAsItWasSent) {
  Sockets sockets;
  {
    const ProgramRecord sent = record_with_frame();
    ASSERT_TRUE(send_record(sockets.theirs.get(), sent));
  }
  const auto got = sockets.receive();
  ASSERT_TRUE(got.has_value() && got->has_value());
  const ProgramRecord &record = **got, wanted = record_with_frame();
  EXPECT_EQ(record.name, wanted.name);
  EXPECT_EQ(record.wrong, wanted.wrong);
  EXPECT_EQ(record.counts.messages, 1U);
  EXPECT_EQ(record.counts.streams, 2U);
  EXPECT_EQ(record.counts.transfers, 3U);
  EXPECT_EQ(record.counts.resources, 4U);
  EXPECT_EQ(record.counts.frames, 5U);
  ASSERT_TRUE(record.frame.has_value());
  EXPECT_EQ(record.frame->resource, wanted.frame->resource);
  ASSERT_EQ(record.frame->memory->bytes().size(), kBytes);
  EXPECT_EQ(record.frame->memory->bytes()[kBytes - 1], std::byte{0x5A});
}

TEST(RecordMessage, MayHaveNoFrame) {
  Sockets sockets;
  ProgramRecord sent;
  sent.name = "gears";
  ASSERT_TRUE(send_record(sockets.theirs.get(), sent));
  const auto got = sockets.receive();
  ASSERT_TRUE(got.has_value() && got->has_value());
  EXPECT_EQ((*got)->name, "gears");
  EXPECT_FALSE((*got)->frame.has_value());
}

TEST(RecordMessage, IsNotThereIfTheProcessEndedWithoutOne) {
  Sockets sockets;
  sockets.theirs = {};
  const auto got = sockets.receive();
  ASSERT_TRUE(got.has_value());
  EXPECT_FALSE(got->has_value());
}

TEST(RecordMessage, HasShortTextsWithoutControlCharacters) {
  Sockets sockets;
  ProgramRecord sent;
  sent.name = "a\033[2Jb";
  sent.wrong = std::string(5000, 'x');
  ASSERT_TRUE(send_record(sockets.theirs.get(), sent));
  const auto got = sockets.receive();
  ASSERT_TRUE(got.has_value() && got->has_value());
  EXPECT_EQ((*got)->name, "a[2Jb");
  EXPECT_EQ((*got)->wrong, std::string(1023, 'x'));
}

TEST(RecordMessage, WithoutSenseIsAnError) {
  const std::vector<char> right = bytes_of(record_with_frame());
  std::vector<char> shorter = right, longer = right, without_end = right, senseless = right;
  shorter.pop_back();
  longer.push_back(0);
  std::fill_n(without_end.begin(), 1024, 'n');
  std::memset(&senseless[right.size() - ResourceDescription::kDwords * 4], 0xFF,
              ResourceDescription::kDwords * 4);
  const std::shared_ptr<SharedMemory> memory = SharedMemory::create(kBytes),
                                      small = SharedMemory::create(4096);
  const vfiouser::Descriptor file(fileno(std::tmpfile()));
  const struct {
    const char* what;
    const std::vector<char>& bytes;
    std::vector<int> descriptors;
    bool is_right = false;
  } rows[] = {
      {"as it should be", right, {memory->fd()}, true},
      {"a name that does not end", without_end, {memory->fd()}, true},
      {"shorter", shorter, {memory->fd()}},
      {"longer", longer, {memory->fd()}},
      {"a picture of no size", senseless, {memory->fd()}},
      {"less memory than the picture has", right, {small->fd()}},
      {"no memory object", right, {file.get()}},
      {"two descriptors", right, {memory->fd(), memory->fd()}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    Sockets sockets;
    const size_t open = open_descriptors();
    send_bytes(sockets.theirs.get(), row.bytes, row.descriptors);
    {
      const auto got = sockets.receive();
      EXPECT_EQ(got.has_value(), row.is_right);
      if (!got.has_value()) {
        EXPECT_EQ(got.error(), "its process told something without sense");
      }
    }
    EXPECT_EQ(open_descriptors(), open) << "a descriptor that came was kept";
  }
}

}  // namespace
}  // namespace dxgkit::gl
