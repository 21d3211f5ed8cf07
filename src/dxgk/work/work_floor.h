// The parts of an adapter that the work floor may use.
#pragma once

#include <vector>

#include "dxgk/va/va_floor.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class ContextAllocationCalls;
class ContextAllocations;
class Device;
class DriverProcesses;
class Faults;
class HwQueues;
class InterruptReports;
class ScreenFlips;
class Selection;
class SourceOwners;
class Submission;
class SystemObjects;
class Timeout;

/// See SyncFloor.
struct WorkFloor : VaFloor {
  using VaFloor::VaFloor;

  std::vector<Device*> devices DXGKIT_GUARDED_BY(on_lane);  // creation order
  ContextAllocationCalls* context_allocation_calls = nullptr;
  ContextAllocations* context_allocations = nullptr;
  DriverProcesses* processes = nullptr;
  Faults* faults = nullptr;
  HwQueues* hw_queues = nullptr;  // null: the driver schedules no hardware queues
  ScreenFlips* flips = nullptr;   // null: no full driver with video present sources
  InterruptReports* reports = nullptr;
  Selection* selection = nullptr;
  SourceOwners* source_owners = nullptr;  // the display, as devices know it
  Submission* submission = nullptr;
  SystemObjects* system_objects = nullptr;
  Timeout* timeout = nullptr;
};

}  // namespace dxgkit::dxgk
