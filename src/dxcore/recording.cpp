#include "dxcore/recording.h"

#include <fmt/format.h>

#include <cstdlib>

namespace dxgkit::dxcore {

std::atomic<record::Recorder*> detail::g_recorder{nullptr};

std::string begin_recording(const char* program) {
  const char* const path = std::getenv("DXGKIT_RECORD");
  if (path == nullptr || *path == '\0') return {};
  auto made = record::Recorder::create(path, program);
  if (!made.has_value()) return fmt::format("DXGKIT_RECORD: {}", made.error());
  detail::g_recorder.store(made->release(), std::memory_order_release);
  return {};
}

std::string end_recording() {
  // Never deleted: the program's threads may still look at the fences that it shows them.
  record::Recorder* const mine = detail::g_recorder.exchange(nullptr);
  if (mine == nullptr) return {};
  const std::string error = mine->finish();
  return error.empty() ? "" : fmt::format("the recording is not whole: {}", error);
}

void forget_recording() { detail::g_recorder.store(nullptr); }

}  // namespace dxgkit::dxcore
