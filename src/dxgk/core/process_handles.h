// Handles by which processes name each other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "base/status.h"

namespace dxgkit::dxgk {

class Process;

/// Access rights of a process handle, with the values of Windows.
namespace process_access {
inline constexpr uint32_t kSetInformation = 0x0200;    // PROCESS_SET_INFORMATION
inline constexpr uint32_t kQueryInformation = 0x0400;  // PROCESS_QUERY_INFORMATION
}  // namespace process_access

/// The open handles of all processes. No number is given twice. A handle keeps the memory of the
/// process that it names, not the process: that may end meanwhile. Not thread-safe: whoever has one
/// guards it.
class ProcessHandles {
 public:
  /// A new handle of `holder`, above 0.
  uint64_t open(const Process& holder, std::shared_ptr<Process> target, uint32_t access);
  /// False: it is no handle of `holder`.
  bool close(const Process& holder, uint64_t handle);
  /// The holder ends, and its handles with it.
  void close_all(const Process& holder);
  /// The process that the handle names. kInvalidHandle: it is no handle of `holder`.
  /// kAccessDenied: it was opened without all the rights in `access`.
  Result<std::shared_ptr<Process>> find(const Process& holder, uint64_t handle,
                                        uint32_t access) const;

 private:
  struct Entry {
    uint32_t holder = 0;  // Process::number
    std::shared_ptr<Process> target;
    uint32_t access = 0;
  };
  std::map<uint64_t, Entry> entries_;
  uint64_t opened_ = 0;
};

}  // namespace dxgkit::dxgk
