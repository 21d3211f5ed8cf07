// The inside of an adapter process with scripted conversations: whatever clients do, the broker
// hears of each connection's end once.
#include "tools/dxgkit/serve/adapter_host.h"

#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "runtime/descriptors.h"
#include "runtime/sync.h"

namespace dxgkit::serve {
namespace {

/// Echoes what comes. After "block" it blocks until the client hangs up, as a call inside the
/// kernel may.
class Echo final : public Conversation {
 public:
  Echo(runtime::Runtime& runtime, Descriptor socket)
      : runtime_(runtime), socket_(std::move(socket)) {}
  std::string talk() override {
    while (true) {
      char bytes[64];
      iovec part{bytes, sizeof bytes};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      const ssize_t got =
          runtime::receive_message(runtime_, socket_.get(), message, runtime::kForever);
      if (got <= 0) return "it left";
      const std::string_view text(bytes, static_cast<size_t>(got));
      if (text == "block") {
        hung_up_.wait();
        return "it left a call";
      }
      if (text == "nonsense") return "nonsense";
      send(socket_.get(), bytes, static_cast<size_t>(got), MSG_NOSIGNAL);
    }
  }
  void hang_up() override {
    ++hang_ups;
    hung_up_.set();
    shutdown(socket_.get(), SHUT_RDWR);
  }
  int fd() const override { return socket_.get(); }

  int hang_ups = 0;

 private:
  runtime::Runtime& runtime_;
  const Descriptor socket_;
  runtime::Event hung_up_;
};

class Echoes final : public Conversations {
 public:
  explicit Echoes(runtime::Runtime& runtime) : runtime_(runtime) {}
  std::unique_ptr<Conversation> begin(Descriptor socket, uint32_t user, int32_t process) override {
    EXPECT_EQ(user, 500U);
    EXPECT_EQ(process, 77);
    return std::make_unique<Echo>(runtime_, std::move(socket));
  }
  void record(Descriptor file, uint32_t user, int32_t process) override {
    EXPECT_EQ(user, 500U);
    EXPECT_EQ(process, 77);
    EXPECT_EQ(write(file.get(), "kept", 4), 4);
  }
  Figures figures(std::vector<UserFigures>* users) override {
    users->push_back({.user = 500, .memory_bytes = 4096});
    return {.requests = 9};
  }

 private:
  runtime::Runtime& runtime_;
};

class AdapterHostTest : public testing::Test {
 protected:
  /// Runs `body` beside a host, and ends the host.
  void with_host(const std::function<void()>& body) {
    runtime_->run_main([&] {
      int ends[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
      broker_ = Descriptor(ends[0]);
      const Descriptor control(ends[1]), wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      Echoes echoes(*runtime_);
      AdapterHost host(*runtime_, control.get(), wake.get(), echoes);
      const auto thread = runtime_->spawn("host", [&] { host.run(); });
      EXPECT_EQ(next().message.kind, Control::kReady);
      body();
      if (broker_) say(Control::kEnd);
      thread->join();
    });
  }
  ControlReceived next() {
    ControlReceived received;
    runtime::DescriptorWait wait{.fd = broker_.get()};
    runtime::wait_for_descriptors(*runtime_, {&wait, 1});
    EXPECT_EQ(receive_control(broker_.get(), &received), ControlState::kMessage);
    return received;
  }
  void say(Control kind, uint64_t connection = 0, int fd = -1) {
    ControlMessage message;
    message.kind = kind;
    message.connection = connection;
    message.user = 500;
    message.process = 77;
    EXPECT_TRUE(send_control(broker_.get(), message, {}, fd));
  }
  Descriptor connect(uint64_t connection) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const Descriptor theirs(ends[1]);
    say(Control::kConnection, connection, theirs.get());
    return Descriptor(ends[0]);
  }
  void expect_closed(uint64_t connection, const std::string& why) {
    const ControlReceived closed = next();
    EXPECT_EQ(closed.message.kind, Control::kClosed);
    EXPECT_EQ(closed.message.connection, connection);
    EXPECT_EQ(closed.text, why);
  }
  static std::string echo(const Descriptor& client, std::string_view text) {
    send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
    char bytes[64];
    const ssize_t got = recv(client.get(), bytes, sizeof bytes, 0);
    return got > 0 ? std::string(bytes, static_cast<size_t>(got)) : "END";
  }

  std::unique_ptr<runtime::Runtime> runtime_ = runtime::make_os_runtime(1);
  Descriptor broker_;
};

TEST_F(AdapterHostTest, EachConnectionHasItsConversation) {
  with_host([&] {
    Descriptor first = connect(1), second = connect(2);
    EXPECT_EQ(echo(first, "one"), "one");
    EXPECT_EQ(echo(second, "two"), "two");
    first = Descriptor();
    expect_closed(1, "it left");
    EXPECT_EQ(echo(second, "three"), "three");
  });
}

TEST_F(AdapterHostTest, AClientThatDiesInsideACallIsHungUp) {
  with_host([&] {
    Descriptor other = connect(2);
    {
      const Descriptor client = connect(1);
      send(client.get(), "block", 5, MSG_NOSIGNAL);
    }
    expect_closed(1, "it left a call");
    EXPECT_EQ(echo(other, "on"), "on");
  });
}

TEST_F(AdapterHostTest, NonsenseEndsOneConnection) {
  with_host([&] {
    const Descriptor bad = connect(1), good = connect(2);
    EXPECT_EQ(echo(bad, "nonsense"), "END");
    expect_closed(1, "nonsense");
    EXPECT_EQ(echo(good, "on"), "on");
  });
}

TEST_F(AdapterHostTest, AMessageWithoutADescriptorIsNoConnection) {
  with_host([&] {
    say(Control::kConnection, 5);
    expect_closed(5, "no thread is left");
  });
}

TEST_F(AdapterHostTest, AFileForARecordingGoesToTheConversations) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Descriptor ours(ends[0]), theirs(ends[1]);
  with_host([&] {
    say(Control::kRecording);  // without a file there is nothing to be done
    say(Control::kRecording, 0, theirs.get());
    theirs = Descriptor();
    char text[8] = {};
    ASSERT_EQ(recv(ours.get(), text, sizeof text, MSG_WAITALL), 4) << "and it is closed then";
    EXPECT_STREQ(text, "kept");
  });
}

TEST_F(AdapterHostTest, AnswersWithFigures) {
  with_host([&] {
    say(Control::kQuery, 3);
    const ControlReceived answer = next();
    EXPECT_EQ(answer.message.kind, Control::kFigures);
    EXPECT_EQ(answer.message.connection, 3U);
    EXPECT_EQ(answer.message.figures.requests, 9U);
    UserFigures user;
    ASSERT_EQ(answer.text.size(), sizeof user);
    std::memcpy(&user, answer.text.data(), sizeof user);
    EXPECT_EQ(user.user, 500U);
    EXPECT_EQ(user.memory_bytes, 4096U);
  });
}

TEST_F(AdapterHostTest, TheEndHangsUpCallsThatBlock) {
  Descriptor client;
  with_host([&] {
    client = connect(1);
    send(client.get(), "block", 5, MSG_NOSIGNAL);
  });
  char byte = 0;
  EXPECT_LE(recv(client.get(), &byte, 1, 0), 0);
}

TEST_F(AdapterHostTest, TheBrokersDeathIsTheEnd) {
  Descriptor client;
  with_host([&] {
    client = connect(1);
    EXPECT_EQ(echo(client, "x"), "x");
    broker_ = Descriptor();
  });
  char byte = 0;
  EXPECT_LE(recv(client.get(), &byte, 1, 0), 0);
}

}  // namespace
}  // namespace dxgkit::serve
