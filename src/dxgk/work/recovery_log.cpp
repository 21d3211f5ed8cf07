#include "dxgk/work/recovery_log.h"

#include <algorithm>
#include <utility>

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hung_packets.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/work_floor.h"
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

void RecoveryLog::begin(const Beginning& beginning) {
  AdapterCore& core = floor_.core;
  TimeoutReport report;
  report.code = beginning.adapter ? 0x117 : 0x141;
  report.node = beginning.node.value;
  report.cause = beginning.cause;
  report.asked_ns = beginning.asked_ns;
  report.detected_ns = core.runtime().now();
  report.preemption = beginning.preemption;
  const auto packets = core.scheduler().packets_on(beginning.node);
  if (packets.empty()) {
    trace::emit(trace::EventKind::kWhyTimeout, 0, 0, 0, beginning.preemption,
                static_cast<uint16_t>(beginning.node.value));
  } else {
    const Packet& packet = floor_.submission->packets().at(packets.front().first);
    trace::emit(trace::EventKind::kWhyTimeout, packet.id.value,
                packet.context == nullptr ? 0 : packet.context->id().value,
                packets.front().second.value, beginning.preemption,
                static_cast<uint16_t>(beginning.node.value));
    report.packet = packet.number;
    report.fence = packets.front().second.value;
    if (packet.context != nullptr) report.process = packet.context->device().process().name();
    trace_hung_packets(floor_, beginning.node);
  }
  for (Device* device : floor_.devices) {
    TimeoutDevice one;
    one.process = device->process().name();
    one.handle = device->handle;
    if (device->lost()) report.devices.push_back(std::move(one));  // lost before
  }
  report_ = std::move(report);
  note(beginning.cause);
}

void RecoveryLog::note(std::string text) {
  if (trace::Recorder* const recorder = trace::current(); recorder != nullptr)
    recorder->record(trace::EventKind::kMarker, recorder->name_id("TDR: " + text));
  report_->steps.push_back({floor_.core.runtime().now(), std::move(text)});
}

void RecoveryLog::step(std::string text) {
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { note(std::move(text)); });
}

void RecoveryLog::end(bool recovered) {
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!report_.has_value()) return;
    TimeoutReport report = std::move(*report_);
    report_.reset();
    report.recovered = recovered;
    report.ended_ns = floor_.core.runtime().now();
    const std::vector<TimeoutDevice> lost_before = std::exchange(report.devices, {});
    for (Device* device : floor_.devices) {
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

void RecoveryLog::drop() {
  floor_.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { report_.reset(); });
}

void RecoveryLog::add(TimeoutReport report) { reports_.push_back(std::move(report)); }

}  // namespace dxgkit::dxgk
