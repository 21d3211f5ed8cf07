#include "dxgk/sync/native_fences.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "dxgk/core/adapter_core.h"
#include "dxgk/sync/device_sync.h"
#include "dxgk/sync/sync_object.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint64_t kNobody = std::numeric_limits<uint64_t>::max();

void* pointer_to(AdapterCore& core, bus::PageFrame page) {
  return core.machine().system_pointer(bus::PhysicalAddress{page.value * kPageBytes}, kPageBytes);
}

}  // namespace

NativeFences::NativeFences(AdapterCore& core, Owner& owner, const port::NativeFenceCaps& caps)
    : core_(core), owner_(owner), port_(core.port().native_fences()), caps_(caps) {}

std::unique_ptr<NativeFences> NativeFences::make(AdapterCore& core, Owner& owner, Status* status) {
  *status = Status::kSuccess;
  if (!core.caps().native_gpu_fence) return nullptr;
  const auto refuse = [&](const char* ddi, std::string actual, const char* expected,
                          const char* fix) {
    core.findings().report(verifier::Finding{.rule = "SYNC-31",
                                             .severity = verifier::Severity::kStartFail,
                                             .ddi = ddi,
                                             .actual = std::move(actual),
                                             .expected = expected,
                                             .fix = fix});
    *status = Status::kDeviceConfigurationError;  // G-19
    return nullptr;
  };
  constexpr const char* kDriverCaps = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)";
  port::NativeFencePort& port = core.port().native_fences();
  if (!port.supported()) {
    return refuse(kDriverCaps,
                  "SchedulingCaps.NativeGpuFence is set; the feature NATIVE_FENCE is not enabled: "
                  "the driver's version is below WDDM 3.2, or an entry of native fences is NULL.",
                  "A driver reports native fences only where the kernel has enabled them.",
                  "Ask IsFeatureEnabled of DXGK_FEATURE_INTERFACE for DXGK_FEATURE_NATIVE_FENCE, "
                  "and set the bit only if it is enabled.");
  }
  if (!core.facts().virtual_addresses) {
    return refuse(kDriverCaps, "SchedulingCaps.NativeGpuFence is set without GpuMmuSupported.",
                  "Engines reach native fences at GPU virtual addresses.",
                  "Set VirtualAddressingCaps, or clear NativeGpuFence.");
  }
  const Result<port::NativeFenceCaps> caps = port.query_caps();
  constexpr const char* kCaps = "DxgkDdiQueryAdapterInfo(NATIVE_FENCE_CAPS)";
  if (!caps.has_value()) {
    return refuse(
        kCaps,
        fmt::format("It answered 0x{:08X}.", static_cast<uint32_t>(to_ntstatus(caps.error()))),
        "A driver that reports native fences says what they need.", "Fill DXGK_NATIVE_FENCE_CAPS.");
  }
  if (caps->map_to_gpu_system_process) {
    return refuse(kCaps, "MapToGpuSystemProcess is set, which this kernel does not do.",
                  "Fences are reached through the address spaces of those who opened them.",
                  "Leave MapToGpuSystemProcess clear here.");
  }
  return std::unique_ptr<NativeFences>(new NativeFences(core, owner, *caps));
}

Status NativeFences::create(SharedSync& fence, bool intra_gpu, std::span<std::byte> private_data) {
  uint32_t handle = 0;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { handle = ++serial_; });
  DXGKIT_ASSIGN_OR_RETURN_STATUS(fence.driver_handle,
                                 port_.create(handle, intra_gpu, private_data));
  fence.in_driver = true;
  return Status::kSuccess;
}

void NativeFences::made(SharedSync& fence) { fences_[fence.id.value] = &fence; }

Status NativeFences::open(SyncObject& opening) {
  SharedSync& fence = *opening.shared;
  uint32_t handle = 0;
  bool closed = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    handle = ++serial_;
    closed = opening.process == nullptr;
    if (!closed) ++fence.driver_openings;
  });
  if (closed) return Status::kDeviceRemoved;
  const Result<void*> local =
      port_.open(fence.driver_handle, handle, opening.device->device().driver_handle(),
                 opening.gpu_address, opening.monitored_gpu_address);
  bool late = false;  // close() has been here meanwhile, and found nothing to close
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    late = opening.process == nullptr;
    opening.in_driver = local.has_value() && !late;
    if (local.has_value()) opening.driver_handle = *local;
    if (!local.has_value()) --fence.driver_openings;
  });
  if (late && local.has_value()) {
    static_cast<void>(port_.close(*local));
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { --fence.driver_openings; });
  }
  if (!local.has_value() || late) {
    end(fence);
    return local.has_value() ? Status::kDeviceRemoved : local.error();
  }
  return Status::kSuccess;
}

void NativeFences::close(SyncObject& opening) {
  SharedSync& fence = *opening.shared;
  bool mine = false;
  core_.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { mine = std::exchange(opening.in_driver, false); });
  if (mine) {
    static_cast<void>(port_.close(opening.driver_handle));
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { --fence.driver_openings; });
  }
  end(fence);
}

void NativeFences::end(SharedSync& fence) {
  bool mine = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!fence.gone || fence.driver_openings != 0) return;
    fences_.erase(fence.id.value);
    mine = std::exchange(fence.in_driver, false);
  });
  if (mine) static_cast<void>(port_.destroy(fence.driver_handle));
}

void NativeFences::stop() {
  std::vector<void*> left;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (const auto& [id, fence] : fences_) {
      if (std::exchange(fence->in_driver, false)) left.push_back(fence->driver_handle);
    }
  });
  for (void* const handle : left) static_cast<void>(port_.destroy(handle));
}

void NativeFences::watch(SharedSync& fence, uint64_t least) {
  if (core_.failed() || !fence.in_driver) return;
  const uint64_t monitored = least == kNobody ? kNobody : least - 1;
  const Status status = port_.update_monitored(fence.driver_handle, monitored,
                                               pointer_to(core_, fence.monitored_page));
  if (is_success(status) || status == Status::kDeviceRemoved) return;
  core_.fail(verifier::Finding{
      .rule = "SYNC-30",
      .severity = verifier::Severity::kBugCheck,
      .ddi = "DxgkDdiUpdateMonitoredValues",
      .actual = fmt::format("It answered 0x{:08X} for a monitored value of {}.",
                            static_cast<uint32_t>(to_ntstatus(status)), monitored),
      .expected = "The driver stores each monitored value it is given.",
      .fix = "Write the value where the engines compare, and return STATUS_SUCCESS once none of "
             "them goes by the old one.",
      .bugcheck_code = 0x119,
      .bugcheck_parameter = 0x12,
      .why = "An engine that goes by an old monitored value does not interrupt, and whoever waits "
             "is never woken."});
}

void NativeFences::store(SharedSync& fence, uint64_t value) {
  // The driver is not asked where it must not touch its hardware.
  const bool asked = !core_.failed() && fence.in_driver && !owner_.hardware_resets();
  const uint64_t before = fence.storage->load(std::memory_order_acquire);
  if (!asked) {
    fence.storage->store(value, std::memory_order_release);
    return;
  }
  const Status status =
      port_.update_current(fence.driver_handle, value, pointer_to(core_, fence.page));
  const uint64_t after = fence.storage->load(std::memory_order_acquire);
  const bool stored = value < before ? after != before : after >= value;
  if (status == Status::kDeviceRemoved || (is_success(status) && stored)) return;
  core_.findings().report(verifier::Finding{
      .rule = "SYNC-33",
      .severity = verifier::Severity::kViolation,
      .ddi = "DxgkDdiUpdateCurrentValuesFromCpu",
      .actual = fmt::format("It answered 0x{:08X} for the value {}; the current value went from {} "
                            "to {}.",
                            static_cast<uint32_t>(to_ntstatus(status)), value, before, after),
      .expected = "The driver stores each current value it is given, and lets go what waited for "
                  "it.",
      .fix = "Write UpdatedValueArray[i] to CurrentValueKernelCpuVa[i], and look again at the "
             "queues that wait for the fence.",
      .why = "Work of other engines waits for this signal without the kernel's help.",
      .windows = "Who waits for the value is not woken."});
  if (!stored) fence.storage->store(value, std::memory_order_release);
}

bool NativeFences::signaled(const port::InterruptReport& report) {
  std::vector<SyncObjectId> named;
  if (report.handles.empty()) {
    for (const auto& [id, fence] : fences_) named.push_back(fence->id);
  }
  for (void* const handle : report.handles) {
    const auto found = std::ranges::find_if(
        fences_, [&](const auto& entry) { return entry.second->driver_handle == handle; });
    if (found != fences_.end()) {
      named.push_back(found->second->id);
      continue;
    }
    core_.fail(verifier::Finding{
        .rule = "SYNC-34",
        .severity = verifier::Severity::kBugCheck,
        .ddi = "DxgkCbNotifyInterrupt",
        .actual =
            fmt::format("NATIVE_FENCE_SIGNALED of node {} named {} that does not exist, "
                        "among {}.",
                        report.node, handle == nullptr ? "NULL" : "a fence", report.handles.size()),
        .expected = "Global handles of fences that DxgkDdiCreateNativeFence made and "
                    "DxgkDdiDestroyNativeFence has not ended.",
        .fix = "Forget a fence when it is destroyed; pass NULL for pSignaledNativeFenceArray when "
               "it is not known which fences were signalled.",
        .bugcheck_code = 0x119,
        .bugcheck_parameter = 0x1});
    return false;
  }
  core_.scheduler().sync_objects().reread(named);
  if (report.legacy_fences_too) core_.scheduler().sync_objects().reread();
  return true;
}

}  // namespace dxgkit::dxgk
