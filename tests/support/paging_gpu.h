// A memory behind the scripted miniport: executes its paging operations on tags, one per page, and
// forgets what a power failure takes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "bus/machine.h"
#include "tests/support/scripted_miniport.h"

namespace dxgkit::testing {

/// Takes over `hooks.submit` of the miniport. Operations run when their packet is submitted, in
/// order, and are reported when the test completes the packet: until then the kernel may not rely
/// on them. Pages of memory segments are tags in a map, system pages hold theirs in their first
/// eight bytes. `config.record` stays on.
class PagingGpu {
 public:
  PagingGpu(ScriptedMiniport& miniport, bus::Machine& machine);
  ~PagingGpu();
  PagingGpu(const PagingGpu&) = delete;

  static constexpr uint64_t kPage = 4096;
  /// GPU address of a page in a memory segment.
  uint64_t read(uint64_t address) const;
  void write(uint64_t address, uint64_t tag) { memory_[address] = tag; }
  /// Whether an aperture page leads anywhere.
  bool mapped(uint64_t address) const;
  /// A physical page of the machine.
  uint64_t read_system(uint64_t frame) const;
  void write_system(uint64_t frame, uint64_t tag);

  /// Power goes: [base, base + kept) of each segment survives, all else reads as garbage.
  void lose_power(const std::vector<uint64_t>& kept_bytes);
  /// Paging operations executed so far.
  uint64_t executed() const { return executed_; }
  /// Called before operation number `at` (from 0) runs; if it answers true that one and all later
  /// ones of this power-on do not run.
  std::function<bool(uint64_t at)> before_operation;
  /// Powered again after lose_power or an interception.
  void power_on() { dead_ = false; }
  bool dead() const { return dead_; }

 private:
  NTSTATUS submit(const DXGKARG_SUBMITCOMMAND* args);
  void execute(const PagingCall& call);
  uint64_t aperture_base(uint32_t segment) const {
    return miniport_.config.segments.at(segment - 1).base_address;
  }
  uint64_t garbage() { return 0xDEAD'0000'0000'0000 | ++garbage_; }

  ScriptedMiniport& miniport_;
  bus::Machine& machine_;
  std::map<uint64_t, uint64_t> memory_;    // page address -> tag
  std::map<uint64_t, uint64_t> aperture_;  // page address -> frame of the machine
  uint64_t executed_ = 0, garbage_ = 0;
  bool dead_ = false;
};

}  // namespace dxgkit::testing
