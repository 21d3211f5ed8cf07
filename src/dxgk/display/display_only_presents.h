// Presents of display-only drivers: the picture that is handed to the driver, and their end.
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

/// Makes one present at a time. A present ends when the DDI returns; after STATUS_PENDING it ends
/// with the driver's progress interrupt. An adapter with a full driver has one of these, too: it
/// reports progress of presents that were never made (DOD-02).
class DisplayOnlyPresents {
 public:
  DisplayOnlyPresents(DisplayCore& display, const ActiveVidPn& active);
  ~DisplayOnlyPresents();
  DisplayOnlyPresents(const DisplayOnlyPresents&) = delete;
  DisplayOnlyPresents& operator=(const DisplayOnlyPresents&) = delete;

  /// What happens to a present on a source that is invisible.
  enum class Occluded { kRefused, kPresented };
  /// See Displays::present. Takes the display mutex; off the lane.
  Status present(const DisplayPresent& request, Occluded occluded = Occluded::kRefused);

  /// Allocates memory of the machine for pictures of the mode, with rows of at least `pitch_bytes`.
  /// kNoMemory: the memory for the mode before stays.
  Status prepare(uint32_t source, const DisplayMode& mode, uint32_t pitch_bytes = 0)
      DXGKIT_REQUIRES(display_mutex);
  /// Frees that memory: the source shows nothing.
  void release(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// A copy of the POST frame buffer, which is on the screen as long as the mode still is the one
  /// that firmware set. kNotSupported: it is another mode or source; kNoMemory.
  Result<Scanout> scanout(uint32_t source, const DisplayMode& mode) DXGKIT_REQUIRES(display_mutex);

  /// The driver has reported DISPLAYONLY_PRESENT_PROGRESS.
  void on_progress(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  /// A present that waits for progress ends with kDeviceRemoved.
  void on_adapter_failed() DXGKIT_REQUIRES(on_lane);

 private:
  /// A picture that is handed to the driver, in pages of the machine.
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

  // Innermost: reports of interrupts take it.
  runtime::Mutex mutex_;
  std::map<uint32_t, PresentState> presents_ DXGKIT_GUARDED_BY(mutex_);
  std::map<uint32_t, bool> progress_failed_ DXGKIT_GUARDED_BY(mutex_);
  bool adapter_failed_ DXGKIT_GUARDED_BY(mutex_) = false;
  runtime::Event progressed_;
};

}  // namespace dxgkit::dxgk
