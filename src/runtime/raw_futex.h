// The system's own wait and wake, for comparison in benchmarks. All other code waits with
// Runtime::wait.
#pragma once

#include <atomic>
#include <cstdint>

namespace dxgkit::runtime {

/// Parks the thread while `word` holds `expected`; may return early. No spinning.
void raw_wait(const std::atomic<uint32_t>& word, uint32_t expected);
/// Wakes one thread that is parked on `word`, if there is one: one system call.
void raw_wake(const std::atomic<uint32_t>& word);

}  // namespace dxgkit::runtime
