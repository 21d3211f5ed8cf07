// What the command and its client programs share: the picture, what becomes of it, and notes.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "base/arithmetic.h"
#include "tools/dxgkit/plan.h"
#include "tools/dxgkit/process_job.h"

namespace dxgkit::tool {

/// Descriptors of a client program.
inline constexpr int kJobMemory = 3;  // JobMemory's memory object
inline constexpr int kJobNotes = 4;   // a pipe to the command

/// A client's notes are single characters: a digit when a stage has ended, and these. What follows
/// kNoteError is a sentence.
inline constexpr char kNoteStep = 's', kNoteDone = 'd', kNoteError = 'e';

/// Source picture, result and checksums, one behind the other. Both sides compute the places from
/// the plan; the memory has no sizes in it that could be wrong.
class JobMemory {
 public:
  static uint64_t bytes_of(const Plan& plan) { return checksums_at(plan) + checksum_bytes(plan); }

  /// Maps the memory object; `is_there` says whether the system did.
  JobMemory(const Plan& plan, int descriptor)
      : plan_(plan),
        base_(mmap(nullptr, bytes_of(plan), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)) {}
  ~JobMemory() {
    if (is_there()) munmap(base_, bytes_of(plan_));
  }
  JobMemory(const JobMemory&) = delete;
  JobMemory& operator=(const JobMemory&) = delete;

  bool is_there() const { return base_ != MAP_FAILED; }
  uint8_t* source() const { return static_cast<uint8_t*>(base_); }
  uint8_t* result() const { return source() + source_bytes(plan_); }
  uint64_t* checksums() const {
    return reinterpret_cast<uint64_t*>(source() + checksums_at(plan_));
  }

 private:
  static uint64_t source_bytes(const Plan& plan) {
    return align_up(uint64_t{plan.width} * plan.height * kPixelBytes, kPageBytes);
  }
  static uint64_t checksums_at(const Plan& plan) {
    return source_bytes(plan) +
           align_up(uint64_t{result_width(plan)} * result_height(plan) * kPixelBytes, kPageBytes);
  }
  static uint64_t checksum_bytes(const Plan& plan) {
    return align_up(plan.tiles.size() * sizeof(uint64_t), kPageBytes);
  }
  const Plan& plan_;
  void* base_;
};

}  // namespace dxgkit::tool
