// What happens around each paging operation.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/paging_executor.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

struct WorkFloor;

/// Joins the paging executor with whoever has a part in moving content: CPU windows, hardware
/// queues, context allocations, GPU virtual addresses.
class PagingSteps : public PagingExecutor::Owner {
 public:
  explicit PagingSteps(WorkFloor& floor);

  PagingTarget paging_target(AllocationId allocation) override DXGKIT_REQUIRES(on_lane);
  PacketId new_packet() override DXGKIT_REQUIRES(on_lane);
  void queue_paging(PacketId packet, const PagingSlice& slice) override DXGKIT_REQUIRES(on_lane);
  bool perform(const vidmm::PagingOp& op) override DXGKIT_REQUIRES(on_lane);
  std::unique_ptr<PagingWork> translate(const vidmm::PagingOp& op) override
      DXGKIT_REQUIRES(on_lane);
  void before(const vidmm::PagingOp& op, std::vector<std::unique_ptr<PagingWork>>* work) override
      DXGKIT_REQUIRES(on_lane);
  void behind(std::span<const vidmm::PagingOp> operations,
              std::vector<std::unique_ptr<PagingWork>>* work) override DXGKIT_REQUIRES(on_lane);
  void operation_done(const vidmm::PagingOp& op) override DXGKIT_REQUIRES(on_lane);
  void paging_failed(verifier::Finding finding) override DXGKIT_REQUIRES(on_lane) {
    core_.fail(std::move(finding));
  }
  void count_multipass() override DXGKIT_REQUIRES(on_lane) { ++core_.counters().multipass_paging; }

 private:
  WorkFloor& floor_;
  AdapterCore& core_;
};

}  // namespace dxgkit::dxgk
