// Notes for the report of a simulation that cannot go on.
#pragma once

#include <functional>
#include <string>

namespace dxgkit::runtime {

/// While a note lives, `text` explains a deadlock. The simulation calls it when every thread waits,
/// or when its time is over. The answer follows the list of threads on stderr. `text` runs on one
/// thread with all others stopped. It must take no lock and must not wait. It may answer nothing.
/// Outside a simulation it is never called.
class DeadlockNote {
 public:
  explicit DeadlockNote(std::function<std::string()> text);
  ~DeadlockNote();
  DeadlockNote(const DeadlockNote&) = delete;
  DeadlockNote& operator=(const DeadlockNote&) = delete;

  /// The answers of all notes of the calling OS thread, in the order in which they were made.
  static std::string all();

 private:
  const std::function<std::string()> text_;
  bool listed_ = false;
  DeadlockNote* next_ = nullptr;
};

}  // namespace dxgkit::runtime
