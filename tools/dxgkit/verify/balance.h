// What a driver keeps of objects that were destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dxgkit::tool::verify {

class Bench;

/// Watches rounds in which the same objects are made and destroyed. A driver may keep memory of
/// one round for the next. Memory of the same routine that is left of every round is a leak
/// (LIFE-20), which would else show when the driver is unloaded, without saying what it was for.
class Balance {
 public:
  /// The first round begins.
  explicit Balance(Bench& bench);
  /// All that the round made is destroyed. The next begins.
  void end_round();
  /// True if the driver still has memory that it took in the round that ended last.
  bool left_something() const;
  /// Reports what is left of every round, once per routine and run. `what` is what each round
  /// made. Less than two rounds show nothing.
  void report(const std::string& what);

 private:
  Bench& bench_;
  std::vector<uint64_t> marks_;
};

}  // namespace dxgkit::tool::verify
