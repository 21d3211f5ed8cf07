#include "dxcore/adapter.h"

#include <ntstatus.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "dxcore/factory.h"
#include "dxcore/host.h"
#include "dxcore/kernel.h"
#include "dxcore/wide_characters.h"
#include "runtime/host_thread.h"

namespace dxgkit::dxcore {
namespace {

bool same(const GUID& a, const GUID& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

HRESULT hresult_of(NTSTATUS status) {
  return status == STATUS_DEVICE_REMOVED ? kDeviceRemoved : kUnsupported;
}

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string utf8(std::u16string_view text) {
  std::vector<char32_t> characters(text.size());
  characters.resize(widen(text, characters));
  std::string out;
  for (const char32_t character : characters) {
    const auto put = [&](uint32_t bits) { out.push_back(static_cast<char>(bits)); };
    const auto tail = [&](int shift) { put(0x80 | ((character >> shift) & 0x3F)); };
    if (character < 0x80) {
      put(character);
    } else if (character < 0x800) {
      put(0xC0 | (character >> 6)), tail(0);
    } else if (character < 0x10000) {
      put(0xE0 | (character >> 12)), tail(6), tail(0);
    } else {
      put(0xF0 | (character >> 18)), tail(12), tail(6), tail(0);
    }
  }
  return out;
}

/// The adapters of one kernel that somebody holds.
struct Opened {
  const uint64_t kernel;
  runtime::HostMutex mutex;
  std::map<uint64_t, Adapter*> adapters;
};
/// They are never freed: clients release adapters at any time, also at exit. A forked child does
/// not touch those of its parent, which another thread may have been changing.
Opened& opened(const Call& call) {
  static std::atomic<Opened*> current{nullptr};
  Opened* all = current.load();
  if (all != nullptr && all->kernel == call.kernel()) return *all;
  auto* const made = new Opened{.kernel = call.kernel(), .mutex = {}, .adapters = {}};
  if (current.compare_exchange_strong(all, made)) return *made;
  delete made;
  return *all;
}
uint64_t key_of(const LUID& luid) {
  return uint64_t{static_cast<uint32_t>(luid.HighPart)} << 32 | luid.LowPart;
}

}  // namespace

HRESULT query_interface(IUnknown& object, const GUID& own, const GUID& iid, void** result) {
  if (result == nullptr) return kBadPointer;
  *result = nullptr;
  if (!same(iid, own) && !same(iid, kIUnknown)) return kNoInterface;
  object.AddRef();
  *result = &object;
  return kOk;
}

Adapter* Adapter::open(const LUID& luid) {
  const Call call;
  if (call.refusal() != 0) return nullptr;
  Opened& all = opened(call);
  const runtime::HostMutexLock lock(all.mutex);
  Adapter*& known = all.adapters[key_of(luid)];
  if (known != nullptr) {
    known->AddRef();
    return known;
  }
  D3DKMT_OPENADAPTERFROMLUID open = {.AdapterLuid = luid, .hAdapter = 0};
  if (kernel_D3DKMTOpenAdapterFromLuid(&open) < 0) {
    all.adapters.erase(key_of(luid));
    return nullptr;
  }
  known = new Adapter(luid, open.hAdapter, call.kernel());
  return known;
}

HRESULT Adapter::QueryInterface(const GUID& iid, void** object) {
  return query_interface(*this, kIDXCoreAdapter, iid, object);
}

uint32_t Adapter::AddRef() { return references_.fetch_add(1) + 1; }

bool Adapter::refused(const Call& call) const {
  return call.refusal() != 0 || call.kernel() != kernel_;
}

uint32_t Adapter::Release() {
  const Call call;
  if (refused(call)) return references_.fetch_sub(1) - 1;  // its kernel closes it, or has closed it
  {
    Opened& all = opened(call);
    const runtime::HostMutexLock lock(all.mutex);
    if (const uint32_t left = references_.fetch_sub(1) - 1; left != 0) return left;
    all.adapters.erase(key_of(luid_));
  }
  const D3DKMT_CLOSEADAPTER close = {.hAdapter = handle_};
  static_cast<void>(kernel_D3DKMTCloseAdapter(&close));
  delete this;
  return 0;
}

template <typename T>
std::expected<T, HRESULT> Adapter::ask(KMTQUERYADAPTERINFOTYPE type, T value) const {
  const D3DKMT_QUERYADAPTERINFO question = {.hAdapter = handle_,
                                            .Type = type,
                                            .pPrivateDriverData = &value,
                                            .PrivateDriverDataSize = sizeof value};
  if (const NTSTATUS status = kernel_D3DKMTQueryAdapterInfo(&question); status < 0)
    return std::unexpected(hresult_of(status));
  return value;
}

bool Adapter::IsValid() {
  const Call call;
  return !refused(call) && ask<D3DKMT_ADAPTERTYPE>(KMTQAITYPE_ADAPTERTYPE).has_value();
}

/// Which Direct3D a driver has is its user-mode half's answer on Windows. Here it follows from what
/// the kernel knows: a driver that renders is one for graphics, and Direct3D 12 needs WDDM 2.0.
bool Adapter::IsAttributeSupported(const GUID& attribute) {
  const Call call;
  if (refused(call)) return false;
  const auto type = ask<D3DKMT_ADAPTERTYPE>(KMTQAITYPE_ADAPTERTYPE);
  const auto version = ask<D3DKMT_DRIVERVERSION>(KMTQAITYPE_DRIVERVERSION);
  if (!type.has_value() || !version.has_value() || type->RenderSupported == 0) return false;
  const bool wddm2 = *version >= KMT_DRIVERVERSION_WDDM_2_0;
  if (same(attribute, kD3D11Graphics)) return type->ComputeOnly == 0;
  if (same(attribute, kD3D12Graphics)) return type->ComputeOnly == 0 && wddm2;
  return same(attribute, kD3D12CoreCompute) && wddm2;
}

Answer Adapter::description() const {
  const auto answer = ask<D3DKMT_DRIVER_DESCRIPTION>(KMTQAITYPE_DRIVER_DESCRIPTION);
  if (!answer.has_value()) return std::unexpected(answer.error());
  const std::u16string_view whole(answer->DriverDescription, std::size(answer->DriverDescription));
  const std::string text = utf8(whole.substr(0, whole.find(u'\0')));
  std::vector<std::byte> bytes(text.size() + 1);
  std::memcpy(bytes.data(), text.c_str(), bytes.size());
  return bytes;
}

Answer Adapter::property(DXCoreAdapterProperty property) const {
  /// The kernel's answer of one type, and what of it is the property.
  const auto from = [this]<typename T>(KMTQUERYADAPTERINFOTYPE type, T, auto&& part) -> Answer {
    const auto all = ask<T>(type);
    if (!all.has_value()) return std::unexpected(all.error());
    return bytes_of(part(*all));
  };
  const auto memory = [&](auto member) {
    return from(KMTQAITYPE_GETSEGMENTSIZE, D3DKMT_SEGMENTSIZEINFO{},
                [&](const auto& sizes) { return uint64_t{sizes.*member}; });
  };
  const auto adapter_type = [&](auto&& part) {
    return from(KMTQAITYPE_ADAPTERTYPE, D3DKMT_ADAPTERTYPE{}, part);
  };
  switch (property) {
    case DXCoreAdapterProperty::InstanceLuid:
      return bytes_of(luid_);
    case DXCoreAdapterProperty::DriverVersion:
      return from(KMTQAITYPE_UMD_DRIVER_VERSION, D3DKMT_UMD_DRIVER_VERSION{},
                  [](const auto& all) { return all.DriverVersion.QuadPart; });
    case DXCoreAdapterProperty::DriverDescription:
      return description();
    case DXCoreAdapterProperty::HardwareID:
      return from(
          KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, D3DKMT_QUERY_DEVICE_IDS{}, [](const auto& all) {
            const D3DKMT_DEVICE_IDS& ids = all.DeviceIds;  // the two halves of a PCI register
            return DXCoreHardwareID{ids.VendorID, ids.DeviceID,
                                    ids.SubSystemID << 16 | ids.SubVendorID, ids.RevisionID};
          });
    case DXCoreAdapterProperty::HardwareIDParts:
      return from(KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, D3DKMT_QUERY_DEVICE_IDS{},
                  [](const auto& all) {
                    const D3DKMT_DEVICE_IDS& ids = all.DeviceIds;
                    return DXCoreHardwareIDParts{ids.VendorID, ids.DeviceID, ids.SubSystemID,
                                                 ids.SubVendorID, ids.RevisionID};
                  });
    case DXCoreAdapterProperty::KmdModelVersion:
      return from(KMTQAITYPE_DRIVERVERSION, D3DKMT_DRIVERVERSION{},
                  [](D3DKMT_DRIVERVERSION version) { return version; });
    case DXCoreAdapterProperty::ComputePreemptionGranularity:
      return from(KMTQAITYPE_WDDM_1_2_CAPS, D3DKMT_WDDM_1_2_CAPS{}, [](const auto& caps) {
        return caps.PreemptionCaps.ComputePreemptionGranularity;
      });
    case DXCoreAdapterProperty::GraphicsPreemptionGranularity:
      return from(KMTQAITYPE_WDDM_1_2_CAPS, D3DKMT_WDDM_1_2_CAPS{}, [](const auto& caps) {
        return caps.PreemptionCaps.GraphicsPreemptionGranularity;
      });
    case DXCoreAdapterProperty::DedicatedAdapterMemory:
      return memory(&D3DKMT_SEGMENTSIZEINFO::DedicatedVideoMemorySize);
    case DXCoreAdapterProperty::DedicatedSystemMemory:
      return memory(&D3DKMT_SEGMENTSIZEINFO::DedicatedSystemMemorySize);
    case DXCoreAdapterProperty::SharedSystemMemory:
      return memory(&D3DKMT_SEGMENTSIZEINFO::SharedSystemMemorySize);
    case DXCoreAdapterProperty::AcgCompatible:
      return adapter_type([](const auto& type) { return type.ACGSupported != 0; });
    case DXCoreAdapterProperty::IsHardware:
      return adapter_type([](const auto& type) { return type.SoftwareDevice == 0; });
    case DXCoreAdapterProperty::IsIntegrated:
      return adapter_type([](const auto& type) { return type.HybridIntegrated != 0; });
    case DXCoreAdapterProperty::IsDetachable:
      return adapter_type([](const auto& type) { return type.Detachable != 0; });
  }
  return std::unexpected(kInvalidCall);
}

bool Adapter::IsPropertySupported(DXCoreAdapterProperty property) {
  const Call call;
  return !refused(call) && this->property(property).has_value();
}

HRESULT Adapter::GetPropertySize(DXCoreAdapterProperty property, size_t* bytes) {
  const Call call;
  if (refused(call)) return kDeviceRemoved;
  if (bytes == nullptr) return kBadPointer;
  *bytes = 0;
  const Answer answer = this->property(property);
  if (!answer.has_value()) return answer.error();
  *bytes = answer->size();
  return kOk;
}

HRESULT Adapter::GetProperty(DXCoreAdapterProperty property, size_t bytes, void* data) {
  const Call call;
  if (refused(call)) return kDeviceRemoved;
  if (data == nullptr) return kBadPointer;
  const Answer answer = this->property(property);
  if (!answer.has_value()) return answer.error();
  if (bytes < answer->size()) return kInvalidArgument;
  std::memcpy(data, answer->data(), answer->size());
  return kOk;
}

uint64_t Adapter::number(DXCoreAdapterProperty property) {
  const Call call;
  const Answer answer = !refused(call) ? this->property(property) : Answer{};
  uint64_t value = 0;
  if (answer.has_value() && !answer->empty())
    std::memcpy(&value, answer->data(), std::min(sizeof value, answer->size()));
  return value;
}

bool Adapter::IsQueryStateSupported(DXCoreAdapterState state) {
  return state == DXCoreAdapterState::IsDriverUpdateInProgress ||
         state == DXCoreAdapterState::AdapterMemoryBudget;
}

Answer Adapter::budget(const DXCoreAdapterMemoryBudgetNodeSegmentGroup& group) const {
  D3DKMT_QUERYVIDEOMEMORYINFO info = {};
  info.hAdapter = handle_;
  info.MemorySegmentGroup = static_cast<D3DKMT_MEMORY_SEGMENT_GROUP>(group.segmentGroup);
  info.PhysicalAdapterIndex = group.nodeIndex;
  const NTSTATUS status = kernel_D3DKMTQueryVideoMemoryInfo(&info);
  if (status < 0)
    return std::unexpected(status == STATUS_INVALID_PARAMETER ? kInvalidArgument
                                                              : hresult_of(status));
  return bytes_of(DXCoreAdapterMemoryBudget{info.Budget, info.CurrentUsage,
                                            info.AvailableForReservation, info.CurrentReservation});
}

HRESULT Adapter::QueryState(DXCoreAdapterState state, size_t input_bytes, const void* input,
                            size_t output_bytes, void* output) {
  const Call call;
  if (refused(call)) return kDeviceRemoved;
  if (output == nullptr) return kBadPointer;
  Answer answer = std::unexpected(kInvalidCall);
  if (state == DXCoreAdapterState::IsDriverUpdateInProgress) {
    const auto updating = ask<BOOL>(KMTQAITYPE_CHECKDRIVERUPDATESTATUS);
    if (!updating.has_value()) return updating.error();
    answer = bytes_of(static_cast<uint8_t>(*updating != FALSE));
  } else if (state == DXCoreAdapterState::AdapterMemoryBudget) {
    DXCoreAdapterMemoryBudgetNodeSegmentGroup group;
    if (input == nullptr || input_bytes < sizeof group) return kInvalidArgument;
    std::memcpy(&group, input, sizeof group);
    answer = budget(group);
  }
  if (!answer.has_value()) return answer.error();
  if (output_bytes < answer->size()) return kInvalidArgument;
  std::memcpy(output, answer->data(), answer->size());
  return kOk;
}

/// Both states say on their page that they cannot be set.
bool Adapter::IsSetStateSupported(DXCoreAdapterState) { return false; }

HRESULT Adapter::SetState(DXCoreAdapterState, size_t, const void*, size_t, const void*) {
  return kInvalidCall;
}

HRESULT Adapter::GetFactory(const GUID& iid, void** result) {
  return factory().QueryInterface(iid, result);
}

}  // namespace dxgkit::dxcore
