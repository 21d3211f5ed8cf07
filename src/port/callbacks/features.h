// The questions of a driver before it reports a feature: DxgkCbQueryServices(DxgkServicesFeature)
// and the older questions.
#pragma once

#include "port/core/port_core.h"

namespace dxgkit::port {

/// The version of a feature that this kernel has enabled for the adapter; 0 if it has not. A
/// feature is enabled if the kernel implements it and the driver has its entries:
///
/// | feature | from | entries |
/// |---|---|---|
/// | DXGK_FEATURE_HWSCH | 2.4 | the entries of hardware scheduling |
/// | DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT | 3.0 | the entries of CpuEventPort |
/// | DXGK_FEATURE_NATIVE_FENCE | 3.2 | the entries of NativeFencePort |
///
/// Any thread.
uint16_t enabled_feature(const PortCore& adapter, DXGK_FEATURE_ID feature);

/// True if the kernel implements the feature.
bool known_feature(DXGK_FEATURE_ID feature);

// Callbacks; see the table in callbacks.cpp.
NTSTATUS NTAPI query_services(HANDLE device, DXGK_SERVICES services, PINTERFACE table);
NTSTATUS NTAPI is_feature_enabled(DXGKARGCB_ISFEATUREENABLED* args);
NTSTATUS NTAPI query_feature_support(DXGKARGCB_QUERYFEATURESUPPORT* args);

}  // namespace dxgkit::port
