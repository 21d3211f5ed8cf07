// Submission to contexts with virtual addressing: the client's buffer goes to the driver as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/memory/allocation.h"

namespace dxgkit::dxgk {

class Context;

/// D3DKMTSubmitCommand for one context.
struct VirtualSubmission {
  uint64_t commands = 0;  // in the address space of the process; not looked at (SUB-31)
  uint32_t bytes = 0;
  std::span<const std::byte> private_data;  // captured; at most the context's (SUB-33)
  bool null_rendering = false;
  std::span<const Ref<OpenedAllocation>> written_primaries;
};

/// What one context is submitted. Caller's thread.
class VirtualSubmissions {
 public:
  explicit VirtualSubmissions(Context& context) : context_(context) {}

  /// Checks what submit would refuse; nothing changes. kInvalidParameter: not a context with
  /// virtual addressing, or more private data than it takes (SUB-33); kDeviceRemoved.
  Status check(const VirtualSubmission& submission) const;
  /// Queued as it is. kDeviceRemoved: nothing queued; also when a written primary is not resident,
  /// which puts the device in error (RES-26).
  Status submit(const VirtualSubmission& submission);

 private:
  Context& context_;
};

}  // namespace dxgkit::dxgk
