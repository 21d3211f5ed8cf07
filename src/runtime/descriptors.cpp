#include "runtime/descriptors.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/check.h"
#include "runtime/runtime.h"

namespace dxgkit::runtime {

size_t wait_for_descriptor(std::span<const int> descriptors) {
  const Runtime* const runtime = Runtime::current_or_null();
  DXGKIT_CHECK(runtime == nullptr || !runtime->is_simulated());
  DXGKIT_CHECK(std::ranges::any_of(descriptors, [](int one) { return one >= 0; }));
  std::vector<pollfd> all;
  for (const int one : descriptors) all.push_back({.fd = one, .events = POLLIN, .revents = 0});
  while (poll(all.data(), all.size(), -1) < 1) DXGKIT_CHECK(errno == EINTR);
  const auto ready = std::ranges::find_if(all, [](const pollfd& one) { return one.revents != 0; });
  return static_cast<size_t>(ready - all.begin());
}

}  // namespace dxgkit::runtime
