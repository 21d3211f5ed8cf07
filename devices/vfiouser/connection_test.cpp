// Connections: whole messages with their descriptors, and every way in which the other side fails.
#include "devices/vfiouser/connection.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace dxgkit::vfiouser {
namespace {

using runtime::kMillisecond;
using runtime::kSecond;
using ::testing::HasSubstr;

/// A connection, and the other side's bare socket.
struct Rig {
  explicit Rig(runtime::Runtime& os) : runtime(os) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours = std::make_unique<Connection>(os, Descriptor(ends[0]), "server");
    other = Descriptor(ends[1]);
  }
  auto receive(runtime::DurationNs patience = 10 * kSecond) {
    return ours->receive(runtime.now() + patience);
  }
  void put(const Header& header, size_t bytes = kHeaderBytes) const {
    const auto head = encode(header);
    EXPECT_EQ(write(other.get(), head.data(), bytes), static_cast<ssize_t>(bytes));
  }
  runtime::Runtime& runtime;
  std::unique_ptr<Connection> ours;
  Descriptor other;
};

void in_os(const std::function<void(Rig&)>& body) {
  const auto os = runtime::make_os_runtime(1);
  os->run_main([&] {
    Rig rig(*os);
    body(rig);
  });
}

TEST(VfioUserConnection, CarriesMessagesAndDescriptors) {
  in_os([](Rig& rig) {
    Connection peer(rig.runtime, std::move(rig.other), "client");
    const Descriptor memory(memfd_create("test", MFD_CLOEXEC));
    ASSERT_EQ(write(memory.get(), "hello", 5), 5);
    const Bytes first(3, std::byte{1}), second(5, std::byte{2});
    const int fds[] = {memory.get(), memory.get()};
    const runtime::TimeNs deadline = rig.runtime.now() + 10 * kSecond;
    ASSERT_TRUE(peer.send({.id = 1, .command = 9}, {first, second}, fds, deadline));
    ASSERT_TRUE(peer.send({.id = 2, .command = 13}, {}, {}, deadline));
    const auto one = rig.receive();
    ASSERT_TRUE(one.has_value()) << one.error().why;
    EXPECT_EQ(one->header.size_bytes, 24U);
    EXPECT_EQ(one->payload.size(), 8U);
    EXPECT_EQ(one->payload[7], std::byte{2});
    ASSERT_EQ(one->descriptors.size(), 2U);
    char text[6] = {};
    EXPECT_EQ(pread(one->descriptors[1].get(), text, 5, 0), 5);
    EXPECT_STREQ(text, "hello");
    EXPECT_NE(fcntl(one->descriptors[0].get(), F_GETFD) & FD_CLOEXEC, 0);
    const auto two = rig.receive();
    ASSERT_TRUE(two.has_value());
    EXPECT_EQ(two->header.id, 2);
    EXPECT_TRUE(two->descriptors.empty());
  });
}

/// More than a socket holds: both sides have to go on in between.
TEST(VfioUserConnection, CarriesTheLargestMessage) {
  in_os([](Rig& rig) {
    const auto writer = rig.runtime.spawn("writer", [&] {
      Connection peer(rig.runtime, std::move(rig.other), "client");
      const Bytes data(kMessageBytesMost - kHeaderBytes, std::byte{0x5A});
      EXPECT_TRUE(peer.send({.command = 12}, {data}, {}, rig.runtime.now() + 60 * kSecond));
    });
    const auto got = rig.receive(60 * kSecond);
    writer->join();
    ASSERT_TRUE(got.has_value()) << got.error().why;
    EXPECT_EQ(got->payload, Bytes(kMessageBytesMost - kHeaderBytes, std::byte{0x5A}));
  });
}

TEST(VfioUserConnection, TellsHowItEnded) {
  in_os([](Rig& rig) {
    rig.other = {};
    const auto got = rig.receive();
    ASSERT_FALSE(got.has_value());
    EXPECT_TRUE(got.error().closed);
    EXPECT_EQ(got.error().why, "the server closed the connection");
    const auto sent = rig.ours->send({.command = 9}, {}, {}, runtime::kForever);
    ASSERT_FALSE(sent.has_value());
    EXPECT_EQ(sent.error().why, "the server closed the connection");
  });
  in_os([](Rig& rig) {
    rig.put({.command = 9, .size_bytes = 32});
    rig.other = {};
    EXPECT_EQ(rig.receive().error().why,
              "the server closed the connection in the middle of a message");
  });
  in_os([](Rig& rig) {
    EXPECT_EQ(rig.receive(kMillisecond).error().why, "the server did not answer in time");
    rig.put({.command = 9}, 10);  // the deadline counts for a whole message
    EXPECT_EQ(rig.receive(kMillisecond).error().why, "the server did not end a message in time");
  });
  in_os([](Rig& rig) {
    rig.put({.command = 9, .size_bytes = 3});
    EXPECT_THAT(rig.receive().error().why, HasSubstr("the server sent a message of 3 bytes"));
  });
}

void send_with_descriptors(int socket, std::span<const std::byte> bytes, size_t count) {
  const Descriptor memory(memfd_create("test", MFD_CLOEXEC));
  std::vector<int> fds(count, memory.get());
  std::vector<std::byte> control(CMSG_SPACE(count * sizeof(int)));
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(rights), fds.data(), count * sizeof(int));
  EXPECT_EQ(sendmsg(socket, &message, 0), static_cast<ssize_t>(bytes.size()));
}

size_t open_descriptors() {
  size_t count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

TEST(VfioUserConnection, RefusesDescriptorsInTheWrongPlaceAndKeepsNone) {
  in_os([](Rig& rig) {
    const size_t before = open_descriptors();
    send_with_descriptors(rig.other.get(), encode(Header{.command = 2}), kDescriptorsMost + 1);
    EXPECT_THAT(rig.receive().error().why, HasSubstr("descriptors"));
    EXPECT_EQ(open_descriptors(), before);
  });
  in_os([](Rig& rig) {
    const size_t before = open_descriptors();
    rig.put({.command = 2, .size_bytes = 20});
    send_with_descriptors(rig.other.get(), Bytes(4), 1);  // in the middle of a message
    EXPECT_THAT(rig.receive().error().why, HasSubstr("descriptors"));
    EXPECT_EQ(open_descriptors(), before);
  });
}

TEST(VfioUserConnection, ListensOncePerPath) {
  char folder[] = "/tmp/dxgkit-vfio-user-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/socket";
  EXPECT_THAT(connect_to(path).error(), HasSubstr("no server answers at " + path));
  {
    const auto listener = listen_at(path);
    ASSERT_TRUE(listener.has_value()) << listener.error();
    EXPECT_TRUE(connect_to(path).has_value());
    EXPECT_THAT(listen_at(path).error(), HasSubstr("another server listens"));
  }
  // The file is left, and nobody listens.
  EXPECT_THAT(connect_to(path).error(), HasSubstr("no server answers"));
  EXPECT_TRUE(listen_at(path).has_value());
  unlink(path.c_str());
  const Descriptor file(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_THAT(listen_at(path).error(), HasSubstr("cannot listen")) << "a file of the user's stays";
  unlink(path.c_str());
  rmdir(folder);
  EXPECT_FALSE(connect_to("").has_value());
  EXPECT_THAT(connect_to(std::string(108, 'x')).error(), HasSubstr("is no path of a socket"));
  EXPECT_FALSE(listen_at(std::string(108, 'x')).has_value());
}

}  // namespace
}  // namespace dxgkit::vfiouser
