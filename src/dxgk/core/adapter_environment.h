// Where an adapter is: the machine, the runtime, and what its host has decided.
#pragma once

#include "base/ids.h"
#include "bus/machine.h"
#include "dxgk/core/adapter_options.h"
#include "dxgk/core/global_shares.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "verifier/findings.h"

namespace dxgkit::dxgk {

/// Constant from before the adapter's start to its end. Any thread.
class AdapterEnvironment {
 public:
  /// What is there before the adapter, and outlives it.
  struct Surroundings {
    runtime::Runtime& runtime;
    bus::Machine& machine;
    nt::Kernel& kernel;
    verifier::Findings& findings;
    port::Driver* driver;  // null: no driver, and no port (in tests)
    bus::PciFunction& function;
    GlobalShares& global_shares;
  };
  AdapterEnvironment(Luid luid, const Surroundings& around, const AdapterOptions& options)
      : luid_(luid), around_(around), options_(options) {}

  Luid luid() const { return luid_; }
  runtime::Runtime& runtime() { return around_.runtime; }
  bus::Machine& machine() { return around_.machine; }
  nt::Kernel& kernel() { return around_.kernel; }
  verifier::Findings& findings() { return around_.findings; }
  bus::PciFunction& function() { return around_.function; }
  GlobalShares& global_shares() { return around_.global_shares; }
  const AdapterOptions& options() const { return options_; }

 protected:
  const Luid luid_;
  const Surroundings around_;
  const AdapterOptions options_;
};

}  // namespace dxgkit::dxgk
