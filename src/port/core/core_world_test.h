// An adapter's core over a table filled by hand: no image, no DriverEntry, no device.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "base/interface_versions.h"
#include "port/core/port_core.h"
#include "port/port_world_test.h"

namespace dxgkit::port {

/// Fill `table`, then ask for core().
struct CoreWorld {
  explicit CoreWorld(uint32_t version = kInterfaceWddm32) { table.version = version; }

  PortCore& core() {
    if (core_ == nullptr) {
      core_ = std::make_unique<PortCore>(table, kernel, machine, function, host, findings);
      core_->context = this;
    }
    return *core_;
  }
  /// Sets an entry to a function of the Win64 ABI.
  template <typename Entry, typename Function>
  static void set(Entry& entry, Function* function) {
    static_assert(sizeof(entry) == sizeof(function));
    std::memcpy(&entry, &function, sizeof(entry));  // a fake may look at less than it is given
  }
  /// The rules of the findings so far, in order.
  std::string rules() const {
    std::string text;
    for (const verifier::Finding& finding : findings.all()) text += finding.rule + ' ';
    return text;
  }

  bus::Machine machine{16 << 20};
  verifier::Findings findings;
  nt::Kernel kernel{runtime::Runtime::current(), machine, findings};
  bus::PciFunction function{{.vendor_id = 0x1AF4, .device_id = 0x5C81}, {}};
  RecordingHost host;
  DriverTable table;

 private:
  std::unique_ptr<PortCore> core_;
};

/// Runs a body with such a world, as the main thread of a simulation.
inline void with_core(const std::function<void(CoreWorld&)>& body,
                      uint32_t version = kInterfaceWddm32) {
  runtime::make_sim_runtime(1)->run_main([&] {
    CoreWorld world(version);
    body(world);
  });
}

}  // namespace dxgkit::port
