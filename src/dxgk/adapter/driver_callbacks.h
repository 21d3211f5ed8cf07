// What the driver calls back for.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "dxgk/core/adapter_core.h"
#include "port/adapter_port.h"

namespace dxgkit::dxgk {

class ExclusiveChecks;
struct DisplayFloor;

/// Answers questions about handles itself, and passes the rest on to the part it is for.
class DriverCallbacks : public port::AdapterHost {
 public:
  DriverCallbacks(DisplayFloor& floor, ExclusiveChecks& exclusive_checks);

  void on_interrupts(std::span<const port::InterruptReport> reports) override;
  void* get_handle_data(uint32_t handle, HandleType type, bool device_specific) override;
  uint32_t get_handle_parent(uint32_t allocation) override;
  uint32_t enum_handle_children(uint32_t resource, uint32_t index) override;
  void* acquire_handle_data(uint32_t handle, HandleType type, bool device_specific,
                            void** reference) override;
  void release_handle_data(void* reference) override;
  void on_fatal(const verifier::Finding& finding) override;
  void on_child_status(uint32_t child, bool connected) override;
  void on_connector_change() override;
  void on_planes_disabled(uint32_t source) override;
  Status create_context_allocation(const port::ContextAllocationRequest& request,
                                   uint64_t* handle) override;
  Status destroy_context_allocation(uint64_t handle) override;
  bool has_context_allocation(uint64_t handle) override;
  Status update_context_allocation(uint64_t handle, std::span<const std::byte> data) override;
  Result<uint64_t> reserve_gpu_va(const port::GpuVaReservation& range) override;
  Status on_hw_context_invalid(void* context, bool collateral) override;
  Status signal_cpu_event(uint64_t event) override;
  void on_component(uint32_t component, ComponentEvent event) override;
  void before_exclusive_ddi(const char* ddi, SyncLevel level) override;
  Status exclude_access(bool evict, std::function<void(Status)> call) override;
  Status set_protected_session_status(uint64_t session, bool valid) override;
  Status on_diagnostic(port::DiagnosticReport report) override;

 private:
  DisplayFloor& floor_;
  AdapterCore& core_;
  ExclusiveChecks& exclusive_checks_;
};

}  // namespace dxgkit::dxgk
