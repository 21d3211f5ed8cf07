// GPU virtual addresses in the trace: one test of a pointer where nothing is recorded.
#pragma once

#include <span>

#include "dxgk/va/gpu_space.h"
#include "port/types.h"
#include "trace/trace.h"

namespace dxgkit::dxgk::gpu_va_trace {

// What the calls below do when a recorder is there. Lane: the adapter's.
void record_space(const GpuSpace& space);
void record_changed(const GpuSpace& space, const gpuva::PageSpans& changed);
void record_entries(const GpuSpace& space, const port::PageTableUpdate& update);

/// An address space begins.
inline void space(const GpuSpace& space) {
  if (trace::current() != nullptr) record_space(space);
}
/// `changed` show something else from now on: what, is in the space.
inline void changed(const GpuSpace& space, const gpuva::PageSpans& changed) {
  if (trace::current() != nullptr) record_changed(space, changed);
}
/// Entries are handed to the driver.
inline void entries(const GpuSpace& space, const port::PageTableUpdate& update) {
  if (trace::current() != nullptr && !space.kernel_only) record_entries(space, update);
}

}  // namespace dxgkit::dxgk::gpu_va_trace
