// The reset of a whole adapter, its limits, and what is told of recoveries.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "bus/activity.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/display/display.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/residency.h"
#include "dxgk/power/power.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/timeout.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

const char* name_of(DeviceState state) {
  switch (state) {
    case DeviceState::kActive:
      return "active";
    case DeviceState::kReset:
      return "reset";
    case DeviceState::kHung:
      return "hung";
    case DeviceState::kStopped:
      return "stopped";
    case DeviceState::kErrorOutOfMemory:
      return "out of memory";
    case DeviceState::kErrorDmaFault:
      return "DMA fault";
    case DeviceState::kErrorDmaPageFault:
      return "page fault";
  }
  return "?";
}

}  // namespace

// --- reports ---

void Timeout::begin_report(const Request& request) {
  TimeoutReport report;
  report.code = request.adapter ? 0x117 : 0x141;
  report.node = request.node.value;
  report.cause = request.cause;
  report.asked_ns = request.required ? runtime_.now() : nodes_[request.node.value].asked_ns;
  report.detected_ns = runtime_.now();
  if (!request.required && core_.scheduler().node_status(request.node).preemption_pending)
    report.preemption = nodes_[request.node.value].preemption.value;
  const auto packets = core_.scheduler().packets_on(request.node);
  if (!packets.empty()) {
    const Packet& packet = adapter_.submission().packets().at(packets.front().first);
    report.packet = packet.number;
    report.fence = packets.front().second.value;
    if (packet.context != nullptr) report.process = packet.context->device().process().name();
  }
  for (Device* device : adapter_.devices()) {
    TimeoutDevice one;
    one.process = device->process().name();
    one.handle = device->handle;
    if (device->lost()) report.devices.push_back(std::move(one));  // lost before
  }
  report_ = std::move(report);
  note(request.cause);
}

void Timeout::note(std::string text) {
  if (trace::Recorder* const recorder = trace::current(); recorder != nullptr)
    recorder->record(trace::EventKind::kMarker, recorder->name_id("TDR: " + text));
  if (report_.has_value()) report_->steps.push_back({runtime_.now(), std::move(text)});
}

void Timeout::step(std::string text) {
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { note(std::move(text)); });
}

void Timeout::end_report(bool recovered) {
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!report_.has_value()) return;
    TimeoutReport report = std::move(*report_);
    report_.reset();
    report.recovered = recovered;
    report.ended_ns = runtime_.now();
    const std::vector<TimeoutDevice> lost_before = std::exchange(report.devices, {});
    for (Device* device : adapter_.devices()) {
      const bool before = std::ranges::any_of(lost_before, [&](const TimeoutDevice& one) {
        return one.handle == device->handle && one.process == device->process().name();
      });
      report.devices.push_back({.process = device->process().name(),
                                .handle = device->handle,
                                .hurt = device->lost() && !before,
                                .state = name_of(device->state())});
    }
    reports_.push_back(std::move(report));
  });
}

// --- limits ---

void Timeout::note_engine_timeout(Device& guilty) {
  Process& process = guilty.process();
  std::vector<int64_t>& times = engine_timeouts_[process.number()];
  const int64_t now = runtime_.now();
  std::erase_if(times, [&](int64_t at) { return now - at >= policy_.limit_time_ns; });
  times.push_back(now);
  if (policy_.debug_mode == 3 || times.size() + 1 < policy_.limit_count) return;
  blocked_.insert(process.number());  // TDR-06
  for (Device* device : adapter_.devices()) {
    if (&device->process() == &process) device->set_error(DeviceState::kHung);
  }
  TimeoutReport blocked;
  blocked.code = 0x142;
  blocked.process = process.name();
  blocked.cause = fmt::format(
      "Process {} caused {} engine timeouts within {} s: it is kept from "
      "the GPU.",
      process.name(), times.size(), policy_.limit_time_ns / runtime::kSecond);
  blocked.detected_ns = blocked.ended_ns = now;
  blocked.recovered = true;
  note(blocked.cause);
  reports_.push_back(std::move(blocked));
}

bool Timeout::past_limit(const Request& request) {
  const int64_t now = runtime_.now();
  std::erase_if(adapter_reset_times_,
                [&](int64_t at) { return now - at >= policy_.limit_time_ns; });
  if (policy_.debug_mode == 3 || adapter_reset_times_.size() < policy_.limit_count) {
    adapter_reset_times_.push_back(now);
    return false;
  }
  core_.fail({.rule = "TDR-05",
              .severity = verifier::Severity::kBugCheck,
              .ddi = "DxgkDdiResetFromTimeout",
              .actual = fmt::format("The adapter would be reset for the {}th time within {} s. "
                                    "{}",
                                    adapter_reset_times_.size() + 1,
                                    policy_.limit_time_ns / runtime::kSecond, request.cause),
              .expected = fmt::format("At most {} adapter resets within {} s.", policy_.limit_count,
                                      policy_.limit_time_ns / runtime::kSecond),
              .fix = "Find out why packets hang, and reset single engines where the hardware "
                     "can (SupportPerEngineTDR).",
              .bugcheck_code = 0x116,
              .bugcheck_parameter = 0xD});
  return true;
}

// --- the reset ---

void Timeout::recover_adapter(const Request& request) {
  bool past = false;
  if (!on_lane_unless_failed([&]() DXGKIT_REQUIRES(on_lane) {
        past = past_limit(request);
        if (past) return;
        report_->code = 0x117;
        // From here on nothing is prepared or submitted.
        core_.scheduler().begin_adapter_reset();
        resetting_adapter_ = true;
        core_.progress();
      }) ||
      past) {
    end_report(false);
    return;
  }
  core_.gate().hold();
  const std::vector<std::byte> info = core_.port().timeouts().collect_debug_info(0x117);
  step(fmt::format("DxgkDdiCollectDbgInfo for event 0x117: {} bytes.", info.size()));
  // TDR-04, TDR-21.
  const int64_t patience = runtime_.now() + policy_.ddi_delay_ns;
  const bool alone = core_.port().levels().enter_level_two_until(patience);
  bool done = false;
  if (alone) {
    done = reset_hardware(request.node);
    core_.port().levels().leave_level_two();
  } else {
    core_.fail({.rule = "TDR-04",
                .severity = verifier::Severity::kBugCheck,
                .ddi = "DxgkDdiResetFromTimeout",
                .actual = fmt::format("Threads were inside the driver {} ms after the recovery "
                                      "began.",
                                      policy_.ddi_delay_ns / runtime::kMillisecond),
                .expected = fmt::format("All of them leave within TdrDdiDelay ({} ms).",
                                        policy_.ddi_delay_ns / runtime::kMillisecond),
                .fix = "Bound every wait inside a DDI, and never wait there for the GPU.",
                .bugcheck_code = 0x116,
                .bugcheck_parameter = 0});
  }
  if (done) come_back();  // else the adapter fails, and nobody waits for the end of a reset
  core_.gate().release();
  end_report(done);
}

void Timeout::refuse_reset(const char* ddi, Status status) {
  core_.fail({.rule = "TDR-23",
              .severity = verifier::Severity::kBugCheck,
              .ddi = ddi,
              .actual = fmt::format("It answered 0x{:08X} after a timeout.",
                                    static_cast<uint32_t>(to_ntstatus(status))),
              .expected = "STATUS_SUCCESS.",
              .fix = "A reset takes the hardware back to a known state by whatever means; there "
                     "is no way for it to fail that the kernel could act upon.",
              .bugcheck_code = 0x116,
              .bugcheck_parameter = static_cast<uint32_t>(to_ntstatus(status))});
}

void Timeout::report_working_hardware() {
  note("DxgkDdiResetFromTimeout: the hardware is still at work.");
  core_.findings().report(verifier::Finding{
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

bool Timeout::reset_hardware(NodeOrdinal node) {
  port::AdapterPort& port = core_.port();
  port.timeouts().mask_engines(~uint64_t{0});
  port.timeouts().flush_dpcs();
  bool done = false;
  static_cast<void>(on_lane_unless_failed([&]() DXGKIT_REQUIRES(on_lane) {
    adapter_.reports().drain();
    if (!core_.running_or_starting()) return;
    vidsch::Scheduler& scheduler = core_.scheduler();
    // Whose packet is it that hung?
    const std::vector<ContextId> contexts = scheduler.contexts_on(node);
    Device* const guilty = contexts.empty() ? nullptr : device_of(contexts.front());
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      const vidsch::NodeStatus status = scheduler.node_status(NodeOrdinal{i});
      Node& mine = nodes_[i];
      mine = {};
      mine.stale = {.any = true,
                    .whole = true,
                    .after = status.last_completed,
                    .upto = status.last_submitted,
                    .preemption = SubmissionFenceId{},
                    .aborted = status.last_submitted};
    }
    if (const Status status = port.timeouts().reset_from_timeout(); status != Status::kSuccess) {
      refuse_reset("DxgkDdiResetFromTimeout", status);
      return;
    }
    if (bus::may_access_memory(core_.function())) {
      report_working_hardware();
    } else {
      note("DxgkDdiResetFromTimeout: the hardware is quiet.");
    }
    clean_up(guilty);
    if (!core_.running_or_starting()) return;
    if (const Status status = port.timeouts().restart_from_timeout(); status != Status::kSuccess) {
      refuse_reset("DxgkDdiRestartFromTimeout", status);
      return;
    }
    note("DxgkDdiRestartFromTimeout: the hardware runs again.");
    ++adapter_resets_;
    done = core_.running_or_starting();
  }));
  port.timeouts().unmask_engines(~uint64_t{0}, /*tell=*/false);
  return done;
}

/// TDR-24..26: between the two DDIs. What is built for the driver here runs after the restart.
void Timeout::clean_up(Device* guilty) {
  vidsch::Scheduler& scheduler = core_.scheduler();
  size_t devices = 0;
  for (Device* device : std::vector<Device*>(adapter_.devices())) {
    if (Display::is_kernels(device->process())) continue;  // as the system device (TDR-32)
    if (!device->lost()) ++devices;
    device->set_error(device == guilty ? DeviceState::kHung : DeviceState::kReset);
  }
  std::vector<std::function<void()>> waited = adapter_.paging().abandon();
  // Packets that end let go of memory, and who waits for it plans anew: with what is about to be
  // lost. None of that may reach a buffer.
  adapter_.paging().pause();
  scheduler.adapter_was_reset(runtime_.now());
  if (adapter_.hw_queues() != nullptr) adapter_.hw_queues()->adapter_was_reset();
  if (adapter_.display() != nullptr) adapter_.display()->hardware_was_reset();
  if (core_.has_memory()) adapter_.residency().let_all_go();
  static_cast<void>(adapter_.context_allocations().let_go());
  adapter_.context_allocations().hardware_was_reset();
  std::vector<std::function<void()>> planned = adapter_.paging().abandon();
  std::ranges::move(planned, std::back_inserter(waited));
  vidmm::LostContent lost;
  if (adapter_.gpu_va() != nullptr) {
    // Operations of this model go through tables that are gone, too: the driver is told by the
    // tables it gets afterwards.
    lost.allocations = core_.memory().lose_power([](SegmentId) { return uint64_t{0}; });
  } else {
    lost = core_.memory().lose_in_reset();
  }
  for (const std::function<void()>& done : waited) done();
  adapter_.cpu_windows().hardware_was_reset();
  adapter_.paging_buffers().drop();
  adapter_.power().show_locked();  // TDR-28
  note(fmt::format("{} devices are lost, {} allocations with them.", devices,
                   lost.allocations.size()));
  if (adapter_.gpu_va() == nullptr) {
    adapter_.paging().resume();  // the driver hears of what is lost before the restart (TDR-24)
    adapter_.paging().enqueue(lost.operations, nullptr);
    return;
  }
  adapter_.gpu_va()->rebuild();
}

/// With the driver running again.
void Timeout::come_back() {
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (core_.failed()) return;
    core_.scheduler().end_adapter_reset();
    resetting_adapter_ = false;
    adapter_.paging().resume();
    core_.pump();
  });
  if (core_.segment_infos().paging_buffer_segment != 0 && adapter_.paging_buffers().empty())
    static_cast<void>(adapter_.paging_buffers().map());
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!core_.failed()) core_.progress();
  });
  if (adapter_.display() != nullptr) adapter_.display()->set_again();
}

}  // namespace dxgkit::dxgk
