// Memory of a running adapter by hand, for the exerciser that verifies a driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "bus/machine.h"
#include "dxgk/core/handle_table.h"
#include "port/types.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

class Adapter;
class Process;
struct DisplayFloor;

/// Moves allocations, and bytes of segments that nobody has. See Exercise for who may call and
/// when. Every call answers kDeviceRemoved once the adapter has failed, and kNotSupported for a
/// display-only adapter.
class MemoryExercise {
 public:
  explicit MemoryExercise(Adapter& adapter) : adapter_(adapter) {}

  // --- residency ---
  /// Brings an allocation in, as a packet that writes it would, and lets go of it again: it stays
  /// until evicted. Answers where it is. kInvalidParameter: no allocation of the process; else what
  /// make_resident says of its room.
  Result<vidmm::Placement> page_in(Process& process, Handle allocation);
  /// Brings all of them in at once, none twice, so that paging buffers hold operations of several.
  /// Answers where each is.
  Result<std::vector<vidmm::Placement>> page_in(Process& process,
                                                std::span<const Handle> allocations);
  /// Moves it back to its system pages.
  Status page_out(Process& process, Handle allocation);
  /// Overwrites the backing pages of an allocation that is in a memory segment, so that a transfer
  /// that moves nothing shows. False if it is not in a memory segment: nothing written.
  bool scribble_backing(Process& process, Handle allocation, std::byte value);
  /// Writes the first bytes of the content of an allocation that is in no segment. False if it is
  /// in one, if paging has to do with it, or if it is smaller: nothing written.
  bool write_backing(Process& process, Handle allocation, std::span<const std::byte> content);
  /// Fills the content of an allocation that is in no memory segment: all its pages, with these
  /// four bytes again and again. False if it is in one, or if paging has to do with it: nothing
  /// written.
  bool fill_backing(Process& process, Handle allocation, uint32_t pattern);
  /// The driver fills an allocation that is in a memory segment with these four bytes, again and
  /// again (PAGE-51). kInvalidParameter: it is not in one.
  Status fill(Process& process, Handle allocation, uint32_t pattern);
  Status fill(AllocationId allocation, uint32_t pattern);

  /// Bytes of its pages, by what the driver said at its creation; 0: no allocation of the process.
  uint64_t size_bytes(Process& process, Handle allocation);

  // --- paging that is about no allocation; a segment range nobody has ---
  /// A plain byte copy (PAGE-21) into a memory segment, from contiguous pages, or out of it.
  /// kInvalidParameter: no memory segment, not whole pages, outside it, or somebody's place.
  Status write_plain(SegmentId segment, uint64_t offset_bytes, std::span<const std::byte> bytes);
  Result<std::vector<std::byte>> read_plain(SegmentId segment, uint64_t offset_bytes,
                                            uint64_t size_bytes);
  /// From one place of a memory segment to another that does not overlap it. As above.
  Status move_plain(SegmentId segment, uint64_t from_bytes, uint64_t to_bytes, uint64_t size_bytes);
  /// What the engines find in an aperture segment (PAGE-29), copied to pages of no allocation. For
  /// places that an allocation has, or has had. kInvalidParameter: no aperture segment, not whole
  /// pages, or outside it.
  Result<std::vector<std::byte>> read_aperture(SegmentId segment, uint64_t offset_bytes,
                                               uint64_t size_bytes);
  /// Fills the page at which unmapped places of aperture segments point.
  void fill_dummy_page(std::span<const std::byte> page);
  /// The driver reads or writes a few bytes there, whatever they are (PAGE-25). As above.
  Status touch(SegmentId segment, uint64_t offset_bytes, bool write);
  /// An allocation of the kernel's own, of no driver object, goes to the segment and comes back,
  /// with the pages it left spoilt meanwhile: `content` (whole pages) is transferred there and
  /// back; empty: `size_bytes` are filled and come back. Both may evict others. What came back.
  /// kInvalidParameter: no memory segment, not whole pages, more than it holds; kNoMemory.
  Result<std::vector<std::byte>> through_segment(SegmentId segment,
                                                 std::span<const std::byte> content,
                                                 uint64_t size_bytes);

 private:
  DisplayFloor& floor() const;
  bool running() const;
  Result<AllocationId> find(Process& process, Handle allocation);
  Status check_free_place(SegmentId segment, uint64_t offset_bytes, uint64_t size_bytes,
                          vidmm::Placement* place);
  /// From `place` to pages of our own, which hold other bytes before.
  Result<std::vector<std::byte>> copy_out(const vidmm::Placement& place, uint64_t size_bytes);
  Status copy_plain(const vidmm::Placement& place, std::span<const bus::PageFrame> pages, bool in);
  Status transfer_plain(const port::PagingOperation& copy);

  Adapter& adapter_;
};

}  // namespace dxgkit::dxgk
