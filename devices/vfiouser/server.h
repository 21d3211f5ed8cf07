// Serves a device model to one client after the other: `dxgkit serve-device`.
#pragma once

#include <functional>
#include <string>

#include "bus/device.h"
#include "devices/vfiouser/connection.h"

namespace dxgkit::vfiouser {

struct ServerOptions {
  /// How long the client may take to end a message that it has begun, to take a reply, and to
  /// answer a command.
  runtime::DurationNs timeout_ns = 5 * runtime::kSecond;
  /// Readable when the server is to end; -1: it never does.
  int stop_fd = -1;
  /// Told of each client, and why it left: one line. May be empty.
  std::function<void(const std::string& line)> log;
};

/// Serves one client until it leaves or `stop_fd` is readable. The model is made for it, at
/// power-on state, and ends with it. Returns why the client left, one sentence without a full stop;
/// an error if the model cannot be made. Real threads only.
std::expected<std::string, std::string> serve_client(runtime::Runtime& runtime,
                                                     const bus::DeviceChoice& model,
                                                     Descriptor socket,
                                                     const ServerOptions& options);

/// Serves every client that comes to `listener`, one at a time; the others wait. Returns when
/// `stop_fd` is readable. The error: the model cannot be made, or the socket broke.
std::expected<void, std::string> serve_clients(runtime::Runtime& runtime,
                                               const bus::DeviceChoice& model,
                                               const Descriptor& listener,
                                               const ServerOptions& options);

}  // namespace dxgkit::vfiouser
