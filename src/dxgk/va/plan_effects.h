// What plans of page tables do beside writing entries: contexts leave the engines, get another
// root, and tables go.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dxgk/va/gpu_space.h"
#include "dxgk/va/va_floor.h"
#include "gpuva/page_tables.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class SpaceUser;

/// Plans are carried out inside the paging executor, where nothing may page or schedule. So tables
/// are freed and contexts let back onto the engines later, in `collect`. Lane: the adapter's.
class PlanEffects {
 public:
  /// Where the tables of a process begin, as contexts were told last.
  struct Root {
    port::GpuPhysicalAddress place;
    uint32_t entries = 0;
  };
  explicit PlanEffects(VaFloor& floor) : floor_(floor) {}

  VaFloor& floor() { return floor_; }

  // --- contexts off the engines ---
  bool contexts_idle(const GpuSpace& space) DXGKIT_REQUIRES(on_lane);
  void begin_hold(GpuSpace& space) DXGKIT_REQUIRES(on_lane);
  void end_hold_later(std::shared_ptr<GpuSpace> space) DXGKIT_REQUIRES(on_lane) {
    unheld_.push_back(std::move(space));
  }

  // --- roots ---
  /// All contexts of the space have this root from now on.
  void set_root(GpuSpace& space, const gpuva::Step& step) DXGKIT_REQUIRES(on_lane);
  void set_root_of(GpuSpace& space, SpaceUser& context) DXGKIT_REQUIRES(on_lane);
  /// For a context of the kernel's own. The space has a root.
  void set_kernel_root(const GpuSpace& space, void* context) DXGKIT_REQUIRES(on_lane);
  /// Nothing: no context of the process has a root, or the tables are being written again.
  std::optional<Root> root_of(uint32_t process) DXGKIT_REQUIRES(on_lane);

  // --- what was put off ---
  void free_later(std::span<const gpuva::TableId> tables) DXGKIT_REQUIRES(on_lane) {
    freed_.insert(freed_.end(), tables.begin(), tables.end());
  }
  /// Called when the paging executor is not in the middle of something. Frees tables, lets contexts
  /// back, and has the executor look again at work that waits for contexts to leave the engines.
  void collect() DXGKIT_REQUIRES(on_lane);

 private:
  port::RootPageTable shown_root(const GpuSpace& space) DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
  std::vector<gpuva::TableId> freed_ DXGKIT_GUARDED_BY(on_lane);
  std::vector<std::shared_ptr<GpuSpace>> unheld_ DXGKIT_GUARDED_BY(on_lane);
  bool collecting_ DXGKIT_GUARDED_BY(on_lane) = false;
  /// The head of the paging executor's queue waits for contexts to leave.
  bool contexts_in_the_way_ DXGKIT_GUARDED_BY(on_lane) = false;
};

}  // namespace dxgkit::dxgk
