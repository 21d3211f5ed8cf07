// Inside of System; for dxgk and the thunks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/core/process_handles.h"
#include "dxgk/core/screens.h"
#include "dxgk/memory/sharing.h"
#include "dxgk/system.h"
#include "dxgk/work/device.h"
#include "runtime/deadlock_note.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

struct System::Impl {
  Impl(runtime::Runtime& runtime_in, bus::Machine& machine_in, nt::Kernel& kernel_in,
       verifier::Findings& findings_in)
      : runtime(runtime_in), machine(machine_in), kernel(kernel_in), findings(findings_in) {}

  std::vector<Ref<Adapter>> running() {
    runtime::MutexLock lock(mutex);
    return adapters;
  }
  Ref<Adapter> find(Luid luid) {
    runtime::MutexLock lock(mutex);
    for (const Ref<Adapter>& adapter : adapters) {
      if (adapter->core().luid() == luid) return adapter;
    }
    return {};
  }

  /// dxgk::describe_waits of all adapters, for a simulation that stands still: without the locks.
  std::string describe_waits() const DXGKIT_REQUIRES(on_lane) DXGKIT_NO_THREAD_SAFETY_ANALYSIS;
  /// Descriptors that were closed since hold nothing any more. Any thread but a lane.
  void reap_nt_handles();
  /// A descriptor that holds `named` is gone, or was not made. Any thread but a lane.
  static void drop_holds(const NtHandles::Named& named);
  /// Out of the list, for stopping; null if it is not there.
  Ref<Adapter> take(Luid luid) {
    runtime::MutexLock lock(mutex);
    for (size_t i = 0; i < adapters.size(); ++i) {
      if (adapters[i]->core().luid() != luid) continue;
      Ref<Adapter> found = std::move(adapters[i]);
      screens.remove(luid);
      adapters.erase(adapters.begin() + static_cast<std::ptrdiff_t>(i));
      return found;
    }
    return {};
  }

  runtime::Runtime& runtime;
  bus::Machine& machine;
  nt::Kernel& kernel;
  verifier::Findings& findings;
  runtime::Mutex mutex;
  std::vector<Ref<Adapter>> adapters DXGKIT_GUARDED_BY(mutex);
  std::vector<std::shared_ptr<Process>> processes;  // under mutex, but for the destructor
  GlobalShares global_shares;
  NtHandles nt_handles;
  Screens screens DXGKIT_GUARDED_BY(mutex);  // of the adapters in the list
  ProcessHandles process_handles DXGKIT_GUARDED_BY(mutex);
  uint32_t last_luid DXGKIT_GUARDED_BY(mutex) = 0;
  KernelNumber kernel_number DXGKIT_GUARDED_BY(mutex);
  uint32_t last_process DXGKIT_GUARDED_BY(mutex) = 0;
  const runtime::DeadlockNote waits{[this]() DXGKIT_REQUIRES(on_lane) { return describe_waits(); }};
};

}  // namespace dxgkit::dxgk
