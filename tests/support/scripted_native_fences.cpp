#include "tests/support/scripted_native_fences.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "nt/kernel.h"

namespace dxgkit::testing {
namespace {

ScriptedNativeFences* g_current = nullptr;

NTSTATUS ok() { return to_ntstatus(Status::kSuccess); }

}  // namespace

struct ScriptedNativeFences::Entries {
  static ScriptedNativeFences& self(const char* ddi) {
    DXGKIT_CHECK(g_current != nullptr);
    g_current->miniport_.note(ddi);
    return *g_current;
  }
  static NTSTATUS NTAPI create(void*, DXGKARG_CREATENATIVEFENCE* args) {
    ScriptedNativeFences& me = self("DxgkDdiCreateNativeFence");
    auto fence = std::make_unique<ScriptedNativeFence>();
    fence->args = *args;
    if (me.on_create) {
      if (const NTSTATUS status = me.on_create(args); status != ok()) return status;
    }
    args->hGlobalNativeFence = fence.get();
    me.fences.push_back(std::move(fence));
    me.order.push_back("create");
    return ok();
  }
  static NTSTATUS NTAPI destroy(DXGKARG_DESTROYNATIVEFENCE* args) {
    ScriptedNativeFences& me = self("DxgkDdiDestroyNativeFence");
    auto& fence = *static_cast<ScriptedNativeFence*>(args->hGlobalNativeFence);
    DXGKIT_CHECK(!fence.gone && fence.openings == 0);
    fence.gone = true;
    me.order.push_back("destroy");
    return ok();
  }
  static NTSTATUS NTAPI open(void*, DXGKARG_OPENNATIVEFENCE* args) {
    ScriptedNativeFences& me = self("DxgkDdiOpenNativeFence");
    auto opening = std::make_unique<ScriptedNativeOpening>();
    opening->args = *args;
    opening->fence = static_cast<ScriptedNativeFence*>(args->hGlobalNativeFence);
    opening->process = me.gpu_.last_process();
    if (me.on_open) {
      if (const NTSTATUS status = me.on_open(args); status != ok()) return status;
    }
    DXGKIT_CHECK(!opening->fence->gone);
    ++opening->fence->openings;
    args->hLocalNativeFence = opening.get();
    me.openings.push_back(std::move(opening));
    me.order.push_back("open");
    return ok();
  }
  static NTSTATUS NTAPI close(void*, DXGKARG_CLOSENATIVEFENCE* args) {
    ScriptedNativeFences& me = self("DxgkDdiCloseNativeFence");
    auto& opening = *static_cast<ScriptedNativeOpening*>(args->hLocalNativeFence);
    DXGKIT_CHECK(!opening.gone && !opening.fence->gone);
    opening.gone = true;
    --opening.fence->openings;
    me.order.push_back("close");
    return ok();
  }
  static NTSTATUS NTAPI update_monitored(const DXGKARG_UPDATEMONITOREDVALUES* args) {
    ScriptedNativeFences& me = self("DxgkDdiUpdateMonitoredValues");
    for (UINT i = 0; i < args->NumFences; ++i) {
      auto& fence = *static_cast<ScriptedNativeFence*>(args->NativeFenceArray[i]);
      const uint64_t value = args->UpdatedValueArray[i];
      me.levels.push_back(nt::CallFrame::current().irql());
      if (me.on_monitored) {
        if (const NTSTATUS status = me.on_monitored(fence, value); status != ok()) return status;
      }
      me.monitored.push_back(value);
      fence.monitored = value;
      std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(args->MonitoredValueKernelCpuVa[i]))
          .store(value);
    }
    return ok();
  }
  static NTSTATUS NTAPI update_current(const DXGKARG_UPDATECURRENTVALUESFROMCPU* args) {
    ScriptedNativeFences& me = self("DxgkDdiUpdateCurrentValuesFromCpu");
    for (UINT i = 0; i < args->NumFences; ++i) {
      auto& fence = *static_cast<ScriptedNativeFence*>(args->NativeFenceArray[i]);
      const uint64_t value = args->UpdatedValueArray[i];
      me.levels.push_back(nt::CallFrame::current().irql());
      if (me.on_current) {
        if (const NTSTATUS status = me.on_current(fence, value); status != ok()) return status;
      }
      me.currents.push_back(value);
      if (me.forgets_current) continue;
      std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(args->CurrentValueKernelCpuVa[i]))
          .store(value);
    }
    return ok();
  }
};

ScriptedNativeFences::ScriptedNativeFences(ScriptedMiniport& miniport, ScriptedGpuVa& gpu)
    : miniport_(miniport),
      gpu_(gpu),
      caps_before_(miniport.config.caps),
      table_before_(miniport.config.table),
      query_before_(miniport.hooks.query_adapter_info) {
  DXGKIT_CHECK(g_current == nullptr);
  g_current = this;
  miniport.config.version =
      std::max<uint32_t>(miniport.config.version, DXGKDDI_INTERFACE_VERSION_WDDM3_2);
  miniport.config.caps = [this](DXGK_DRIVERCAPS& caps) {
    if (caps_before_) caps_before_(caps);
    caps.SchedulingCaps.NativeGpuFence = reported ? 1 : 0;
  };
  miniport.hooks.query_adapter_info = [this](const DXGKARG_QUERYADAPTERINFO* args) -> NTSTATUS {
    if (args->Type != DXGKQAITYPE_NATIVE_FENCE_CAPS) return query_before_(args);
    if (caps_answer != ok()) return caps_answer;
    auto& caps = *static_cast<DXGK_NATIVE_FENCE_CAPS*>(args->pOutputData);
    caps.MonitoredValueStride = 8;
    caps.MapToGpuSystemProcess = system_process ? TRUE : FALSE;
    return ok();
  };
  miniport.config.table = [this](DRIVER_INITIALIZATION_DATA& table) {
    if (table_before_) table_before_(table);
    if (!entries) return;
#define DXGKIT_SET(entry, function) \
  table.entry = reinterpret_cast<decltype(table.entry)>(&Entries::function)
    DXGKIT_SET(DxgkDdiCreateNativeFence, create);
    DXGKIT_SET(DxgkDdiDestroyNativeFence, destroy);
    DXGKIT_SET(DxgkDdiOpenNativeFence, open);
    DXGKIT_SET(DxgkDdiCloseNativeFence, close);
    DXGKIT_SET(DxgkDdiUpdateMonitoredValues, update_monitored);
    DXGKIT_SET(DxgkDdiUpdateCurrentValuesFromCpu, update_current);
#undef DXGKIT_SET
  };
}

ScriptedNativeFences::~ScriptedNativeFences() {
  miniport_.hooks.query_adapter_info = query_before_;
  g_current = nullptr;
}

bool ScriptedNativeFences::signal(ScriptedNativeOpening& opening, uint64_t value) {
  DXGKIT_CHECK(gpu_.write(opening.process, opening.args.CurrentValueGpuVa, value));
  if (value <= opening.fence->monitored) return false;
  void* const handle = opening.fence;
  interrupt(&handle, 1);
  return true;
}

uint64_t ScriptedNativeFences::current(const ScriptedNativeOpening& opening) const {
  return gpu_.read(opening.process, opening.args.CurrentValueGpuVa);
}

bool ScriptedNativeFences::interrupt(void* const* handles, uint32_t count, bool legacy_too) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  std::memset(&data, 0, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED;
  data.NativeFenceSignaled.SignaledNativeFenceCount = count;
  data.NativeFenceSignaled.pSignaledNativeFenceArray = const_cast<void**>(handles);
  data.Flags.EvaluateLegacyMonitoredFences = legacy_too ? 1 : 0;
  return miniport_.raise(data);
}

size_t ScriptedNativeFences::live() const {
  return static_cast<size_t>(
      std::ranges::count(fences, false, [](auto& one) { return one->gone; }) +
      std::ranges::count(openings, false, [](auto& one) { return one->gone; }));
}

}  // namespace dxgkit::testing
