// What the Direct3D runtime keeps of an adapter, a device and a resource, and hands to a user-mode
// driver as opaque handles.
#pragma once

#include <d3dkmthk.h>
#include <d3dumddi.h>

namespace dxgkit::umd {

/// The start of every object behind a handle. A value that is no such object is recognized without
/// a crash. One that was destroyed is recognized as long as nothing else took its memory.
class RuntimeObject {
 public:
  RuntimeObject(const RuntimeObject&) = delete;
  RuntimeObject& operator=(const RuntimeObject&) = delete;
  HANDLE handle() { return this; }

 protected:
  enum class Kind : unsigned {
    kAdapter = 0x41445844,
    kDevice = 0x44565844,
    kResource = 0x53525844
  };
  explicit RuntimeObject(Kind kind) : kind_(kind), self_(this) {}
  ~RuntimeObject();
  /// Null: `handle` is none of this kind.
  static RuntimeObject* find(HANDLE handle, Kind kind);

 private:
  Kind kind_;
  const RuntimeObject* self_;
};

/// An opened adapter. Its handle is hAdapter of the adapter callbacks and of pfnEscapeCb. Any
/// thread.
class RuntimeAdapter final : public RuntimeObject {
 public:
  /// @param adapter  a D3DKMT handle, which stays its opener's.
  /// @param version  D3D_UMD_INTERFACE_VERSION_* that the driver was compiled for.
  RuntimeAdapter(D3DKMT_HANDLE adapter, UINT version);
  static const RuntimeAdapter* find(HANDLE handle);

  D3DKMT_HANDLE kernel_handle() const { return adapter_; }
  UINT version() const { return version_; }
  /// The table that the driver's OpenAdapter gets. Members of later versions are null.
  const D3DDDI_ADAPTERCALLBACKS& callbacks() const { return callbacks_; }

 private:
  const D3DKMT_HANDLE adapter_;
  const UINT version_;
  D3DDDI_ADAPTERCALLBACKS callbacks_{};
};

/// A device. Its handle is hDevice of the device callbacks. Callbacks come from any thread of the
/// client process, but for presents: begin_present and the driver's calls in answer to it are one
/// thread's at a time.
class RuntimeDevice final : public RuntimeObject {
 public:
  /// @param adapter  outlives the device.
  /// @param device  a D3DKMT handle, which stays its creator's.
  RuntimeDevice(const RuntimeAdapter& adapter, D3DKMT_HANDLE device);
  static RuntimeDevice* find(HANDLE handle);

  const RuntimeAdapter& adapter() const { return adapter_; }
  D3DKMT_HANDLE kernel_handle() const { return device_; }
  UINT version() const { return adapter_.version(); }
  /// The table that the driver's CreateDevice gets. Members of later versions are null.
  const D3DDDI_DEVICECALLBACKS& callbacks() const { return callbacks_; }

  /// The application presents: what pfnPresentCb completes with the driver's allocations and
  /// context. Handles in it are ignored. Until end_present every pfnPresentCb is a part of it.
  void begin_present(const D3DKMT_PRESENT& present);
  void end_present() { presenting_ = false; }
  /// Null: no present has begun.
  const D3DKMT_PRESENT* present() const { return presenting_ ? &present_ : nullptr; }

 private:
  const RuntimeAdapter& adapter_;
  const D3DKMT_HANDLE device_;
  D3DDDI_DEVICECALLBACKS callbacks_{};
  bool presenting_ = false;
  D3DKMT_PRESENT present_{};
};

/// A resource that the application creates. Its handle is what the driver's CreateResource gets as
/// hResource. The kernel's resource comes with the first pfnAllocateCb that names it and goes with
/// the pfnDeallocateCb that names it. One thread at a time.
class RuntimeResource final : public RuntimeObject {
 public:
  enum class Sharing { kPrivate, kShared };
  /// @param device  outlives the resource.
  explicit RuntimeResource(const RuntimeDevice& device, Sharing sharing = Sharing::kPrivate);
  static RuntimeResource* find(HANDLE handle);

  const RuntimeDevice& device() const { return device_; }
  bool shared() const { return sharing_ == Sharing::kShared; }
  /// 0: it has no allocations.
  D3DKMT_HANDLE kernel_handle() const { return resource_; }
  /// Of a shared resource with allocations; else 0.
  D3DKMT_HANDLE global_share() const { return global_share_; }
  void set(D3DKMT_HANDLE resource, D3DKMT_HANDLE global_share);

 private:
  const RuntimeDevice& device_;
  const Sharing sharing_;
  D3DKMT_HANDLE resource_ = 0, global_share_ = 0;
};

}  // namespace dxgkit::umd
