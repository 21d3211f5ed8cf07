#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include "tools/dxgkit/explain/explanation.h"

namespace dxgkit::tool {
namespace {

// More differences than these in one id are another id: all of an area differ by one or two.
constexpr size_t kDifferencesMax = 2;
constexpr size_t kNamesMax = 3;

bool alike(char a, char b) {
  return std::toupper(static_cast<unsigned char>(a)) == std::toupper(static_cast<unsigned char>(b));
}

/// The least number of characters to insert, to remove, to replace or to swap with their neighbour
/// so that one text becomes the other.
size_t differences(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::vector<size_t> next(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = row[j - 1] + (alike(a[i - 1], b[j - 1]) ? 0 : 1);
      next[j] = std::min({replaced, row[j] + 1, next[j - 1] + 1});
      if (i > 1 && j > 1 && alike(a[i - 1], b[j - 2]) && alike(a[i - 2], b[j - 1]))
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string_view> nearest_names(std::string_view text) {
  std::vector<std::pair<size_t, std::string_view>> near;
  const auto consider = [&](std::string_view name) {
    const size_t count = differences(text, name);
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
