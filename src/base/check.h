// Always-on assertions: a failed CHECK is a bug of ours, never of a driver or a client.
#pragma once

namespace dxgkit {

/// Prints the message, runs the registered last-words hook (which prints the trace tail), and
/// aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

/// check_failed calls the hook once before the abort. Null removes it. Any thread.
using LastWords = void (*)();
void set_last_words(LastWords hook);

}  // namespace dxgkit

#if defined(DXGKIT_UNCHECKED)
// Nothing looks at the answer: what has no other effect goes. Only to measure what the checks cost
// (scripts/check_cost).
#define DXGKIT_CHECK(condition) static_cast<void>(condition)
#else
#define DXGKIT_CHECK(condition)                        \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::dxgkit::check_failed(#condition, __FILE__, __LINE__))
#endif
