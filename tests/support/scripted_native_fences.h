// Native fences for the scripted miniport with GPU virtual addresses: an engine that signals
// through the opener's page tables and interrupts only above the monitored value.
//
//   ScriptedNativeFences fences(miniport, gpu);
//   ... start, D3DKMTCreateNativeFence ...
//   fences.signal(*fences.openings.back(), 42);  // true: it interrupted
//
// One exists at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/support/scripted_gpu_va.h"

namespace dxgkit::testing {

struct ScriptedNativeFence {
  DXGKARG_CREATENATIVEFENCE args{};  // as given
  uint64_t monitored = UINT64_MAX;   // what engines compare with
  uint32_t openings = 0;
  bool gone = false;
};

struct ScriptedNativeOpening {
  DXGKARG_OPENNATIVEFENCE args{};  // as given
  ScriptedNativeFence* fence = nullptr;
  void* process = nullptr;  // the driver's, of the device
  bool gone = false;
};

class ScriptedNativeFences {
 public:
  /// Raises the miniport's version to WDDM 3.2.
  ScriptedNativeFences(ScriptedMiniport& miniport, ScriptedGpuVa& gpu);
  ~ScriptedNativeFences();
  ScriptedNativeFences(const ScriptedNativeFences&) = delete;
  ScriptedNativeFences& operator=(const ScriptedNativeFences&) = delete;

  // --- before load
  bool reported = true;  // NativeGpuFence
  bool entries = true;   // of the table
  bool system_process = false;
  NTSTATUS caps_answer = 0;
  // --- any time; empty: the default
  std::function<NTSTATUS(DXGKARG_CREATENATIVEFENCE*)> on_create;
  std::function<NTSTATUS(DXGKARG_OPENNATIVEFENCE*)> on_open;
  /// Runs first; a failure is the answer.
  std::function<NTSTATUS(ScriptedNativeFence&, uint64_t value)> on_monitored, on_current;
  /// DxgkDdiUpdateCurrentValuesFromCpu stores nothing.
  bool forgets_current = false;

  // --- the device
  /// An engine of the opening's process writes the value. True: above the monitored value, so it
  /// has interrupted, naming the fence.
  bool signal(ScriptedNativeOpening& opening, uint64_t value);
  uint64_t current(const ScriptedNativeOpening& opening) const;
  /// NATIVE_FENCE_SIGNALED; null: nobody is named.
  bool interrupt(void* const* handles, uint32_t count, bool legacy_too = false);

  // --- what happened
  std::vector<std::unique_ptr<ScriptedNativeFence>> fences;  // in order, gone ones too
  std::vector<std::unique_ptr<ScriptedNativeOpening>> openings;
  std::vector<uint64_t> monitored, currents;  // values of updates, in order
  std::vector<std::string> order;             // of create, open, close, destroy
  std::vector<uint8_t> levels;                // of updates
  size_t live() const;

  struct Entries;

 private:
  friend struct Entries;
  ScriptedMiniport& miniport_;
  ScriptedGpuVa& gpu_;
  std::function<void(DXGK_DRIVERCAPS&)> caps_before_;
  std::function<void(DRIVER_INITIALIZATION_DATA&)> table_before_;
  std::function<NTSTATUS(const DXGKARG_QUERYADAPTERINFO*)> query_before_;
};

}  // namespace dxgkit::testing
