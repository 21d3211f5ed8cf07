#include "verifier/situations.h"

#include <algorithm>

#include "verifier/situation_table.h"

namespace dxgkit::verifier {

std::span<const SituationInfo> situation_catalogue() { return table::kSituationTable; }

std::string_view text_of(SituationFact fact) {
  return table::kFactTexts[static_cast<size_t>(fact)];
}

void SituationLog::add_entry(std::string_view ddi) {
  for (size_t i = 0; i < kSituations; ++i) {
    if (table::kSituationTable[i].ddi == ddi) has_entry_[i].store(true, std::memory_order_relaxed);
  }
}

std::optional<std::string> SituationLog::why_not(Situation situation) const {
  const SituationInfo& info = table::kSituationTable[static_cast<size_t>(situation)];
  const bool is_entry = info.ddi.starts_with("DxgkDdi");  // a callback is always there
  if (is_entry && !has_entry_[static_cast<size_t>(situation)].load(std::memory_order_relaxed))
    return "the driver has no " + std::string(info.ddi);
  const uint64_t lacking = info.needs & ~facts_.load(std::memory_order_relaxed);
  for (size_t fact = 0; fact < kSituationFacts; ++fact) {
    if ((lacking >> fact & 1) != 0)
      return "not so: " + std::string(text_of(static_cast<SituationFact>(fact)));
  }
  return std::nullopt;
}

SituationReport::SituationReport(const SituationLog& log) {
  for (size_t i = 0; i < kSituations; ++i) {
    const auto situation = static_cast<Situation>(i);
    const uint64_t count = log.count(situation);
    counts.push_back({&table::kSituationTable[i], count,
                      count != 0 ? std::string() : log.why_not(situation).value_or("")});
  }
}

size_t SituationReport::possible() const {
  return static_cast<size_t>(
      std::ranges::count_if(counts, [](const SituationCount& one) { return one.why_not.empty(); }));
}

size_t SituationReport::reached() const {
  return static_cast<size_t>(
      std::ranges::count_if(counts, [](const SituationCount& one) { return one.count != 0; }));
}

std::vector<const SituationInfo*> SituationReport::missing() const {
  std::vector<const SituationInfo*> out;
  for (const SituationCount& one : counts) {
    if (one.count == 0 && one.why_not.empty()) out.push_back(one.info);
  }
  return out;
}

}  // namespace dxgkit::verifier
