// Situations of an adapter's life: starts, stops, questions, power; and what the adapter has.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "base/spin_lock.h"
#include "base/status.h"
#include "port/types.h"
#include "verifier/situations.h"

namespace dxgkit::port {

struct PortCore;

/// Any thread.
class LifeSituations {
 public:
  explicit LifeSituations(verifier::SituationLog& log) : log_(log) {}

  /// Before the first DDI: the entries of the driver's table.
  void added(const PortCore& core);
  void started(const PortCore& core, Status status, uint32_t sources);
  void queried(uint32_t type);
  void power_set(bool child, bool on, bool hibernate);

  // Facts of the adapter, as the driver tells them.
  void has(const DriverCaps& caps);
  void has(std::span<const SegmentInfo> segments);
  void has(const GpuMmuCaps& caps);
  void has(std::span<const ChildInfo> children);
  void made_context(const ContextInfo& info, bool virtual_addressing);

 private:
  using Situation = verifier::Situation;
  using Fact = verifier::SituationFact;

  verifier::SituationLog& log_;
  SpinLock lock_;  // guards what follows
  std::set<uint32_t> asked_;
  bool asleep_ = false;
};

}  // namespace dxgkit::port
