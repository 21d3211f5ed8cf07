// What of an adapter is about screens: monitors, the active VidPN, presents of display-only
// drivers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bus/machine.h"
#include "dxgk/core/object.h"
#include "dxgk/core/process.h"
#include "dxgk/display/flips.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/system.h"
#include "port/adapter_port.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"
#include "verifier/findings.h"
#include "vidpn/vidpn.h"

namespace dxgkit::dxgk {

class Adapter;
class AdapterCore;
class Device;
class DeviceMemory;
class Flips;

/// A mode of a source as clients choose it. Pixels are always four bytes, blue in the lowest.
struct DisplayMode {
  uint32_t width = 0, height = 0;  // pixels
  bool operator==(const DisplayMode&) const = default;
};

struct DisplaySource {
  uint32_t id = 0;
  std::optional<DisplayMode> mode;  // none: not in the active VidPN
  std::optional<uint32_t> target;   // the first it is shown on
  bool visible = false;
  std::vector<DisplayMode> modes;  // what the driver offered for it at the last enumeration
};

struct DisplayTarget {
  uint32_t id = 0;  // ChildUid
  bool connected = false;
  bool has_descriptor = false;  // an EDID that could be read
};

struct DisplayConfiguration {
  bool display_only = false;
  std::vector<DisplaySource> sources;  // by id
  std::vector<DisplayTarget> targets;  // in the driver's order
};

/// One present of a display-only adapter: the whole new picture, and what changed of it.
struct DisplayPresent {
  uint32_t source = 0;
  std::span<const std::byte> pixels;  // rows of the mode's size, four bytes per pixel
  uint32_t pitch_bytes = 0;           // at least width * 4
  std::vector<port::MoveRect> moves =
      {};                              // stretches of the screen that moved; done before `dirty`
  std::vector<port::Rect> dirty = {};  // empty and no moves: all
};

/// What a source shows. Rows top to bottom, no padding: R, G, B, A (255).
struct Scanout {
  uint32_t width = 0, height = 0;
  std::vector<uint8_t> pixels;
};

/// The display half of one adapter.
///
/// Any thread outside the driver and off the lane: every public function takes the display mutex
/// and may block in the driver. Mode changes are level two, presents level zero; both are made one
/// at a time here. A display worker thread serves plugging and unplugging.
class Display {
 public:
  explicit Display(Adapter& adapter);
  ~Display();
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  // --- driven by Adapter
  /// After QueryChildRelations: what the driver declared is checked (CAPS-07). kInvalid...: a
  /// finding says why.
  Status describe(std::vector<port::ChildInfo> children, uint32_t sources);
  /// Monitors, a functional VidPN, commit, visible (display-only and full drivers alike). A driver
  /// that fails a step: its status; `*step` names the DDI. No monitor connected is no failure.
  Status start(const char** step);
  /// Ends the worker and the full driver's primaries, before the device stops. Idempotent.
  void stop();
  /// The POST target for StopDeviceAndReleasePostDisplayOwnership: of the first active path.
  uint32_t post_target() const { return post_target_.load(std::memory_order_relaxed); }
  void on_child_status(uint32_t child, bool connected);
  void on_progress(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  /// The one place where a vertical sync arrives.
  void on_vsync(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  /// Full drivers; lane. Null: display-only.
  Flips* flips() { return flips_.get(); }
  /// The display worker looks for work at level two.
  void wake_worker();
  bool has_target(uint32_t target) const;
  void on_adapter_failed() DXGKIT_REQUIRES(on_lane);
  /// The adapter is being reset: it shows nothing, and nobody's flips will come.
  void hardware_was_reset() DXGKIT_REQUIRES(on_lane);
  /// It runs again: the display worker commits the same VidPN once more, with new primaries of the
  /// kernel's own, and makes it visible. Any thread.
  void set_again();
  /// What the kernel shows after a reset is there: a client's mode that is set before would be
  /// lost. Not on the lane, without mutex_.
  void wait_for_reset();
  /// The kernel's own, which owns those primaries and survives resets.
  static bool is_kernels(const Process& process);

  // --- for clients; see Displays for what they answer
  DisplayConfiguration configuration();
  Status set_mode(uint32_t source, const DisplayMode& mode);
  Status present(const DisplayPresent& request);
  Result<Scanout> scanout(uint32_t source);
  /// The global handle under which clients open the primary that is shown. kInvalidParameter: no
  /// such source. kNotSupported: nothing is shown, or a display-only driver.
  Result<Handle> shared_primary(uint32_t source);
  // --- for clients of full drivers (display_owner.cpp)
  /// D3DKMTSetVidPnSourceOwner: all or nothing; empty lists give everything up (DISP-18).
  Status set_owners(Device& device, std::span<const uint32_t> sources,
                    std::span<const SourceOwnership> types);
  bool is_exclusive(uint32_t source);
  /// D3DKMTSetDisplayMode: the mode of the primary is set, and it is shown.
  /// kGraphicsNotExclusiveModeOwner (DISP-19); else as set_mode.
  Status set_display_mode(Device& device, const Ref<OpenedAllocation>& primary);
  /// DISP-03, DISP-14: whether the device may flip to it now; `*mode` for FlipSubmission.
  /// kInvalidParameter: no primary of that source, or no mode set by its owner.
  /// kGraphicsAllocationInvalid: it does not fit the mode.
  Status check_flip(Device& device, uint32_t source, const Ref<OpenedAllocation>& surface,
                    uint64_t* mode);
  /// What is on the screen, opened on the device; opens it if need be. kInvalidParameter: nothing.
  Result<Ref<OpenedAllocation>> opened_screen(Device& device, uint32_t source);
  /// Blocks until the next vertical sync of the source.
  Status wait_for_vblank(uint32_t source);
  Status scan_line(uint32_t source, bool* in_vertical_blank, uint32_t* line);
  /// What the device shows goes back to the kernel's own primary, before it goes.
  void before_destroy(DeviceMemory& device, const Ref<Resource>& resource,
                      std::span<const Ref<OpenedAllocation>> targets);
  void device_ends(Device& device);
  Status set_pointer_shape(const port::PointerShape& shape);
  Status set_pointer_position(uint32_t source, int32_t x, int32_t y, bool visible);
  Status update_path(const vidpn::Path& path);
  /// Display-only drivers.
  Status set_power(port::PowerState state, port::PowerAction action = port::PowerAction::kSleep);
  /// Full drivers, around the adapter's power transitions: nothing is shown and no primary is
  /// pinned; and as before.
  void suspend();
  void wake();
  std::span<const port::ChildInfo> children() const { return children_; }
  Status show_bug_check(std::span<const std::byte> pixels, uint32_t width, uint32_t height);
  vidpn::Network active_network();
  /// Until every hot plug announced so far is served, or the display has been stopped. Not on the
  /// lane.
  void wait_for_hot_plug();

 private:
  /// A primary of a full driver.
  struct Primary {
    Handle resource = 0;
    Ref<OpenedAllocation> opened;
    vidpn::SourceMode mode;
    bool pinned = false;
  };
  /// What is shown of one source.
  struct Source {
    bool visible = false;
    bool shown_before_sleep = false;
    std::vector<DisplayMode> modes;
    // Display-only: the picture the driver is handed, in pages of the machine.
    bus::PageFrame pages;
    uint64_t page_count = 0;
    DisplayMode surface_mode;
    // Full: on the screen, and made for the commit under way.
    Primary current, next;
  };
  struct HotPlug {
    uint32_t child = 0;
    bool connected = false;
  };
  enum class PresentState { kIdle, kInDriver, kReported, kPending };

  // display.cpp
  void worker();
  void handle_hot_plug(const HotPlug& event) DXGKIT_REQUIRES(mutex_);
  void show_after_reset() DXGKIT_REQUIRES(mutex_);
  Status refuse(Status status, const char* rule, const char* ddi, std::string actual,
                std::string expected, std::string fix);
  /// DISP-06: MaxQueuedFlipOnVSync is one that hardware can have.
  Status check_flip_depth();
  /// A DDI of a running adapter failed: one finding, the status goes on.
  Status failed_call(const char* ddi, Status status);
  std::optional<uint32_t> target_of(uint32_t source) const DXGKIT_REQUIRES(mutex_);
  std::optional<DisplayMode> mode_of(uint32_t source) const DXGKIT_REQUIRES(mutex_);
  Status prepare_surface(Source& source, const DisplayMode& mode);
  void free_surface(Source& source);
  Status wait_for_progress(uint32_t source) DXGKIT_REQUIRES(mutex_);
  static Scanout picture_of(const std::byte* pixels, const DisplayMode& mode, uint64_t pitch_bytes);

  // display_modes.cpp
  Status attach_monitor(uint32_t target, const char** step) DXGKIT_REQUIRES(mutex_);
  Status read_monitor(uint32_t target, const char** step) DXGKIT_REQUIRES(mutex_);
  void report_bad_descriptor(uint32_t target, std::span<const std::byte> bytes);
  std::vector<vidpn::SourceTarget> choose_paths() DXGKIT_REQUIRES(mutex_);
  /// The VidPN for what is connected now, committed. `wanted`: modes clients asked for, by source.
  Status commit_for_connected(const std::map<uint32_t, DisplayMode>& wanted, const char** step)
      DXGKIT_REQUIRES(mutex_);
  Result<vidpn::Network> recommended(const std::vector<uint32_t>& targets);
  std::optional<DisplayMode> favourite(const std::vector<DisplayMode>& offered, uint32_t source,
                                       uint32_t target) const;
  Result<vidpn::Network> build(const std::vector<vidpn::SourceTarget>& paths,
                               const std::map<uint32_t, DisplayMode>& wanted, const char** step)
      DXGKIT_REQUIRES(mutex_);
  Result<vidpn::Network> enumerate(vidpn::Network network, vidpn::Pivot pivot, const char** step);
  Status ask_supported(const vidpn::Network& network, const char** step);
  static size_t pinned_count(const vidpn::Network& network);
  /// All or nothing: what is shown stays on failure. `again`: every source, changed or not.
  Status commit(const vidpn::Network& network, const char** step, bool again = false)
      DXGKIT_REQUIRES(mutex_);
  Status commit_one(const vidpn::Network& network, uint32_t source, void* primary,
                    const char** step);
  void restore(const std::vector<uint32_t>& affected, size_t committed,
               const std::map<uint32_t, bool>& was_visible) DXGKIT_REQUIRES(mutex_);
  Status recommit(const char** step) DXGKIT_REQUIRES(mutex_);
  Status make_visible(uint32_t source, bool visible, const char** step) DXGKIT_REQUIRES(mutex_);

  // display_primary.cpp: full drivers
  Status open_owner(const char** step);
  void close_owner();
  /// ALLOC-31, ALLOC-51: what the driver says of the primary it made. A finding at most.
  void check_primary(const OpenedAllocation& opened, const vidpn::SourceMode& mode);
  Status make_primary(uint32_t source, const vidpn::SourceMode& mode, const char** step)
      DXGKIT_REQUIRES(mutex_);
  /// The one made for the commit, else the one shown.
  void* primary_of(const Source& source) const;
  Status show_primary(uint32_t source, const char** step) DXGKIT_REQUIRES(mutex_);
  /// Brings a primary to where the display can read it, pins it and tells the driver.
  Status place_primary(uint32_t source, Primary& primary, const char** step)
      DXGKIT_REQUIRES(mutex_);
  /// The same for a client's.
  Status place_client(uint32_t source, const Ref<OpenedAllocation>& surface, bool again,
                      const char** step) DXGKIT_REQUIRES(mutex_);
  struct Placed {
    SegmentId segment;
    uint64_t address = 0;
  };
  /// Pinned, with its content, and told to the driver as a change of mode.
  Result<Placed> pin_and_show(uint32_t source, const OpenedAllocation& surface, const char** step);
  std::vector<uint32_t> targets_of(uint32_t source) const DXGKIT_REQUIRES(mutex_);
  Status set_mode_locked(uint32_t source, const DisplayMode& mode) DXGKIT_REQUIRES(mutex_);
  /// The kernel's own primary is shown again.
  void give_back(uint32_t source) DXGKIT_REQUIRES(mutex_);
  void unpin_primary(Primary& primary);
  void drop_primary(Primary& primary);
  Result<Scanout> scanout_primary(const Source& source, const DisplayMode& mode);

  Adapter& adapter_;
  AdapterCore& core_;
  const bool display_only_;
  std::vector<port::ChildInfo> children_;
  uint32_t source_count_ = 0;
  std::unique_ptr<vidpn::Manager> manager_;

  runtime::Mutex mutex_;  // outermost: held across DDIs
  std::map<uint32_t, bool> connected_ DXGKIT_GUARDED_BY(mutex_);
  std::map<uint32_t, bool> has_descriptor_ DXGKIT_GUARDED_BY(mutex_);
  std::map<uint32_t, Source> sources_ DXGKIT_GUARDED_BY(mutex_);
  std::map<uint32_t, DisplayMode> wanted_ DXGKIT_GUARDED_BY(mutex_);
  vidpn::Network active_ DXGKIT_GUARDED_BY(mutex_);
  port::PowerState power_ DXGKIT_GUARDED_BY(mutex_) = port::PowerState::kD0;
  bool stopped_ DXGKIT_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Flips> flips_;      // lane; full drivers
  std::unique_ptr<Process> process_;  // who owns the primaries of a full driver
  Ref<Device> device_;
  // Read without the mutex by a bug check: an id, nothing else depends on it.
  std::atomic<uint32_t> post_target_{vidpn::kNoId};

  // Leaf lock: interrupt context and callbacks take it.
  runtime::Mutex events_mutex_;
  std::vector<HotPlug> hot_plugs_ DXGKIT_GUARDED_BY(events_mutex_);
  bool ending_ DXGKIT_GUARDED_BY(events_mutex_) = false;
  bool was_reset_ DXGKIT_GUARDED_BY(events_mutex_) = false;
  uint64_t resets_ DXGKIT_GUARDED_BY(on_lane) = 0;        // of the adapter, begun
  uint64_t resets_shown_ DXGKIT_GUARDED_BY(on_lane) = 0;  // those after which it shows again
  std::map<uint32_t, PresentState> presents_ DXGKIT_GUARDED_BY(events_mutex_);
  std::map<uint32_t, bool> progress_failed_ DXGKIT_GUARDED_BY(events_mutex_);
  bool adapter_failed_ DXGKIT_GUARDED_BY(events_mutex_) = false;
  runtime::Event progressed_;
  std::atomic<uint32_t> events_{0};                          // counts; the worker waits on it
  uint32_t announced_ DXGKIT_GUARDED_BY(events_mutex_) = 0;  // hot plugs so far
  std::atomic<uint32_t> served_{0};  // counts hot plugs; wait_for_hot_plug waits on it
  std::unique_ptr<runtime::Thread> worker_;
};

/// Displays of a System's adapters, for the tool and for tests. Any thread outside the driver.
///
/// Every function answers kInvalidParameter for an adapter that is not there, kNotSupported for one
/// without video present sources (DISP-21), kDeviceRemoved once the adapter stopped.
class Displays {
 public:
  explicit Displays(System& system) : system_(system) {}

  Result<DisplayConfiguration> configuration(Luid adapter);
  /// The mode is one of DisplaySource::modes. kInvalidParameter: no such source, or it is shown
  /// nowhere. STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE_MODE: the driver does not offer it. Else
  /// what the driver answered (with a finding); the mode before is shown then.
  Status set_mode(Luid adapter, uint32_t source, const DisplayMode& mode);
  /// Returns when the driver has taken the picture: for a STATUS_PENDING driver, at its progress
  /// interrupt. kInvalidParameter: a source that shows nothing, a rectangle outside the mode, a
  /// pitch or span too small. kNotSupported: not a display-only adapter. A progress that does not
  /// come within TdrDelay stops the adapter (DOD-01): kDeviceRemoved. Else the driver's failure.
  Status present(Luid adapter, const DisplayPresent& request);
  /// The screen as the CPU can see it: the POST frame buffer of a display-only adapter, the primary
  /// of a full one. kNotSupported: neither can be read; a device model may know more.
  Result<Scanout> scanout(Luid adapter, uint32_t source);
  /// kNotSupported: by the caps the driver has no such pointer. kInvalidParameter: larger than
  /// MaxPointerWidth x MaxPointerHeight, or pixels missing.
  Status set_pointer_shape(Luid adapter, const port::PointerShape& shape);
  Status set_pointer_position(Luid adapter, uint32_t source, int32_t x, int32_t y, bool visible);
  /// DxgkDdiUpdateActiveVidPnPresentPath for a path of the active VidPN. kInvalidParameter: no such
  /// path.
  Status update_path(Luid adapter, const vidpn::Path& path);
  /// D3: sources go invisible, then children, then the adapter. D0: adapter, children, the mode is
  /// committed again and shown. Display-only adapters (kNotSupported otherwise).
  Status set_power(Luid adapter, port::PowerState state);
  /// What a bug check does: SystemDisplayEnable, SystemDisplayWrite at HIGH_LEVEL. The adapter is
  /// of no use afterwards but to be stopped. kNotSupported: no such entries.
  Status show_bug_check(Luid adapter, std::span<const std::byte> pixels, uint32_t width,
                        uint32_t height);
  /// The committed VidPN; no paths: nothing is shown.
  Result<vidpn::Network> active_network(Luid adapter);
  /// Returns when every DxgkCbIndicateChildStatus so far has been acted on.
  Status wait_for_hot_plug(Luid adapter);

 private:
  template <typename Call>
  Status with(Luid adapter, const Call& call);
  System& system_;
};

}  // namespace dxgkit::dxgk
