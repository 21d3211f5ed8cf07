// Conversion between the ABI's structures and our values. The kernel allocates all mode and path
// infos, always in their newest layout. Older drivers see a prefix with the same offsets.
#pragma once

#include <d3dkmddi.h>

#include <vector>

#include "vidpn/network.h"
#include "vidpn/types.h"

namespace dxgkit::vidpn {

SourceMode from_abi(const D3DKMDT_VIDPN_SOURCE_MODE& mode);
/// Members that do not exist in `profile`'s interface version are taken as zero.
TargetMode from_abi(const Profile& profile, const D3DKMDT_VIDPN_TARGET_MODE& mode);
MonitorMode from_abi(const Profile& profile, const D3DKMDT_MONITOR_SOURCE_MODE& mode);
/// Without the gamma table, which is behind a pointer.
Path from_abi(const D3DKMDT_VIDPN_PRESENT_PATH& path);

void to_abi(const SourceMode& mode, D3DKMDT_VIDPN_SOURCE_MODE* out);
void to_abi(const TargetMode& mode, D3DKMDT_VIDPN_TARGET_MODE* out);
void to_abi(const MonitorMode& mode, D3DKMDT_MONITOR_SOURCE_MODE* out);
/// `gamma` keeps the table alive that `out` points to.
void to_abi(const Path& path, std::vector<std::byte>* gamma, D3DKMDT_VIDPN_PRESENT_PATH* out);
void to_abi(const FrequencyRange& range, D3DKMDT_MONITOR_FREQUENCY_RANGE* out);
/// `data` keeps the bytes alive that `out` points to.
void to_abi(const MonitorDescriptor& descriptor, std::vector<std::byte>* data,
            D3DKMDT_MONITOR_DESCRIPTOR* out);

/// The size in bytes of the table of a gamma ramp type. 0 if the type has no table or is unknown.
size_t gamma_bytes(uint32_t type);

}  // namespace dxgkit::vidpn
