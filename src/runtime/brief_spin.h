// The short time for which a thread looks for an answer before it sleeps.
#pragma once

#include <atomic>
#include <cstdint>

namespace dxgkit::runtime {

/// Looks at `word` for as long as waking a sleeping thread would take, and returns as soon as it
/// holds another value than `value`. False: it still holds it. Another process may write to the
/// word. Any thread, also one of no runtime; no system call in the first microseconds, and then
/// other threads get the processor in between. With one processor it does not look at all.
bool spin_briefly(const std::atomic<uint32_t>& word, uint32_t value);

}  // namespace dxgkit::runtime
