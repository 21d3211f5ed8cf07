// An adapter as DXCore shows it: properties, attributes and states, asked of the kernel by D3DKMT.
#pragma once

#include <atomic>
#include <expected>
#include <vector>

#include "dxcore/dxcore_interface.h"

namespace dxgkit::dxcore {

class Call;

/// A property or a state as the bytes that a client gets, or why there are none.
using Answer = std::expected<std::vector<std::byte>, HRESULT>;

/// Methods: any thread. Each is a Call of its own (host.h). There is one object for each LUID.
class Adapter final : public IDXCoreAdapter {
 public:
  /// The adapter with a new reference. Null: there is none with this LUID, or no kernel.
  static Adapter* open(const LUID& luid);

  HRESULT QueryInterface(const GUID& iid, void** object) override;
  uint32_t AddRef() override;
  uint32_t Release() override;
  bool IsValid() override;
  bool IsAttributeSupported(const GUID& attribute) override;
  bool IsPropertySupported(DXCoreAdapterProperty property) override;
  HRESULT GetProperty(DXCoreAdapterProperty property, size_t bytes, void* data) override;
  HRESULT GetPropertySize(DXCoreAdapterProperty property, size_t* bytes) override;
  bool IsQueryStateSupported(DXCoreAdapterState state) override;
  HRESULT QueryState(DXCoreAdapterState state, size_t input_bytes, const void* input,
                     size_t output_bytes, void* output) override;
  bool IsSetStateSupported(DXCoreAdapterState state) override;
  HRESULT SetState(DXCoreAdapterState state, size_t input_bytes, const void* input,
                   size_t data_bytes, const void* data) override;
  HRESULT GetFactory(const GUID& iid, void** factory) override;

  LUID luid() const { return luid_; }
  /// Properties as numbers, for sorting; 0 if the adapter does not answer.
  uint64_t number(DXCoreAdapterProperty property);

 private:
  Adapter(const LUID& luid, D3DKMT_HANDLE handle, uint64_t kernel)
      : luid_(luid), handle_(handle), kernel_(kernel) {}
  ~Adapter() = default;

  /// Whether the kernel that has the adapter cannot be asked: it ends, or belongs to the parent.
  bool refused(const Call& call) const;

  Answer property(DXCoreAdapterProperty property) const;
  Answer description() const;
  Answer budget(const DXCoreAdapterMemoryBudgetNodeSegmentGroup& group) const;
  /// One question of D3DKMTQueryAdapterInfo.
  template <typename T>
  std::expected<T, HRESULT> ask(KMTQUERYADAPTERINFOTYPE type, T value = {}) const;

  const LUID luid_;
  const D3DKMT_HANDLE handle_;
  const uint64_t kernel_;
  std::atomic<uint32_t> references_{1};
};

/// What IUnknown::QueryInterface answers for an object with one interface, which gets a reference.
HRESULT query_interface(IUnknown& object, const GUID& own, const GUID& iid, void** result);

}  // namespace dxgkit::dxcore
