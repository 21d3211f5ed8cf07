// A device model behind the protocol: what a server answers to each message of one client.
#pragma once

#include <array>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bus/device.h"
#include "bus/machine.h"
#include "devices/vfiouser/client_memory.h"
#include "runtime/sync.h"

namespace dxgkit::vfiouser {

/// The eventfd that takes a device's INTx to the client. Any thread.
class IrqOutput {
 public:
  /// Writes the eventfd; while masked it notes that.
  void trigger();
  /// None: interrupts go nowhere.
  void assign(Descriptor eventfd);
  void mask(bool masked);

 private:
  void signal() DXGKIT_REQUIRES(mutex_);
  runtime::Mutex mutex_;  // leaf
  Descriptor eventfd_ DXGKIT_GUARDED_BY(mutex_);
  bool masked_ DXGKIT_GUARDED_BY(mutex_) = false, pending_ DXGKIT_GUARDED_BY(mutex_) = false;
};

/// What a server sends back.
struct Reply {
  int error = 0;  // errno; then nothing else is sent
  Bytes payload;
  std::vector<int> descriptors;  // the server's own
  /// The second socket's end that the client gets; kept until the reply is sent.
  Descriptor owned;
  /// The connection is to be closed after the reply, for this reason.
  std::optional<std::string> closes;
};

/// One device made for one client. handle() is called by one thread; the device has threads of its
/// own.
class DeviceServer {
 public:
  /// Makes the model, in a machine whose memory is the client's. The error is one sentence without
  /// a full stop: it cannot be made, or has several functions, which the protocol does not know.
  static std::expected<std::unique_ptr<DeviceServer>, std::string> create(
      runtime::Runtime& runtime, const bus::DeviceChoice& model);
  ~DeviceServer();
  DeviceServer(const DeviceServer&) = delete;
  DeviceServer& operator=(const DeviceServer&) = delete;

  /// The answer to a command; descriptors of `message` that it keeps are taken out of it. Before
  /// the handshake every other command closes the connection.
  Reply handle(Message& message);
  /// Our end of the second socket, once, after the handshake with a client that takes one; none
  /// otherwise.
  Descriptor take_command_socket() { return std::move(command_socket_); }
  /// What the client can do; valid after the handshake.
  const Capabilities& client() const { return client_; }
  ClientMemory& memory() { return memory_; }

 private:
  /// A memory BAR, mapped here for accesses by message.
  struct View {
    std::byte* bytes = nullptr;
    uint64_t size = 0;
  };
  DeviceServer() : machine_(memory_) {}

  Reply negotiate(const Message& message);
  Reply get_info(const Message& message) const;
  Reply get_region_info(const Message& message) const;
  Reply get_irq_info(const Message& message) const;
  Reply set_irqs(Message& message);
  Reply read_region(const Message& message);
  Reply write_region(const Message& message);
  Reply map_dma(Message& message);
  Reply unmap_dma(const Message& message);

  ClientMemory memory_;  // outlives the device, and so does the machine
  bus::Machine machine_;
  IrqOutput irq_;
  std::unique_ptr<bus::Device> device_;
  bus::PciFunction* function_ = nullptr;
  std::array<View, kRegionBars> views_{};
  Capabilities client_;
  bool negotiated_ = false;
  Descriptor command_socket_;
};

}  // namespace dxgkit::vfiouser
