// host.h for a program whose kernel is in a process of its own: each thread has a connection to the
// server, and all connections of the program are one client process there.
#include <fmt/format.h>
#include <ntstatus.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "dxcore/host.h"
#include "runtime/host_thread.h"
#include "wire/client_connection.h"
#include "wire/greeting.h"
#include "wire/remote_call.h"

namespace dxgkit::dxcore {
namespace {

using wire::ClientConnection;
using wire::UniqueFd;

/// The sockets of this program's threads. A forked child closes those of its parent, so that the
/// server sees the parent's end. Records are reused, never freed.
struct SocketRecord {
  std::atomic<int> socket{-1};
  std::atomic<bool> taken{true};
  SocketRecord* next = nullptr;
};
std::atomic<SocketRecord*> g_sockets{nullptr};

/// A connection with its record.
class Connected {
 public:
  explicit Connected(ClientConnection connection);
  /// Closes it, unless a fork has done that: its number may belong to something else by now.
  ~Connected();
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;
  ClientConnection& connection() { return *connection_; }

 private:
  ClientConnection* connection_;
  SocketRecord& record_;
};

SocketRecord& record_of(int socket) {
  SocketRecord* one = g_sockets.load();
  while (one != nullptr && one->taken.exchange(true)) one = one->next;
  if (one == nullptr) {
    one = new SocketRecord;
    one->next = g_sockets.load();
    while (!g_sockets.compare_exchange_weak(one->next, one)) {
    }
  }
  one->socket.store(socket);
  return *one;
}

Connected::Connected(ClientConnection connection)
    : connection_(new ClientConnection(std::move(connection))),
      record_(record_of(connection_->socket())) {}

Connected::~Connected() {
  const bool ours = record_.socket.exchange(-1) >= 0;
  record_.taken.store(false);
  if (ours) delete connection_;
}

/// Our client process at the server.
class Remote {
 public:
  static Remote& of_this_process();
  static Remote* current() { return current_.load(); }

  uint64_t number() const { return number_; }
  /// Whether the server took the first connection.
  bool connected() const { return connected_; }
  bool lost() const { return lost_.load(); }
  void lose() { lost_.store(true); }
  /// A connection for one thread.
  std::expected<ClientConnection, std::string> connect() const;
  wire::KernelMemory& memory() { return memory_; }
  /// Takes the place of one whose server is gone.
  static void replace(Remote& old);

 private:
  void begin();

  static std::atomic<Remote*> current_;
  static std::atomic<uint64_t> remotes_;

  const uint64_t number_ = ++remotes_;
  runtime::HostFlag begun_;
  bool connected_ = false;
  wire::Token token_{};
  std::unique_ptr<Connected> first_;  // keeps the client process while no thread has a connection
  std::atomic<bool> lost_{false};
  wire::KernelMemory memory_{wire::KernelMemory::Pages::kExchange};
};

std::atomic<Remote*> Remote::current_{nullptr};
std::atomic<uint64_t> Remote::remotes_{0};

std::string socket_path() {
  if (const char* const path = std::getenv("DXGKIT_SOCKET"); path != nullptr) return path;
  const char* const folder = std::getenv("XDG_RUNTIME_DIR");
  return folder == nullptr ? std::string() : std::string(folder) + "/dxgkit.sock";
}

bool send_whole(int socket, const void* from, size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes != 0) {
    const ssize_t some = send(socket, at, bytes, MSG_NOSIGNAL);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return false;
    at += some;
    bytes -= static_cast<size_t>(some);
  }
  return true;
}

bool receive_whole(int socket, void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes != 0) {
    const ssize_t some = recv(socket, at, bytes, 0);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return false;
    at += some;
    bytes -= static_cast<size_t>(some);
  }
  return true;
}

/// Asks the broker. False: it refuses, or it is no broker.
bool ask(int socket, const wire::Greeting& greeting, std::string* rest) {
  wire::Greeted answer;
  constexpr uint32_t kMost = 64 << 10;
  if (!send_whole(socket, &greeting, sizeof greeting) ||
      !receive_whole(socket, &answer, sizeof answer))
    return false;
  if (answer.magic != wire::kGreetingMagic || answer.status < 0 || answer.bytes > kMost)
    return false;
  rest->resize(answer.bytes);
  return receive_whole(socket, rest->data(), rest->size());
}

std::expected<UniqueFd, std::string> open_adapter(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty()) return std::unexpected("neither DXGKIT_SOCKET nor XDG_RUNTIME_DIR is set");
  if (path.size() >= sizeof address.sun_path)
    return std::unexpected(fmt::format("{}: the path is too long for a socket", path));
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return std::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
  std::string lines;
  if (!ask(fd.get(), {}, &lines))
    return std::unexpected(fmt::format("{}: the server does not answer", path));
  wire::AdapterLine first;
  if (lines.size() < sizeof first)
    return std::unexpected(fmt::format("{}: the server has no adapter", path));
  std::memcpy(&first, lines.data(), sizeof first);
  if (!ask(fd.get(),
           {.ask = wire::Ask::kOpen, .luid_low = first.luid_low, .luid_high = first.luid_high},
           &lines))
    return std::unexpected(fmt::format("{}: the server refuses the connection", path));
  return fd;
}

void in_child() {
  for (SocketRecord* one = g_sockets.load(); one != nullptr; one = one->next) {
    const int socket = one->socket.exchange(-1);
    if (socket >= 0) close(socket);
  }
}

Remote& Remote::of_this_process() {
  Remote* remote = current_.load();
  if (remote == nullptr) {
    auto* const mine = new Remote;  // lives as long as the process, which may call at any time
    if (current_.compare_exchange_strong(remote, mine)) {
      mine->begin();
      return *mine;
    }
    delete mine;
  }
  remote->begun_.wait();
  return *remote;
}

void Remote::replace(Remote& old) {
  Remote* expected = &old;
  // The old one stays: other threads may be inside.
  current_.compare_exchange_strong(expected, nullptr);
}

std::expected<ClientConnection, std::string> Remote::connect() const {
  auto socket = open_adapter(socket_path());
  if (!socket.has_value()) return std::unexpected(socket.error());
  return ClientConnection::greet(std::move(*socket),
                                 {.token = token_, .name = program_invocation_short_name});
}

void Remote::begin() {
  static std::atomic<bool> registered{false};
  if (!registered.exchange(true)) {
    // The parent's connections are none of the child's.
    runtime::when_forked([] {
      current_.store(nullptr);
      in_child();
    });
  }
  // The connection gives the process its token. This thread makes its own one afterwards.
  auto first = connect();
  if (first.has_value()) {
    token_ = first->token();
    connected_ = true;
    first_ = std::make_unique<Connected>(std::move(*first));
  } else {
    const std::string line = fmt::format("dxgkit: no server: {}\n", first.error());
    static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
  }
  begun_.set();
}

/// What a thread has.
struct Mine {
  Remote* remote = nullptr;
  std::unique_ptr<Connected> connected;
};
thread_local Mine t_mine;

/// The thread's connection. Null: the server is gone, or takes no more.
ClientConnection* connection_of_this_thread(Remote& remote) {
  if (t_mine.remote != &remote) {
    t_mine.connected.reset();
    t_mine.remote = &remote;
  }
  if (t_mine.connected == nullptr && remote.connected() && !remote.lost()) {
    auto made = remote.connect();
    if (made.has_value()) t_mine.connected = std::make_unique<Connected>(std::move(*made));
  }
  return t_mine.connected == nullptr ? nullptr : &t_mine.connected->connection();
}

/// Calls with which a program looks for adapters, as after the arrival of a new one.
bool looks_for_adapters(uint32_t function) {
  const std::string_view name = wire::functions()[function].name;
  return name == "D3DKMTOpenAdapterFromLuid" || name.starts_with("D3DKMTEnumAdapters");
}

}  // namespace

struct ThreadRecord {};

Call::Call() {
  const Remote& remote = Remote::of_this_process();
  if (!remote.connected()) refusal_ = STATUS_NOT_SUPPORTED;
}

Call::~Call() = default;

uint64_t Call::kernel() const { return Remote::of_this_process().number(); }

}  // namespace dxgkit::dxcore

namespace dxgkit::wire {

int64_t remote_call(uint32_t function, void* arguments) {
  using dxcore::Remote;
  Remote* remote = &Remote::of_this_process();
  // Handles of a server that is gone mean nothing to its successor.
  if (remote->lost() && dxcore::looks_for_adapters(function)) {
    Remote::replace(*remote);
    remote = &Remote::of_this_process();
  }
  ClientConnection* const connection = dxcore::connection_of_this_thread(*remote);
  if (connection == nullptr) return NTSTATUS{STATUS_DEVICE_REMOVED};
  const int64_t result = connection->call(remote->memory(), function, arguments);
  if (connection->is_lost()) remote->lose();
  return result;
}

}  // namespace dxgkit::wire
