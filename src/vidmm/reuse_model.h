// Predicts when an allocation will be used again, from the stream of uses. Private to the module.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace dxgkit::vidmm {

/// The remembered uses of one allocation.
struct UseHistory {
  static constexpr uint32_t kIntervals = 16;
  uint64_t first = 0;  // time of the first use
  uint32_t uses = 0;
  std::array<uint16_t, kIntervals> intervals{};  // between uses, the latest first, packed
  // The interval that its pattern predicts, packed; 0: none.
  uint16_t predicted = 0;
  uint8_t known = 0;  // the number of `intervals` that are known
  uint8_t seen = 0;   // buckets of its table in which it has been counted
  uint8_t seen_by_age = 0;
};

/// The prediction for one allocation. Separate and small, because a choice reads the outlook of
/// every allocation.
struct Outlook {
  uint64_t last = 0;   // time of the last use
  float scale = 1;     // the unit of ages: the expected interval
  uint16_t kind = 0;   // the number of its table
  uint8_t trust = 0;   // grows while predictions come true
  bool stale = false;  // `scale` and `kind` are older than the last use
};

/// A table for every kind of allocation (how often used, at which intervals, how regularly). The
/// table says how many of the allocations that reached an age were used next. From this comes the
/// value of keeping an allocation: the most hits per time that keeping it for any span from now on
/// would bring. The value of a byte does not depend on the size: an allocation saves as many bytes
/// as it takes.
///
/// Time is counted in submissions. Deterministic. All costs are constant, amortised.
class ReuseModel {
 public:
  ReuseModel();

  /// The allocation is used at `now`. Times never go back. At most once per time.
  /// @param learn  count the use; otherwise it is only remembered, which is much cheaper.
  void use(UseHistory& history, Outlook& outlook, uint64_t now, bool learn);
  /// Counts that the allocation is still unused at `now`. Call it for every allocation from time to
  /// time. Otherwise the model would never learn of allocations that are never used again.
  void pass(UseHistory& history, Outlook& outlook, uint64_t now);
  /// Brings a stale outlook up to date.
  void refresh(UseHistory& history, Outlook& outlook) const;
  /// Expected hits per submission while the allocation is kept; above 0. The outlook must not be
  /// stale.
  float value(const Outlook& outlook, uint64_t now) const;

 private:
  // Ages in units of `scale`: 16 linear buckets per unit up to 2, then four per octave up to 32.
  static constexpr uint32_t kBuckets = 48;
  static constexpr uint32_t kOctaves = 40;
  static constexpr uint32_t kSorts = 13;
  static constexpr uint32_t kKinds = kSorts * kOctaves;
  static constexpr uint32_t kAges = 160;  // of all kinds together: four per octave
  static constexpr uint32_t kTrusts = 8;
  struct Table {
    std::array<float, kBuckets> used{};     // this many were used at that age
    std::array<float, kBuckets> reached{};  // this many reached that age
    std::array<float, kBuckets> value{};    // in units of 1 / scale
    uint32_t fresh = 0;                     // uses since `value` was computed
    bool ready = false;
  };
  static uint32_t bucket(float age_in_scales);
  static float edge(uint32_t bucket);
  static uint32_t age_bucket(float age);
  static uint32_t octave(float interval);
  static bool regular(uint32_t kind);
  static uint16_t predict(const UseHistory& history);
  void compute(uint32_t kind);
  double prior(uint32_t kind, uint32_t bucket) const;

  Table& table_of(uint32_t kind);

  // A table is made when the first allocation of its kind is counted. Most kinds never occur, and
  // all tables together are 300 KB.
  std::vector<std::unique_ptr<Table>> tables_;
  std::array<float, kAges> used_by_age_{};
  std::array<float, kAges> reached_by_age_{};
  uint32_t fresh_by_age_ = 0;
  std::array<float, kTrusts> right_{};  // predictions that came true, by trust
  std::array<float, kTrusts> made_{};
};

}  // namespace dxgkit::vidmm
