// Synchronisation objects as clients make, open and watch them.
#pragma once

#include <unistd.h>

#include <atomic>
#include <vector>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {

namespace sync_flag {
inline constexpr UINT kShared = 1, kNtSharing = 2, kTopOfPipeline = 8, kNoSignal = 16, kNoWait = 32,
                      kNoSignalMaxValueOnTdr = 64, kNoGpuAccess = 128;
inline constexpr UINT kNt = kShared | kNtSharing;
}  // namespace sync_flag

inline constexpr NTSTATUS kDenied = nt_status(Status::kAccessDenied);
inline constexpr NTSTATUS kRemoved = nt_status(Status::kDeviceRemoved);
inline constexpr NTSTATUS kBadHandle = nt_status(Status::kInvalidHandle);
inline constexpr NTSTATUS kTimedOut = 0x102;
inline constexpr NTSTATUS kTypeMismatch = static_cast<NTSTATUS>(0xC0000024);

/// A monitored fence, or an attempt at one.
struct MonitoredFence {
  NTSTATUS status = 0;
  D3DKMT_HANDLE handle = 0;
  void* cpu = nullptr;
  uint64_t gpu = 0;
  uint64_t value() const {
    return std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(cpu)).load(std::memory_order_acquire);
  }
  uint32_t value32() const {
    return std::atomic_ref<uint32_t>(*static_cast<uint32_t*>(cpu)).load(std::memory_order_acquire);
  }
};

inline MonitoredFence create_fence(Client& client, UINT flags, uint64_t initial = 0,
                                   D3DKMT_HANDLE device = 0) {
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
  args.hDevice = device == 0 ? client.device : device;
  args.Info.Type = D3DDDI_MONITORED_FENCE;
  args.Info.Flags.Value = flags;
  args.Info.MonitoredFence.InitialFenceValue = initial;
  MonitoredFence fence;
  client.stack.blocking([&] {
    fence.status = client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); });
  });
  fence.handle = args.hSyncObject;
  fence.cpu = args.Info.MonitoredFence.FenceValueCPUVirtualAddress;
  fence.gpu = args.Info.MonitoredFence.FenceValueGPUVirtualAddress;
  return fence;
}

inline NTSTATUS share(Client& client, std::vector<D3DKMT_HANDLE> handles, HANDLE* out,
                      DWORD access = 0x1000'0000) {
  return client.call([&] {
    return D3DKMTShareObjects(static_cast<UINT>(handles.size()), handles.data(), nullptr, access,
                              out);
  });
}

inline int fd_of(HANDLE handle) { return static_cast<int>(reinterpret_cast<uintptr_t>(handle)); }

inline MonitoredFence open_fence(Client& client, HANDLE handle, UINT flags = 0,
                                 D3DKMT_HANDLE device = 0) {
  D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 args{};
  args.hNtHandle = handle;
  args.hDevice = device == 0 ? client.device : device;
  args.Flags.Value = flags;
  MonitoredFence fence;
  client.stack.blocking([&] {
    fence.status = client.call([&] { return D3DKMTOpenSyncObjectFromNtHandle2(&args); });
  });
  fence.handle = args.hSyncObject;
  fence.cpu = args.MonitoredFence.FenceValueCPUVirtualAddress;
  fence.gpu = args.MonitoredFence.FenceValueGPUVirtualAddress;
  return fence;
}

inline NTSTATUS destroy_sync(Client& client, D3DKMT_HANDLE handle) {
  D3DKMT_DESTROYSYNCHRONIZATIONOBJECT args{handle};
  return client.call([&] { return D3DKMTDestroySynchronizationObject(&args); });
}

/// The same for one device of several.
inline NTSTATUS signal_on(Client& client, D3DKMT_HANDLE device, D3DKMT_HANDLE object,
                          uint64_t value) {
  const UINT64 fence = value;
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU args{};
  args.hDevice = device;
  args.ObjectCount = 1;
  args.ObjectHandleArray = &object;
  args.FenceValueArray = &fence;
  return client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&args); });
}

/// Closes what ShareObjects gave, at the end of a scope.
class SharedHandle {
 public:
  SharedHandle() = default;
  ~SharedHandle() { close(); }
  SharedHandle(const SharedHandle&) = delete;
  SharedHandle& operator=(const SharedHandle&) = delete;
  void close() {
    if (handle != nullptr) ::close(fd_of(handle));
    handle = nullptr;
  }
  HANDLE handle = nullptr;
};

}  // namespace dxgkit::contract
