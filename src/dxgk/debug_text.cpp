#include "dxgk/debug_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/spelling.h"
#include "base/spin_lock.h"
#include "dxgk/memory/device_memory.h"
#include "dxgk/system_impl.h"
#include "dxgk/work/context.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {
namespace {

/// Allocations of one device; what comes behind them is only counted.
constexpr size_t kAllocationsShown = 1000;

struct Systems {
  SpinLock lock;             // of an observer
  std::vector<System*> all;  // read without the lock by the debugger
};
Systems& systems() {
  static Systems known;
  return known;
}

std::string adapter_name(AdapterCore& core) {
  const Luid luid = core.luid();
  return fmt::format("adapter {:x}:{:x}", static_cast<uint32_t>(luid.high), luid.low);
}

std::string adapter_text(WorkFloor& floor) DXGKIT_REQUIRES(on_lane) {
  std::string text = adapter_name(floor.core);
  if (!floor.core.has_memory()) return text + ": display-only\n";
  size_t contexts = 0;
  for (const Device* device : floor.devices) contexts += device->contexts.size();
  text +=
      fmt::format(": {}, {}, {}\n", counted(floor.devices.size(), "device"),
                  counted(contexts, "context"), counted(floor.allocations.live(), "allocation"));
  for (uint32_t node = 0; node < floor.core.scheduler().node_count(); ++node) {
    const vidsch::NodeStatus status = floor.core.scheduler().node_status(NodeOrdinal{node});
    text += fmt::format("  node {}: {} on hardware, submitted {}, completed {}{}{}\n", node,
                        status.hardware_queue_length, status.last_submitted.value,
                        status.last_completed.value,
                        status.preemption_pending ? ", to be preempted" : "",
                        status.resetting ? ", in its reset" : "");
  }
  for (uint32_t i = 0; i < floor.core.memory().segments().size(); ++i) {
    const SegmentId segment{i + 1};
    const vidmm::SegmentUsage usage = floor.core.memory().usage(segment);
    text +=
        fmt::format("  segment {}: {} of {} bytes are free, {}\n", segment.value, usage.free_bytes,
                    usage.size_bytes, counted(usage.allocations, "allocation"));
  }
  return text;
}

std::string packet_text(WorkFloor& floor) DXGKIT_REQUIRES(on_lane) {
  std::string text = adapter_name(floor.core) + "\n";
  if (!floor.core.has_memory()) return text;
  const vidsch::Scheduler& scheduler = floor.core.scheduler();
  for (uint32_t node = 0; node < scheduler.node_count(); ++node) {
    for (const auto& [packet, fence] : scheduler.packets_on(NodeOrdinal{node}))
      text += fmt::format("  node {}: packet {} on hardware, fence {}\n", node, packet.value,
                          fence.value);
  }
  for (Device* device : floor.devices) {
    for (const Context* context : device->contexts) {
      const size_t count = scheduler.packets_of(context->id());
      if (count == 0) continue;
      text += fmt::format("  context 0x{:X} of process \"{}\": {}{}\n", context->handle,
                          device->process().name(), counted(count, "packet"),
                          scheduler.on_hardware(context->id()) ? ", one of them on hardware" : "");
    }
  }
  return text;
}

std::string allocation_text(WorkFloor& floor) DXGKIT_REQUIRES(on_lane) {
  std::string text = adapter_name(floor.core) + "\n";
  if (!floor.core.has_memory()) return text;
  const vidmm::MemoryManager& memory = floor.core.memory();
  for (const DeviceMemory* device : floor.device_memories) {
    size_t shown = 0, left = 0;
    for (const OpenedAllocation* opened : device->openings.all()) {
      if (shown == kAllocationsShown) {
        ++left;
        continue;
      }
      ++shown;
      const Allocation& allocation = *opened->allocation;
      const vidmm::Placement place =
          memory.contains(allocation.id) ? memory.placement(allocation.id) : vidmm::Placement{};
      text += fmt::format("  allocation 0x{:X}: {} bytes ", opened->handle, allocation.size_bytes);
      text += place.segment == kSystemMemory
                  ? "in system memory"
                  : fmt::format("in segment {} at {:#x}, GPU address {:#x}", place.segment.value,
                                place.offset_bytes, place.gpu_address);
      text += fmt::format(", used by {}, locked {}{}\n", counted(opened->uses, "packet"),
                          counted(opened->locks, "time"), opened->closing ? ", closing" : "");
    }
    if (left != 0) text += fmt::format("  and {} more\n", left);
  }
  return text;
}

std::string text_of(int what) DXGKIT_REQUIRES(on_lane) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  if (what < 1 || what > 4) return "1: adapters, 2: packets, 3: allocations, 4: waits\n";
  std::string text;
  for (System* system : systems().all) {
    System::Impl& impl = system->impl();
    if (what == 4) {
      text += impl.describe_waits();
      continue;
    }
    for (const Ref<Adapter>& adapter : impl.adapters) {
      WorkFloor& floor = adapter->floor();
      text += what == 1   ? adapter_text(floor)
              : what == 2 ? packet_text(floor)
                          : allocation_text(floor);
    }
  }
  return text.empty() ? "nothing\n" : text;
}

}  // namespace

void show_to_debugger(System& system) {
  const SpinGuard guard(systems().lock);
  systems().all.push_back(&system);
}

void hide_from_debugger(System& system) {
  const SpinGuard guard(systems().lock);
  std::erase(systems().all, &system);
}

}  // namespace dxgkit::dxgk

[[gnu::used, gnu::noinline, gnu::visibility("default")]] const char* dxgkit_debug_text(int what)
    DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  static std::string text;
  text = dxgkit::dxgk::text_of(what);
  return text.c_str();
}
