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
  uint64_t seed = 1;  // in simulation the same seed gives the same run
  /// System memory of the machine in bytes, > 0, rounded up to pages. A page costs host memory only
  /// once it is touched.
  uint64_t memory_bytes = uint64_t{512} << 20;
  /// The devices of the machine, in the order in which they are plugged in. Each is written as for
  /// `dxgkit run --device`: "softgpu,vram=64M", "framebuffer", "plugin.so,x=1". `dxgkit devices`
  /// lists names and options.
  std::vector<std::string> devices = {"softgpu"};
  /// Device models of the program itself, by names that `devices` may use, too. A name is not
  /// empty, holds no comma and no slash, does not end with ".so", and is not one of dxgkit's.
  std::vector<DeviceModel> models;
  /// The registry that the driver reads, as text in TOML or JSON (docs/registry.md).
  std::string registry;
  /// Puts each pool block of the driver on pages of its own, so that an overrun faults where it
  /// happens.
  bool special_pool = false;
  /// Records events for StackOutcome::trace.
  bool record = false;
  /// Called for each finding at once, on the thread that made the finding. May be empty.
  std::function<void(const Finding&)> on_finding;
  /// Called when a device leaves the machine by itself, as one can that is another process
  /// ("vfio-user:SOCKET"): its position in `devices`, and why, in one sentence. On a thread of the
  /// device, while `body` runs. The device does not answer any more. Stack::remove, on a thread of
  /// yours, tells kernel and driver. May be empty.
  std::function<void(size_t device, const std::string& why)> on_device_lost;
};

struct StackOutcome {
  std::vector<Finding> findings;  // in order; a repeated mistake is listed once
  Trace trace;
};

class Stack {
 public:
  /// Makes the machine, calls `body` on a thread of the machine, and takes everything down again.
  /// At the end clients exit, adapters stop and the driver unloads. Everything that the driver
  /// leaked becomes a finding. Blocks until all of that is done. An exception from `body` is thrown
  /// again after that.
  ///
  /// Fails with STATUS_INVALID_PARAMETER, without calling `body`, if an option is wrong, if a
  /// device does not fit into the machine, or if the caller is inside another stack.
  static Expected<StackOutcome> run(const StackOptions& options,
                                    const std::function<void(Stack&)>& body);

  /// Loads a driver image: a `.sys` file, or its ELF twin. If loading fails, nothing stays loaded.
  /// STATUS_NOT_SUPPORTED: the stack has a driver already.
  /// STATUS_INVALID_IMAGE_FORMAT: the file is not a driver.
  /// Any other status comes from DriverEntry, or says why the kernel refused the driver's table of
  /// functions; a finding explains the refusal.
  Expected<Driver*> load(const std::string& path);
  /// The number of PCI functions that a display driver can drive. Each is a slot.
  size_t slots() const;
  /// Starts an adapter on slot `slot`, 0 to slots() - 1.
  /// STATUS_INVALID_PARAMETER: there is no such slot, the slot has an adapter, the driver belongs
  /// to another stack, or AdapterOptions::tdr_delay_ns is not positive. Any other status says why
  /// the start failed; findings say more.
  Expected<AdapterId> start(Driver& driver, size_t slot = 0, const AdapterOptions& options = {});
  /// Stops an adapter. Clients keep their open handles; calls with them answer
  /// STATUS_DEVICE_REMOVED. STATUS_INVALID_PARAMETER: the adapter is not running.
  Expected<void> stop(AdapterId adapter);

  /// STATUS_INVALID_PARAMETER: the adapter is not running.
  Expected<AdapterStatistics> statistics(AdapterId adapter) const;
  /// Takes an adapter to a power state, or back to D0 (PWR-01 to PWR-11). Blocks. Succeeds if the
  /// adapter is in that state already. On failure the adapter stays in the state it was in, and the
  /// failure carries the kernel's NTSTATUS.
  Expected<void> set_power(AdapterId adapter, PowerState state);
  /// Surprise removal of the device in `slot` and of its adapter (LIFE-21).
  Expected<void> remove(size_t slot);

  /// Makes a client process. Call it after load(). The process may end before the stack does, and
  /// must not outlive `body`.
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
