// The way of a result of `dxgkit fuzz` from a child process to its parent: bytes if the run ends, a
// note if a signal or an endless loop ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/dxgkit/fuzz/fuzz_run.h"

namespace dxgkit::tool::fuzz {

/// Notes of processes that end. Made before the processes are forked, and shared with them.
class LastWords {
 public:
  LastWords();
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;
  /// In the child. From here on a note for `index` is left, and the process ends, if a processor
  /// signal or an abort comes, or if `seconds` pass without another call of this function. Call it
  /// before any nt::Kernel is made: the kernel then handles faults of a driver.
  void listen(uint64_t index, uint32_t seconds);
  /// In the parent: turns the note into a problem. `how` is the description without a note.
  Problem of(uint64_t index, std::string_view how) const;

  struct Board;

 private:
  Board* board_;
};

/// Bytes for a pipe, at most `most`. A problem that does not fit keeps its key only, or is left
/// out.
std::string pack(const FuzzOutcome& outcome, size_t most);
/// Reads the output of `pack`. Other bytes give any result.
FuzzOutcome unpack(std::string_view bytes);

}  // namespace dxgkit::tool::fuzz
