// The process behind an hProcess argument.
#pragma once

#include <d3dkmthk.h>

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "dxgk/core/process.h"
#include "dxgk/core/process_handles.h"

namespace dxgkit::thunks {

/// What a HANDLE of a process names: the caller, for the result of GetCurrentProcess, or the
/// process of a handle that the host has opened for the caller (open_process of client.h). While
/// this lives, the process does not end.
class ProcessArgument {
 public:
  /// @param access  the rights that the call needs (dxgk::process_access); the caller has all
  ///                rights on itself.
  ProcessArgument(dxgk::Process& caller, HANDLE handle, uint32_t access);
  ~ProcessArgument();
  ProcessArgument(const ProcessArgument&) = delete;
  ProcessArgument& operator=(const ProcessArgument&) = delete;

  /// kInvalidHandle: the caller has no such handle. kAccessDenied: the handle lacks a right.
  /// kProcessIsTerminating: the process has ended, or begun to.
  Status status() const { return status_; }
  /// Only with kSuccess.
  dxgk::Process& process() const { return *process_; }

 private:
  std::shared_ptr<dxgk::Process> process_;
  Status status_ = Status::kSuccess;
  bool inside_ = false;
};

}  // namespace dxgkit::thunks
