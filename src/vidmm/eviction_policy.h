// The eviction order, which adapts to past uses. Private to the module (and the tool's bench).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/slab.h"
#include "vidmm/reuse_model.h"

namespace dxgkit::vidmm {

/// Orders the victims of a memory manager: lower priority first, and within one priority by the
/// expert that would have paged in the fewest bytes so far.
///
/// The experts are: least recently used, and lowest value by ReuseModel. Both are simulated on a
/// sample of the allocations with the same share of the memory. The policy begins as least recently
/// used, and follows the other expert only while its simulation is clearly better.
///
/// Lane: the adapter's. Deterministic: the same calls give the same answers. The caller names
/// allocations by indices of its choice. They should be small, because they index tables. A group
/// is a set of allocations that compete for the same room: a segment.
class EvictionPolicy {
 public:
  using Index = uint32_t;
  static constexpr Index kNone = ~Index{0};
  enum class Expert : uint8_t { kRecency, kModel };
  static constexpr uint32_t kExperts = 2;

  /// @param capacity_bytes  the room that `counted` allocations compete for.
  /// @param groups  groups are numbered below this.
  EvictionPolicy(uint64_t capacity_bytes, uint32_t groups);
  ~EvictionPolicy();
  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;

  /// A new allocation: in no group, never used. The index is not in use. Amortised O(1).
  void add(Index index, uint64_t bytes, uint64_t priority);
  /// Removes an allocation in any state. O(1).
  void remove(Index index);
  /// RES-22. Sets a priority. Within that priority the allocation is placed by its last use (exact
  /// among the oldest and youngest few hundred only). O(log priorities).
  void set_priority(Index index, uint64_t priority);

  /// True once the used allocations were larger than the capacity: from then on each use counts,
  /// not only the last.
  bool learning() const { return used_bytes_ > capacity_bytes_; }
  /// Time moves on by one submission. O(1) amortised.
  void begin_submission();
  /// The current submission names the allocation, which becomes the most recently used of its
  /// group.
  /// @param counted  it competes for the capacity (not so in an aperture).
  /// O(1) amortised, allocates nothing. Cheapest while everything fits: then only stamps record the
  /// order of uses, to within a few submissions. The next query sorts them.
  void use(Index index, bool counted = true);

  /// Puts the allocation into this group as the most recently used. O(1).
  void enter(Index index, uint32_t group);
  /// Takes the allocation out of its group. No effect if it is in none. O(1).
  void leave(Index index);
  /// Undoes leave() for many: each allocation is in its former group again, at the place that its
  /// last use gives it. Reorders `list`. O(list * log(list)), and a step for every member used
  /// before the youngest of them.
  struct Left {
    Index index = kNone;
    uint32_t group = kNone;
  };
  void restore(std::span<Left> list);
  bool is_in_group(Index index) const { return homes_[index] != 0; }

  /// Begins to name the members of a group in eviction order. The policy must not change otherwise
  /// until the choice is done. The caller skips members that cannot be evicted.
  void begin_choice(uint32_t group);
  /// The next member, each once; kNone: no more. Amortised O(1) for the first sixteenth of a group,
  /// O(log n) for the rest.
  Index next();

  Expert expert() const { return expert_; }
  /// The number of priorities that are kept for a group, with members or not.
  size_t classes(uint32_t group) const { return groups_[group].size(); }
  /// The bytes that each expert paged in on the sample, fading: for statistics.
  double sampled_bytes(Expert expert) const { return costs_[static_cast<size_t>(expert)]; }

 private:
  static constexpr uint32_t kSampleMost = 1024;
  static constexpr uint16_t kNotInSample = 0xFFFF;
  static constexpr uint32_t kProbes = 8;

  struct Ranked {
    Index index;
    float value;
  };
  /// Some members of a set, by value. The last one is evicted first.
  using Ranking = std::vector<Ranked>;
  /// The members of one group that have one priority.
  struct Class {
    uint32_t group = 0;
    uint64_t priority = 0;
    Index oldest = kNone, youngest = kNone;  // a list by last use
    uint32_t count = 0;
    bool unordered = false;  // the list is not by last use: put_in_order()
    Ranking ranking;         // by the model
    uint64_t ranked_at = 0;  // a member used later than this is not where the ranking has it
    // Made in the middle of a choice: members that the choice had named are missing.
    bool partial = false;
  };
  struct Links {
    Index previous = kNone, following = kNone;
  };
  struct Node {
    uint64_t bytes = 0;
    uint64_t stamp = 0;  // order of uses
    uint64_t priority = 0;
    uint32_t named = 0;              // the number of the last choice that named it
    uint16_t sample = kNotInSample;  // its place in the sample
    bool counted = false;            // it was used where it competes for the capacity
  };
  struct Sampled {
    Index index = kNone;
    Links links;         // list by last use of the allocations that the first expert has in memory
    uint64_t stamp = 0;  // of the last use in the simulations
    uint8_t resident = 0;  // bit per expert
    bool known = false;    // it was used before
  };

  uint32_t class_of(uint32_t group, uint64_t priority);
  Class& home_of(Index index) { return classes_[homes_[index]]; }
  UseHistory& history_of(Index index);
  void link_youngest(Index index);
  void link_after(Index index, Index before);
  void unlink(Index index);
  void put_in_order(uint32_t number);
  float value(Index index);

  void begin_class();
  void rank(Class& members, uint32_t wanted);
  bool may_name(Index index) const;
  Index next_of(Class& members);
  void fetch(const Ranking& ranking, size_t position) const;

  bool in_sample(Index index) const;
  void sample(Index index);
  void drop_sample(uint32_t at);
  void thin_sample();
  void run_shadows();
  void page_in(Expert expert);
  void link_sample(uint32_t at);
  void unlink_sample(uint32_t at);
  void shrink_recency(uint64_t room);
  void shrink_model(uint64_t room);
  void rank_sample();
  void choose_expert();

  uint64_t capacity_bytes_;
  // Indexed by allocation. Separate arrays, because a choice reads all of some arrays, and a use
  // touches few elements of each.
  std::vector<Node> nodes_;
  std::vector<Links> links_;     // in its class, by stamp
  std::vector<uint32_t> homes_;  // number of its class, 0: none
  std::vector<Outlook> outlooks_;
  std::vector<uint32_t> history_at_;  // in `histories_`; 0: never used
  // Histories of used allocations. The first one belongs to no allocation.
  std::vector<UseHistory> histories_;
  std::vector<uint32_t> free_histories_;
  using Classes = std::map<uint64_t, uint32_t>;  // by priority: numbers of classes
  std::vector<Classes> groups_;
  Slab<Class> classes_;  // the first one belongs to no priority
  std::vector<uint32_t> free_classes_;
  uint32_t classes_made_ = 1;
  ReuseModel model_;
  uint64_t now_ = 0;  // submissions
  // Lists are kept in order with each use until then, because of a recent query.
  uint64_t eager_until_ = 0;
  uint64_t clock_ = 0;       // of stamps
  uint64_t used_bytes_ = 0;  // of all allocations that were ever used and counted
  Index hand_ = 0;           // the next allocation to check for staying unused
  Expert expert_ = Expert::kRecency;

  // A choice.
  const Classes* choice_ = nullptr;
  Classes::const_iterator choice_class_;
  uint32_t choice_number_ = 0;
  bool choice_named_ = false;             // the choice has named a member of this class
  Index cursor_ = kNone;                  // by recency: the next one
  size_t position_ = 0;                   // in the ranking: entries below it are still to come
  uint32_t rank_next_ = 0;                // how many to rank when the ranking is used up
  std::array<Ranked, kProbes> probes_{};  // the youngest members, which are in no ranking yet
  uint32_t probe_count_ = 0;

  // The sample.
  std::vector<Sampled> sample_;
  uint64_t sampled_bytes_ = 0;
  uint64_t sample_below_ = ~uint64_t{0};  // allocations with hashes up to this are in the sample
  std::vector<uint32_t> sample_named_;    // by the current submission
  uint64_t sample_named_from_ = 0;        // the stamps of that submission begin here
  std::array<uint64_t, kExperts> shadow_bytes_{};
  uint32_t sample_oldest_ = kNone, sample_youngest_ = kNone;
  Ranking sample_ranking_;
  uint64_t sample_ranked_at_ = 0;
  std::array<double, kExperts> costs_{};
  uint64_t sample_uses_ = 0;
};

}  // namespace dxgkit::vidmm
