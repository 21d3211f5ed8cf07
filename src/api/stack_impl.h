// The state behind the public classes of one stack.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bus/device.h"
#include "bus/machine.h"
#include "dxgk/system.h"
#include "dxgkit/stack.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "verifier/findings.h"

namespace dxgkit {

struct Driver::Impl {
  Stack::Impl* stack = nullptr;
  std::unique_ptr<port::Driver> driver;
};

/// The state between power-on and power-off. Made and destroyed inside the runtime.
struct Stack::Impl {
  struct Slot {
    size_t device = 0;
    bus::PciFunction* function = nullptr;
    std::optional<dxgk::Luid> adapter = {};
  };

  runtime::Runtime& runtime;
  verifier::Findings& findings;
  bus::Machine machine;
  std::vector<std::unique_ptr<bus::Device>> devices;
  std::vector<Slot> slots;
  std::unique_ptr<nt::Kernel> kernel;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<dxgk::System> system;

  Impl(runtime::Runtime& own_runtime, verifier::Findings& own_findings, uint64_t memory_bytes);
  ~Impl();
  /// The slot on which an adapter runs; null if it does not run here.
  Slot* slot_of(AdapterId adapter);
};

struct ClientProcess::Impl {
  runtime::Runtime& runtime;
  dxgk::System& system;
  dxgk::Process* process;  // null once it has ended
};

/// Converts a finding to the public type.
Finding public_finding(const verifier::Finding& finding);
/// A failure with the status and its name: "the adapter did not start: STATUS_NO_MEMORY".
Failure failure(Status status, std::string_view what);

}  // namespace dxgkit
