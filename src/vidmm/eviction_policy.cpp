#include "vidmm/eviction_policy.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace dxgkit::vidmm {
namespace {

// Rankings hold this share of a class: they are made anew that often, and are that much out of
// date at most.
constexpr uint32_t kRankedShare = 16;
constexpr uint32_t kRankedLeast = 16;
// Above this many members less precision is enough.
constexpr uint32_t kLargeClass = 8192;
constexpr uint32_t kRankedShareLarge = 8;
// Empty classes kept per group.
constexpr size_t kClassesKept = 64;
// What the experts paged in is compared after this many uses of the sample, fading so that uses
// count about as long as it takes to use the whole sample this many times.
constexpr uint32_t kCompareEvery = 64;
constexpr double kMemory = 8;
// Another expert is followed only if it is better by this share, and by more than a few
// allocations.
constexpr double kClearlyBetter = 0.95;
constexpr double kClearlyBetterUses = 4;

uint64_t hash_of(uint32_t index) {
  uint64_t z = (uint64_t{index} + 1) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// Who leaves first is last; among equals the least recently used.
constexpr auto kLeavesLater = [](const auto& a, const auto& b) {
  if (a.value != b.value) return a.value > b.value;
  return a.stamp > b.stamp;
};

}  // namespace

EvictionPolicy::EvictionPolicy(uint64_t capacity_bytes, uint32_t groups)
    : capacity_bytes_(capacity_bytes), groups_(groups) {}
EvictionPolicy::~EvictionPolicy() = default;

// --- allocations ---

EvictionPolicy::Index EvictionPolicy::add(uint64_t bytes, uint64_t priority, uint32_t owner) {
  Index index = 0;
  if (free_.empty()) {
    index = static_cast<Index>(nodes_.size());
    nodes_.emplace_back();
    free_.reserve(nodes_.capacity());  // so that remove() needs no memory
  } else {
    index = free_.back();
    free_.pop_back();
  }
  nodes_[index] = Node{};
  nodes_[index].bytes = bytes;
  nodes_[index].priority = priority;
  nodes_[index].owner = owner;
  return index;
}

void EvictionPolicy::remove(Index index) {
  leave(index);
  Node& node = nodes_[index];
  if (node.sample != kNone) drop_sample(node.sample);
  if (node.counted) {
    used_bytes_ -= node.bytes;
    --counted_;
  }
  node = Node{};
  free_.push_back(index);
}

void EvictionPolicy::set_priority(Index index, uint64_t priority) {
  Node& node = nodes_[index];
  if (node.priority == priority) return;
  const uint32_t group = node.group;
  leave(index);
  node.priority = priority;
  if (group == kNone) return;
  // Its place among the others goes by its last use, which is not now.
  node.group = group;
  node.home = &groups_[group][priority];
  link(index);
}

/// Into its class, by stamp; from the youngest on, where it nearly always belongs.
void EvictionPolicy::link(Index index) {
  Node& node = nodes_[index];
  Class& members = *node.home;
  Index before = members.youngest;
  while (before != kNone && nodes_[before].stamp > node.stamp) before = nodes_[before].previous;
  node.previous = before;
  node.following = before == kNone ? members.oldest : nodes_[before].following;
  (before == kNone ? members.oldest : nodes_[before].following) = index;
  (node.following == kNone ? members.youngest : nodes_[node.following].previous) = index;
  ++members.count;
}

void EvictionPolicy::unlink(Index index) {
  Node& node = nodes_[index];
  Class& members = *node.home;
  (node.previous == kNone ? members.oldest : nodes_[node.previous].following) = node.following;
  (node.following == kNone ? members.youngest : nodes_[node.following].previous) = node.previous;
  --members.count;
}

void EvictionPolicy::enter(Index index, uint32_t group) {
  DXGKIT_CHECK(group < groups_.size());
  leave(index);
  Node& node = nodes_[index];
  node.group = group;
  node.home = &groups_[group][node.priority];
  node.stamp = ++clock_;
  link(index);
}

void EvictionPolicy::leave(Index index) {
  Node& node = nodes_[index];
  if (node.group == kNone) return;
  unlink(index);
  auto& classes = groups_[node.group];
  if (node.home->count == 0 && classes.size() > kClassesKept) classes.erase(node.priority);
  node.home = nullptr;
  node.group = kNone;
}

void EvictionPolicy::restore(std::span<Left> list) {
  std::sort(list.begin(), list.end(), [this](const Left& a, const Left& b) {
    const Node& x = nodes_[a.index];
    const Node& y = nodes_[b.index];
    return std::tie(a.group, x.priority, x.stamp, a.index) <
           std::tie(b.group, y.priority, y.stamp, b.index);
  });
  Class* into = nullptr;
  Index after = kNone;  // the next one of the class that may be younger
  for (const Left& left : list) {
    Node& node = nodes_[left.index];
    DXGKIT_CHECK(node.group == kNone);
    node.group = left.group;
    node.home = &groups_[left.group][node.priority];
    if (into != node.home) {
      into = node.home;
      after = into->oldest;
    }
    while (after != kNone && nodes_[after].stamp < node.stamp) after = nodes_[after].following;
    node.following = after;
    node.previous = after == kNone ? into->youngest : nodes_[after].previous;
    (node.previous == kNone ? into->oldest : nodes_[node.previous].following) = left.index;
    (after == kNone ? into->youngest : nodes_[after].previous) = left.index;
    ++into->count;
  }
}

// --- uses ---

void EvictionPolicy::begin_submission() {
  run_shadows();
  ++now_;
}

void EvictionPolicy::use(Index index, bool counted) {
  Node& node = nodes_[index];
  if (node.group != kNone) unlink(index);
  node.stamp = ++clock_;
  if (node.group != kNone) link(index);
  if (counted && !node.counted) {
    node.counted = true;
    used_bytes_ += node.bytes;
    ++counted_;
    if (in_sample(index)) sample(index);
  }
  const bool again = node.history.uses > 0 && node.history.last == now_;
  if (again) return;
  ++uses_;
  model_.use(node.history, now_);
  // Somebody else, so that what is never used again is learned too.
  hand_ = hand_ + 1 < nodes_.size() ? hand_ + 1 : 0;
  model_.pass(nodes_[hand_].history, now_);
  if (counted && node.sample != kNone) {
    sample_[node.sample].stamp = clock_;
    sample_named_.push_back(node.sample);
  }
}

float EvictionPolicy::value(Expert expert, const Node& node) const {
  switch (expert) {
    case Expert::kRecency:
      return 0;  // equal: stamps decide
    case Expert::kRate:
      return static_cast<float>(node.history.uses) /
             (static_cast<float>(now_ - node.history.first) + rate_prior_);
    case Expert::kModel:
      return node.history.uses == 0 ? 0 : model_.value(node.history, now_);
  }
  return 0;
}

// --- who leaves ---

void EvictionPolicy::begin_choice(uint32_t group) {
  choice_ = &groups_[group];
  ++choice_number_;
  choice_class_ = choice_->begin();
  begin_class();
}

void EvictionPolicy::begin_class() {
  while (choice_class_ != choice_->end() && choice_class_->second.count == 0) ++choice_class_;
  if (choice_class_ == choice_->end()) return;
  Class& members = choice_class_->second;
  if (expert_ == Expert::kRecency) {
    cursor_ = members.oldest;
    return;
  }
  if (members.partial || members.ranked_by != expert_) members.ranking.clear();
  members.partial = false;
  while (!members.ranking.empty() && !may_name(members.ranking.back())) members.ranking.pop_back();
  position_ = members.ranking.size();
  rank_next_ =
      std::max(kRankedLeast,
               members.count / (members.count > kLargeClass ? kRankedShareLarge : kRankedShare));
  probe_count_ = 0;
  for (Index index = members.youngest; index != kNone && probe_count_ < kProbes;
       index = nodes_[index].previous) {
    const Node& node = nodes_[index];
    probes_[probe_count_++] = {.index = index, .value = value(expert_, node), .stamp = node.stamp};
  }
  std::sort(probes_.begin(), probes_.begin() + probe_count_, kLeavesLater);
}

/// Still there, not used since it was ranked, not named yet.
bool EvictionPolicy::may_name(const Ranked& ranked) const {
  const Node& node = nodes_[ranked.index];
  return node.stamp == ranked.stamp && node.home == &choice_class_->second &&
         node.named != choice_number_;
}

void EvictionPolicy::rank(Class& members, uint32_t wanted) {
  Ranking& ranking = members.ranking;
  ranking.clear();
  const auto add = [&](Index index) {
    const Node& node = nodes_[index];
    if (node.named == choice_number_) {
      members.partial = true;
      return;
    }
    ranking.push_back({.index = index, .value = value(expert_, node), .stamp = node.stamp});
  };
  // In order of the table is much faster per member, if most of it are members.
  if (members.count > nodes_.size() / 4) {
    for (Index index = 0; index < nodes_.size(); ++index) {
      if (nodes_[index].home == &members) add(index);
    }
  } else {
    for (Index index = members.oldest; index != kNone; index = nodes_[index].following) add(index);
  }
  if (ranking.size() > wanted) {
    const auto from = ranking.end() - static_cast<std::ptrdiff_t>(wanted);
    std::nth_element(ranking.begin(), from, ranking.end(), kLeavesLater);
    ranking.erase(ranking.begin(), from);
  }
  std::sort(ranking.begin(), ranking.end(), kLeavesLater);
  members.ranked_by = expert_;
  position_ = ranking.size();
}

EvictionPolicy::Index EvictionPolicy::next_of(Class& members) {
  if (expert_ == Expert::kRecency) {
    const Index index = cursor_;
    if (index != kNone) cursor_ = nodes_[index].following;
    return index;
  }
  for (;;) {
    while (position_ > 0 && !may_name(members.ranking[position_ - 1])) --position_;
    if (position_ > 0) break;
    rank(members, rank_next_);
    if (members.ranking.empty()) return kNone;
    rank_next_ = std::max(rank_next_, rank_next_ * 2);
  }
  while (probe_count_ > 0 && !may_name(probes_[probe_count_ - 1])) --probe_count_;
  const Index ranked = members.ranking[position_ - 1].index;
  if (probe_count_ > 0) {
    const Ranked& probe = probes_[probe_count_ - 1];
    if (probe.value < value(expert_, nodes_[ranked])) {
      --probe_count_;
      return probe.index;
    }
  }
  --position_;
  return ranked;
}

EvictionPolicy::Index EvictionPolicy::next() {
  while (choice_class_ != choice_->end()) {
    const Index index = next_of(choice_class_->second);
    if (index != kNone) {
      nodes_[index].named = choice_number_;
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
  nodes_[index].sample = static_cast<uint32_t>(sample_.size());
  sample_.push_back({.index = index});
  sampled_bytes_ += nodes_[index].bytes;
}

void EvictionPolicy::drop_sample(uint32_t at) {
  const Sampled& gone = sample_[at];
  const uint64_t bytes = nodes_[gone.index].bytes;
  sampled_bytes_ -= bytes;
  for (uint32_t e = 0; e < kExperts; ++e) {
    Shadow& shadow = shadows_[e];
    shadow.ranking.clear();
    if ((gone.resident >> e & 1) == 0) continue;
    shadow.used_bytes -= bytes;
    --shadow.count;
  }
  const auto last = static_cast<uint32_t>(sample_.size() - 1);
  std::erase(sample_named_, at);
  std::ranges::replace(sample_named_, last, at);
  nodes_[gone.index].sample = kNone;
  if (at != last) {
    sample_[at] = sample_[last];
    nodes_[sample_[at].index].sample = at;
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

/// The submission that ends now, as far as the sample is concerned.
void EvictionPolicy::run_shadows() {
  if (now_ > 0) {
    rate_prior_ = static_cast<float>(counted_) * static_cast<float>(now_) /
                  static_cast<float>(std::max<uint64_t>(uses_, 1));
  }
  if (sample_named_.empty()) return;
  for (uint32_t e = 0; e < kExperts; ++e) run_shadow(static_cast<Expert>(e));
  for (const uint32_t at : sample_named_) sample_[at].known = true;
  const uint64_t before = sample_uses_ / kCompareEvery;
  sample_uses_ += sample_named_.size();
  sample_named_.clear();
  if (sample_uses_ / kCompareEvery != before) choose_expert();
}

void EvictionPolicy::run_shadow(Expert expert) {
  const auto e = static_cast<size_t>(expert);
  const uint32_t bit = 1U << e;
  Shadow& shadow = shadows_[e];
  uint64_t oldest_named = ~uint64_t{0};
  for (const uint32_t at : sample_named_) {
    Sampled& sampled = sample_[at];
    oldest_named = std::min(oldest_named, sampled.stamp);
    if ((sampled.resident & bit) != 0) continue;
    const uint64_t bytes = nodes_[sampled.index].bytes;
    if (sampled.known) costs_[e] += static_cast<double>(bytes);
    sampled.resident |= bit;
    shadow.used_bytes += bytes;
    ++shadow.count;
  }
  // The share of the memory that the share of the allocations has.
  const double room = static_cast<double>(capacity_bytes_) * static_cast<double>(sampled_bytes_) /
                      static_cast<double>(used_bytes_);
  bool ranked = false;
  while (static_cast<double>(shadow.used_bytes) > room) {
    if (shadow.ranking.empty()) {
      if (ranked) break;  // nobody but the named
      rank_shadow(expert);
      ranked = shadow.ranking.empty();
      continue;
    }
    const Ranked victim = shadow.ranking.back();
    shadow.ranking.pop_back();
    Sampled& sampled = sample_[victim.index];
    if (sampled.stamp != victim.stamp || (sampled.resident & bit) == 0) continue;
    if (sampled.stamp >= oldest_named) continue;
    sampled.resident &= ~bit;
    shadow.used_bytes -= nodes_[sampled.index].bytes;
    --shadow.count;
  }
}

void EvictionPolicy::rank_shadow(Expert expert) {
  const auto e = static_cast<size_t>(expert);
  Ranking& ranking = shadows_[e].ranking;
  ranking.clear();
  uint64_t oldest_named = ~uint64_t{0};
  for (const uint32_t at : sample_named_) {
    oldest_named = std::min(oldest_named, sample_[at].stamp);
  }
  for (uint32_t at = 0; at < sample_.size(); ++at) {
    const Sampled& sampled = sample_[at];
    if ((sampled.resident >> e & 1) == 0 || sampled.stamp >= oldest_named) continue;
    ranking.push_back(
        {.index = at, .value = value(expert, nodes_[sampled.index]), .stamp = sampled.stamp});
  }
  const size_t wanted = std::max<size_t>(4, ranking.size() / kRankedShare);
  if (ranking.size() > wanted) {
    const auto from = ranking.end() - static_cast<std::ptrdiff_t>(wanted);
    std::nth_element(ranking.begin(), from, ranking.end(), kLeavesLater);
    ranking.erase(ranking.begin(), from);
  }
  std::sort(ranking.begin(), ranking.end(), kLeavesLater);
}

void EvictionPolicy::choose_expert() {
  const auto current = static_cast<size_t>(expert_);
  const auto best =
      static_cast<size_t>(std::min_element(costs_.begin(), costs_.end()) - costs_.begin());
  const double typical = static_cast<double>(sampled_bytes_) /
                         static_cast<double>(std::max<size_t>(sample_.size(), 1));
  if (costs_[best] < kClearlyBetter * costs_[current] &&
      costs_[best] + kClearlyBetterUses * typical < costs_[current]) {
    expert_ = static_cast<Expert>(best);
  }
  const double fade =
      1 - kCompareEvery / (kMemory * static_cast<double>(std::max<size_t>(sample_.size(), 16)));
  for (double& cost : costs_) cost *= std::max(fade, 0.5);
}

}  // namespace dxgkit::vidmm
