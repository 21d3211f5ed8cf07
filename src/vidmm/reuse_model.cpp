#include "vidmm/reuse_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <span>

namespace dxgkit::vidmm {
namespace {

// A table is computed anew after this many uses, so that its cost per use stays small.
constexpr uint32_t kFreshFirst = 16;
constexpr uint32_t kFreshMost = 256;
// Counts fade by this much with each computation, because programs change.
constexpr float kFade = 0.99F;
// The weight, in uses, of the assumption before anything was counted.
constexpr double kPriorWeight = 8;
constexpr double kPriorWeightRegular = 1;
// Two packed intervals are the same if they differ by no more: 4 to 8 %.
constexpr int kSameSteps = 10;
// From these on, predictions are believed.
constexpr uint32_t kTrusted = 2;
constexpr uint32_t kTrustedWell = 6;
// The scale of an allocation that was used only once. The table learns what that means.
constexpr float kUnknownScale = 256;

/// An interval in 16 bits: the upper half of the number, so that equal steps are (nearly) equal
/// ratios. Above 0.
uint16_t pack(float interval) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(interval) >> 16);
}
float unpack(uint16_t packed) { return std::bit_cast<float>(uint32_t{packed} << 16); }
bool same(uint16_t a, uint16_t b) { return std::abs(int{a} - int{b}) <= kSameSteps; }

/// Four steps per octave, straight from the number's representation. x >= 1.
uint32_t quarter_octaves(float x) {
  return (std::bit_cast<uint32_t>(x) - std::bit_cast<uint32_t>(1.0F)) >> 21;
}
float from_quarter_octaves(uint32_t quarters) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(1.0F) + (quarters << 21));
}

}  // namespace

ReuseModel::ReuseModel() : tables_(kKinds) {
  right_.fill(1);
  made_.fill(2);
}

ReuseModel::Table& ReuseModel::table_of(uint32_t kind) {
  std::unique_ptr<Table>& table = tables_[kind];
  if (table == nullptr) table = std::make_unique<Table>();
  return *table;
}

uint32_t ReuseModel::bucket(float age_in_scales) {
  if (age_in_scales < 2) return static_cast<uint32_t>(age_in_scales * 16);
  return std::min(kBuckets - 1, 32 + quarter_octaves(age_in_scales * 0.5F));
}
float ReuseModel::edge(uint32_t bucket) {
  if (bucket <= 32) return static_cast<float>(bucket) / 16;
  return 2 * from_quarter_octaves(bucket - 32);
}
uint32_t ReuseModel::age_bucket(float age) {
  return age < 1 ? 0 : std::min(kAges - 1, 1 + quarter_octaves(age));
}
/// interval >= 1.
uint32_t ReuseModel::octave(float interval) {
  return std::min(kOctaves - 1, 1 + quarter_octaves(interval) / 4);
}
bool ReuseModel::regular(uint32_t kind) { return kind / kOctaves >= kSorts - 2; }

/// Predicts from past cases in which the latest intervals were like now. Of the places in the
/// history with the longest likeness the majority decides, else the latest.
uint16_t ReuseModel::predict(const UseHistory& history) {
  const auto& intervals = history.intervals;
  const uint32_t known = history.known;
  std::array<uint8_t, UseHistory::kIntervals> places{};
  uint32_t count = 0;
  uint32_t longest = 0;
  for (uint32_t back = 1; back < known; ++back) {
    uint32_t length = 0;
    while (back + length < known && same(intervals[length], intervals[back + length])) ++length;
    if (length < longest) continue;
    if (length > longest) count = 0;
    longest = length;
    places[count++] = static_cast<uint8_t>(back - 1);
  }
  uint16_t best = intervals[0];
  std::ptrdiff_t most = 0;
  const std::span found = std::span(places).first(count);
  for (const uint8_t place : found) {
    const std::ptrdiff_t votes = std::ranges::count_if(
        found, [&](uint8_t other) { return same(intervals[place], intervals[other]); });
    if (votes <= most) continue;
    most = votes;
    best = intervals[place];
  }
  return best;
}

/// Which table, and the scale of ages in it.
void ReuseModel::refresh(UseHistory& history, Outlook& outlook) const {
  outlook.stale = false;
  const uint32_t known = history.known;
  history.predicted = predict(history);
  uint32_t sort = 0;
  outlook.scale = kUnknownScale;
  if (known > 0 && outlook.trust >= kTrusted) {
    outlook.scale = std::max(unpack(history.predicted), 1.0F);
    sort = outlook.trust >= kTrustedWell ? kSorts - 1 : kSorts - 2;
  } else if (history.uses >= 2) {
    const float mean =
        static_cast<float>(outlook.last - history.first) / static_cast<float>(history.uses - 1);
    const uint32_t count = std::min(known, 4U);
    float recent = 0;
    for (uint32_t i = 0; i < count; ++i) recent += unpack(history.intervals[i]);
    recent /= static_cast<float>(std::max(count, 1U));
    outlook.scale = std::max(mean, 1.0F);
    if (history.uses <= 4) {
      sort = history.uses == 2 ? 1 : 2;
    } else {
      const uint32_t pace =
          recent < mean * 0.25F ? 0 : (recent < mean * 0.7F ? 1 : (recent < mean * 1.5F ? 2 : 3));
      sort = 3 + (history.uses <= 8 ? 0 : 4) + pace;
    }
  }
  outlook.kind = static_cast<uint16_t>(sort * kOctaves + octave(outlook.scale));
  history.seen = 0;
  history.seen_by_age = 0;
}

void ReuseModel::pass(UseHistory& history, Outlook& outlook, uint64_t now) {
  if (history.uses == 0) return;
  if (outlook.stale) refresh(history, outlook);
  const auto age = static_cast<float>(now - outlook.last);
  const uint32_t upto = bucket(age / outlook.scale);
  const uint32_t upto_age = age_bucket(age);
  for (uint32_t b = history.seen_by_age; b < upto_age; ++b) reached_by_age_[b] += 1;
  history.seen_by_age = static_cast<uint8_t>(upto_age);
  if (upto <= history.seen) return;
  Table& table = table_of(outlook.kind);
  for (uint32_t b = history.seen; b < upto; ++b) table.reached[b] += 1;
  history.seen = static_cast<uint8_t>(upto);
  // A table also changes through allocations that are not used.
  if (++table.fresh >= (table.ready ? kFreshMost : kFreshFirst)) compute(outlook.kind);
}

void ReuseModel::use(UseHistory& history, Outlook& outlook, uint64_t now, bool learn) {
  if (history.uses == 0) {
    history.first = now;
  } else {
    const auto age = static_cast<float>(now - outlook.last);
    if (learn) {
      pass(history, outlook, now);
      Table& table = table_of(outlook.kind);
      const uint32_t at = bucket(age / outlook.scale);
      table.used[at] += 1;
      table.reached[at] += 1;
      const uint32_t at_age = age_bucket(age);
      used_by_age_[at_age] += 1;
      reached_by_age_[at_age] += 1;
      if (++table.fresh >= (table.ready ? kFreshMost : kFreshFirst)) compute(outlook.kind);
      if (++fresh_by_age_ >= 8 * kFreshMost) {
        fresh_by_age_ = 0;
        for (float& count : used_by_age_) count *= kFade;
        for (float& count : reached_by_age_) count *= kFade;
        for (float& count : right_) count *= kFade;
        for (float& count : made_) count *= kFade;
      }
    }
    // Unless a prediction is asked for, none is made, and the last interval stands for one.
    const uint16_t predicted = outlook.stale ? history.intervals[0] : history.predicted;
    const uint16_t interval = pack(age);
    if (history.known > 0) {
      const bool right = same(interval, predicted);
      if (learn) {
        right_[outlook.trust] += right ? 1.0F : 0.0F;
        made_[outlook.trust] += 1;
      }
      const uint32_t trust = right ? std::min(kTrusts - 1, outlook.trust + 1U)
                                   : (outlook.trust < 2 ? 0 : outlook.trust - 2U);
      outlook.trust = static_cast<uint8_t>(trust);
    }
    for (uint32_t i = UseHistory::kIntervals - 1; i > 0; --i) {
      history.intervals[i] = history.intervals[i - 1];
    }
    history.intervals[0] = interval;
    if (history.known < UseHistory::kIntervals) ++history.known;
  }
  ++history.uses;
  outlook.last = now;
  outlook.stale = true;
  // At once, while all of it is in the cache: a later choice reads outlooks only.
  if (learn) refresh(history, outlook);
}

/// Of the allocations that reach a bucket, the share that is used in it, as assumed without the
/// table.
double ReuseModel::prior(uint32_t kind, uint32_t b) const {
  const double low = edge(b);
  // Below 1, value() uses the trust and not the table.
  if (regular(kind)) return low < 1.15 ? 0.5 : 0.01;
  // As with all others of the same age.
  const float typical = from_quarter_octaves(4 * (kind % kOctaves)) * 0.75F;
  const float begin = std::max(edge(b) * typical, 0.25F);
  const float end = (b + 1 < kBuckets ? edge(b + 1) : edge(b) * 1.19F) * typical;
  const uint32_t at = age_bucket(std::sqrt(begin * end));
  const double share = std::min(0.999, (static_cast<double>(used_by_age_[at]) + 0.08) /
                                           (static_cast<double>(reached_by_age_[at]) + 0.5));
  return 1 - std::pow(1 - share, std::log2(static_cast<double>(end / begin)) * 4);
}

/// The value at each age: over all spans from there, the most uses per time.
void ReuseModel::compute(uint32_t kind) {
  Table& table = *tables_[kind];
  const double weight = regular(kind) ? kPriorWeightRegular : kPriorWeight;
  std::array<float, kBuckets> share{};
  std::array<float, kBuckets> width{};
  for (uint32_t b = 0; b < kBuckets; ++b) {
    const double counted = static_cast<double>(table.used[b]) + weight * prior(kind, b);
    share[b] = static_cast<float>(
        std::min(1.0, counted / (static_cast<double>(table.reached[b]) + weight)));
    width[b] = (b + 1 < kBuckets ? edge(b + 1) : edge(b) * 1.19F) - edge(b);
  }
  for (uint32_t b = 0; b < kBuckets; ++b) {
    float hits = 0;
    float time = 0;
    float left = 1;
    float best = 0;
    for (uint32_t j = b; j < kBuckets && left > 1e-3F; ++j) {
      const float used = left * share[j];
      hits += used;
      time += (left - used * 0.5F) * width[j];
      left -= used;
      best = std::max(best, hits / time);
    }
    table.value[b] = best;
  }
  for (float& count : table.used) count *= kFade;
  for (float& count : table.reached) count *= kFade;
  table.fresh = 0;
  table.ready = true;
}

float ReuseModel::value(const Outlook& outlook, uint64_t now) const {
  const auto age = static_cast<float>(now - outlook.last);
  if (outlook.trust >= kTrusted && age < outlook.scale) {
    return right_[outlook.trust] / (made_[outlook.trust] * (outlook.scale - age + 0.5F));
  }
  const float scaled = age / outlook.scale;
  const Table* const table = tables_[outlook.kind].get();
  // Nothing is counted yet: hits are assumed to become rarer as the age grows.
  if (table == nullptr || !table->ready) return 1 / (outlook.scale + age);
  const uint32_t b = bucket(scaled);
  float value = table->value[b];
  if (b + 1 < kBuckets) {
    const float share = (scaled - edge(b)) / (edge(b + 1) - edge(b));
    value += share * (table->value[b + 1] - value);
  } else {
    value *= edge(b) / scaled;
  }
  return std::max(value, 1e-9F) / outlook.scale;
}

}  // namespace dxgkit::vidmm
