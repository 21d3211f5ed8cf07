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

#define DXGKIT_CHECK(condition)                        \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::dxgkit::check_failed(#condition, __FILE__, __LINE__))
