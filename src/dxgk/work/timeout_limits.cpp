#include "dxgk/work/timeout_limits.h"

#include <fmt/format.h>

#include <utility>

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "dxgk/work/recovery_log.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

void TimeoutLimits::note_engine_timeout(Device& guilty) {
  Process& process = guilty.process();
  std::vector<int64_t>& times = engine_timeouts_[process.number()];
  const int64_t now = floor_.core.runtime().now();
  std::erase_if(times, [&](int64_t at) { return now - at >= policy_.limit_time_ns; });
  times.push_back(now);
  if (policy_.debug_mode == 3 || times.size() + 1 < policy_.limit_count) return;
  blocked_.insert(process.number());  // TDR-06
  for (Device* device : floor_.devices) {
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
  log_.note(blocked.cause);
  log_.add(std::move(blocked));
}

bool TimeoutLimits::past_limit(const std::string& cause) {
  const int64_t now = floor_.core.runtime().now();
  std::erase_if(adapter_reset_times_,
                [&](int64_t at) { return now - at >= policy_.limit_time_ns; });
  if (policy_.debug_mode == 3 || adapter_reset_times_.size() < policy_.limit_count) {
    adapter_reset_times_.push_back(now);
    return false;
  }
  floor_.core.fail(
      {.rule = "TDR-05",
       .severity = verifier::Severity::kBugCheck,
       .ddi = "DxgkDdiResetFromTimeout",
       .actual = fmt::format("The adapter would be reset for the {}th time within {} s. "
                             "{}",
                             adapter_reset_times_.size() + 1,
                             policy_.limit_time_ns / runtime::kSecond, cause),
       .expected = fmt::format("At most {} adapter resets within {} s.", policy_.limit_count,
                               policy_.limit_time_ns / runtime::kSecond),
       .fix = "Find out why packets hang, and reset single engines where the hardware "
              "can (SupportPerEngineTDR).",
       .bugcheck_code = 0x116,
       .bugcheck_parameter = 0xD});
  return true;
}

}  // namespace dxgkit::dxgk
