// Plans for page tables, carried out between content operations: the driver's side of gpuva.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dxgk/memory/paging_executor.h"
#include "dxgk/va/gpu_space.h"
#include "dxgk/va/second_space.h"
#include "dxgk/va/va_floor.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class PageTableMemory;
class PlanEffects;

/// How the tables of processes are written.
inline port::PageTableUpdateMode update_mode(const gpuva::Geometry& geometry) {
  return static_cast<port::PageTableUpdateMode>(geometry.update_mode);
}

/// Turns the steps of a plan into driver operations. Lane.
class StepWriter {
 public:
  /// `mode`: how this plan's tables are written. `copies`: steps that are not written; may be null,
  /// and outlives this.
  StepWriter(VaFloor& floor, GpuSpace& space, gpuva::Plan plan, port::PageTableUpdateMode mode,
             const BatchCopies* copies = nullptr);

  /// Appends the next operations, with a bounded number of entries; they point into this object.
  /// False: nothing more before what `at_root_change` or `at_copy` tells, or the end.
  bool next(std::vector<port::PagingOperation>* operations) DXGKIT_REQUIRES(on_lane);
  /// The next step gives contexts another root: the caller's to do, then skip it.
  const gpuva::Step* at_root_change() const DXGKIT_REQUIRES(on_lane);
  /// The next step's entries are copied: the caller's to do, then skip it.
  const SecondSpace::Ranges* at_copy() const DXGKIT_REQUIRES(on_lane);
  /// Traces the entries of such a step as if they were written.
  void tell_copy() DXGKIT_REQUIRES(on_lane);
  void skip() DXGKIT_REQUIRES(on_lane) { ++step_; }
  bool over() const DXGKIT_REQUIRES(on_lane) { return step_ == plan_.steps.size(); }
  /// Where the space's root is for what comes next.
  const gpuva::Plan& plan() const DXGKIT_REQUIRES(on_lane) { return plan_; }

 private:
  port::PagingOperation describe(const gpuva::Step& step, uint64_t first, uint64_t count,
                                 std::vector<gpuva::Pte>* entries) DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
  GpuSpace& space_;
  const gpuva::Plan plan_;
  const port::PageTableUpdateMode mode_;
  const BatchCopies* const copies_;
  size_t step_ = 0;
  uint64_t done_ = 0;  // entries of the step
  std::vector<std::vector<gpuva::Pte>> buffers_;
};

/// A whole plan as one element of the paging queue. Contexts of the space leave the engines where
/// the plan asks for it (VA-06, PAGE-38), and come back when the hardware has done it.
class PlanWork final : public PagingWork {
 public:
  PlanWork(PlanEffects& effects, std::shared_ptr<GpuSpace> space, gpuva::Plan plan,
           std::unique_ptr<BatchCopies> copies = nullptr);
  ~PlanWork() override;
  Next next(Part* part) override DXGKIT_REQUIRES(on_lane);

 private:
  void hold_contexts() DXGKIT_REQUIRES(on_lane);
  void copy(const SecondSpace::Ranges& ranges, Part* part) DXGKIT_REQUIRES(on_lane);

  PlanEffects& effects_;
  const std::shared_ptr<GpuSpace> space_;
  const std::shared_ptr<int> busy_;            // GpuSpace::busy
  const std::unique_ptr<BatchCopies> copies_;  // null: none
  // While slots are pointed at the tables of a copy, and the copy itself waits for that:
  std::unique_ptr<StepWriter> pointing_;
  std::vector<port::PageTableCopy> copy_;
  StepWriter writer_;
  const bool after_content_;  // begins when the hardware has done all before it: CPU-written
                              // entries of content on its way
  bool holding_ = false;
  bool told_ = false;  // the last part, with what waits for the hardware
};

/// Something the kernel does itself when its turn comes: done when `work` says so.
class CallWork final : public PagingWork {
 public:
  explicit CallWork(std::function<bool()> work) : work_(std::move(work)) {}
  Next next(Part*) override DXGKIT_REQUIRES(on_lane) {
    return work_() ? Next::kOver : Next::kLater;
  }

 private:
  std::function<bool()> work_;
};

}  // namespace dxgkit::dxgk
