// What happened in a run, event by event.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace dxgkit {

/// A recording. Copies share it. Any thread. Empty unless StackOptions::record was set.
class Trace {
 public:
  Trace();
  struct Impl;
  explicit Trace(std::shared_ptr<const Impl> impl);

  uint64_t events() const;
  /// Events that were lost because the recording is bounded: the earliest ones.
  uint64_t dropped() const;
  /// A file for https://ui.perfetto.dev. In simulation the same seed gives the same bytes.
  std::string perfetto() const;
  /// One line per event, as `dxgkit run --trace FILE.txt` writes it. The same holds for its bytes.
  std::string text() const;

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace dxgkit
