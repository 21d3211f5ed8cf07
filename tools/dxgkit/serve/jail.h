// The jail of an adapter process: what is left to a process that runs a driver.
//
// One table says which system calls remain, and why. Everything else fails with EPERM. Nothing in
// the table opens a file, a socket or any other new descriptor, starts a process, or reaches
// another one. New descriptors come by messages, from the broker and from clients.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <string>

namespace dxgkit::serve {

/// What a system call of the table may be used for.
enum class Only : uint8_t {
  kAny,
  kOwnThread,   // clone with exactly the flags of a thread
  kAbsent,      // answers ENOSYS, so that the C library takes an older call
  kOwnProcess,  // its first argument is the process itself
  kThreadName,  // prctl(PR_SET_NAME)
  kFlags,       // fcntl: flags, seals and a second number of an open descriptor
  kReading,     // prlimit64 without new limits
};

struct SystemCall {
  const char* name;
  int number;
  Only only;
  const char* why;
};

/// The table. At most 40 entries.
std::span<const SystemCall> system_calls();
/// The table as text: a line for each call.
std::string system_call_table();

struct JailLimits {
  uint64_t data_bytes = 0;   // private memory of the process; 0: no limit
  uint32_t descriptors = 0;  // numbers of descriptors; 0: no limit
  uint64_t file_bytes = 0;   // how long a file may become that the process writes to
};

/// Sets limits that last for the process's life: no core dump, no growing file, no new privileges,
/// no debugger of the same user. Any time before close_jail; the limits of close_jail are not
/// among them.
std::expected<void, std::string> renounce_privileges();

/// From here on this thread, every other thread of the process and every later one can do nothing
/// but what the table says. There is no way back. The error is one sentence; then some limits may
/// stand already, and the process is to end.
std::expected<void, std::string> close_jail(const JailLimits& limits);

}  // namespace dxgkit::serve
