// The last words of a process: what it was doing when a signal or an endless loop ended it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/dxgkit/shared.h"
#include "verifier/findings.h"

namespace dxgkit::tool {

/// A problem. Two problems with the same key are the same mistake.
struct Problem {
  std::string key;  // "PATCH-08 in DxgkDdiPatch at SgpuPatch"
  verifier::Finding finding;
  /// Not empty if code other than the driver failed, so that the run says nothing about the driver.
  /// One sentence.
  std::string broken_around_it = {};
};

/// Notes of processes that end. Made before the processes are forked, and shared with them.
class LastWords {
 public:
  LastWords();
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;
  /// In the child. From here on a note for `index` is left, and the process ends, if a processor
  /// signal or an abort comes that nobody handles, or if `seconds` pass without another call of
  /// this function; 0: however long it takes. Call it before any nt::Kernel is made: the kernel
  /// then handles faults of a driver.
  void listen(uint64_t index, uint32_t seconds) const;
  /// In the child, any thread: keeps the problem beside the note for the index of listen(), as far
  /// as there is room.
  static void keep(const Problem& problem);
  /// In the child, any thread: ends the process, because a device left the machine by itself, so
  /// that the run says nothing about the driver. `why` is one sentence, which the parent tells;
  /// without a parent that listens this call prints it.
  [[noreturn]] static void end_without_device(const std::string& why);
  /// In the parent: what was kept for that index, in order.
  std::vector<Problem> kept(uint64_t index) const;
  /// In the parent: turns the note into a problem (NT-01, NT-20; NT-37 if a check of ours failed).
  /// `what` begins its text and ran in
  /// the process: "A run", "Step reset". `how` says how the process ended ("it ended by signal 9")
  /// if it left no note but the name of the last call. The place of the finding is the driver's
  /// code that ran last, if it is known.
  Problem of(uint64_t index, std::string_view what, std::string_view how) const;

  struct Board;

 private:
  Shared<Board> board_;
};

}  // namespace dxgkit::tool
