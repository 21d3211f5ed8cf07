// Fault injection for tests: drivers that fail, refuse, or see less room than there is.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

/// The name by which `room` is asked for the private data of a paging buffer.
inline constexpr std::string_view kPagingPrivateRoom = "DxgkDdiBuildPagingBuffer, private data";

/// Asked around the driver's answers of one adapter (AdapterOptions::faults); simulations use it.
/// Its answers are judged as the driver's own. Any thread that enters the driver, the lane
/// included: it must not block. Without an injector a DDI costs one more load.
class FaultInjector {
 public:
  virtual ~FaultInjector() = default;
  /// Called before the entry `ddi` ("DxgkDdiRender"); for DxgkDdiBuildPagingBuffer before_paging is
  /// called instead. If it returns a status, the driver is not called, its outputs stay as they
  /// were, and the status is its answer. Also called before DxgkDdiDpcRoutine, where the call may
  /// take its time and the answer is ignored.
  virtual std::optional<Status> before_ddi(std::string_view ddi) = 0;
  /// Called before DxgkDdiBuildPagingBuffer with `buffer_bytes` of room. As before_ddi. Not for
  /// updates without a paging buffer, which may not fail (PAGE-03).
  virtual std::optional<Status> before_paging(const PagingOperation& operation,
                                              uint32_t buffer_bytes) = 0;
  /// Of the `bytes` left in a buffer, the number that the driver is told (DmaSize); 1 to `bytes`.
  /// For kPagingPrivateRoom, DmaBufferPrivateDataSize.
  virtual uint32_t room(std::string_view ddi, uint32_t bytes) = 0;
  /// How many bytes behind the end of the DMA buffer the driver claims to have written; 0: the
  /// driver's own answer.
  virtual uint32_t overrun(std::string_view) { return 0; }
  /// True to repeat a completion that was just reported. In interrupt context.
  virtual bool repeats_report() { return false; }
  /// Receives the driver's description of its segments, and may make them smaller.
  virtual void shape(SegmentsInfo* segments) = 0;
  /// Receives the resources of the device before DxgkDdiStartDevice, and may change what the driver
  /// finds in its list. An empty list reaches the driver as a null pointer.
  virtual void shape_resources(std::vector<DeviceResource>* resources) {
    static_cast<void>(resources);
  }
  /// Receives what the driver said of an allocation that it has made.
  virtual void allocation_made(const AllocationInfo& info) { static_cast<void>(info); }
  /// True to have each DxgkDdiQueryAdapterInfo come with smaller buffers first, and with a type
  /// that does not exist (LIFE-30).
  virtual bool probes_queries() { return false; }
  /// How many of `bytes` of a client's commands DxgkDdiRender can read, as where the client has
  /// unmapped the rest: `bytes`, or a multiple of 16 below it.
  virtual uint32_t readable_commands(uint32_t bytes) { return bytes; }
  /// Called for a buffer whose allocations are all where DxgkDdiRender was told that they are. True
  /// to submit it without DxgkDdiPatch (PATCH-01, REND-07).
  virtual bool spares_patch() { return false; }
  /// Called before the callback `callback` ("DxgkCbMapMemory") does anything, if it may fail. A
  /// returned status is the driver's answer. Callbacks without a status answer as for a wrong
  /// handle.
  virtual std::optional<Status> before_callback(std::string_view callback) {
    static_cast<void>(callback);
    return std::nullopt;
  }
};

}  // namespace dxgkit::port
