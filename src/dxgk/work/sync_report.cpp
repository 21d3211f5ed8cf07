#include "dxgk/work/sync_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "dxgk/core/process.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {
namespace {

const char* name_of(vidsch::SyncKind kind) {
  switch (kind) {
    case vidsch::SyncKind::kMutex:
      return "mutex";
    case vidsch::SyncKind::kSemaphore:
      return "semaphore";
    case vidsch::SyncKind::kFence:
      return "fence";
    case vidsch::SyncKind::kCpuNotification:
      return "CPU notification";
    case vidsch::SyncKind::kMonitoredFence:
      return "monitored fence";
  }
  return "object";
}

bool has_value(vidsch::SyncKind kind) {
  return kind == vidsch::SyncKind::kFence || kind == vidsch::SyncKind::kMonitoredFence;
}

std::string describe(const Context& context, Device& device) {
  return fmt::format("context 0x{:X} of process \"{}\"", context.handle, device.process().name());
}

std::string describe(WorkFloor& floor, ContextId id) DXGKIT_REQUIRES(on_lane) {
  for (Device* device : floor.devices) {
    for (const Context* context : device->contexts) {
      if (context->id() == id) return describe(*context, *device);
    }
  }
  return fmt::format("context {}", id.value);
}

/// Who could bring `object` to `value`.
std::string signallers(WorkFloor& floor, SyncObjectId object,
                       std::span<const vidsch::QueuedSignal> queued) DXGKIT_REQUIRES(on_lane) {
  std::string text;
  const auto add = [&](const std::string& one) {
    if (!text.empty()) text += "; ";
    text += one;
  };
  for (const vidsch::QueuedSignal& signal : queued) {
    if (signal.point.object != object) continue;
    add(fmt::format("{} has a signal to {} queued", describe(floor, signal.context),
                    signal.point.value));
  }
  for (Device* device : floor.devices) {
    for (const SyncObject* opened : device->sync().objects) {
      if (opened->id != object) continue;
      for (const SyncObject* one : opened->shared->openings) {
        if (one->of_paging_queue) {
          add("its queue, as work is done");
        } else if (one->shared->periodic) {
          add("the kernel, at a vertical sync");
        } else if (!one->use.no_signal) {
          add(fmt::format("process \"{}\" through handle 0x{:X}", one->process->name(),
                          one->handle));
        }
      }
      return text.empty() ? "nobody" : text;
    }
  }
  return text.empty() ? "nobody" : text;
}

}  // namespace

std::string describe_waits(WorkFloor& floor) {
  std::string report;
  if (!floor.core.has_memory()) return report;  // display-only
  const std::vector<vidsch::QueuedSignal> queued = floor.core.scheduler().queued_signals();
  for (const vidsch::WaitInfo& wait : floor.core.scheduler().sync_objects().waits()) {
    const std::string who =
        wait.context.value == 0 ? "a CPU thread" : describe(floor, wait.context);
    size_t open = 0;
    for (const vidsch::WaitInfo::Point& point : wait.points) open += point.reached ? 0 : 1;
    const bool any = wait.mode == vidsch::WaitMode::kAny && open > 1;
    report += fmt::format("{} waits for{}:\n", who, any ? " any of" : "");
    for (const vidsch::WaitInfo::Point& point : wait.points) {
      if (point.reached) continue;
      report += fmt::format("  {} {}", name_of(point.kind), point.object.value);
      if (has_value(point.kind))
        report += fmt::format(" to reach {}, which is at {}", point.value, point.current);
      if (point.owner.value != 0)
        report += fmt::format(", which {} owns", describe(floor, point.owner));
      report += fmt::format("; could signal it: {}\n", signallers(floor, point.object, queued));
    }
  }
  return report;
}

}  // namespace dxgkit::dxgk
