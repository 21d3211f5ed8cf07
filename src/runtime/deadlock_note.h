// What is said when a simulation cannot go on.
#pragma once

#include <functional>
#include <string>

namespace dxgkit::runtime {

/// While it lives, `text` is asked when the simulation has found that every thread waits (or its
/// time is over), and its answer follows the list of threads on stderr: why they wait. `text` runs
/// on one thread with all others standing still, takes no lock and waits for nothing; it may answer
/// nothing. Outside a simulation nothing ever asks.
class DeadlockNote {
 public:
  explicit DeadlockNote(std::function<std::string()> text);
  ~DeadlockNote();
  DeadlockNote(const DeadlockNote&) = delete;
  DeadlockNote& operator=(const DeadlockNote&) = delete;

  /// All answers of the calling OS thread's notes, in the order they were made.
  static std::string all();

 private:
  const std::function<std::string()> text_;
  bool listed_ = false;
  DeadlockNote* next_ = nullptr;
};

}  // namespace dxgkit::runtime
