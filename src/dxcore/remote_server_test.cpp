#include "dxcore/remote_server_test.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <list>
#include <memory>
#include <vector>

#include "base/check.h"
#include "dxgk/core/process.h"
#include "dxgkit/driver.h"
#include "dxgkit/stack.h"
#include "runtime/host_thread.h"
#include "wire/channel.h"
#include "wire/greeting.h"
#include "wire/hello.h"
#include "wire/mailbox.h"
#include "wire/server_session.h"

namespace dxgkit::dxcore {
namespace {

using wire::UniqueFd;

template <typename T>
bool read_whole(int fd, T* value) {
  return recv(fd, value, sizeof *value, MSG_WAITALL) == static_cast<ssize_t>(sizeof *value);
}
void write_whole(int fd, const void* bytes, size_t count) {
  static_cast<void>(!send(fd, bytes, count, MSG_NOSIGNAL));
}

class Server {
 public:
  Server(Stack& stack, int listener, int control, bool with_mailbox)
      : stack_(stack), listener_(listener), control_(control), with_mailbox_(with_mailbox) {}

  /// Until the control pipe is closed and the last client has left. Returns how many there were.
  size_t run() {
    bool asked_to_end = false;
    while (!asked_to_end || !connections_.empty()) {
      std::vector<pollfd> watched = {{listener_, POLLIN, 0}, {control_, POLLIN, 0}};
      if (asked_to_end) watched[1].fd = -1;
      for (const auto& one : connections_)
        watched.push_back({one->hung_up ? -1 : one->socket.get(), POLLRDHUP, 0});
      const int wait_ms = connections_.empty() ? -1 : 5;  // threads end without saying so
      static_cast<void>(poll(watched.data(), watched.size(), wait_ms));
      if (watched[1].revents != 0) asked_to_end = true;
      size_t i = 2;
      for (auto it = connections_.begin(); it != connections_.end() && i < watched.size(); ++i) {
        Connection& one = **it;
        if (watched[i].revents != 0) {
          one.hung_up = true;
          end_if_gone(one.client);
        }
        if (one.done.is_set()) {
          one.thread->join();
          const std::shared_ptr<Client> client = one.client;
          it = connections_.erase(it);
          end_if_gone(client);
        } else {
          ++it;
        }
      }
      if ((watched[0].revents & POLLIN) != 0) take();
    }
    return clients_.size();
  }

 private:
  struct Client {
    std::unique_ptr<ClientProcess> process;
    std::shared_ptr<wire::Windows> windows;
    wire::Token token{};
  };
  struct Connection {
    UniqueFd socket;
    wire::Mailbox mailbox;
    std::shared_ptr<Client> client;
    std::unique_ptr<runtime::HostThread> thread;
    runtime::HostFlag attached;  // to the client process, which must not have ended
    runtime::HostFlag done;
    bool hung_up = false;
  };

  /// Greeting and hello come at once from clients of ours.
  void take() {
    auto one = std::make_unique<Connection>();
    one->socket = UniqueFd(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
    const int fd = one->socket.get();
    wire::Greeting greeting;
    const wire::AdapterLine line{.luid_low = 1, .luid_high = 0};
    if (!read_whole(fd, &greeting)) return;
    if (greeting.ask == wire::Ask::kAdapters) {
      const wire::Greeted adapters{.bytes = sizeof line};
      write_whole(fd, &adapters, sizeof adapters);
      write_whole(fd, &line, sizeof line);
      return;
    }
    if (greeting.ask != wire::Ask::kOpen) return;
    const wire::Greeted open;
    write_whole(fd, &open, sizeof open);
    wire::Frame frame;
    if (wire::receive_frame(fd, &frame) != wire::Received::kFrame) return;
    const auto hello = wire::decode_hello(frame.bytes);
    if (!hello.has_value()) return;
    if (hello->token == wire::Token{}) {
      one->client = std::make_shared<Client>();
      one->client->process = stack_.make_client(hello->name);
      {
        const ClientProcess::Attach attach(*one->client->process);
        dxgk::Process& process = *dxgk::Process::current();
        one->client->windows = wire::make_windows(process.system(), process);
      }
      one->client->token[0] = static_cast<std::byte>(clients_.size() + 1);
      clients_.push_back(one->client);
    } else {
      const size_t number = static_cast<size_t>(hello->token[0]);
      if (number == 0 || number > clients_.size()) return;
      one->client = clients_[number - 1];
    }
    std::vector<UniqueFd> memory;
    if (with_mailbox_) {
      one->mailbox = wire::Mailbox::make(&memory.emplace_back());
      DXGKIT_CHECK(one->mailbox);
    }
    if (!wire::send_frame(fd, wire::encode(wire::Welcome{.token = one->client->token}),
                          std::span<const UniqueFd>(memory)))
      return;
    Connection& kept = *connections_.emplace_back(std::move(one));
    kept.thread = std::make_unique<runtime::HostThread>("serves", [&kept] {
      serve(kept);
      kept.done.set();
    });
  }

  static void serve(Connection& connection) {
    const ClientProcess::Attach attach(*connection.client->process);
    dxgk::Process& process = *dxgk::Process::current();
    connection.attached.set();
    wire::ServerSession session(process.system(), process, connection.client->windows);
    wire::Frame frame;
    const int fd = connection.socket.get();
    wire::Mailbox& mailbox = connection.mailbox;
    while (mailbox.receive(fd, &frame) == wire::Received::kFrame) {
      const wire::Reply reply = session.handle(frame.bytes, std::move(frame.descriptors));
      if (!reply.refusal.empty()) {
        std::fprintf(stderr, "refused: %s\n", reply.refusal.c_str());
        return;
      }
      if (!mailbox.send(fd, reply.bytes, std::span<const UniqueFd>(reply.descriptors))) return;
    }
  }

  /// All its connections have hung up: calls that still run come back.
  void end_if_gone(const std::shared_ptr<Client>& client) {
    for (const auto& one : connections_) {
      if (one->client != client) continue;
      one->attached.wait();
      if (!one->hung_up && !one->done.is_set()) return;
    }
    client->process->end();
  }

  Stack& stack_;
  const int listener_, control_;
  const bool with_mailbox_;
  std::list<std::unique_ptr<Connection>> connections_;
  std::vector<std::shared_ptr<Client>> clients_;
};

/// The whole life of the server's process.
int serve(const std::string& driver, const std::string& registry, bool with_mailbox, int listener,
          int control, int report) {
  StackOptions options;
  options.registry = registry;
  std::string findings;
  options.on_finding = [&](const Finding& finding) { findings += finding.text + "\n"; };
  size_t clients = 0;
  const auto outcome = Stack::run(options, [&](Stack& stack) {
    const auto loaded = stack.load(bundled_driver(driver).value());
    DXGKIT_CHECK(loaded.has_value());
    DXGKIT_CHECK(stack.start(**loaded).has_value());
    static_cast<void>(!write(report, "R", 1));
    // A thread of the runtime must not wait for sockets as the runtime counts: it is the main one.
    clients = Server(stack, listener, control, with_mailbox).run();
  });
  const bool clean = outcome.has_value() && outcome->findings.empty();
  const std::string text = std::to_string(clients) + (clean ? " clean\n" : " found\n") + findings;
  static_cast<void>(!write(report, text.data(), text.size()));
  return 0;
}

}  // namespace

TestServer::TestServer(const std::string& socket_path, const std::string& driver,
                       const std::string& registry, bool with_mailbox) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  DXGKIT_CHECK(socket_path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  DXGKIT_CHECK(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  DXGKIT_CHECK(listen(listener, 64) == 0);
  int control[2], report[2];
  DXGKIT_CHECK(pipe2(control, O_CLOEXEC) == 0 && pipe2(report, O_CLOEXEC) == 0);
  child_ = fork();
  if (child_ == 0) {
    close(control[1]);
    close(report[0]);
    _exit(serve(driver, registry, with_mailbox, listener, control[0], report[1]));
  }
  close(listener);
  close(control[0]);
  close(report[1]);
  control_ = control[1];
  report_ = report[0];
  char ready = 0;
  DXGKIT_CHECK(read(report_, &ready, 1) == 1 && ready == 'R');
}

ServerEnd TestServer::end() {
  close(std::exchange(control_, -1));
  std::string text;
  char some[512];
  for (ssize_t got = 0; (got = read(report_, some, sizeof some)) > 0;)
    text.append(some, static_cast<size_t>(got));
  int status = 0;
  DXGKIT_CHECK(waitpid(std::exchange(child_, -1), &status, 0) >= 0);
  ServerEnd end;
  end.clean = WIFEXITED(status) && WEXITSTATUS(status) == 0 && text.contains(" clean\n");
  if (!text.empty()) end.clients = std::stoul(text);
  end.findings = text;
  return end;
}

void TestServer::kill() {
  ::kill(child_, SIGKILL);
  int status = 0;
  DXGKIT_CHECK(waitpid(std::exchange(child_, -1), &status, 0) >= 0);
}

TestServer::~TestServer() {
  if (child_ >= 0) kill();
  if (control_ >= 0) close(control_);
  close(report_);
}

}  // namespace dxgkit::dxcore
