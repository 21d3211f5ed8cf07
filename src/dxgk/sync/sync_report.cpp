// Why nothing goes on: waits, values, and whose turn it would be.
#include <fmt/format.h>

#include <algorithm>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/system_impl.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"

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

std::string describe(Adapter& adapter, ContextId id) DXGKIT_REQUIRES(on_lane) {
  for (Device* device : adapter.devices()) {
    for (const Context* context : device->contexts) {
      if (context->id() == id) return describe(*context, *device);
    }
  }
  return fmt::format("context {}", id.value);
}

/// Who could bring `object` to `value`.
std::string signallers(Adapter& adapter, SyncObjectId object,
                       std::span<const vidsch::QueuedSignal> queued) DXGKIT_REQUIRES(on_lane) {
  std::string text;
  const auto add = [&](const std::string& one) {
    if (!text.empty()) text += "; ";
    text += one;
  };
  for (const vidsch::QueuedSignal& signal : queued) {
    if (signal.point.object != object) continue;
    add(fmt::format("{} has a signal to {} queued", describe(adapter, signal.context),
                    signal.point.value));
  }
  for (Device* device : adapter.devices()) {
    for (const SyncObject* opened : device->sync_objects) {
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

std::string System::Impl::describe_waits() const {
  std::string report;
  for (const Ref<Adapter>& adapter : adapters) report += dxgk::describe_waits(*adapter);
  return report;
}

std::string describe_waits(Adapter& adapter) {
  std::string report;
  if (!adapter.core().has_memory()) return report;  // display-only
  const std::vector<vidsch::QueuedSignal> queued = adapter.core().scheduler().queued_signals();
  for (const vidsch::WaitInfo& wait : adapter.core().scheduler().sync_objects().waits()) {
    const std::string who =
        wait.context.value == 0 ? "a CPU thread" : describe(adapter, wait.context);
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
        report += fmt::format(", which {} owns", describe(adapter, point.owner));
      report += fmt::format("; could signal it: {}\n", signallers(adapter, point.object, queued));
    }
  }
  return report;
}

}  // namespace dxgkit::dxgk
