#include "tools/dxgkit/sim/driver_face.h"

#include <d3dkmddi.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "bus/machine.h"
#include "devices/softgpu/softgpu.h"
#include "dxgk/system.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/child.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/shared.h"
#include "tools/dxgkit/softgpu_traits.h"
#include "verifier/findings.h"

namespace dxgkit::tool {
namespace {

constexpr int kEntryMsMost = 30'000;
constexpr runtime::DurationNs kCallMost = 10 * runtime::kSecond;
constexpr uint64_t kMemoryBytes = uint64_t{128} << 20, kVramBytes = uint64_t{16} << 20;
enum Answer { kFirst = 0, kSecond = 1, kRefused = 2 };

/// Of the process that looks.
struct Refusal {
  char text[1024] = {};
};

/// Empty, or why the driver is none for the worlds. Inside the runtime.
std::string why_not(runtime::Runtime& runtime, bus::Machine& machine, nt::Kernel& kernel,
                    verifier::Findings& findings, bus::PciFunction& function,
                    port::Driver& driver) {
  dxgk::System system(runtime, machine, kernel, findings);
  const Result<dxgk::Luid> adapter = system.start_adapter(driver, function, {});
  if (!adapter.has_value()) {
    std::string text = "it does not start on softgpu, the device of these worlds";
    const std::vector<verifier::Finding> all = findings.all();
    const auto mistake = std::ranges::find_if(all, verifier::is_mistake);
    if (mistake != all.end()) text += fmt::format(" ({} in {})", mistake->rule, mistake->ddi);
    return text;
  }
  const bool speaks = softgpu_traits(system, *adapter).speaks;
  static_cast<void>(system.stop_adapter(*adapter));
  if (speaks) return {};
  return "its user mode is not softgpu's, so the clients of these worlds have no work for it; "
         "`dxgkit fuzz` needs to know nothing about a driver";
}

int look_at(const std::string& path, Refusal& refusal) {
  int answer = kRefused;
  const std::unique_ptr<runtime::Runtime> runtime = runtime::make_sim_runtime({});
  runtime->run_main([&] {
    verifier::Findings findings;
    bus::Machine machine(kMemoryBytes);
    softgpu::SoftGpu gpu(*runtime, machine, {.vram_bytes = kVramBytes, .timing = {}, .faults = {}});
    nt::KernelConfig config;
    config.hang_limit = kCallMost;
    nt::Kernel kernel(*runtime, machine, findings, std::move(config));
    DXGKIT_CHECK(machine.add_function(gpu.function()) == Status::kSuccess);
    std::string message;
    const auto driver = port::Driver::load(
        kernel, findings, {.name = "driver", .path = path, .entry = nullptr}, &message);
    if (driver.has_value())
      message = why_not(*runtime, machine, kernel, findings, gpu.function(), **driver);
    if (!driver.has_value() || !message.empty()) {
      message.copy(refusal.text, sizeof refusal.text - 1);
      return;
    }
    answer = (*driver)->interface_version() >= DXGKDDI_INTERFACE_VERSION_WDDM2_0 ? kSecond : kFirst;
  });
  return answer;
}

}  // namespace

std::expected<DriverOfWorlds, std::string> driver_of(const std::string& driver) {
  if (driver.empty() || driver == kBuiltInDriver) return DriverOfWorlds{};
  auto path = find_loadable_driver(driver);
  if (!path.has_value()) return std::unexpected(path.error());
  const Shared<Refusal> refusal;
  const ChildEnd end =
      run_in_child([&](Heartbeat&) { return look_at(*path, *refusal); }, kEntryMsMost);
  if (end.kind != ChildEnd::Kind::kExited || end.code == kRefused) {
    const std::string why = refusal->text;
    return std::unexpected(fmt::format(
        "{}: {}", *path, why.empty() ? "its process ended while it was loaded and started" : why));
  }
  return DriverOfWorlds{*path,
                        end.code == kSecond ? sim::DriverFace::kSecond : sim::DriverFace::kFirst};
}

}  // namespace dxgkit::tool
