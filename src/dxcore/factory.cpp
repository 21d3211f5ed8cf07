#include "dxcore/factory.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dxcore/adapter.h"
#include "dxcore/host.h"
#include "dxcore/kernel.h"

namespace dxgkit::dxcore {
namespace {

struct Releaser {
  void operator()(Adapter* adapter) const { adapter->Release(); }
};
using AdapterReference = std::unique_ptr<Adapter, Releaser>;

/// The adapters that are there now and have all attributes, in the kernel's order.
std::vector<AdapterReference> find_adapters(std::span<const GUID> attributes) {
  std::vector<AdapterReference> found;
  const Call call;
  if (call.refusal() != 0) return found;
  D3DKMT_ENUMADAPTERS2 all = {};
  if (kernel_D3DKMTEnumAdapters2(&all) < 0) return found;
  std::vector<D3DKMT_ADAPTERINFO> infos(all.NumAdapters);
  all.pAdapters = infos.data();
  if (infos.empty() || kernel_D3DKMTEnumAdapters2(&all) < 0) return found;
  infos.resize(all.NumAdapters);
  for (const D3DKMT_ADAPTERINFO& info : infos) {
    AdapterReference adapter(Adapter::open(info.AdapterLuid));
    const D3DKMT_CLOSEADAPTER close = {.hAdapter = info.hAdapter};
    static_cast<void>(kernel_D3DKMTCloseAdapter(&close));
    const auto has = [&](const GUID& attribute) {
      return adapter->IsAttributeSupported(attribute);
    };
    if (adapter && std::ranges::all_of(attributes, has)) found.push_back(std::move(adapter));
  }
  return found;
}

/// Methods but Sort: any thread. Sort changes the list, so the client keeps others away meanwhile.
class AdapterList final : public IDXCoreAdapterList {
 public:
  explicit AdapterList(std::span<const GUID> attributes)
      : attributes_(attributes.begin(), attributes.end()), adapters_(find_adapters(attributes_)) {}

  HRESULT QueryInterface(const GUID& iid, void** object) override {
    return query_interface(*this, kIDXCoreAdapterList, iid, object);
  }
  uint32_t AddRef() override { return references_.fetch_add(1) + 1; }
  uint32_t Release() override {
    const uint32_t left = references_.fetch_sub(1) - 1;
    if (left == 0) delete this;
    return left;
  }
  HRESULT GetAdapter(uint32_t index, const GUID& iid, void** adapter) override {
    if (adapter == nullptr) return kBadPointer;
    *adapter = nullptr;
    if (index >= adapters_.size()) return kInvalidArgument;
    return adapters_[index]->QueryInterface(iid, adapter);
  }
  uint32_t GetAdapterCount() override { return static_cast<uint32_t>(adapters_.size()); }
  bool IsStale() override {
    const std::vector<AdapterReference> now = find_adapters(attributes_);
    // The kernel opens each LUID once, so equal adapters are equal objects.
    return now.size() != adapters_.size() ||
           !std::ranges::is_permutation(now, adapters_, {}, &AdapterReference::get,
                                        &AdapterReference::get);
  }
  HRESULT GetFactory(const GUID& iid, void** result) override {
    return factory().QueryInterface(iid, result);
  }
  HRESULT Sort(uint32_t count, const DXCoreAdapterPreference* preferences) override;
  bool IsAdapterPreferenceSupported(DXCoreAdapterPreference preference) override {
    return preference <= DXCoreAdapterPreference::HighPerformance;
  }

 private:
  ~AdapterList() = default;

  const std::vector<GUID> attributes_;
  std::vector<AdapterReference> adapters_;
  std::atomic<uint32_t> references_{1};
};

/// How good an adapter is by one preference: more is better.
uint64_t worth(Adapter& adapter, DXCoreAdapterPreference preference) {
  switch (preference) {
    case DXCoreAdapterPreference::Hardware:
      return adapter.number(DXCoreAdapterProperty::IsHardware);
    case DXCoreAdapterPreference::MinimumPower:
      return adapter.number(DXCoreAdapterProperty::IsIntegrated);
    case DXCoreAdapterPreference::HighPerformance:
      return adapter.number(DXCoreAdapterProperty::DedicatedAdapterMemory);
  }
  return 0;  // a preference that is not known changes nothing
}

HRESULT AdapterList::Sort(uint32_t count, const DXCoreAdapterPreference* preferences) {
  if (count == 0 || preferences == nullptr) return kInvalidArgument;
  // The first preference weighs most, so it sorts last; what is equal keeps its order.
  for (uint32_t i = count; i-- > 0;) {
    std::ranges::stable_sort(adapters_, std::greater(), [&](const AdapterReference& one) {
      return worth(*one, preferences[i]);
    });
  }
  return kOk;
}

class Factory final : public IDXCoreAdapterFactory {
 public:
  HRESULT QueryInterface(const GUID& iid, void** object) override {
    return query_interface(*this, kIDXCoreAdapterFactory, iid, object);
  }
  uint32_t AddRef() override { return references_.fetch_add(1) + 1; }
  uint32_t Release() override { return references_.fetch_sub(1) - 1; }

  HRESULT CreateAdapterList(uint32_t count, const GUID* attributes, const GUID& iid,
                            void** list) override {
    if (list == nullptr) return kBadPointer;
    *list = nullptr;
    if (count == 0 || attributes == nullptr) return kInvalidArgument;
    auto* const made = new AdapterList({attributes, count});
    const HRESULT result = made->QueryInterface(iid, list);
    made->Release();
    return result;
  }
  HRESULT GetAdapterByLuid(const LUID& luid, const GUID& iid, void** adapter) override {
    if (adapter == nullptr) return kBadPointer;
    *adapter = nullptr;
    const AdapterReference found(Adapter::open(luid));
    return found ? found->QueryInterface(iid, adapter) : kInvalidArgument;
  }
  /// None: the kernel of this process tells nobody when an adapter leaves it.
  bool IsNotificationTypeSupported(DXCoreNotificationType) override { return false; }
  HRESULT RegisterEventNotification(IUnknown*, DXCoreNotificationType, NotificationCallback, void*,
                                    uint32_t* cookie) override {
    if (cookie == nullptr) return kBadPointer;
    *cookie = 0;
    return kInvalidCall;
  }
  HRESULT UnregisterEventNotification(uint32_t) override { return kInvalidArgument; }

 private:
  std::atomic<uint32_t> references_{1};
};

}  // namespace

IDXCoreAdapterFactory& factory() {
  static auto* const one = new Factory;  // clients may hold it until the process is gone
  return *one;
}

}  // namespace dxgkit::dxcore

/// E_FAIL: this process has no kernel. Otherwise as QueryInterface of the factory.
extern "C" HRESULT DXCoreCreateAdapterFactory(const GUID& iid, void** result) {
  if (result == nullptr) return dxgkit::dxcore::kBadPointer;
  *result = nullptr;
  const dxgkit::dxcore::Call call;
  if (call.refusal() != 0) return dxgkit::dxcore::kFail;
  return dxgkit::dxcore::factory().QueryInterface(iid, result);
}
