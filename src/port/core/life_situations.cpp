#include "port/core/life_situations.h"

#include <algorithm>
#include <cstring>

#include "dxgkit/abi_versions.h"
#include "port/core/port_core.h"

namespace dxgkit::port {

void LifeSituations::added(const PortCore& core) {
  for (const abi::TableEntry& entry : abi::kDriverInitializationData) {
    if (core.has_entry(entry.name)) log_.add_entry(entry.name);
  }
  if (core.driver.display_only_ddi.DxgkDdiPresentDisplayOnly != nullptr)
    log_.add_entry("DxgkDdiPresentDisplayOnly");
  log_.add(Fact::kBeforeWddm2, core.version < kInterfaceWddm20);
  log_.add(Fact::kHwQueues, core.has_entry("DxgkDdiCreateHwQueue"));
  log_.add(Fact::kHwScheduling, has_hw_scheduling(core));
  log_.add(Fact::kNativeFences, has_native_fences(core));
  log_.add(Fact::kVsyncOff, core.has_entry("DxgkDdiControlInterrupt") ||
                                core.has_entry("DxgkDdiControlInterrupt2") ||
                                core.has_entry("DxgkDdiControlInterrupt3"));
}

void LifeSituations::started(const PortCore& core, Status status, uint32_t sources) {
  log_.reach(Situation::kStartFailed, !is_success(status));
  if (!is_success(status)) return;
  log_.reach(
      log_.count(Situation::kStartFirst) == 0 ? Situation::kStartFirst : Situation::kStartSecond,
      true);
  const bool display_only = core.driver.display_only_ddi.DxgkDdiPresentDisplayOnly != nullptr;
  log_.add(Fact::kDisplay, sources != 0);
  log_.add(Fact::kFullDisplay, sources != 0 && !display_only);
  log_.add(Fact::kDisplayOnly, display_only);
  log_.add(Fact::kRenders, !display_only);
}

void LifeSituations::queried(uint32_t type) {
  log_.reach(Situation::kQueryUmdPrivate, type == DXGKQAITYPE_UMDRIVERPRIVATE);
  const SpinGuard guard(lock_);
  log_.reach(Situation::kQueryAgain, !asked_.insert(type).second);
  log_.reach(Situation::kQueryDuringPower, asleep_);
}

void LifeSituations::power_set(bool child, bool on, bool hibernate) {
  if (child) {
    log_.reach(on ? Situation::kPowerChildWake : Situation::kPowerChildSleep);
    return;
  }
  log_.reach(on ? Situation::kPowerWake : Situation::kPowerSleep);
  log_.reach(Situation::kPowerHibernate, !on && hibernate);
  const SpinGuard guard(lock_);
  asleep_ = !on;
}

void LifeSituations::has(const DriverCaps& caps) {
  log_.add(Fact::kGpuVa, caps.virtual_addressing_supported);
  log_.add(Fact::kTwoNodes, caps.node_count >= 2);
  log_.add(Fact::kPreemption, caps.preemption_aware);
  log_.add(Fact::kEngineReset, caps.support_per_engine_tdr);
  log_.add(Fact::kSwizzling, caps.number_of_swizzling_ranges != 0);
  log_.add(Fact::kSurpriseRemoval, caps.support_surprise_removal);
  log_.add(Fact::kPowerComponents, caps.support_runtime_power_management);
  DXGK_DRIVERCAPS raw{};
  std::memcpy(&raw, caps.raw.data(), std::min(caps.raw.size(), sizeof(raw)));
  log_.add(Fact::kPointer, raw.MaxPointerWidth != 0);
}

void LifeSituations::has(std::span<const SegmentInfo> segments) {
  size_t memory = 0;
  for (const SegmentInfo& segment : segments) {
    DXGK_SEGMENTFLAGS flags{};
    flags.Value = segment.flags;
    const bool aperture = flags.Aperture != 0 || flags.Agp != 0;
    log_.add(Fact::kApertureSegment, aperture);
    log_.add(Fact::kHostAperture, segment.host_aperture_pages != 0);
    log_.add(Fact::k64kbPages, flags.Use64KBPages != 0);
    memory += aperture ? 0 : 1;
  }
  log_.add(Fact::kMemorySegment, memory != 0);
  log_.add(Fact::kTwoMemorySegments, memory >= 2);
}

void LifeSituations::has(const GpuMmuCaps& caps) {
  log_.add(Fact::kReadOnlyPages, caps.read_only);
  log_.add(Fact::kNoExecutePages, caps.no_execute);
  log_.add(Fact::kGpuVaVirtual, caps.update_mode == PageTableUpdateMode::kGpuVirtual);
  log_.add(Fact::kGpuVaPhysical, caps.update_mode == PageTableUpdateMode::kGpuPhysical);
}

void LifeSituations::has(std::span<const ChildInfo> children) {
  log_.add(Fact::kMonitorPolled, std::ranges::any_of(children, [](const ChildInfo& child) {
             return child.kind == ChildInfo::Kind::kVideoOutput &&
                    (child.awareness == ChildInfo::Awareness::kPolled ||
                     child.awareness == ChildInfo::Awareness::kInterruptible);
           }));
}

void LifeSituations::made_context(const ContextInfo& info, bool virtual_addressing) {
  log_.add(Fact::kPatch, !virtual_addressing);
  log_.add(Fact::kBuffersInSegment, info.dma_buffer_segment_set != 0);
  log_.add(Fact::kNoDmaPrivateData, info.dma_private_bytes == 0);
}

}  // namespace dxgkit::port
