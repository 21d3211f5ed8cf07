// What parts of the lower floors ask of parts above them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "dxgk/display/display_floor.h"
#include "dxgk/memory/residency.h"
#include "dxgk/memory/shown_allocations.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/sync/sync_addresses.h"
#include "dxgk/work/device.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Answers for GPU virtual addresses, context allocations, the timeout watch and the display. A
/// part that the adapter does not have has nothing to say.
class UpwardCalls : public NativeFences::Owner,
                    public Residency::Owner,
                    public ShownAllocations,
                    public SourceOwners,
                    public SyncAddresses {
 public:
  explicit UpwardCalls(DisplayFloor& floor) : floor_(floor) {}

  // NativeFences::Owner
  bool hardware_resets() const override DXGKIT_REQUIRES(on_lane);
  // Residency::Owner
  bool tables_are_away(const Process& process) const override DXGKIT_REQUIRES(on_lane);
  TableRoom table_room(const Process& process) override DXGKIT_REQUIRES(on_lane);
  bool tables_give_way(const Process& process) const override DXGKIT_REQUIRES(on_lane);
  Tables bring_tables(const Process& process) override DXGKIT_REQUIRES(on_lane);
  bool let_tables_go() override DXGKIT_REQUIRES(on_lane);
  bool let_tables_go(vidmm::SegmentSet wanted) override DXGKIT_REQUIRES(on_lane);
  bool entries_under_way(AllocationId allocation) override DXGKIT_REQUIRES(on_lane);
  bool let_idle_go() override DXGKIT_REQUIRES(on_lane);
  // ShownAllocations
  void before_destroy(DeviceMemory& device, const Ref<Resource>& resource,
                      std::span<const Ref<OpenedAllocation>> targets) override;
  void after_closing(DeviceMemory& device, const Ref<Resource>& resource,
                     std::span<const Ref<OpenedAllocation>> targets) override;
  // SourceOwners
  void device_ends(Device& device) override;
  void before_memory_ends(Device& device) override;
  // SyncAddresses
  Result<uint64_t> map_system_page(uint32_t process, bus::PageFrame page,
                                   std::function<void()> then) override DXGKIT_REQUIRES(on_lane);
  void unmap_system_page(uint32_t process, uint64_t address, std::function<void()> then) override
      DXGKIT_REQUIRES(on_lane);

 private:
  /// OPT-35: those with Capture, which nobody else has open, are captured no more.
  void stop_captures(std::span<const Ref<OpenedAllocation>> openings);

  DisplayFloor& floor_;
};

}  // namespace dxgkit::dxgk
