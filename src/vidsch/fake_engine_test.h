// A hand-driven world for scheduler tests: records what the scheduler does, answers what the test
// says.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "vidsch/scheduler.h"

namespace dxgkit::vidsch {

class FakeEngine : public EnginePort {
 public:
  struct Submitted {
    uint64_t packet;
    uint32_t node;
    uint32_t fence;
    bool resubmission;
    bool operator==(const Submitted&) const = default;
  };
  struct Retired {
    uint64_t packet;
    PacketOutcome outcome;
    bool reached_hardware;
    bool operator==(const Retired&) const = default;
  };

  Prepare prepare(PacketId packet) override {
    prepared.push_back(packet.value);
    if (on_prepare) return on_prepare(packet.value);
    const auto answer = answers.find(packet.value);
    return answer == answers.end() ? Prepare::kReady : answer->second;
  }
  Submit submit(PacketId packet, NodeOrdinal node, SubmissionFenceId fence,
                bool resubmission) override {
    submitted.push_back({packet.value, node.value, fence.value, resubmission});
    if (refused.contains(packet.value)) {
      if (on_refused) on_refused();
      return Submit::kRefused;
    }
    if (on_submit && !on_submit(packet.value)) return Submit::kStopping;
    return Submit::kTaken;
  }
  void retired(PacketId packet, PacketOutcome outcome, Reached how_far) override {
    retirements.push_back({packet.value, outcome, how_far != Reached::kQueue});
    reached.push_back(how_far);
    if (on_retired) on_retired(packet.value);
  }
  void preempt(NodeOrdinal node, SubmissionFenceId fence) override {
    preemptions.emplace_back(node.value, fence.value);
  }

  std::vector<uint64_t> submitted_packets() const {
    std::vector<uint64_t> packets;
    for (const Submitted& s : submitted) packets.push_back(s.packet);
    return packets;
  }
  std::vector<uint64_t> retired_packets() const {
    std::vector<uint64_t> packets;
    for (const Retired& r : retirements) packets.push_back(r.packet);
    return packets;
  }

  std::map<uint64_t, Prepare> answers;  // by packet; kReady where absent
  std::function<Prepare(uint64_t)> on_prepare;
  std::function<bool(uint64_t)> on_submit;  // false: stopping
  std::set<uint64_t> refused;
  std::function<void()> on_refused;
  std::function<void(uint64_t)> on_retired;
  std::vector<uint64_t> prepared;
  std::vector<Submitted> submitted;
  std::vector<Retired> retirements;
  std::vector<Reached> reached;  // of `retirements`
  std::vector<std::pair<uint32_t, uint32_t>> preemptions;
};

}  // namespace dxgkit::vidsch
