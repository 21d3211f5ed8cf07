// The callbacks that the Direct3D runtime gives to a user-mode display driver, by version.
#pragma once

#include <d3dumddi.h>

#include <span>
#include <string_view>

namespace dxgkit::umd {

/// Fills the members of *table that a driver of this user-mode interface version knows, and writes
/// nothing behind them: its table ends there. Every one of them gets a function. One that is not
/// implemented answers the HRESULT that the support table names, and changes nothing.
/// @param version  a D3D_UMD_INTERFACE_VERSION_*; one between two published ones means the older.
void device_callbacks(UINT version, D3DDDI_DEVICECALLBACKS* table);
void adapter_callbacks(UINT version, D3DDDI_ADAPTERCALLBACKS* table);

enum class Support { kSupported, kPartial, kRefused };

struct CallbackSupport {
  std::string_view name;  // of the member: pfnAllocateCb
  Support support;
  std::string_view note;   // of a refusal: the HRESULT and the reason
  std::string_view thunk;  // the D3DKMT function behind it; empty: none
  UINT since;              // D3D_UMD_INTERFACE_VERSION_*
};

/// Every callback of both tables, in their order.
std::span<const CallbackSupport> support();

}  // namespace dxgkit::umd
