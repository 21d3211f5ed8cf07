// One adapter in a process of its own: kernel, driver and device, in the jail.
#pragma once

#include <cstdint>
#include <string>

namespace dxgkit::serve {

struct AdapterProcessOptions {
  std::string stack;        // the stack file
  size_t device = 0;        // which of its devices
  uint32_t luid = 1;        // of the adapter
  uint64_t data_bytes = 0;  // limit of private memory; 0: none
  // Quotas of one user here; 0: none.
  uint64_t handles_most = 0, user_memory_most = 0, submissions_most = 0;
  uint64_t recording_bytes_most = 0;  // of a file with a client's calls; 0: there is none
  std::string trace;                  // the file for the trace; empty: nothing is traced
  bool tries_the_jail = false;        // for tests: tries what is forbidden, and says what happened
};

/// The process that a broker starts, from its first line to its last. The exit code.
int run_adapter_process(const AdapterProcessOptions& options);

}  // namespace dxgkit::serve
