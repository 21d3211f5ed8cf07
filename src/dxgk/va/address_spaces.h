// The GPU virtual address spaces of an adapter, by process.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/status.h"
#include "dxgk/va/gpu_space.h"
#include "dxgk/va/va_floor.h"
#include "gpuva/geometry.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class SecondSpace;

/// Which of a process's two address spaces: its own, or the one its privileged work runs in
/// (VA-34). Own spaces come first, by process number.
struct SpaceKey {
  bool second = false;
  uint32_t process = 0;
  auto operator<=>(const SpaceKey&) const = default;
};

/// Pages of an allocation whose mappings all have this driver protection (VA-24, PAGE-36).
struct UniqueRange {
  gpuva::PageSpan pages;
  uint64_t driver_protection = 0;
};

/// Which spaces there are, from a process's beginning to its end. Lane: the adapter's, except where
/// a call says otherwise.
class AddressSpaces {
 public:
  AddressSpaces(VaFloor& floor, const gpuva::Geometry& geometry)
      : floor_(floor), geometry_(geometry) {}

  // --- processes; not on the lane ---
  /// Before DxgkDdiCreateProcess: reservations of the driver go there. 0: the paging process.
  void process_begins(uint32_t process);
  /// The driver has made it.
  void process_made(uint32_t process, void* driver_process);
  /// After its last device: its tables are freed. The driver's process is destroyed next.
  void process_ends(uint32_t process);
  /// VA-09. The port has checked the request's shape.
  Result<uint64_t> reserve_for_driver(const port::GpuVaReservation& range);

  /// Constant. Any thread.
  const gpuva::Geometry& geometry() const { return geometry_; }
  /// Null: there is no such process here. 0: the paging process.
  std::shared_ptr<GpuSpace> of(uint32_t process) const DXGKIT_REQUIRES(on_lane);
  /// Null: the process has no second space.
  std::shared_ptr<SecondSpace> second_of(uint32_t process) const DXGKIT_REQUIRES(on_lane);
  /// The second space as others are; null likewise.
  std::shared_ptr<GpuSpace> kernel_space_of(uint32_t process) const DXGKIT_REQUIRES(on_lane) {
    return at({.second = true, .process = process});
  }
  void add_second(uint32_t process, std::shared_ptr<SecondSpace> second) DXGKIT_REQUIRES(on_lane);
  /// Without the paging process's.
  const std::map<SpaceKey, std::shared_ptr<GpuSpace>>& all() const DXGKIT_REQUIRES(on_lane) {
    return spaces_;
  }
  const std::map<uint32_t, std::shared_ptr<SecondSpace>>& seconds() const DXGKIT_REQUIRES(on_lane) {
    return seconds_;
  }
  /// At the end. The paging process's space stays.
  void clear() DXGKIT_REQUIRES(on_lane);

  /// Something of the allocation is mapped to the process.
  bool maps(uint32_t process, AllocationId allocation) const DXGKIT_REQUIRES(on_lane);
  /// A client maps with this driver protection.
  void note_protection(uint64_t driver_protection) DXGKIT_REQUIRES(on_lane) {
    if ((driver_protection & gpuva::kUniqueDriverProtection) != 0) unique_seen_ = true;
  }
  /// In order, and apart. Cost: O(1) while no client has such a protection.
  std::vector<UniqueRange> unique_ranges(AllocationId allocation) const DXGKIT_REQUIRES(on_lane);

 private:
  std::shared_ptr<GpuSpace> at(SpaceKey key) const DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
  const gpuva::Geometry geometry_;
  std::shared_ptr<GpuSpace> paging_ DXGKIT_GUARDED_BY(on_lane);  // null before it begins
  std::map<SpaceKey, std::shared_ptr<GpuSpace>> spaces_ DXGKIT_GUARDED_BY(on_lane);
  std::map<uint32_t, std::shared_ptr<SecondSpace>> seconds_ DXGKIT_GUARDED_BY(on_lane);
  bool unique_seen_ DXGKIT_GUARDED_BY(on_lane) = false;
};

}  // namespace dxgkit::dxgk
