#include "vidmm/eviction_policy.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace dxgkit::vidmm {
namespace {

// A ranking holds this share of a class. So it is made anew after that share, and is at most that
// much out of date. Large classes need less precision.
constexpr uint32_t kRankedShare = 16;
constexpr uint32_t kRankedLeast = 16;
constexpr uint32_t kLargeClass = 8192;
constexpr uint32_t kRankedShareLarge = 4;
constexpr uint32_t kProbesLarge = 1;
// Entries of a ranking are prefetched so long before their use.
constexpr size_t kFetchAhead = 4;
// Submissions that are one moment while everything fits.
constexpr uint64_t kSameTime = 8;
// The number of submissions for which lists stay in order after a query.
constexpr uint64_t kEagerFor = 4096;
// Empty classes kept per group.
constexpr size_t kClassesKept = 64;
// set_priority searches this far for a place from each end.
constexpr uint32_t kStepsMost = 256;
// The experts' page-in bytes are compared after this many uses of the sample. The sums fade, so
// that a use counts for about as long as it takes to use the whole sample this many times.
constexpr uint32_t kCompareEvery = 64;
constexpr double kMemory = 16;
// The model is followed only while it is better by this share, and by more than some allocations. A
// smaller difference suffices to go back.
constexpr std::array<double, 2> kClearlyBetter{0.92, 0.98};
constexpr std::array<double, 2> kClearlyBetterUses{12, 3};

uint64_t hash_of(uint32_t index) {
  uint64_t z = (uint64_t{index} + 1) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  return (z ^ (z >> 27)) * 0x94D049BB133111EBULL;  // its upper bits count
}

/// The last one is evicted first.
constexpr auto kLeavesLater = [](const auto& a, const auto& b) {
  if (a.value != b.value) return a.value > b.value;
  return a.index > b.index;
};

/// Keeps the `wanted` that leave first, in order.
template <typename Ranking>
void keep_first(Ranking& ranking, size_t wanted) {
  if (ranking.size() > wanted) {
    const auto from = ranking.end() - static_cast<std::ptrdiff_t>(wanted);
    std::nth_element(ranking.begin(), from, ranking.end(), kLeavesLater);
    ranking.erase(ranking.begin(), from);
  }
  std::sort(ranking.begin(), ranking.end(), kLeavesLater);
}

}  // namespace

EvictionPolicy::EvictionPolicy(uint64_t capacity_bytes, uint32_t groups)
    : capacity_bytes_(capacity_bytes), histories_(1), groups_(groups) {
  sample_.reserve(kSampleMost);
  sample_named_.reserve(kSampleMost);
}
EvictionPolicy::~EvictionPolicy() = default;

// --- allocations ---

void EvictionPolicy::add(Index index, uint64_t bytes, uint64_t priority) {
  while (nodes_.size() <= index) {
    nodes_.emplace_back();
    links_.emplace_back();
    homes_.emplace_back();
    outlooks_.emplace_back();
    history_at_.emplace_back();
  }
  DXGKIT_CHECK(nodes_[index].bytes == 0 && bytes > 0);
  nodes_[index].bytes = bytes;
  nodes_[index].priority = priority;
}

UseHistory& EvictionPolicy::history_of(Index index) {
  uint32_t& at = history_at_[index];
  if (at != 0) return histories_[at];
  if (free_histories_.empty()) {
    at = static_cast<uint32_t>(histories_.size());
    histories_.emplace_back();
    free_histories_.reserve(histories_.capacity());  // so that remove() needs no memory
  } else {
    at = free_histories_.back();
    free_histories_.pop_back();
  }
  return histories_[at];
}

void EvictionPolicy::remove(Index index) {
  leave(index);
  Node& node = nodes_[index];
  if (node.sample != kNotInSample) drop_sample(node.sample);
  if (node.counted) used_bytes_ -= node.bytes;
  node = Node{};
  outlooks_[index] = Outlook{};
  if (const uint32_t at = std::exchange(history_at_[index], 0); at != 0) {
    histories_[at] = UseHistory{};
    free_histories_.push_back(at);
  }
}

/// The number of a class.
uint32_t EvictionPolicy::class_of(uint32_t group, uint64_t priority) {
  uint32_t& found = groups_[group][priority];
  if (found != 0) return found;
  if (free_classes_.empty()) {
    found = classes_made_++;
    classes_.grow_to(classes_made_);
    free_classes_.reserve(classes_made_);  // so that leave() needs no memory
  } else {
    found = free_classes_.back();
    free_classes_.pop_back();
  }
  classes_[found].group = group;
  classes_[found].priority = priority;
  return found;
}

void EvictionPolicy::set_priority(Index index, uint64_t priority) {
  Node& node = nodes_[index];
  if (node.priority == priority) return;
  if (!is_in_group(index)) {
    node.priority = priority;
    return;
  }
  const uint32_t group = home_of(index).group;
  leave(index);
  node.priority = priority;
  homes_[index] = class_of(group, priority);
  put_in_order(homes_[index]);
  Index before = home_of(index).youngest;
  Index after = home_of(index).oldest;
  for (uint32_t step = 0; step < kStepsMost && before != kNone; ++step) {
    if (nodes_[before].stamp < node.stamp) break;
    if (nodes_[after].stamp > node.stamp) {
      before = links_[after].previous;
      break;
    }
    before = links_[before].previous;
    after = links_[after].following;
  }
  link_after(index, before);
}

/// Inserts it into the list of its class, after `before` (kNone: as the oldest).
void EvictionPolicy::link_after(Index index, Index before) {
  Class& members = home_of(index);
  const Index following = before == kNone ? members.oldest : links_[before].following;
  links_[index] = {before, following};
  (before == kNone ? members.oldest : links_[before].following) = index;
  (following == kNone ? members.youngest : links_[following].previous) = index;
  ++members.count;
}

void EvictionPolicy::link_youngest(Index index) { link_after(index, home_of(index).youngest); }

void EvictionPolicy::unlink(Index index) {
  const Links links = links_[index];
  Class& members = home_of(index);
  (links.previous == kNone ? members.oldest : links_[links.previous].following) = links.following;
  (links.following == kNone ? members.youngest : links_[links.following].previous) = links.previous;
  --members.count;
}

/// Orders the list of a class by last use, after uses that only set stamps.
void EvictionPolicy::put_in_order(uint32_t number) {
  Class& members = classes_[number];
  if (!std::exchange(members.unordered, false)) return;
  // One query is followed by others, so from here on each use keeps the order.
  eager_until_ = now_ + kEagerFor;
  std::vector<Index> order;
  order.reserve(members.count);
  for (Index index = members.oldest; index != kNone; index = links_[index].following)
    order.push_back(index);
  std::ranges::sort(order, {}, [this](Index index) { return nodes_[index].stamp; });
  members.oldest = members.youngest = kNone;
  members.count = 0;
  for (const Index index : order) link_youngest(index);
}

void EvictionPolicy::enter(Index index, uint32_t group) {
  DXGKIT_CHECK(group < groups_.size());
  leave(index);
  Node& node = nodes_[index];
  node.stamp = ++clock_;
  homes_[index] = class_of(group, node.priority);
  link_youngest(index);
}

void EvictionPolicy::leave(Index index) {
  if (!is_in_group(index)) return;
  unlink(index);
  Class& members = home_of(index);
  Classes& classes = groups_[members.group];
  if (members.count == 0 && classes.size() > kClassesKept) {
    classes.erase(members.priority);
    members = Class{};
    free_classes_.push_back(homes_[index]);
  }
  homes_[index] = 0;
}

void EvictionPolicy::restore(std::span<Left> list) {
  std::sort(list.begin(), list.end(), [this](const Left& a, const Left& b) {
    const Node& x = nodes_[a.index];
    const Node& y = nodes_[b.index];
    return std::tie(a.group, x.priority, x.stamp, a.index) <
           std::tie(b.group, y.priority, y.stamp, b.index);
  });
  uint32_t into = 0;
  Index after = kNone;  // the next one of the class that may be younger
  for (const Left& left : list) {
    Node& node = nodes_[left.index];
    DXGKIT_CHECK(!is_in_group(left.index));
    const uint32_t home = class_of(left.group, node.priority);
    homes_[left.index] = home;
    if (std::exchange(into, home) != home) {
      put_in_order(home);
      after = classes_[home].oldest;
    }
    while (after != kNone && nodes_[after].stamp < node.stamp) after = links_[after].following;
    link_after(left.index, after == kNone ? classes_[home].youngest : links_[after].previous);
  }
}

// --- uses ---

void EvictionPolicy::begin_submission() {
  if (!sample_named_.empty()) run_shadows();
  ++now_;
}

void EvictionPolicy::use(Index index, bool counted) {
  Node& node = nodes_[index];
  node.stamp = ++clock_;
  // While everything fits there are no queries for victims, so the stamp is enough.
  const bool learn = learning();
  if (const uint32_t home = homes_[index]; home != 0) {
    Class& members = classes_[home];
    if (!learn && now_ >= eager_until_) {
      members.unordered = true;
    } else if (members.youngest != index) {
      unlink(index);
      link_youngest(index);
    }
  }
  if (counted && !node.counted) {
    node.counted = true;
    used_bytes_ += node.bytes;
    if (in_sample(index)) sample(index);
  }
  const uint64_t same_time = learn ? 1 : kSameTime;
  if (history_at_[index] != 0 && now_ - outlooks_[index].last < same_time) return;
  model_.use(history_of(index), outlooks_[index], now_, learn);
  if (learn) {
    // Another allocation, so that the model learns of allocations that are never used again.
    hand_ = hand_ + 1 < nodes_.size() ? hand_ + 1 : 0;
    if (history_at_[hand_] != 0) model_.pass(history_of(hand_), outlooks_[hand_], now_);
  }
  if (counted && node.sample != kNotInSample) {
    sample_[node.sample].stamp = clock_;
    if (sample_named_.empty()) sample_named_from_ = clock_;
    sample_named_.push_back(node.sample);
  }
}

/// The lower one is evicted first.
float EvictionPolicy::value(Index index) {
  Outlook& outlook = outlooks_[index];
  if (outlook.stale) model_.refresh(history_of(index), outlook);
  return model_.value(outlook, now_);
}

// --- choice of victims ---

void EvictionPolicy::begin_choice(uint32_t group) {
  choice_ = &groups_[group];
  ++choice_number_;
  choice_class_ = choice_->begin();
  begin_class();
}

void EvictionPolicy::begin_class() {
  while (choice_class_ != choice_->end() && classes_[choice_class_->second].count == 0)
    ++choice_class_;
  if (choice_class_ == choice_->end()) return;
  put_in_order(choice_class_->second);
  Class& members = classes_[choice_class_->second];
  choice_named_ = false;
  if (expert_ == Expert::kRecency) {
    cursor_ = members.oldest;
    return;
  }
  if (members.partial) members.ranking.clear();
  members.partial = false;
  while (!members.ranking.empty() && !may_name(members.ranking.back().index)) {
    members.ranking.pop_back();
  }
  position_ = members.ranking.size();
  const bool large = members.count > kLargeClass;
  rank_next_ = std::max(kRankedLeast, members.count / (large ? kRankedShareLarge : kRankedShare));
  const uint32_t probes = large ? kProbesLarge : kProbes;
  probe_count_ = 0;
  for (Index index = members.youngest; index != kNone && probe_count_ < probes;
       index = links_[index].previous) {
    probes_[probe_count_++] = {.index = index, .value = value(index)};
  }
}

/// Still there, and not named yet.
bool EvictionPolicy::may_name(Index index) const {
  const uint32_t members = choice_class_->second;
  return homes_[index] == members && nodes_[index].named != choice_number_ &&
         outlooks_[index].last <= classes_[members].ranked_at;
}

void EvictionPolicy::rank(Class& members, uint32_t wanted) {
  Ranking& ranking = members.ranking;
  ranking.clear();
  const auto add = [&](Index index) {
    if (choice_named_ && nodes_[index].named == choice_number_) {
      members.partial = true;
      return;
    }
    ranking.push_back({.index = index, .value = value(index)});
  };
  // In order of the table is much faster per member, if enough of it are members.
  if (members.count > nodes_.size() / 8) {
    for (Index index = 0; index < homes_.size(); ++index) {
      if (homes_[index] == choice_class_->second) add(index);
    }
  } else {
    for (Index index = members.oldest; index != kNone; index = links_[index].following) add(index);
  }
  keep_first(ranking, wanted);
  members.ranked_at = now_;
  position_ = ranking.size();
}

EvictionPolicy::Index EvictionPolicy::next_of(Class& members) {
  if (expert_ == Expert::kRecency) {
    const Index index = cursor_;
    if (index != kNone) cursor_ = links_[index].following;
    return index;
  }
  for (;;) {
    while (position_ > 0 && !may_name(members.ranking[position_ - 1].index)) --position_;
    if (position_ > 0) break;
    rank(members, rank_next_);
    if (members.ranking.empty()) return kNone;
    rank_next_ = std::max(rank_next_, rank_next_ * 2);
  }
  const Index ranked = members.ranking[position_ - 1].index;
  uint32_t best = kProbes;
  float least = value(ranked);
  for (uint32_t i = 0; i < probe_count_; ++i) {
    if (probes_[i].value >= least || nodes_[probes_[i].index].named == choice_number_) continue;
    least = probes_[i].value;
    best = i;
  }
  if (best != kProbes) return probes_[best].index;
  --position_;
  if (position_ >= kFetchAhead) fetch(members.ranking, position_ - kFetchAhead);
  return ranked;
}

void EvictionPolicy::fetch(const Ranking& ranking, size_t position) const {
  const Index index = ranking[position].index;
  __builtin_prefetch(&nodes_[index]);
  __builtin_prefetch(&links_[index]);
  __builtin_prefetch(&homes_[index]);
  __builtin_prefetch(&outlooks_[index]);
}

EvictionPolicy::Index EvictionPolicy::next() {
  while (choice_class_ != choice_->end()) {
    const Index index = next_of(classes_[choice_class_->second]);
    if (index != kNone) {
      nodes_[index].named = choice_number_;
      choice_named_ = true;
      return index;
    }
    ++choice_class_;
    begin_class();
  }
  return kNone;
}

// --- the experts on the sample ---

bool EvictionPolicy::in_sample(Index index) const { return hash_of(index) <= sample_below_; }

void EvictionPolicy::sample(Index index) {
  if (sample_.size() == kSampleMost) {
    thin_sample();
    if (!in_sample(index)) return;
  }
  nodes_[index].sample = static_cast<uint16_t>(sample_.size());
  sample_.push_back({.index = index, .links = {}});
  sampled_bytes_ += nodes_[index].bytes;
}

void EvictionPolicy::link_sample(uint32_t at) {
  sample_[at].links = {sample_youngest_, kNone};
  (sample_youngest_ == kNone ? sample_oldest_ : sample_[sample_youngest_].links.following) = at;
  sample_youngest_ = at;
}

void EvictionPolicy::unlink_sample(uint32_t at) {
  const Links links = sample_[at].links;
  (links.previous == kNone ? sample_oldest_ : sample_[links.previous].links.following) =
      links.following;
  (links.following == kNone ? sample_youngest_ : sample_[links.following].links.previous) =
      links.previous;
}

void EvictionPolicy::drop_sample(uint32_t at) {
  const uint64_t bytes = nodes_[sample_[at].index].bytes;
  sampled_bytes_ -= bytes;
  if ((sample_[at].resident & 1) != 0) unlink_sample(at);
  for (uint32_t e = 0; e < kExperts; ++e) {
    if ((sample_[at].resident >> e & 1) != 0) shadow_bytes_[e] -= bytes;
  }
  sample_ranking_.clear();
  const auto last = static_cast<uint32_t>(sample_.size() - 1);
  std::erase(sample_named_, at);
  std::ranges::replace(sample_named_, last, at);
  nodes_[sample_[at].index].sample = kNotInSample;
  if (at != last) {
    sample_[at] = sample_[last];
    nodes_[sample_[at].index].sample = static_cast<uint16_t>(at);
    if ((sample_[at].resident & 1) != 0) {
      const Links links = sample_[at].links;
      (links.previous == kNone ? sample_oldest_ : sample_[links.previous].links.following) = at;
      (links.following == kNone ? sample_youngest_ : sample_[links.following].links.previous) = at;
    }
  }
  sample_.pop_back();
}

/// Half as many.
void EvictionPolicy::thin_sample() {
  while (sample_.size() == kSampleMost) {
    sample_below_ /= 2;
    for (auto at = static_cast<uint32_t>(sample_.size()); at-- > 0;) {
      if (!in_sample(sample_[at].index)) drop_sample(at);
    }
  }
}

/// Ends the current submission for the sample.
void EvictionPolicy::run_shadows() {
  for (const uint32_t at : sample_named_) {
    if ((sample_[at].resident & 1) != 0) unlink_sample(at);
    link_sample(at);
  }
  page_in(Expert::kRecency);
  page_in(Expert::kModel);
  for (const uint32_t at : sample_named_) sample_[at].known = true;
  // The sample's share of the memory, by its share of the allocations.
  const auto room = static_cast<uint64_t>(
      static_cast<double>(capacity_bytes_) *
      (static_cast<double>(sampled_bytes_) / static_cast<double>(used_bytes_)));
  shrink_recency(room);
  shrink_model(room);
  const uint64_t before = sample_uses_ / kCompareEvery;
  sample_uses_ += sample_named_.size();
  sample_named_.clear();
  if (sample_uses_ / kCompareEvery != before) choose_expert();
}

void EvictionPolicy::page_in(Expert expert) {
  const auto e = static_cast<size_t>(expert);
  for (const uint32_t at : sample_named_) {
    Sampled& sampled = sample_[at];
    if ((sampled.resident >> e & 1) != 0) continue;
    const uint64_t bytes = nodes_[sampled.index].bytes;
    if (sampled.known) costs_[e] += static_cast<double>(bytes);
    sampled.resident = static_cast<uint8_t>(sampled.resident | 1U << e);
    shadow_bytes_[e] += bytes;
  }
}

void EvictionPolicy::shrink_recency(uint64_t room) {
  while (shadow_bytes_[0] > room) {
    const uint32_t at = sample_oldest_;
    if (at == kNone || sample_[at].stamp >= sample_named_from_) break;  // only named ones are left
    unlink_sample(at);
    sample_[at].resident &= static_cast<uint8_t>(~1U);
    shadow_bytes_[0] -= nodes_[sample_[at].index].bytes;
  }
}

void EvictionPolicy::shrink_model(uint64_t room) {
  bool ranked = false;
  while (shadow_bytes_[1] > room) {
    if (sample_ranking_.empty()) {
      if (ranked) break;  // only named ones are left
      rank_sample();
      ranked = sample_ranking_.empty();
      continue;
    }
    Sampled& sampled = sample_[sample_ranking_.back().index];
    sample_ranking_.pop_back();
    if ((sampled.resident & 2) == 0) continue;
    if (sampled.stamp > sample_ranked_at_) continue;  // used since
    sampled.resident &= static_cast<uint8_t>(~2U);
    shadow_bytes_[1] -= nodes_[sampled.index].bytes;
  }
}

void EvictionPolicy::rank_sample() {
  sample_ranking_.clear();
  for (uint32_t at = 0; at < sample_.size(); ++at) {
    const Sampled& sampled = sample_[at];
    if ((sampled.resident & 2) == 0 || sampled.stamp >= sample_named_from_) continue;
    sample_ranking_.push_back({.index = at, .value = value(sampled.index)});
  }
  keep_first(sample_ranking_, std::max<size_t>(4, sample_ranking_.size() / kRankedShare));
  sample_ranked_at_ = sample_named_from_ - 1;
}

void EvictionPolicy::choose_expert() {
  const auto current = static_cast<size_t>(expert_);
  const size_t other = 1 - current;
  const auto size = static_cast<double>(std::max<size_t>(sample_.size(), 16));
  const double typical = static_cast<double>(sampled_bytes_) / size;
  if (costs_[other] < kClearlyBetter[current] * costs_[current] &&
      costs_[other] + kClearlyBetterUses[current] * typical < costs_[current]) {
    expert_ = static_cast<Expert>(other);
  }
  const double fade = std::max(0.5, 1 - kCompareEvery / (kMemory * size));
  for (double& cost : costs_) cost *= fade;
}

}  // namespace dxgkit::vidmm
