// A kernel that has less to give than the machine has, as a busy one does.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"
#include "port/fault_injector.h"

namespace dxgkit::tool::verify {

/// Not all of them are apertures.
bool has_memory_segment(std::span<const port::SegmentInfo> segments);

/// Makes memory segments smaller, and tells the driver of less room where Windows may as well have
/// less: the rest of a paging buffer, and of its private data, that other operations have begun to
/// fill. The driver's answers stay its own. Any thread.
class Scarcity final : public port::FaultInjector {
 public:
  /// @param segment_bytes  what remains of each memory segment that has more, or of each aperture
  ///        if there are no others, in whole pages; 0: all of it
  Scarcity(uint64_t segment_bytes, uint64_t seed) : segment_bytes_(segment_bytes), numbers_(seed) {}

  /// Paging buffers that were made to look fuller than they were.
  uint64_t cuts() const { return cuts_.load(std::memory_order_relaxed); }

  std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
  std::optional<Status> before_paging(const port::PagingOperation& operation,
                                      uint32_t buffer_bytes) override;
  uint32_t room(std::string_view ddi, uint32_t bytes) override;
  void shape(port::SegmentsInfo* segments) override;

 private:
  uint64_t random();

  const uint64_t segment_bytes_;
  std::atomic<uint64_t> numbers_;
  std::atomic<uint64_t> cuts_{0};
  // The most room that was seen.
  std::atomic<uint32_t> whole_buffer_bytes_{0}, whole_private_bytes_{0};
};

}  // namespace dxgkit::tool::verify
