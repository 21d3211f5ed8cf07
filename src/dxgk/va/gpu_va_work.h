// Plans for page tables, carried out between content operations: the driver's side of gpuva.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dxgk/memory/paging_executor.h"
#include "dxgk/va/gpu_space.h"

namespace dxgkit::dxgk {

class GpuVa;

/// Turns the steps of a plan into driver operations. Lane.
class StepWriter {
 public:
  /// `mode`: how this plan's tables are written.
  StepWriter(GpuVa& owner, GpuSpace& space, gpuva::Plan plan, port::PageTableUpdateMode mode);

  /// Appends the next operations, with a bounded number of entries; they point into this object.
  /// False: nothing more before what `at_root_change` tells, or the end.
  bool next(std::vector<port::PagingOperation>* operations);
  /// The next step gives contexts another root: the caller's to do, then skip it.
  const gpuva::Step* at_root_change() const;
  void skip() { ++step_; }
  bool over() const { return step_ == plan_.steps.size(); }
  /// Where the space's root is for what comes next.
  const gpuva::Plan& plan() const { return plan_; }

 private:
  port::PagingOperation describe(const gpuva::Step& step, uint64_t first, uint64_t count,
                                 std::vector<gpuva::Pte>* entries);

  GpuVa& owner_;
  GpuSpace& space_;
  const gpuva::Plan plan_;
  const port::PageTableUpdateMode mode_;
  size_t step_ = 0;
  uint64_t done_ = 0;  // entries of the step
  std::vector<std::vector<gpuva::Pte>> buffers_;
};

/// A whole plan as one element of the paging queue. Contexts of the space leave the engines where
/// the plan asks for it (VA-06, PAGE-38), and come back when the hardware has done it.
class PlanWork final : public PagingWork {
 public:
  PlanWork(GpuVa& owner, std::shared_ptr<GpuSpace> space, gpuva::Plan plan);
  ~PlanWork() override;
  Next next(Part* part) override;

 private:
  void hold_contexts();

  GpuVa& owner_;
  const std::shared_ptr<GpuSpace> space_;
  StepWriter writer_;
  const bool after_content_;  // begins when the hardware has done all before it
  bool holding_ = false;
  bool told_ = false;  // the last part, with what waits for the hardware
};

/// Something the kernel does itself when its turn comes: done when `work` says so.
class CallWork final : public PagingWork {
 public:
  explicit CallWork(std::function<bool()> work) : work_(std::move(work)) {}
  Next next(Part*) override { return work_() ? Next::kOver : Next::kLater; }

 private:
  std::function<bool()> work_;
};

}  // namespace dxgkit::dxgk
