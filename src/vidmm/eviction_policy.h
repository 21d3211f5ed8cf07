// Who leaves next, learned from the stream of uses. Private to the module (and the tool's bench).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "vidmm/reuse_model.h"

namespace dxgkit::vidmm {

/// Orders the victims of a memory manager: lower priority first, and within one priority by the
/// expert that would have paged in the fewest bytes so far.
///
/// Experts: least recently used; lowest rate of use; lowest value by ReuseModel. Each is simulated
/// on a sample of the allocations with the same share of the memory. The policy begins as least
/// recently used and follows another only while its simulation is clearly better.
///
/// Lane: the adapter's. Deterministic: the same calls give the same answers. Allocations are named
/// by indices the policy gives out. A group is a set of allocations that compete for the same room:
/// a segment.
class EvictionPolicy {
 public:
  using Index = uint32_t;
  static constexpr Index kNone = ~Index{0};
  enum class Expert : uint8_t { kRecency, kRate, kModel };
  static constexpr uint32_t kExperts = 3;

  /// @param capacity_bytes  what the allocations that are `counted` compete for.
  /// @param groups          groups are numbered below this.
  EvictionPolicy(uint64_t capacity_bytes, uint32_t groups);
  ~EvictionPolicy();
  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;

  /// An allocation exists: in no group, never used. `owner` is the caller's name for it. Amortised
  /// O(1).
  Index add(uint64_t bytes, uint64_t priority, uint32_t owner = 0);
  uint32_t owner(Index index) const { return nodes_[index].owner; }
  /// It is no more. In any state. O(1).
  void remove(Index index);
  /// RES-22. O(log priorities).
  void set_priority(Index index, uint64_t priority);

  /// Time goes on by one submission. O(1) amortised.
  void begin_submission();
  /// The current submission names it. It becomes the most recently used of its group.
  /// @param counted  it competes for the capacity (not so in an aperture).
  /// O(1) amortised, allocates nothing.
  void use(Index index, bool counted = true);

  /// It is in this group now, as the most recently used. O(1).
  void enter(Index index, uint32_t group);
  /// It is in no group. No effect if it is in none. O(1).
  void leave(Index index);
  /// Takes back leave() for many: each is in its group (where it was) again, at the place its last
  /// use gives it. Reorders `list`. O(list * log(list)), and a step for every member used before
  /// the youngest of them.
  struct Left {
    Index index = kNone;
    uint32_t group = kNone;
  };
  void restore(std::span<Left> list);
  bool is_in_group(Index index) const { return nodes_[index].group != kNone; }

  /// Begins to name the members of a group, who should leave first first. Until it is done the
  /// policy must not change otherwise. The caller skips those that may not leave.
  void begin_choice(uint32_t group);
  /// The next one, each once; kNone: no more. Amortised O(1) for the first sixteenth of a group,
  /// O(log n) for the rest.
  Index next();

  Expert expert() const { return expert_; }
  /// Priorities that are remembered for a group, with members or not.
  size_t classes(uint32_t group) const { return groups_[group].size(); }
  /// Bytes each expert paged in on the sample, fading: for statistics.
  double sampled_bytes(Expert expert) const { return costs_[static_cast<size_t>(expert)]; }

 private:
  static constexpr uint32_t kSampleMost = 512;
  static constexpr uint32_t kProbes = 8;

  struct Ranked {
    Index index;
    float value;
    uint64_t stamp;  // when ranked: another one now, and the entry is stale
  };
  /// Who leaves next by one expert, some of them, best last.
  using Ranking = std::vector<Ranked>;
  /// The members of one group that have one priority.
  struct Class {
    Index oldest = kNone, youngest = kNone;  // a list by last use
    uint32_t count = 0;
    Ranking ranking;  // some of them by the expert that is followed
    Expert ranked_by = Expert::kRecency;
    bool partial = false;  // made in the middle of a choice: whom that had named already is missing
  };
  struct Node {
    UseHistory history;
    uint64_t bytes = 0;
    uint64_t stamp = 0;  // order of uses
    Class* home = nullptr;
    Index previous = kNone, following = kNone;  // in its class, by stamp
    uint64_t priority = 0;
    uint32_t group = kNone;
    uint32_t owner = 0;
    uint32_t named = 0;       // number of the last choice that named it
    uint32_t sample = kNone;  // its place in the sample
    bool counted = false;     // was used where it competes for the capacity
  };
  struct Sampled {
    Index index = kNone;
    uint64_t stamp = 0;     // of its last use in the simulations
    uint32_t resident = 0;  // bit per expert
    bool known = false;     // used before
  };
  struct Shadow {
    Ranking ranking;
    uint64_t used_bytes = 0;
    uint32_t count = 0;
  };

  float value(Expert expert, const Node& node) const;  // lower leaves first
  void link(Index index);
  void unlink(Index index);

  void begin_class();
  void rank(Class& members, uint32_t wanted);
  bool may_name(const Ranked& ranked) const;
  Index next_of(Class& members);

  bool in_sample(Index index) const;
  void sample(Index index);
  void drop_sample(uint32_t at);
  void thin_sample();
  void run_shadows();
  void run_shadow(Expert expert);
  void rank_shadow(Expert expert);
  void choose_expert();

  uint64_t capacity_bytes_;
  float rate_prior_ = 1;  // submissions between two uses of an average allocation
  std::vector<Node> nodes_;
  std::vector<Index> free_;
  std::vector<std::map<uint64_t, Class>> groups_;  // by priority
  ReuseModel model_;
  uint64_t now_ = 0;         // submissions
  uint64_t clock_ = 0;       // of stamps
  uint64_t uses_ = 0;        // at most one per allocation and submission
  uint64_t used_bytes_ = 0;  // of all that were ever used and counted
  uint64_t counted_ = 0;     // how many those are
  Index hand_ = 0;           // who is looked at next for still being unused
  Expert expert_ = Expert::kRecency;

  // A choice.
  std::map<uint64_t, Class>* choice_ = nullptr;
  std::map<uint64_t, Class>::iterator choice_class_;
  uint32_t choice_number_ = 0;
  Index cursor_ = kNone;                  // by recency: the next one
  size_t position_ = 0;                   // in the ranking: entries below it are to come
  uint32_t rank_next_ = 0;                // how many to rank when it is used up
  std::array<Ranked, kProbes> probes_{};  // the youngest, who are in no ranking yet; best last
  uint32_t probe_count_ = 0;

  // The sample.
  std::vector<Sampled> sample_;
  uint64_t sampled_bytes_ = 0;
  uint64_t sample_below_ = ~uint64_t{0};  // hashes up to this are in
  std::vector<uint32_t> sample_named_;    // by the current submission
  std::array<Shadow, kExperts> shadows_;
  std::array<double, kExperts> costs_{};
  uint64_t sample_uses_ = 0;
};

}  // namespace dxgkit::vidmm
