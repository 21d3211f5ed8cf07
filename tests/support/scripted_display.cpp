#include "tests/support/scripted_display.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "dxgkit/abi_versions.h"
#include "nt/kernel.h"

namespace dxgkit::testing {
namespace {

constexpr size_t kSlots = 16;
constexpr uint32_t kPixelBytes = 4;

std::array<std::atomic<ScriptedDisplay*>, kSlots>& slots() {
  static std::array<std::atomic<ScriptedDisplay*>, kSlots> table{};
  return table;
}

}  // namespace

size_t DisplayCalls::count(std::string_view ddi) const {
  return static_cast<size_t>(std::ranges::count(order, ddi));
}

/// The Win64 functions. hAdapter is the display itself, or the context it lent its entries for.
struct ScriptedDisplay::Entries {
  static ScriptedDisplay& self(const void* context) {
    for (const std::atomic<ScriptedDisplay*>& slot : slots()) {
      ScriptedDisplay* one = slot.load();
      if (one != nullptr && (one == context || one->lent_context_ == context)) return *one;
    }
    DXGKIT_CHECK(false);
  }

// Every entry begins alike.
#define DXGKIT_ENTRY_OF(context, name) \
  ScriptedDisplay& me = self(context); \
  NTSTATUS answer = 0;                 \
  if (me.answered(name, &answer)) return answer

  template <size_t kSlot>
  static NTSTATUS NTAPI driver_entry(DRIVER_OBJECT* object, UNICODE_STRING* path) {
    ScriptedDisplay& me = *slots()[kSlot].load();
    NTSTATUS answer = 0;
    if (me.answered("DriverEntry", &answer)) return answer;
    KMDDOD_INITIALIZATION_DATA table = make_table(me, &add_device<kSlot>, &unload<kSlot>);
    using Initialize = NTSTATUS(NTAPI*)(DRIVER_OBJECT*, UNICODE_STRING*, const void*);
    const auto initialize = reinterpret_cast<Initialize>(
        const_cast<void*>(nt::find_export("DxgkInitializeDisplayOnlyDriver")->address));
    return initialize(object, path, &table);
  }
  template <size_t kSlot>
  static NTSTATUS NTAPI add_device(DEVICE_OBJECT*, void** context) {
    ScriptedDisplay& me = *slots()[kSlot].load();
    NTSTATUS answer = 0;
    if (me.answered("DxgkDdiAddDevice", &answer)) return answer;
    *context = &me;
    return STATUS_SUCCESS;
  }
  template <size_t kSlot>
  static void NTAPI unload() {
    NTSTATUS answer = 0;
    static_cast<void>(slots()[kSlot].load()->answered("DxgkDdiUnload", &answer));
  }

  static KMDDOD_INITIALIZATION_DATA make_table(ScriptedDisplay& me, PDXGKDDI_ADD_DEVICE add,
                                               PDXGKDDI_UNLOAD unload_entry) {
    KMDDOD_INITIALIZATION_DATA table{};
    table.Version = me.config.version;
    table.DxgkDdiAddDevice = add;
    table.DxgkDdiUnload = unload_entry;
    table.DxgkDdiStartDevice = start_device;
    table.DxgkDdiStopDevice = stop_device;
    table.DxgkDdiRemoveDevice = remove_device;
    table.DxgkDdiInterruptRoutine = isr;
    table.DxgkDdiDpcRoutine = dpc;
    table.DxgkDdiQueryChildRelations = query_child_relations;
    table.DxgkDdiQueryChildStatus = query_child_status;
    table.DxgkDdiQueryDeviceDescriptor = query_device_descriptor;
    table.DxgkDdiSetPowerState = set_power_state;
    table.DxgkDdiQueryAdapterInfo = query_adapter_info;
    table.DxgkDdiSetPointerPosition = set_pointer_position;
    table.DxgkDdiSetPointerShape = set_pointer_shape;
    table.DxgkDdiIsSupportedVidPn = is_supported;
    table.DxgkDdiRecommendFunctionalVidPn = recommend_functional;
    table.DxgkDdiEnumVidPnCofuncModality = enumerate;
    table.DxgkDdiSetVidPnSourceVisibility = set_visibility;
    table.DxgkDdiCommitVidPn = commit;
    table.DxgkDdiUpdateActiveVidPnPresentPath = update_path;
    table.DxgkDdiRecommendMonitorModes = recommend_monitor_modes;
    table.DxgkDdiQueryVidPnHWCapability = query_hw_capability;
    table.DxgkDdiPresentDisplayOnly = present;
    table.DxgkDdiStopDeviceAndReleasePostDisplayOwnership = stop_and_release;
    table.DxgkDdiSystemDisplayEnable = system_display_enable;
    table.DxgkDdiSystemDisplayWrite = system_display_write;
    if (me.config.table) me.config.table(table);
    return table;
  }

  static NTSTATUS NTAPI start_device(void* context, DXGK_START_INFO*, DXGKRNL_INTERFACE* dxgk,
                                     ULONG* sources, ULONG* children) {
    DXGKIT_ENTRY_OF(context, "DxgkDdiStartDevice");
    me.dxgk_ = {};
    std::memcpy(&me.dxgk_, dxgk, std::min<size_t>(dxgk->Size, sizeof me.dxgk_));
    DXGK_DISPLAY_INFORMATION post{};
    NTSTATUS status = dxgk->DxgkCbAcquirePostDisplayOwnership(dxgk->DeviceHandle, &post);
    {
      const runtime::MutexLock lock(me.lock_);
      me.calls_.post = post;
    }
    if (NT_SUCCESS(status) && post.Width != 0) {
      void* mapped = nullptr;
      status = dxgk->DxgkCbMapMemory(dxgk->DeviceHandle, post.PhysicAddress,
                                     post.Pitch * post.Height, FALSE, FALSE, MmNonCached, &mapped);
      me.mapped_ = static_cast<std::byte*>(mapped);
    }
    *sources = me.config.sources;
    *children = me.config.reported_children != UINT32_MAX
                    ? me.config.reported_children
                    : static_cast<ULONG>(me.config.children.size());
    return status;
  }
  static void unmap(ScriptedDisplay& me) {
    if (me.mapped_ != nullptr)
      static_cast<void>(me.dxgk_.DxgkCbUnmapMemory(me.dxgk_.DeviceHandle, me.mapped_));
    me.mapped_ = nullptr;
  }
  static NTSTATUS NTAPI stop_device(void* context) {
    DXGKIT_ENTRY_OF(context, "DxgkDdiStopDevice");
    unmap(me);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI stop_and_release(void* context, D3DDDI_VIDEO_PRESENT_TARGET_ID target,
                                         DXGK_DISPLAY_INFORMATION* left) {
    {
      ScriptedDisplay& one = self(context);
      const runtime::MutexLock lock(one.lock_);
      one.calls_.released_target = target;
    }
    DXGKIT_ENTRY_OF(context, "DxgkDdiStopDeviceAndReleasePostDisplayOwnership");
    *left = me.calls().post;
    left->TargetId = target;
    unmap(me);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI remove_device(void* context) {
    DXGKIT_ENTRY_OF(context, "DxgkDdiRemoveDevice");
    return STATUS_SUCCESS;
  }

  static BOOLEAN NTAPI isr(void* context, ULONG) {
    ScriptedDisplay& me = self(context);
    std::vector<DXGKARGCB_NOTIFY_INTERRUPT_DATA> taken;
    bool plugged = false;
    {
      const runtime::MutexLock lock(me.lock_);
      taken.swap(me.interrupts_);
      plugged = !me.plugs_.empty();
    }
    for (DXGKARGCB_NOTIFY_INTERRUPT_DATA& data : taken)
      me.dxgk_.DxgkCbNotifyInterrupt(me.dxgk_.DeviceHandle, &data);
    if (taken.empty() && !plugged) return FALSE;
    static_cast<void>(me.dxgk_.DxgkCbQueueDpc(me.dxgk_.DeviceHandle));
    return TRUE;
  }
  static void NTAPI dpc(void* context) {
    ScriptedDisplay& me = self(context);
    me.dxgk_.DxgkCbNotifyDpc(me.dxgk_.DeviceHandle);
    std::vector<DXGK_CHILD_STATUS> plugs;
    {
      const runtime::MutexLock lock(me.lock_);
      plugs.swap(me.plugs_);
    }
    for (DXGK_CHILD_STATUS& status : plugs)
      static_cast<void>(me.dxgk_.DxgkCbIndicateChildStatus(me.dxgk_.DeviceHandle, &status));
  }

  static NTSTATUS NTAPI query_child_relations(void* context, DXGK_CHILD_DESCRIPTOR* relations,
                                              ULONG bytes) {
    DXGKIT_ENTRY_OF(context, "DxgkDdiQueryChildRelations");
    const size_t room = bytes / sizeof(*relations) - 1;
    for (size_t i = 0; i < me.config.children.size() && i < room; ++i) {
      const ScriptedChild& child = me.config.children[i];
      relations[i].ChildDeviceType = child.type;
      relations[i].ChildUid = child.uid;
      relations[i].ChildCapabilities.HpdAwareness = child.awareness;
      relations[i].ChildCapabilities.Type.VideoOutput.InterfaceTechnology = D3DKMDT_VOT_HDMI;
      relations[i].ChildCapabilities.Type.VideoOutput.MonitorOrientationAwareness =
          D3DKMDT_MOA_NONE;
    }
    return STATUS_SUCCESS;
  }
  static ScriptedChild* child_of(ScriptedDisplay& me, ULONG uid) {
    const auto found = std::ranges::find(me.config.children, uid, &ScriptedChild::uid);
    return found == me.config.children.end() ? nullptr : &*found;
  }
  static NTSTATUS NTAPI query_child_status(void* context, DXGK_CHILD_STATUS* status, BOOLEAN) {
    DXGKIT_ENTRY_OF(context, "DxgkDdiQueryChildStatus");
    const ScriptedChild* child = child_of(me, status->ChildUid);
    if (child == nullptr) return STATUS_INVALID_PARAMETER;
    status->HotPlug.Connected = child->connected ? TRUE : FALSE;
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI query_device_descriptor(void* context, ULONG uid,
                                                DXGK_DEVICE_DESCRIPTOR* descriptor) {
    DXGKIT_ENTRY_OF(context, "DxgkDdiQueryDeviceDescriptor");
    const ScriptedChild* child = child_of(me, uid);
    if (child == nullptr || child->edid.empty())
      return STATUS_GRAPHICS_CHILD_DESCRIPTOR_NOT_SUPPORTED;
    if (descriptor->DescriptorOffset >= child->edid.size())
      return STATUS_MONITOR_NO_MORE_DESCRIPTOR_DATA;
    const size_t bytes = std::min<size_t>(descriptor->DescriptorLength,
                                          child->edid.size() - descriptor->DescriptorOffset);
    std::memcpy(descriptor->DescriptorBuffer, child->edid.data() + descriptor->DescriptorOffset,
                bytes);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI set_power_state(void* context, ULONG uid, DEVICE_POWER_STATE state,
                                        POWER_ACTION) {
    {
      ScriptedDisplay& one = self(context);
      const runtime::MutexLock lock(one.lock_);
      one.calls_.powers.emplace_back(uid, state);
    }
    DXGKIT_ENTRY_OF(context, "DxgkDdiSetPowerState");
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI query_adapter_info(const HANDLE context,
                                           const DXGKARG_QUERYADAPTERINFO* args) {
    {
      ScriptedDisplay& one = self(context);
      const runtime::MutexLock lock(one.lock_);
      one.calls_.queries.push_back(*args);
    }
    DXGKIT_ENTRY_OF(context, "DxgkDdiQueryAdapterInfo");
    if (args->Type != DXGKQAITYPE_DRIVERCAPS) return STATUS_NOT_SUPPORTED;
    if (args->OutputDataSize < abi::record_size("DXGK_DRIVERCAPS", me.config.version))
      return STATUS_BUFFER_TOO_SMALL;
    DXGK_DRIVERCAPS caps{};
    caps.HighestAcceptableAddress.QuadPart = -1;
    caps.WDDMVersion = DXGKDDI_WDDMv1_2;
    caps.SupportNonVGA = TRUE;
    caps.SupportSmoothRotation = TRUE;
    caps.MaxPointerWidth = caps.MaxPointerHeight = 32;
    caps.PointerCaps.Color = 1;
    caps.PointerCaps.Monochrome = 1;
    if (me.config.caps) me.config.caps(caps);
    std::memcpy(args->pOutputData, &caps, std::min<size_t>(args->OutputDataSize, sizeof caps));
    return STATUS_SUCCESS;
  }

  static NTSTATUS NTAPI is_supported(const HANDLE context, DXGKARG_ISSUPPORTEDVIDPN* args) {
    DXGKIT_ENTRY_OF(context, "DxgkDdiIsSupportedVidPn");
    return ::modes::is_supported(me.table(), args);
  }
  static NTSTATUS NTAPI recommend_functional(const HANDLE context,
                                             const DXGKARG_RECOMMENDFUNCTIONALVIDPN* const) {
    DXGKIT_ENTRY_OF(context, "DxgkDdiRecommendFunctionalVidPn");
    return STATUS_GRAPHICS_NO_RECOMMENDED_FUNCTIONAL_VIDPN;
  }
  static NTSTATUS NTAPI enumerate(const HANDLE context,
                                  const DXGKARG_ENUMVIDPNCOFUNCMODALITY* const args) {
    {
      ScriptedDisplay& one = self(context);
      const runtime::MutexLock lock(one.lock_);
      one.calls_.enumerations.push_back(*args);
    }
    DXGKIT_ENTRY_OF(context, "DxgkDdiEnumVidPnCofuncModality");
    return ::modes::enumerate(me.table(), args);
  }
  static NTSTATUS NTAPI set_visibility(const HANDLE context,
                                       const DXGKARG_SETVIDPNSOURCEVISIBILITY* args) {
    {
      ScriptedDisplay& one = self(context);
      const runtime::MutexLock lock(one.lock_);
      one.calls_.visibilities.push_back(*args);
    }
    DXGKIT_ENTRY_OF(context, "DxgkDdiSetVidPnSourceVisibility");
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI commit(const HANDLE context, const DXGKARG_COMMITVIDPN* const args) {
    {
      ScriptedDisplay& one = self(context);
      const runtime::MutexLock lock(one.lock_);
      one.calls_.commits.push_back(*args);
    }
    DXGKIT_ENTRY_OF(context, "DxgkDdiCommitVidPn");
    ::modes::Shown shown{};
    const NTSTATUS status = ::modes::read_commit(me.table(), args, &shown);
    const runtime::MutexLock lock(me.lock_);
    me.calls_.shown.push_back(shown);
    return status;
  }
  static NTSTATUS NTAPI update_path(const HANDLE context,
                                    const DXGKARG_UPDATEACTIVEVIDPNPRESENTPATH* const args) {
    {
      ScriptedDisplay& one = self(context);
      const runtime::MutexLock lock(one.lock_);
      one.calls_.paths.push_back(args->VidPnPresentPathInfo);
    }
    DXGKIT_ENTRY_OF(context, "DxgkDdiUpdateActiveVidPnPresentPath");
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI recommend_monitor_modes(const HANDLE context,
                                                const DXGKARG_RECOMMENDMONITORMODES* const args) {
    DXGKIT_ENTRY_OF(context, "DxgkDdiRecommendMonitorModes");
    return ::modes::recommend_monitor_mode(me.table(), args, me.config.sizes.front());
  }
  static NTSTATUS NTAPI query_hw_capability(const HANDLE context,
                                            DXGKARG_QUERYVIDPNHWCAPABILITY* args) {
    DXGKIT_ENTRY_OF(context, "DxgkDdiQueryVidPnHWCapability");
    args->VidPnHWCaps = {};
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI set_source_address(const HANDLE context,
                                           const DXGKARG_SETVIDPNSOURCEADDRESS* args) {
    {
      ScriptedDisplay& one = self(context);
      const runtime::MutexLock lock(one.lock_);
      one.calls_.addresses.push_back(*args);
    }
    DXGKIT_ENTRY_OF(context, "DxgkDdiSetVidPnSourceAddress");
    return STATUS_SUCCESS;
  }

  static NTSTATUS NTAPI present(const HANDLE context, const DXGKARG_PRESENT_DISPLAYONLY* args) {
    DisplayPresentCall call;
    call.args = *args;
    call.moves.assign(args->pMoves, args->pMoves + args->NumMoves);
    call.dirty.assign(args->pDirtyRect, args->pDirtyRect + args->NumDirtyRects);
    // A driver may do what it likes with its arguments.
    for (ULONG i = 0; i < args->NumDirtyRects; ++i) args->pDirtyRect[i] = {-1, -1, -1, -1};
    {
      ScriptedDisplay& one = self(context);
      const runtime::MutexLock lock(one.lock_);
      one.calls_.presents.push_back(call);
      if (one.config.asynchronous) one.pending_.push_back(call);
    }
    DXGKIT_ENTRY_OF(context, "DxgkDdiPresentDisplayOnly");
    if (me.config.asynchronous) return STATUS_PENDING;
    me.copy(call);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI set_pointer_position(const HANDLE context,
                                             const DXGKARG_SETPOINTERPOSITION* args) {
    {
      ScriptedDisplay& one = self(context);
      const runtime::MutexLock lock(one.lock_);
      one.calls_.pointer_positions.push_back(*args);
    }
    DXGKIT_ENTRY_OF(context, "DxgkDdiSetPointerPosition");
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI set_pointer_shape(const HANDLE context,
                                          const DXGKARG_SETPOINTERSHAPE* args) {
    {
      ScriptedDisplay& one = self(context);
      const auto* pixels = static_cast<const std::byte*>(args->pPixels);
      const runtime::MutexLock lock(one.lock_);
      one.calls_.pointer_shapes.push_back(*args);
      one.calls_.pointer_pixels.assign(pixels, pixels + size_t{args->Pitch} * args->Height);
    }
    DXGKIT_ENTRY_OF(context, "DxgkDdiSetPointerShape");
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI system_display_enable(void* context, D3DDDI_VIDEO_PRESENT_TARGET_ID,
                                              DXGKARG_SYSTEM_DISPLAY_ENABLE_FLAGS*, UINT* width,
                                              UINT* height, D3DDDIFORMAT* format) {
    DXGKIT_ENTRY_OF(context, "DxgkDdiSystemDisplayEnable");
    *width = me.screen_->config().width;
    *height = me.screen_->config().height;
    *format = D3DDDIFMT_X8R8G8B8;
    return STATUS_SUCCESS;
  }
  static void NTAPI system_display_write(void* context, void* source, UINT width, UINT height,
                                         UINT stride, UINT x, UINT y) {
    ScriptedDisplay& me = self(context);
    NTSTATUS answer = 0;
    if (me.answered("DxgkDdiSystemDisplayWrite", &answer)) return;
    for (UINT line = 0; line < height; ++line) {
      std::memcpy(me.mapped_ + size_t{y + line} * me.screen_->config().pitch_bytes +
                      size_t{x} * kPixelBytes,
                  static_cast<const std::byte*>(source) + size_t{line} * stride,
                  size_t{width} * kPixelBytes);
    }
  }

  template <size_t... kIndexes>
  static std::array<void*, kSlots> make_entries(std::index_sequence<kIndexes...>) {
    return {reinterpret_cast<void*>(&driver_entry<kIndexes>)...};
  }
};

ScriptedDisplay::ScriptedDisplay(const framebuffer::FrameBufferConfig& screen) {
  auto made = framebuffer::FrameBuffer::create(screen);
  DXGKIT_CHECK(made.has_value());
  screen_ = std::move(*made);
  for (; slot_ < kSlots; ++slot_) {
    ScriptedDisplay* empty = nullptr;
    if (slots()[slot_].compare_exchange_strong(empty, this)) return;
  }
  DXGKIT_CHECK(false);
}

ScriptedDisplay::~ScriptedDisplay() { slots()[slot_].store(nullptr); }

port::DriverSource ScriptedDisplay::source() {
  static const std::array<void*, kSlots> entries =
      Entries::make_entries(std::make_index_sequence<kSlots>());
  return {.name = "scripted display", .path = {}, .entry = entries[slot_]};
}

bus::PciFunction& ScriptedDisplay::function() { return screen_->function(); }

DisplayCalls ScriptedDisplay::calls() const {
  const runtime::MutexLock lock(lock_);
  return calls_;
}

void ScriptedDisplay::clear_calls() {
  const runtime::MutexLock lock(lock_);
  const DXGK_DISPLAY_INFORMATION post = calls_.post;
  calls_ = {};
  calls_.post = post;
}

size_t ScriptedDisplay::pending_presents() const {
  const runtime::MutexLock lock(lock_);
  return pending_.size();
}

bool ScriptedDisplay::answered(const char* ddi, NTSTATUS* status) {
  {
    const runtime::MutexLock lock(lock_);
    calls_.order.emplace_back(ddi);
  }
  if (const auto hook = hooks.find(ddi); hook != hooks.end() && hook->second) hook->second();
  const auto answer = answers.find(ddi);
  if (answer == answers.end()) return false;
  *status = answer->second;
  return true;
}

::modes::ModeTable ScriptedDisplay::table() const {
  ::modes::ModeTable table{};
  table.dxgk = lent_dxgk_ != nullptr ? lent_dxgk_ : &dxgk_;
  table.sizes = config.sizes.data();
  table.size_count = static_cast<UINT>(config.sizes.size());
  table.refresh_hz = config.refresh_hz;
  table.rotation_offsets =
      config.version >= DXGKDDI_INTERFACE_VERSION_WDDM1_3_PATH_INDEPENDENT_ROTATION;
  return table;
}

void ScriptedDisplay::copy(const DisplayPresentCall& present) {
  if (mapped_ == nullptr) return;
  const auto copy_rect = [&](const RECT& rect) {
    for (LONG y = rect.top; y < rect.bottom; ++y) {
      std::memcpy(mapped_ + static_cast<size_t>(y) * screen_->config().pitch_bytes +
                      static_cast<size_t>(rect.left) * kPixelBytes,
                  static_cast<const std::byte*>(present.args.pSource) +
                      int64_t{y} * present.args.Pitch +
                      static_cast<int64_t>(rect.left) * kPixelBytes,
                  static_cast<size_t>(rect.right - rect.left) * kPixelBytes);
    }
  };
  for (const D3DKMT_MOVE_RECT& move : present.moves) copy_rect(move.DestRect);
  for (const RECT& rect : present.dirty) copy_rect(rect);
}

void ScriptedDisplay::finish_present(bool failed) {
  DisplayPresentCall present;
  {
    const runtime::MutexLock lock(lock_);
    DXGKIT_CHECK(!pending_.empty());
    present = pending_.front();
    pending_.erase(pending_.begin());
  }
  if (!failed) copy(present);
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
  data.InterruptType = DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS;
  data.DisplayOnlyPresentProgress.VidPnSourceId = present.args.VidPnSourceId;
  data.DisplayOnlyPresentProgress.ProgressId = failed
                                                   ? DXGK_PRESENT_DISPLAYONLY_PROGRESS_ID_FAILED
                                                   : DXGK_PRESENT_DISPLAYONLY_PROGRESS_ID_COMPLETE;
  interrupt(data);
}

void ScriptedDisplay::interrupt(const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data) {
  {
    const runtime::MutexLock lock(lock_);
    interrupts_.push_back(data);
  }
  static_cast<void>(function().interrupt_line().raise());
}

void ScriptedDisplay::plug(uint32_t child, bool connected) {
  ScriptedChild* known = Entries::child_of(*this, child);
  if (known != nullptr) known->connected = connected;
  DXGK_CHILD_STATUS status{};
  status.Type = StatusConnection;
  status.ChildUid = child;
  status.HotPlug.Connected = connected ? TRUE : FALSE;
  {
    const runtime::MutexLock lock(lock_);
    plugs_.push_back(status);
  }
  static_cast<void>(function().interrupt_line().raise());
}

void ScriptedDisplay::lend_entries(DRIVER_INITIALIZATION_DATA* table_out, void* context,
                                   const DXGKRNL_INTERFACE* dxgk) {
  lent_context_ = context;
  lent_dxgk_ = dxgk;
  table_out->DxgkDdiQueryChildRelations = Entries::query_child_relations;
  table_out->DxgkDdiQueryChildStatus = Entries::query_child_status;
  table_out->DxgkDdiQueryDeviceDescriptor = Entries::query_device_descriptor;
  table_out->DxgkDdiIsSupportedVidPn = Entries::is_supported;
  table_out->DxgkDdiRecommendFunctionalVidPn = Entries::recommend_functional;
  table_out->DxgkDdiEnumVidPnCofuncModality = Entries::enumerate;
  table_out->DxgkDdiSetVidPnSourceVisibility = Entries::set_visibility;
  table_out->DxgkDdiSetVidPnSourceAddress = Entries::set_source_address;
  table_out->DxgkDdiCommitVidPn = Entries::commit;
  table_out->DxgkDdiUpdateActiveVidPnPresentPath = Entries::update_path;
  table_out->DxgkDdiRecommendMonitorModes = Entries::recommend_monitor_modes;
  table_out->DxgkDdiQueryVidPnHWCapability = Entries::query_hw_capability;
}

}  // namespace dxgkit::testing
