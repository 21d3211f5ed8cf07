// Adapters: enumeration, opening, questions, escape.
#include <algorithm>
#include <cstring>
#include <optional>

#include "dxgk/display/display_floor.h"
#include "dxgk/display/display_level_two.h"
#include "dxgk/sync/cpu_events.h"
#include "dxgk/sync/sync_object.h"
#include "thunks/adapter_info.h"
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::Process;
using dxgk::Ref;

LUID to_luid(dxgk::Luid luid) {
  LUID out = {};
  out.LowPart = luid.low;
  out.HighPart = luid.high;
  return out;
}

Status enum_adapters(Process& process, D3DKMT_ENUMADAPTERS2& args) {
  const std::vector<Ref<Adapter>> adapters = process.system().impl().running();
  if (args.pAdapters == nullptr) {  // THUNK-09: how many there can be
    constexpr size_t kMostAdapters = 34;
    args.NumAdapters = static_cast<ULONG>(std::max(kMostAdapters, adapters.size()));
    return Status::kSuccess;
  }
  if (args.NumAdapters < adapters.size()) return Status::kBufferTooSmall;
  std::vector<D3DKMT_ADAPTERINFO> infos;
  Status status = Status::kSuccess;
  for (const Ref<Adapter>& adapter : adapters) {
    const Result<dxgk::Handle> handle = process.handles().insert(adapter);
    if (!handle.has_value()) {
      status = handle.error();
      break;
    }
    D3DKMT_ADAPTERINFO info = {};
    info.hAdapter = *handle;
    info.AdapterLuid = to_luid(adapter->core().luid());
    info.NumOfSources = adapter->core().facts().start.video_present_sources;
    infos.push_back(info);
  }
  if (is_success(status) && !give<&D3DKMT_ENUMADAPTERS2::pAdapters>(args, infos))
    status = Status::kInvalidParameter;
  if (!is_success(status)) {
    for (const D3DKMT_ADAPTERINFO& info : infos) process.handles().erase(info.hAdapter);
    return status;
  }
  args.NumAdapters = static_cast<ULONG>(infos.size());
  return Status::kSuccess;
}

Status open_from_luid(Process& process, D3DKMT_OPENADAPTERFROMLUID& args) {
  const Ref<Adapter> adapter =
      process.system().impl().find({args.AdapterLuid.LowPart, args.AdapterLuid.HighPart});
  if (!adapter) return Status::kInvalidParameter;  // THUNK-10
  DXGKIT_ASSIGN_OR_RETURN_STATUS(args.hAdapter, process.handles().insert(adapter));
  return Status::kSuccess;
}

Status give_data(const D3DKMT_QUERYADAPTERINFO& args, const std::vector<std::byte>& data) {
  return give<&D3DKMT_QUERYADAPTERINFO::pPrivateDriverData>(args, data) ? Status::kSuccess
                                                                        : Status::kInvalidParameter;
}

/// Type UMDRIVERPRIVATE: between a user-mode driver and the driver.
Status query_driver(const D3DKMT_QUERYADAPTERINFO& args, Adapter& adapter) {
  std::vector<std::byte> data;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_QUERYADAPTERINFO::pPrivateDriverData>(args, &data));
  if (data.empty()) return Status::kInvalidParameter;
  const std::vector<std::byte> in = data;
  DXGKIT_RETURN_IF_FAILED(adapter.core().port().caps().query_umd_private(in, data));
  return give_data(args, data);
}

Status query_adapter_info(Process& process, const D3DKMT_QUERYADAPTERINFO& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  // IRQL-09: also while power changes, or sleeping; the driver answers without its hardware.
  dxgk::GatePass gate_pass(adapter->core().gate(), dxgk::GatePass::Transitions::kBeside);
  if (!gate_pass || !adapter->core().running()) return Status::kDeviceRemoved;
  if (args.Type == KMTQAITYPE_UMDRIVERPRIVATE) return query_driver(args, *adapter);
  const auto types = adapter_info_types();
  const auto type = std::ranges::find(types, args.Type, &AdapterInfoType::type);
  if (type == types.end()) return Status::kInvalidParameter;
  if (type->answer == nullptr) return Status::kNotSupported;  // THUNK-39
  const size_t bytes = args.PrivateDriverDataSize;
  if (type->at_least ? bytes < type->bytes : bytes != type->bytes) return Status::kInvalidParameter;
  std::vector<std::byte> data;
  DXGKIT_RETURN_IF_FAILED(
      capture_two_way<&D3DKMT_QUERYADAPTERINFO::pPrivateDriverData>(args, &data));
  DXGKIT_RETURN_IF_FAILED(type->answer({process, *adapter}, data));
  return give_data(args, data);
}

/// Private data of a form that the kernel knows, with the driver's handle in place of the client's
/// (SYNC-43).
Status complete_known_escape(Process& process, Adapter& adapter, std::span<std::byte> data) {
  D3DDDI_DRIVERESCAPE_CPUEVENTUSAGE usage;
  if (data.size() < sizeof usage.EscapeType) return Status::kInvalidParameter;
  std::memcpy(&usage.EscapeType, data.data(), sizeof usage.EscapeType);
  // Handles of a virtual machine are translated in virtual machines only.
  if (usage.EscapeType != D3DDDI_DRIVERESCAPETYPE_CPUEVENTUSAGE) return Status::kNotSupported;
  if (data.size() != sizeof usage) return Status::kInvalidParameter;
  std::memcpy(&usage, data.data(), sizeof usage);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<dxgk::SyncObject> object,
                                 process.handles().find<dxgk::SyncObject>(usage.hSyncObject));
  if (&object->floor() != &adapter.floor() || object->shared->cpu_event == 0)
    return Status::kInvalidParameter;
  usage.hKmdCpuEvent = reinterpret_cast<uintptr_t>(
      adapter.floor().cpu_events->driver_handle(object->shared->cpu_event));
  std::memcpy(data.data(), &usage, sizeof usage);
  return Status::kSuccess;
}

Status escape(Process& process, const D3DKMT_ESCAPE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  Ref<dxgk::Device> device;
  Ref<dxgk::Context> context;
  if (args.hDevice != 0) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(device, process.handles().find<dxgk::Device>(args.hDevice));
    if (&device->adapter() != adapter.get()) return Status::kInvalidParameter;
  }
  if (args.hContext != 0) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(context, process.handles().find<dxgk::Context>(args.hContext));
    if (!device || &context->device() != device.get()) return Status::kInvalidParameter;
  }
  DXGKIT_ENTER(*adapter);
  std::optional<dxgk::GatePass> device_pass, context_pass;  // they stay while the driver has them
  if (device && (!device_pass.emplace(device->gate()) || device->lost()))
    return Status::kDeviceRemoved;
  if (context && !context_pass.emplace(context->gate())) return Status::kInvalidParameter;
  if (args.Type != D3DKMT_ESCAPE_DRIVERPRIVATE) return Status::kInvalidParameter;
  constexpr uint32_t kHardwareAccess = 1U << 0, kDriverKnownEscape = 1U << 6;
  if ((args.Flags.Value & ~(kHardwareAccess | kDriverKnownEscape)) != 0)
    return Status::kInvalidParameter;
  std::vector<std::byte> data;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_ESCAPE::pPrivateDriverData>(args, &data));
  if ((args.Flags.Value & kDriverKnownEscape) != 0)
    DXGKIT_RETURN_IF_FAILED(complete_known_escape(process, *adapter, data));
  const auto ask = [&] {
    return adapter->core().port().objects().escape(device ? device->driver_handle() : nullptr,
                                                   context ? context->driver_handle() : nullptr,
                                                   args.Flags.Value, data);
  };
  // THUNK-32
  DXGKIT_RETURN_IF_FAILED(
      (args.Flags.Value & kHardwareAccess) != 0 ? dxgk::level_two(adapter->floor(), ask) : ask());
  return give<&D3DKMT_ESCAPE::pPrivateDriverData>(args, data) ? Status::kSuccess
                                                              : Status::kInvalidParameter;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTEnumAdapters2(const D3DKMT_ENUMADAPTERS2* args) {
  return call<D3DKMTEnumAdapters2>(args, dxgkit::thunks::enum_adapters);
}

NTSTATUS APIENTRY D3DKMTOpenAdapterFromLuid(const D3DKMT_OPENADAPTERFROMLUID* args) {
  return call<D3DKMTOpenAdapterFromLuid>(args, dxgkit::thunks::open_from_luid);
}

NTSTATUS APIENTRY D3DKMTCloseAdapter(const D3DKMT_CLOSEADAPTER* args) {
  return call<D3DKMTCloseAdapter>(
      args, [](dxgkit::dxgk::Process& process, const D3DKMT_CLOSEADAPTER& in) {
        const auto adapter = process.handles().take<dxgkit::dxgk::Adapter>(in.hAdapter);
        return adapter.has_value() ? dxgkit::Status::kSuccess : adapter.error();
      });
}

NTSTATUS APIENTRY D3DKMTQueryAdapterInfo(const D3DKMT_QUERYADAPTERINFO* args) {
  return call<D3DKMTQueryAdapterInfo>(args, dxgkit::thunks::query_adapter_info);
}

NTSTATUS APIENTRY D3DKMTEscape(const D3DKMT_ESCAPE* args) {
  return call<D3DKMTEscape>(args, dxgkit::thunks::escape);
}

}  // extern "C"
