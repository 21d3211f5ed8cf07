// A port with a scripted miniport behind it, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "port/adapter_port.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "tests/support/covers.h"
#include "tests/support/known_run.h"
#include "tests/support/scripted_miniport.h"

namespace dxgkit::port {

/// An AdapterHost that writes down what it is told.
class RecordingHost : public AdapterHost {
 public:
  void on_interrupts(std::span<const InterruptReport> reports) override {
    runtime::MutexLock lock(lock_);
    seen_.insert(seen_.end(), reports.begin(), reports.end());
    irqls.push_back(nt::CallFrame::current().irql());
  }
  void* get_handle_data(uint32_t handle, HandleType, bool device_specific) override {
    return reinterpret_cast<void*>(uint64_t{handle} * (device_specific ? 2 : 1));
  }
  uint32_t get_handle_parent(uint32_t allocation) override { return allocation + 1; }
  uint32_t enum_handle_children(uint32_t resource, uint32_t index) override {
    return resource + index;
  }
  void* acquire_handle_data(uint32_t handle, HandleType, bool, void** reference) override {
    *reference = reinterpret_cast<void*>(uint64_t{handle});
    ++references;
    return reinterpret_cast<void*>(uint64_t{handle});
  }
  void release_handle_data(void*) override { --references; }
  void on_fatal(const verifier::Finding& finding) override { fatal.push_back(finding); }

  std::vector<InterruptReport> seen() {
    runtime::MutexLock lock(lock_);
    return seen_;
  }
  void before_exclusive_ddi(const char* ddi, SyncLevel level) override {
    exclusive.emplace_back(ddi, level);
  }
  std::vector<nt::Irql> irqls;
  std::vector<std::pair<std::string, SyncLevel>> exclusive;
  std::vector<verifier::Finding> fatal;
  int references = 0;

 private:
  runtime::Mutex lock_;
  std::vector<InterruptReport> seen_;
};

/// Machine, kernel, driver and adapter; started step by step.
struct PortWorld {
  PortWorld() { EXPECT_EQ(machine.add_function(miniport.function()), Status::kSuccess); }
  ~PortWorld() {
    adapter.reset();
    driver.reset();
    machine.remove_function(miniport.function());
  }
  Status load() {
    auto result = Driver::load(kernel, findings, miniport.source(), &message);
    if (!result.has_value()) return result.error();
    driver = std::move(*result);
    adapter = std::make_unique<AdapterPort>(*driver, kernel, machine, miniport.function(), host,
                                            findings);
    return Status::kSuccess;
  }
  /// Load, AddDevice, StartDevice, DRIVERCAPS.
  void start() {
    ASSERT_EQ(load(), Status::kSuccess) << message;
    ASSERT_EQ(adapter->life().add_device(), Status::kSuccess);
    ASSERT_TRUE(adapter->life().start_device().has_value());
    ASSERT_TRUE(adapter->caps().query_driver_caps().has_value());
  }
  void stop() {
    EXPECT_EQ(adapter->life().stop_device(), Status::kSuccess);
    EXPECT_EQ(adapter->life().remove_device(), Status::kSuccess);
  }
  std::string findings_text() const {
    std::string text;
    for (const verifier::Finding& finding : findings.all()) text += verifier::to_text(finding);
    return text;
  }

  bus::Machine machine{64 << 20};
  verifier::Findings findings;
  testing::KnownFindings known{findings};
  testing::ScriptedMiniport miniport;
  nt::Kernel kernel{runtime::Runtime::current(), machine, findings};
  RecordingHost host;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<AdapterPort> adapter;
  std::string message;
};

/// Runs a test body as the main thread of an os runtime, then of a simulation.
template <typename Body>
void in_both_modes(const Body& body) {
  runtime::make_os_runtime(1)->run_main(body);
  if (::testing::Test::HasFatalFailure()) return;
  runtime::make_sim_runtime(1)->run_main(body);
}

}  // namespace dxgkit::port
