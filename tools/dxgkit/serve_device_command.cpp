// dxgkit serve-device.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "devices/vfiouser/device_server.h"
#include "devices/vfiouser/server.h"
#include "runtime/interrupt.h"
#include "tools/dxgkit/commands.h"

namespace dxgkit::tool {
namespace {

/// Serves until the user wants an end. The error is one sentence.
std::expected<void, std::string> serve(runtime::Runtime& runtime, const DeviceChoice& model,
                                       const std::string& socket) {
  // Before anybody waits for it: a model that cannot be made says so at once.
  if (auto tried = vfiouser::DeviceServer::create(runtime, model); !tried.has_value())
    return std::unexpected(tried.error());
  const auto listener = vfiouser::listen_at(socket);
  if (!listener.has_value()) return std::unexpected(listener.error());
  const auto say = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  say(fmt::format("serving {} at {}", model.text, socket));
  vfiouser::ServerOptions options;
  options.stop_fd = runtime::interrupt_fd();
  options.log = say;
  auto served = vfiouser::serve_clients(runtime, model, *listener, options);
  unlink(socket.c_str());
  return served;
}

}  // namespace

int serve_device_command(const std::string& model, const std::string& socket) {
  runtime::catch_interrupts();
  const auto choice = parse_device(model);
  if (!choice.has_value()) return bad_input(choice.error());
  if (!choice->type->simulated && !choice->type->is_plugin)
    return bad_input(fmt::format("{}: another process serves it already", model));
  const auto runtime = runtime::make_os_runtime(1);
  std::expected<void, std::string> served;
  runtime->run_main([&] { served = serve(*runtime, *choice, socket); });
  return served.has_value() ? kExitDone : bad_input(served.error());
}

}  // namespace dxgkit::tool
