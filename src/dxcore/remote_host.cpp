// host.h for a program whose kernels are in processes of their own, one for each adapter of a
// server (remote_adapters.h). A call goes to the adapter that its arguments name. Some are for all.
#include <ntstatus.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "arguments/table.h"
#include "base/guarded_copy.h"
#include "dxcore/host.h"
#include "dxcore/remote_adapters.h"
#include "wire/remote_call.h"

namespace dxgkit::dxcore {
namespace {

/// Calls with which a program looks for adapters, as after the arrival of a new one.
bool looks_for_adapters(uint32_t function) {
  static const std::vector<bool> looks = [] {
    std::vector<bool> all;
    for (const arguments::Function& one : arguments::functions()) {
      const std::string_view name = one.name;
      all.push_back(name == "D3DKMTOpenAdapterFromLuid" || name.starts_with("D3DKMTEnumAdapters"));
    }
    return all;
  }();
  return looks[function];
}

/// Names that belong to no adapter: each kernel is asked, until one knows the name.
constexpr std::array<std::string_view, 5> kByName = {
    "D3DKMTOpenAdapterFromDeviceName", "D3DKMTOpenAdapterFromGdiDisplayName",
    "D3DKMTOpenAdapterFromHdc", "D3DKMTOpenNtHandleFromName",
    "D3DKMTOpenSyncObjectNtHandleFromName"};

int64_t call_by_name(const RemoteAdapters& adapters, uint32_t function, void* arguments) {
  int64_t refusal = NTSTATUS{STATUS_DEVICE_REMOVED};
  bool is_refused = false;
  adapters.visit([&](RemoteAdapter& one) {
    const int64_t result = one.call(function, arguments);
    if (!is_refused || result >= 0) refusal = result;
    is_refused = true;
    return result < 0;
  });
  return refusal;
}

/// Adapters of one kernel, with handles, as D3DKMTEnumAdapters2 and 3 tell of them.
template <typename Arguments>
NTSTATUS add_adapters_of(RemoteAdapter& adapter, uint32_t function, const Arguments& arguments,
                         std::vector<D3DKMT_ADAPTERINFO>* infos) {
  std::array<D3DKMT_ADAPTERINFO, RemoteAdapters::kMost> some = {};
  Arguments args = arguments;
  args.NumAdapters = some.size();
  args.pAdapters = some.data();
  const auto status = static_cast<NTSTATUS>(adapter.call(function, &args));
  if (status < 0) return status;
  infos->insert(infos->end(), some.begin(),
                some.begin() + std::min<size_t>(args.NumAdapters, some.size()));
  return status;
}
NTSTATUS add_adapters_of(RemoteAdapter& adapter, uint32_t function, const D3DKMT_ENUMADAPTERS&,
                         std::vector<D3DKMT_ADAPTERINFO>* infos) {
  D3DKMT_ENUMADAPTERS args = {};
  const auto status = static_cast<NTSTATUS>(adapter.call(function, &args));
  if (status < 0) return status;
  infos->insert(infos->end(), args.Adapters,
                args.Adapters + std::min<size_t>(args.NumAdapters, std::size(args.Adapters)));
  return status;
}

/// The adapters of all kernels. A kernel that is lost meanwhile has none.
template <typename Arguments>
NTSTATUS enumerate(const RemoteAdapters& adapters, uint32_t function, const Arguments& arguments,
                   std::vector<D3DKMT_ADAPTERINFO>* infos) {
  NTSTATUS status = STATUS_SUCCESS;
  adapters.visit([&](RemoteAdapter& one) {
    status = add_adapters_of(one, function, arguments, infos);
    if (status == STATUS_DEVICE_REMOVED) status = STATUS_SUCCESS;
    return status >= 0;
  });
  return status;
}

void close_all(const RemoteAdapters& adapters, const std::vector<D3DKMT_ADAPTERINFO>& infos) {
  const uint32_t close = arguments::number_of("D3DKMTCloseAdapter");
  for (const D3DKMT_ADAPTERINFO& info : infos) {
    D3DKMT_CLOSEADAPTER args = {.hAdapter = info.hAdapter};
    RemoteAdapter* const owner = adapters.adapter_for(close, &args);
    if (owner != nullptr) static_cast<void>(owner->call(close, &args));
  }
}

/// Puts what was found where the caller wants it.
template <typename Arguments>
NTSTATUS give(const std::vector<D3DKMT_ADAPTERINFO>& infos, Arguments* args) {
  if (args->NumAdapters < infos.size()) return STATUS_BUFFER_TOO_SMALL;
  args->NumAdapters = static_cast<ULONG>(infos.size());
  return guarded_copy(args->pAdapters, infos.data(), infos.size() * sizeof(D3DKMT_ADAPTERINFO))
             ? STATUS_SUCCESS
             : STATUS_INVALID_PARAMETER;
}
NTSTATUS give(const std::vector<D3DKMT_ADAPTERINFO>& infos, D3DKMT_ENUMADAPTERS* args) {
  *args = {};
  if (infos.size() > std::size(args->Adapters)) return STATUS_BUFFER_TOO_SMALL;
  args->NumAdapters = static_cast<ULONG>(infos.size());
  std::ranges::copy(infos, args->Adapters);
  return STATUS_SUCCESS;
}

/// A function that lists adapters, as a kernel with all of these would answer.
template <typename Arguments>
NTSTATUS enumerate_all(const RemoteAdapters& adapters, uint32_t function, void* arguments) {
  Arguments args;
  if (!guarded_copy(&args, arguments, sizeof args)) return STATUS_INVALID_PARAMETER;
  if (!guarded_probe(arguments, sizeof args)) return STATUS_INVALID_PARAMETER;
  std::vector<D3DKMT_ADAPTERINFO> infos;
  NTSTATUS status = enumerate(adapters, function, args, &infos);
  if (status >= 0) status = give(infos, &args);
  if (status >= 0 && !guarded_copy(arguments, &args, sizeof args))
    status = STATUS_INVALID_PARAMETER;
  if (status < 0) close_all(adapters, infos);
  return status;
}

/// Whether the caller asks for a list, rather than how long one may be.
template <typename Arguments>
bool has_list(const void* arguments) {
  Arguments args;
  return guarded_copy(&args, arguments, sizeof args) && args.pAdapters != nullptr;
}

/// nullopt: the call is one for a single kernel.
std::optional<int64_t> call_for_all(const RemoteAdapters& adapters, uint32_t function,
                                    std::string_view name, void* arguments) {
  if (std::ranges::find(kByName, name) != kByName.end())
    return call_by_name(adapters, function, arguments);
  if (name == "D3DKMTEnumAdapters")
    return enumerate_all<D3DKMT_ENUMADAPTERS>(adapters, function, arguments);
  if (name == "D3DKMTEnumAdapters2" && has_list<D3DKMT_ENUMADAPTERS2>(arguments))
    return enumerate_all<D3DKMT_ENUMADAPTERS2>(adapters, function, arguments);
  if (name == "D3DKMTEnumAdapters3" && has_list<D3DKMT_ENUMADAPTERS3>(arguments))
    return enumerate_all<D3DKMT_ENUMADAPTERS3>(adapters, function, arguments);
  return std::nullopt;
}

}  // namespace

struct ThreadRecord {};

Call::Call() {
  if (!RemoteAdapters::of_this_process().connected()) refusal_ = STATUS_NOT_SUPPORTED;
}

Call::~Call() = default;

uint64_t Call::kernel() const { return RemoteAdapters::of_this_process().number(); }

}  // namespace dxgkit::dxcore

namespace dxgkit::wire {

int64_t remote_call(uint32_t function, void* arguments) {
  using dxcore::RemoteAdapters;
  const RemoteAdapters& adapters = dxcore::looks_for_adapters(function)
                                       ? RemoteAdapters::after_a_look()
                                       : RemoteAdapters::of_this_process();
  if (adapters.has_several()) {
    const auto result =
        dxcore::call_for_all(adapters, function, functions()[function].name, arguments);
    if (result.has_value()) return *result;
  }
  dxcore::RemoteAdapter* const adapter = adapters.adapter_for(function, arguments);
  if (adapter == nullptr) return NTSTATUS{STATUS_DEVICE_REMOVED};
  return adapter->call(function, arguments);
}

}  // namespace dxgkit::wire
