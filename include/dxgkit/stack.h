// A machine with devices, and the graphics kernel that runs display drivers on them.
//
//     dxgkit::StackOptions options;
//     auto outcome = dxgkit::Stack::run(options, [](dxgkit::Stack& stack) {
//       auto driver = stack.load("driver.sys");
//       auto adapter = stack.start(**driver, 0);
//       auto client = stack.make_client("client");
//       dxgkit::ClientProcess::Attach attach(*client);
//       ... D3DKMTOpenAdapterFromLuid, D3DKMTCreateDevice ...
//     });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dxgkit/client.h"
#include "dxgkit/device.h"
#include "dxgkit/driver.h"
#include "dxgkit/findings.h"
#include "dxgkit/result.h"
#include "dxgkit/system.h"
#include "dxgkit/trace.h"

namespace dxgkit {

enum class Mode {
  kRealThreads,  // threads of the system and its clock
  kSimulation,   // fibers; one seed decides every interleaving, and time is virtual
};

struct StackOptions {
  Mode mode = Mode::kRealThreads;
  uint64_t seed = 1;  // the same seed gives the same run, in simulation
  /// System memory of the machine in bytes, > 0, rounded up to pages. A page costs memory once it
  /// is touched.
  uint64_t memory_bytes = uint64_t{512} << 20;
  /// As `dxgkit run --device` takes them: "softgpu,vram=64M", "framebuffer", "plugin.so,x=1".
  /// Plugged in in this order. `dxgkit devices` lists names and options.
  std::vector<std::string> devices = {"softgpu"};
  /// Device models of the program itself, by names that `devices` may use, too. A name is not
  /// empty, holds no comma and no slash, does not end with ".so", and is not one of dxgkit's.
  std::vector<DeviceModel> models;
  /// What the driver reads from the registry: the text of a file for --registry (TOML or JSON).
  std::string registry;
  /// Each pool block of the driver on pages of its own: overruns fault where they happen.
  bool special_pool = false;
  /// Record events; StackOutcome::trace has them.
  bool record = false;
  /// Called with each finding when it is made, on the thread that made it. May be empty.
  std::function<void(const Finding&)> on_finding;
};

struct StackOutcome {
  std::vector<Finding> findings;  // in order; repeats of one mistake are one finding
  Trace trace;
};

class Stack {
 public:
  /// Makes the machine, calls `body` on a thread of it, and takes everything down again: clients
  /// end, adapters stop, drivers unload, what a driver leaked is a finding. Blocks meanwhile. An
  /// exception of `body` is thrown again after that.
  ///
  /// The failure is STATUS_INVALID_PARAMETER: an option is wrong, or a device does not fit into the
  /// machine; `body` was not called. Not from inside another stack.
  static Expected<StackOutcome> run(const StackOptions& options,
                                    const std::function<void(Stack&)>& body);

  /// Loads a driver image: a `.sys` file, or its ELF twin. One driver per stack; a second one:
  /// STATUS_NOT_SUPPORTED. STATUS_INVALID_IMAGE_FORMAT: no driver. Else what DriverEntry answered,
  /// or why its table was refused (a finding says it). Nothing stays loaded then.
  Expected<Driver*> load(const std::string& path);
  /// How many functions of the devices a display driver is for.
  size_t slots() const;
  /// Starts an adapter on function `slot`, 0 to slots() - 1. STATUS_INVALID_PARAMETER: there is no
  /// such slot, or it has an adapter. Else why the start failed; findings say more.
  Expected<AdapterId> start(Driver& driver, size_t slot = 0, const AdapterOptions& options = {});
  /// Open handles of clients survive and answer STATUS_DEVICE_REMOVED. STATUS_INVALID_PARAMETER:
  /// it is not running.
  Expected<void> stop(AdapterId adapter);

  /// STATUS_INVALID_PARAMETER: it is not running.
  Expected<AdapterStatistics> statistics(AdapterId adapter) const;
  /// Takes an adapter to a power state, or back to D0 (PWR-01 to PWR-11). Blocks. Success where it
  /// is there already. Failures: those of the kernel, by their NTSTATUS; the adapter is as it was.
  Expected<void> set_power(AdapterId adapter, PowerState state);
  /// Surprise removal of the device in `slot` and of its adapter (LIFE-21).
  Expected<void> remove(size_t slot);

  /// A client process. It may end before the stack does, and must not outlive `body`.
  std::unique_ptr<ClientProcess> make_client(std::string name);
  /// Findings so far.
  std::vector<Finding> findings() const;

  struct Impl;
  explicit Stack(Impl& impl) : impl_(impl) {}
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

 private:
  friend class ClientProcess;
  Impl& impl_;
};

}  // namespace dxgkit
