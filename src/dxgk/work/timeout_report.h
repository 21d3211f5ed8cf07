// What became of timeouts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dxgkit::dxgk {

/// One thing the kernel or the driver did, at a time of the runtime's clock.
struct TimeoutStep {
  int64_t at_ns = 0;
  std::string text;  // a full sentence
};

/// A process's device that was there when the recovery ended.
struct TimeoutDevice {
  std::string process;
  uint32_t handle = 0;
  bool hurt = false;  // lost in this recovery
  std::string state;  // "active", "hung", "reset", ...
};

/// A report event (TDR-07): what Windows writes a live dump for. It stops nothing.
struct TimeoutReport {
  uint32_t code = 0;  // 0x141 engine reset, 0x117 adapter reset, 0x142 process blocked, 0x193 other
  uint32_t node = 0;  // meaningless for 0x142
  uint32_t fence = 0;       // of the oldest packet on the node's hardware; 0: none
  uint64_t packet = 0;      // how many packets the node had been given with it, from 1; 0: none
  uint32_t preemption = 0;  // the PreemptionFenceId that was not answered; 0: nothing was asked
  std::string process;      // whose packet it was; "" for paging or none
  std::string cause;        // a full sentence
  int64_t asked_ns = 0, detected_ns = 0, ended_ns = 0;  // preemption asked, timed out, recovered
  bool granted = false;             // before, the driver had called the engine responsive (TDR-10)
  std::optional<uint32_t> aborted;  // the LastAbortedFenceId of the engine; none: it has not said
  bool recovered = false;
  std::vector<TimeoutStep> steps;
  std::vector<TimeoutDevice> devices;
  size_t debug_bytes = 0;  // what the driver left for the dump
};

}  // namespace dxgkit::dxgk
