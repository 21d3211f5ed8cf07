// A client as a user-mode driver: the runtime's objects of its adapter and device, and the tables
// that such a driver gets.
#pragma once

#include <d3dumddi.h>

#include "tests/contract/fixture.h"
#include "umd/callbacks.h"
#include "umd/hresult.h"
#include "umd/runtime_objects.h"

namespace dxgkit::contract {

struct UserDriver {
  explicit UserDriver(Client& client_in, UINT version = D3D_UMD_INTERFACE_VERSION)
      : client(client_in), adapter(client_in.adapter, version), device(adapter, client_in.device) {}

  Client& client;
  umd::RuntimeAdapter adapter;
  umd::RuntimeDevice device;

  const D3DDDI_DEVICECALLBACKS& table() const { return device.callbacks(); }
  HANDLE handle() { return device.handle(); }

  /// A callback of the device.
  template <typename Args>
  HRESULT call(HRESULT (*callback)(HANDLE, Args*), std::type_identity_t<Args>* args) {
    return call_with(handle(), callback, args);
  }
  /// A callback of the adapter.
  template <typename Args>
  HRESULT ask(HRESULT (*callback)(HANDLE, Args*), std::type_identity_t<Args>* args) {
    return call_with(adapter.handle(), callback, args);
  }
  /// With the GPU at work, as it may block.
  template <typename Args>
  HRESULT waiting(HRESULT (*callback)(HANDLE, Args*), std::type_identity_t<Args>* args) {
    HRESULT result = E_FAIL;
    client.stack.blocking([&] { result = call(callback, args); });
    return result;
  }
  template <typename Args>
  HRESULT call_with(HANDLE object, HRESULT (*callback)(HANDLE, Args*),
                    std::type_identity_t<Args>* args) {
    HRESULT result = E_FAIL;
    client.as_client([&] { result = callback(object, args); });
    return result;
  }

  HRESULT allocate(D3DKMT_HANDLE* out, HANDLE resource = nullptr,
                   const ScriptedAllocation& description = {}) {
    ScriptedAllocation data = description;
    D3DDDI_ALLOCATIONINFO info{};
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    D3DDDICB_ALLOCATE args{};
    args.hResource = resource;
    args.NumAllocations = 1;
    args.pAllocationInfo = &info;
    const HRESULT result = call(table().pfnAllocateCb, &args);
    *out = info.hAllocation;
    return result;
  }
  D3DKMT_HANDLE make_allocation(HANDLE resource = nullptr,
                                const ScriptedAllocation& description = {}) {
    D3DKMT_HANDLE handle = 0;
    EXPECT_EQ(allocate(&handle, resource, description), S_OK);
    EXPECT_NE(handle, 0U);
    return handle;
  }
  D3DDDICB_CREATECONTEXT make_context() {
    D3DDDICB_CREATECONTEXT args{};
    EXPECT_EQ(call(table().pfnCreateContextCb, &args), S_OK);
    return args;
  }
};

inline HANDLE as_handle(uintptr_t value) { return reinterpret_cast<HANDLE>(value); }

/// Memory that no process has.
template <typename Args>
Args* nowhere() {
  return reinterpret_cast<Args*>(uintptr_t{0x10000});
}

}  // namespace dxgkit::contract
