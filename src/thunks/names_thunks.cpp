// Adapters and screens by name, and adapters in lists with a filter.
#include <d3dkmddi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "thunks/adapter_answers.h"
#include "thunks/call.h"
#include "thunks/client.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::Process;
using dxgk::Ref;
using dxgk::Screen;

LUID luid_of(const Adapter& adapter) {
  const dxgk::Luid luid = const_cast<Adapter&>(adapter).core().luid();
  LUID out = {};
  out.LowPart = luid.low;
  out.HighPart = luid.high;
  return out;
}

bool same_without_case(std::u16string_view a, std::u16string_view b) {
  return std::ranges::equal(a, b, [](char16_t one, char16_t other) {
    const auto lower = [](char16_t c) {
      return c >= u'A' && c <= u'Z' ? static_cast<char16_t>(c + 32) : c;
    };
    return lower(one) == lower(other);
  });
}

/// Opens the adapter of a screen, and fills the members that such calls have in common.
template <typename Args>
Status open_screen(Process& process, const std::optional<Screen>& screen, Args& args) {
  if (!screen.has_value()) return Status::kInvalidParameter;
  const Ref<Adapter> adapter = process.system().impl().find(screen->adapter);
  if (!adapter) return Status::kInvalidParameter;
  // The pages of these calls know no other failure.
  const Result<dxgk::Handle> handle = process.handles().insert(adapter);
  if (!handle.has_value()) return Status::kInvalidParameter;
  args.hAdapter = *handle;
  args.AdapterLuid = luid_of(*adapter);
  args.VidPnSourceId = screen->source;
  return Status::kSuccess;
}

Status open_gdi_name(Process& process, D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME& args) {
  const std::u16string_view whole(args.DeviceName, std::size(args.DeviceName));
  const size_t end = whole.find(u'\0');
  if (end == std::u16string_view::npos) return Status::kInvalidParameter;
  dxgk::System::Impl& system = process.system().impl();
  std::optional<Screen> screen;
  {
    runtime::MutexLock lock(system.mutex);
    screen = system.screens.find(whole.substr(0, end));
  }
  return open_screen(process, screen, args);
}

Status open_dc(Process& process, D3DKMT_OPENADAPTERFROMHDC& args) {
  dxgk::System::Impl& system = process.system().impl();
  std::optional<Screen> screen;
  {
    runtime::MutexLock lock(system.mutex);
    screen = system.screens.find_context(reinterpret_cast<uintptr_t>(args.hDc));
  }
  return open_screen(process, screen, args);
}

Status open_device_name(Process& process, D3DKMT_OPENADAPTERFROMDEVICENAME& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(
      const std::u16string name,
      capture_text<&D3DKMT_OPENADAPTERFROMDEVICENAME::pDeviceName>(args));
  for (const Ref<Adapter>& adapter : process.system().impl().running()) {
    const std::u16string path =
        dxgk::device_path(adapter->core().function().identity(), adapter->core().luid());
    if (!same_without_case(path, name)) continue;
    const Result<dxgk::Handle> handle = process.handles().insert(adapter);
    if (!handle.has_value()) return Status::kInvalidParameter;
    args.hAdapter = *handle;
    args.AdapterLuid = luid_of(*adapter);
    return Status::kSuccess;
  }
  return Status::kInvalidParameter;
}

/// Opens all of them, or none.
Status open_all(Process& process, std::span<const Ref<Adapter>> adapters,
                std::vector<D3DKMT_ADAPTERINFO>* infos) {
  for (const Ref<Adapter>& adapter : adapters) {
    const Result<dxgk::Handle> handle = process.handles().insert(adapter);
    if (!handle.has_value()) {
      for (const D3DKMT_ADAPTERINFO& info : *infos) process.handles().erase(info.hAdapter);
      return handle.error();
    }
    D3DKMT_ADAPTERINFO info = {};
    info.hAdapter = *handle;
    info.AdapterLuid = luid_of(*adapter);
    info.NumOfSources = adapter->core().facts().start.video_present_sources;
    infos->push_back(info);
  }
  return Status::kSuccess;
}

Status enum_adapters(Process& process, D3DKMT_ENUMADAPTERS& args) {
  std::vector<Ref<Adapter>> adapters = process.system().impl().running();
  adapters.resize(std::min(adapters.size(), std::size(args.Adapters)));
  std::vector<D3DKMT_ADAPTERINFO> infos;
  if (!is_success(open_all(process, adapters, &infos))) return Status::kInvalidParameter;
  std::ranges::copy(infos, args.Adapters);
  args.NumAdapters = static_cast<ULONG>(infos.size());
  return Status::kSuccess;
}

/// Adapters for one purpose only are listed for clients that ask for their kind.
bool passes(Adapter& adapter, Process& process, D3DKMT_ENUMADAPTERS_FILTER filter) {
  D3DKMT_ADAPTERTYPE type = {};
  static_cast<void>(answers::adapter_type({process, adapter}, type));
  if (type.ComputeOnly != 0) return filter.IncludeComputeOnly != 0;
  if (type.RenderSupported == 0) return filter.IncludeDisplayOnly != 0;
  return true;
}

Status enum_adapters3(Process& process, D3DKMT_ENUMADAPTERS3& args) {
  if (args.Filter.Reserved != 0) return Status::kInvalidParameter;
  std::vector<Ref<Adapter>> adapters;
  for (const Ref<Adapter>& adapter : process.system().impl().running()) {
    if (passes(*adapter, process, args.Filter)) adapters.push_back(adapter);
  }
  if (args.pAdapters == nullptr) {  // THUNK-09: how many there can be
    args.NumAdapters = static_cast<ULONG>(adapters.size());
    return Status::kSuccess;
  }
  if (args.NumAdapters < adapters.size()) return Status::kBufferTooSmall;
  if (!has_room<&D3DKMT_ENUMADAPTERS3::pAdapters>(args, adapters.size()))
    return Status::kInvalidParameter;
  std::vector<D3DKMT_ADAPTERINFO> infos;
  DXGKIT_RETURN_IF_FAILED(open_all(process, adapters, &infos));
  // A list that went away meanwhile is the caller's loss.
  static_cast<void>(give<&D3DKMT_ENUMADAPTERS3::pAdapters>(args, infos));
  args.NumAdapters = static_cast<ULONG>(infos.size());
  return Status::kSuccess;
}

}  // namespace

std::u16string screen_name(dxgk::System& system, dxgk::Luid adapter, uint32_t source) {
  runtime::MutexLock lock(system.impl().mutex);
  return system.impl().screens.name_of({adapter, source});
}

std::u16string device_interface_path(dxgk::System& system, dxgk::Luid luid) {
  const Ref<Adapter> adapter = system.impl().find(luid);
  if (!adapter) return {};
  return dxgk::device_path(adapter->core().function().identity(), luid);
}

uint64_t make_screen_context(dxgk::System& system, dxgk::Luid adapter, uint32_t source) {
  runtime::MutexLock lock(system.impl().mutex);
  return system.impl().screens.make_context({adapter, source});
}

bool delete_screen_context(dxgk::System& system, uint64_t context) {
  runtime::MutexLock lock(system.impl().mutex);
  return system.impl().screens.delete_context(context);
}

}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTOpenAdapterFromGdiDisplayName(D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME* args) {
  return call<D3DKMTOpenAdapterFromGdiDisplayName>(args, dxgkit::thunks::open_gdi_name);
}
NTSTATUS APIENTRY D3DKMTOpenAdapterFromHdc(D3DKMT_OPENADAPTERFROMHDC* args) {
  return call<D3DKMTOpenAdapterFromHdc>(args, dxgkit::thunks::open_dc);
}
NTSTATUS APIENTRY D3DKMTOpenAdapterFromDeviceName(D3DKMT_OPENADAPTERFROMDEVICENAME* args) {
  return call<D3DKMTOpenAdapterFromDeviceName>(args, dxgkit::thunks::open_device_name);
}
NTSTATUS APIENTRY D3DKMTEnumAdapters(const D3DKMT_ENUMADAPTERS* args) {
  return call<D3DKMTEnumAdapters>(args, dxgkit::thunks::enum_adapters);
}
NTSTATUS APIENTRY D3DKMTEnumAdapters3(D3DKMT_ENUMADAPTERS3* args) {
  return call<D3DKMTEnumAdapters3>(args, dxgkit::thunks::enum_adapters3);
}

}  // extern "C"
