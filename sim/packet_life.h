// The fate of every packet, from a trace: the kernel's events against the device's own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace dxgkit::sim {

/// An engine that was reset while it worked, from the device's events.
struct CutShort {
  int64_t began_ns = 0, ended_ns = 0;
  uint16_t node = 0;
  uint32_t fence = 0;
  bool paging = false;
  std::string process;  // the process of the packet; "" for paging
};

/// The clock jumped ahead, from `at_ns` on.
struct TimeJump {
  int64_t at_ns = 0, by_ns = 0;
};
/// The time between two moments that the clock jumped over.
int64_t jumped_between(std::span<const TimeJump> jumps, int64_t from_ns, int64_t to_ns);

struct PacketLives {
  std::string failure;  // the first fault; empty: none
  uint64_t packets = 0, preempted = 0, checks = 0;
  std::vector<CutShort> cut_short;  // by time
};

/// Follows the packets of one adapter through `events`, which begin with its start. It checks:
/// - Fences of a node rise (except fences of preempted paging packets, which come again).
/// - No packet is submitted while it is on hardware.
/// - Every packet ends exactly once, as completed, cancelled or faulted.
/// - A packet that is reported complete ran, once. No packet runs after its end, when its DMA
///   buffer may be reused.
/// - An engine that stopped is reset within `patience_ns` of its start, without jumps of the clock.
/// Once the adapter failed or was removed, only one check remains: all packets end.
PacketLives follow_packets(std::span<const trace::Event> events, std::span<const std::string> names,
                           int64_t patience_ns, std::span<const TimeJump> jumps = {});

}  // namespace dxgkit::sim
