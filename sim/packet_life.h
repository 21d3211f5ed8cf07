// What became of every packet, told from a trace: the kernel's events against the device's own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace dxgkit::sim {

/// An engine that was reset while it worked, as the device saw it.
struct CutShort {
  int64_t began_ns = 0, ended_ns = 0;
  uint16_t node = 0;
  uint32_t fence = 0;
  bool paging = false;
  std::string process;  // whose packet it was; "" for paging
};

/// The clock jumped ahead, from `at_ns` on.
struct TimeJump {
  int64_t at_ns = 0, by_ns = 0;
};
/// How much of the time between two moments the clock jumped over.
int64_t jumped_between(std::span<const TimeJump> jumps, int64_t from_ns, int64_t to_ns);

struct PacketLives {
  std::string failure;  // the first thing wrong; empty: nothing
  uint64_t packets = 0, preempted = 0, checks = 0;
  std::vector<CutShort> cut_short;  // by time
};

/// Follows the packets of one adapter through `events`, which begin with its start. Checked: fences
/// of a node rise (but those of preempted paging packets, which come again); no packet is submitted
/// while it is on hardware; every one ends exactly once, as completed, cancelled or faulted; what
/// is told complete ran, once; nothing runs that has ended, so that its DMA buffer is in nobody's
/// hands; an engine that stands still is reset within `patience_ns` of the moment it began, jumps
/// of the clock apart. Once the adapter failed or was removed the device is left alone: only that
/// all packets end still holds.
PacketLives follow_packets(std::span<const trace::Event> events, std::span<const std::string> names,
                           int64_t patience_ns, std::span<const TimeJump> jumps = {});

}  // namespace dxgkit::sim
