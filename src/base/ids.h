// Strong integers: an id of one kind never converts to another.
#pragma once

#include <compare>
#include <cstdint>

namespace dxgkit {

/// An integer with a kind. `Tag` is an empty struct that names the kind. Totally ordered, so it can
/// be a key of ordered maps; never hash-iterate it.
template <typename Tag, typename Rep>
struct StrongId {
  using rep = Rep;
  Rep value{};

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}
  constexpr auto operator<=>(const StrongId&) const = default;
};

/// Node of an adapter, zero-based (DXGKARG_*.NodeOrdinal).
using NodeOrdinal = StrongId<struct NodeOrdinalTag, uint32_t>;
/// Per-node 32-bit fence of the packet model. 0 is never issued (SUB-14). Compare with
/// `fence_newer`.
using SubmissionFenceId = StrongId<struct SubmissionFenceTag, uint32_t>;
/// One-based position in the driver's segment array; 0 = system memory (SEG-07, SEG-08).
using SegmentId = StrongId<struct SegmentIdTag, uint32_t>;
inline constexpr SegmentId kSystemMemory{0};

/// Ids that the kernel passes between vidmm, vidsch and dxgk. They have 64 bits and are never
/// reused during an adapter's life.
using AllocationId = StrongId<struct AllocationIdTag, uint64_t>;
using ContextId = StrongId<struct ContextIdTag, uint64_t>;
using PacketId = StrongId<struct PacketIdTag, uint64_t>;
using SyncObjectId = StrongId<struct SyncObjectIdTag, uint64_t>;

/// True if `a` was issued after `b`, by signed distance, so that the 32-bit wrap is harmless
/// (SUB-13).
constexpr bool fence_newer(SubmissionFenceId a, SubmissionFenceId b) {
  return static_cast<int32_t>(a.value - b.value) > 0;
}

}  // namespace dxgkit
