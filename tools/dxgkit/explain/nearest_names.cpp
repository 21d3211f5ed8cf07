#include <algorithm>
#include <utility>

#include "base/spelling.h"
#include "tools/dxgkit/explain/explanation.h"

namespace dxgkit::tool {
namespace {

// More differences than these in one id are another id: all of an area differ by one or two.
constexpr size_t kDifferencesMax = 2;
constexpr size_t kNamesMax = 3;

}  // namespace

std::vector<std::string_view> nearest_names(std::string_view text) {
  std::vector<std::pair<size_t, std::string_view>> near;
  const auto consider = [&](std::string_view name) {
    const size_t count = spelling_distance(text, name);
    if (count <= kDifferencesMax) near.emplace_back(count, name);
  };
  for (const verifier::Rule& rule : verifier::all_rules()) consider(rule.id);
  for (const verifier::BugCheck& check : verifier::all_bug_checks()) consider(check.name);
  std::ranges::stable_sort(near, {}, &std::pair<size_t, std::string_view>::first);
  std::vector<std::string_view> out;
  for (const auto& [count, name] : near) {
    // Names that are further away than the nearest are noise.
    if (out.size() < kNamesMax && count == near[0].first) out.push_back(name);
  }
  return out;
}

}  // namespace dxgkit::tool
