// The JSON of report.html. The format is written down in README.md; change both together.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "trace/story.h"

namespace dxgkit::trace {
namespace {

/// Length of the well-formed UTF-8 sequence at the front of `text`, 0 if there is none. Unicode,
/// table 3-7.
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto in = [&](size_t i, unsigned low, unsigned high) {
    return i < text.size() && at(i) >= low && at(i) <= high;
  };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return in(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) && in(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

class Json {
 public:
  explicit Json(int64_t origin) : origin_(origin) {}

  void key(std::string_view name) {
    separate();
    string(name);
    out_ += ':';
    fresh_ = true;
  }
  void open(char bracket) {
    separate();
    out_ += bracket;
    fresh_ = true;
  }
  void close(char bracket) {
    out_ += bracket;
    fresh_ = false;
  }
  void null() {
    separate();
    out_ += "null";
  }
  void number(uint64_t value) {
    separate();
    constexpr uint64_t kExact = (uint64_t{1} << 53) - 1;  // the largest exact integer in JavaScript
    if (value <= kExact) {
      fmt::format_to(std::back_inserter(out_), "{}", value);
    } else {
      fmt::format_to(std::back_inserter(out_), "\"{}\"", value);
    }
  }
  void text(std::string_view value) {
    separate();
    string(value);
  }
  void time(int64_t value) { number(static_cast<uint64_t>(value - origin_)); }

  // One cell of a row, by type.
  void cell(uint64_t value) { number(value); }
  void cell(uint32_t value) { number(value); }
  void cell(uint16_t value) { number(value); }
  void cell(const char* value) { text(value); }
  void cell(const std::string& value) { text(value); }
  void cell(const Moment& value) { value.has_value() ? time(*value) : null(); }
  void cell(int64_t value) { time(value); }
  template <typename T>
  void cell(const std::optional<T>& value) {
    value.has_value() ? cell(*value) : null();
  }
  template <typename... Cells>
  void row(const Cells&... cells) {
    open('[');
    (cell(cells), ...);
    close(']');
  }

  void begin_table(std::string_view name, std::initializer_list<const char*> columns) {
    key(name);
    open('{');
    key("columns");
    open('[');
    for (const char* column : columns) text(column);
    close(']');
    key("rows");
    open('[');
  }
  void end_table() {
    close(']');
    close('}');
  }

  std::string take() { return std::move(out_); }

 private:
  void separate() {
    if (!fresh_) out_ += ',';
    fresh_ = false;
  }
  void string(std::string_view value) {
    out_ += '"';
    while (!value.empty()) {
      const size_t length = utf8_length(value);
      const char first = value[0];
      if (length == 0) {
        out_ += "\\ufffd";
      } else if (length == 1 && (static_cast<unsigned char>(first) < 0x20 || first == '<')) {
        fmt::format_to(std::back_inserter(out_), "\\u{:04x}", static_cast<unsigned char>(first));
      } else if (first == '"' || first == '\\') {
        out_ += '\\';
        out_ += first;
      } else {
        out_ += value.substr(0, length);
      }
      value.remove_prefix(std::max<size_t>(length, 1));
    }
    out_ += '"';
  }

  std::string out_;
  const int64_t origin_;
  bool fresh_ = true;
};

void write_objects(Json& json, const Story& story) {
  std::map<uint16_t, uint64_t> busy;
  for (const Busy& each : story.busy) {
    busy[each.node] += static_cast<uint64_t>(each.end.value_or(story.end) - each.start);
  }
  json.begin_table("nodes", {"node", "name", "busy_ns"});
  for (const auto& [node, name] : story.nodes) json.row(node, name, busy[node]);
  json.end_table();

  std::map<uint64_t, uint64_t> packets;
  for (const Packet& packet : story.packets) {
    if (packet.context.has_value()) ++packets[*packet.context];
  }
  json.begin_table("contexts", {"context", "name", "packets"});
  for (const auto& [context, name] : story.contexts) json.row(context, name, packets[context]);
  json.end_table();

  json.begin_table("processes", {"process", "name"});
  for (const auto& [process, name] : story.processes) json.row(process, name);
  json.end_table();
}

void write_packets(Json& json, const Story& story) {
  json.begin_table("packets", {"packet", "context", "node", "kind", "queued", "ready", "patched",
                               "patches", "submitted", "hw_start", "hw_end", "ended", "outcome",
                               "attempts", "queue_length"});
  for (const Packet& p : story.packets) {
    json.row(p.id, p.context, p.node, p.kind, p.queued, p.ready, p.patched, p.patches, p.submitted,
             p.hw_start, p.hw_end, p.ended, outcome_name(p.outcome),
             static_cast<uint64_t>(p.attempts.size()), p.queue_length);
  }
  json.end_table();

  json.begin_table("attempts", {"packet", "attempt", "context", "node", "fence", "submitted",
                                "hw_start", "hw_end", "ended", "outcome", "queue_length"});
  for (const Attempt& a : story.attempts) {
    json.row(a.packet, a.index, a.context, a.node, a.fence, a.submitted, a.hw_start, a.hw_end,
             a.ended, outcome_name(a.outcome), a.queue_length);
  }
  json.end_table();

  json.begin_table("hardware", {"node", "fence", "start", "end", "packet"});
  for (const Busy& busy : story.busy) {
    std::optional<uint64_t> packet;
    if (busy.attempt.has_value()) packet = story.attempts[*busy.attempt].packet;
    json.row(busy.node, busy.fence, busy.start, busy.end, packet);
  }
  json.end_table();
}

void write_interrupts(Json& json, const Story& story) {
  json.begin_table("interrupts", {"time", "node", "type", "fence", "thread"});
  for (const Event& event : story.events) {
    if (event.kind != static_cast<uint16_t>(EventKind::kInterrupt)) continue;
    json.row(event.time_ns, node_of(event), event.a, event.c, event.thread);
  }
  json.end_table();
  json.begin_table("dpcs", {"queued", "run", "node", "thread"});
  for (const Dpc& dpc : story.dpcs) json.row(dpc.queued, dpc.run, dpc.node, dpc.thread);
  json.end_table();
}

void write_calls(Json& json, const Story& story, const Recording& recording) {
  json.begin_table("calls",
                   {"thread", "depth", "kind", "name", "start", "end", "status", "irql", "node"});
  for (const Call& call : story.calls) {
    json.row(call.thread, call.depth, call_kind_name(call.kind), name_of(recording, call.name),
             call.start, call.end, call.status, call.irql, call.node);
  }
  json.end_table();

  struct Statistics {
    CallKind kind = CallKind::kDdi;
    std::string name;
    uint64_t failed = 0;
    uint64_t total = 0;
    std::vector<uint64_t> durations;
  };
  std::map<std::pair<CallKind, uint64_t>, Statistics> by_name;
  for (const Call& call : story.calls) {
    if (!call.end.has_value()) continue;
    Statistics& statistics = by_name[{call.kind, call.name}];
    const auto duration = static_cast<uint64_t>(*call.end - call.start);
    statistics.kind = call.kind;
    statistics.total += duration;
    statistics.durations.push_back(duration);
    // A callback's result may be any value, not a status.
    if (call.kind != CallKind::kCallback && call.status.has_value() &&
        static_cast<int32_t>(*call.status) < 0) {
      ++statistics.failed;
    }
  }
  std::vector<Statistics> sorted;
  for (auto& [key, statistics] : by_name) {
    statistics.name = name_of(recording, key.second);
    std::sort(statistics.durations.begin(), statistics.durations.end());
    sorted.push_back(std::move(statistics));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Statistics& a, const Statistics& b) { return a.total > b.total; });
  json.begin_table("call_stats", {"kind", "name", "count", "failed", "total_ns", "min_ns", "p50_ns",
                                  "p99_ns", "max_ns"});
  for (const Statistics& s : sorted) {
    const size_t count = s.durations.size();
    // Nearest rank: the smallest duration that at least so many percent do not exceed.
    const auto percentile = [&](size_t percent) {
      return s.durations[(count * percent + 99) / 100 - 1];
    };
    json.row(call_kind_name(s.kind), s.name, static_cast<uint64_t>(count), s.failed, s.total,
             s.durations.front(), percentile(50), percentile(99), s.durations.back());
  }
  json.end_table();
}

void write_memory(Json& json, const Story& story) {
  json.begin_table("segments", {"segment", "base", "size", "peak"});
  for (const auto& [number, segment] : story.segments) {
    json.row(number, segment.base, segment.size, segment.peak);
  }
  json.end_table();
  json.begin_table("allocations", {"allocation", "size", "created", "destroyed", "process"});
  for (const auto& [id, each] : story.allocations) {
    json.row(id, each.size, each.created, each.destroyed, each.process);
  }
  json.end_table();
  const auto stays = [&json](const char* name, const std::vector<Stay>& table) {
    json.begin_table(name, {"allocation", "segment", "offset", "size", "from", "to"});
    for (const Stay& s : table) json.row(s.allocation, s.segment, s.offset, s.size, s.from, s.to);
    json.end_table();
  };
  stays("placements", story.placements);
  stays("aperture", story.aperture);
  json.begin_table("usage", {"segment", "time", "bytes"});
  for (const Usage& usage : story.usage) json.row(usage.segment, usage.time, usage.bytes);
  json.end_table();
  json.begin_table("budgets", {"time", "process", "group", "budget", "usage"});
  for (const Event& event : story.events) {
    if (event.kind != static_cast<uint16_t>(EventKind::kBudget)) continue;
    json.row(event.time_ns, event.a, event.b, event.c, event.d);
  }
  json.end_table();
  json.begin_table("transfers", {"time", "direction", "allocation", "segment", "bytes"});
  for (const Event& event : story.events) {
    const auto kind = static_cast<EventKind>(event.kind);
    if (kind != EventKind::kPageIn && kind != EventKind::kPageOut) continue;
    json.row(event.time_ns, kind == EventKind::kPageIn ? "in" : "out", event.a, event.b, event.d);
  }
  json.end_table();
  json.begin_table("paging", {"time", "operation", "packet", "bytes"});
  for (const Event& event : story.events) {
    if (event.kind != static_cast<uint16_t>(EventKind::kPagingOperation)) continue;
    json.row(event.time_ns, event.a, event.b, event.c);
  }
  json.end_table();
  json.begin_table("locks", {"allocation", "from", "to"});
  for (const Stay& lock : story.locks) json.row(lock.allocation, lock.from, lock.to);
  json.end_table();
}

void write_rest(Json& json, const Story& story, const Recording& recording) {
  const auto each = [&story](std::initializer_list<EventKind> kinds, const auto& write) {
    for (const Event& event : story.events) {
      const auto kind = static_cast<EventKind>(event.kind);
      if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) write(event, kind);
    }
  };
  json.begin_table("sync", {"time", "op", "object", "value", "context"});
  each({EventKind::kSyncSignal, EventKind::kSyncWait, EventKind::kSyncSatisfied},
       [&](const Event& event, EventKind kind) {
         const char* const op = kind == EventKind::kSyncSignal ? "signal"
                                : kind == EventKind::kSyncWait ? "wait"
                                                               : "satisfied";
         json.row(event.time_ns, op, event.a, event.b, event.c);
       });
  json.end_table();
  json.begin_table("adapter", {"time", "adapter", "state"});
  each({EventKind::kAdapterState},
       [&](const Event& event, EventKind) { json.row(event.time_ns, event.a, event.b); });
  json.end_table();
  json.begin_table("findings", {"time", "rule", "severity", "thread"});
  each({EventKind::kFinding}, [&](const Event& event, EventKind) {
    json.row(event.time_ns, name_of(recording, event.a), event.b, event.thread);
  });
  json.end_table();
  json.begin_table("markers", {"time", "text", "thread"});
  each({EventKind::kMarker}, [&](const Event& event, EventKind) {
    json.row(event.time_ns, name_of(recording, event.a), event.thread);
  });
  json.end_table();
}

}  // namespace

std::string to_report_json(const Recording& recording) {
  const Story story = tell(recording);
  Json json(story.start);
  json.open('{');
  json.key("format");
  json.text("dxgkit-report");
  json.key("version");
  json.number(1);
  json.key("start_ns");
  json.number(static_cast<uint64_t>(story.start));
  json.key("duration_ns");
  json.time(story.end);
  json.key("events");
  json.number(story.events.size());
  json.key("dropped");
  json.number(recording.dropped);
  json.key("threads");
  json.open('[');
  for (const std::string& name : story.threads) json.text(name);
  json.close(']');
  write_objects(json, story);
  write_packets(json, story);
  write_interrupts(json, story);
  write_calls(json, story, recording);
  write_memory(json, story);
  write_rest(json, story, recording);
  json.close('}');
  return json.take();
}

}  // namespace dxgkit::trace
