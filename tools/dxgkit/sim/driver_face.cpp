#include "tools/dxgkit/sim/driver_face.h"

#include <d3dkmddi.h>
#include <fmt/format.h>

#include <memory>

#include "bus/machine.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/child.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/shared.h"
#include "verifier/findings.h"

namespace dxgkit::tool {
namespace {

constexpr int kEntryMsMost = 30'000;
enum Answer { kFirst = 0, kSecond = 1, kNotLoaded = 2 };

/// Of the process that looks.
struct Refusal {
  char text[1024] = {};
};

int look_at(const std::string& path, Refusal& refusal) {
  int answer = kNotLoaded;
  const std::unique_ptr<runtime::Runtime> runtime = runtime::make_sim_runtime({});
  runtime->run_main([&] {
    verifier::Findings findings;
    bus::Machine machine(uint64_t{16} << 20);
    nt::Kernel kernel(*runtime, machine, findings);
    std::string message;
    const auto driver = port::Driver::load(
        kernel, findings, {.name = "driver", .path = path, .entry = nullptr}, &message);
    if (!driver.has_value()) {
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
  if (end.kind != ChildEnd::Kind::kExited || end.code == kNotLoaded) {
    const std::string why = refusal->text;
    return std::unexpected(
        fmt::format("{}: {}", *path, why.empty() ? "its process ended while it was loaded" : why));
  }
  return DriverOfWorlds{*path,
                        end.code == kSecond ? sim::DriverFace::kSecond : sim::DriverFace::kFirst};
}

}  // namespace dxgkit::tool
