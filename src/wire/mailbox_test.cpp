#include "wire/mailbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/host_thread.h"

namespace dxgkit::wire {
namespace {

constexpr uint32_t kSocket = 0, kFull = 2;
constexpr size_t kHalf = size_t{32} << 10;

std::vector<std::byte> message(size_t bytes, uint8_t seed = 1) {
  std::vector<std::byte> all(bytes);
  for (size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(seed + i * 7);
  return all;
}

bool has_bytes(int socket) {
  pollfd entry{.fd = socket, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) == 1;
}

/// Both ends of a connection in one process, and the memory as whoever writes what he likes sees
/// it.
struct MailboxTest : testing::Test {
  MailboxTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    server_socket = UniqueFd(ends[0]);
    client_socket = UniqueFd(ends[1]);
    server = Mailbox::make(&memory);
    client = Mailbox::open(memory);
    EXPECT_TRUE(server);
    EXPECT_TRUE(client);
    void* const seen =
        mmap(nullptr, 2 * kHalf, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    EXPECT_NE(seen, MAP_FAILED);
    raw = static_cast<std::byte*>(seen);
  }
  ~MailboxTest() override { munmap(raw, 2 * kHalf); }

  std::atomic<uint32_t>& word(size_t half) {
    return *reinterpret_cast<std::atomic<uint32_t>*>(raw + half * kHalf);
  }
  std::atomic<uint32_t>& to_server() { return word(0); }
  std::atomic<uint32_t>& to_client() { return word(1); }
  bool ask(std::span<const std::byte> bytes) {
    return client.send(client_socket.get(), bytes, std::span<const int>{});
  }
  bool answer(std::span<const std::byte> bytes) {
    return server.send(server_socket.get(), bytes, std::span<const int>{});
  }

  UniqueFd server_socket, client_socket, memory;
  Mailbox server, client;
  std::byte* raw = nullptr;
  Frame frame;
};

TEST_F(MailboxTest, SidesThatAreAwakeNeedNoSocket) {
  // Nobody looks at the mailbox before the first message.
  ASSERT_TRUE(ask(message(100)));
  EXPECT_TRUE(has_bytes(server_socket.get()));
  ASSERT_EQ(server.receive(server_socket.get(), &frame), Received::kFrame);
  EXPECT_EQ(frame.bytes, message(100));
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{500}, Mailbox::kMostBytes}) {
    ASSERT_TRUE(answer(message(bytes, 2)));
    EXPECT_FALSE(has_bytes(client_socket.get()));
    ASSERT_EQ(client.receive(client_socket.get(), &frame), Received::kFrame);
    EXPECT_EQ(frame.bytes, message(bytes, 2));
    ASSERT_TRUE(ask(message(bytes, 3)));
    EXPECT_FALSE(has_bytes(server_socket.get()));
    ASSERT_EQ(server.receive(server_socket.get(), &frame), Received::kFrame);
    EXPECT_EQ(frame.bytes, message(bytes, 3));
    EXPECT_TRUE(frame.descriptors.empty());
  }
}

TEST_F(MailboxTest, LongMessagesAndDescriptorsGoOverTheSocket) {
  ASSERT_TRUE(ask(message(1)));
  ASSERT_EQ(server.receive(server_socket.get(), &frame), Received::kFrame);
  ASSERT_TRUE(answer(message(Mailbox::kMostBytes + 1)));
  EXPECT_EQ(to_client().load(), kSocket);  // who looks there goes to the socket
  EXPECT_TRUE(has_bytes(client_socket.get()));
  ASSERT_EQ(client.receive(client_socket.get(), &frame), Received::kFrame);
  EXPECT_EQ(frame.bytes, message(Mailbox::kMostBytes + 1));
  const int sent[] = {memory.get()};
  ASSERT_TRUE(client.send(client_socket.get(), message(9), std::span<const int>(sent)));
  EXPECT_TRUE(has_bytes(server_socket.get()));
  ASSERT_EQ(server.receive(server_socket.get(), &frame), Received::kFrame);
  EXPECT_EQ(frame.bytes, message(9));
  ASSERT_EQ(frame.descriptors.size(), 1U);
  // And afterwards through the mailbox again.
  ASSERT_TRUE(answer(message(5)));
  EXPECT_FALSE(has_bytes(client_socket.get()));
  ASSERT_EQ(client.receive(client_socket.get(), &frame), Received::kFrame);
  EXPECT_EQ(frame.bytes, message(5));
  EXPECT_TRUE(frame.descriptors.empty());
}

TEST_F(MailboxTest, WhoSleepsIsReachedOverTheSocket) {
  ASSERT_TRUE(ask(message(1)));
  ASSERT_EQ(server.receive(server_socket.get(), &frame), Received::kFrame);
  ASSERT_TRUE(answer(message(1)));
  ASSERT_EQ(client.receive(client_socket.get(), &frame), Received::kFrame);
  // The server has looked for long enough. (A socket that has ended stands for one that sleeps.)
  shutdown(server_socket.get(), SHUT_RD);
  EXPECT_EQ(server.receive(server_socket.get(), &frame), Received::kEnd);
  EXPECT_EQ(to_server().load(), kSocket);
  EXPECT_FALSE(ask(message(1)));
}

TEST_F(MailboxTest, AMessageIsNotLostWhenItsSenderLeaves) {
  ASSERT_TRUE(ask(message(1)));
  ASSERT_EQ(server.receive(server_socket.get(), &frame), Received::kFrame);
  ASSERT_TRUE(answer(message(1)));
  ASSERT_EQ(client.receive(client_socket.get(), &frame), Received::kFrame);
  ASSERT_TRUE(ask(message(77)));
  client_socket.reset();
  ASSERT_EQ(server.receive(server_socket.get(), &frame), Received::kFrame);
  EXPECT_EQ(frame.bytes, message(77));
  EXPECT_FALSE(answer(message(Mailbox::kMostBytes + 1)));
  EXPECT_EQ(server.receive(server_socket.get(), &frame), Received::kEnd);
}

TEST_F(MailboxTest, AWordThatIsNoLengthBreaksTheConnection) {
  for (const uint32_t word :
       {kFull + static_cast<uint32_t>(Mailbox::kMostBytes) + 1, 0x8000'0000U, UINT32_MAX}) {
    frame.bytes = message(3);
    to_server().store(word);
    EXPECT_EQ(server.receive(server_socket.get(), &frame), Received::kBroken) << word;
    EXPECT_TRUE(frame.bytes.empty());
    to_client().store(word);
    EXPECT_EQ(client.receive(client_socket.get(), &frame), Received::kBroken) << word;
  }
}

TEST_F(MailboxTest, BytesBehindAFrameEndTheConnection) {
  const uint32_t head[] = {4, 0};  // bytes and descriptors
  const auto bytes_of_frame = std::as_bytes(std::span(head));
  std::vector<std::byte> sent(bytes_of_frame.begin(), bytes_of_frame.end());
  sent.resize(sent.size() + 4);
  ASSERT_EQ(write(client_socket.get(), sent.data(), sent.size()), ssize_t{12});
  EXPECT_EQ(receive_frame(server_socket.get(), &frame), Received::kFrame);
  EXPECT_EQ(frame.bytes.size(), 4U);
  sent.push_back({});
  ASSERT_EQ(write(client_socket.get(), sent.data(), sent.size()), ssize_t{13});
  EXPECT_EQ(receive_frame(server_socket.get(), &frame), Received::kBroken);
  EXPECT_TRUE(frame.bytes.empty());
}

TEST_F(MailboxTest, AReaderOfNoRepliesIsNotWaitedForHere) {
  to_client().store(UINT32_MAX);
  ASSERT_TRUE(answer(message(4)));
  EXPECT_TRUE(has_bytes(client_socket.get()));
  ASSERT_EQ(receive_frame(client_socket.get(), &frame), Received::kFrame);
  EXPECT_EQ(frame.bytes, message(4));
}

/// The word changes while it is looked at: what counts is one of its values.
TEST_F(MailboxTest, TheWordIsReadOnce) {
  std::atomic<bool> over{false};
  constexpr uint32_t kShort = kFull + 8, kTooLong = UINT32_MAX;
  shutdown(client_socket.get(), SHUT_WR);
  runtime::HostThread racing("racing", [&] {
    while (!over.load()) {
      to_server().store(kShort);
      to_server().store(kTooLong);
    }
  });
  for (int i = 0; i < 20000; ++i) {
    switch (server.receive(server_socket.get(), &frame)) {
      case Received::kFrame:
        ASSERT_EQ(frame.bytes.size(), 8U);
        break;
      case Received::kBroken:
        ASSERT_TRUE(frame.bytes.empty());
        break;
      case Received::kEnd:
        break;  // it had been taken just before
    }
  }
  over.store(true);
  racing.join();
}

TEST_F(MailboxTest, MemoryThatCanShrinkIsNone) {
  const UniqueFd small(memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(small.get(), kHalf), 0);
  EXPECT_FALSE(Mailbox::open(small));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd in(ends[0]), out(ends[1]);
  EXPECT_FALSE(Mailbox::open(in));
  EXPECT_FALSE(Mailbox::open(UniqueFd()));
  // The server's memory keeps its size whatever the client tries.
  EXPECT_NE(ftruncate(memory.get(), 0), 0);
  EXPECT_NE(ftruncate(memory.get(), 4 * kHalf), 0);
}

TEST_F(MailboxTest, AForkedChildDoesNotHaveIt) {
  const pid_t child = fork();
  if (child == 0) {
    // The test's own view is there, and the client's is not: only the fork's end is asked for here.
    munmap(raw, 2 * kHalf);
    ask(message(1));  // touches the client's memory
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(MailboxTest, ManyTurnsOfTwoThreadsLoseNothing) {
  constexpr uint32_t kTurns = 20000;
  runtime::HostThread serving("serving", [&] {
    Frame request;
    while (server.receive(server_socket.get(), &request) == Received::kFrame) {
      std::ranges::reverse(request.bytes);
      if (!answer(request.bytes)) return;
    }
  });
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    std::vector<std::byte> asked = message(turn % 97 == 0 ? Mailbox::kMostBytes + 5 : turn % 300);
    ASSERT_TRUE(ask(asked));
    ASSERT_EQ(client.receive(client_socket.get(), &frame), Received::kFrame);
    std::ranges::reverse(asked);
    ASSERT_EQ(frame.bytes, asked) << turn;
  }
  shutdown(client_socket.get(), SHUT_WR);
  serving.join();
}

TEST(Mailbox, WithoutOneEverythingGoesOverTheSocket) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd here(ends[0]), there(ends[1]);
  Mailbox none;
  EXPECT_FALSE(none);
  ASSERT_TRUE(none.send(here.get(), message(6), std::span<const int>{}));
  Frame frame;
  ASSERT_EQ(none.receive(there.get(), &frame), Received::kFrame);
  EXPECT_EQ(frame.bytes, message(6));
}

}  // namespace
}  // namespace dxgkit::wire
