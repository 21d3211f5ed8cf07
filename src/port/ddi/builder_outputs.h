// What DxgkDdiRender and DxgkDdiPresent say they have built.
#pragma once

#include <cstdint>

#include "port/types.h"

namespace dxgkit::port {

struct PortCore;
struct DdiInfo;

/// Where what a driver builds was to go, and where it says it ended.
struct BuilderOutputs {
  struct Span {
    const void* start = nullptr;
    const void* end = nullptr;
    uint64_t room = 0;  // bytes
  };
  Span dma, patches, private_data;
};

/// REND-08: how far Render or Present advanced what it was given, into `result`; fatal, and
/// kUnsuccessful there, if that was further than there was room.
void measure_outputs(PortCore& core, const DdiInfo& info, const BuilderOutputs& outputs,
                     RenderResult* result);

}  // namespace dxgkit::port
