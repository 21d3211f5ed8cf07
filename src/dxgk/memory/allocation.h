// Allocations, their openings on devices, and the resources that group them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bus/machine.h"
#include "bus/user_memory.h"
#include "dxgk/core/frame_list.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/core/object.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

class DeviceMemory;
class OpenedAllocation;
class Resource;
class SharedResource;

/// The openings of one allocation, in the order they were made: linked through themselves. Leaving
/// costs a walk over those before.
class OpeningList {
 public:
  class Iterator {
   public:
    explicit Iterator(OpenedAllocation* at) : at_(at) {}
    OpenedAllocation* operator*() const { return at_; }
    Iterator& operator++();
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    OpenedAllocation* at_;
  };
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(nullptr); }
  bool empty() const { return first_ == nullptr; }
  OpenedAllocation* front() const { return first_; }
  void push_back(OpenedAllocation* opened);
  /// Ignores who is not on it.
  void erase(OpenedAllocation* opened);

 private:
  OpenedAllocation* first_ = nullptr;
};

/// The adapter-wide object behind an allocation (ALLOC-04): driver's handle, system backing,
/// identity in vidmm. There may be a million of these, and of openings: their size is measured
/// (bench, alloc.bytes_each_1e6).
struct Allocation {
  AllocationId id;
  void* driver_handle = nullptr;
  uint64_t size_bytes = 0;  // rounded to pages
  uint32_t info_flags = 0;  // DXGK_ALLOCATIONINFOFLAGS.Value
  bool cpu_visible = false;
  bool cached = false;
  bool forgotten = false;  // vidmm has given it up; its last operations are still running
  bool primary = false;
  bool instance = false;       // of a rename list: the first one has the driver's object
  bool borrows_pages = false;  // they are another's, who frees them
  bool stale DXGKIT_GUARDED_BY(on_lane) =
      false;  // a primary of a mode that is set no longer (DISP-17); lane
  static constexpr uint8_t kNoSource = 0xFF;
  uint8_t vidpn_source = kNoSource;  // a primary's
  /// Offered at once, given up only after `uses` of all openings have ended (ALLOC-44).
  bool offer_pending DXGKIT_GUARDED_BY(on_lane) = false;
  bool allows_decommit DXGKIT_GUARDED_BY(on_lane) = false;  // its last offer did (ALLOC-59)
  vidmm::OfferPriority offer DXGKIT_GUARDED_BY(on_lane) = vidmm::OfferPriority::kNone;
  bool on_overlay DXGKIT_GUARDED_BY(on_lane) = false;  // an overlay shows it, or is about to
  uint32_t maximum_renaming DXGKIT_GUARDED_BY(on_lane) =
      0;  // instances at most, the first included (ALLOC-39); 0: no limit
  uint32_t listed_at DXGKIT_GUARDED_BY(on_lane) =
      0;  // lane: where a packet's list of uses may have it
  SharedResource* shared DXGKIT_GUARDED_BY(on_lane) =
      nullptr;  // of which it is a member; lives as long
  std::unique_ptr<bus::UserMemory> user_memory
      DXGKIT_GUARDED_BY(on_lane);  // owns the pages, when the client gave them
  FrameList pages
      DXGKIT_GUARDED_BY(on_lane);  // backing store: content while outside memory segments
  OpeningList opened DXGKIT_GUARDED_BY(on_lane);  // for moving CPU views along with content

  static constexpr uint32_t kPermanentSysMem = 1U << 1;  // of info_flags, in both models
  /// The CPU sees the backing pages, wherever the content is (ALLOC-48).
  bool keeps_system_copy() const { return (info_flags & kPermanentSysMem) != 0; }

  void recycle() { *this = Allocation{}; }
};

/// An opening on its device's residency list (RES-01).
struct Listing {
  uint64_t request = 0;  // number of the MakeResident that counts it and waits for room; 0: none
  uint64_t leaves_with = 0;   // epoch
  uint32_t count = 0;         // MakeResident minus Evict
  bool listed = false;        // in the device's set: it may outlast the count (RES-16)
  bool leaving = false;       // off the set when nothing of `leaves_with` or before it is queued
  bool leave_lazily = false;  // EvictOnlyIfNecessary (RES-14)
};

/// How a lock looks at content: remembered while it lasts, as content may come back elsewhere.
struct CpuLook {
  uint32_t private_data = 0;      // for the driver's swizzling range
  bool acquire_aperture = false;  // through a swizzling range
  bool alternate_va = false;      // UseAlternateVA: the driver chooses place and size
  bool may_leave = false;         // another way is open: the content can move to where it is seen
};

/// What an opening has only once the CPU looks at it.
struct CpuAccess {
  std::unique_ptr<bus::CpuView> view;  // while locked: the address Lock2 gave out (ALLOC-40)
  /// Renaming (ALLOC-39): instances after the first, in the order of the cycle; index of the one in
  /// use, 0 for the first.
  OpenedAllocation* original = nullptr;  // of an instance: the first
  std::vector<Ref<OpenedAllocation>> instances;
  size_t current = 0;
  CpuLook look;                             // of the lock
  std::optional<uint32_t> swizzling_range;  // while it is seen through one (SEG-21)
  /// While it is seen through a CPU host aperture (ALLOC-41): its pages.
  SegmentId host_segment;
  std::vector<uint32_t> host_pages;
  /// ALLOC-48: what of a permanent copy in system memory the CPU may have written, since it was
  /// locked.
  std::vector<vidmm::ByteRange> written;
  /// The driver has set something up for what the CPU sees.
  bool told() const { return swizzling_range.has_value() || !host_pages.empty(); }
};

/// An allocation as one device sees it; what a client's allocation handle names.
class OpenedAllocation : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kAllocation;
  OpenedAllocation();
  ~OpenedAllocation() override;
  uint64_t trace_id() const override { return allocation == nullptr ? 0 : allocation->id.value; }

  /// Made when it is first needed; lane.
  CpuAccess& cpu();
  /// Null: the CPU never looked.
  CpuAccess* cpu_if_any() { return cpu_.get(); }
  const CpuAccess* cpu_if_any() const { return cpu_.get(); }
  /// Of a rename list (ALLOC-39), itself if there is none: the first one, and the one in use.
  bool is_instance() const { return cpu_ != nullptr && cpu_->original != nullptr; }
  OpenedAllocation& first_instance() { return is_instance() ? *cpu_->original : *this; }
  OpenedAllocation& current_instance();
  /// This is the one in use from now on; the one before it is retired (ALLOC-36). Lane.
  void make_current_instance() DXGKIT_REQUIRES(on_lane);
  std::span<const Ref<OpenedAllocation>> instances() const;

  Ref<DeviceMemory> device;
  Ref<Resource> resource;  // null for a stand-alone allocation
  // The adapter's; lives while it has openings. Null at the end of closing, not before.
  Allocation* allocation = nullptr;
  void* driver_allocation = nullptr;  // hAllocation: readable off the lane while this is open
  void* device_specific = nullptr;
  Handle handle = 0;
  // Lane:
  uint32_t uses DXGKIT_GUARDED_BY(on_lane) =
      0;  // DMA buffers in flight that list it: delays destruction (ALLOC-27)
  uint32_t writes DXGKIT_GUARDED_BY(on_lane) = 0;             // those of `uses` that may write it
  uint32_t driver_references DXGKIT_GUARDED_BY(on_lane) = 0;  // DxgkCbAcquireHandleData (ALLOC-32)
  uint32_t arrival = 0;                                       // on its device's list
  uint32_t locks DXGKIT_GUARDED_BY(on_lane) = 0;
  bool closing DXGKIT_GUARDED_BY(on_lane) = false;
  bool read_only = false;  // opened through an NT handle without write access; constant
  Listing listing DXGKIT_GUARDED_BY(on_lane);

  OpenedAllocation* next_opening = nullptr;  // of the same allocation: its OpeningList's

 private:
  std::unique_ptr<CpuAccess> cpu_;
};

class Resource : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kResource;
  Resource();
  ~Resource() override;

  Ref<DeviceMemory> device;
  Ref<SharedResource> shared;  // null for one device's own resource
  Handle handle = 0;
  void* driver_handle = nullptr;
  bool closing DXGKIT_GUARDED_BY(on_lane) = false;
  uint32_t arrival = 0;                                               // on its device's list; lane
  std::vector<OpenedAllocation*> members DXGKIT_GUARDED_BY(on_lane);  // in creation order
};

}  // namespace dxgkit::dxgk
