#include "port/ddi/power.h"

#include <fmt/format.h>

#include <iterator>
#include <vector>

#include "dxgkit/abi_versions.h"
#include "port/core/ddi_call.h"
#include "port/core/port_core.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kSetPowerState{"DxgkDdiSetPowerState", nt::kPassiveLevel, DdiClass::kExclusive};

// May come at any time, also while the adapter sleeps, and beside a level-three call.
constexpr DdiInfo kNotifySurpriseRemoval{"DxgkDdiNotifySurpriseRemoval", nt::kPassiveLevel,
                                         DdiClass::kLevelZeroBeside};

constexpr DdiInfo kSetPowerComponentFState{"DxgkDdiSetPowerComponentFState", nt::kPassiveLevel,
                                           DdiClass::kLevelZeroBeside};

constexpr DdiInfo kPowerRuntimeRequest{"DxgkDdiPowerRuntimeControlRequest", nt::kPassiveLevel,
                                       DdiClass::kLevelZero};
/// GUID_DXGKDDI_POWER_MANAGEMENT_PREPARE_TO_START, _STARTED, _STOPPED.
constexpr GUID kRuntimePhases[] = {
    {0xcba549d4, 0xcf3a, 0x445c, {0x94, 0x68, 0x23, 0x83, 0xfd, 0x52, 0x31, 0x16}},
    {0x6c929c1d, 0x7d76, 0x4538, {0x93, 0xad, 0x44, 0x9d, 0xc9, 0xfd, 0xc2, 0x39}},
    {0x0a9d9621, 0xbc21, 0x4dd4, {0xa0, 0xfc, 0xd9, 0x76, 0xe4, 0x28, 0xf7, 0x38}}};

/// An action no driver may act upon.
constexpr auto kNoAction = static_cast<POWER_ACTION>(0x5A5A5A5A);

constexpr uint32_t kComponentsMax = 64;  // f_state_calls has a bit for each; our choice
constexpr uint32_t kFStatesMax = 8;      // DXGK_MAX_F_STATES

}  // namespace

Status PowerPort::set_power_state(std::optional<uint32_t> child, PowerState state,
                                  PowerAction action) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiSetPowerState == nullptr) return Status::kNotSupported;
  // PWR-04: on the way up the action has no meaning; a driver that reads it finds nonsense.
  const POWER_ACTION why = state == PowerState::kD0 ? kNoAction : static_cast<POWER_ACTION>(action);
  if (core_.situations != nullptr) [[unlikely]] {
    const bool on = state == PowerState::kD0;
    core_.situations->life.power_set(child.has_value(), on, action == PowerAction::kHibernate);
    if (on && !child.has_value()) core_.situations->work.power_is_back();
  }
  DdiCall call(core_, kSetPowerState, static_cast<uint64_t>(state));
  const Status status = call(core_.ddi.DxgkDdiSetPowerState, core_.context,
                             static_cast<ULONG>(child.value_or(DISPLAY_ADAPTER_HW_ID)),
                             static_cast<DEVICE_POWER_STATE>(state), why);
  if (!call.completed() || is_success(status)) return status;
  return core_.violation(
      "PWR-02", kSetPowerState.name,
      fmt::format("It answered {} for D{}.", hex(status), static_cast<uint32_t>(state) - 1),
      "A change of power state does not fail.",
      "Return STATUS_SUCCESS, also for states the device has no use for.", Status::kSuccess);
}

Status PowerPort::notify_surprise_removal(bool in_hibernation) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiNotifySurpriseRemoval == nullptr) return Status::kNotSupported;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->work.removed();
  DdiCall call(core_, kNotifySurpriseRemoval, in_hibernation ? 0 : 1);
  const Status status = call(core_.ddi.DxgkDdiNotifySurpriseRemoval, core_.context,
                             in_hibernation ? DxgkRemovalHibernation : DxgkRemovalPnPNotify);
  // Accesses until here do not count: the driver did not know of the removal yet.
  core_.lost_accesses_seen.store(core_.machine.lost_register_accesses());
  core_.removed.store(true);
  return status;
}

std::vector<PowerComponent> PowerPort::query_power_components() {
  const auto refuse = [&](std::string actual, std::string expected) {
    (void)core_.violation("PWR-12", "DxgkDdiQueryAdapterInfo", std::move(actual),
                          std::move(expected),
                          "Describe the components as they are, or clear "
                          "SupportRuntimePowerManagement; it is off until then.",
                          Status::kSuccess);
    return std::vector<PowerComponent>{};
  };
  UINT count = 0;
  Status status = core_.query(DXGKQAITYPE_NUMPOWERCOMPONENTS, nullptr, 0, &count, sizeof(count));
  if (status == Status::kDeviceRemoved) return {};
  if (!is_success(status)) {
    return refuse(fmt::format("NUMPOWERCOMPONENTS was answered with {}.", hex(status)),
                  "SupportRuntimePowerManagement promises an answer.");
  }
  if (count > kComponentsMax) {
    return refuse(fmt::format("There are {} power components.", count),
                  fmt::format("At most {} are supported.", kComponentsMax));
  }
  std::vector<PowerComponent> components;
  for (UINT i = 0; i < count; ++i) {
    DXGK_POWER_RUNTIME_COMPONENT info{};
    status = core_.query(DXGKQAITYPE_POWERCOMPONENTINFO, &i, sizeof(i), &info,
                         abi::record_size("DXGK_POWER_RUNTIME_COMPONENT", core_.version));
    if (status == Status::kDeviceRemoved) return {};
    if (!is_success(status)) {
      return refuse(
          fmt::format("POWERCOMPONENTINFO of component {} was answered with {}.", i, hex(status)),
          "Every component counted by NUMPOWERCOMPONENTS is described.");
    }
    if (info.StateCount == 0 || info.StateCount > kFStatesMax) {
      return refuse(fmt::format("Component {} has StateCount {}.", i, info.StateCount),
                    fmt::format("1 to {} F-states, F0 among them.", kFStatesMax));
    }
    if (info.ProviderCount > std::size(info.Providers)) {
      return refuse(fmt::format("Component {} has ProviderCount {}.", i, info.ProviderCount),
                    fmt::format("At most {} providers.", std::size(info.Providers)));
    }
    PowerComponent one;
    one.kind = static_cast<PowerComponent::Kind>(info.ComponentMapping.ComponentType);
    one.target = info.ComponentMapping.EngineDesc.NodeIndex;
    one.state_count = info.StateCount;
    one.driver_completes = info.Flags.DriverCompletesFStateTransition != 0;
    one.f0_on_dx = info.Flags.TransitionTo_F0_OnDx != 0;
    for (ULONG k = 0; k < info.ProviderCount; ++k) {
      if (info.Providers[k] >= count) {
        return refuse(fmt::format("Component {} names provider {}.", i, info.Providers[k]),
                      fmt::format("Providers are components: below {}.", count));
      }
      one.providers.push_back(info.Providers[k]);
    }
    components.push_back(std::move(one));
  }
  core_.power_components = count;
  return components;
}

Status PowerPort::set_component_f_state(uint32_t component, uint32_t f_state) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiSetPowerComponentFState == nullptr) return Status::kNotSupported;
  DXGKIT_CHECK(component < core_.power_components);
  const uint64_t bit = uint64_t{1} << component;
  DXGKIT_CHECK((f_state_calls_.fetch_or(bit) & bit) == 0);  // PWR-12
  Status status = Status::kSuccess;
  {
    if (core_.situations != nullptr) [[unlikely]]
      core_.situations->reach(f_state == 0 ? verifier::Situation::kPowerComponentActive
                                           : verifier::Situation::kPowerComponentIdle);
    DdiCall call(core_, kSetPowerComponentFState, uint64_t{component} << 32 | f_state);
    status = call(core_.ddi.DxgkDdiSetPowerComponentFState, core_.context,
                  static_cast<UINT>(component), static_cast<UINT>(f_state));
  }
  f_state_calls_.fetch_and(~bit);
  if (status == Status::kDeviceRemoved || is_success(status)) return status;
  return core_.violation(
      "PWR-12", kSetPowerComponentFState.name,
      fmt::format("It answered {} for component {} and F{}.", hex(status), component, f_state),
      "A component and an F-state the driver has described are valid.",
      "Return STATUS_SUCCESS; STATUS_INVALID_PARAMETER is for indexes it never reported.", status);
}

Status PowerPort::runtime_notice(RuntimePhase phase) {
  DXGKIT_RETURN_IF_FAILED(
      callable(core_, kInterfaceWin8, core_.ddi.DxgkDdiPowerRuntimeControlRequest));
  const GUID code = kRuntimePhases[static_cast<size_t>(phase)];
  SIZE_T returned = 0;
  DdiCall call(core_, kPowerRuntimeRequest, static_cast<uint64_t>(phase));
  return call(core_.ddi.DxgkDdiPowerRuntimeControlRequest, core_.context, &code,
              static_cast<PVOID>(nullptr), SIZE_T{0}, static_cast<PVOID>(nullptr), SIZE_T{0},
              &returned);
}

}  // namespace dxgkit::port
