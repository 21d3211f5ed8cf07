// The screen of the display variant: one source, one output that is always connected.
#pragma once

#ifndef SOFTGPU_HAS_SCREEN
#define SOFTGPU_HAS_SCREEN 0
#endif

#if SOFTGPU_HAS_SCREEN
#include "miniports/softgpu/commands.h"

namespace softgpu {

struct Adapter;

/// The service key's ScreenSize: width | height << 16, in pixels; 0 or no value: a render-only
/// adapter. STATUS_INVALID_PARAMETER: one of the two is 0.
NTSTATUS read_screen_size(PUNICODE_STRING registry_path);
/// The entries of mode management and flips, if a size was given.
void add_screen_entries(DRIVER_INITIALIZATION_DATA* data);
/// Sources, and children: 1 if the device has a screen and a size was given.
ULONG screen_count(const Adapter& adapter);
void screen_caps(DXGK_DRIVERCAPS* caps);
/// Device level. Reports a vertical sync, if something is shown.
void report_vsync(Adapter* adapter);
/// The display reads no memory any more.
void screen_off(const Adapter& adapter);

}  // namespace softgpu
#endif
