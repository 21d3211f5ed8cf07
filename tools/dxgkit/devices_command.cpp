// dxgkit devices.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "devices/catalog/catalog.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool {

int devices_command(const Reports& reports) {
  if (const int code = reports.check(); code != kExitDone) return code;
  const bus::DeviceRegistry& catalog = devices::catalog();
  if (reports.json.has_value()) {
    nlohmann::ordered_json all;
    all["devices"] = nlohmann::ordered_json::array();
    for (const auto& type : catalog.types()) {
      nlohmann::ordered_json options = nlohmann::ordered_json::array();
      for (const bus::DeviceOption& option : type->options)
        options.push_back({{"name", option.name}, {"value", option.value}, {"help", option.help}});
      all["devices"].push_back({{"name", type->name},
                                {"summary", type->summary},
                                {"simulated", type->simulated},
                                {"options", options}});
    }
    all["spellings"] = nlohmann::ordered_json::array();
    for (const bus::DeviceSpelling& spelling : catalog.spellings())
      all["spellings"].push_back({{"name", spelling.text}, {"summary", spelling.help}});
    if (!write_output(reports.json, all.dump(2) + "\n")) return kExitNotWritten;
    if (reports.on_stdout()) return kExitDone;
  }
  for (const auto& type : catalog.types()) {
    fmt::print("{:<14}{}\n", type->name, type->summary);
    for (const bus::DeviceOption& option : type->options)
      fmt::print("  {:<20}{}\n", option.name + "=" + option.value, option.help);
  }
  for (const bus::DeviceSpelling& spelling : catalog.spellings())
    fmt::print("{:<20}{}\n", spelling.text, spelling.help);
  fmt::print("{:<20}{}\n", "FILE.so", "a plug-in (dxgkit/device_plugin.h), with its own options");
  fmt::print("\n--device NAME[,OPTION=VALUE...]; a # stands for one digit.\n");
  return kExitDone;
}

}  // namespace dxgkit::tool
