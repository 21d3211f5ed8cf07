#include "sim/packet_life.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "base/ids.h"

namespace dxgkit::sim {
namespace {

using trace::EventKind;

/// Field b of kHardwareEnd.
enum class HardwareEnd : uint64_t { kFinished = 0, kFaulted = 1, kPreempted = 2, kReset = 3 };
/// Field c of kPacketQueued.
enum class Kind : uint64_t { kRender = 0, kPaging = 1, kWait = 2, kSignal = 3 };
/// Field b of kFinding: verifier::Severity::kBugCheck.
constexpr uint64_t kBugCheck = 3;
/// Field b of kAdapterState.
constexpr uint64_t kAdapterStopped = 0, kAdapterFailed = 2, kAdapterRemoved = 4;

struct Packet {
  Kind kind = Kind::kRender;
  uint64_t context = 0;
  uint32_t submissions = 0, finished = 0;
  bool on_hardware = false, ended = false;
  uint32_t fence = 0;  // of the last submission
};

struct Node {
  std::optional<uint32_t> submitted, completed;
  std::map<uint32_t, uint64_t> packets;  // by fence
  struct Running {
    uint32_t fence = 0;
    int64_t began_ns = 0;
  };
  std::optional<Running> running;
};

class Follower {
 public:
  Follower(std::span<const std::string> names, int64_t patience_ns, std::span<const TimeJump> jumps)
      : names_(names), patience_ns_(patience_ns), jumps_(jumps) {}

  void look(const trace::Event& event);
  PacketLives finish(int64_t end_ns);

 private:
  template <typename... A>
  void wrong(fmt::format_string<A...> text, A&&... arguments) {
    if (lives_.failure.empty())
      lives_.failure =
          fmt::format("at {} ns: ", now_) + fmt::format(text, std::forward<A>(arguments)...);
  }
  void submitted(const trace::Event& event);
  void ended(const trace::Event& event);
  void at_the_device(const trace::Event& event) {
    const bool starts = event.kind == static_cast<uint16_t>(EventKind::kHardwareStart);
    return starts ? hardware_start(event) : hardware_end(event);
  }
  void hardware_start(const trace::Event& event);
  void hardware_end(const trace::Event& event);
  void look_at_patience(const Node::Running& running, uint16_t node);
  Packet* of_fence(uint16_t node, uint32_t fence, uint64_t* id);
  std::string process_of(const Packet& packet) const;

  const std::span<const std::string> names_;
  const int64_t patience_ns_;
  const std::span<const TimeJump> jumps_;
  PacketLives lives_;
  int64_t now_ = 0;
  bool device_counts_ = true;
  std::map<uint64_t, Packet> packets_;
  std::map<uint16_t, Node> nodes_;
  std::map<uint64_t, std::string> contexts_;
};

std::string Follower::process_of(const Packet& packet) const {
  const auto found = contexts_.find(packet.context);
  if (found == contexts_.end()) return {};
  return found->second.substr(0, found->second.find(','));  // "client 2, context 7 on node 0"
}

Packet* Follower::of_fence(uint16_t node, uint32_t fence, uint64_t* id) {
  const auto found = nodes_[node].packets.find(fence);
  if (found == nodes_[node].packets.end()) return nullptr;
  *id = found->second;
  return &packets_.at(found->second);
}

void Follower::submitted(const trace::Event& event) {
  const auto found = packets_.find(event.a);
  const auto fence = static_cast<uint32_t>(event.c);
  if (found == packets_.end()) return wrong("packet {} was submitted, and never queued", event.a);
  Packet& packet = found->second;
  Node& node = nodes_[event.node];
  if (packet.ended) return wrong("packet {} was submitted after it had ended", event.a);
  if (packet.on_hardware) return wrong("packet {} was submitted, and on hardware already", event.a);
  const bool again = packet.kind == Kind::kPaging && packet.submissions != 0;
  if (again && fence != packet.fence)
    return wrong("paging packet {} came again as fence {}; it was {}", event.a, fence,
                 packet.fence);
  if (!again && node.submitted.has_value() &&
      !fence_newer(SubmissionFenceId{fence}, SubmissionFenceId{*node.submitted}))
    return wrong("fence {} of node {} came after fence {}", fence, event.node, *node.submitted);
  if (!again) node.submitted = fence;
  node.packets[fence] = event.a;
  packet.fence = fence;
  packet.on_hardware = true;
  ++packet.submissions;
  ++lives_.checks;
}

void Follower::ended(const trace::Event& event) {
  const auto found = packets_.find(event.a);
  if (found == packets_.end()) return wrong("packet {} ended, and was never queued", event.a);
  Packet& packet = found->second;
  if (packet.ended) return wrong("packet {} ended twice", event.a);
  packet.ended = true;
  packet.on_hardware = false;
  ++lives_.checks;
  const bool works = packet.kind == Kind::kRender || packet.kind == Kind::kPaging;
  if (!works || static_cast<EventKind>(event.kind) != EventKind::kPacketCompleted) return;
  if (!device_counts_) return;
  if (packet.finished == 0)
    return wrong("packet {} (fence {}) was told complete, and did not run to its end", event.a,
                 packet.fence);
  Node& node = nodes_[event.node];
  if (node.completed.has_value() &&
      !fence_newer(SubmissionFenceId{packet.fence}, SubmissionFenceId{*node.completed}))
    return wrong("fence {} of node {} completed after fence {}", packet.fence, event.node,
                 *node.completed);
  // Preempted paging packets come again with fences of before.
  if (packet.submissions == 1) node.completed = packet.fence;
}

void Follower::hardware_start(const trace::Event& event) {
  const auto fence = static_cast<uint32_t>(event.c);
  nodes_[event.node].running = Node::Running{fence, event.time_ns};
  if (!device_counts_) return;
  uint64_t id = 0;
  Packet* const packet = of_fence(event.node, fence, &id);
  ++lives_.checks;
  if (packet == nullptr)
    return wrong("node {} runs fence {}, which nobody submitted", event.node, fence);
  if (packet->ended)
    return wrong("node {} begins packet {} (fence {}), which has ended", event.node, id, fence);
  if (packet->fence != fence)
    return wrong("node {} begins packet {} as fence {}, and it is {} by now", event.node, id, fence,
                 packet->fence);
}

void Follower::look_at_patience(const Node::Running& running, uint16_t node) {
  const int64_t lasted = now_ - running.began_ns - jumped_between(jumps_, running.began_ns, now_);
  if (device_counts_ && lasted > patience_ns_)
    wrong("node {} stood at fence {} for {} ms", node, running.fence, lasted / 1'000'000);
}

void Follower::hardware_end(const trace::Event& event) {
  const auto fence = static_cast<uint32_t>(event.c);
  Node& node = nodes_[event.node];
  const std::optional<Node::Running> running = std::exchange(node.running, std::nullopt);
  uint64_t id = 0;
  Packet* const packet = of_fence(event.node, fence, &id);
  const auto how = static_cast<HardwareEnd>(event.b);
  if (how == HardwareEnd::kReset && running.has_value()) {
    look_at_patience(*running, event.node);
    lives_.cut_short.push_back({running->began_ns, event.time_ns, event.node, fence,
                                packet != nullptr && packet->kind == Kind::kPaging,
                                packet == nullptr ? "" : process_of(*packet)});
  }
  if (packet == nullptr || !device_counts_) return;
  if (how == HardwareEnd::kPreempted) ++lives_.preempted;
  if (packet->ended && how != HardwareEnd::kReset)
    return wrong("node {} was still at packet {} (fence {}), which had ended", event.node, id,
                 fence);
  if (how != HardwareEnd::kFinished) return;
  if (++packet->finished > 1)
    wrong("packet {} ran to its end twice, the second time as fence {} of node {}", id, fence,
          event.node);
}

void Follower::look(const trace::Event& event) {
  now_ = event.time_ns;
  switch (static_cast<EventKind>(event.kind)) {
    case EventKind::kPacketQueued: {
      ++lives_.packets;
      const bool fresh =
          packets_
              .try_emplace(event.a, Packet{.kind = static_cast<Kind>(event.c), .context = event.b})
              .second;
      if (!fresh) wrong("packet {} was queued twice", event.a);
      break;
    }
    case EventKind::kPacketSubmitted:
      submitted(event);
      break;
    case EventKind::kPacketPreempted:
      if (const auto found = packets_.find(event.a); found != packets_.end())
        found->second.on_hardware = false;
      break;
    case EventKind::kPacketCompleted:
    case EventKind::kPacketCancelled:
    case EventKind::kPacketFaulted:
      ended(event);
      break;
    case EventKind::kHardwareStart:
    case EventKind::kHardwareEnd:
      at_the_device(event);
      break;
    case EventKind::kAdapterState:
      if (event.b == kAdapterFailed || event.b == kAdapterRemoved || event.b == kAdapterStopped)
        device_counts_ = false;
      break;
    case EventKind::kFinding:  // a bug check is reported first, then the work that it stops ends
      if (event.b == kBugCheck) device_counts_ = false;
      break;
    case EventKind::kObjectName:
      if (event.c == static_cast<uint64_t>(trace::ObjectClass::kContext) && event.b < names_.size())
        contexts_[event.a] = names_[event.b];
      break;
    default:
      break;
  }
}

PacketLives Follower::finish(int64_t end_ns) {
  now_ = end_ns;
  for (const auto& [number, node] : nodes_) {
    if (node.running.has_value()) look_at_patience(*node.running, number);
  }
  for (const auto& [id, packet] : packets_) {
    if (!packet.ended) wrong("packet {} never ended", id);
  }
  return std::move(lives_);
}

}  // namespace

int64_t jumped_between(std::span<const TimeJump> jumps, int64_t from_ns, int64_t to_ns) {
  int64_t sum = 0;
  for (const TimeJump& jump : jumps)
    if (jump.at_ns >= from_ns && jump.at_ns <= to_ns) sum += jump.by_ns;
  return sum;
}

PacketLives follow_packets(std::span<const trace::Event> events, std::span<const std::string> names,
                           int64_t patience_ns, std::span<const TimeJump> jumps) {
  Follower follower(names, patience_ns, jumps);
  for (const trace::Event& event : events) follower.look(event);
  return follower.finish(events.empty() ? 0 : events.back().time_ns);
}

}  // namespace dxgkit::sim
