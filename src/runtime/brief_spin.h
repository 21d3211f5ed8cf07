// The short time for which a thread looks for an answer before it sleeps.
#pragma once

#include <atomic>
#include <cstdint>

namespace dxgkit::runtime {

/// Looks at `word` for as long as waking a sleeping thread would take, and returns as soon as it
/// holds another value than `value`. False: it still holds it. Another process may write to the
/// word. Any thread, also one of no runtime. No system call in the first microseconds, unless other
/// threads have wanted the processor lately: they get it in between. It does not wait at all with
/// one processor, and for many calls after a yield has let another thread run for a whole time
/// slice.
bool spin_briefly(const std::atomic<uint32_t>& word, uint32_t value);

}  // namespace dxgkit::runtime
