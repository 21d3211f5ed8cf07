// The kernel's own primaries on a full driver, pinned while they are shown.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/ids.h"
#include "base/status.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/core/object.h"
#include "dxgk/core/process.h"
#include "dxgk/display/active_vidpn.h"
#include "dxgk/display/display_core.h"
#include "dxgk/display/flips.h"
#include "dxgk/display/scanout.h"
#include "dxgk/display/surface_pins.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/work/device.h"
#include "runtime/thread_annotations.h"
#include "vidpn/vidpn.h"

namespace dxgkit::dxgk {

/// A source shows one while no client shows its own. They belong to a device and a process of the
/// kernel's own, which are made with the first primary and survive resets of the adapter.
///
/// Off the lane. `*step`: the DDI that is at work, for messages.
class Primaries {
 public:
  /// Implemented by the adapter. Called off the lane, with the display mutex held.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// Makes a process of the kernel's own, which the system does not list.
    virtual std::unique_ptr<Process> make_process(std::string name, uint32_t number) = 0;
    /// See Device::create.
    virtual Result<Ref<Device>> make_device(Process& process) = 0;
  };
  Primaries(DisplayCore& display, const ActiveVidPn& active, Flips& flips, Owner& owner);
  ~Primaries();
  Primaries(const Primaries&) = delete;
  Primaries& operator=(const Primaries&) = delete;

  /// The process is the kernel's own, which owns these primaries.
  static bool is_kernels(const Process& process);
  bool is_own(const Device& device) const { return &device == device_.get(); }
  bool is_own(const DeviceMemory& device) const;

  // --- around a commit
  /// Has the driver make the primary for a commit of `mode`. show_next() or drop_next() follows.
  /// The driver's failure passes through, with a finding.
  Status make(uint32_t source, const vidpn::SourceMode& mode, const char** step)
      DXGKIT_REQUIRES(display_mutex);
  /// The driver's object of the primary that was made for the commit, else of the one that is
  /// shown. Null: there is neither.
  void* driver_handle(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// Shows the primary that was made, if there is one, and drops the one before.
  Status show_next(uint32_t source, const char** step) DXGKIT_REQUIRES(display_mutex);
  void drop_next(uint32_t source) DXGKIT_REQUIRES(display_mutex);

  // --- the primary that is shown, or is hidden by a client's
  bool has(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// As the kernel has it open. Null: none.
  OpenedAllocation* opened(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// The private format attribute of the source: what the driver says of this primary, or what
  /// set_private_format() changed it to since. 0: there is no primary.
  uint32_t private_format(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  void set_private_format(uint32_t source, uint32_t attribute) DXGKIT_REQUIRES(display_mutex);
  /// Shows it in place of a client's, or after a sleep. There has to be one.
  Status show_again(uint32_t source, const char** step) DXGKIT_REQUIRES(display_mutex);
  /// Another primary is shown, or none: this one may leave its place.
  void unpin(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// Destroys it. Clients that have it open can show it no more (DISP-17).
  void drop(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// The global handle under which clients open it. kNotSupported: there is none.
  Result<Handle> shared(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// A copy of its content. kNotSupported: there is none, or it cannot be read.
  Result<Scanout> scanout(uint32_t source, const DisplayMode& mode) DXGKIT_REQUIRES(display_mutex);
  /// Destroys all primaries, then the device and the process.
  void end() DXGKIT_REQUIRES(display_mutex);

  /// Pins any surface, a client's too, where the display can read it, waits for its content, and
  /// tells the driver of its address at level two. After a failure it is not pinned.
  Result<PlacedSurface> pin_and_show(uint32_t source, const OpenedAllocation& surface,
                                     const char** step);

 private:
  struct Primary {
    Handle resource = 0;
    Ref<OpenedAllocation> opened;  // null: there is none
    vidpn::SourceMode mode;
    uint32_t private_format = 0;  // of the source while this one is current
    bool pinned = false;
  };
  struct Source {
    Primary current;  // on the screen, or hidden by a client's
    Primary next;     // made for the commit under way
  };
  Status open_device(const char** step);
  /// Compares the driver's description of the primary with what it was asked to make (ALLOC-31,
  /// ALLOC-51). A difference is a finding.
  void check(Primary& primary);
  /// Pins the primary where the display can read it, and shows it.
  Status place(uint32_t source, Primary& primary, const char** step) DXGKIT_REQUIRES(display_mutex);
  void unpin(Primary& primary);
  void drop(Primary& primary);

  DisplayCore& display_;
  AdapterCore& core_;
  const ActiveVidPn& active_;
  Flips& flips_;
  Owner& owner_;
  std::map<uint32_t, Source> sources_ DXGKIT_GUARDED_BY(display_mutex);
  std::unique_ptr<Process> process_;  // owns the primaries
  Ref<Device> device_;
};

}  // namespace dxgkit::dxgk
