// Perfetto's public protobuf format, written by field number with protozero. Only the fields that a
// viewer needs to draw tracks: TracePacket {timestamp, track_event | track_descriptor,
// interned_data, sequence_flags, trusted_packet_sequence_id}.
#include <fmt/format.h>

#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "trace/story.h"

namespace dxgkit::trace {
namespace {

using protozero::pbf_writer;

namespace trace_message {
constexpr uint32_t kPacket = 1;
}
namespace packet_message {
constexpr uint32_t kTimestamp = 8;
constexpr uint32_t kSequenceId = 10;
constexpr uint32_t kTrackEvent = 11;
constexpr uint32_t kInternedData = 12;
constexpr uint32_t kSequenceFlags = 13;
constexpr uint32_t kTrackDescriptor = 60;
}  // namespace packet_message
namespace descriptor_message {
constexpr uint32_t kUuid = 1;
constexpr uint32_t kName = 2;
constexpr uint32_t kProcess = 3;
constexpr uint32_t kThread = 4;
constexpr uint32_t kParent = 5;
constexpr uint32_t kCounter = 8;
}  // namespace descriptor_message
namespace event_message {
constexpr uint32_t kAnnotation = 4;
constexpr uint32_t kType = 9;
constexpr uint32_t kNameIid = 10;
constexpr uint32_t kTrack = 11;
constexpr uint32_t kCounterValue = 30;
constexpr uint32_t kFlow = 47;
}  // namespace event_message
namespace annotation_message {
constexpr uint32_t kUint = 3;
constexpr uint32_t kString = 6;
constexpr uint32_t kName = 10;
}  // namespace annotation_message

enum class EventType : int32_t { kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4 };
constexpr uint32_t kStateCleared = 1;  // sequence flags
constexpr uint32_t kNeedsState = 2;
constexpr int32_t kUnitBytes = 3;
constexpr uint32_t kOurSequence = 1;
constexpr int32_t kOurProcess = 1;

struct Annotation {
  Annotation(const char* key, uint64_t value) : name(key), number(value) {}
  Annotation(const char* key, std::string value) : name(key), text(std::move(value)) {}
  const char* name;
  uint64_t number = 0;
  std::string text;  // empty: the number counts
};

struct TrackEvent {
  int64_t time = 0;
  EventType type = EventType::kInstant;
  uint64_t track = 0;
  std::string name;
  uint64_t counter = 0;
  std::optional<uint64_t> flow;
  std::vector<Annotation> annotations;
};

void annotate(std::vector<Annotation>& annotations, const char* name,
              const std::optional<uint64_t>& value) {
  if (value.has_value()) annotations.emplace_back(name, *value);
}

class Exporter {
 public:
  explicit Exporter(const Recording& recording) : recording_(recording), story_(tell(recording)) {}

  std::string write() {
    process_track_ = describe("dxgkit", 0, [](pbf_writer& descriptor) {
      pbf_writer process(descriptor, descriptor_message::kProcess);
      process.add_int32(1, kOurProcess);  // ProcessDescriptor.pid
      process.add_string(6, "dxgkit");    // ProcessDescriptor.process_name
    });
    threads();
    nodes();
    contexts();
    memory();
    world();
    // Per track the events were made in order; equal times keep it.
    std::stable_sort(events_.begin(), events_.end(),
                     [](const TrackEvent& a, const TrackEvent& b) { return a.time < b.time; });
    for (const TrackEvent& event : events_) emit(event);
    return std::move(out_);
  }

 private:
  template <typename Extra>
  uint64_t describe(std::string_view name, uint64_t parent, const Extra& extra) {
    const uint64_t uuid = ++last_track_;
    pbf_writer packet(trace_, trace_message::kPacket);
    packet.add_uint32(packet_message::kSequenceId, kOurSequence);
    if (uuid == 1) packet.add_uint32(packet_message::kSequenceFlags, kStateCleared);
    pbf_writer descriptor(packet, packet_message::kTrackDescriptor);
    descriptor.add_uint64(descriptor_message::kUuid, uuid);
    descriptor.add_string(descriptor_message::kName, name.data(), name.size());
    if (parent != 0) descriptor.add_uint64(descriptor_message::kParent, parent);
    extra(descriptor);
    return uuid;
  }
  uint64_t track(std::string_view name, uint64_t parent) {
    return describe(name, parent, [](pbf_writer&) {});
  }

  void slice(uint64_t track_uuid, int64_t begin, int64_t end, std::string name,
             std::optional<uint64_t> flow, std::vector<Annotation> annotations) {
    events_.push_back({.time = begin,
                       .type = EventType::kBegin,
                       .track = track_uuid,
                       .name = std::move(name),
                       .flow = flow,
                       .annotations = std::move(annotations)});
    events_.push_back({.time = std::max(begin, end),
                       .type = EventType::kEnd,
                       .track = track_uuid,
                       .name = {},
                       .flow = {},
                       .annotations = {}});
  }
  void instant(uint64_t track_uuid, int64_t time, std::string name,
               std::vector<Annotation> annotations) {
    events_.push_back({.time = time,
                       .type = EventType::kInstant,
                       .track = track_uuid,
                       .name = std::move(name),
                       .flow = {},
                       .annotations = std::move(annotations)});
  }

  /// Slices that may overlap go to as many tracks as needed, each to the first free one.
  class Lanes {
   public:
    Lanes(Exporter& exporter, std::string name, uint64_t parent)
        : exporter_(exporter), name_(std::move(name)), parent_(parent) {}
    uint64_t take(int64_t begin, int64_t end) {
      for (Lane& lane : lanes_) {
        if (lane.free_from > begin) continue;
        lane.free_from = end;
        return lane.track;
      }
      const std::string name =
          lanes_.empty() ? name_ : fmt::format("{} {}", name_, lanes_.size() + 1);
      lanes_.push_back({exporter_.track(name, parent_), end});
      return lanes_.back().track;
    }

   private:
    struct Lane {
      uint64_t track;
      int64_t free_from;
    };
    Exporter& exporter_;
    std::string name_;
    uint64_t parent_;
    std::vector<Lane> lanes_;
  };

  void threads() {
    std::map<uint32_t, uint64_t> tracks;
    for (const Call& call : story_.calls) tracks[call.thread] = 0;
    for (auto& [thread, uuid] : tracks) {
      const std::string name = thread < story_.threads.size() && !story_.threads[thread].empty()
                                   ? story_.threads[thread]
                                   : fmt::format("thread {}", thread);
      // Thread ids must not be 0, which viewers take for the idle thread, nor that of the process.
      const auto tid = static_cast<int32_t>(thread % 0x7FFF0000u) + kOurProcess + 1;
      uuid = describe(name, process_track_, [&](pbf_writer& descriptor) {
        pbf_writer info(descriptor, descriptor_message::kThread);
        info.add_int32(1, kOurProcess);  // ThreadDescriptor.pid
        info.add_int32(2, tid);          // ThreadDescriptor.tid
        info.add_string(5, name);        // ThreadDescriptor.thread_name
      });
    }
    // Begins and ends in the order they were recorded, which equal times must not disturb.
    struct Edge {
      size_t order;
      size_t tie;  // of several ends at one event the innermost is first
      const Call* call;
      bool is_end;
    };
    std::vector<Edge> edges;
    for (const Call& call : story_.calls) {
      edges.push_back({call.begin_order, 0, &call, false});
      edges.push_back({call.end_order, SIZE_MAX - call.depth, &call, true});
    }
    std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
      return a.order != b.order ? a.order < b.order : a.tie < b.tie;
    });
    for (const Edge& edge : edges) {
      const Call& call = *edge.call;
      TrackEvent event;
      event.track = tracks[call.thread];
      if (edge.is_end) {
        event.type = EventType::kEnd;
        event.time = call.end.value_or(story_.end);
      } else {
        event.type = EventType::kBegin;
        event.time = call.start;
        event.name = name_of(recording_, call.name);
        event.annotations.push_back({"kind", std::string(call_kind_name(call.kind))});
        annotate(event.annotations, "irql", call.irql);
        if (call.status.has_value()) {
          event.annotations.push_back({"status", fmt::format("{:#010x}", *call.status)});
        }
      }
      events_.push_back(std::move(event));
    }
  }

  void nodes() {
    for (const auto& [node, given_name] : story_.nodes) {
      const uint64_t group =
          track(fmt::format("Node {}{}", node, given_name.has_value() ? " " + *given_name : ""),
                process_track_);
      const uint64_t hardware = track("hardware", group);
      for (const Busy& busy : story_.busy) {
        if (busy.node != node) continue;
        std::vector<Annotation> annotations;
        annotate(annotations, "fence", busy.fence);
        std::string name = fmt::format("fence {}", busy.fence);
        std::optional<uint64_t> flow;
        if (busy.attempt.has_value()) {
          const Attempt& attempt = story_.attempts[*busy.attempt];
          name = fmt::format("packet {}", attempt.packet);
          flow = attempt.packet;
          annotate(annotations, "context", attempt.context);
        }
        slice(hardware, busy.start, busy.end.value_or(story_.end), std::move(name), flow,
              std::move(annotations));
      }
      Lanes queue(*this, "hardware queue", group);
      for (const Attempt& attempt : story_.attempts) {
        if (attempt.node != node) continue;
        const int64_t end = attempt.ended.value_or(story_.end);
        std::vector<Annotation> annotations;
        annotate(annotations, "fence", attempt.fence);
        annotate(annotations, "context", attempt.context);
        annotate(annotations, "attempt", attempt.index);
        annotations.push_back({"outcome", std::string(outcome_name(attempt.outcome))});
        slice(queue.take(attempt.submitted, end), attempt.submitted, end,
              fmt::format("packet {}", attempt.packet), attempt.packet, std::move(annotations));
      }
      instants_of_node(node, group);
    }
  }

  void instants_of_node(std::optional<uint16_t> node, uint64_t group) {
    uint64_t interrupts = 0;
    uint64_t dpcs = 0;
    for (const Event& event : story_.events) {
      const auto kind = static_cast<EventKind>(event.kind);
      if (event.node != node.value_or(kNoNode)) continue;
      std::vector<Annotation> annotations;
      if (kind == EventKind::kInterrupt) {
        if (interrupts == 0) interrupts = track("interrupts", group);
        annotate(annotations, "fence", event.c);
        instant(interrupts, event.time_ns, fmt::format("interrupt type {}", event.a),
                std::move(annotations));
      } else if (kind == EventKind::kDpcQueued || kind == EventKind::kDpcRun) {
        if (dpcs == 0) dpcs = track("DPCs", group);
        instant(dpcs, event.time_ns, kind == EventKind::kDpcQueued ? "queued" : "run",
                std::move(annotations));
      }
    }
  }

  void contexts() {
    // Packets in order of their queueing, per context, so that lanes are handed out by time.
    std::map<uint64_t, std::vector<const Packet*>> by_context;
    for (const Packet& packet : story_.packets) {
      if (packet.context.has_value() && packet.queued.has_value()) {
        by_context[*packet.context].push_back(&packet);
      }
    }
    for (auto& [context, packets] : by_context) {
      std::stable_sort(packets.begin(), packets.end(),
                       [](const Packet* a, const Packet* b) { return *a->queued < *b->queued; });
      const std::optional<std::string>& name = story_.contexts[context];
      const uint64_t group =
          track(fmt::format("Context {}{}", context, name.has_value() ? " " + *name : ""),
                process_track_);
      Lanes queue(*this, "software queue", group);
      for (const Packet* packet : packets) {
        Moment left = packet->submitted;
        if (!left.has_value()) left = packet->ended;
        const int64_t end = std::max(left.value_or(story_.end), *packet->queued);
        std::vector<Annotation> annotations;
        annotate(annotations, "kind", packet->kind);
        annotate(annotations, "patches", packet->patches);
        annotations.push_back({"outcome", std::string(outcome_name(packet->outcome))});
        slice(queue.take(*packet->queued, end), *packet->queued, end,
              fmt::format("packet {}", packet->id), packet->id, std::move(annotations));
      }
    }
  }

  void memory() {
    std::map<uint64_t, uint64_t> tracks;
    for (const Usage& usage : story_.usage) tracks[usage.segment] = 0;
    for (auto& [segment, uuid] : tracks) {
      uuid = describe(fmt::format("Segment {} placed", segment), process_track_,
                      [](pbf_writer& descriptor) {
                        pbf_writer counter(descriptor, descriptor_message::kCounter);
                        counter.add_enum(3, kUnitBytes);  // CounterDescriptor.unit
                      });
    }
    for (const Usage& usage : story_.usage) {
      events_.push_back({.time = usage.time,
                         .type = EventType::kCounter,
                         .track = tracks[usage.segment],
                         .name = {},
                         .counter = usage.bytes,
                         .flow = {},
                         .annotations = {}});
    }
  }

  /// Events without a node: interrupts without one, the adapter's states, findings, markers, sync
  /// objects, paging.
  void world() {
    const auto has_any = [this](std::initializer_list<EventKind> kinds, bool without_node) {
      return std::any_of(story_.events.begin(), story_.events.end(), [&](const Event& event) {
        return (!without_node || event.node == kNoNode) &&
               std::find(kinds.begin(), kinds.end(), static_cast<EventKind>(event.kind)) !=
                   kinds.end();
      });
    };
    if (has_any({EventKind::kInterrupt, EventKind::kDpcQueued, EventKind::kDpcRun}, true)) {
      instants_of_node(std::nullopt, track("Adapter-wide", process_track_));
    }
    if (has_any({EventKind::kAdapterState, EventKind::kFinding, EventKind::kMarker}, false)) {
      const uint64_t notes = track("Adapter", process_track_);
      for (const Event& event : story_.events) {
        switch (static_cast<EventKind>(event.kind)) {
          case EventKind::kAdapterState:
            instant(notes, event.time_ns, fmt::format("adapter {}: state {}", event.a, event.b),
                    {});
            break;
          case EventKind::kFinding:
            instant(notes, event.time_ns, "finding " + name_of(recording_, event.a),
                    {{"severity", event.b}});
            break;
          case EventKind::kMarker:
            instant(notes, event.time_ns, name_of(recording_, event.a), {});
            break;
          default:
            break;
        }
      }
    }
    if (has_any({EventKind::kSyncSignal, EventKind::kSyncWait, EventKind::kSyncSatisfied}, false)) {
      const uint64_t sync = track("Sync objects", process_track_);
      for (const Event& event : story_.events) {
        const char* what = nullptr;
        switch (static_cast<EventKind>(event.kind)) {
          case EventKind::kSyncSignal:
            what = "signal";
            break;
          case EventKind::kSyncWait:
            what = "wait";
            break;
          case EventKind::kSyncSatisfied:
            what = "satisfied";
            break;
          default:
            continue;
        }
        instant(sync, event.time_ns, fmt::format("{} {} = {}", what, event.a, event.b),
                {{"context", event.c}});
      }
    }
    if (has_any({EventKind::kPagingOperation, EventKind::kPageIn, EventKind::kPageOut}, false)) {
      const uint64_t paging = track("Paging", process_track_);
      for (const Event& event : story_.events) {
        switch (static_cast<EventKind>(event.kind)) {
          case EventKind::kPagingOperation:
            instant(paging, event.time_ns, fmt::format("operation {}", event.a),
                    {{"packet", event.b}, {"bytes", event.c}});
            break;
          case EventKind::kPageIn:
          case EventKind::kPageOut:
            instant(
                paging, event.time_ns,
                static_cast<EventKind>(event.kind) == EventKind::kPageIn ? "page in" : "page out",
                {{"allocation", event.a}, {"segment", event.b}, {"bytes", event.d}});
            break;
          default:
            break;
        }
      }
    }
  }

  void emit(const TrackEvent& event) {
    pbf_writer packet(trace_, trace_message::kPacket);
    packet.add_uint64(packet_message::kTimestamp, static_cast<uint64_t>(event.time));
    packet.add_uint32(packet_message::kSequenceId, kOurSequence);
    packet.add_uint32(packet_message::kSequenceFlags, kNeedsState);
    uint64_t name_iid = 0;
    if (!event.name.empty()) {
      const auto [place, is_new] = interned_.try_emplace(event.name, interned_.size() + 1);
      name_iid = place->second;
      if (is_new) {
        pbf_writer interned(packet, packet_message::kInternedData);
        pbf_writer entry(interned, 2);  // InternedData.event_names
        entry.add_uint64(1, name_iid);  // EventName.iid
        entry.add_string(2, event.name);
      }
    }
    pbf_writer body(packet, packet_message::kTrackEvent);
    body.add_enum(event_message::kType, static_cast<int32_t>(event.type));
    body.add_uint64(event_message::kTrack, event.track);
    if (name_iid != 0) body.add_uint64(event_message::kNameIid, name_iid);
    if (event.type == EventType::kCounter) {
      body.add_int64(event_message::kCounterValue, static_cast<int64_t>(event.counter));
    }
    if (event.flow.has_value()) body.add_fixed64(event_message::kFlow, *event.flow + 1);
    for (const Annotation& annotation : event.annotations) {
      pbf_writer each(body, event_message::kAnnotation);
      each.add_string(annotation_message::kName, annotation.name);
      if (annotation.text.empty()) {
        each.add_uint64(annotation_message::kUint, annotation.number);
      } else {
        each.add_string(annotation_message::kString, annotation.text);
      }
    }
  }

  const Recording& recording_;
  Story story_;
  std::string out_;
  pbf_writer trace_{out_};
  uint64_t last_track_ = 0;
  uint64_t process_track_ = 0;
  std::vector<TrackEvent> events_;
  std::map<std::string, uint64_t> interned_;
};

}  // namespace

std::string to_perfetto(const Recording& recording) { return Exporter(recording).write(); }

}  // namespace dxgkit::trace
