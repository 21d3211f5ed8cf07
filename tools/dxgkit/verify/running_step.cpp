#include "tools/dxgkit/verify/running_step.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "tools/dxgkit/files.h"

namespace dxgkit::tool::verify {
namespace {

/// The narrowest usual terminal: a longer line could not be wiped.
constexpr size_t kColumns = 79;

bool on_terminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace

void show_running(const std::string& step, const std::string& title) {
  if (!on_terminal()) return;
  say(stderr, "\r{}", fmt::format("{:<20}{:<9}{}", step, "runs", title).substr(0, kColumns));
  std::fflush(stderr);
}

void wipe_running() {
  if (!on_terminal()) return;
  say(stderr, "\r{:{}}\r", "", kColumns);
  std::fflush(stderr);
}

}  // namespace dxgkit::tool::verify
