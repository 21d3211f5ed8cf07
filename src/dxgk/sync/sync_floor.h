// The parts of an adapter that the sync floor may use.
#pragma once

#include "dxgk/core/object.h"

namespace dxgkit::dxgk {

class AdapterCore;
class CpuEvents;
class NativeFences;
class SyncAddresses;

/// A floor names what stands on it and below, so that no class needs to know the adapter. The
/// adapter owns the parts and fills the floors in while it starts; objects of clients keep a
/// reference to the floor they stand on. Null: the adapter has no such part, or has not got that
/// far.
struct SyncFloor {
  SyncFloor(AdapterCore& adapter_core, Object& whole) : core(adapter_core), adapter(whole) {}

  /// Keeps the adapter, and so the floors, while it lives: for objects of clients, and for what is
  /// posted or timed.
  Ref<Object> keep_adapter() const { return Ref<Object>(&adapter); }

  AdapterCore& core;
  Object& adapter;
  NativeFences* native_fences = nullptr;  // null: the driver does not report them
  CpuEvents* cpu_events = nullptr;        // once the adapter starts
  SyncAddresses* addresses = nullptr;     // null: the adapter has no GPU virtual addresses
};

}  // namespace dxgkit::dxgk
