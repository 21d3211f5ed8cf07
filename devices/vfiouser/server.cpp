#include "devices/vfiouser/server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "devices/vfiouser/device_server.h"
#include "runtime/descriptors.h"
#include "runtime/sync.h"

namespace dxgkit::vfiouser {
namespace {

/// DMA over the second socket, one command at a time.
class CommandSocket final : public DmaMessages {
 public:
  CommandSocket(runtime::Runtime& runtime, Descriptor socket, runtime::DurationNs timeout_ns,
                uint32_t transfer_bytes_max)
      : runtime_(runtime),
        connection_(runtime, std::move(socket), "client"),
        timeout_ns_(timeout_ns),
        transfer_bytes_max_(std::min(transfer_bytes_max, kTransferBytesMost)) {}

  bool dma_read(uint64_t address, std::span<std::byte> out) override {
    while (!out.empty()) {
      const auto part = out.first(std::min<size_t>(out.size(), transfer_bytes_max_));
      const DmaAccess access{.address = address, .count = part.size()};
      const auto reply = call(Command::kDmaRead, encode(access), {});
      if (!reply.has_value()) return false;
      const auto answer = decode_dma_access(reply->payload, Data::kFollow);
      if (!answer.has_value() || *answer != access) return fail();
      std::memcpy(part.data(), reply->payload.data() + DmaAccess::kBytes, part.size());
      out = out.subspan(part.size());
      address += part.size();
    }
    return true;
  }
  bool dma_write(uint64_t address, ByteView in) override {
    while (!in.empty()) {
      const ByteView part = in.first(std::min<size_t>(in.size(), transfer_bytes_max_));
      const DmaAccess access{.address = address, .count = part.size()};
      const auto reply = call(Command::kDmaWrite, encode(access), part);
      if (!reply.has_value()) return false;
      const auto answer = decode_dma_write_reply(reply->payload);
      if (!answer.has_value() || *answer != access) return fail();
      in = in.subspan(part.size());
      address += part.size();
    }
    return true;
  }
  /// For the thread that serves: true when the client has broken the protocol here.
  bool is_broken() const { return broken_.load(std::memory_order_acquire); }
  int fd() const { return connection_.fd(); }
  void shut_down() { connection_.shut_down(); }

 private:
  /// nullopt: refused, or the connection is over.
  std::optional<Message> call(Command command, const Bytes& head, ByteView data) {
    const runtime::MutexLock lock(mutex_);
    if (is_broken()) return std::nullopt;
    const runtime::TimeNs deadline = runtime_.now() + timeout_ns_;
    const Header header{.id = ++next_id_, .command = static_cast<uint16_t>(command)};
    if (!connection_.send(header, {head, data}, {}, deadline)) {
      fail();
      return std::nullopt;
    }
    auto message = connection_.receive(deadline);
    if (!message.has_value() || !message->header.is_reply() || message->header.id != header.id ||
        message->header.command != header.command) {
      fail();
      return std::nullopt;
    }
    if (message->header.failed()) return std::nullopt;
    return std::move(*message);
  }
  bool fail() {
    broken_.store(true, std::memory_order_release);
    connection_.shut_down();  // wakes the thread that serves
    return false;
  }

  runtime::Runtime& runtime_;
  Connection connection_;
  const runtime::DurationNs timeout_ns_;
  const uint32_t transfer_bytes_max_;
  std::atomic<bool> broken_{false};
  runtime::Mutex mutex_;  // held during a command
  uint16_t next_id_ DXGKIT_GUARDED_BY(mutex_) = 0;
};

std::expected<void, Broken> send_reply(Connection& connection, const Message& command,
                                       const Reply& reply, runtime::TimeNs deadline) {
  if ((command.header.flags & Header::kNoReply) != 0) return {};
  Header header{
      .id = command.header.id, .command = command.header.command, .flags = Header::kReply};
  if (reply.error == 0)
    return connection.send(header, {reply.payload}, reply.descriptors, deadline);
  header.flags |= Header::kError;
  header.error = static_cast<uint32_t>(reply.error);
  return connection.send(header, {}, {}, deadline);
}

}  // namespace

std::expected<std::string, std::string> serve_client(runtime::Runtime& runtime,
                                                     const bus::DeviceChoice& model,
                                                     Descriptor socket,
                                                     const ServerOptions& options) {
  // Replaced by what a client is told; made before the client is heard, so that it is ready then.
  std::unique_ptr<CommandSocket> commands;  // outlives the device, which uses it
  auto made = DeviceServer::create(runtime, model);
  if (!made.has_value()) return std::unexpected(made.error());
  const std::unique_ptr<DeviceServer> server = std::move(*made);
  Connection connection(runtime, std::move(socket), "client");
  // The device ends before the socket it uses, and must not wait for a client that is gone.
  struct Cut {
    std::unique_ptr<CommandSocket>& commands;
    ~Cut() {
      if (commands) commands->shut_down();
    }
  } const cut{commands};
  while (true) {
    runtime::DescriptorWait waits[] = {{.fd = connection.fd()},
                                       {.fd = options.stop_fd},
                                       {.fd = commands ? commands->fd() : -1, .input = false}};
    static_cast<void>(runtime::wait_for_descriptors(runtime, waits));
    if (waits[1].ready) return "the server ends";
    if (commands && commands->is_broken())
      return "the client did not answer a command as the protocol wants";
    if (!waits[0].ready) {
      if (waits[2].ended) return "the client closed the socket for commands";
      continue;
    }
    auto message = connection.receive(runtime.now() + options.timeout_ns);
    if (!message.has_value()) return message.error().why;
    if (message->header.is_reply()) return "the client sent a reply to nothing";
    const Reply reply = server->handle(*message);
    if (auto sent = send_reply(connection, *message, reply, runtime.now() + options.timeout_ns);
        !sent)
      return sent.error().why;
    if (reply.closes.has_value()) return "the client broke the protocol: " + *reply.closes;
    if (Descriptor own = server->take_command_socket()) {
      commands = std::make_unique<CommandSocket>(runtime, std::move(own), options.timeout_ns,
                                                 server->client().transfer_bytes_max);
      server->memory().set_messages(commands.get());
    }
  }
}

std::expected<void, std::string> serve_clients(runtime::Runtime& runtime,
                                               const bus::DeviceChoice& model,
                                               const Descriptor& listener,
                                               const ServerOptions& options) {
  while (true) {
    runtime::DescriptorWait waits[] = {{.fd = listener.get()}, {.fd = options.stop_fd}};
    static_cast<void>(runtime::wait_for_descriptors(runtime, waits));
    if (waits[1].ready) return {};
    Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      // Who knocked has left again.
      if (errno == ECONNABORTED || errno == EAGAIN || errno == EINTR) continue;
      return std::unexpected("the socket broke: " + std::generic_category().message(errno));
    }
    if (options.log) options.log("a client has come");
    const auto left = serve_client(runtime, model, std::move(socket), options);
    if (!left.has_value()) return std::unexpected(left.error());
    if (options.log) options.log("the client left: " + *left);
  }
}

}  // namespace dxgkit::vfiouser
