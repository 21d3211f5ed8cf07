#include "tools/dxgkit/start_story.h"

#include <fmt/format.h>

#include <utility>

#include "tools/dxgkit/hardware_ids.h"

namespace dxgkit::tool {

std::vector<std::string> start_story(const nt::CallLog& log, const std::string& driver_path,
                                     const DeviceChoice& device) {
  std::vector<std::string> lines;
  if (!log.told()) lines = log.lines();
  if (std::string advice = device_advice(hardware_ids(driver_path), device); !advice.empty())
    lines.push_back(std::move(advice));
  return lines;
}

std::string story_text(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += fmt::format("  {}\n", line);
  return text;
}

}  // namespace dxgkit::tool
