#include "bench/client.h"

#include <fmt/format.h>

#include <utility>

namespace dxgkit::bench {

World::World(runtime::Runtime& os, uint64_t system_bytes, nt::KernelConfig kernel_config)
    : os_(os), kernel_config_(std::move(kernel_config)), machine_(system_bytes) {}

World::~World() { stop(); }

void World::stop() {
  scope_.reset();
  for (dxgk::Process* process : processes_) system_->end_process(*process);
  processes_.clear();
  system_.reset();
  driver_.reset();
  kernel_.reset();
  for (bus::PciFunction* function : functions_) machine_.remove_function(*function);
  functions_.clear();
}

bool World::check(const char* what, NTSTATUS status) {
  if (is_success(from_ntstatus(status))) return true;
  if (error_.empty()) {
    error_ = fmt::format("{} answered {:#010x}", what, static_cast<uint32_t>(status));
    const std::vector<verifier::Finding> findings = findings_.all();
    if (!findings.empty()) error_ += fmt::format(" ({}: {})", findings[0].rule, findings[0].actual);
  }
  return false;
}

bool World::start(const port::DriverSource& source, bus::PciFunction& function) {
  if (!check("add_function", to_ntstatus(machine_.add_function(function)))) return false;
  functions_.push_back(&function);
  kernel_ = std::make_unique<nt::Kernel>(os_, machine_, findings_, kernel_config_);
  std::string message;
  Result<std::unique_ptr<port::Driver>> driver =
      port::Driver::load(*kernel_, findings_, source, &message);
  if (!driver.has_value()) {
    error_ = fmt::format("the driver was not loaded: {}", message);
    return false;
  }
  driver_ = std::move(*driver);
  system_ = std::make_unique<dxgk::System>(os_, machine_, *kernel_, findings_);
  // What a release would run: the checks that compare the driver with a reference are for tests.
  const Result<dxgk::Luid> luid =
      system_->start_adapter(*driver_, function, {.check_level = dxgk::CheckLevel::kOff});
  if (!luid.has_value()) return check("start_adapter", to_ntstatus(luid.error()));
  luid_ = *luid;
  return next_client();
}

bool World::start_another(bus::PciFunction& function) {
  if (!check("add_function", to_ntstatus(machine_.add_function(function)))) return false;
  functions_.push_back(&function);
  const Result<dxgk::Luid> luid =
      system_->start_adapter(*driver_, function, {.check_level = dxgk::CheckLevel::kOff});
  return luid.has_value() || check("start_adapter", to_ntstatus(luid.error()));
}

bool World::next_client() {
  scope_.reset();
  processes_.push_back(&system_->create_process("bench"));
  scope_ = std::make_unique<thunks::ClientScope>(*system_, *processes_.back());
  D3DKMT_OPENADAPTERFROMLUID open{};
  open.AdapterLuid.LowPart = luid_.low;
  open.AdapterLuid.HighPart = luid_.high;
  if (!check("D3DKMTOpenAdapterFromLuid", D3DKMTOpenAdapterFromLuid(&open))) return false;
  D3DKMT_CREATEDEVICE device{};
  device.hAdapter = open.hAdapter;
  if (!check("D3DKMTCreateDevice", D3DKMTCreateDevice(&device))) return false;
  device_ = device.hDevice;
  return true;
}

bool World::create_context(uint32_t node, Context* context) {
  D3DKMT_CREATECONTEXT create{};
  create.hDevice = device_;
  create.NodeOrdinal = node;
  if (!check("D3DKMTCreateContext", D3DKMTCreateContext(&create))) return false;
  *context = {create.hContext,
              static_cast<std::byte*>(create.pCommandBuffer),
              create.CommandBufferSize,
              create.pAllocationList,
              create.AllocationListSize,
              create.pPatchLocationList,
              create.PatchLocationListSize};
  return true;
}

D3DKMT_HANDLE World::create_fence() {
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
  create.hDevice = device_;
  create.Info.Type = D3DDDI_MONITORED_FENCE;
  const NTSTATUS status = D3DKMTCreateSynchronizationObject2(&create);
  return check("D3DKMTCreateSynchronizationObject2", status) ? create.hSyncObject : 0;
}

D3DKMT_HANDLE World::create_allocation(void* private_data, uint32_t bytes) {
  D3DDDI_ALLOCATIONINFO2 info{};
  info.pPrivateDriverData = private_data;
  info.PrivateDriverDataSize = bytes;
  D3DKMT_CREATEALLOCATION create{};
  create.hDevice = device_;
  create.NumAllocations = 1;
  create.pAllocationInfo2 = &info;
  return check("D3DKMTCreateAllocation2", D3DKMTCreateAllocation2(&create)) ? info.hAllocation : 0;
}

bool World::destroy_allocation(D3DKMT_HANDLE allocation) {
  D3DKMT_DESTROYALLOCATION2 destroy{};
  destroy.hDevice = device_;
  destroy.phAllocationList = &allocation;
  destroy.AllocationCount = 1;
  return check("D3DKMTDestroyAllocation2", D3DKMTDestroyAllocation2(&destroy));
}

bool World::render(Context& context, uint32_t command_bytes, uint32_t allocations,
                   uint32_t patches) {
  D3DKMT_RENDER render{};
  render.hContext = context.handle;
  render.CommandLength = command_bytes;
  render.AllocationCount = allocations;
  render.PatchLocationCount = patches;
  const NTSTATUS status = D3DKMTRender(&render);
  if (render.pNewCommandBuffer != nullptr) {
    context.commands = static_cast<std::byte*>(render.pNewCommandBuffer);
    context.allocations = render.pNewAllocationList;
    context.patches = render.pNewPatchLocationList;
  }
  return check("D3DKMTRender", status);
}

bool World::signal(const Context& context, D3DKMT_HANDLE fence, uint64_t value) {
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal{};
  signal.hContext = context.handle;
  signal.ObjectCount = 1;
  signal.ObjectHandleArray = &fence;
  signal.MonitoredFenceValueArray = &value;
  return check("D3DKMTSignalSynchronizationObjectFromGpu",
               D3DKMTSignalSynchronizationObjectFromGpu(&signal));
}

bool World::wait(D3DKMT_HANDLE fence, uint64_t value) {
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
  wait.hDevice = device_;
  wait.ObjectCount = 1;
  wait.ObjectHandleArray = &fence;
  wait.FenceValueArray = &value;
  return check("D3DKMTWaitForSynchronizationObjectFromCpu",
               D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
}

}  // namespace dxgkit::bench
