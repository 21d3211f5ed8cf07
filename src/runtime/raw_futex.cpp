#include "runtime/raw_futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dxgkit::runtime {

void raw_wait(const std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void raw_wake(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace dxgkit::runtime
