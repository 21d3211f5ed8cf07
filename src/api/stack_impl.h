// The state behind the public classes of one stack.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/world.h"
#include "dxgk/system.h"
#include "dxgkit/stack.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "verifier/findings.h"

namespace dxgkit {

struct Driver::Impl {
  Stack::Impl* stack = nullptr;
  std::unique_ptr<port::Driver> driver;
};

/// The state between power-on and power-off. Made and destroyed inside the runtime.
struct [[gnu::visibility("hidden")]] Stack::Impl {
  runtime::Runtime& runtime;
  verifier::Findings& findings;
  const std::unique_ptr<api::World> world;
  std::vector<std::optional<dxgk::Luid>> adapters;  // by slot of the world: what runs there
  std::unique_ptr<Driver> driver;
  std::unique_ptr<dxgk::System> system;

  Impl(runtime::Runtime& own_runtime, verifier::Findings& own_findings,
       std::unique_ptr<api::World> own_world);
  ~Impl();
  /// Where the adapter runs; null: it does not run here.
  std::optional<dxgk::Luid>* running(AdapterId adapter);
};

struct ClientProcess::Impl {
  runtime::Runtime& runtime;
  dxgk::System& system;
  dxgk::Process* process;  // null once it has ended
};

/// Converts a finding to the public type.
Finding public_finding(const verifier::Finding& finding);
/// A failure with the status and its name: "the adapter did not start: STATUS_NO_MEMORY".
Failure failure(Status status, std::string_view what);

}  // namespace dxgkit
