#include "tools/dxgkit/view/overview.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tools/dxgkit/report.h"

namespace dxgkit::tool {

nlohmann::ordered_json overview_of(const trace::Story& story) {
  const double part =
      static_cast<double>(std::max<int64_t>(story.end - story.start, 1)) / kOverviewParts;
  std::map<uint16_t, std::vector<double>> busy;  // ns of each part
  for (const auto& [node, name] : story.nodes) busy[node].resize(kOverviewParts);
  for (const trace::Busy& each : story.busy) {
    const auto from = static_cast<double>(each.start - story.start);
    const auto to = static_cast<double>(each.end.value_or(story.end) - story.start);
    std::vector<double>& parts = busy[each.node];
    const auto first = static_cast<size_t>(from / part);
    for (size_t i = first; i < kOverviewParts; ++i) {
      const double begin = static_cast<double>(i) * part;
      if (begin >= to) break;
      parts[i] += std::min(to, begin + part) - std::max(from, begin);
    }
  }
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const auto& [node, name] : story.nodes) {
    std::string bytes;
    for (const double ns : busy[node])
      bytes += static_cast<char>(std::min(255.0, ns / part * 255 + (ns > 0 ? 1 : 0)));
    nodes.push_back({{"node", node}, {"name", name.value_or("")}, {"busy", base64(bytes)}});
  }
  return nodes;
}

}  // namespace dxgkit::tool
