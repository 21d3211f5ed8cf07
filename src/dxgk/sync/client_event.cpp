#include "dxgk/sync/client_event.h"

#include <fcntl.h>

#include <cerrno>

namespace dxgkit::dxgk {

Result<int> keep_event(int descriptor) {
  const int ours = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (ours >= 0) return ours;
  return Error(errno == EBADF ? Status::kInvalidHandle : Status::kNoMemory);
}

}  // namespace dxgkit::dxgk
