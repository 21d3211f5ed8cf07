// The trace of an adapter process: recorded while it serves, written when it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>

#include "devices/vfiouser/connection.h"
#include "runtime/runtime.h"
#include "trace/trace.h"
#include "verifier/findings.h"

namespace dxgkit::serve {

/// The file is opened before the jail closes, which opens none. It gets the last kEventsMost events
/// as text, with findings and driver behind them (tools/dxgkit/view/notes.h), for `dxgkit view`.
class AdapterTrace {
 public:
  static constexpr size_t kEventsMost = size_t{1} << 22;
  /// Of the file: a line of the longest kind for each event, and notes.
  static constexpr uint64_t kBytesMost = uint64_t{1} << 30;

  /// Makes the file, which is empty until `write`. The error is one sentence.
  static std::expected<std::unique_ptr<AdapterTrace>, std::string> begin(runtime::Runtime& runtime,
                                                                         const std::string& path);
  ~AdapterTrace();

  /// Once; later calls do nothing. Any thread. Events may still come: they are not in it.
  void write(const std::string& driver, const verifier::Findings& findings);

 private:
  AdapterTrace(runtime::Runtime& runtime, vfiouser::Descriptor file);

  std::atomic<bool> written_{false};
  vfiouser::Descriptor file_;
  trace::Recorder recorder_;
};

}  // namespace dxgkit::serve
