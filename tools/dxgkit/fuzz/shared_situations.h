// The situations that the runs of `dxgkit fuzz` reach, whatever process they are in.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <new>

#include "base/check.h"
#include "verifier/situations.h"

namespace dxgkit::tool::fuzz {

/// Made before the processes are forked, and shared with them: what a run had reached is known even
/// if its process ended.
class SharedSituations {
 public:
  SharedSituations() {
    void* const shared = mmap(nullptr, sizeof(verifier::SituationLog), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DXGKIT_CHECK(shared != MAP_FAILED);
    log_ = new (shared) verifier::SituationLog;
  }
  ~SharedSituations() { munmap(log_, sizeof(verifier::SituationLog)); }
  SharedSituations(const SharedSituations&) = delete;
  SharedSituations& operator=(const SharedSituations&) = delete;

  verifier::SituationLog& log() { return *log_; }

 private:
  // It is all atomic numbers, which processes can share if they are free of locks.
  static_assert(std::atomic<uint64_t>::is_always_lock_free &&
                std::atomic<bool>::is_always_lock_free);
  verifier::SituationLog* log_;
};

}  // namespace dxgkit::tool::fuzz
