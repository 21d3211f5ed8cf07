// The one place that touches user memory. On its own because only a compiler for Windows targets
// knows __try, while the rest of the driver also compiles for the host's tests.
#include "miniports/softgpu/driver.h"

namespace softgpu {

// The kernel made the mapping, so there is nothing to probe; but user mode can unmap it at any
// time. Not inlined: the compiler does not treat plain loads as something that can raise, but
// calls.
__declspec(noinline) NTSTATUS read_user(void* to, const void* from, SIZE_T bytes) {
  __try {
    memcpy(to, from, bytes);
  } __except (1) {  // EXCEPTION_EXECUTE_HANDLER
    return STATUS_INVALID_USER_BUFFER;
  }
  return STATUS_SUCCESS;
}

}  // namespace softgpu
