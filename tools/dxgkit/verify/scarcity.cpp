#include "tools/dxgkit/verify/scarcity.h"

#include <algorithm>
#include <bit>

#include "dxgk/core/segment_flags.h"
#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

namespace {

void raise(std::atomic<uint32_t>& most, uint32_t bytes) {
  uint32_t seen = most.load(std::memory_order_relaxed);
  while (seen < bytes && !most.compare_exchange_weak(seen, bytes)) {
  }
}

}  // namespace

bool has_memory_segment(std::span<const port::SegmentInfo> segments) {
  return std::ranges::any_of(segments, [](const port::SegmentInfo& segment) {
    return (segment.flags & dxgk::kSegmentAperture) == 0;
  });
}

uint64_t Scarcity::random() {
  // One step for each number, whoever asks.
  return mixed(numbers_.fetch_add(kMixStep, std::memory_order_relaxed));
}

std::optional<Status> Scarcity::before_paging(const port::PagingOperation&, uint32_t buffer_bytes) {
  raise(whole_buffer_bytes_, buffer_bytes);
  return std::nullopt;
}

uint32_t Scarcity::room(std::string_view ddi, uint32_t bytes) {
  const bool of_private_data = ddi == port::kPagingPrivateRoom;
  if (!of_private_data && ddi != "DxgkDdiBuildPagingBuffer") return bytes;
  // A driver may rely on a whole buffer where the buffer is new.
  std::atomic<uint32_t>& whole = of_private_data ? whole_private_bytes_ : whole_buffer_bytes_;
  if (of_private_data) raise(whole, bytes);
  if (bytes >= whole.load(std::memory_order_relaxed)) return bytes;
  const uint64_t number = random();
  if (number % 3 != 0) return bytes;
  cuts_.fetch_add(1, std::memory_order_relaxed);
  // Of every magnitude, as a few bytes more or less matter where there are few.
  const auto digits = static_cast<uint32_t>(std::bit_width(bytes));
  const uint32_t most = std::max(bytes >> ((number >> 8) % digits), 1U);
  return static_cast<uint32_t>(1 + (number >> 16) % most);
}

void Scarcity::shape(port::SegmentsInfo* segments) {
  if (segment_bytes_ == 0) return;
  // Apertures are large, and what leaves memory may need them. If there is nothing else, they are
  // what is scarce.
  const bool has_memory = has_memory_segment(segments->segments);
  for (port::SegmentInfo& segment : segments->segments) {
    const bool aperture = (segment.flags & dxgk::kSegmentAperture) != 0;
    if ((aperture && has_memory) || segment.size <= segment_bytes_) continue;
    // What has a structure of its own inside is left alone.
    if (segment.bank_count != 0 || !segment.invalid_ranges.empty() || segment.reserved != 0)
      continue;
    segment.size = segment_bytes_;
    segment.commit_limit = std::min(segment.commit_limit, segment.size);
  }
}

}  // namespace dxgkit::tool::verify
