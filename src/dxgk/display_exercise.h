// What no mode set asks of a display driver, for the exerciser that verifies it: any VidPN, calls
// that fail half-way, presents on a dark screen, a bug check's screen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/display/display_types.h"
#include "dxgk/system.h"
#include "vidpn/vidpn.h"

namespace dxgkit::dxgk {

class Adapter;
class AdapterCore;
class Display;

/// Works on one running adapter that nobody else uses meanwhile. Off the lane; every function takes
/// the display mutex unless it says otherwise. A failure of the driver is no finding: the caller
/// judges it. Every function answers kDeviceRemoved once the adapter has failed. Not for use after
/// the adapter was stopped.
class DisplayExercise {
 public:
  /// kInvalidParameter: no such adapter is running. kNotSupported: it has no video present source.
  static Result<DisplayExercise> on(System& system, Luid luid);
  ~DisplayExercise();
  DisplayExercise(DisplayExercise&&) noexcept;

  const vidpn::Profile& profile() const;
  bool has_entry(const char* name) const;
  /// Targets with a monitor, in the driver's order.
  std::vector<uint32_t> connected_targets();
  /// The committed VidPN.
  vidpn::Network active();
  bool visible(uint32_t source);

  // --- one call of a DDI
  /// What came of it. `nth` below makes an interface function fail (vidpn::DdiCall::fail_function).
  struct Answer {
    Status status = Status::kSuccess;  // the driver's own
    const char* failed = nullptr;      // the function that was made to fail; null: none was reached
    bool supported = false;            // of is_supported(), after a success
    vidpn::Network network = {};       // of enumerate(), after a success
  };
  /// `network`: null for a null hDesiredVidPn.
  Answer is_supported(const vidpn::Network* network, uint32_t nth = 0);
  /// Both ids of the pivot are given to the driver, also those that do not belong to its kind.
  Answer enumerate(const vidpn::Network& network, const vidpn::Pivot& pivot, uint32_t nth = 0);
  /// For the monitor that is connected to `target`.
  Answer recommend_monitor_modes(uint32_t target, uint32_t nth = 0);
  /// Commits what the source shows once more, while it is invisible, and makes it visible again.
  /// What the kernel believes is shown does not change. kInvalidParameter: it shows nothing.
  Answer commit_again(uint32_t source, uint32_t nth);
  /// Commits a VidPN without paths, and then one for the connected monitors again, as when all of
  /// them leave and come back. A failure is a finding.
  Status clear_and_show();
  /// The halves of that. In between no screen shows anything, and no primary is in use.
  Status clear();
  Status show_monitors();
  /// The descriptor of the monitor at `target`, or the driver's status.
  Result<std::vector<std::byte>> descriptor(uint32_t target);
  /// Asks for parts of the descriptor of the monitor at `target`, which no kernel asks for. What is
  /// wrong is a finding. How many parts; 0: the driver has no descriptor of it.
  size_t ask_descriptor_parts(uint32_t target);
  /// DxgkDdiUpdateActiveVidPnPresentPath. What the kernel believes is shown does not change.
  Status update_path(const vidpn::Path& path);
  Status set_visible(uint32_t source, bool visible);
  /// The driver fills the kernel's primary, which is shown, with these four bytes, again and again.
  /// Full drivers of the patch model. kNotSupported: no such primary, or not in a memory segment.
  Status fill_primary(uint32_t source, uint32_t pattern);
  /// Also on a source that is invisible. See Displays::present.
  Status present(const DisplayPresent& request);

  /// Asks for the private data of surfaces that the kernel copies from or to. What is wrong is a
  /// finding. How many the driver makes; without the display mutex.
  size_t ask_copy_surfaces();

  /// Asks to enable other interrupts than the vertical sync, which no kernel does. What is wrong is
  /// a finding.
  void ask_other_interrupts();

  // --- vertical sync, of full drivers; without the display mutex
  /// Blocks until the next vertical sync of the source.
  Status wait_for_vblank(uint32_t source);
  Status scan_line(uint32_t source, bool* in_vertical_blank, uint32_t* line);

  // --- a bug check's screen; without the display mutex
  struct BugCheckScreen {
    uint32_t width = 0, height = 0, format = 0;  // as the driver says; D3DDDIFORMAT
  };
  /// DxgkDdiSystemDisplayEnable. The adapter is of no use afterwards but to be stopped.
  /// kNotSupported: no such entry.
  Result<BugCheckScreen> enable_system_display();
  /// DxgkDdiSystemDisplayWrite. Pixels of four bytes, blue first.
  Status write_system_display(std::span<const std::byte> pixels, uint32_t width, uint32_t height,
                              uint32_t stride_bytes, uint32_t x, uint32_t y);

 private:
  explicit DisplayExercise(Ref<Adapter> adapter);
  Display& display() const;
  AdapterCore& core() const;
  Ref<Adapter> adapter_;
};

}  // namespace dxgkit::dxgk
