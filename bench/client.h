// A kernel with one adapter, and one client on it that speaks D3DKMT.
#pragma once

#include <d3dkmthk.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bus/machine.h"
#include "dxgk/system.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "thunks/client.h"
#include "verifier/findings.h"

namespace dxgkit::bench {

/// Machine, NT kernel, driver, adapter and a client process bound to the calling thread. `error` is
/// empty if all of it came up.
class World {
 public:
  World(runtime::Runtime& os, uint64_t system_bytes, nt::KernelConfig kernel_config = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  bus::Machine& machine() { return machine_; }
  /// Loads the driver, starts the adapter on `function`, opens it and makes a device. The function
  /// must outlive the world's stop().
  bool start(const port::DriverSource& source, bus::PciFunction& function);
  /// Another adapter of the same driver, which no client opens. After start().
  bool start_another(bus::PciFunction& function);
  /// Another client process with a device of its own takes over; those before it stay as they are.
  bool next_client();
  /// Ends the clients and stops the adapter. Once; the destructor does it otherwise.
  void stop();

  struct Context {
    D3DKMT_HANDLE handle = 0;
    std::byte* commands = nullptr;
    uint32_t command_bytes = 0;
    D3DDDI_ALLOCATIONLIST* allocations = nullptr;
    uint32_t allocation_count = 0;
    D3DDDI_PATCHLOCATIONLIST* patches = nullptr;
    uint32_t patch_count = 0;
  };
  bool create_context(uint32_t node, Context* context);
  D3DKMT_HANDLE create_fence();
  /// One allocation with this private data; 0 on failure.
  D3DKMT_HANDLE create_allocation(void* private_data, uint32_t bytes);

  /// One of the present client.
  bool destroy_allocation(D3DKMT_HANDLE allocation);

  bool render(Context& context, uint32_t command_bytes, uint32_t allocations, uint32_t patches = 0);
  bool signal(const Context& context, D3DKMT_HANDLE fence, uint64_t value);
  bool wait(D3DKMT_HANDLE fence, uint64_t value);

  D3DKMT_HANDLE device() const { return device_; }
  dxgk::AdapterStatistics statistics() const { return *system_->statistics(luid_); }
  const std::string& error() const { return error_; }

 private:
  bool check(const char* what, NTSTATUS status);

  runtime::Runtime& os_;
  const nt::KernelConfig kernel_config_;
  verifier::Findings findings_;
  bus::Machine machine_;
  std::unique_ptr<nt::Kernel> kernel_;
  std::unique_ptr<port::Driver> driver_;
  std::unique_ptr<dxgk::System> system_;
  std::vector<bus::PciFunction*> functions_;
  dxgk::Luid luid_;
  std::vector<dxgk::Process*> processes_;
  std::unique_ptr<thunks::ClientScope> scope_;
  D3DKMT_HANDLE device_ = 0;
  std::string error_;
};

}  // namespace dxgkit::bench
