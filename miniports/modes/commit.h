// What a commit asks for, for drivers that have to know: those with several modes.
#pragma once

#include "miniports/modes/modes.h"

namespace modes {

/// What a source is to show after CommitVidPn; width 0: nothing.
struct Shown {
  UINT width, height;
  D3DDDI_VIDEO_PRESENT_TARGET_ID target;
};

/// DxgkDdiCommitVidPn: what the affected source shows from now on.
NTSTATUS read_commit(const ModeTable& table, const DXGKARG_COMMITVIDPN* args, Shown* shown);

}  // namespace modes
