// What the nodes of an adapter have done, for statistics.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.h"

namespace dxgkit::dxgk {

/// Sums over an adapter's life.
struct NodeWork {
  struct Packets {
    uint32_t submitted = 0;  // each time one went to hardware
    uint32_t completed = 0, preempted = 0, faulted = 0;
    bool operator==(const Packets&) const = default;
  };
  Packets render, paging;
  int64_t running_ns = 0;         // hardware had a packet
  uint32_t context_switches = 0;  // packets of another context than the one before
  bool operator==(const NodeWork&) const = default;
};

/// Counts by node, and by process and node. Lane: the adapter's. Time is the runtime's.
class NodeCounters {
 public:
  /// Of paging, which belongs to no process.
  static constexpr uint32_t kSystem = 0;
  struct Work {
    NodeOrdinal node;
    uint32_t process = kSystem;  // Process::number
    ContextId context;
    bool paging = false;
  };
  enum class End { kCompleted, kFaulted, kOther };

  /// `again`: it was on hardware before, and came back by preemption or a reset.
  void submitted(const Work& work, bool again) {
    Node& node = node_of(work.node);
    NodeWork& process = of(node, work);
    if (node.last_context != work.context) {
      node.last_context = work.context;
      ++node.work.context_switches;
      ++process.context_switches;
    }
    add(node, process, work.paging, &NodeWork::Packets::submitted);
    if (again) add(node, process, work.paging, &NodeWork::Packets::preempted);
  }
  /// A packet that was on hardware since `since_ns` has left. Packets of a node run one behind the
  /// other, so this one ran from then, or from the end of the one before.
  void left(const Work& work, End end, int64_t since_ns, int64_t now_ns) {
    Node& node = node_of(work.node);
    NodeWork& process = of(node, work);
    const int64_t ran = std::max<int64_t>(0, now_ns - std::max(since_ns, node.free_since_ns));
    node.free_since_ns = now_ns;
    node.work.running_ns += ran;
    process.running_ns += ran;
    if (end == End::kCompleted) add(node, process, work.paging, &NodeWork::Packets::completed);
    if (end == End::kFaulted) add(node, process, work.paging, &NodeWork::Packets::faulted);
  }

  NodeWork of_node(NodeOrdinal node) const {
    return node.value < nodes_.size() ? nodes_[node.value].work : NodeWork{};
  }
  NodeWork of_process(uint32_t process, NodeOrdinal node) const {
    const auto found = processes_.find({process, node.value});
    return found == processes_.end() ? NodeWork{} : found->second;
  }

 private:
  struct Node {
    NodeWork work;
    ContextId last_context;
    int64_t free_since_ns = 0;
    // The process of the last packet, so that a run of packets looks it up once.
    uint32_t last_process = kSystem;
    NodeWork* last_work = nullptr;
  };
  Node& node_of(NodeOrdinal node) {
    if (node.value >= nodes_.size()) nodes_.resize(node.value + 1);
    return nodes_[node.value];
  }
  NodeWork& of(Node& node, const Work& work) {
    if (node.last_work == nullptr || node.last_process != work.process) {
      node.last_process = work.process;
      node.last_work = &processes_[{work.process, work.node.value}];
    }
    return *node.last_work;
  }
  static void add(Node& node, NodeWork& process, bool paging, uint32_t NodeWork::Packets::*member) {
    const auto packets = paging ? &NodeWork::paging : &NodeWork::render;
    ++(node.work.*packets.*member);
    ++(process.*packets.*member);
  }

  std::vector<Node> nodes_;
  std::map<std::pair<uint32_t, uint32_t>, NodeWork> processes_;  // by process and node
};

}  // namespace dxgkit::dxgk
