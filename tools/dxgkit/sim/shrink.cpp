#include "tools/dxgkit/sim/shrink.h"

#include <fmt/format.h>

#include <cctype>

namespace dxgkit::tool {

std::string shape_of(const std::string& failure) {
  std::string shape;
  bool number = false;
  for (const char c : failure.substr(0, failure.find('\n'))) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0 ||
                       (number && (std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == 'x'));
    if (digit && !number) shape += '#';
    if (!digit) shape += c;
    number = digit;
  }
  return shape;
}

Shrunk shrink(const sim::WorldPlan& plan, const sim::Changes& from,
              const std::function<bool(const sim::Changes&)>& still_fails,
              const std::function<void(const std::string&)>& said) {
  Shrunk out{.changes = from};
  sim::FaultPlan faults = plan.faults;
  const auto holds = [&](const sim::Changes& changes, const std::string& what) {
    ++out.tries;
    if (!still_fails(changes)) return false;
    ++out.successes;
    out.changes = changes;
    said(what);
    return true;
  };
  const auto lower = [&](std::optional<uint32_t> sim::Changes::*member, uint32_t now,
                         uint32_t least, const char* name) {
    // A world that fails with n need not fail with fewer: try halves first, then one by one a few
    // times.
    uint32_t low = least;
    bool any = false;
    for (int patience = 24; low < now && patience > 0; --patience) {
      const uint32_t middle = low + (now - low) / 2;
      sim::Changes fewer = out.changes;
      fewer.*member = middle;
      if (holds(fewer, fmt::format("{} {} instead of {}", middle, name, now))) {
        now = middle;
        any = true;
      } else {
        low = middle + 1;
      }
    }
    return any;
  };
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < sim::kFaultKinds; ++i) {
      if (faults.rate[i] == 0) continue;
      const uint32_t rate = std::exchange(faults.rate[i], 0);
      sim::Changes without = out.changes;
      without.faults = faults.text();
      if (holds(without, fmt::format("without {}", sim::kFaultNames[i]))) {
        again = true;
      } else {
        faults.rate[i] = rate;
      }
    }
    again = lower(&sim::Changes::operations_healed,
                  out.changes.operations_healed.value_or(plan.operations_healed), 0,
                  "operations after the faults") ||
            again;
    again = lower(&sim::Changes::clients, out.changes.clients.value_or(plan.client_count), 1,
                  "clients") ||
            again;
    again = lower(&sim::Changes::operations, out.changes.operations.value_or(plan.operations), 0,
                  "operations") ||
            again;
  }
  return out;
}

}  // namespace dxgkit::tool
