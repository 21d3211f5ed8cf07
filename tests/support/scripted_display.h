// A display-only miniport in a test: sane by default, every DDI can be made to fail, and the test
// is the hardware.
//
//   ScriptedDisplay display;                       // one source, one output that can be plugged
//   display.config.sizes = {{64, 48}, {32, 32}};   // before the driver is loaded
//   display.answers["DxgkDdiCommitVidPn"] = STATUS_NO_MEMORY;      // any time
//   machine.add_function(display.function());
//   auto driver = port::Driver::load(kernel, findings, display.source(), &message);
//
// The screen is devices/framebuffer. Presents are copied at once, or with `config.asynchronous`
// kept until finish_present(), which raises the interrupt. The mode side is
// miniports/framebuffer's. Records are guarded; set `config`, `answers` and `hooks` before the
// calls they are for.
#pragma once

#include <dispmprt.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bus/machine.h"
#include "devices/framebuffer/framebuffer.h"
#include "miniports/modes/modes.h"
#include "port/driver.h"
#include "runtime/sync.h"

namespace dxgkit::testing {

struct ScriptedChild {
  uint32_t uid = 1;
  DXGK_CHILD_DEVICE_TYPE type = TypeVideoOutput;
  DXGK_CHILD_DEVICE_HPD_AWARENESS awareness = HpdAwarenessInterruptible;
  bool connected = true;
  std::vector<std::byte> edid = {};  // empty: no descriptor
};

struct ScriptedDisplayConfig {
  uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM1_3;
  uint32_t sources = 1;
  uint32_t reported_children = UINT32_MAX;  // NumberOfChildren; default: as many as there are
  std::vector<ScriptedChild> children = {ScriptedChild{}};
  std::vector<::modes::Size> sizes = {{64, 48}, {32, 32}};
  uint32_t refresh_hz = 0;
  bool asynchronous = false;
  std::function<void(DXGK_DRIVERCAPS&)> caps;
  std::function<void(KMDDOD_INITIALIZATION_DATA&)> table;
};

struct DisplayPresentCall {
  DXGKARG_PRESENT_DISPLAYONLY args{};
  std::vector<D3DKMT_MOVE_RECT> moves;
  std::vector<RECT> dirty;
};

struct DisplayCalls {
  std::vector<std::string> order;  // DDI names of all calls but ISR and DPC
  std::vector<DisplayPresentCall> presents;
  std::vector<DXGKARG_COMMITVIDPN> commits;
  std::vector<::modes::Shown> shown;  // what each commit meant
  std::vector<DXGKARG_ENUMVIDPNCOFUNCMODALITY> enumerations;
  std::vector<DXGKARG_SETVIDPNSOURCEVISIBILITY> visibilities;
  std::vector<DXGKARG_SETVIDPNSOURCEADDRESS> addresses;
  std::vector<std::pair<ULONG, DEVICE_POWER_STATE>> powers;
  std::vector<DXGKARG_SETPOINTERPOSITION> pointer_positions;
  std::vector<DXGKARG_SETPOINTERSHAPE> pointer_shapes;
  std::vector<std::byte> pointer_pixels;  // of the last shape
  std::vector<DXGKARG_QUERYADAPTERINFO> queries;
  std::vector<D3DKMDT_VIDPN_PRESENT_PATH> paths;  // of UpdateActiveVidPnPresentPath
  DXGK_DISPLAY_INFORMATION post{};                // what AcquirePostDisplayOwnership gave
  D3DDDI_VIDEO_PRESENT_TARGET_ID released_target = 0;
  size_t count(std::string_view ddi) const;
};

class ScriptedDisplay {
 public:
  explicit ScriptedDisplay(const framebuffer::FrameBufferConfig& screen = {
                               .width = 64, .height = 48, .pitch_bytes = 320});
  ~ScriptedDisplay();
  ScriptedDisplay(const ScriptedDisplay&) = delete;
  ScriptedDisplay& operator=(const ScriptedDisplay&) = delete;

  ScriptedDisplayConfig config;
  /// DDI name -> what it answers instead of doing anything. STATUS_SUCCESS included.
  std::map<std::string, NTSTATUS> answers;
  /// DDI name -> run first, inside the driver.
  std::map<std::string, std::function<void()>> hooks;

  port::DriverSource source();
  bus::PciFunction& function();
  framebuffer::FrameBuffer& screen() { return *screen_; }
  DisplayCalls calls() const;
  void clear_calls();
  size_t count(std::string_view ddi) const { return calls().count(ddi); }
  size_t pending_presents() const;

  // --- the hardware; not inside the driver
  /// Copies the oldest pending present (unless it failed) and reports its progress.
  void finish_present(bool failed = false);
  /// An interrupt of any kind: ISR -> NotifyInterrupt -> DPC.
  void interrupt(const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data);
  /// Plugs in or out: an interrupt, whose DPC tells the kernel.
  void plug(uint32_t child, bool connected);

  /// Gives a full driver the mode-management entries; `context` is its AddDevice context and `dxgk`
  /// the interface it got, to be filled before its adapter starts.
  void lend_entries(DRIVER_INITIALIZATION_DATA* table, void* context,
                    const DXGKRNL_INTERFACE* dxgk);

  struct Entries;

 private:
  friend struct Entries;
  ::modes::ModeTable table() const;
  /// Notes the call; true with *status if the test answers it.
  bool answered(const char* ddi, NTSTATUS* status);
  void copy(const DisplayPresentCall& present);

  std::unique_ptr<framebuffer::FrameBuffer> screen_;
  size_t slot_ = 0;
  DXGKRNL_INTERFACE dxgk_{};
  const DXGKRNL_INTERFACE* lent_dxgk_ = nullptr;
  const void* lent_context_ = nullptr;
  std::byte* mapped_ = nullptr;
  mutable runtime::Mutex lock_;
  DisplayCalls calls_;
  std::vector<DisplayPresentCall> pending_;
  std::vector<DXGKARGCB_NOTIFY_INTERRUPT_DATA> interrupts_;
  std::vector<DXGK_CHILD_STATUS> plugs_;
};

}  // namespace dxgkit::testing
