// Waiting for descriptors: input, the end of a connection, deadlines.
#include "runtime/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dxgkit::runtime {
namespace {

struct Pair {
  Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0); }
  ~Pair() {
    for (const int end : ends) close(end);
  }
  void close_other() {
    close(ends[1]);
    ends[1] = -1;
  }
  int ends[2];
};

ssize_t receive(Runtime& runtime, int socket, char* to, size_t bytes, TimeNs deadline) {
  iovec piece{to, bytes};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  return receive_message(runtime, socket, message, deadline);
}

TEST(Descriptors, SayWhichIsReady) {
  const auto os = make_os_runtime();
  os->run_main([&] {
    Pair quiet, talking;
    ASSERT_EQ(write(talking.ends[1], "x", 1), 1);
    DescriptorWait waits[] = {{.fd = quiet.ends[0]}, {.fd = -1}, {.fd = talking.ends[0]}};
    ASSERT_TRUE(wait_for_descriptors(*os, waits));
    EXPECT_FALSE(waits[0].ready);
    EXPECT_FALSE(waits[1].ready);
    EXPECT_TRUE(waits[2].ready);
    EXPECT_FALSE(waits[2].ended);
    talking.close_other();
    waits[2].input = false;  // it has input still, which does not count
    ASSERT_TRUE(wait_for_descriptors(*os, waits));
    EXPECT_TRUE(waits[2].ended);
  });
}

TEST(Descriptors, InputThatDoesNotCountIsNotWaitedFor) {
  const auto os = make_os_runtime();
  os->run_main([&] {
    Pair pair;
    ASSERT_EQ(write(pair.ends[1], "x", 1), 1);
    DescriptorWait wait{.fd = pair.ends[0], .input = false};
    EXPECT_FALSE(wait_for_descriptors(*os, {&wait, 1}, os->now() + kMillisecond));
  });
}

TEST(Descriptors, NothingComesBeforeTheDeadline) {
  const auto os = make_os_runtime();
  os->run_main([&] {
    Pair pair;
    const TimeNs deadline = os->now() + 3 * kMillisecond;
    char byte = 0;
    EXPECT_EQ(receive(*os, pair.ends[0], &byte, 1, deadline), -1);
    EXPECT_EQ(errno, ETIMEDOUT);
    EXPECT_GE(os->now(), deadline);
  });
}

TEST(Descriptors, AMessageWakesTheOneWhoWaits) {
  const auto os = make_os_runtime();
  os->run_main([&] {
    Pair pair;
    const auto other = os->spawn("other", [&] {
      char byte = 0;
      EXPECT_EQ(receive(*os, pair.ends[1], &byte, 1, kForever), 1);
      EXPECT_EQ(write(pair.ends[1], &byte, 1), 1);
    });
    ASSERT_EQ(write(pair.ends[0], "y", 1), 1);
    char byte = 0;
    EXPECT_EQ(receive(*os, pair.ends[0], &byte, 1, kForever), 1);
    EXPECT_EQ(byte, 'y');
    other->join();
    pair.close_other();
    EXPECT_EQ(receive(*os, pair.ends[0], &byte, 1, kForever), 0);
  });
}

/// A peer that reads nothing: its socket fills up.
TEST(Descriptors, SendingEndsAtTheDeadlineAndAtTheEnd) {
  const auto os = make_os_runtime();
  os->run_main([&] {
    Pair pair;
    char bytes[4096] = {};
    iovec piece{bytes, sizeof(bytes)};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    ssize_t sent = 0;
    while ((sent = send_message(*os, pair.ends[0], message, os->now())) > 0) {
    }
    EXPECT_EQ(sent, -1);
    EXPECT_EQ(errno, ETIMEDOUT);
    pair.close_other();
    EXPECT_EQ(send_message(*os, pair.ends[0], message, kForever), -1);
    EXPECT_EQ(errno, EPIPE);
  });
}

/// Writing to a full counter would block for ever: the test would not end.
TEST(Descriptors, AFullEventIsSetAlready) {
  const int event = eventfd(0, EFD_CLOEXEC);
  set_event(event);
  set_event(event);
  uint64_t value = 0;
  ASSERT_EQ(read(event, &value, sizeof value), ssize_t{sizeof value});
  EXPECT_EQ(value, 2U);
  const uint64_t full = UINT64_MAX - 1;
  ASSERT_EQ(write(event, &full, sizeof full), ssize_t{sizeof full});
  set_event(event);
  ASSERT_EQ(read(event, &value, sizeof value), ssize_t{sizeof value});
  EXPECT_EQ(value, full);
  close(event);
  // What a client may pass instead: a pipe that is full, and one that nobody reads any more.
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  while (write(ends[1], &full, sizeof full) > 0) {
  }
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);
  set_event(ends[1]);
  close(ends[0]);
  set_event(ends[1]);  // SIGPIPE would end the test
  close(ends[1]);
  set_event(-1);
}

/// In simulation no virtual time passes while a question is out.
TEST(Descriptors, AnAnswerIsAwaitedStandingStill) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const auto sim = make_sim_runtime(1);
  sim->run_main([&] {
    std::byte bytes[8];
    const TimeNs before = sim->now();
    EXPECT_EQ(receive_standing_still(ends[0], bytes, kMillisecond), -1);
    EXPECT_EQ(errno, ETIMEDOUT);
    ASSERT_EQ(write(ends[1], "answer", 6), 6);
    EXPECT_EQ(receive_standing_still(ends[0], bytes, kForever / 2), 6);
    EXPECT_EQ(std::memcmp(bytes, "answer", 6), 0);
    ASSERT_EQ(write(ends[1], "longer than that", 16), 16);
    EXPECT_EQ(receive_standing_still(ends[0], bytes, kForever / 2), 16);
    close(ends[1]);
    EXPECT_EQ(receive_standing_still(ends[0], bytes, kForever / 2), 0);
    EXPECT_EQ(sim->now(), before);
  });
  close(ends[0]);
}

}  // namespace
}  // namespace dxgkit::runtime
