// The core of an adapter without a driver: for tests of the classes that stand on it.
#pragma once

#include <vector>

#include "base/arithmetic.h"
#include "bus/machine.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/object.h"
#include "nt/kernel.h"
#include "verifier/findings.h"

namespace dxgkit::dxgk {

/// Stands for the adapter in floors of such a core.
class TestAdapter : public Object {
 public:
  TestAdapter() : Object(ObjectType::kAdapter) {}
};

/// Made inside Runtime::run_main.
class TestCore : public AdapterCore::Owner {
 public:
  explicit TestCore(const AdapterOptions& options = {})
      : core(*this, Luid{1, 0},
             {.runtime = runtime::Runtime::current(),
              .machine = machine,
              .kernel = kernel,
              .findings = findings,
              .driver = nullptr,
              .function = function,
              .global_shares = global_shares},
             options) {}

  void stop_after_failure() override {
    core.lane().assert_current();
    ++stops;
    core.set_failed();
    core.progress();
  }
  void pump() override { ++pumps; }
  void advance_waiting() override { ++looks; }

  bus::Machine machine{uint64_t{1} << 20};
  verifier::Findings findings;
  nt::Kernel kernel{runtime::Runtime::current(), machine, findings};
  bus::PciFunction function{bus::PciIdentity{}, {}};
  GlobalShares global_shares;
  const Ref<Object> adapter = make_object<TestAdapter>();
  int stops = 0, pumps = 0, looks = 0;
  AdapterCore core;
};

}  // namespace dxgkit::dxgk
