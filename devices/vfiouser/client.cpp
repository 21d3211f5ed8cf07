#include "devices/vfiouser/client.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "runtime/descriptors.h"

namespace dxgkit::vfiouser {
namespace {

/// "REGION_READ was refused: Invalid argument"
std::string refusal(const Header& header) {
  const auto error = static_cast<int>(header.error);
  return name_of(header.command) + " was refused" +
         (error == 0 ? "" : ": " + std::generic_category().message(error));
}

}  // namespace

Client::Client(runtime::Runtime& runtime, Descriptor socket, runtime::DurationNs timeout_ns,
               MemoryAccess memory, Descriptor bell)
    : runtime_(runtime),
      timeout_ns_(timeout_ns),
      memory_(std::move(memory)),
      bell_(std::move(bell)),
      main_(runtime, std::move(socket), "server") {}

Client::~Client() { stop(); }

std::expected<std::unique_ptr<Client>, std::string> Client::open(runtime::Runtime& runtime,
                                                                 Descriptor socket,
                                                                 runtime::DurationNs timeout_ns,
                                                                 MemoryAccess memory) {
  Descriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) return std::unexpected("there is no event descriptor left");
  std::unique_ptr<Client> client(
      new Client(runtime, std::move(socket), timeout_ns, std::move(memory), std::move(bell)));
  if (auto agreed = client->negotiate(); !agreed) return std::unexpected(agreed.error());
  return client;
}

std::expected<void, std::string> Client::negotiate() {
  Version ours;
  ours.capabilities = {.descriptors_max = kDescriptorsMost,
                       .transfer_bytes_max = kTransferBytesMost,
                       .twin_socket = true,
                       .twin_socket_index = std::nullopt};
  auto reply = call(Command::kVersion, {encode(ours)}, {});
  if (!reply.has_value()) return std::unexpected(reply.error().why);
  const auto theirs = decode_version(reply->payload);
  if (!theirs.has_value()) return std::unexpected("the server sent nonsense: " + theirs.error());
  if (theirs->major != kMajor)
    return std::unexpected("the server speaks version " + std::to_string(theirs->major) + "." +
                           std::to_string(theirs->minor) + " of vfio-user; this tool speaks 0.1");
  server_ = theirs->capabilities;
  if (!server_.twin_socket) return {};
  const uint32_t index = server_.twin_socket_index.value_or(UINT32_MAX);
  if (index >= reply->descriptors.size())
    return std::unexpected("the server announced a second socket, and sent none");
  twin_ = std::make_unique<Connection>(runtime_, std::move(reply->descriptors[index]), "server");
  return {};
}

std::string Client::reason() {
  const runtime::MutexLock lock(reason_mutex_);
  return reason_;
}

CallError Client::end(const std::string& why) {
  {
    const runtime::MutexLock lock(reason_mutex_);
    if (reason_.empty()) reason_ = why;  // the first reason is the cause of the others
  }
  over_.store(true, std::memory_order_release);
  main_.shut_down();
  if (twin_) twin_->shut_down();
  ring();
  return {.refused = 0, .why = reason()};
}

void Client::reject(const std::string& why) { static_cast<void>(end(why)); }

void Client::ring() {
  const uint64_t one = 1;
  static_cast<void>(!write(bell_.get(), &one, sizeof(one)));
}

void Client::stop() {
  stopped_.store(true, std::memory_order_release);
  static_cast<void>(end("the client has closed the connection"));
}

std::expected<Message, CallError> Client::call(Command command,
                                               std::initializer_list<ByteView> parts,
                                               std::span<const int> descriptors) {
  const runtime::MutexLock lock(call_mutex_);
  if (is_over()) return std::unexpected(CallError{.refused = 0, .why = reason()});
  const runtime::TimeNs deadline = runtime_.now() + timeout_ns_;
  const Header header{.id = ++next_id_, .command = static_cast<uint16_t>(command)};
  if (auto sent = main_.send(header, parts, descriptors, deadline); !sent)
    return std::unexpected(end(sent.error().why));
  while (true) {
    // The answer is never there yet, so that trying to read it first would be a call for nothing.
    runtime::DescriptorWait wait{.fd = main_.fd()};
    static_cast<void>(runtime::wait_for_descriptors(runtime_, {&wait, 1}, deadline));
    auto message = main_.receive(deadline);
    if (!message.has_value()) return std::unexpected(end(message.error().why));
    if (!message->header.is_reply()) {
      if (auto answered = answer(main_, *message); !answered)
        return std::unexpected(end(answered.error().why));
      // Otherwise a server could keep us here with commands.
      if (runtime_.now() > deadline)
        return std::unexpected(end("the server did not answer in time"));
      continue;
    }
    if (message->header.id != header.id || message->header.command != header.command)
      return std::unexpected(end("the server answered a command that it was not sent"));
    if (!message->header.failed()) return std::move(*message);
    const int error = message->header.error == 0 ? EIO : static_cast<int>(message->header.error);
    return std::unexpected(
        CallError{.refused = error, .why = "the server says: " + refusal(message->header)});
  }
}

// --- commands of the server

std::expected<void, Broken> Client::answer(Connection& connection, const Message& command) {
  const runtime::TimeNs deadline = runtime_.now() + timeout_ns_;
  const uint16_t kind = command.header.command;
  Header reply{.id = command.header.id, .command = kind, .flags = Header::kReply};
  const auto refuse = [&](int error) {
    reply.flags |= Header::kError;
    reply.error = static_cast<uint32_t>(error);
  };
  Bytes head, data;
  if (kind == static_cast<uint16_t>(Command::kDmaRead)) {
    const auto access = decode_dma_access(command.payload, Data::kAbsent);
    if (!access.has_value())
      return std::unexpected(Broken{.why = "the server sent nonsense: " + access.error()});
    data.resize(access->count);
    if (memory_.read(access->address, data)) {
      head = encode(*access);
    } else {
      data.clear();
      refuse(EFAULT);
    }
  } else if (kind == static_cast<uint16_t>(Command::kDmaWrite)) {
    const auto access = decode_dma_access(command.payload, Data::kFollow);
    if (!access.has_value())
      return std::unexpected(Broken{.why = "the server sent nonsense: " + access.error()});
    if (memory_.write(access->address, ByteView(command.payload).subspan(DmaAccess::kBytes))) {
      head = encode(*access);
    } else {
      refuse(EFAULT);
    }
  } else {
    refuse(ENOTSUP);
  }
  if ((command.header.flags & Header::kNoReply) != 0) return {};
  return connection.send(reply, {head, data}, {}, deadline);
}

void Client::take_command() {
  const runtime::MutexLock lock(call_mutex_);
  // A call may have taken it meanwhile.
  runtime::DescriptorWait wait{.fd = main_.fd()};
  if (is_over() || !runtime::wait_for_descriptors(runtime_, {&wait, 1}, runtime_.now())) return;
  auto message = main_.receive(runtime_.now() + timeout_ns_);
  if (!message.has_value()) {
    static_cast<void>(end(message.error().why));
  } else if (message->header.is_reply()) {
    static_cast<void>(end("the server answered a command that it was not sent"));
  } else if (auto answered = answer(main_, *message); !answered) {
    static_cast<void>(end(answered.error().why));
  }
}

std::optional<std::string> Client::serve() {
  while (!is_over()) {
    // With a second socket the replies on the main one are no business of this thread.
    runtime::DescriptorWait waits[] = {{.fd = main_.fd(), .input = twin_ == nullptr},
                                       {.fd = twin_ ? twin_->fd() : -1},
                                       {.fd = bell_.get()}};
    static_cast<void>(runtime::wait_for_descriptors(runtime_, waits));
    if (is_over()) break;
    if (waits[1].ready) {
      auto message = twin_->receive(runtime_.now() + timeout_ns_);
      if (!message.has_value()) {
        static_cast<void>(end(message.error().why));
      } else if (message->header.is_reply()) {
        static_cast<void>(end("the server answered on the socket for commands"));
      } else if (auto answered = answer(*twin_, *message); !answered) {
        static_cast<void>(end(answered.error().why));
      }
    } else if (waits[0].ended && twin_) {
      static_cast<void>(end("the server closed the connection"));
    } else if (waits[0].ready) {
      take_command();
    }
  }
  if (stopped_.load(std::memory_order_acquire)) return std::nullopt;
  return reason();
}

}  // namespace dxgkit::vfiouser
