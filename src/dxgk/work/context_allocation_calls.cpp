#include "dxgk/work/context_allocation_calls.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dxgk/core/driver_handles.h"
#include "dxgk/memory/allocation_rules.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/device.h"

namespace dxgkit::dxgk {
namespace {

constexpr const char* kCreate = "DxgkCbCreateContextAllocation";

/// InitContextResource tells the driver where its CPU sees what is CpuVisible, Protected and never
/// in a memory segment: there for as long as the allocation lives.
Status show_to_driver(AdapterCore& core, const vidmm::AllocationDesc& desc,
                      std::span<const bus::PageFrame> pages, bool is_protected,
                      std::unique_ptr<bus::CpuView>* view) {
  if (!desc.cpu_visible || !is_protected) return Status::kSuccess;
  bool in_memory_segment = false;
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (const vidmm::SegmentDesc& segment : core.memory().segments()) {
      const bool supported = (desc.supported_write & vidmm::segment_bit(segment.id)) != 0;
      if (supported && segment.kind == vidmm::SegmentKind::kMemory) in_memory_segment = true;
    }
  });
  if (in_memory_segment) return Status::kSuccess;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(*view, bus::CpuView::create(desc.size_bytes));
  std::vector<bus::MemoryWindow> windows;
  for (const bus::PageFrame page : pages) {
    windows.push_back(
        core.machine().window_of(bus::PhysicalAddress{page.value * kPageBytes}, kPageBytes));
  }
  return (*view)->retarget(windows);
}

}  // namespace

Status ContextAllocationCalls::create(const port::ContextAllocationRequest& request,
                                      uint64_t* handle) {
  const auto refuse = [&](std::string actual, std::string expected, std::string fix) {
    core_.findings().report({.rule = "RES-31",
                             .severity = verifier::Severity::kViolation,
                             .ddi = kCreate,
                             .actual = std::move(actual),
                             .expected = std::move(expected),
                             .fix = std::move(fix)});
    return Status::kInvalidParameter;
  };
  const Ref<Device> device = request.device > UINT32_MAX
                                 ? Ref<Device>()
                                 : find_for_driver<Device>(static_cast<uint32_t>(request.device));
  if (!device || &device->core() != &core_) {
    return refuse(fmt::format("hDevice is 0x{:X}.", request.device),
                  "It is the hDevice that DxgkDdiCreateDevice was given for a device of the "
                  "calling process; the system device has none.",
                  "Keep the hDevice of DXGKARG_CREATEDEVICE as it comes in.");
  }
  Ref<Context> context;
  if (request.shared && request.context != 0) {
    return refuse(fmt::format("hContext is 0x{:X} with SharedAcrossContexts.", request.context),
                  "hContext is NULL: the allocation belongs to all contexts of hDevice.",
                  "Clear one of the two.");
  }
  if (!request.shared) {
    if (request.context <= UINT32_MAX)
      context = find_for_driver<Context>(static_cast<uint32_t>(request.context));
    if (!context || &context->device() != device.get()) {
      return refuse(
          fmt::format("hContext is 0x{:X}, hDevice 0x{:X}.", request.context, request.device),
          "Without SharedAcrossContexts it is the hContext that DxgkDdiCreateContext was given for "
          "a context of that device; system contexts have none.",
          "Keep the hContext of DXGKARG_CREATECONTEXT as it comes in, or set "
          "SharedAcrossContexts.");
    }
  }
  if (request.info.handle == nullptr) {
    return refuse("hDriverAllocation is NULL.",
                  "It names the allocation in DxgkDdiBuildPagingBuffer, where NULL means none.",
                  "Pass the driver's own object.");
  }
  constexpr uint32_t kNotHere = kAllocationExistingSysMem | kAllocationExistingKernelSysMem |
                                kAllocationOverlay | kAllocationCapture |
                                kAllocationUseAlternateVa | kAllocationHistoryBuffer;
  if ((request.info.flags & kNotHere) != 0) {
    return refuse(fmt::format("Flags are 0x{:08X}.", request.info.flags),
                  "None of ExistingSysMem, ExistingKernelSysMem, Overlay, Capture, UseAlternateVA "
                  "and HistoryBuffer: the kernel backs it, and nobody shows or reads it.",
                  "Clear them.");
  }
  if (request.map_gpu_virtual_address) return Status::kNotSupported;
  port::AllocationInfo info = request.info;
  info.priority = kAllocationPriorityNormal;
  vidmm::AllocationDesc desc;
  DXGKIT_RETURN_IF_FAILED(check_allocation_info(info, core_, &desc, kCreate));
  desc.context_resource = true;
  Result<std::vector<bus::PageFrame>> pages =
      core_.machine().allocate_pages(desc.size_bytes / kPageBytes);
  if (!pages.has_value()) return pages.error();
  std::unique_ptr<bus::CpuView> view;
  const Status shown =
      show_to_driver(core_, desc, *pages, (info.flags & kAllocationProtected) != 0, &view);
  if (!is_success(shown)) {
    core_.machine().free_pages(*pages);
    return shown;
  }
  Result<AllocationId> made = Error(Status::kInvalidParameter);
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (core_.failed()) {
      made = Error(Status::kDeviceRemoved);
    } else if (!device->memory().closed() && !(context && context->memory_closed())) {
      made =
          context_allocations_->create(context.get(), *device, info, desc, *pages, std::move(view));
    }
  });
  if (!made.has_value()) {
    core_.machine().free_pages(*pages);
    return made.error();
  }
  *handle = made->value;
  return Status::kSuccess;
}

Status ContextAllocationCalls::destroy(uint64_t handle) {
  bool destroyed = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    destroyed =
        context_allocations_ != nullptr && context_allocations_->destroy(AllocationId{handle});
    if (destroyed) {
      core_.progress();
      core_.pump();
    }
  });
  if (destroyed) return Status::kSuccess;
  core_.findings().report({.rule = "RES-31",
                           .severity = verifier::Severity::kViolation,
                           .ddi = "DxgkCbDestroyContextAllocation",
                           .actual = fmt::format("hAllocation is 0x{:X}.", handle),
                           .expected =
                               "It is what DxgkCbCreateContextAllocation returned, until it is "
                               "destroyed, or its context or device is.",
                           .fix = "Destroy each context allocation once, at the latest inside "
                                  "DxgkDdiDestroyContext or DxgkDdiDestroyDevice."});
  return Status::kInvalidParameter;
}

Status ContextAllocationCalls::update(uint64_t handle, std::span<const std::byte> data) {
  if (gpu_va_ == nullptr) return Status::kNotSupported;
  if (core_.lane().is_current()) {
    core_.findings().report(
        {.rule = "PAGE-43",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkCbUpdateContextAllocation",
         .actual = "It was called inside a DDI that builds, submits or completes GPU work.",
         .expected = "A thread that may wait until the hardware has done the update.",
         .fix = "Call it from DxgkDdiCreateContext, DxgkDdiEscape or a thread of the driver.",
         .why = "It returns when the update is done, and the update has to be built, submitted "
                "and completed: this thread would wait for itself."});
    return Status::kInvalidParameter;
  }
  Status status = Status::kDeviceRemoved;
  const auto done = std::make_shared<bool>(false);
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const AllocationId id{handle};
    if (core_.failed()) return;
    status = Status::kInvalidParameter;
    if (!context_allocations_->contains(id)) return;  // destroyed meanwhile
    status = Status::kGraphicsAllocationBusy;
    if (!core_.power_phase().awake()) return;
    status = gpu_va_->update_context(id, {data.begin(), data.end()}, [done] { *done = true; });
  });
  if (!is_success(status)) return status;
  return core_.block_until([&] { return *done; }) ? Status::kSuccess : Status::kDeviceRemoved;
}

bool ContextAllocationCalls::contains(uint64_t handle) {
  bool found = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    found = context_allocations_ != nullptr && context_allocations_->contains(AllocationId{handle});
  });
  return found;
}

}  // namespace dxgkit::dxgk
