// The events of a run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace dxgkit {

/// A recording of events, empty unless StackOptions::record was set. Copies share the recording.
/// Any thread.
class Trace {
 public:
  Trace();
  struct Impl;
  explicit Trace(std::shared_ptr<const Impl> impl);

  uint64_t events() const;
  /// The recording is bounded: this many of its earliest events were dropped.
  uint64_t dropped() const;
  /// The content of a file for https://ui.perfetto.dev. In simulation the same seed gives the same
  /// bytes.
  std::string perfetto() const;
  /// One line per event, as `dxgkit run --trace FILE.txt` writes it. In simulation the same seed
  /// gives the same bytes.
  std::string text() const;

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace dxgkit
