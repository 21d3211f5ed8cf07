// Situations: what the pages tell apart, and how often a driver was confronted with each.
//
// A rule is proven only where its situation comes up: a driver that leaves an offset out is right
// for as long as every offset is 0. The catalogue is rules/situations.json.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/situation_ids.h"  // generated: Situation, SituationFact

namespace dxgkit::verifier {

struct SituationInfo {
  std::string_view id;     // "patch.part-behind-start"
  std::string_view ddi;    // "DxgkDdiPatch", or the callback that tells of it
  std::string_view when;   // a sentence
  std::string_view rules;  // those that a wrong answer breaks, with a space between
  uint64_t needs = 0;      // facts, by bit
};

/// All situations, by Situation.
std::span<const SituationInfo> situation_catalogue();
/// What the fact says of a driver or a run: "the driver has GPU virtual addresses".
std::string_view text_of(SituationFact fact);

/// Counts of one run, which may have several drivers and adapters, one after the other or at once.
/// Any thread, any IRQL; `reach` takes no lock.
class SituationLog {
 public:
  void reach(Situation situation, bool is_so = true) {
    if (is_so) counts_[static_cast<size_t>(situation)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t count(Situation situation) const {
    return counts_[static_cast<size_t>(situation)].load(std::memory_order_relaxed);
  }
  /// A driver has that entry in its table, or that property.
  void add_entry(std::string_view ddi);
  void add(SituationFact fact, bool is_so = true) {
    if (is_so)
      facts_.fetch_or(uint64_t{1} << static_cast<unsigned>(fact), std::memory_order_relaxed);
  }
  /// Why the situation could not come up; nothing if it could have.
  std::optional<std::string> why_not(Situation situation) const;

 private:
  std::array<std::atomic<uint64_t>, kSituations> counts_{};
  std::atomic<uint64_t> facts_{0};
  std::array<std::atomic<bool>, kSituations> has_entry_{};
};

/// One line of a report.
struct SituationCount {
  const SituationInfo* info = nullptr;
  uint64_t count = 0;
  std::string why_not;  // of one that could not come up; else empty
};

/// What a run has reached, in the catalogue's order.
struct SituationReport {
  std::vector<SituationCount> counts;

  explicit SituationReport(const SituationLog& log);
  SituationReport() = default;
  size_t possible() const;
  size_t reached() const;
  /// Those that could have come up and did not.
  std::vector<const SituationInfo*> missing() const;
};

}  // namespace dxgkit::verifier
