// The outputs of DxgkDdiRender and DxgkDdiPresent.
#pragma once

#include <cstdint>

#include "port/types.h"

namespace dxgkit::port {

struct PortCore;
struct DdiInfo;

/// The place for what a driver builds, and the end that it reports.
struct BuilderOutputs {
  struct Span {
    const void* start = nullptr;
    const void* end = nullptr;
    uint64_t room = 0;  // bytes
  };
  Span dma, patches, private_data;
};

/// REND-08: computes how far Render or Present advanced its pointers, into `result`. Fatal, with
/// kUnsuccessful in `result`, if the driver advanced past the room.
void measure_outputs(PortCore& core, const DdiInfo& info, const BuilderOutputs& outputs,
                     RenderResult* result);

}  // namespace dxgkit::port
