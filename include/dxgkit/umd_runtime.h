// The Direct3D runtime's side of a user-mode display driver: handles and tables of callbacks.
//
//   RuntimeAdapter adapter(kernel_adapter, D3D_UMD_INTERFACE_VERSION_WDDM2_0);
//   D3DDDIARG_OPENADAPTER open = {.hAdapter = adapter.handle(), ...,
//                                 .pAdapterCallbacks = &adapter.callbacks(), ...};
//   OpenAdapter(&open);                                     // of the driver, compiled for Linux
//   RuntimeDevice device(adapter, kernel_device);
//   D3DDDIARG_CREATEDEVICE create = {.hDevice = device.handle(), ...,
//                                    .pCallbacks = &device.callbacks(), ...};
//
// Callbacks act for the process that the calling thread is attached to (ClientProcess::Attach), as
// the D3DKMT functions below them do. They answer HRESULTs; `dxgkit support` lists them with what
// they do not do. A callback that is not implemented answers the HRESULT of its row and changes
// nothing (UMD-01 to UMD-08).
#pragma once

#include <d3dkmthk.h>
#include <d3dumddi.h>

#include <memory>

namespace dxgkit {

/// An adapter that the runtime has opened for a driver. Any thread. Must outlive its devices.
class RuntimeAdapter {
 public:
  /// @param adapter  of D3DKMTOpenAdapterFromLuid or the like; the caller closes it, afterwards.
  /// @param version  D3D_UMD_INTERFACE_VERSION_* that the driver was compiled for; one between two
  ///     published ones means the older.
  RuntimeAdapter(D3DKMT_HANDLE adapter, UINT version);
  ~RuntimeAdapter();
  RuntimeAdapter(const RuntimeAdapter&) = delete;
  RuntimeAdapter& operator=(const RuntimeAdapter&) = delete;

  /// hAdapter of D3DDDIARG_OPENADAPTER.
  HANDLE handle() const;
  /// Lives as long as the object. Callbacks that the version does not have are null.
  const D3DDDI_ADAPTERCALLBACKS& callbacks() const;

 private:
  friend class RuntimeDevice;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A device that the runtime has made for a driver. Any thread, but for presents: begin_present and
/// what the driver calls until end_present is one thread's at a time.
class RuntimeDevice {
 public:
  /// @param adapter  lives as long as the device.
  /// @param device  of D3DKMTCreateDevice on the same adapter; the caller destroys it, afterwards.
  RuntimeDevice(const RuntimeAdapter& adapter, D3DKMT_HANDLE device);
  ~RuntimeDevice();
  RuntimeDevice(const RuntimeDevice&) = delete;
  RuntimeDevice& operator=(const RuntimeDevice&) = delete;

  /// hDevice of D3DDDIARG_CREATEDEVICE.
  HANDLE handle() const;
  /// Lives as long as the object. Callbacks that the version does not have are null.
  const D3DDDI_DEVICECALLBACKS& callbacks() const;

  /// The application presents: what pfnPresentCb completes with the allocations and the context
  /// that the driver gives to it. Handles in `present` are ignored. Until end_present every
  /// pfnPresentCb is a part of this present; outside of it pfnPresentCb answers E_INVALIDARG.
  void begin_present(const D3DKMT_PRESENT& present);
  void end_present();

 private:
  friend class RuntimeResource;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A resource that the application creates. The kernel's resource comes with the first
/// pfnAllocateCb that names it and goes with the pfnDeallocateCb that names it. One thread at a
/// time. Must not outlive its device.
class RuntimeResource {
 public:
  enum class Sharing { kPrivate, kShared };
  explicit RuntimeResource(const RuntimeDevice& device, Sharing sharing = Sharing::kPrivate);
  ~RuntimeResource();
  RuntimeResource(const RuntimeResource&) = delete;
  RuntimeResource& operator=(const RuntimeResource&) = delete;

  /// hResource of the driver's CreateResource.
  HANDLE handle() const;
  /// The kernel's handle; 0: it has no allocations.
  D3DKMT_HANDLE kernel_handle() const;
  /// Of a shared resource with allocations, for D3DKMTOpenResource; else 0.
  D3DKMT_HANDLE global_share() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit
