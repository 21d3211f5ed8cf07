#include "umd/hresult.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace dxgkit::umd {
namespace {

// The pages of d3dumddi.h, read 2026-11. "All" is what nearly every page says of the result.
constexpr std::array kTranslations = {
    Translation{STATUS_SUCCESS, S_OK},
    // pfnMakeResidentCb, pfnMapGpuVirtualAddressCb: wait for the paging fence.
    Translation{STATUS_PENDING, E_PENDING},
    // All: arguments were checked and found to be wrong.
    Translation{STATUS_INVALID_PARAMETER, E_INVALIDARG},
    Translation{STATUS_INVALID_HANDLE, E_INVALIDARG},
    Translation{STATUS_ACCESS_VIOLATION, E_INVALIDARG},
    Translation{STATUS_BUFFER_TOO_SMALL, E_INVALIDARG},
    // All: not enough memory. pfnMakeResidentCb: not everything can be resident.
    Translation{STATUS_NO_MEMORY, E_OUTOFMEMORY},
    Translation{STATUS_INSUFFICIENT_RESOURCES, E_OUTOFMEMORY},
    // pfnAllocateCb.
    Translation{STATUS_GRAPHICS_NO_VIDEO_MEMORY, D3DDDIERR_OUTOFVIDEOMEMORY},
    // pfnAllocateCb, pfnLockCb, pfnEscapeCb, pfnOfferAllocationsCb: stop or timeout of the adapter.
    Translation{STATUS_DEVICE_REMOVED, D3DDDIERR_DEVICEREMOVED},
    // pfnLockCb.
    Translation{STATUS_GRAPHICS_ALLOCATION_BUSY, D3DDDIERR_WASSTILLDRAWING},
    Translation{STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION, D3DDDIERR_CANTEVICTPINNEDALLOCATION},
    Translation{STATUS_GRAPHICS_UNSWIZZLING_APERTURE_UNAVAILABLE, D3DDDIERR_NOTAVAILABLE},
    // pfnRenderCb. Its page says D3DDDIERR_ILLEGALINSTRUCTION, which no header has.
    Translation{STATUS_PRIVILEGED_INSTRUCTION, D3DDDIERR_PRIVILEGEDINSTRUCTION},
    Translation{STATUS_ILLEGAL_INSTRUCTION, D3DDDIERR_INVALIDINSTRUCTION},
    Translation{STATUS_INVALID_USER_BUFFER, D3DDDIERR_INVALIDUSERBUFFER},
    Translation{STATUS_GRAPHICS_CANT_RENDER_LOCKED_ALLOCATION,
                D3DDDIERR_CANTRENDERLOCKEDALLOCATION},
    // pfnSetDisplayModeCb.
    Translation{STATUS_GRAPHICS_INCOMPATIBLE_PRIVATE_FORMAT, D3DDDIERR_INCOMPATIBLEPRIVATEFORMAT},
    // Our choice: pfnCreateOverlayCb answers this for what the hardware does not have.
    Translation{STATUS_NOT_SUPPORTED, D3DDDIERR_NOTAVAILABLE},
    Translation{STATUS_NOT_IMPLEMENTED, D3DDDIERR_NOTAVAILABLE},
    // winerror.h: the same right in both worlds.
    Translation{STATUS_ACCESS_DENIED, E_ACCESSDENIED},
};

// ERROR_GRAPHICS_* of winerror.h number the conditions as STATUS_GRAPHICS_* do, with facility 0x26
// instead of 0x1E and 0x2000 above: 0xC01E0109 is 0xC0262109.
constexpr uint32_t kGraphicsStatus = 0xC01E0000, kGraphicsError = 0xC0262000;
constexpr uint32_t kGraphicsCodes = 0x1000;

}  // namespace

std::span<const Translation> translations() { return kTranslations; }

HRESULT to_hresult(NTSTATUS status) {
  const auto* found = std::ranges::find(kTranslations, status, &Translation::status);
  if (found != kTranslations.end()) return found->result;
  if (status >= 0) return S_OK;
  const auto code = static_cast<uint32_t>(status) - kGraphicsStatus;
  if (code < kGraphicsCodes) return static_cast<HRESULT>(kGraphicsError + code);
  return E_FAIL;
}

}  // namespace dxgkit::umd
