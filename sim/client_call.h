// Calls of thunks by a client; for client_*.cpp.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/status.h"
#include "sim/client.h"
#include "thunks/call.h"

namespace dxgkit::sim {

inline std::string text_of(NTSTATUS status) {
  const std::string_view name = status_name(from_ntstatus(status));
  return name.empty() ? fmt::format("{:#010x}", static_cast<uint32_t>(status)) : std::string(name);
}

inline bool Client::dies_now(std::string_view thunk) {
  if (options_.dies_in.empty()) return calls_ == options_.dies_at;
  return thunk == options_.dies_in && ++calls_to_die_in_ == options_.dies_at;
}

/// Nothing else of the simulation runs between the end of a thunk and the next call. So the memory
/// that the client touches in between cannot go away.
template <typename Body>
NTSTATUS Client::call(const char* name, const Body& body) {
  throw_if_ended();
  ++calls_;
  ++world_.counters.thunk_calls;
  if (dies_now(name)) world_.kill(*this, name);
  excuses_before_ = world_.faults.excuses();
  const NTSTATUS status = body();
  world_.wait_while_frozen();
  throw_if_ended();
  if (from_ntstatus(status) == thunks::kProcessIsTerminating)
    fail(fmt::format("{} says that the process ends, and nobody ended it", name));
  return status;
}

}  // namespace dxgkit::sim
