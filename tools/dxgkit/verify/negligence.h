// A driver that does nothing in one situation, to see whether a run notices.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "port/fault_injector.h"
#include "verifier/situations.h"

namespace dxgkit::tool::verify {

/// Stands between the kernel and another injector. With a situation, the driver's entry is not
/// called where the situation comes up: the answer is success, and all outputs stay as they were.
/// Without one it counts in which calls of its DDI each situation came up. In simulation only,
/// where equal runs make equal calls: one thread at a time.
class Negligence final : public port::FaultInjector {
 public:
  /// Numbers of calls of one DDI, from 1.
  using Calls = std::set<uint64_t>;

  explicit Negligence(const verifier::SituationLog& log);
  /// The driver does nothing in `which`. Some situations are told by what a call has done: for
  /// these the calls are `calls`, as counted by a run that was equal so far.
  Negligence(const verifier::SituationLog& log, verifier::Situation which, Calls calls);

  /// Before each start. The injector outlives the adapter.
  void set_inner(port::FaultInjector* inner) { inner_ = inner; }
  /// The calls in which the situation came up.
  Calls calls_of(verifier::Situation situation);
  /// Calls that the driver did not get.
  uint64_t neglected() const { return neglected_; }
  /// False: the situation is told by a callback or an entry that cannot be left out.
  static bool can_neglect(verifier::Situation situation);

  std::optional<Status> before_ddi(std::string_view ddi) override;
  std::optional<Status> before_paging(const port::PagingOperation& operation,
                                      uint32_t buffer_bytes) override;
  uint32_t room(std::string_view ddi, uint32_t bytes) override { return inner_->room(ddi, bytes); }
  uint32_t overrun(std::string_view ddi) override { return inner_->overrun(ddi); }
  bool repeats_report() override { return inner_->repeats_report(); }
  void shape(port::SegmentsInfo* segments) override { inner_->shape(segments); }
  void shape_resources(std::vector<port::DeviceResource>* resources) override {
    inner_->shape_resources(resources);
  }
  void allocation_made(const port::AllocationInfo& info) override { inner_->allocation_made(info); }
  bool probes_queries() override { return inner_->probes_queries(); }
  uint32_t readable_commands(uint32_t bytes) override { return inner_->readable_commands(bytes); }
  bool spares_patch() override { return inner_->spares_patch(); }
  std::optional<Status> before_callback(std::string_view callback) override {
    return inner_->before_callback(callback);
  }

 private:
  struct Watched {
    verifier::Situation situation;
    bool told_afterwards = false;
    uint64_t count = 0;  // when it was looked at last
    Calls calls = {};
  };
  struct Entry {
    uint64_t calls = 0;
    std::vector<Watched> watched = {};
  };
  /// One more call is to come. True if the driver does not get it.
  bool neglects(std::string_view ddi);
  /// @param at_call  right before call number `entry.calls`; else behind it
  void look(Entry& entry, bool at_call);
  void watch(verifier::Situation situation);

  const verifier::SituationLog& log_;
  const std::optional<verifier::Situation> which_;
  const Calls planned_;
  port::FaultInjector* inner_ = nullptr;
  std::map<std::string_view, Entry> entries_;
  uint64_t neglected_ = 0;
};

}  // namespace dxgkit::tool::verify
