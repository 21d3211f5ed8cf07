// Display-only drivers: the pictures they are handed, and when they have taken one.
#pragma once

#include <cstdint>
#include <map>

#include "base/status.h"
#include "bus/machine.h"
#include "dxgk/display/active_vidpn.h"
#include "dxgk/display/display_core.h"
#include "dxgk/display/display_types.h"
#include "dxgk/display/scanout.h"
#include "port/types.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// One present of a source at a time: the next one waits until the driver has taken the picture,
/// by its return or, after STATUS_PENDING, by a progress interrupt. A full driver has one of these,
/// too: it tells of progress that nobody asked for (DOD-02).
class DisplayOnlyPresents {
 public:
  DisplayOnlyPresents(DisplayCore& display, const ActiveVidPn& active);
  ~DisplayOnlyPresents();
  DisplayOnlyPresents(const DisplayOnlyPresents&) = delete;
  DisplayOnlyPresents& operator=(const DisplayOnlyPresents&) = delete;

  /// See Displays::present. Takes the display mutex; off the lane.
  Status present(const DisplayPresent& request);

  /// Memory of the machine for pictures of the mode. kNoMemory: what was there stays.
  Status prepare(uint32_t source, const DisplayMode& mode) DXGKIT_REQUIRES(display_mutex);
  /// No picture of the source will be needed.
  void release(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// The POST frame buffer, which is what is on the screen as long as the mode still is the one
  /// that firmware set. kNotSupported: another mode or source; kNoMemory.
  Result<Scanout> scanout(uint32_t source, const DisplayMode& mode) DXGKIT_REQUIRES(display_mutex);

  /// DISPLAYONLY_PRESENT_PROGRESS.
  void on_progress(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  /// Who waits for progress gives up.
  void on_adapter_failed() DXGKIT_REQUIRES(on_lane);

 private:
  /// What the driver is handed, in pages of the machine.
  struct Surface {
    bus::PageFrame pages;
    uint64_t page_count = 0;
    DisplayMode mode;
  };
  enum class PresentState { kIdle, kInDriver, kReported, kPending };
  void free(Surface& surface);
  Status wait_for_progress(uint32_t source) DXGKIT_REQUIRES(display_mutex);

  DisplayCore& display_;
  AdapterCore& core_;
  const ActiveVidPn& active_;
  std::map<uint32_t, Surface> surfaces_ DXGKIT_GUARDED_BY(display_mutex);

  // Leaf lock: interrupts take it.
  runtime::Mutex mutex_;
  std::map<uint32_t, PresentState> presents_ DXGKIT_GUARDED_BY(mutex_);
  std::map<uint32_t, bool> progress_failed_ DXGKIT_GUARDED_BY(mutex_);
  bool adapter_failed_ DXGKIT_GUARDED_BY(mutex_) = false;
  runtime::Event progressed_;
};

}  // namespace dxgkit::dxgk
