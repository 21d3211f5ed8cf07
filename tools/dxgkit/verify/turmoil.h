// Trouble from all sides at once, none of which a client may notice.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "port/fault_injector.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/verify/scarcity.h"

namespace dxgkit::tool::verify {

class Bench;

/// The troubles of one world, and how often each comes: per million opportunities; 0: not at all.
struct Troubles {
  uint32_t late_dpc = 0;         // a DPC runs up to 2 ms late
  uint32_t starved_dpc = 0;      // a DPC is kept waiting for up to 0.9 s
  uint32_t render_room = 0;      // a DMA buffer has little room
  uint32_t paging_refused = 0;   // a paging buffer is handed back, and another one comes
  uint32_t allocation_busy = 0;  // a transfer has to wait until its allocation is idle
  uint32_t lost_interrupt = 0;   // the three are for devices that can be made to fail
  uint32_t double_interrupt = 0;
  uint32_t late_interrupt = 0;
  uint32_t naps = 0;  // how often the adapter goes to sleep under its clients; a number, no rate

  /// Each with a chance of one half, from numbers of the bench.
  static Troubles draw(Bench& bench);
  /// ", late DPCs, lost interrupts": for the end of a description.
  std::string text() const;
};

/// Makes the troubles that come through the door to the driver, and those of a Scarcity. In
/// simulation only. Any thread.
class Turmoil final : public port::FaultInjector {
 public:
  /// `scarcity` outlives it.
  Turmoil(runtime::Runtime& runtime, const Troubles& troubles, Scarcity& scarcity, uint64_t seed)
      : runtime_(runtime), troubles_(troubles), scarcity_(scarcity), numbers_(seed) {}

  /// Nothing but the scarcity before the first call and after the last one: a start has enough to
  /// do with itself.
  void set_active(bool active) { active_ = active; }
  uint64_t strikes() const { return strikes_; }

  std::optional<Status> before_ddi(std::string_view ddi) override;
  std::optional<Status> before_paging(const port::PagingOperation& operation,
                                      uint32_t buffer_bytes) override;
  uint32_t room(std::string_view ddi, uint32_t bytes) override;
  void shape(port::SegmentsInfo* segments) override { scarcity_.shape(segments); }

 private:
  uint64_t random();
  bool strikes(uint32_t rate);

  runtime::Runtime& runtime_;
  const Troubles troubles_;
  Scarcity& scarcity_;
  std::atomic<uint64_t> numbers_;
  std::atomic<bool> active_{false}, refused_{false};
  std::atomic<uint64_t> strikes_{0};
};

}  // namespace dxgkit::tool::verify
