#include "sim/strangers.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "miniports/softgpu/softgpu_umd.h"
#include "sim/hostile/processes.h"

namespace dxgkit::sim {
namespace {

/// Private data of an allocation that the driver accepts.
std::vector<std::byte> allocation_data() {
  SgpuUmdAllocation wanted{};
  wanted.magic = SGPU_UMD_ALLOCATION_MAGIC;
  wanted.version = SGPU_UMD_VERSION;
  wanted.kind = SGPU_UMD_KIND_BUFFER;
  wanted.placement = SGPU_UMD_PLACE_ANY;
  wanted.size_bytes = 8192;
  std::vector<std::byte> bytes(sizeof wanted);
  std::memcpy(bytes.data(), &wanted, sizeof wanted);
  return bytes;
}

}  // namespace

void Strangers::run() {
  const hostile::Choices choices = [this] { return random_.next(); };
  hostile::Ground ground{.system = world_.system,
                         .luid = world_.adapter,
                         .allocation_data = allocation_data(),
                         .stopped = [this] { return world_.adapter_lost(); },
                         .broken =
                             [this](const std::string& what, const std::string& where) {
                               world_.fail(fmt::format("hostile processes: {}: {}", what, where));
                             }};
  world_.wait_while_frozen();
  world_.strangers_call(true);
  hostile::Processes processes(ground, choices);
  world_.strangers_call(false);
  const auto over = [&] {
    return world_.faults.healed() || world_.failed() || world_.strangers_end;
  };
  while (!over()) {
    world_.runtime.sleep_for(static_cast<int64_t>(random_.magnitude(1'000, 500'000)));
    world_.rest_with_others();
    world_.wait_while_frozen();
    if (over()) break;
    world_.strangers_call(true);
    processes.step(choices);
    world_.strangers_call(false);
  }
  world_.wait_while_frozen();
  world_.strangers_call(true);
  processes.end();
  world_.strangers_call(false);
  world_.counters.stranger_calls += processes.counts().calls;
  world_.counters.stranger_successes += processes.counts().succeeded;
  world_.strangers_work = false;
  world_.client_ended();
}

}  // namespace dxgkit::sim
