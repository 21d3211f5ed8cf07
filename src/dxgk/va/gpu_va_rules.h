// What a driver says of its GPU virtual addresses at start, and what is wrong with it.
#pragma once

#include <optional>
#include <string>

#include "gpuva/geometry.h"
#include "port/types.h"

namespace dxgkit::dxgk {

/// An adapter in the GpuMmu model: its tables, checked.
struct GpuVaModel {
  port::GpuMmuCaps caps;
  gpuva::Geometry geometry;
};

/// Why the adapter does not start; becomes a finding.
struct GpuVaRefusal {
  const char* rule = "";
  Status status = Status::kDeviceConfigurationError;  // kNotSupported: right, and not done here
  std::string actual, expected, fix;
  std::string why;
};

/// VA-01: which model the caps name. Nullopt: none, or GpuMmu; then gpu_mmu_supported says which.
std::optional<GpuVaRefusal> check_addressing_model(const port::DriverCaps& caps);

/// VA-02, VA-03. Fills `geometry` when it answers nullopt.
std::optional<GpuVaRefusal> check_gpu_mmu(const port::GpuMmuCaps& caps,
                                          const port::SegmentsInfo& segments,
                                          gpuva::Geometry* geometry);

}  // namespace dxgkit::dxgk
