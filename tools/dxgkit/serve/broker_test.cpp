// The broker with scripted adapter processes and clients, which are ends of socket pairs. Time is
// real, and nothing here depends on how much of it passes: deadlines that are to pass are 0.
#include "tools/dxgkit/serve/broker.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <ntstatus.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "runtime/descriptors.h"

namespace dxgkit::serve {
namespace {

using runtime::kSecond;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr runtime::DurationNs kLong = 3600 * kSecond;

std::pair<Descriptor, Descriptor> socket_pair(int type) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// The adapter process's side of one life.
struct Life {
  size_t adapter = 0;
  uint32_t luid = 0;
  int32_t process = 0;
  Descriptor control, supply, ended, errors;
  bool is_killed = false;
  std::string how = "it ended by signal 11";

  bool say(ControlMessage message, std::string_view text = {}) const {
    return send_control(control.get(), message, text);
  }
  bool say(Control kind, std::string_view text = {}, uint64_t connection = 0) const {
    ControlMessage message;
    message.kind = kind;
    message.connection = connection;
    return say(message, text);
  }
  /// The process is gone: its descriptors are closed, and the broker is told.
  void die(const std::string& reason) {
    how = reason;
    control = Descriptor();
    errors = Descriptor();
    const uint64_t one = 1;
    EXPECT_EQ(write(ended.get(), &one, sizeof one), ssize_t{sizeof one});
  }
};

class FakeWorld final : public BrokerWorld {
 public:
  std::expected<Started, std::string> start(size_t adapter, uint32_t luid) override {
    if (refuses) return std::unexpected("no process is left");
    auto life = std::make_unique<Life>();
    auto [ours, theirs] = socket_pair(SOCK_SEQPACKET);
    auto [errors, their_errors] = socket_pair(SOCK_STREAM);
    const int event = eventfd(0, EFD_CLOEXEC);
    life->adapter = adapter;
    life->luid = luid;
    life->process = 1000 + static_cast<int32_t>(lives.size());
    life->control = std::move(theirs);
    life->errors = std::move(their_errors);
    auto [supply, their_supply] = socket_pair(SOCK_SEQPACKET);
    life->supply = std::move(their_supply);
    life->ended = Descriptor(event);
    Started started{.control = std::move(ours),
                    .supply = std::move(supply),
                    .ended = life->ended.duplicate(),
                    .errors = std::move(errors),
                    .process = life->process};
    lives.push_back(std::move(life));
    return started;
  }
  void kill(int32_t process) override { of(process).is_killed = true; }
  std::string how_ended(int32_t process) override { return of(process).how; }
  std::optional<Peer> peer_of(int) override { return peer; }
  uint64_t memory_of(int32_t) override { return 7; }
  std::expected<Descriptor, std::string> make_recording(const std::string& folder,
                                                        const std::string& name) override {
    if (refuses) return std::unexpected("no file is left");
    recordings.push_back(folder + "/" + name);
    auto [ours, theirs] = socket_pair(SOCK_STREAM);
    return std::move(theirs);
  }
  void say(const std::string& line) override { lines.push_back(line); }

  Life& of(int32_t process) { return *lives.at(static_cast<size_t>(process - 1000)); }

  std::vector<std::unique_ptr<Life>> lives;
  std::vector<std::string> lines, recordings;
  std::optional<Peer> peer = Peer{.user = 500, .group = 50, .process = 77, .groups = {}};
  bool refuses = false;
};

class BrokerTest : public testing::Test {
 protected:
  BrokerTest() {
    options_.users = {500};
    options_.greeting_ns = options_.start_ns = options_.figures_ns = kLong;
    options_.restarts_within_ns = kLong;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;  // no name: the system gives an abstract one
    listener_ = Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)), 0);
    EXPECT_EQ(listen(listener_.get(), 128), 0);
  }

  /// Runs `body` with a broker of `adapters`, all of which are ready if `ready`.
  void with_broker(size_t adapters, const std::function<void(Broker&)>& body, bool ready = true) {
    runtime_->run_main([&] {
      std::vector<std::string> names;
      for (size_t i = 0; i < adapters; ++i) names.push_back("adapter " + std::to_string(i + 1));
      Broker broker(*runtime_, listener_.get(), world_, names, options_);
      broker.start();
      if (ready) {
        for (const auto& life : world_.lives) EXPECT_TRUE(life->say(Control::kReady));
        turn(broker);
      }
      body(broker);
    });
  }
  /// Lets the broker do all that there is to do.
  static void turn(Broker& broker) {
    for (int i = 0; i < 8; ++i) broker.step(-1, 0);
  }
  Descriptor connect() {
    sockaddr_un address{};
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    Descriptor client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    return client;
  }
  static void send_bytes(const Descriptor& client, const void* bytes, size_t size) {
    EXPECT_EQ(send(client.get(), bytes, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
  }
  static void say(const Descriptor& client, Ask ask, uint32_t luid = 0) {
    Greeting hello;
    hello.ask = ask;
    hello.luid_low = luid;
    send_bytes(client, &hello, sizeof hello);
  }
  /// All that the broker has sent; "END" at the end if it has closed.
  static std::string received(const Descriptor& client) {
    std::string all;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = recv(client.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
      all.append(bytes, static_cast<size_t>(got));
    return got == 0 || errno == ECONNRESET ? all + "END" : all;
  }
  static int32_t status_of(const std::string& answer) {
    Greeted welcome;
    if (answer.size() < sizeof welcome) return -1;
    std::memcpy(&welcome, answer.data(), sizeof welcome);
    return welcome.status;
  }
  static std::string welcome(int32_t status, bool ends) {
    const Greeted answer{.status = status};
    return std::string(reinterpret_cast<const char*>(&answer), sizeof answer) + (ends ? "END" : "");
  }
  Life& life(size_t index) { return *world_.lives.at(index); }
  /// The next connection that a life got.
  static std::optional<ControlReceived> connection_of(const Life& life) {
    ControlReceived received;
    if (receive_control(life.control.get(), &received) != ControlState::kMessage)
      return std::nullopt;
    EXPECT_EQ(received.message.kind, Control::kConnection);
    EXPECT_TRUE(static_cast<bool>(received.descriptor));
    return received;
  }
  nlohmann::json status(Broker& broker) {
    const Descriptor client = connect();
    say(client, Ask::kStatus);
    turn(broker);
    for (const auto& one : world_.lives) {
      ControlReceived query;
      if (!one->control || receive_control(one->control.get(), &query) != ControlState::kMessage)
        continue;
      EXPECT_EQ(query.message.kind, Control::kQuery);
      ControlMessage answer;
      answer.kind = Control::kFigures;
      answer.connection = query.message.connection;
      answer.figures.requests = 40 + one->luid;
      const UserFigures users[] = {{.user = 500,
                                    .handles = one->luid,
                                    .memory_bytes = 4096,
                                    .submissions = 2,
                                    .refusals = 5},
                                   {.user = 777, .handles = 99}};
      EXPECT_TRUE(one->say(answer, {reinterpret_cast<const char*>(users), sizeof users}));
    }
    turn(broker);
    const std::string all = received(client);
    EXPECT_EQ(status_of(all), STATUS_SUCCESS);
    EXPECT_TRUE(all.ends_with("END"));
    return nlohmann::json::parse(all.substr(sizeof(Greeted), all.size() - sizeof(Greeted) - 3));
  }

  std::unique_ptr<runtime::Runtime> runtime_ = runtime::make_os_runtime(1);
  FakeWorld world_;
  BrokerOptions options_;
  Descriptor listener_;
};

// --- connections

TEST_F(BrokerTest, AConnectionGoesToTheAdapterThatTheClientNames) {
  with_broker(2, [&](Broker& broker) {
    const Descriptor client = connect();
    say(client, Ask::kAdapters);
    turn(broker);
    const std::string list = received(client);
    ASSERT_EQ(list.size(), sizeof(Greeted) + 2 * sizeof(AdapterLine));
    AdapterLine second;
    std::memcpy(&second, list.data() + list.size() - sizeof second, sizeof second);
    EXPECT_EQ(second.luid_low, life(1).luid);

    say(client, Ask::kOpen, second.luid_low);
    turn(broker);
    EXPECT_EQ(received(client), welcome(STATUS_SUCCESS, false));
    EXPECT_FALSE(connection_of(life(0)).has_value());
    const auto got = connection_of(life(1));
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->message.user, 500U);
    EXPECT_EQ(got->message.process, 77);
    EXPECT_EQ(broker.connections(), 1U);
    EXPECT_EQ(broker.greeting(), 0U);
    // It is the client's own socket.
    send_bytes(client, "hello", 5);
    EXPECT_EQ(received(got->descriptor), "hello");
  });
}

TEST_F(BrokerTest, AClientOfTheAdaptersProtocolKeepsItsFirstBytes) {
  with_broker(2, [&](Broker& broker) {
    const Descriptor client = connect();
    send_bytes(client, "first bytes of another protocol", 31);
    turn(broker);
    const auto got = connection_of(life(0));
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(received(got->descriptor), "first bytes of another protocol");
  });
}

TEST_F(BrokerTest, AClientThatComesBeforeTheAdapterIsReadyWaits) {
  with_broker(
      1,
      [&](Broker& broker) {
        const Descriptor raw = connect(), polite = connect();
        send_bytes(raw, "x", 1);
        say(polite, Ask::kAdapters);
        turn(broker);
        EXPECT_EQ(broker.greeting(), 2U);
        EXPECT_EQ(received(polite), "");
        EXPECT_TRUE(life(0).say(Control::kReady));
        turn(broker);
        EXPECT_TRUE(connection_of(life(0)).has_value());
        EXPECT_THAT(received(polite), SizeIs(sizeof(Greeted) + sizeof(AdapterLine)));
      },
      /*ready=*/false);
}

TEST_F(BrokerTest, RefusesWhoIsNotAllowed) {
  options_.groups = {60};
  with_broker(1, [&](Broker& broker) {
    world_.peer->user = 501;
    const Descriptor stranger = connect();
    turn(broker);
    EXPECT_EQ(received(stranger), "END");
    EXPECT_EQ(broker.greeting(), 0U);

    world_.peer->groups = {59, 60};
    const Descriptor member = connect();
    turn(broker);
    EXPECT_EQ(received(member), "");
    EXPECT_EQ(broker.greeting(), 1U);

    world_.peer->groups = {};
    world_.peer->group = 60;
    const Descriptor other = connect();
    turn(broker);
    EXPECT_EQ(broker.greeting(), 2U);

    world_.peer = std::nullopt;
    const Descriptor nobody = connect();
    turn(broker);
    EXPECT_EQ(received(nobody), "END");
    EXPECT_EQ(broker.connections(), 0U);
  });
}

TEST_F(BrokerTest, AUserHasSoManyConnectionsAndProcesses) {
  options_.connections_most = 3;
  options_.processes_most = 2;
  with_broker(1, [&](Broker& broker) {
    const uint32_t luid = life(0).luid;
    const auto open_as = [&](int32_t process) {
      world_.peer->process = process;
      Descriptor client = connect();
      say(client, Ask::kOpen, luid);
      turn(broker);
      return std::pair(status_of(received(client)), std::move(client));
    };
    const auto first = open_as(1), second = open_as(2);
    EXPECT_EQ(first.first, STATUS_SUCCESS);
    EXPECT_EQ(second.first, STATUS_SUCCESS);
    EXPECT_EQ(open_as(3).first, STATUS_QUOTA_EXCEEDED) << "a third process";
    const auto third = open_as(1);
    EXPECT_EQ(third.first, STATUS_SUCCESS) << "a process that is there already";
    EXPECT_EQ(open_as(1).first, STATUS_QUOTA_EXCEEDED) << "a fourth connection";
    EXPECT_EQ(broker.connections(), 3U);

    world_.peer->user = 500;  // another user has a quota of its own
    world_.peer->process = 9;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(connection_of(life(0)).has_value());
    EXPECT_FALSE(connection_of(life(0)).has_value()) << "a refused one reached the adapter";

    EXPECT_TRUE(life(0).say(Control::kClosed, "", 1));
    turn(broker);
    EXPECT_EQ(broker.connections(), 2U);
    EXPECT_EQ(open_as(1).first, STATUS_SUCCESS);
  });
}

TEST_F(BrokerTest, AnAdapterThatDoesNotExistIsRemoved) {
  with_broker(1, [&](Broker& broker) {
    for (const uint32_t luid : {0U, 99U}) {
      const Descriptor client = connect();
      say(client, Ask::kOpen, luid);
      turn(broker);
      EXPECT_EQ(received(client), welcome(STATUS_DEVICE_REMOVED, true)) << luid;
    }
    EXPECT_EQ(broker.connections(), 0U);
    EXPECT_EQ(broker.greeting(), 0U);
  });
}

// --- hostile clients

TEST_F(BrokerTest, NonsenseInAGreetingEndsIt) {
  with_broker(1, [&](Broker& broker) {
    const auto answer_to = [&](const Greeting& hello) {
      const Descriptor client = connect();
      send_bytes(client, &hello, sizeof hello);
      turn(broker);
      return received(client);
    };
    Greeting hello;
    hello.version = 2;
    EXPECT_EQ(answer_to(hello), welcome(STATUS_REVISION_MISMATCH, true));
    hello = {};
    hello.ask = static_cast<Ask>(77);
    EXPECT_EQ(answer_to(hello), welcome(STATUS_INVALID_PARAMETER, true));
    hello = {};
    hello.ask = Ask::kOpen;
    hello.luid_high = 1;
    EXPECT_EQ(answer_to(hello), welcome(STATUS_INVALID_PARAMETER, true));
    EXPECT_EQ(broker.greeting(), 0U);
    EXPECT_EQ(broker.connections(), 0U);
    EXPECT_EQ(broker.state(0), Broker::State::kRunning);
  });
}

TEST_F(BrokerTest, AGreetingMayComeByteByByte) {
  with_broker(1, [&](Broker& broker) {
    Greeting hello;
    hello.ask = Ask::kOpen;
    hello.luid_low = life(0).luid;
    const Descriptor client = connect();
    for (size_t i = 0; i + 1 < sizeof hello; ++i) {
      send_bytes(client, reinterpret_cast<const char*>(&hello) + i, 1);
      turn(broker);
      EXPECT_EQ(broker.connections(), 0U);
    }
    EXPECT_EQ(broker.greeting(), 1U);
    send_bytes(client, reinterpret_cast<const char*>(&hello) + sizeof hello - 1, 1);
    // It looks again by itself.
    while (broker.greeting() > 0) broker.step();
    EXPECT_EQ(received(client), welcome(STATUS_SUCCESS, false));
  });
}

TEST_F(BrokerTest, WhoDoesNotGreetInTimeIsDropped) {
  options_.greeting_ns = 0;
  with_broker(1, [&](Broker& broker) {
    const Descriptor silent = connect(), slow = connect();
    const uint64_t magic = kGreetingMagic;
    send_bytes(slow, &magic, sizeof magic);
    turn(broker);
    EXPECT_EQ(received(silent), "END");
    EXPECT_EQ(received(slow), "END");
    EXPECT_EQ(broker.greeting(), 0U);
  });
}

TEST_F(BrokerTest, OneUserCannotTakeAllPlaces) {
  with_broker(1, [&](Broker& broker) {
    std::vector<Descriptor> clients;
    for (size_t i = 0; i < 2 * Broker::kGuestsOfUserMost; ++i) {
      clients.push_back(connect());
      turn(broker);
    }
    EXPECT_EQ(broker.greeting(), Broker::kGuestsOfUserMost);
    EXPECT_EQ(received(clients.back()), "END");
    clients.clear();
    turn(broker);
    EXPECT_EQ(broker.greeting(), 0U);
  });
}

/// Descriptors that this process has open.
size_t open_descriptors() {
  size_t count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

TEST_F(BrokerTest, DescriptorsWithAGreetingAreClosed) {
  with_broker(1, [&](Broker& broker) {
    const Descriptor client = connect();
    turn(broker);
    const size_t before = open_descriptors();
    Greeting hello;
    const int fds[] = {0, 1, 2, client.get()};
    iovec part{&hello, sizeof hello};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof fds)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(rights), fds, sizeof fds);
    EXPECT_EQ(sendmsg(client.get(), &message, 0), ssize_t{sizeof hello});
    turn(broker);
    EXPECT_THAT(received(client), SizeIs(sizeof(Greeted) + sizeof(AdapterLine)));
    EXPECT_EQ(open_descriptors(), before);
  });
}

// A reader that has stopped gets no more than its socket holds, and the others are served.
TEST_F(BrokerTest, AStoppedReaderBlocksNobody) {
  with_broker(1, [&](Broker& broker) {
    const Descriptor stopped = connect();
    const int small = 1;
    EXPECT_EQ(setsockopt(stopped.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    size_t asked = 0;
    for (; asked < 100'000 && broker.greeting() + (asked == 0 ? 1 : 0) > 0; ++asked) {
      Greeting hello;
      if (send(stopped.get(), &hello, sizeof hello, MSG_NOSIGNAL) < 0) turn(broker);
      broker.step(-1, 0);
    }
    EXPECT_LT(asked, 100'000U) << "it is never dropped";
    const Descriptor other = connect();
    say(other, Ask::kOpen, life(0).luid);
    turn(broker);
    EXPECT_EQ(received(other), welcome(STATUS_SUCCESS, false));
  });
}

TEST_F(BrokerTest, AClientMayDieAtEveryPoint) {
  with_broker(1, [&](Broker& broker) {
    { const Descriptor client = connect(); }
    turn(broker);
    {
      const Descriptor client = connect();
      turn(broker);
    }
    turn(broker);
    {
      const Descriptor client = connect();
      say(client, Ask::kStatus);
      turn(broker);
      EXPECT_EQ(broker.greeting(), 1U) << "it waits for figures";
    }
    turn(broker);
    {
      const Descriptor client = connect();
      say(client, Ask::kOpen, life(0).luid);
    }
    turn(broker);
    EXPECT_EQ(broker.greeting(), 0U);
    EXPECT_EQ(broker.state(0), Broker::State::kRunning);
  });
}

// --- adapter processes

TEST_F(BrokerTest, ADeathEndsItsConnectionsAndNoOthersAndIsKept) {
  with_broker(2, [&](Broker& broker) {
    const Descriptor first = connect(), second = connect();
    say(first, Ask::kOpen, life(0).luid);
    say(second, Ask::kOpen, life(1).luid);
    turn(broker);
    auto of_first = connection_of(life(0)), of_second = connection_of(life(1));
    ASSERT_TRUE(of_first.has_value());
    ASSERT_TRUE(of_second.has_value());
    received(first);
    received(second);

    EXPECT_TRUE(life(0).say(Control::kFinding, "PATCH-08: a\x1B finding"));
    EXPECT_EQ(write(life(0).errors.get(), "signal 11 in DxgkDdiPatch\n\x07", 27), 27);
    of_first.reset();  // the process's descriptors are gone
    life(0).die("it ended by signal 11");
    turn(broker);

    EXPECT_EQ(received(first), "END");
    EXPECT_EQ(received(second), "");
    send_bytes(second, "on", 2);
    EXPECT_EQ(received(of_second->descriptor), "on");
    EXPECT_EQ(broker.connections(), 1U);

    ASSERT_THAT(broker.reports(0), SizeIs(1));
    const AdapterReport& report = broker.reports(0).front();
    EXPECT_EQ(report.how, "it ended by signal 11");
    EXPECT_THAT(report.findings, ElementsAre("PATCH-08: a? finding"));
    EXPECT_EQ(report.errors, "signal 11 in DxgkDdiPatch\n?");
    EXPECT_THAT(broker.reports(1), IsEmpty());

    ASSERT_THAT(world_.lives, SizeIs(3)) << "it is started again";
    EXPECT_EQ(life(2).adapter, 0U);
    EXPECT_EQ(life(2).luid, 3U) << "no LUID comes twice";
    EXPECT_EQ(broker.state(0), Broker::State::kStarting);
    EXPECT_TRUE(life(2).say(Control::kReady));
    turn(broker);
    const Descriptor again = connect();
    say(again, Ask::kOpen, life(2).luid);
    turn(broker);
    EXPECT_EQ(received(again), welcome(STATUS_SUCCESS, false));
  });
}

TEST_F(BrokerTest, IsStartedAgainOnlySoOften) {
  options_.restarts_most = 2;
  with_broker(1, [&](Broker& broker) {
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(broker.alive(), 1U);
      life(i).die("it ended by signal 11");
      turn(broker);
    }
    EXPECT_THAT(world_.lives, SizeIs(3));
    EXPECT_EQ(broker.alive(), 0U);
    EXPECT_EQ(broker.state(0), Broker::State::kDown);
    EXPECT_THAT(world_.lines.back(), HasSubstr("it is not started again: it ended 3 times"));
    const Descriptor client = connect();
    say(client, Ask::kOpen, life(2).luid);
    turn(broker);
    EXPECT_EQ(received(client), welcome(STATUS_DEVICE_REMOVED, true));
  });
}

TEST_F(BrokerTest, EndsThatAreLongAgoDoNotCount) {
  options_.restarts_most = 2;
  options_.restarts_within_ns = 0;
  with_broker(1, [&](Broker& broker) {
    for (size_t i = 0; i < 20; ++i) {
      life(i).die("it ended by signal 11");
      turn(broker);
    }
    EXPECT_EQ(broker.alive(), 1U);
    EXPECT_THAT(broker.reports(0), SizeIs(Broker::kReportsMost));
  });
}

TEST_F(BrokerTest, AnAdapterThatDoesNotStartSaysWhy) {
  options_.restarts_most = 0;
  with_broker(
      1,
      [&](Broker& broker) {
        EXPECT_TRUE(life(0).say(Control::kFailed, "the adapter did not start"));
        life(0).die("it ended with exit code 1");
        turn(broker);
        EXPECT_EQ(broker.reports(0).front().how, "the adapter did not start");
        EXPECT_EQ(broker.alive(), 0U);
      },
      /*ready=*/false);
}

TEST_F(BrokerTest, AnAdapterThatDoesNotGetReadyIsKilled) {
  options_.start_ns = 0;
  with_broker(
      1,
      [&](Broker& broker) {
        turn(broker);
        EXPECT_TRUE(life(0).is_killed);
        life(0).die("it ended by signal 9");
        turn(broker);
        EXPECT_EQ(broker.reports(0).front().how, "it did not get ready in time");
      },
      /*ready=*/false);
}

TEST_F(BrokerTest, AProcessThatCannotBeStartedIsDown) {
  world_.refuses = true;
  with_broker(
      1,
      [&](Broker& broker) {
        EXPECT_EQ(broker.alive(), 0U);
        EXPECT_THAT(world_.lines, ElementsAre(HasSubstr("no process is left")));
      },
      /*ready=*/false);
}

// A driver may have taken over its process.
TEST_F(BrokerTest, NonsenseOfAnAdapterEndsThatAdapterOnly) {
  const std::vector<std::function<void(const Life&)>> rows = {
      [](const Life& life) { life.say(Control::kReady); },  // a second time
      [](const Life& life) { life.say(Control::kConnection); },
      [](const Life& life) { life.say(Control::kRecording); },
      [](const Life& life) { life.say(Control::kQuery); },
      [](const Life& life) { life.say(Control::kEnd); },
      [](const Life& life) { life.say(static_cast<Control>(99)); },
      [](const Life& life) { life.say(Control::kClosed, "", 12345); },   // nobody's
      [](const Life& life) { life.say(Control::kClosed, "", 1); },       // the other adapter's
      [](const Life& life) { life.say(Control::kFigures, "", 12345); },  // of no query
      [](const Life& life) { life.say(Control::kFigures, "a user"); },   // less than one
      [](const Life& life) { send(life.control.get(), "x", 1, 0); },
      [](const Life& life) {
        ControlMessage message;
        message.text_bytes = 1000;
        send(life.control.get(), &message, sizeof message, 0);
      },
      [](const Life& life) {
        const std::string long_one(kControlTextMost + sizeof(ControlMessage) + 1, 'x');
        send(life.control.get(), long_one.data(), long_one.size(), 0);
      },
  };
  for (size_t row = 0; row < rows.size(); ++row) {
    world_.lives.clear();
    with_broker(2, [&](Broker& broker) {
      const Descriptor client = connect();
      say(client, Ask::kOpen, life(1).luid);
      turn(broker);
      rows[row](life(0));
      turn(broker);
      EXPECT_TRUE(life(0).is_killed) << row;
      EXPECT_EQ(broker.state(0), Broker::State::kKilled) << row;
      EXPECT_FALSE(life(1).is_killed) << row;
      EXPECT_EQ(broker.connections(), 1U) << row;
      life(0).die("it ended by signal 9");
      turn(broker);
      EXPECT_EQ(broker.reports(0).front().how, "it sent nonsense") << row;
    });
  }
}

TEST_F(BrokerTest, AFloodOfFindingsIsCountedAndNotKept) {
  with_broker(1, [&](Broker& broker) {
    size_t sent = 0;
    for (size_t i = 0; i < 10 * Broker::kFindingsMost; ++i) {
      sent += life(0).say(Control::kFinding, std::string(kControlTextMost, 'x')) ? 1 : 0;
      broker.step(-1, 0);
    }
    std::string noise(4096, 'e');
    for (int i = 0; i < 20; ++i) {
      send(life(0).errors.get(), noise.data(), noise.size(), 0);
      broker.step(-1, 0);
    }
    life(0).die("it ended by signal 11");
    turn(broker);
    const AdapterReport& report = broker.reports(0).front();
    EXPECT_THAT(report.findings, SizeIs(Broker::kFindingsMost));
    EXPECT_EQ(report.findings_lost, sent - Broker::kFindingsMost);
    EXPECT_EQ(report.errors.size(), Broker::kErrorBytesMost);
  });
}

TEST_F(BrokerTest, AnAdapterThatReadsNothingCostsItsOwnClientsOnly) {
  options_.connections_most = 1000;
  with_broker(1, [&](Broker& broker) {
    // Its socket fills up with connections that it does not take.
    size_t handed = 0;
    for (size_t i = 0; i < 2000; ++i) {
      const size_t before = broker.connections();
      const Descriptor client = connect();
      send_bytes(client, "x", 1);
      turn(broker);
      if (broker.connections() == before) {
        EXPECT_EQ(received(client), "END");
        break;
      }
      ++handed;
    }
    EXPECT_LT(handed, 1000U);
    EXPECT_EQ(broker.connections(), handed);
    EXPECT_EQ(broker.greeting(), 0U);
  });
}

TEST_F(BrokerTest, TheEndAsksFirstAndKillsThen) {
  with_broker(2, [&](Broker& broker) {
    // The first one does what it is told, the second one does not.
    const auto thread = runtime_->spawn("adapter", [this] {
      runtime::DescriptorWait wait{.fd = life(0).control.get()};
      runtime::wait_for_descriptors(*runtime_, {&wait, 1});
      ControlReceived received;
      EXPECT_EQ(receive_control(life(0).control.get(), &received), ControlState::kMessage);
      EXPECT_EQ(received.message.kind, Control::kEnd);
      life(0).die("it ended with exit code 0");
    });
    broker.end(kSecond / 10);
    thread->join();
    EXPECT_EQ(broker.reports(0).front().how, "it ended with exit code 0");
    EXPECT_TRUE(life(1).is_killed);
    EXPECT_THAT(world_.lives, SizeIs(2)) << "nothing is started again";
  });
}

TEST_F(BrokerTest, AnAdapterGetsNewDescriptors) {
  options_.object_bytes_most = 8192;
  with_broker(2, [&](Broker& broker) {
    const auto ask = [&](uint64_t bytes) {
      const uint64_t request[] = {1, bytes};  // memory
      EXPECT_EQ(send(life(0).supply.get(), request, sizeof request, 0), ssize_t{sizeof request});
      turn(broker);
      int32_t error = -1;
      EXPECT_EQ(recv(life(0).supply.get(), &error, sizeof error, 0), ssize_t{sizeof error});
      return error;
    };
    const size_t before = open_descriptors();
    EXPECT_EQ(ask(8192), 0);
    EXPECT_EQ(ask(8193), ENOMEM);
    EXPECT_EQ(open_descriptors(), before) << "the broker keeps what it gives away";
    EXPECT_EQ(send(life(0).supply.get(), "x", 1, 0), 1);
    turn(broker);
    EXPECT_TRUE(life(0).is_killed);
    EXPECT_FALSE(life(1).is_killed);
  });
}

// --- recordings

TEST_F(BrokerTest, EachProcessOfAnAdapterIsRecordedOnce) {
  options_.recordings = "kept";
  options_.recordings_most = 3;
  with_broker(2, [&](Broker& broker) {
    std::vector<Descriptor> clients;
    const auto open_as = [&](int32_t process, size_t adapter) {
      world_.peer->process = process;
      clients.push_back(connect());
      say(clients.back(), Ask::kOpen, life(adapter).luid);
      turn(broker);
    };
    const auto recorded = [&](size_t adapter) {
      ControlReceived received;
      EXPECT_EQ(receive_control(life(adapter).control.get(), &received), ControlState::kMessage);
      if (received.message.kind != Control::kRecording) return int32_t{0};
      EXPECT_TRUE(static_cast<bool>(received.descriptor));
      EXPECT_TRUE(connection_of(life(adapter)).has_value()) << "the connection comes behind it";
      return received.message.process;
    };
    open_as(7, 0);
    EXPECT_EQ(recorded(0), 7);
    open_as(7, 0);
    EXPECT_EQ(recorded(0), 0) << "another thread of the same process";
    open_as(7, 1);
    EXPECT_EQ(recorded(1), 7) << "another adapter has calls of its own";
    world_.refuses = true;
    open_as(8, 0);
    EXPECT_EQ(recorded(0), 0);
    EXPECT_EQ(world_.lines.back(), "process 8 is not recorded: no file is left");
    world_.refuses = false;
    open_as(9, 0);
    open_as(10, 0);
    EXPECT_EQ(recorded(0), 0) << "there are three";
    EXPECT_EQ(recorded(0), 0);
    EXPECT_THAT(world_.lines.back(), HasSubstr("nor any later one: there are 3 recordings"));
    EXPECT_THAT(world_.recordings, ElementsAre("kept/7-1", "kept/7-2"));
    EXPECT_EQ(broker.connections(), 6U) << "they work without";
  });
}

// --- status

TEST_F(BrokerTest, TheStatusHasAdaptersClientsAndReports) {
  with_broker(2, [&](Broker& broker) {
    const Descriptor client = connect();
    say(client, Ask::kOpen, life(0).luid);
    turn(broker);
    ASSERT_TRUE(connection_of(life(0)).has_value());
    life(1).die("it ended by signal 11");
    turn(broker);
    const auto all = status(broker);
    ASSERT_EQ(all["adapters"].size(), 2U);
    EXPECT_EQ(all["adapters"][0]["state"], "running");
    EXPECT_EQ(all["adapters"][0]["connections"], 1);
    EXPECT_EQ(all["adapters"][0]["figures"]["requests"], 41);
    EXPECT_EQ(all["adapters"][0]["memory_bytes"], 7);
    EXPECT_EQ(all["adapters"][0]["answers"], true);
    EXPECT_EQ(all["adapters"][1]["state"], "starting");
    EXPECT_EQ(all["adapters"][1]["restarts"], 1);
    EXPECT_EQ(all["adapters"][1]["reports"][0]["end"], "it ended by signal 11");
    EXPECT_EQ(all["users"].size(), 1U);
    EXPECT_EQ(all["users"][0]["connections"], 1);
  });
}

/// Quotas are of one adapter, so what counts is what the user has where it has most.
TEST_F(BrokerTest, TheStatusHasWhatAUserHasAndMayHave) {
  options_.limits = {.handles = 10, .memory_bytes = 8192, .submissions = 20};
  with_broker(2, [&](Broker& broker) {
    const Descriptor client = connect();
    say(client, Ask::kOpen, life(0).luid);
    turn(broker);
    ASSERT_TRUE(connection_of(life(0)).has_value());
    const auto all = status(broker);
    ASSERT_EQ(all["users"].size(), 1U) << "those that are connected";
    const auto& user = all["users"][0];
    EXPECT_EQ(user["user"], 500);
    EXPECT_EQ(user["handles"], life(1).luid) << "the second adapter has more";
    EXPECT_EQ(user["memory_bytes"], 4096);
    EXPECT_EQ(user["submissions"], 2);
    EXPECT_EQ(user["refused_calls"], 10) << "of both";
    EXPECT_EQ(all["limits"]["handles"], 10);
    EXPECT_EQ(all["limits"]["memory_bytes"], 8192);
    EXPECT_EQ(all["limits"]["submissions"], 20);
    EXPECT_EQ(all["limits"]["connections"], options_.connections_most);
  });
}

TEST_F(BrokerTest, AUserSeesNothingOfOthers) {
  options_.users = {500, 501};
  with_broker(1, [&](Broker& broker) {
    const Descriptor client = connect();
    say(client, Ask::kOpen, life(0).luid);
    turn(broker);
    ASSERT_TRUE(connection_of(life(0)).has_value());
    world_.peer->user = 501;
    const auto all = status(broker);
    EXPECT_EQ(all["users"].size(), 0U);
    EXPECT_FALSE(all["adapters"][0].contains("reports"));
    EXPECT_FALSE(all["adapters"][0].contains("process"));
    EXPECT_EQ(all["adapters"][0]["connections"], 1);
  });
}

TEST_F(BrokerTest, AnAdapterThatDoesNotAnswerHoldsUpNoStatus) {
  options_.figures_ns = 0;
  with_broker(1, [&](Broker& broker) {
    const Descriptor client = connect();
    say(client, Ask::kStatus);
    turn(broker);
    const std::string all = received(client);
    EXPECT_EQ(status_of(all), STATUS_SUCCESS);
    EXPECT_THAT(all, HasSubstr("\"answers\":false"));
  });
}

}  // namespace
}  // namespace dxgkit::serve
