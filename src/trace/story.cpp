#include "trace/story.h"

#include <algorithm>
#include <utility>

namespace dxgkit::trace {
namespace {

void set_once(Moment& moment, int64_t time) {
  if (!moment.has_value()) moment = time;
}

class Teller {
 public:
  explicit Teller(const Recording& recording) : recording_(recording) {}

  Story tell() {
    story_.events = recording_.events;
    if (!std::ranges::is_sorted(recording_.events, {}, &Event::time_ns)) {
      story_.sorted = recording_.events;
      std::ranges::stable_sort(story_.sorted, {}, &Event::time_ns);
      story_.events = story_.sorted;
    }
    story_.threads = recording_.threads;
    if (!story_.events.empty()) {
      story_.start = story_.events.front().time_ns;
      story_.end = story_.events.back().time_ns;
    }
    for (order_ = 0; order_ < story_.events.size(); ++order_) take(story_.events[order_]);
    for (Call& call : story_.calls) {
      if (!call.end.has_value()) call.end_order = order_ + call_depth_limit_ - call.depth;
    }
    tie_hardware_to_attempts();
    return std::move(story_);
  }

 private:
  void take(const Event& event) {
    if (event.node != kNoNode) story_.nodes.try_emplace(event.node);
    switch (static_cast<EventKind>(event.kind)) {
      case EventKind::kDdiEnter:
        enter(event, CallKind::kDdi);
        break;
      case EventKind::kDdiExit:
        leave(event, CallKind::kDdi);
        break;
      case EventKind::kCallbackEnter:
        enter(event, CallKind::kCallback);
        break;
      case EventKind::kCallbackExit:
        leave(event, CallKind::kCallback);
        break;
      case EventKind::kThunkEnter:
        enter(event, CallKind::kThunk);
        break;
      case EventKind::kThunkExit:
        leave(event, CallKind::kThunk);
        break;
      case EventKind::kPacketQueued:
      case EventKind::kPacketReady:
      case EventKind::kPacketPatched:
      case EventKind::kPacketSubmitted:
      case EventKind::kPacketCompleted:
      case EventKind::kPacketPreempted:
      case EventKind::kPacketCancelled:
      case EventKind::kPacketFaulted:
        packet_event(event);
        break;
      case EventKind::kHardwareStart:
        hardware_start(event);
        break;
      case EventKind::kHardwareEnd:
        hardware_end(event);
        break;
      case EventKind::kDpcQueued:
        story_.dpcs.push_back(
            {.queued = event.time_ns, .run = {}, .node = node_of(event), .thread = event.thread});
        break;
      case EventKind::kDpcRun:
        dpc_run(event);
        break;
      case EventKind::kAllocationCreated: {
        Allocation& allocation = story_.allocations[event.a];
        set_once(allocation.created, event.time_ns);
        allocation.size = event.d;
        allocation.process = event.b;
        break;
      }
      case EventKind::kAllocationDestroyed:
        story_.allocations[event.a].destroyed = event.time_ns;
        close_all_stays(event);
        break;
      case EventKind::kPlaced:
        placed(event);
        break;
      case EventKind::kEvicted:
        evicted(event);
        break;
      case EventKind::kApertureMapped:
        mapped_.push_back(story_.aperture.size());
        story_.aperture.push_back(stay(event));
        break;
      case EventKind::kApertureUnmapped:
        close_last(story_.aperture, mapped_, event, /*match_place=*/true);
        break;
      case EventKind::kLocked:
        locked_.push_back(story_.locks.size());
        story_.locks.push_back(stay(event));
        break;
      case EventKind::kUnlocked:
        close_last(story_.locks, locked_, event, false);
        break;
      case EventKind::kSegment: {
        Segment& segment = story_.segments[event.b];
        segment.base = event.c;
        segment.size = event.d;
        break;
      }
      case EventKind::kObjectName:
        object_name(event);
        break;
      case EventKind::kContextOwner:
        story_.owners[event.a] = {event.b, event.c};
        break;
      default:
        break;
    }
  }

  // ---- Calls ----

  void enter(const Event& event, CallKind kind) {
    std::vector<size_t>& stack = stacks_[event.thread];
    Call call;
    call.thread = event.thread;
    call.depth = static_cast<uint32_t>(stack.size());
    call_depth_limit_ = std::max<size_t>(call_depth_limit_, stack.size() + 1);
    call.kind = kind;
    call.name = event.a;
    call.start = event.time_ns;
    call.begin_order = order_;
    if (kind != CallKind::kThunk) call.irql = event.b;
    call.node = node_of(event);
    stack.push_back(story_.calls.size());
    story_.calls.push_back(call);
  }

  void leave(const Event& event, CallKind kind) {
    std::vector<size_t>& stack = stacks_[event.thread];
    size_t found = stack.size();
    while (found > 0) {
      const Call& call = story_.calls[stack[found - 1]];
      if (call.kind == kind && call.name == event.a) break;
      --found;
    }
    if (found == 0) return;  // its enter was lost
    // Calls above it have no exit of their own (an unwound call): they end here too.
    while (stack.size() >= found) {
      Call& call = story_.calls[stack.back()];
      call.end = event.time_ns;
      call.end_order = order_;
      if (stack.size() == found) call.status = event.b;
      stack.pop_back();
    }
  }

  // ---- Packets and hardware ----

  Packet& packet_of(const Event& event) {
    const auto [place, is_new] = packet_index_.try_emplace(event.a, story_.packets.size());
    if (is_new) {
      story_.packets.emplace_back();
      story_.packets.back().id = event.a;
    }
    Packet& packet = story_.packets[place->second];
    if (!packet.context.has_value()) packet.context = event.b;
    if (!packet.node.has_value()) packet.node = node_of(event);
    story_.contexts.try_emplace(event.b);
    return packet;
  }

  void packet_event(const Event& event) {
    Packet& packet = packet_of(event);
    switch (static_cast<EventKind>(event.kind)) {
      case EventKind::kPacketQueued:
        set_once(packet.queued, event.time_ns);
        packet.kind = event.c;
        packet.queue_length = event.d;
        break;
      case EventKind::kPacketReady:
        set_once(packet.ready, event.time_ns);
        break;
      case EventKind::kPacketPatched:
        set_once(packet.patched, event.time_ns);
        packet.patches = event.c;
        break;
      case EventKind::kPacketSubmitted:
        submitted(packet, event);
        break;
      case EventKind::kPacketCompleted:
        ended(packet, event, Outcome::kCompleted);
        break;
      case EventKind::kPacketPreempted:
        ended(packet, event, Outcome::kPreempted);
        break;
      case EventKind::kPacketCancelled:
        ended(packet, event, Outcome::kCancelled);
        break;
      case EventKind::kPacketFaulted:
        ended(packet, event, Outcome::kFaulted);
        break;
      default:
        break;
    }
  }

  void submitted(Packet& packet, const Event& event) {
    set_once(packet.submitted, event.time_ns);
    Attempt attempt;
    attempt.packet = packet.id;
    attempt.index = static_cast<uint32_t>(packet.attempts.size());
    attempt.context = packet.context;
    attempt.node = event.node != kNoNode ? node_of(event) : packet.node;
    attempt.fence = event.c;
    attempt.submitted = event.time_ns;
    attempt.queue_length = event.d;
    packet.attempts.push_back(story_.attempts.size());
    story_.attempts.push_back(attempt);
  }

  void ended(Packet& packet, const Event& event, Outcome outcome) {
    const bool has_fence = outcome != Outcome::kCancelled;
    for (size_t i = packet.attempts.size(); i-- > 0;) {
      Attempt& attempt = story_.attempts[packet.attempts[i]];
      if (attempt.ended.has_value()) continue;
      if (has_fence && attempt.fence != event.c) continue;
      attempt.ended = event.time_ns;
      attempt.outcome = outcome;
      break;
    }
    if (outcome == Outcome::kPreempted) return;  // the packet comes back
    set_once(packet.ended, event.time_ns);
    if (packet.outcome == Outcome::kPending) packet.outcome = outcome;
  }

  void hardware_start(const Event& event) {
    if (event.node == kNoNode) return;
    stop_node(event.node, event.time_ns);  // a start without an end in between: the device moved on
    running_[event.node] = story_.busy.size();
    story_.busy.push_back(
        {.node = event.node, .fence = event.c, .start = event.time_ns, .end = {}, .attempt = {}});
  }

  void hardware_end(const Event& event) {
    const auto found = running_.find(event.node);
    if (found == running_.end() || story_.busy[found->second].fence != event.c) return;
    stop_node(event.node, event.time_ns);
  }

  void stop_node(uint16_t node, int64_t time) {
    const auto found = running_.find(node);
    if (found == running_.end()) return;
    story_.busy[found->second].end = time;
    running_.erase(found);
  }

  /// Afterwards, because the device may start before the submitting thread has recorded that it
  /// submitted.
  void tie_hardware_to_attempts() {
    std::map<std::pair<uint16_t, uint64_t>, std::vector<size_t>> by_fence;
    for (size_t i = 0; i < story_.attempts.size(); ++i) {
      const Attempt& attempt = story_.attempts[i];
      if (attempt.node.has_value()) by_fence[{*attempt.node, attempt.fence}].push_back(i);
    }
    for (Busy& busy : story_.busy) {
      const auto found = by_fence.find({busy.node, busy.fence});
      if (found == by_fence.end()) continue;
      for (const size_t index : found->second) {
        Attempt& attempt = story_.attempts[index];
        if (attempt.hw_start.has_value()) continue;
        if (attempt.ended.has_value() && *attempt.ended < busy.start) continue;
        attempt.hw_start = busy.start;
        attempt.hw_end = busy.end;
        busy.attempt = index;
        break;
      }
    }
    for (Packet& packet : story_.packets) {
      for (const size_t index : packet.attempts) {
        const Attempt& attempt = story_.attempts[index];
        if (!attempt.hw_start.has_value()) continue;
        if (!packet.hw_start.has_value()) packet.hw_start = attempt.hw_start;
        packet.hw_end = attempt.hw_end;
      }
    }
  }

  void dpc_run(const Event& event) {
    for (size_t i = first_open_dpc_; i < story_.dpcs.size(); ++i) {
      Dpc& dpc = story_.dpcs[i];
      if (dpc.run.has_value() || dpc.node != node_of(event)) continue;
      dpc.run = event.time_ns;
      dpc.thread = event.thread;
      while (first_open_dpc_ < story_.dpcs.size() && story_.dpcs[first_open_dpc_].run.has_value()) {
        ++first_open_dpc_;
      }
      return;
    }
    story_.dpcs.push_back(
        {.queued = {}, .run = event.time_ns, .node = node_of(event), .thread = event.thread});
  }

  // ---- Memory ----

  static Stay stay(const Event& event) {
    return {.allocation = event.a,
            .segment = event.b,
            .offset = event.c,
            .size = event.d,
            .from = event.time_ns,
            .to = {}};
  }

  void account(uint64_t segment_number, uint64_t bytes, bool add, int64_t time) {
    Segment& segment = story_.segments[segment_number];
    segment.placed = add ? segment.placed + bytes : segment.placed - bytes;
    segment.peak = std::max(segment.peak, segment.placed);
    // Several changes at one moment are one step.
    if (!story_.usage.empty()) {
      Usage& last = story_.usage.back();
      if (last.segment == segment_number && last.time == time) {
        last.bytes = segment.placed;
        return;
      }
    }
    story_.usage.push_back({.segment = segment_number, .time = time, .bytes = segment.placed});
  }

  void placed(const Event& event) {
    story_.allocations.try_emplace(event.a);
    close_stay(event.a, event.b, event.time_ns);  // moved within the segment
    resident_[event.a][event.b] = story_.placements.size();
    story_.placements.push_back(stay(event));
    account(event.b, event.d, true, event.time_ns);
  }

  void close_stay(uint64_t allocation, uint64_t segment, int64_t time) {
    const auto places = resident_.find(allocation);
    if (places == resident_.end()) return;
    const auto found = places->second.find(segment);
    if (found == places->second.end()) return;
    Stay& placement = story_.placements[found->second];
    placement.to = time;
    account(segment, placement.size, false, time);
    places->second.erase(found);
  }

  void evicted(const Event& event) { close_stay(event.a, event.b, event.time_ns); }

  void close_all_stays(const Event& event) {
    const auto places = resident_.find(event.a);
    if (places == resident_.end()) return;
    while (!places->second.empty()) {
      close_stay(event.a, places->second.begin()->first, event.time_ns);
    }
    resident_.erase(places);
  }

  /// Closes the latest open stay that `event` names. `open` holds indices into `stays`.
  static void close_last(std::vector<Stay>& stays, std::vector<size_t>& open, const Event& event,
                         bool match_place) {
    for (size_t i = open.size(); i-- > 0;) {
      Stay& each = stays[open[i]];
      if (each.allocation != event.a) continue;
      if (match_place && (each.segment != event.b || each.offset != event.c)) continue;
      each.to = event.time_ns;
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }

  void object_name(const Event& event) {
    std::string name = name_of(recording_, event.b);
    switch (event.c) {
      case 1:
        story_.contexts[event.a] = std::move(name);
        break;
      case 2:
        story_.processes[event.a] = std::move(name);
        break;
      case 3:
        if (event.a < kNoNode) story_.nodes[static_cast<uint16_t>(event.a)] = std::move(name);
        break;
      case 4:
        // There are few threads; a number beyond this bound is not a thread of the run.
        if (event.a >= size_t{1} << 16) break;
        if (event.a >= story_.threads.size()) story_.threads.resize(event.a + 1);
        story_.threads[event.a] = std::move(name);
        break;
      default:
        break;
    }
  }

  const Recording& recording_;
  Story story_;
  size_t order_ = 0;
  size_t call_depth_limit_ = 0;
  std::map<uint32_t, std::vector<size_t>> stacks_;  // open calls of each thread
  std::map<uint64_t, size_t> packet_index_;
  std::map<uint16_t, size_t> running_;                       // open busy interval of each node
  std::map<uint64_t, std::map<uint64_t, size_t>> resident_;  // allocation, segment: open placement
  std::vector<size_t> mapped_, locked_;
  size_t first_open_dpc_ = 0;
};

}  // namespace

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPending:
      return "pending";
    case Outcome::kCompleted:
      return "completed";
    case Outcome::kPreempted:
      return "preempted";
    case Outcome::kCancelled:
      return "cancelled";
    case Outcome::kFaulted:
      return "faulted";
  }
  return "";
}

const char* call_kind_name(CallKind kind) {
  switch (kind) {
    case CallKind::kDdi:
      return "ddi";
    case CallKind::kCallback:
      return "callback";
    case CallKind::kThunk:
      return "thunk";
  }
  return "";
}

std::string name_of(const Recording& recording, uint64_t id) {
  if (id < recording.names.size()) return recording.names[id];
  return "name " + std::to_string(id);
}

Story tell(const Recording& recording) { return Teller(recording).tell(); }

}  // namespace dxgkit::trace
