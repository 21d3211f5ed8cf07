#include "base/spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace dxgkit {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

size_t spelling_distance(std::string_view typed, std::string_view name) {
  const std::string a = lower(typed), b = lower(name);
  // Rows of the table of distances between beginnings: two back, one back, the present one.
  std::vector<size_t> older(b.size() + 1), old(b.size() + 1), row(b.size() + 1);
  std::iota(old.begin(), old.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({old[j] + 1, row[j - 1] + 1, old[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], older[j - 2] + 1);
    }
    older.swap(old);
    old.swap(row);
  }
  return old[b.size()];
}

std::string did_you_mean(std::string_view typed, std::span<const std::string_view> names) {
  constexpr size_t kBeginning = 3;
  std::string_view nearest;
  size_t least = (typed.size() + 2) / 3 + 1;
  for (const std::string_view name : names) {
    const size_t distance = spelling_distance(typed, name);
    if (distance >= std::min(least, name.size())) continue;
    least = distance;
    nearest = name;
  }
  if (nearest.empty() && typed.size() >= kBeginning) {
    const auto begun = std::ranges::find_if(
        names, [&](std::string_view name) { return lower(name).starts_with(lower(typed)); });
    if (begun != names.end()) nearest = *begun;
  }
  return nearest.empty() ? std::string() : fmt::format("; did you mean {}?", nearest);
}

std::string counted(uint64_t count, std::string_view one, std::string_view many) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

}  // namespace dxgkit
