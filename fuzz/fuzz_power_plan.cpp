// Any text as a power plan: an error that names line and column, or steps in rising order.
#include "fuzz/demand.h"
#include "tools/dxgkit/power_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dxgkit;
  using fuzz::demand;
  const auto plan = tool::parse_power_plan({reinterpret_cast<const char*>(data), size});
  if (!plan.has_value()) {
    demand(plan.error().starts_with("line ") && plan.error().contains("column "));
    return 0;
  }
  std::string text;
  for (size_t i = 0; i < plan->size(); ++i) {
    const tool::PlannedPower& step = (*plan)[i];
    demand(i == 0 || step.packets > (*plan)[i - 1].packets);
    demand(step.step != tool::PowerStep::kRemove || i + 1 == plan->size());
    text += "at " + std::to_string(step.packets) + " " + tool::power_step_name(step.step) + "\n";
  }
  const auto again = tool::parse_power_plan(text);
  demand(again.has_value() && *again == *plan);
  return 0;
}
