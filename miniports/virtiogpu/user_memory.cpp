// The one place that touches user memory.
#include "miniports/virtiogpu/driver.h"

namespace virtiogpu {

// Not inlined: the compiler does not treat plain loads as something that can raise, but calls.
__declspec(noinline) NTSTATUS read_user(void* to, const void* from, SIZE_T bytes) {
  __try {
    memcpy(to, from, bytes);
  } __except (1) {  // EXCEPTION_EXECUTE_HANDLER
    return STATUS_INVALID_USER_BUFFER;
  }
  return STATUS_SUCCESS;
}

}  // namespace virtiogpu
