// Full drivers: the kernel's own primaries, pinned while they are shown.
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
#include "dxgk/memory/allocation.h"
#include "dxgk/work/device.h"
#include "runtime/thread_annotations.h"
#include "vidpn/vidpn.h"

namespace dxgkit::dxgk {

/// What is shown of a source before any client shows its own, and after: a primary the driver has
/// made for the kernel, on a device of a process of the kernel's own, which are made at the first
/// one. Survives resets of the adapter.
///
/// Off the lane. `*step`: the DDI that is at work, for messages.
class Primaries {
 public:
  /// What it asks of the floors above. Off the lane, with the display mutex held.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// A process of the kernel's own, which the system does not list.
    virtual std::unique_ptr<Process> make_process(std::string name, uint32_t number) = 0;
    /// See Device::create.
    virtual Result<Ref<Device>> make_device(Process& process) = 0;
  };
  Primaries(DisplayCore& display, const ActiveVidPn& active, Flips& flips, Owner& owner);
  ~Primaries();
  Primaries(const Primaries&) = delete;
  Primaries& operator=(const Primaries&) = delete;

  /// The kernel's own process, which owns these primaries.
  static bool is_kernels(const Process& process);
  bool is_own(const Device& device) const { return &device == device_.get(); }

  // --- around a commit
  /// Makes the primary that a commit of `mode` is for; show_next() or drop_next() follows. The
  /// driver's failure passes through, with a finding.
  Status make(uint32_t source, const vidpn::SourceMode& mode, const char** step)
      DXGKIT_REQUIRES(display_mutex);
  /// The driver's object: of the primary made for the commit, else of the one shown. Null: neither.
  void* driver_handle(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// Shows the one that was made, if there is one, in place of the one shown.
  Status show_next(uint32_t source, const char** step) DXGKIT_REQUIRES(display_mutex);
  void drop_next(uint32_t source) DXGKIT_REQUIRES(display_mutex);

  // --- the one that is, or was, shown
  bool has(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// As the kernel has it open. Null: none.
  OpenedAllocation* opened(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// In place of a client's, or after power was away. There is one.
  Status show_again(uint32_t source, const char** step) DXGKIT_REQUIRES(display_mutex);
  /// It may leave its place: another one is shown, or nothing.
  void unpin(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// It goes, and is of no use to clients that have it open (DISP-17).
  void drop(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// The global handle under which clients open it. kNotSupported: there is none.
  Result<Handle> shared(uint32_t source) DXGKIT_REQUIRES(display_mutex);
  /// kNotSupported: it cannot be read.
  Result<Scanout> scanout(uint32_t source, const DisplayMode& mode) DXGKIT_REQUIRES(display_mutex);
  /// All of them go, then device and process.
  void end() DXGKIT_REQUIRES(display_mutex);

  /// Where a surface is that the display reads.
  struct Placed {
    SegmentId segment;
    uint64_t address = 0;
  };
  /// Any surface, a client's too: pinned, with its content, and told to the driver as a change of
  /// mode. On failure it is not pinned.
  Result<Placed> pin_and_show(uint32_t source, const OpenedAllocation& surface, const char** step);

 private:
  struct Primary {
    Handle resource = 0;
    Ref<OpenedAllocation> opened;  // null: there is none
    vidpn::SourceMode mode;
    bool pinned = false;
  };
  struct Source {
    Primary current;  // on the screen, or under a client's
    Primary next;     // made for the commit under way
  };
  Status open_device(const char** step);
  /// ALLOC-31, ALLOC-51: what the driver says of the primary it made. A finding at most.
  void check(const OpenedAllocation& opened, const vidpn::SourceMode& mode);
  /// Brings a primary to where the display can read it, pins it and tells the driver.
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
