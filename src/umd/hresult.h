// What user-mode drivers get instead of a status of the kernel.
#pragma once

#include <d3dumddi.h>
#include <ntstatus.h>

#include <span>

namespace dxgkit::umd {

struct Translation {
  NTSTATUS status;
  HRESULT result;
};

/// The statuses whose HRESULT a page of a callback names. Sources are beside the entries.
std::span<const Translation> translations();

/// The HRESULT of a D3DKMT call's status. Success stays S_OK, STATUS_PENDING is E_PENDING. A
/// graphics status without an entry keeps its number in the facility of ERROR_GRAPHICS_*. E_FAIL:
/// any other status.
HRESULT to_hresult(NTSTATUS status);

}  // namespace dxgkit::umd
