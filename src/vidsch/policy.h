// How the scheduler shares engines: its figures, and the order of priorities.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace dxgkit::vidsch {

/// The priority class of a process (SCHED-12), lowest first. The values are those of the client
/// interface.
enum class PriorityClass : uint8_t {
  kIdle,  // runs when no other class has work: no share is kept for it
  kBelowNormal,
  kNormal,
  kAboveNormal,
  kHigh,
  kRealtime,
};

inline constexpr int32_t kPriorityMost = 7;  // of a context: -7..+7 (SCHED-11)

/// The figures behind decisions. All times are nanoseconds of the caller's clock. Every default is
/// our choice; SCHED-10 and SCHED-15 say so.
struct SchedulingPolicy {
  /// How long a context keeps its engine while an equal waits (SCHED-10). > 0.
  int64_t quantum_ns = 20'000'000;
  /// The extra time of a running packet before a used-up quantum preempts it, so that a packet near
  /// its end can finish. Also the shortest quantum when many share. > 0.
  int64_t grace_ns = 1'000'000;
  /// No round of all equals takes longer than this, if quanta of at least `grace_ns` allow it. With
  /// more than round / quantum contexts each gets a shorter quantum, so that each context's turn
  /// comes soon enough. > 0.
  int64_t round_ns = 320'000'000;
  /// The time charged for a packet that took less. It bounds how many packets a context may run in
  /// a turn while time stands still. > 0.
  int64_t least_charge_ns = 10'000;
  /// A context repays a packet longer than a quantum by passing over turns, at most so many.
  uint32_t debt_quanta = 8;
  /// The percentage of a node's time that priorities below the highest get when they want it; the
  /// idle class gets none (SCHED-15). 0..99.
  uint32_t starvation_percent = 10;
  /// The number of packets kept prepared per node at or above a priority, beyond the hardware
  /// queue's depth. >= 1.
  uint32_t look_ahead = 1;
  /// Hardware may start a preempted packet from its beginning. After this many lost quanta each
  /// further run gets twice the time, so that the packet ends.
  uint32_t patient_preemptions = 8;
  /// In-process priority goes first so many times in a row; then the rest of the process goes once.
  uint32_t ahead_in_a_row = 9;

  bool valid() const {
    return quantum_ns > 0 && grace_ns > 0 && round_ns > 0 && least_charge_ns > 0 &&
           look_ahead >= 1 && starvation_percent < 100;
  }
};

// Levels: fifteen for each class, the classes one above the other, the paging context on top. A
// higher class goes before a lower one whatever the priorities of the contexts, because a privilege
// guards the class.
inline constexpr size_t kLevelsPerClass = 15;
inline constexpr size_t kSystemLevel = 6 * kLevelsPerClass;
inline constexpr size_t kLevels = kSystemLevel + 1;
/// Levels from here on have a kept share (SCHED-15).
inline constexpr size_t kFirstServedLevel = kLevelsPerClass;

inline constexpr size_t level_of(PriorityClass priority_class, int32_t priority) {
  return static_cast<size_t>(priority_class) * kLevelsPerClass +
         static_cast<size_t>(priority + kPriorityMost);
}

/// A set of levels; the highest is found in constant time.
class LevelSet {
 public:
  void set(size_t level, bool member) {
    const uint64_t bit = uint64_t{1} << (level % 64);
    words_[level / 64] = member ? words_[level / 64] | bit : words_[level / 64] & ~bit;
  }
  bool contains(size_t level) const { return (words_[level / 64] >> (level % 64) & 1) != 0; }
  /// The highest member below `level`; kLevels if there is none.
  size_t below(size_t level) const {
    if (level > 64) {
      const uint64_t word = words_[1] & ~(~uint64_t{0} << (level - 64));
      if (word != 0) return 64 + static_cast<size_t>(std::bit_width(word)) - 1;
      level = 64;
    }
    const uint64_t word = level == 64 ? words_[0] : words_[0] & ~(~uint64_t{0} << level);
    return word == 0 ? kLevels : static_cast<size_t>(std::bit_width(word)) - 1;
  }
  size_t highest() const { return below(kLevels); }
  LevelSet operator|(const LevelSet& other) const {
    LevelSet both;
    for (size_t i = 0; i < words_.size(); ++i) both.words_[i] = words_[i] | other.words_[i];
    return both;
  }

 private:
  std::array<uint64_t, 2> words_{};
};
static_assert(kLevels <= 128);

}  // namespace dxgkit::vidsch
