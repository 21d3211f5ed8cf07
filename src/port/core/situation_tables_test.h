// One difference at a time: each situation is reached by what its sentence says, and by nothing
// beside it. What the tables of situations stand on.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "port/core/core_world_test.h"
#include "port/core/situations.h"

namespace dxgkit::port {

using verifier::Situation;
using verifier::SituationFact;
using Ids = std::set<std::string>;

struct SituationWorld {
  verifier::SituationLog log;
  Situations all{log};

  /// Ids of the situations reached since the last call.
  Ids reached() {
    Ids out;
    for (size_t i = 0; i < verifier::kSituations; ++i) {
      const uint64_t now = log.count(static_cast<Situation>(i));
      if (now != seen_[i]) out.emplace(verifier::situation_catalogue()[i].id);
      seen_[i] = now;
    }
    return out;
  }
  void submit(uint32_t node, uint32_t fence, void* context, PacketFlags flags = {}) {
    SubmitArgs args;
    args.node = NodeOrdinal{node};
    args.fence = SubmissionFenceId{fence};
    args.context = context;
    args.flags = flags;
    args.buffer.private_size_bytes = 8;
    all.work.submitted(args);
  }
  void submit_virtual(uint32_t node, uint32_t fence, void* context, PacketFlags flags = {}) {
    SubmitVirtualArgs args;
    args.node = NodeOrdinal{node};
    args.fence = SubmissionFenceId{fence};
    args.context = context;
    args.flags = flags;
    args.private_bytes = 8;
    all.work.submitted(args, false);
  }
  Ids report(InterruptReport::Type type, uint32_t node, uint32_t fence, uint32_t flags = 0) {
    InterruptReport report;
    report.type = type;
    report.node = node;
    report.fence = fence;
    report.flags = flags;
    all.work.reported(report);
    return reached();
  }
  Ids answer(uint32_t node, uint32_t last_completed) {
    InterruptReport report;
    report.type = InterruptReport::Type::kDmaPreempted;
    report.node = node;
    report.last_completed = last_completed;
    all.work.reported(report);
    return reached();
  }
  /// What a request for preemption finds.
  Ids preempt(uint32_t node) {
    all.work.preempt(NodeOrdinal{node}, false);
    return reached();
  }

 private:
  std::array<uint64_t, verifier::kSituations> seen_{};
};

inline int g_objects[20];  // contexts, allocations, processes: what matters is that they differ

template <typename Args>
struct Row {
  const char* what;
  std::function<void(Args&)> change;
  Ids ids;
};

/// Each row on a log of its own, beginning with the same arguments.
template <typename Args>
void expect_each(const Args& base, const std::vector<Row<Args>>& rows,
                 const std::function<void(SituationWorld&, const Args&)>& call) {
  for (const Row<Args>& row : rows) {
    SCOPED_TRACE(row.what);
    SituationWorld world;
    Args args = base;
    if (row.change) row.change(args);
    call(world, args);
    EXPECT_EQ(world.reached(), row.ids);
  }
}

/// What is known of the adapter after `call` and was not before. A fact is known if no situation
/// that needs it is called impossible where all others are known.
inline std::set<SituationFact> learned(const std::function<void(SituationWorld&)>& call) {
  std::set<SituationFact> out;
  for (size_t fact = 0; fact < verifier::kSituationFacts; ++fact) {
    SituationWorld world;
    for (const verifier::SituationInfo& info : verifier::situation_catalogue())
      world.log.add_entry(info.ddi);
    for (size_t other = 0; other < verifier::kSituationFacts; ++other)
      world.log.add(static_cast<SituationFact>(other), other != fact);
    call(world);
    bool known = true;
    for (size_t i = 0; i < verifier::kSituations; ++i)
      known = known && !world.log.why_not(static_cast<Situation>(i)).has_value();
    if (known) out.insert(static_cast<SituationFact>(fact));
  }
  return out;
}
using Facts = std::set<SituationFact>;

}  // namespace dxgkit::port
