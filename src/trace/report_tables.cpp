#include "trace/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/causes.h"

namespace dxgkit::trace {
namespace {

/// Writes rows whose cells have types.
class Rows {
 public:
  Rows(TableOutput& output, int64_t origin) : output_(output), origin_(origin) {}

  void begin_table(std::string_view name, std::initializer_list<const char*> columns) {
    output_.begin_table(name, columns);
  }
  void end_table() { output_.end_table(); }
  template <typename... Cells>
  void row(const Cells&... cells) {
    (cell(cells), ...);
    output_.end_row();
  }

 private:
  void cell(uint64_t value) { output_.number(value); }
  void cell(uint32_t value) { output_.number(value); }
  void cell(uint16_t value) { output_.number(value); }
  void cell(const char* value) { output_.text(value); }
  void cell(const std::string& value) { output_.text(value); }
  void cell(int64_t time) { output_.number(static_cast<uint64_t>(time - origin_)); }
  template <typename T>
  void cell(const std::optional<T>& value) {
    value.has_value() ? cell(*value) : output_.null();
  }

  TableOutput& output_;
  const int64_t origin_;
};

void write_objects(Rows& rows, const Story& story) {
  std::map<uint16_t, uint64_t> busy;
  for (const Busy& each : story.busy) {
    busy[each.node] += static_cast<uint64_t>(each.end.value_or(story.end) - each.start);
  }
  rows.begin_table("nodes", {"node", "name", "busy_ns"});
  for (const auto& [node, name] : story.nodes) rows.row(node, name, busy[node]);
  rows.end_table();

  std::map<uint64_t, uint64_t> packets;
  for (const Packet& packet : story.packets) {
    if (packet.context.has_value()) ++packets[*packet.context];
  }
  rows.begin_table("contexts", {"context", "name", "packets", "process", "device"});
  for (const auto& [context, name] : story.contexts) {
    const auto owner = story.owners.find(context);
    std::optional<uint64_t> process, device;
    if (owner != story.owners.end()) std::tie(process, device) = owner->second;
    rows.row(context, name, packets[context], process, device);
  }
  rows.end_table();

  rows.begin_table("processes", {"process", "name"});
  for (const auto& [process, name] : story.processes) rows.row(process, name);
  rows.end_table();
}

void write_packets(Rows& rows, const Story& story) {
  rows.begin_table("packets", {"packet", "context", "node", "kind", "queued", "ready", "patched",
                               "patches", "submitted", "hw_start", "hw_end", "ended", "outcome",
                               "attempts", "queue_length"});
  for (const Packet& p : story.packets) {
    rows.row(p.id, p.context, p.node, p.kind, p.queued, p.ready, p.patched, p.patches, p.submitted,
             p.hw_start, p.hw_end, p.ended, outcome_name(p.outcome),
             static_cast<uint64_t>(p.attempts.size()), p.queue_length);
  }
  rows.end_table();

  rows.begin_table("attempts", {"packet", "attempt", "context", "node", "fence", "submitted",
                                "hw_start", "hw_end", "ended", "outcome", "queue_length"});
  for (const Attempt& a : story.attempts) {
    rows.row(a.packet, a.index, a.context, a.node, a.fence, a.submitted, a.hw_start, a.hw_end,
             a.ended, outcome_name(a.outcome), a.queue_length);
  }
  rows.end_table();

  rows.begin_table("hardware", {"node", "fence", "start", "end", "packet"});
  for (const Busy& busy : story.busy) {
    std::optional<uint64_t> packet;
    if (busy.attempt.has_value()) packet = story.attempts[*busy.attempt].packet;
    rows.row(busy.node, busy.fence, busy.start, busy.end, packet);
  }
  rows.end_table();
}

void write_interrupts(Rows& rows, const Story& story) {
  rows.begin_table("interrupts", {"time", "node", "type", "fence", "thread"});
  for (const Event& event : story.events) {
    if (event.kind != static_cast<uint16_t>(EventKind::kInterrupt)) continue;
    rows.row(event.time_ns, node_of(event), event.a, event.c, event.thread);
  }
  rows.end_table();
  rows.begin_table("dpcs", {"queued", "run", "node", "thread"});
  for (const Dpc& dpc : story.dpcs) rows.row(dpc.queued, dpc.run, dpc.node, dpc.thread);
  rows.end_table();
}

void write_calls(Rows& rows, const Story& story, const Recording& recording) {
  rows.begin_table("calls",
                   {"thread", "depth", "kind", "name", "start", "end", "status", "irql", "node"});
  for (const Call& call : story.calls) {
    rows.row(call.thread, call.depth, call_kind_name(call.kind), name_of(recording, call.name),
             call.start, call.end, call.status, call.irql, call.node);
  }
  rows.end_table();

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
  rows.begin_table("call_stats", {"kind", "name", "count", "failed", "total_ns", "min_ns", "p50_ns",
                                  "p99_ns", "max_ns"});
  for (const Statistics& s : sorted) {
    const size_t count = s.durations.size();
    // Nearest rank: the smallest duration that at least so many percent do not exceed.
    const auto percentile = [&](size_t percent) {
      return s.durations[(count * percent + 99) / 100 - 1];
    };
    rows.row(call_kind_name(s.kind), s.name, static_cast<uint64_t>(count), s.failed, s.total,
             s.durations.front(), percentile(50), percentile(99), s.durations.back());
  }
  rows.end_table();
}

void write_memory(Rows& rows, const Story& story) {
  rows.begin_table("segments", {"segment", "base", "size", "peak"});
  for (const auto& [number, segment] : story.segments) {
    rows.row(number, segment.base, segment.size, segment.peak);
  }
  rows.end_table();
  rows.begin_table("allocations", {"allocation", "size", "created", "destroyed", "process"});
  for (const auto& [id, each] : story.allocations) {
    rows.row(id, each.size, each.created, each.destroyed, each.process);
  }
  rows.end_table();
  const auto stays = [&rows](const char* name, const std::vector<Stay>& table) {
    rows.begin_table(name, {"allocation", "segment", "offset", "size", "from", "to"});
    for (const Stay& s : table) rows.row(s.allocation, s.segment, s.offset, s.size, s.from, s.to);
    rows.end_table();
  };
  stays("placements", story.placements);
  stays("aperture", story.aperture);
  rows.begin_table("usage", {"segment", "time", "bytes"});
  for (const Usage& usage : story.usage) rows.row(usage.segment, usage.time, usage.bytes);
  rows.end_table();
  rows.begin_table("budgets", {"time", "process", "group", "budget", "usage"});
  for (const Event& event : story.events) {
    if (event.kind != static_cast<uint16_t>(EventKind::kBudget)) continue;
    rows.row(event.time_ns, event.a, event.b, event.c, event.d);
  }
  rows.end_table();
  rows.begin_table("transfers", {"time", "direction", "allocation", "segment", "bytes"});
  for (const Event& event : story.events) {
    const auto kind = static_cast<EventKind>(event.kind);
    if (kind != EventKind::kPageIn && kind != EventKind::kPageOut) continue;
    rows.row(event.time_ns, kind == EventKind::kPageIn ? "in" : "out", event.a, event.b, event.d);
  }
  rows.end_table();
  rows.begin_table("paging", {"time", "operation", "packet", "bytes"});
  for (const Event& event : story.events) {
    if (event.kind != static_cast<uint16_t>(EventKind::kPagingOperation)) continue;
    rows.row(event.time_ns, event.a, event.b, event.c);
  }
  rows.end_table();
  rows.begin_table("locks", {"allocation", "from", "to"});
  for (const Stay& lock : story.locks) rows.row(lock.allocation, lock.from, lock.to);
  rows.end_table();
}

void write_rest(Rows& rows, const Story& story, const Recording& recording) {
  const auto each = [&story](std::initializer_list<EventKind> kinds, const auto& write) {
    for (const Event& event : story.events) {
      const auto kind = static_cast<EventKind>(event.kind);
      if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) write(event, kind);
    }
  };
  rows.begin_table("sync", {"time", "op", "object", "value", "context"});
  each({EventKind::kSyncSignal, EventKind::kSyncWait, EventKind::kSyncSatisfied},
       [&](const Event& event, EventKind kind) {
         const char* const op = kind == EventKind::kSyncSignal ? "signal"
                                : kind == EventKind::kSyncWait ? "wait"
                                                               : "satisfied";
         rows.row(event.time_ns, op, event.a, event.b, event.c);
       });
  rows.end_table();
  rows.begin_table("adapter", {"time", "adapter", "state"});
  each({EventKind::kAdapterState},
       [&](const Event& event, EventKind) { rows.row(event.time_ns, event.a, event.b); });
  rows.end_table();
  rows.begin_table("findings", {"time", "rule", "severity", "thread"});
  each({EventKind::kFinding}, [&](const Event& event, EventKind) {
    rows.row(event.time_ns, name_of(recording, event.a), event.b, event.thread);
  });
  rows.end_table();
  rows.begin_table("markers", {"time", "text", "thread"});
  each({EventKind::kMarker}, [&](const Event& event, EventKind) {
    rows.row(event.time_ns, name_of(recording, event.a), event.thread);
  });
  rows.end_table();
}

/// An evicted allocation's segment is in the event before the cause, of the same thread.
void write_evictions(Rows& rows, const Story& story) {
  rows.begin_table("evictions", {"time", "allocation", "segment", "offset", "size", "reason",
                                 "for_allocation", "for_packet"});
  std::map<uint32_t, const Event*> last;  // by thread
  for (const Event& event : story.events) {
    if (static_cast<EventKind>(event.kind) == EventKind::kEvicted) last[event.thread] = &event;
    if (static_cast<EventKind>(event.kind) != EventKind::kWhyEvicted) continue;
    const Event* const place = last[event.thread];
    if (place == nullptr || place->a != event.a) continue;
    rows.row(event.time_ns, event.a, place->b, place->c, place->d, event.b, event.c, event.d);
  }
  rows.end_table();
}

/// Thunks that failed, with what was noted inside and the first call of the driver in them that
/// failed too.
void write_refusals(Rows& rows, const Story& story, const Recording& recording) {
  struct Open {
    const Event* enter = nullptr;
    const Event* why = nullptr;
    const Event* driver = nullptr;
  };
  std::map<uint32_t, std::vector<Open>> stacks;
  rows.begin_table("refusals", {"time", "end", "thread", "name", "process", "status", "reason",
                                "handle", "expected", "found", "ddi", "ddi_status"});
  const auto failed = [](const Event& event) { return static_cast<int32_t>(event.b) < 0; };
  for (const Event& event : story.events) {
    std::vector<Open>& stack = stacks[event.thread];
    switch (static_cast<EventKind>(event.kind)) {
      case EventKind::kThunkEnter:
        stack.push_back({.enter = &event});
        break;
      case EventKind::kWhyRefused:
        if (!stack.empty()) stack.back().why = &event;
        break;
      case EventKind::kDdiExit:
        if (!stack.empty() && failed(event)) stack.back().driver = &event;
        break;
      case EventKind::kThunkExit: {
        while (!stack.empty() && stack.back().enter->a != event.a) stack.pop_back();
        if (stack.empty()) break;
        const Open open = stack.back();
        stack.pop_back();
        if (!failed(event)) break;
        std::optional<uint64_t> reason, handle, expected, found, driver_status;
        std::optional<std::string> ddi;
        if (open.why != nullptr) {
          reason = open.why->a;
          handle = open.why->b;
          expected = open.why->c;
          found = open.why->d;
        }
        if (open.driver != nullptr) {
          ddi = name_of(recording, open.driver->a);
          driver_status = open.driver->b;
        }
        rows.row(open.enter->time_ns, event.time_ns, event.thread, name_of(recording, event.a),
                 open.enter->b, event.b, reason, handle, expected, found, ddi, driver_status);
        break;
      }
      default:
        break;
    }
  }
  rows.end_table();
}

void write_causes(Rows& rows, const Story& story) {
  const auto each = [&story](EventKind kind, const auto& write) {
    for (const Event& event : story.events)
      if (static_cast<EventKind>(event.kind) == kind) write(event);
  };
  rows.begin_table("busy", {"time", "packet", "context", "reason", "allocation"});
  each(EventKind::kWhyBusy,
       [&](const Event& event) { rows.row(event.time_ns, event.a, event.b, event.c, event.d); });
  rows.end_table();
  rows.begin_table("preemptions", {"time", "node", "packet", "context", "reason", "fence"});
  each(EventKind::kWhyPreempted, [&](const Event& event) {
    rows.row(event.time_ns, node_of(event), event.a, event.b, event.c, event.d);
  });
  rows.end_table();
  rows.begin_table("timeouts", {"time", "node", "packet", "context", "fence", "preemption"});
  each(EventKind::kWhyTimeout, [&](const Event& event) {
    rows.row(event.time_ns, node_of(event), event.a, event.b, event.c, event.d);
  });
  rows.end_table();
  rows.begin_table("hung_buffers", {"time", "node", "packet", "segment", "address", "bytes"});
  each(EventKind::kHungBuffer, [&](const Event& event) {
    rows.row(event.time_ns, node_of(event), event.a, event.b, event.c, event.d);
  });
  rows.end_table();
  rows.begin_table("hung_patches", {"time", "packet", "offset", "allocation", "allocation_offset"});
  each(EventKind::kHungPatch,
       [&](const Event& event) { rows.row(event.time_ns, event.a, event.b, event.c, event.d); });
  rows.end_table();
  rows.begin_table("hung_bytes", {"time", "packet", "offset", "bytes"});
  each(EventKind::kHungBytes, [&](const Event& event) {
    // As text: not every number of 64 bits is exact on a page.
    rows.row(event.time_ns, event.a, event.b, fmt::format("{:016x}{:016x}", event.d, event.c));
  });
  rows.end_table();
  rows.begin_table("lost_devices", {"time", "process", "device", "state"});
  each(EventKind::kWhyDeviceLost, [&](const Event& event) {
    constexpr uint64_t kStopped = 4;  // closed by its client, or with the adapter
    if (event.c != kStopped) rows.row(event.time_ns, event.a, event.b, event.c);
  });
  rows.end_table();
}

void write_handles(Rows& rows, const Story& story) {
  struct Handle {
    const Event* opened = nullptr;
    std::optional<int64_t> closed;
  };
  std::vector<Handle> handles;
  std::map<std::pair<uint64_t, uint64_t>, size_t> live;  // by process and handle
  for (const Event& event : story.events) {
    const auto kind = static_cast<EventKind>(event.kind);
    if (kind == EventKind::kHandleOpened) {
      live[{event.a, event.b}] = handles.size();
      handles.push_back({&event, {}});
    } else if (kind == EventKind::kHandleClosed) {
      const auto found = live.find({event.a, event.b});
      if (found == live.end()) continue;
      handles[found->second].closed = event.time_ns;
      live.erase(found);
    }
  }
  rows.begin_table("handles", {"process", "handle", "type", "names", "from", "to"});
  for (const Handle& each : handles) {
    const Event& opened = *each.opened;
    rows.row(opened.a, opened.b, opened.c, opened.d, opened.time_ns, each.closed);
  }
  rows.end_table();
}

/// GPU virtual addresses: what clients mapped, and what is in page tables. A view and the entries
/// belong to the last kGpuVaMapped and kPageTableWrite of their thread.
void write_addresses(Rows& rows, const Story& story) {
  const auto each = [&story](EventKind kind, const auto& write) {
    for (const Event& event : story.events)
      if (static_cast<EventKind>(event.kind) == kind) write(event);
  };
  rows.begin_table("va_spaces", {"time", "process", "bits", "levels", "index_bits"});
  each(EventKind::kGpuVaSpace,
       [&](const Event& event) { rows.row(event.time_ns, event.a, event.b, event.c, event.d); });
  rows.end_table();
  rows.begin_table("va_changes", {"time", "process", "what", "address", "size", "allocation",
                                  "offset", "protection"});
  std::map<uint32_t, const Event*> mapped;  // by thread, whose view is still to come
  const auto change = [&](const Event& event, const char* what) {
    const std::optional<uint64_t> none;
    rows.row(event.time_ns, event.a, what, event.b, event.c, none, none, none);
  };
  for (const Event& event : story.events) {
    switch (static_cast<EventKind>(event.kind)) {
      case EventKind::kGpuVaReserved:
        change(event, "reserved");
        break;
      case EventKind::kGpuVaFreed:
        change(event, "freed");
        break;
      case EventKind::kGpuVaUnmapped:
        change(event, "unmapped");
        break;
      case EventKind::kGpuVaSpaceEnded:
        rows.row(event.time_ns, event.a, "ended", uint64_t{0}, uint64_t{0},
                 std::optional<uint64_t>(), std::optional<uint64_t>(), std::optional<uint64_t>());
        break;
      case EventKind::kGpuVaMapped:
        mapped[event.thread] = &event;
        break;
      case EventKind::kGpuVaView:
        if (const Event* const first = std::exchange(mapped[event.thread], nullptr))
          rows.row(first->time_ns, first->a, "mapped", first->b, first->c, first->d, event.b,
                   event.c);
        break;
      default:
        break;
    }
  }
  rows.end_table();
  rows.begin_table("table_entries", {"time", "process", "level", "segment", "offset", "first",
                                     "count", "page", "flags", "apart"});
  std::map<uint32_t, const Event*> tables;  // by thread
  for (const Event& event : story.events) {
    const auto kind = static_cast<EventKind>(event.kind);
    const std::optional<uint64_t> none;
    if (kind == EventKind::kPageTablesLost || kind == EventKind::kGpuVaSpaceEnded)
      rows.row(event.time_ns, event.a, none, none, none, none, none, none, none, none);
    if (kind == EventKind::kPageTableWrite) tables[event.thread] = &event;
    if (kind != EventKind::kPageTableEntries) continue;
    const Event* const table = tables[event.thread];
    if (table == nullptr) continue;
    rows.row(event.time_ns, table->a, table->b, table->d, table->c, event.a, event.b, event.c,
             event.d & UINT32_MAX, event.d >> 32);
  }
  rows.end_table();
  rows.begin_table("va_faults", {"time", "node", "fence", "address", "flags", "level"});
  each(EventKind::kGpuVaFault, [&](const Event& event) {
    rows.row(event.time_ns, node_of(event), event.a, event.b, event.c, event.d);
  });
  rows.end_table();
}

}  // namespace

void write_tables(const Recording& recording, const Story& story, TableOutput& output) {
  Rows rows(output, story.start);
  write_objects(rows, story);
  write_packets(rows, story);
  write_interrupts(rows, story);
  write_memory(rows, story);
  write_rest(rows, story, recording);
  write_evictions(rows, story);
  write_causes(rows, story);
  write_refusals(rows, story, recording);
  write_handles(rows, story);
  write_addresses(rows, story);
  write_calls(rows, story, recording);
}

}  // namespace dxgkit::trace
