// How a run of `dxgkit fuzz` in a child process gets back to its parent: as bytes if it ends, as a
// note if a signal or an endless loop ends its process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/dxgkit/fuzz/fuzz_run.h"

namespace dxgkit::tool::fuzz {

/// Notes of processes that end. Made before they are forked; shared with them.
class LastWords {
 public:
  LastWords();
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;
  /// In the child: from here on a signal of the processor's, an abort, or `seconds` without another
  /// call of this leave a note for `index` and end the process. Call it before any nt::Kernel is
  /// made: faults of a driver stay with that.
  void listen(uint64_t index, uint32_t seconds);
  /// In the parent: the note, as a problem. `how` is what is known without one.
  Problem of(uint64_t index, std::string_view how) const;

  struct Board;

 private:
  Board* board_;
};

/// Bytes for a pipe, at most `most`; problems that do not fit keep their key, or are left out.
std::string pack(const FuzzOutcome& outcome, size_t most);
/// What `pack` made; of other bytes anything.
FuzzOutcome unpack(std::string_view bytes);

}  // namespace dxgkit::tool::fuzz
