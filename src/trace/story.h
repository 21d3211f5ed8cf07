// Packets, calls, busy times and stays in memory, computed from the events of a recording. The
// exporters use it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace dxgkit::trace {

using Moment = std::optional<int64_t>;  // ns of the runtime; none: did not happen, or not yet

enum class Outcome { kPending, kCompleted, kPreempted, kCancelled, kFaulted };
const char* outcome_name(Outcome outcome);

enum class CallKind { kDdi, kCallback, kThunk };
const char* call_kind_name(CallKind kind);

/// One submission of a packet to hardware.
struct Attempt {
  uint64_t packet = 0;
  uint32_t index = 0;  // number among the packet's attempts
  std::optional<uint64_t> context;
  std::optional<uint16_t> node;
  uint64_t fence = 0;
  int64_t submitted = 0;
  Moment hw_start, hw_end, ended;
  Outcome outcome = Outcome::kPending;
  uint64_t queue_length = 0;
};

struct Packet {
  uint64_t id = 0;
  std::optional<uint64_t> context;
  std::optional<uint16_t> node;
  std::optional<uint64_t> kind, patches, queue_length;
  Moment queued, ready, patched, submitted, hw_start, hw_end, ended;
  Outcome outcome = Outcome::kPending;
  std::vector<size_t> attempts;  // into Story::attempts
};

/// A time in which a node works. Intervals of one node never overlap.
struct Busy {
  uint16_t node = 0;
  uint64_t fence = 0;
  int64_t start = 0;
  Moment end;
  std::optional<size_t> attempt;  // the attempt whose work it was
};

struct Call {
  uint32_t thread = 0;
  uint32_t depth = 0;
  CallKind kind = CallKind::kDdi;
  uint64_t name = 0;  // a name id
  int64_t start = 0;
  Moment end;
  std::optional<uint64_t> status, irql;
  std::optional<uint16_t> node;
  size_t begin_order = 0, end_order = 0;  // positions among the events, for equal times
};

struct Dpc {
  Moment queued, run;
  std::optional<uint16_t> node;
  uint32_t thread = 0;
};

/// An allocation in a segment, a mapping in an aperture, or a lock.
struct Stay {
  uint64_t allocation = 0, segment = 0, offset = 0, size = 0;
  int64_t from = 0;
  Moment to;
};

struct Allocation {
  std::optional<uint64_t> size;
  uint64_t process = 0;  // its owner; 0: the kernel
  Moment created, destroyed;
};

struct Segment {
  std::optional<uint64_t> base, size;
  uint64_t placed = 0, peak = 0;  // bytes
};

struct Usage {
  uint64_t segment = 0;
  int64_t time = 0;
  uint64_t bytes = 0;
};

struct Story {
  int64_t start = 0, end = 0;
  std::span<const Event> events;  // by time: the recording's, or `sorted`
  std::vector<Event> sorted;      // empty if the recording is by time
  std::vector<std::string> threads;
  std::map<uint16_t, std::optional<std::string>> nodes;
  std::map<uint64_t, std::optional<std::string>> contexts;
  std::map<uint64_t, std::string> processes;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> owners;  // context: process, device handle
  std::vector<Packet> packets;                               // by first event
  std::vector<Attempt> attempts;                             // by time
  std::vector<Busy> busy;                                    // by start
  std::vector<Call> calls;                                   // by start
  std::vector<Dpc> dpcs;
  std::vector<Stay> placements, aperture, locks;  // by `from`
  std::map<uint64_t, Allocation> allocations;
  std::map<uint64_t, Segment> segments;
  std::vector<Usage> usage;
};

/// The recording has to live as long as the story. Never fails. Events that do not fit together (a
/// lost beginning, an exit without its enter) are left out or left open.
Story tell(const Recording& recording);

/// The text of a name id, or "name 17" if the recording has none.
std::string name_of(const Recording& recording, uint64_t id);

}  // namespace dxgkit::trace
