// A full driver with one screen in a test: the scripted miniport, the scripted display's entries,
// presents and flips on record; the test is the display's clock.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dxgk/displays.h"
#include "nt/kernel.h"
#include "tests/contract/fixture.h"
#include "tests/support/scripted_display.h"

namespace dxgkit::contract {

using dxgkit::testing::DisplayCalls;
using dxgkit::testing::ScriptedDisplay;

inline constexpr uint32_t kTarget = 1, kWidth = 64, kHeight = 64;

struct PresentCall {
  void* context = nullptr;
  DXGKARG_PRESENT args{};
  std::vector<port::AllocationListEntry> allocations;
  std::vector<DXGK_PRESENTALLOCATIONINFO> surfaces;
  std::vector<RECT> sub_rects;
};

/// One at a time. Made before the stack starts.
class FlipDriver {
 public:
  explicit FlipDriver(Stack& stack, uint32_t sources = 1) : stack_(stack) {
    current = this;
    display.config.refresh_hz = 60;
    display.config.version = stack.miniport.config.version;
    display.config.sizes = {{kWidth, kHeight}, {32, 32}};
    stack.miniport.config.video_present_sources = sources;
    stack.miniport.config.children = 1;
    stack.miniport.config.caps = [this](DXGK_DRIVERCAPS& caps) {
      caps.FlipCaps.FlipOnVSyncMmIo = mmio ? 1 : 0;
      caps.FlipCaps.FlipOnVSyncWithNoWait = no_wait ? 1 : 0;
      caps.FlipCaps.FlipInterval = intervals ? 1 : 0;
      caps.FlipCaps.FlipImmediateMmIo = immediate_mmio ? 1 : 0;
      caps.MaxQueuedFlipOnVSync = depth;
      caps.SchedulingCaps.VSyncPowerSaveAware = saves_power ? 1 : 0;
    };
    stack.miniport.config.table = [this](DRIVER_INITIALIZATION_DATA& table) {
      display.lend_entries(&table, stack_.miniport.adapter_context(), &stack_.miniport.callbacks());
      table.DxgkDdiGetStandardAllocationDriverData = standard;
      table.DxgkDdiDescribeAllocation = describe;
      table.DxgkDdiPresent = present;
      table.DxgkDdiGetScanLine = scan_line;
      if (controls) table.DxgkDdiControlInterrupt = control;
      if (more_table) more_table(table);
    };
    display.hooks["DxgkDdiSetVidPnSourceAddress"] = [this] {
      irqls.push_back(nt::CallFrame::current().irql());
    };
  }
  ~FlipDriver() { current = nullptr; }

  // --- what the driver is, before the start
  bool mmio = true, no_wait = false, intervals = false, immediate_mmio = false, saves_power = false,
       controls = false;
  uint32_t depth = 1;
  std::function<void(DRIVER_INITIALIZATION_DATA&)> more_table;
  dxgk::AdapterOptions& options() { return stack_.options; }

  // --- what it does
  std::function<NTSTATUS(DXGKARG_PRESENT*)> on_present;
  NTSTATUS control_answer = STATUS_SUCCESS;

  // --- what happened
  ScriptedDisplay display;
  std::vector<PresentCall> presents;
  std::vector<nt::Irql> irqls;          // of DxgkDdiSetVidPnSourceAddress
  std::vector<nt::Irql> control_irqls;  // of DxgkDdiControlInterrupt
  std::vector<bool> controlled;         // what it was told

  std::vector<DXGKARG_SETVIDPNSOURCEADDRESS> addresses() const { return display.calls().addresses; }
  uint64_t last_address() const {
    return static_cast<uint64_t>(addresses().back().PrimaryAddress.QuadPart);
  }
  /// A vertical sync that shows `address`, acted on by the kernel.
  void vsync(uint64_t address, uint32_t target = kTarget) {
    static_cast<void>(stack_.miniport.vsync(target, address));
    stack_.settle();
  }
  void vsync() { vsync(last_address()); }
  /// Packets submitted so far that are no paging.
  size_t packets() const {
    const auto submits = stack_.miniport.calls().submits;
    return static_cast<size_t>(
        std::ranges::count_if(submits, [](const auto& one) { return one.args.Flags.Paging == 0; }));
  }

 private:
  static inline FlipDriver* current = nullptr;
  static ScriptedAllocation surface(uint32_t width, uint32_t height) {
    return {.size = uint64_t{width} * height * 4,
            .supported_read = 1,
            .supported_write = 1,
            .flags = 1,
            .padding = width << 16 | height};
  }
  static NTSTATUS NTAPI standard(const HANDLE, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA* args) {
    args->ResourcePrivateDriverDataSize = 0;
    args->AllocationPrivateDriverDataSize = sizeof(ScriptedAllocation);
    if (args->pAllocationPrivateDriverData == nullptr) return STATUS_SUCCESS;
    const D3DKMDT_SHAREDPRIMARYSURFACEDATA& data = *args->pCreateSharedPrimarySurfaceData;
    const ScriptedAllocation allocation = surface(data.Width, data.Height);
    current->format = data.Format;
    std::memcpy(args->pAllocationPrivateDriverData, &allocation, sizeof allocation);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI describe(const HANDLE, DXGKARG_DESCRIBEALLOCATION* args) {
    // By its size: a square of pixels.
    for (const auto& [handle, size] : current->squares) {
      if (handle != args->hAllocation) continue;
      args->Width = args->Height = size;
      args->Format = current->format;
      return STATUS_SUCCESS;
    }
    args->Width = args->Height = current->made;
    args->Format = current->format;
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI scan_line(const HANDLE, DXGKARG_GETSCANLINE* args) {
    args->InVerticalBlank = FALSE;
    args->ScanLine = 40 + args->VidPnTargetId;
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI control(const HANDLE, const DXGK_INTERRUPT_TYPE type, BOOLEAN enable) {
    EXPECT_EQ(type, DXGK_INTERRUPT_CRTC_VSYNC);
    current->control_irqls.push_back(nt::CallFrame::current().irql());
    current->controlled.push_back(enable != FALSE);
    return current->control_answer;
  }
  static NTSTATUS NTAPI present(const HANDLE context, DXGKARG_PRESENT* args) {
    PresentCall call;
    call.context = context;
    call.args = *args;
    for (UINT i = 0; i < args->SubRectCnt; ++i) call.sub_rects.push_back(args->pDstSubRects[i]);
    if (args->Flags.FlipWithMultiPlaneOverlay != 0) {
      // A union: pPresentMultiPlaneOverlayInfo is where the list would be.
    } else if (!current->virtual_addressing) {
      const auto* list = reinterpret_cast<const port::AllocationListEntry*>(args->pAllocationList);
      call.allocations.assign(list, list + 3);
    } else {
      call.surfaces.assign(args->pAllocationInfo, args->pAllocationInfo + args->NumSrcAllocations +
                                                      args->NumDstAllocations);
    }
    current->presents.push_back(call);
    if (current->on_present) return current->on_present(args);
    return write_part(args, 32);
  }

 public:
  bool virtual_addressing = false;
  D3DDDIFORMAT format = D3DDDIFMT_X8R8G8B8;      // as the kernel asked last
  std::vector<std::pair<HANDLE, UINT>> squares;  // primaries that are not as the kernel asked
  UINT made = kWidth;                            // the size the kernel's own have
  /// The default Present: so many bytes, each listed allocation patched once.
  static NTSTATUS write_part(DXGKARG_PRESENT* args, uint32_t bytes) {
    if (args->pDmaBuffer == nullptr) return STATUS_SUCCESS;
    if (args->DmaSize < bytes) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    std::memset(args->pDmaBuffer, 0x50, bytes);
    uint32_t offset = 0;
    for (UINT i = 1; i <= 2; ++i) {
      if (args->pAllocationList[i].hDeviceSpecificAllocation == nullptr) continue;
      *args->pPatchLocationListOut++ = patch_at(i, offset);
      offset += 16;
    }
    args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + bytes;
    return STATUS_SUCCESS;
  }

 private:
  Stack& stack_;
};

/// A client with a context that owns source 0 and shows its first primary there.
class FlipClient : public Client {
 public:
  explicit FlipClient(Stack& stack_in, FlipDriver& driver_in, size_t count = 3, bool shows = true)
      : Client(stack_in, "game"), driver(driver_in) {
    for (size_t i = 0; i < count; ++i) primaries.push_back(make_primary());
    if (!with_virtual) context = make_context();
    if (!with_virtual && count != 0 && stack.miniport.config.version >= k20) list(primaries);
    for (const D3DKMT_HANDLE primary : primaries) {  // so that they have their places
      if (with_virtual) break;
      EXPECT_EQ(render(context, work_on({primary})), 0);
      stack.drive();
    }
    if (shows) show();
    stack.miniport.clear_calls();
  }
  void show() {
    EXPECT_EQ(own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE), 0);
    EXPECT_EQ(set_display_mode(primaries[0]), 0);
  }

  D3DKMT_HANDLE make_primary(uint32_t size = kWidth) {
    D3DKMT_HANDLE handle = 0;
    EXPECT_EQ(create_primary(size, 0, &handle), 0);
    return handle;
  }
  NTSTATUS create_primary(uint32_t size, UINT source, D3DKMT_HANDLE* out) {
    ScriptedAllocation data{
        .size = uint64_t{size} * size * 4, .supported_read = 1, .supported_write = 1, .flags = 1};
    D3DDDI_ALLOCATIONINFO info{};
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    info.VidPnSourceId = source;
    info.Flags.Primary = 1;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = device;
    create.NumAllocations = 1;
    create.pAllocationInfo = &info;
    const NTSTATUS status = call([&] { return D3DKMTCreateAllocation(&create); });
    *out = info.hAllocation;
    return status;
  }
  NTSTATUS own(D3DKMT_VIDPNSOURCEOWNER_TYPE type, UINT source = 0) {
    D3DKMT_SETVIDPNSOURCEOWNER args{};
    args.hDevice = device;
    args.pType = &type;
    args.pVidPnSourceId = &source;
    args.VidPnSourceCount = 1;
    NTSTATUS status = 0;
    stack.blocking([&] { status = call([&] { return D3DKMTSetVidPnSourceOwner(&args); }); });
    return status;
  }
  NTSTATUS disown() {
    D3DKMT_SETVIDPNSOURCEOWNER args{};
    args.hDevice = device;
    NTSTATUS status = 0;
    stack.blocking([&] { status = call([&] { return D3DKMTSetVidPnSourceOwner(&args); }); });
    return status;
  }
  NTSTATUS set_display_mode(D3DKMT_HANDLE primary) {
    D3DKMT_SETDISPLAYMODE args{};
    args.hDevice = device;
    args.hPrimaryAllocation = primary;
    NTSTATUS status = 0;
    stack.blocking([&] { status = call([&] { return D3DKMTSetDisplayMode(&args); }); });
    return status;
  }
  D3DKMT_PRESENT flip_of(D3DKMT_HANDLE primary, uint32_t interval = 1) {
    D3DKMT_PRESENT args{};
    args.hContext = context.handle;
    args.hSource = primary;
    args.Flags.Flip = 1;
    args.FlipInterval = static_cast<D3DDDI_FLIPINTERVAL_TYPE>(interval);
    return args;
  }
  NTSTATUS present(D3DKMT_PRESENT args) {
    return call([&] { return D3DKMTPresent(&args); });
  }
  NTSTATUS flip(D3DKMT_HANDLE primary, uint32_t interval = 1) {
    return present(flip_of(primary, interval));
  }
  NTSTATUS limit(UINT presents, UINT flips) {
    D3DKMT_SETQUEUEDLIMIT args{};
    args.hDevice = device;
    args.Type = D3DKMT_SET_QUEUEDLIMIT_PRESENT;
    args.QueuedPresentLimit = presents;
    args.QueuedPendingFlipLimit = flips;
    return call([&] { return D3DKMTSetQueuedLimit(&args); });
  }

  FlipDriver& driver;
  std::vector<D3DKMT_HANDLE> primaries;
  ContextBuffers context;
  static inline bool with_virtual = false;

 private:
  static constexpr uint32_t k20 = DXGKDDI_INTERFACE_VERSION_WDDM2_0;  // residency is explicit
};

class FlipTest : public ContractTest {
 protected:
  /// Both, with the first primary on the screen.
  static void flipping(const std::function<void(Stack&, FlipDriver&, FlipClient&)>& body,
                       const std::function<void(FlipDriver&)>& prepare = nullptr,
                       uint64_t seed = 1) {
    bare(
        [&](Stack& stack) {
          FlipDriver driver(stack);
          if (prepare) prepare(driver);
          ASSERT_EQ(stack.start(), Status::kSuccess);
          {
            FlipClient client(stack, driver);
            body(stack, driver, client);
          }
        },
        seed);
  }
};

}  // namespace dxgkit::contract
