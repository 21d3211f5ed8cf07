// What a driver called last on a thread, for the text of a start that fails.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nt/door.h"
#include "runtime/runtime.h"

namespace dxgkit::bus {
class PciFunction;
}

namespace dxgkit::nt {

class Kernel;

/// The calls that a driver's image makes in one of its entries, with what they answered, and its
/// debug output. The last few of each are kept.
///
/// A log belongs to the thread that made it, and it takes no lock and is no scheduling point. On
/// threads without one a call costs one instruction more. A log that is made while the thread has
/// one already adds to that one.
class CallLog {
 public:
  explicit CallLog(const Kernel& kernel);
  ~CallLog();
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;

  /// The calling thread's; null if it has none, and outside a runtime.
  static CallLog* current() {
    void** const slots = runtime::detail::t_thread_slots;
    return slots == nullptr ? nullptr : of(slots);
  }
  static CallLog* of(void** slots) {
    return static_cast<CallLog*>(slots[static_cast<size_t>(runtime::ThreadSlot::kCallLog)]);
  }

  /// A driver is loaded, or an adapter starts on `function`, which must live as long as lines() is
  /// asked for. Forgets what was kept.
  static void begin_start(const bus::PciFunction* function);
  /// The start has failed: what follows is not kept.
  static void end_start();
  /// Why the driver's call that is being served is refused: a clause.
  static void note(std::string why);
  /// The kept calls of this thread as texts for people, a line each: the entry and how many calls
  /// it made; each call; what the device offers. Empty without a log, and for a driver that is no
  /// image, whose calls nobody sees.
  static std::vector<std::string> lines_of_this_thread();
  // The rest is of a log that is its thread's.
  std::vector<std::string> lines() const;
  /// lines_of_this_thread() has given all that there is: a finding has it.
  bool told() const;

  // For CallFrame and the doors.
  /// The entry is called: the calls of the entry before it are forgotten. `entry` is a literal.
  void begin(const char* entry);
  /// Returns the number of the call, from 1.
  uint64_t enter(const DoorTarget& target, const DoorFrame& door);
  void answered(uint64_t call, uint64_t answer);
  /// Debug output.
  void printed(std::string_view text);

 private:
  struct Kept;
  const std::unique_ptr<Kept> kept_;  // null: the thread had a log already
};

/// Fills the members of a target that the log reads.
void prepare_for_log(DoorTarget* target);

}  // namespace dxgkit::nt
