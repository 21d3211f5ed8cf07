// Packets that take too long, and the losses that a timeout may cause for this client.
#include <algorithm>

#include "sim/client_call.h"

namespace dxgkit::sim {

bool Client::loss_is_explained(D3DKMT_DEVICEEXECUTION_STATE state) const {
  if (state == D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT ||
      state == D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT)
    return world_.gpu.memory_errors() != 0;
  // At the end, the trace tells whose packet an engine stopped at by itself.
  if (state == D3DKMT_DEVICEEXECUTION_HUNG && (may_hang_ || world_.gpu.hangs() != 0)) return true;
  if (state != D3DKMT_DEVICEEXECUTION_RESET) return false;
  return world_.power_failures != 0 ||
         (world_.plan.faults.has_hangs() && world_.adapter_resets() != 0);
}

void Client::throw_if_lost() {
  throw_if_adapter_lost();
  if (device_ == 0 || (!world_.plan.faults.has_hangs() && world_.power_failures == 0 &&
                       world_.gpu.memory_errors() == 0))
    return;
  D3DKMT_GETDEVICESTATE state{};
  state.hDevice = device_;
  state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
  const NTSTATUS status = D3DKMTGetDeviceState(&state);
  throw_if_ended();
  if (is_success(from_ntstatus(status)) && loss_is_explained(state.ExecutionState))
    throw DeviceLost{};
}

void Client::submit_long() {
  const int64_t delay = world_.plan.tdr_delay_ns;
  const auto part = [&](uint64_t low, uint64_t high) {
    return static_cast<uint64_t>(delay) * random_.between(low, high) / 100;
  };
  uint64_t duration = 0;
  switch (random_.below(4)) {
    case 0:
      duration = static_cast<uint64_t>(30 * runtime::kSecond);
      break;
    case 1:
      duration = part(10, 80);
      break;
    default:
      duration = part(90, 320);
      break;
  }
  std::vector<Command> commands(1);
  commands[0] = {.kind = Command::Kind::kDelay, .size = duration, .stubborn = true};
  // Lists that are not split must fit at once: then alone.
  if (!world_.plan.explicit_residency && random_.percent(50)) {
    commands.insert(commands.begin(), random_command());
    if (random_.percent(50)) commands.push_back(random_command());
  }
  // Other packets beside it take time, too.
  if (duration * 100 >= static_cast<uint64_t>(delay) * 85) may_hang_ = true;
  static_cast<void>(submit(*any_context(), commands));
}

}  // namespace dxgkit::sim
