// The requests of /dev/dxg, as programs make them that speak to the device of Linux' own driver
// (dxgkrnl). Each has the structure of a D3DKMT function, with characters of two bytes.
#include <ntstatus.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/guarded_copy.h"
#include "dxcore/host.h"
#include "dxcore/kernel.h"

namespace dxgkit::dxcore {
namespace {

struct Request {
  uint32_t number;
  size_t bytes;  // of the structure
  NTSTATUS (*call)(void* arguments);
};

template <typename Argument>
Argument argument_of(NTSTATUS (*)(Argument));

template <auto kFunction>
constexpr Request row(uint32_t number) {
  using Argument = decltype(argument_of(kFunction));
  return {number, sizeof(*static_cast<Argument>(nullptr)),
          [](void* arguments) { return kFunction(static_cast<Argument>(arguments)); }};
}

/// D3DKMTShareObjects as one structure.
struct ShareObjects {
  UINT count;
  const D3DKMT_HANDLE* objects;
  void* attributes;
  UINT access;
  HANDLE* handle;
};

NTSTATUS share_objects(void* arguments) {
  ShareObjects own;
  if (!guarded_copy(&own, arguments, sizeof own)) return STATUS_INVALID_PARAMETER;
  return kernel_D3DKMTShareObjects(own.count, own.objects,
                                   static_cast<POBJECT_ATTRIBUTES>(own.attributes), own.access,
                                   own.handle);
}

constexpr auto kRequests = std::to_array<Request>({
    row<kernel_D3DKMTOpenAdapterFromLuid>(0x01),
    row<kernel_D3DKMTCreateDevice>(0x02),
    row<kernel_D3DKMTCreateContext>(0x03),
    row<kernel_D3DKMTCreateContextVirtual>(0x04),
    row<kernel_D3DKMTDestroyContext>(0x05),
    row<kernel_D3DKMTCreateAllocation2>(0x06),
    row<kernel_D3DKMTCreatePagingQueue>(0x07),
    row<kernel_D3DKMTReserveGpuVirtualAddress>(0x08),
    row<kernel_D3DKMTQueryAdapterInfo>(0x09),
    row<kernel_D3DKMTQueryVideoMemoryInfo>(0x0a),
    row<kernel_D3DKMTMakeResident>(0x0b),
    row<kernel_D3DKMTMapGpuVirtualAddress>(0x0c),
    row<kernel_D3DKMTEscape>(0x0d),
    row<kernel_D3DKMTGetDeviceState>(0x0e),
    row<kernel_D3DKMTSubmitCommand>(0x0f),
    row<kernel_D3DKMTCreateSynchronizationObject2>(0x10),
    row<kernel_D3DKMTSignalSynchronizationObject2>(0x11),
    row<kernel_D3DKMTWaitForSynchronizationObject2>(0x12),
    row<kernel_D3DKMTDestroyAllocation2>(0x13),
    row<kernel_D3DKMTEnumAdapters2>(0x14),
    row<kernel_D3DKMTCloseAdapter>(0x15),
    row<kernel_D3DKMTChangeVideoMemoryReservation>(0x16),
    row<kernel_D3DKMTCreateHwContext>(0x17),
    row<kernel_D3DKMTCreateHwQueue>(0x18),
    row<kernel_D3DKMTDestroyDevice>(0x19),
    row<kernel_D3DKMTDestroyHwContext>(0x1a),
    row<kernel_D3DKMTDestroyHwQueue>(0x1b),
    row<kernel_D3DKMTDestroyPagingQueue>(0x1c),
    row<kernel_D3DKMTDestroySynchronizationObject>(0x1d),
    row<kernel_D3DKMTEvict>(0x1e),
    row<kernel_D3DKMTFlushHeapTransitions>(0x1f),
    row<kernel_D3DKMTFreeGpuVirtualAddress>(0x20),
    row<kernel_D3DKMTGetContextInProcessSchedulingPriority>(0x21),
    row<kernel_D3DKMTGetContextSchedulingPriority>(0x22),
    row<kernel_D3DKMTGetSharedResourceAdapterLuid>(0x23),
    row<kernel_D3DKMTInvalidateCache>(0x24),
    row<kernel_D3DKMTLock2>(0x25),
    row<kernel_D3DKMTMarkDeviceAsError>(0x26),
    row<kernel_D3DKMTOfferAllocations>(0x27),
    row<kernel_D3DKMTOpenSynchronizationObject>(0x29),
    row<kernel_D3DKMTQueryAllocationResidency>(0x2a),
    row<kernel_D3DKMTQueryResourceInfo>(0x2b),
    row<kernel_D3DKMTReclaimAllocations2>(0x2c),
    row<kernel_D3DKMTRender>(0x2d),
    row<kernel_D3DKMTSetAllocationPriority>(0x2e),
    row<kernel_D3DKMTSetContextInProcessSchedulingPriority>(0x2f),
    row<kernel_D3DKMTSetContextSchedulingPriority>(0x30),
    row<kernel_D3DKMTSignalSynchronizationObjectFromCpu>(0x31),
    row<kernel_D3DKMTSignalSynchronizationObjectFromGpu>(0x32),
    row<kernel_D3DKMTSignalSynchronizationObjectFromGpu2>(0x33),
    row<kernel_D3DKMTSubmitCommandToHwQueue>(0x34),
    row<kernel_D3DKMTSubmitSignalSyncObjectsToHwQueue>(0x35),
    row<kernel_D3DKMTSubmitWaitForSyncObjectsToHwQueue>(0x36),
    row<kernel_D3DKMTUnlock2>(0x37),
    row<kernel_D3DKMTUpdateAllocationProperty>(0x38),
    row<kernel_D3DKMTUpdateGpuVirtualAddress>(0x39),
    row<kernel_D3DKMTWaitForSynchronizationObjectFromCpu>(0x3a),
    row<kernel_D3DKMTWaitForSynchronizationObjectFromGpu>(0x3b),
    row<kernel_D3DKMTGetAllocationPriority>(0x3c),
    row<kernel_D3DKMTQueryClockCalibration>(0x3d),
    row<kernel_D3DKMTEnumAdapters3>(0x3e),
    row<kernel_D3DKMTOpenSyncObjectFromNtHandle2>(0x40),
    row<kernel_D3DKMTQueryResourceInfoFromNtHandle>(0x41),
    row<kernel_D3DKMTOpenResourceFromNtHandle>(0x42),
    row<kernel_D3DKMTQueryStatistics>(0x43),
    row<kernel_D3DKMTShareObjectWithHost>(0x44),
    row<kernel_D3DKMTCreateSyncFile>(0x45),
    // Its list has the newer form of allocations.
    row<kernel_D3DKMTOpenResource2>(0x28),
    Request{0x3f, sizeof(ShareObjects), share_objects},
});

}  // namespace
}  // namespace dxgkit::dxcore

/// What ioctl answers for a request of /dev/dxg: the function's status. -1 and ENOTTY: there is no
/// such request, or its structure has another size.
extern "C" int dxgkit_dxg_ioctl(unsigned long request, void* arguments) {
  using dxgkit::dxcore::kRequests;
  const auto* const found =
      std::ranges::find(kRequests, _IOC_NR(request), &dxgkit::dxcore::Request::number);
  if (_IOC_TYPE(request) != 'G' || found == kRequests.end() || _IOC_SIZE(request) != found->bytes) {
    errno = ENOTTY;
    return -1;
  }
  const dxgkit::dxcore::Call call;
  return call.refusal() != 0 ? call.refusal() : found->call(arguments);
}
