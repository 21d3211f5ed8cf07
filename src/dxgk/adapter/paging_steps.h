// What happens around each paging operation.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/paging_executor.h"

namespace dxgkit::dxgk {

class Adapter;

/// Joins the paging executor with whoever has a part in moving content: CPU windows, hardware
/// queues, context allocations, GPU virtual addresses.
class PagingSteps : public PagingExecutor::Owner {
 public:
  explicit PagingSteps(Adapter& adapter);

  PagingTarget paging_target(AllocationId allocation) override;
  void queue_paging(Packet& packet) override;
  Packet& new_packet() override;
  bool perform(const vidmm::PagingOp& op) override;
  std::unique_ptr<PagingWork> translate(const vidmm::PagingOp& op) override;
  void before(const vidmm::PagingOp& op, std::vector<std::unique_ptr<PagingWork>>* work) override;
  void behind(std::span<const vidmm::PagingOp> operations,
              std::vector<std::unique_ptr<PagingWork>>* work) override;
  void operation_done(const vidmm::PagingOp& op) override;
  void paging_failed(verifier::Finding finding) override { core_.fail(std::move(finding)); }
  void count_multipass() override { ++core_.counters().multipass_paging; }

 private:
  Adapter& adapter_;
  AdapterCore& core_;
};

}  // namespace dxgkit::dxgk
