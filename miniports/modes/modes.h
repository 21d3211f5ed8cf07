// What a display driver says about modes: the VidPN side, with no state and no device.
#pragma once

#include <dispmprt.h>

namespace modes {

/// Every source shows every one of these sizes, four bytes per pixel, on one target.
struct Size {
  UINT width, height;
};

struct ModeTable {
  const DXGKRNL_INTERFACE* dxgk;
  const Size* sizes;
  UINT size_count;
  /// Hz of every target mode; 0: not specified, which is a display-only driver's right.
  UINT refresh_hz;
  /// Whether the declared version knows path-independent rotation: an offset must be named.
  bool rotation_offsets;
};

/// What a source is to show after CommitVidPn; width 0: nothing.
struct Shown {
  UINT width, height, pitch;
  D3DDDIFORMAT format;
  D3DDDI_VIDEO_PRESENT_TARGET_ID target;
};

/// DxgkDdiIsSupportedVidPn: at most one path from each source, and the same size pinned at both
/// ends, if any.
NTSTATUS is_supported(const ModeTable& table, DXGKARG_ISSUPPORTEDVIDPN* args);
/// DxgkDdiEnumVidPnCofuncModality: every set that is neither pinned nor the pivot becomes the
/// table; a pinned size leaves the modes of that size at the other end.
NTSTATUS enumerate(const ModeTable& table, const DXGKARG_ENUMVIDPNCOFUNCMODALITY* args);
/// DxgkDdiCommitVidPn: what the affected source shows from now on.
NTSTATUS read_commit(const ModeTable& table, const DXGKARG_COMMITVIDPN* args, Shown* shown);
/// DxgkDdiRecommendMonitorModes: `size`, unless the monitor has it.
NTSTATUS recommend_monitor_mode(const ModeTable& table, const DXGKARG_RECOMMENDMONITORMODES* args,
                                const Size& size);

}  // namespace modes
