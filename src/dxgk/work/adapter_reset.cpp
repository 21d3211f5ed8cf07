#include "dxgk/work/adapter_reset.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>
#include <vector>

#include "bus/activity.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/paging_buffers.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/device.h"
#include "dxgk/work/guilty_device.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/interrupt_reports.h"
#include "dxgk/work/recovery_log.h"
#include "dxgk/work/stale_reports.h"
#include "dxgk/work/unless_failed.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

void AdapterReset::begin() {
  floor_.core.scheduler().begin_adapter_reset();
  under_way_ = true;
  floor_.core.progress();
}

bool AdapterReset::run(NodeOrdinal node, int64_t patience_ns, const std::function<void()>& forget) {
  floor_.core.gate().hold();
  const std::vector<std::byte> info = floor_.core.port().timeouts().collect_debug_info(0x117);
  log_.step(fmt::format("DxgkDdiCollectDbgInfo for event 0x117: {} bytes.", info.size()));
  // TDR-04, TDR-21.
  const int64_t patience = floor_.core.runtime().now() + patience_ns;
  const bool alone = floor_.core.port().levels().enter_level_two_until(patience);
  bool done = false;
  if (alone) {
    done = reset_hardware(node, forget);
    floor_.core.port().levels().leave_level_two();
  } else {
    floor_.core.fail(
        {.rule = "TDR-04",
         .severity = verifier::Severity::kBugCheck,
         .ddi = "DxgkDdiResetFromTimeout",
         .actual = fmt::format("Threads were inside the driver {} ms after the recovery "
                               "began.",
                               patience_ns / runtime::kMillisecond),
         .expected = fmt::format("All of them leave within TdrDdiDelay ({} ms).",
                                 patience_ns / runtime::kMillisecond),
         .fix = "Bound every wait inside a DDI, and never wait there for the GPU.",
         .bugcheck_code = 0x116,
         .bugcheck_parameter = 0});
  }
  if (done) come_back();  // else the adapter fails, and nobody waits for the end of a reset
  floor_.core.gate().release();
  return done;
}

void AdapterReset::refuse_reset(const char* ddi, Status status) {
  floor_.core.fail({.rule = "TDR-23",
                    .severity = verifier::Severity::kBugCheck,
                    .ddi = ddi,
                    .actual = fmt::format("It answered 0x{:08X} after a timeout.",
                                          static_cast<uint32_t>(to_ntstatus(status))),
                    .expected = "STATUS_SUCCESS.",
                    .fix =
                        "A reset takes the hardware back to a known state by whatever means; there "
                        "is no way for it to fail that the kernel could act upon.",
                    .bugcheck_code = 0x116,
                    .bugcheck_parameter = static_cast<uint32_t>(to_ntstatus(status))});
}

void AdapterReset::report_working_hardware() {
  log_.note("DxgkDdiResetFromTimeout: the hardware is still at work.");
  floor_.core.findings().report(verifier::Finding{
      .rule = "TDR-22",
      .severity = verifier::Severity::kViolation,
      .ddi = "DxgkDdiResetFromTimeout",
      .actual = "It returned, and an engine of the device still works, or has work it will take.",
      .expected = "When it returns the GPU neither reads nor writes memory any more.",
      .fix =
          "Stop every engine, wait until the hardware says that it has stopped, and disable what "
          "could start by itself, before you return.",
      .why = "The kernel now gives memory away that the packets of before named.",
      .windows = "Nothing at first; later somebody else's memory has changed."});
}

bool AdapterReset::reset_hardware(NodeOrdinal node, const std::function<void()>& forget) {
  port::AdapterPort& port = floor_.core.port();
  port.timeouts().mask_engines(~uint64_t{0});
  port.timeouts().flush_dpcs();
  bool done = false;
  static_cast<void>(run_unless_failed(floor_.core, [&]() DXGKIT_REQUIRES(on_lane) {
    floor_.reports->drain();
    if (!floor_.core.running_or_starting()) return;
    vidsch::Scheduler& scheduler = floor_.core.scheduler();
    // Whose packet is it that hung?
    const std::vector<ContextId> contexts = scheduler.contexts_on(node);
    Device* const guilty = contexts.empty() ? nullptr : device_of(floor_, contexts.front());
    stale_.adapter_is_reset();
    forget();
    if (const Status status = port.timeouts().reset_from_timeout(); status != Status::kSuccess) {
      refuse_reset("DxgkDdiResetFromTimeout", status);
      return;
    }
    if (bus::may_access_memory(floor_.core.function())) {
      report_working_hardware();
    } else {
      log_.note("DxgkDdiResetFromTimeout: the hardware is quiet.");
    }
    clean_up(guilty);
    if (!floor_.core.running_or_starting()) return;
    if (const Status status = port.timeouts().restart_from_timeout(); status != Status::kSuccess) {
      refuse_reset("DxgkDdiRestartFromTimeout", status);
      return;
    }
    log_.note("DxgkDdiRestartFromTimeout: the hardware runs again.");
    ++resets_;
    done = floor_.core.running_or_starting();
  }));
  port.timeouts().unmask_engines(~uint64_t{0}, /*tell=*/false);
  return done;
}

/// TDR-24..26: between the two DDIs. What is built for the driver here runs after the restart.
void AdapterReset::clean_up(Device* guilty) {
  vidsch::Scheduler& scheduler = floor_.core.scheduler();
  size_t devices = 0;
  for (Device* device : std::vector<Device*>(floor_.devices)) {
    if (owner_.is_kernels(device->process())) continue;  // as the system device (TDR-32)
    if (!device->lost()) ++devices;
    device->set_error(device == guilty ? DeviceState::kHung : DeviceState::kReset);
  }
  std::vector<std::function<void()>> waited = floor_.paging->abandon();
  // Packets that end let go of memory, and who waits for it plans anew: with what is about to be
  // lost. None of that may reach a buffer.
  floor_.paging->pause();
  scheduler.adapter_was_reset(floor_.core.runtime().now());
  if (floor_.hw_queues != nullptr) floor_.hw_queues->adapter_was_reset();
  owner_.displays_were_reset();
  floor_.residency->let_all_go();
  static_cast<void>(floor_.context_allocations->let_go());
  floor_.context_allocations->hardware_was_reset();
  std::vector<std::function<void()>> planned = floor_.paging->abandon();
  std::ranges::move(planned, std::back_inserter(waited));
  vidmm::LostContent lost;
  if (floor_.gpu_va != nullptr) {
    // Operations of this model go through tables that are gone, too: the driver is told by the
    // tables it gets afterwards.
    lost.allocations = floor_.core.memory().lose_power([](SegmentId) { return uint64_t{0}; });
  } else {
    lost = floor_.core.memory().lose_in_reset();
  }
  for (const std::function<void()>& done : waited) done();
  floor_.cpu_windows->hardware_was_reset();
  floor_.paging_buffers->drop();
  owner_.show_locked();  // TDR-28
  log_.note(fmt::format("{} devices are lost, {} allocations with them.", devices,
                        lost.allocations.size()));
  if (floor_.gpu_va == nullptr) {
    floor_.paging->resume();  // the driver hears of what is lost before the restart (TDR-24)
    floor_.paging->enqueue(lost.operations, nullptr);
    return;
  }
  floor_.gpu_va->rebuild();
}

/// With the driver running again.
void AdapterReset::come_back() {
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor_.core.failed()) return;
    floor_.core.scheduler().end_adapter_reset();
    under_way_ = false;
    floor_.paging->resume();
  });
  if (floor_.core.segment_infos().paging_buffer_segment != 0 && floor_.paging_buffers->empty())
    static_cast<void>(floor_.paging_buffers->map());
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!floor_.core.failed()) floor_.core.progress();
  });
  owner_.show_again();
}

}  // namespace dxgkit::dxgk
