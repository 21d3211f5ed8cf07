// A device whose model is a vfio-user server: --device vfio-user:SOCKET.
#pragma once

#include <memory>

#include "bus/device.h"
#include "devices/vfiouser/connection.h"
#include "devices/vfiouser/facts.h"

namespace dxgkit::vfiouser {

struct RemoteOptions {
  runtime::DurationNs timeout_ns = 5 * runtime::kSecond;  // of an answer
  bool dma_by_message = false;  // the server gets no descriptor of system memory
  MapPolicy map = MapPolicy::kSealed;
  std::optional<IrqKind> irq = std::nullopt;  // nullopt: the first that the server has
};

/// Makes the device of the server at the other end of `socket`, at power-on state if the server can
/// reset it. Real threads only. The error is one sentence without a full stop.
std::expected<std::unique_ptr<bus::Device>, std::string> make_remote_device(
    const bus::DeviceHost& host, Descriptor socket, const RemoteOptions& options);

/// "vfio-user", with the option socket=PATH.
bus::DeviceType device_type();
/// "vfio-user:PATH" for "vfio-user,socket=PATH".
bus::DeviceSpelling spelling();

}  // namespace dxgkit::vfiouser
