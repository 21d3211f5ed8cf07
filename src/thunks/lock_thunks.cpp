// CPU access: Lock2 and the old Lock, their unlocks, cache invalidation.
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Device;
using dxgk::OpenedAllocation;
using dxgk::Process;
using dxgk::Ref;

// D3DDDICB_LOCKFLAGS.
constexpr UINT kReadOnly = 1U << 0, kWriteOnly = 1U << 1, kDonotWait = 1U << 2,
               kIgnoreSync = 1U << 3, kLockEntire = 1U << 4, kDonotEvict = 1U << 5,
               kAcquireAperture = 1U << 6, kDiscard = 1U << 7, kUseAlternateVa = 1U << 9,
               kIgnoreReadSync = 1U << 10;
constexpr UINT kDefinedFlags = (1U << 11) - 1;

Status lock2(Process& process, D3DKMT_LOCK2& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  DXGKIT_ENTER(device->adapter());
  if (args.Flags.Value != 0) return Status::kInvalidParameter;  // ALLOC-40
  DXGKIT_ASSIGN_OR_RETURN_STATUS(args.pData, device->locks().lock(args.hAllocation));
  return Status::kSuccess;
}

Status unlock2(Process& process, const D3DKMT_UNLOCK2& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  DXGKIT_ENTER(device->adapter());
  return device->locks().unlock(args.hAllocation);
}

Status check_lock_flags(UINT flags) {
  if ((flags & ~kDefinedFlags) != 0) return Status::kInvalidParameter;  // THUNK-03
  const auto both = [flags](UINT pair) { return (flags & pair) == pair; };
  // ALLOC-37
  if (both(kReadOnly | kWriteOnly)) return Status::kInvalidParameter;
  if (both(kIgnoreSync | kAcquireAperture)) return Status::kInvalidParameter;
  if ((flags & kUseAlternateVa) != 0 && (flags & kAcquireAperture) == 0)
    return Status::kInvalidParameter;
  return Status::kSuccess;
}

Status lock(Process& process, D3DKMT_LOCK& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  DXGKIT_ENTER(device->adapter());
  const UINT flags = args.Flags.Value;
  DXGKIT_RETURN_IF_FAILED(check_lock_flags(flags));
  std::vector<UINT> pages;
  if ((flags & kLockEntire) == 0)
    DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_LOCK::pPages>(args, &pages));
  dxgk::LockRequest request{.allocation = args.hAllocation,
                            .private_data = args.PrivateDriverData,
                            .pages = pages,
                            .do_not_wait = (flags & kDonotWait) != 0,
                            .ignore_sync = (flags & kIgnoreSync) != 0,
                            .ignore_read_sync = (flags & kIgnoreReadSync) != 0,
                            .do_not_evict = (flags & kDonotEvict) != 0,
                            .acquire_aperture = (flags & kAcquireAperture) != 0,
                            .alternate_va = (flags & kUseAlternateVa) != 0,
                            .discard = (flags & kDiscard) != 0};
  DXGKIT_ASSIGN_OR_RETURN_STATUS(args.pData, device->locks().lock_legacy(request));
  args.hAllocation = request.allocation;
  args.GpuVirtualAddress = 0;
  return Status::kSuccess;
}

Status unlock(Process& process, const D3DKMT_UNLOCK& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  DXGKIT_ENTER(device->adapter());
  std::vector<D3DKMT_HANDLE> handles;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_UNLOCK::phAllocations>(args, &handles));
  if (handles.empty()) return Status::kInvalidParameter;
  return device->locks().unlock_all(handles);
}

/// THUNK-34: this host is coherent, there is nothing to write back.
Status invalidate_cache(Process& process, const D3DKMT_INVALIDATECACHE& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<OpenedAllocation> opened,
                                 process.handles().find<OpenedAllocation>(args.hAllocation));
  if (opened->device.get() != &device->memory()) return Status::kInvalidParameter;
  Status status = Status::kInvalidParameter;
  device->adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (opened->closing) return;
    if (range_within(args.Offset, args.Length, opened->allocation->size_bytes))
      status = Status::kSuccess;
  });
  return status;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTLock2(D3DKMT_LOCK2* args) {
  return call<D3DKMTLock2>(args, dxgkit::thunks::lock2);
}
NTSTATUS APIENTRY D3DKMTUnlock2(const D3DKMT_UNLOCK2* args) {
  return call<D3DKMTUnlock2>(args, dxgkit::thunks::without_removal<dxgkit::thunks::unlock2>);
}
NTSTATUS APIENTRY D3DKMTLock(D3DKMT_LOCK* args) {
  return call<D3DKMTLock>(args, dxgkit::thunks::lock);
}
NTSTATUS APIENTRY D3DKMTUnlock(const D3DKMT_UNLOCK* args) {
  return call<D3DKMTUnlock>(args, dxgkit::thunks::without_removal<dxgkit::thunks::unlock>);
}
NTSTATUS APIENTRY D3DKMTInvalidateCache(const D3DKMT_INVALIDATECACHE* args) {
  return call<D3DKMTInvalidateCache>(args, dxgkit::thunks::invalidate_cache);
}

}  // extern "C"
