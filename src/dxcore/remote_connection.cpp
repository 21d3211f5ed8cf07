#include "dxcore/remote_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace dxgkit::dxcore {

using wire::AdapterLine;
using wire::ClientConnection;
using wire::UniqueFd;

/// The socket of a connection. Records are reused, never freed.
struct SocketRecord {
  std::atomic<int> socket{-1};
  std::atomic<bool> taken{true};
  SocketRecord* next = nullptr;
};

namespace {

std::atomic<SocketRecord*> g_sockets{nullptr};

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

/// A connection to the broker.
std::expected<UniqueFd, std::string> connect_to_broker(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty()) return std::unexpected("neither DXGKIT_SOCKET nor XDG_RUNTIME_DIR is set");
  if (path.size() >= sizeof address.sun_path)
    return std::unexpected(fmt::format("{}: the path is too long for a socket", path));
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return std::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
  return fd;
}

}  // namespace

std::expected<std::vector<AdapterLine>, std::string> list_adapters() {
  const std::string path = socket_path();
  const auto broker = connect_to_broker(path);
  if (!broker.has_value()) return std::unexpected(broker.error());
  std::string lines;
  if (!ask(broker->get(), {}, &lines))
    return std::unexpected(fmt::format("{}: the server does not answer", path));
  std::vector<AdapterLine> adapters(lines.size() / sizeof(AdapterLine));
  if (adapters.empty()) return std::unexpected(fmt::format("{}: the server has no adapter", path));
  std::memcpy(adapters.data(), lines.data(), adapters.size() * sizeof(AdapterLine));
  return adapters;
}

std::expected<UniqueFd, std::string> open_adapter(const AdapterLine& adapter) {
  const std::string path = socket_path();
  auto socket = connect_to_broker(path);
  if (!socket.has_value()) return socket;
  std::string rest;
  if (!ask(socket->get(),
           {.ask = wire::Ask::kOpen, .luid_low = adapter.luid_low, .luid_high = adapter.luid_high},
           &rest))
    return std::unexpected(fmt::format("{}: the server refuses the connection", path));
  return socket;
}

Connected::Connected(ClientConnection connection)
    : connection_(new ClientConnection(std::move(connection))),
      record_(record_of(connection_->socket())) {}

Connected::~Connected() {
  const bool ours = record_.socket.exchange(-1) >= 0;
  record_.taken.store(false);
  if (ours) delete connection_;
}

void close_connections_of_parent() {
  for (SocketRecord* one = g_sockets.load(); one != nullptr; one = one->next) {
    const int socket = one->socket.exchange(-1);
    if (socket >= 0) close(socket);
  }
}

}  // namespace dxgkit::dxcore
