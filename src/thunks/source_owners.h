// What the versions of D3DKMTSetVidPnSourceOwner have in common.
#pragma once

#include <d3dkmthk.h>

#include "base/status.h"
#include "dxgk/core/process.h"

namespace dxgkit::thunks {

/// D3DKMTSetVidPnSourceOwner (DISP-18). `args` is captured; its lists are the client's.
Status set_source_owners(dxgk::Process& process, const D3DKMT_SETVIDPNSOURCEOWNER& args);

}  // namespace dxgkit::thunks
