#include "port/callbacks/features.h"

#include <cstring>

#include "port/callbacks/callback_trace.h"

namespace dxgkit::port {
namespace {

void NTAPI keep(PVOID) {}  // the table lives as long as the adapter

NTSTATUS NTAPI get_native_fence_caps(DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1* caps) {
  CallbackTrace done("GetOSCaps");
  if (caps == nullptr) return done(Status::kInvalidParameter);
  *caps = {};
  caps->SupportOptimizedDefaultFenceType = 1;
  caps->SupportIntraGpuFenceType = 1;
  return done(Status::kSuccess);
}

template <typename F>
F through_door(const PortCore& adapter, const char* name, F function, uint32_t stack_arguments) {
  if (!adapter.driver.is_image) return function;
  return reinterpret_cast<F>(const_cast<void*>(
      adapter.kernel.door(name, reinterpret_cast<const void*>(function), stack_arguments)));
}

NTSTATUS NTAPI is_feature_enabled2(HANDLE device, DXGKARGCB_ISFEATUREENABLED2* args) {
  DXGKIT_CALLBACK("IsFeatureEnabled", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (args == nullptr) return done(Status::kInvalidParameter);
  const uint16_t version = enabled_feature(*adapter, args->FeatureId);
  const bool known = known_feature(args->FeatureId);
  args->Result = {};
  args->Result.Version = version;
  args->Result.Enabled = version != 0 ? 1 : 0;
  args->Result.KnownFeature = known ? 1 : 0;
  args->Result.SupportedByDriver = version != 0 ? 1 : 0;
  args->Result.SupportedOnCurrentConfig = known ? 1 : 0;
  return done(Status::kSuccess);
}

NTSTATUS NTAPI query_feature_interface(HANDLE device, DXGKARGCB_QUERYFEATUREINTERFACE* args) {
  DXGKIT_CALLBACK("QueryFeatureInterface", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (args == nullptr || args->Interface == nullptr) return done(Status::kInvalidParameter);
  const uint16_t version = enabled_feature(*adapter, args->FeatureId);
  if (args->FeatureId != DXGK_FEATURE_NATIVE_FENCE || version == 0)
    return done(Status::kNotSupported);
  if (args->Version != version || args->InterfaceSize < sizeof(DXGKCBINT_FEATURE_NATIVEFENCE_1))
    return done(Status::kInvalidParameter);
  auto* const table = static_cast<DXGKCBINT_FEATURE_NATIVEFENCE_1*>(args->Interface);
  table->GetOSCaps = through_door(*adapter, "GetOSCaps", &get_native_fence_caps, 0);
  return done(Status::kSuccess);
}

}  // namespace

bool known_feature(DXGK_FEATURE_ID feature) {
  return feature == DXGK_FEATURE_HWSCH || feature == DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT ||
         feature == DXGK_FEATURE_NATIVE_FENCE;
}

uint16_t enabled_feature(const PortCore& adapter, DXGK_FEATURE_ID feature) {
  switch (feature) {
    case DXGK_FEATURE_HWSCH:
      return has_hw_scheduling(adapter) ? 1 : 0;
    case DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT:
      return has_cpu_events(adapter) ? 1 : 0;
    case DXGK_FEATURE_NATIVE_FENCE:
      return has_native_fences(adapter) ? 1 : 0;
    default:
      return 0;
  }
}

NTSTATUS NTAPI query_services(HANDLE device, DXGK_SERVICES services, PINTERFACE table) {
  DXGKIT_CALLBACK("DxgkCbQueryServices", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (services != DxgkServicesFeature || adapter->version < kInterfaceWddm32)
    return done(Status::kNotSupported);
  if (table == nullptr) return done(Status::kInvalidParameter);
  if (table->Size < sizeof(DXGK_FEATURE_INTERFACE) ||
      table->Version != DXGK_FEATURE_INTERFACE_VERSION_1)
    return done(Status::kNotSupported);
  DXGK_FEATURE_INTERFACE& features = *reinterpret_cast<DXGK_FEATURE_INTERFACE*>(table);
  features.Size = sizeof features;
  features.Context = adapter->handle();
  features.InterfaceReference = through_door(*adapter, "InterfaceReference", &keep, 0);
  features.InterfaceDereference = through_door(*adapter, "InterfaceDereference", &keep, 0);
  features.IsFeatureEnabled = through_door(*adapter, "IsFeatureEnabled", &is_feature_enabled2, 0);
  features.QueryFeatureInterface =
      through_door(*adapter, "QueryFeatureInterface", &query_feature_interface, 0);
  return done(Status::kSuccess);
}

NTSTATUS NTAPI is_feature_enabled(DXGKARGCB_ISFEATUREENABLED* args) {
  HANDLE const device = args == nullptr ? nullptr : args->DeviceHandle;
  DXGKIT_CALLBACK("DxgkCbIsFeatureEnabled", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  args->Enabled = enabled_feature(*adapter, args->FeatureId) != 0 ? TRUE : FALSE;
  return done(Status::kSuccess);
}

NTSTATUS NTAPI query_feature_support(DXGKARGCB_QUERYFEATURESUPPORT* args) {
  HANDLE const device = args == nullptr ? nullptr : args->DeviceHandle;
  DXGKIT_CALLBACK("DxgkCbQueryFeatureSupport", device, nt::kPassiveLevel, false,
                  done(Status::kInvalidParameter));
  if (args->DriverSupportState > DXGK_FEATURE_SUPPORT_ALWAYS_ON)
    return done(Status::kInvalidParameter);
  const bool wanted = args->DriverSupportState != DXGK_FEATURE_SUPPORT_ALWAYS_OFF;
  args->Enabled = wanted && enabled_feature(*adapter, args->FeatureId) != 0 ? TRUE : FALSE;
  return done(Status::kSuccess);
}

}  // namespace dxgkit::port
