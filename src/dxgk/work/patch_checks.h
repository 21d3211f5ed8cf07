// What a driver has written beside a DMA buffer.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/work/packet.h"
#include "port/types.h"

namespace dxgkit::dxgk {

/// Findings about patch locations. Any thread that has the buffer.
class PatchChecks {
 public:
  explicit PatchChecks(AdapterCore& core) : core_(core) {}

  /// PATCH-27, REND-22. kInvalidParameter: a finding says what is wrong.
  Status check_patches(const DmaBuffer& buffer, const port::RenderResult& result, const char* ddi);
  /// FIELD-01: allocations that nothing makes resident.
  void check_references(const DmaBuffer& buffer, const port::RenderResult& result);

 private:
  /// REND-22 of a driver that says it has no slots. The buffer is taken as it is.
  void report_slots_of_none(const DmaBuffer& buffer, const port::RenderResult& result,
                            const char* ddi);
  static bool plainly_right(const DmaBuffer& buffer, const port::RenderResult& result,
                            uint32_t slot_limit);

  AdapterCore& core_;
};

}  // namespace dxgkit::dxgk
