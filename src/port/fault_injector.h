// A test's hand on the door: drivers that fail, refuse or see less room than there is.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

/// Asked around the driver's answers of one adapter (AdapterOptions::faults); simulations use it.
/// What it answers is judged as if the driver had said it. Any thread that enters the driver, the
/// lane included: must not block. Without one a DDI costs one more load.
class FaultInjector {
 public:
  virtual ~FaultInjector() = default;
  /// Before the entry `ddi` ("DxgkDdiRender") is called; for DxgkDdiBuildPagingBuffer before_paging
  /// comes instead. A status: the driver is not called, its outputs stay as they were, and this is
  /// its answer. Before DxgkDdiDpcRoutine, too, whose call may take its time then; the answer is
  /// not looked at.
  virtual std::optional<Status> before_ddi(std::string_view ddi) = 0;
  /// Before DxgkDdiBuildPagingBuffer with `buffer_bytes` of room. As before_ddi. Not for updates
  /// without a paging buffer, which may not fail (PAGE-03).
  virtual std::optional<Status> before_paging(const PagingOperation& operation,
                                              uint32_t buffer_bytes) = 0;
  /// How many of the `bytes` left of a buffer the driver is told of (DmaSize); 1 to `bytes`.
  virtual uint32_t room(std::string_view ddi, uint32_t bytes) = 0;
  /// How many bytes behind the end of the DMA buffer the driver says it has written; 0: the
  /// driver's own answer.
  virtual uint32_t overrun(std::string_view) { return 0; }
  /// Whether a completion that was just reported comes a second time. In interrupt context.
  virtual bool repeats_report() { return false; }
  /// What the driver said of its segments; may be made smaller.
  virtual void shape(SegmentsInfo* segments) = 0;
  /// Before the callback `callback` ("DxgkCbMapMemory") does anything, where one may fail. A
  /// status: the driver gets it as the answer (callbacks that answer no status: as for a wrong
  /// handle).
  virtual std::optional<Status> before_callback(std::string_view callback) {
    static_cast<void>(callback);
    return std::nullopt;
  }
};

}  // namespace dxgkit::port
