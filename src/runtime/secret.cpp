#include "runtime/secret.h"

#include <sys/random.h>

#include "base/check.h"
#include "runtime/runtime.h"

namespace dxgkit::runtime {

std::array<std::byte, 16> secret_bytes() {
  const Runtime* const runtime = Runtime::current_or_null();
  DXGKIT_CHECK(runtime == nullptr || !runtime->is_simulated());
  std::array<std::byte, 16> bytes{};
  DXGKIT_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return bytes;
}

}  // namespace dxgkit::runtime
