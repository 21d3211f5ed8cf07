// Situations of packets: patched, submitted, preempted, cancelled, reported, reset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/spin_lock.h"
#include "port/types.h"
#include "verifier/situations.h"

namespace dxgkit::port {

/// Keeps what is needed to tell the situations apart: the submissions of each node that are not
/// reported yet. Any thread, any IRQL; one short lock of its own, inside which nothing is called.
class WorkSituations {
 public:
  explicit WorkSituations(verifier::SituationLog& log) : log_(log) {}

  void patched(const PatchArgs& args, std::span<const SegmentInfo> segments);
  void submitted(const SubmitArgs& args);
  void submitted(const SubmitVirtualArgs& args, bool refused);
  void preempt(NodeOrdinal node, bool idle);
  void cancelled(const PatchArgs& args);
  void cancelled_virtual(const PacketFlags& flags);
  void rendered(const RenderArgs& args, const RenderResult& result);
  void presented(const PresentArgs& args);
  void reported(const InterruptReport& report);
  /// Before DxgkDdiResetEngine.
  void reset_engine(NodeOrdinal node);
  /// Before DxgkDdiResetFromTimeout.
  void reset_adapter();
  void power_is_back();
  void removed();

 private:
  using Situation = verifier::Situation;
  struct Submission {
    uint32_t fence = 0;
    bool again = false;
  };
  struct Node {
    std::deque<Submission> open;  // not reported yet, oldest first
    void* last_context = nullptr;
    bool after_reset = false, after_power = false;
    size_t at_request = 0;  // `open` when preemption was asked for
  };
  /// The situations that both forms of submission have.
  struct Form {
    Situation paging, idle_node, busy_node, other_node_busy, second_node, other_context,
        resubmission, null_rendering, no_private_data, after_reset, after_power;
  };
  static const Form kPhysical, kVirtual;

  void look_at(const Form& form, void* context, const PacketFlags& flags, NodeOrdinal node,
               SubmissionFenceId fence, bool private_data);
  void look_at_elements(const PatchArgs& args, std::span<const SegmentInfo> segments);
  bool other_node_busy(uint32_t node) const;     // under the lock
  bool anything_open() const;                    // under the lock
  void answered(const InterruptReport& report);  // under the lock
  size_t complete(Node& node, uint32_t fence);   // under the lock

  verifier::SituationLog& log_;
  SpinLock lock_;  // guards what follows
  std::map<uint32_t, Node> nodes_;
  // Of patched parts, by buffer and start: the addresses that were written, in one number.
  std::map<std::pair<const std::byte*, uint32_t>, uint64_t> patched_;
  std::vector<void*> contexts_;  // that had a buffer patched, a few
  void* last_patched_ = nullptr;
};

}  // namespace dxgkit::port
