// Client arguments are hostile: every implemented D3DKMT call, exact status, nothing changed.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "tests/contract/fixture.h"
#include "thunks/support.h"
#include "trace/causes.h"
#include "trace/trace.h"

namespace dxgkit::contract {
namespace {

using ThunkTest = ContractTest;

/// A page nobody can touch.
class Unreadable {
 public:
  Unreadable() : page_(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Unreadable() { munmap(page_, 4096); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(page_);
  }

 private:
  void* page_;
};

/// Every implemented call as "take this pointer".
struct Entry {
  const char* name;
  NTSTATUS (*call)(void* arguments);
  /// Puts `handle` where the call hangs on; null for calls without one.
  void (*hang)(void* arguments, D3DKMT_HANDLE handle);
  size_t bytes;
};
#define DXGKIT_ENTRY(call, type, member)                                                     \
  {                                                                                          \
#call, [](void* p) { return call(static_cast<type*>(p)); },                                \
        [](void* p, D3DKMT_HANDLE handle) { static_cast<type*>(p)->member = handle; }, sizeof(type) \
  }
/// A call that hangs on no handle of the process's.
#define DXGKIT_UNHUNG(call, type)                                                     \
  {                                                                                   \
#call, [](void* p) { return call(static_cast<type*>(p)); }, nullptr, sizeof(type) \
  }
const Entry kEntries[] = {
    {"D3DKMTEnumAdapters2",
     [](void* p) { return D3DKMTEnumAdapters2(static_cast<D3DKMT_ENUMADAPTERS2*>(p)); }, nullptr,
     sizeof(D3DKMT_ENUMADAPTERS2)},
    {"D3DKMTOpenAdapterFromLuid",
     [](void* p) { return D3DKMTOpenAdapterFromLuid(static_cast<D3DKMT_OPENADAPTERFROMLUID*>(p)); },
     nullptr, sizeof(D3DKMT_OPENADAPTERFROMLUID)},
    DXGKIT_ENTRY(D3DKMTCloseAdapter, D3DKMT_CLOSEADAPTER, hAdapter),
    DXGKIT_ENTRY(D3DKMTQueryAdapterInfo, D3DKMT_QUERYADAPTERINFO, hAdapter),
    DXGKIT_ENTRY(D3DKMTEscape, D3DKMT_ESCAPE, hAdapter),
    DXGKIT_ENTRY(D3DKMTCreateDevice, D3DKMT_CREATEDEVICE, hAdapter),
    DXGKIT_ENTRY(D3DKMTDestroyDevice, D3DKMT_DESTROYDEVICE, hDevice),
    DXGKIT_ENTRY(D3DKMTGetDeviceState, D3DKMT_GETDEVICESTATE, hDevice),
    DXGKIT_ENTRY(D3DKMTWaitForIdle, D3DKMT_WAITFORIDLE, hDevice),
    DXGKIT_ENTRY(D3DKMTCreateContext, D3DKMT_CREATECONTEXT, hDevice),
    DXGKIT_ENTRY(D3DKMTDestroyContext, D3DKMT_DESTROYCONTEXT, hContext),
    DXGKIT_ENTRY(D3DKMTSetContextSchedulingPriority, D3DKMT_SETCONTEXTSCHEDULINGPRIORITY, hContext),
    DXGKIT_ENTRY(D3DKMTGetContextSchedulingPriority, D3DKMT_GETCONTEXTSCHEDULINGPRIORITY, hContext),
    // No structure: a process handle, of which none but that of the caller is good.
    {"D3DKMTSetProcessSchedulingPriorityClass",
     [](void* p) {
       return D3DKMTSetProcessSchedulingPriorityClass(p, D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL);
     },
     nullptr, 0},
    {"D3DKMTGetProcessSchedulingPriorityClass",
     [](void* p) {
       return D3DKMTGetProcessSchedulingPriorityClass(
           reinterpret_cast<HANDLE>(static_cast<intptr_t>(-1)),
           static_cast<D3DKMT_SCHEDULINGPRIORITYCLASS*>(p));
     },
     nullptr, sizeof(D3DKMT_SCHEDULINGPRIORITYCLASS)},
    DXGKIT_ENTRY(D3DKMTSetContextInProcessSchedulingPriority,
                 D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY, hContext),
    DXGKIT_ENTRY(D3DKMTGetContextInProcessSchedulingPriority,
                 D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY, hContext),
    DXGKIT_ENTRY(D3DKMTRender, D3DKMT_RENDER, hContext),
    DXGKIT_ENTRY(D3DKMTCreateAllocation, D3DKMT_CREATEALLOCATION, hDevice),
    DXGKIT_ENTRY(D3DKMTCreateAllocation2, D3DKMT_CREATEALLOCATION, hDevice),
    DXGKIT_ENTRY(D3DKMTDestroyAllocation, D3DKMT_DESTROYALLOCATION, hDevice),
    DXGKIT_ENTRY(D3DKMTDestroyAllocation2, D3DKMT_DESTROYALLOCATION2, hDevice),
    DXGKIT_ENTRY(D3DKMTQueryResourceInfo, D3DKMT_QUERYRESOURCEINFO, hDevice),
    DXGKIT_ENTRY(D3DKMTQueryResourceInfoFromNtHandle, D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE,
                 hDevice),
    DXGKIT_ENTRY(D3DKMTOpenResource, D3DKMT_OPENRESOURCE, hDevice),
    DXGKIT_ENTRY(D3DKMTOpenResource2, D3DKMT_OPENRESOURCE, hDevice),
    DXGKIT_ENTRY(D3DKMTOpenResourceFromNtHandle, D3DKMT_OPENRESOURCEFROMNTHANDLE, hDevice),
    DXGKIT_ENTRY(D3DKMTGetSharedPrimaryHandle, D3DKMT_GETSHAREDPRIMARYHANDLE, hAdapter),
    DXGKIT_ENTRY(D3DKMTPresent, D3DKMT_PRESENT, hContext),
    DXGKIT_ENTRY(D3DKMTSetVidPnSourceOwner, D3DKMT_SETVIDPNSOURCEOWNER, hDevice),
    DXGKIT_ENTRY(D3DKMTCheckVidPnExclusiveOwnership, D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP, hAdapter),
    DXGKIT_ENTRY(D3DKMTSetDisplayMode, D3DKMT_SETDISPLAYMODE, hDevice),
    DXGKIT_ENTRY(D3DKMTSetQueuedLimit, D3DKMT_SETQUEUEDLIMIT, hDevice),
    DXGKIT_ENTRY(D3DKMTWaitForVerticalBlankEvent, D3DKMT_WAITFORVERTICALBLANKEVENT, hAdapter),
    DXGKIT_ENTRY(D3DKMTGetScanLine, D3DKMT_GETSCANLINE, hAdapter),
    {"D3DKMTShareObjects",
     [](void* p) {
       HANDLE shared = nullptr;
       return D3DKMTShareObjects(1, static_cast<const D3DKMT_HANDLE*>(p), nullptr, 1, &shared);
     },
     [](void* p, D3DKMT_HANDLE handle) { *static_cast<D3DKMT_HANDLE*>(p) = handle; },
     sizeof(D3DKMT_HANDLE)},
    DXGKIT_ENTRY(D3DKMTLock, D3DKMT_LOCK, hDevice),
    DXGKIT_ENTRY(D3DKMTUnlock, D3DKMT_UNLOCK, hDevice),
    DXGKIT_ENTRY(D3DKMTInvalidateCache, D3DKMT_INVALIDATECACHE, hDevice),
    DXGKIT_ENTRY(D3DKMTOfferAllocations, D3DKMT_OFFERALLOCATIONS, hDevice),
    DXGKIT_ENTRY(D3DKMTReclaimAllocations, D3DKMT_RECLAIMALLOCATIONS, hDevice),
    DXGKIT_ENTRY(D3DKMTReclaimAllocations2, D3DKMT_RECLAIMALLOCATIONS2, hPagingQueue),
    DXGKIT_ENTRY(D3DKMTLock2, D3DKMT_LOCK2, hDevice),
    DXGKIT_ENTRY(D3DKMTUnlock2, D3DKMT_UNLOCK2, hDevice),
    DXGKIT_ENTRY(D3DKMTCreateSynchronizationObject, D3DKMT_CREATESYNCHRONIZATIONOBJECT, hDevice),
    DXGKIT_ENTRY(D3DKMTCreateSynchronizationObject2, D3DKMT_CREATESYNCHRONIZATIONOBJECT2, hDevice),
    DXGKIT_ENTRY(D3DKMTDestroySynchronizationObject, D3DKMT_DESTROYSYNCHRONIZATIONOBJECT,
                 hSyncObject),
    DXGKIT_ENTRY(D3DKMTSignalSynchronizationObject, D3DKMT_SIGNALSYNCHRONIZATIONOBJECT, hContext),
    DXGKIT_ENTRY(D3DKMTSignalSynchronizationObject2, D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2, hContext),
    DXGKIT_ENTRY(D3DKMTWaitForSynchronizationObject, D3DKMT_WAITFORSYNCHRONIZATIONOBJECT, hContext),
    DXGKIT_ENTRY(D3DKMTWaitForSynchronizationObject2, D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2,
                 hContext),
    DXGKIT_ENTRY(D3DKMTSignalSynchronizationObjectFromCpu,
                 D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU, hDevice),
    DXGKIT_ENTRY(D3DKMTWaitForSynchronizationObjectFromCpu,
                 D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU, hDevice),
    DXGKIT_ENTRY(D3DKMTSignalSynchronizationObjectFromGpu,
                 D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU, hContext),
    DXGKIT_ENTRY(D3DKMTWaitForSynchronizationObjectFromGpu,
                 D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU, hContext),
    {"D3DKMTSignalSynchronizationObjectFromGpu2",
     [](void* p) {
       return D3DKMTSignalSynchronizationObjectFromGpu2(
           static_cast<D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2*>(p));
     },
     [](void* p, D3DKMT_HANDLE handle) {
       static D3DKMT_HANDLE context;
       context = handle;
       auto* signal = static_cast<D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2*>(p);
       signal->BroadcastContextCount = 1;
       signal->BroadcastContextArray = &context;
     },
     sizeof(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2)},
    DXGKIT_ENTRY(D3DKMTOpenSynchronizationObject, D3DKMT_OPENSYNCHRONIZATIONOBJECT, hSharedHandle),
    DXGKIT_UNHUNG(D3DKMTOpenSyncObjectFromNtHandle, D3DKMT_OPENSYNCOBJECTFROMNTHANDLE),
    DXGKIT_ENTRY(D3DKMTOpenSyncObjectFromNtHandle2, D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2, hDevice),
    DXGKIT_ENTRY(D3DKMTCreateNativeFence, D3DKMT_CREATENATIVEFENCE, hDevice),
    DXGKIT_ENTRY(D3DKMTOpenNativeFenceFromNtHandle, D3DKMT_OPENNATIVEFENCEFROMNTHANDLE, hDevice),
    DXGKIT_UNHUNG(D3DKMTCreateKeyedMutex, D3DKMT_CREATEKEYEDMUTEX),
    DXGKIT_UNHUNG(D3DKMTCreateKeyedMutex2, D3DKMT_CREATEKEYEDMUTEX2),
    DXGKIT_ENTRY(D3DKMTOpenKeyedMutex, D3DKMT_OPENKEYEDMUTEX, hSharedHandle),
    DXGKIT_ENTRY(D3DKMTOpenKeyedMutex2, D3DKMT_OPENKEYEDMUTEX2, hSharedHandle),
    DXGKIT_UNHUNG(D3DKMTOpenKeyedMutexFromNtHandle, D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE),
    DXGKIT_ENTRY(D3DKMTAcquireKeyedMutex, D3DKMT_ACQUIREKEYEDMUTEX, hKeyedMutex),
    DXGKIT_ENTRY(D3DKMTAcquireKeyedMutex2, D3DKMT_ACQUIREKEYEDMUTEX2, hKeyedMutex),
    DXGKIT_ENTRY(D3DKMTReleaseKeyedMutex, D3DKMT_RELEASEKEYEDMUTEX, hKeyedMutex),
    DXGKIT_ENTRY(D3DKMTReleaseKeyedMutex2, D3DKMT_RELEASEKEYEDMUTEX2, hKeyedMutex),
    DXGKIT_ENTRY(D3DKMTDestroyKeyedMutex, D3DKMT_DESTROYKEYEDMUTEX, hKeyedMutex),
    DXGKIT_ENTRY(D3DKMTCreatePagingQueue, D3DKMT_CREATEPAGINGQUEUE, hDevice),
    DXGKIT_ENTRY(D3DKMTDestroyPagingQueue, D3DDDI_DESTROYPAGINGQUEUE, hPagingQueue),
    DXGKIT_ENTRY(D3DKMTMakeResident, D3DDDI_MAKERESIDENT, hPagingQueue),
    DXGKIT_ENTRY(D3DKMTUpdateAllocationProperty, D3DDDI_UPDATEALLOCPROPERTY, hPagingQueue),
    DXGKIT_ENTRY(D3DKMTEvict, D3DKMT_EVICT, hDevice),
    DXGKIT_ENTRY(D3DKMTQueryVideoMemoryInfo, D3DKMT_QUERYVIDEOMEMORYINFO, hAdapter),
    DXGKIT_ENTRY(D3DKMTChangeVideoMemoryReservation, D3DKMT_CHANGEVIDEOMEMORYRESERVATION, hAdapter),
    DXGKIT_ENTRY(D3DKMTRegisterTrimNotification, D3DKMT_REGISTERTRIMNOTIFICATION, hDevice),
    {"D3DKMTUnregisterTrimNotification",
     [](void* p) {
       return D3DKMTUnregisterTrimNotification(static_cast<D3DKMT_UNREGISTERTRIMNOTIFICATION*>(p));
     },
     nullptr, sizeof(D3DKMT_UNREGISTERTRIMNOTIFICATION)},
    DXGKIT_ENTRY(D3DKMTSetAllocationPriority, D3DKMT_SETALLOCATIONPRIORITY, hDevice),
    DXGKIT_ENTRY(D3DKMTGetAllocationPriority, D3DKMT_GETALLOCATIONPRIORITY, hDevice),
    DXGKIT_ENTRY(D3DKMTQueryAllocationResidency, D3DKMT_QUERYALLOCATIONRESIDENCY, hDevice),
    DXGKIT_ENTRY(D3DKMTCreateContextVirtual, D3DKMT_CREATECONTEXTVIRTUAL, hDevice),
    {"D3DKMTSubmitCommand",
     [](void* p) { return D3DKMTSubmitCommand(static_cast<D3DKMT_SUBMITCOMMAND*>(p)); },
     [](void* p, D3DKMT_HANDLE handle) {
       auto* submit = static_cast<D3DKMT_SUBMITCOMMAND*>(p);
       submit->BroadcastContextCount = 1;
       submit->BroadcastContext[0] = handle;
     },
     sizeof(D3DKMT_SUBMITCOMMAND)},
    DXGKIT_ENTRY(D3DKMTReserveGpuVirtualAddress, D3DDDI_RESERVEGPUVIRTUALADDRESS, hPagingQueue),
    DXGKIT_ENTRY(D3DKMTMapGpuVirtualAddress, D3DDDI_MAPGPUVIRTUALADDRESS, hPagingQueue),
    DXGKIT_ENTRY(D3DKMTFreeGpuVirtualAddress, D3DKMT_FREEGPUVIRTUALADDRESS, hAdapter),
    DXGKIT_ENTRY(D3DKMTUpdateGpuVirtualAddress, D3DKMT_UPDATEGPUVIRTUALADDRESS, hDevice),
    DXGKIT_ENTRY(D3DKMTCreateHwContext, D3DKMT_CREATEHWCONTEXT, hDevice),
    DXGKIT_ENTRY(D3DKMTCreateSyncFile, D3DKMT_CREATESYNCFILE, hDevice),
    DXGKIT_ENTRY(D3DKMTWaitSyncFile, D3DKMT_WAITSYNCFILE, hContext),
    DXGKIT_ENTRY(D3DKMTOpenSyncObjectFromSyncFile, D3DKMT_OPENSYNCOBJECTFROMSYNCFILE, hDevice),
    DXGKIT_ENTRY(D3DKMTDestroyHwContext, D3DKMT_DESTROYHWCONTEXT, hHwContext),
    DXGKIT_ENTRY(D3DKMTCreateHwQueue, D3DKMT_CREATEHWQUEUE, hHwContext),
    DXGKIT_ENTRY(D3DKMTDestroyHwQueue, D3DKMT_DESTROYHWQUEUE, hHwQueue),
    DXGKIT_ENTRY(D3DKMTSubmitCommandToHwQueue, D3DKMT_SUBMITCOMMANDTOHWQUEUE, hHwQueue),
    DXGKIT_ENTRY(D3DKMTSubmitWaitForSyncObjectsToHwQueue, D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE,
                 hHwQueue),
    {"D3DKMTSubmitSignalSyncObjectsToHwQueue",
     [](void* p) {
       return D3DKMTSubmitSignalSyncObjectsToHwQueue(
           static_cast<D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE*>(p));
     },
     [](void* p, D3DKMT_HANDLE handle) {
       static thread_local D3DKMT_HANDLE queue;
       queue = handle;
       auto* submit = static_cast<D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE*>(p);
       submit->BroadcastHwQueueCount = 1;
       submit->BroadcastHwQueueArray = &queue;
     },
     sizeof(D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE)},
    {"D3DKMTQueryStatistics",
     [](void* p) { return D3DKMTQueryStatistics(static_cast<D3DKMT_QUERYSTATISTICS*>(p)); },
     nullptr, sizeof(D3DKMT_QUERYSTATISTICS)},
    DXGKIT_ENTRY(D3DKMTQueryClockCalibration, D3DKMT_QUERYCLOCKCALIBRATION, hAdapter),
    DXGKIT_ENTRY(D3DKMTMarkDeviceAsError, D3DKMT_MARKDEVICEASERROR, hDevice),
    DXGKIT_UNHUNG(D3DKMTGetSharedResourceAdapterLuid, D3DKMT_GETSHAREDRESOURCEADAPTERLUID),
    DXGKIT_ENTRY(D3DKMTFlushHeapTransitions, D3DKMT_FLUSHHEAPTRANSITIONS, hAdapter),
    DXGKIT_ENTRY(D3DKMTIsFeatureEnabled, D3DKMT_ISFEATUREENABLED, hAdapter),
    DXGKIT_UNHUNG(D3DKMTQueryProcessOfferInfo, D3DKMT_QUERYPROCESSOFFERINFO),
    DXGKIT_UNHUNG(D3DKMTTrimProcessCommitment, D3DKMT_TRIMPROCESSCOMMITMENT),
    DXGKIT_UNHUNG(D3DKMTOpenAdapterFromGdiDisplayName, D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME),
    DXGKIT_UNHUNG(D3DKMTOpenAdapterFromHdc, D3DKMT_OPENADAPTERFROMHDC),
    DXGKIT_UNHUNG(D3DKMTOpenAdapterFromDeviceName, D3DKMT_OPENADAPTERFROMDEVICENAME),
    {"D3DKMTEnumAdapters",
     [](void* p) { return D3DKMTEnumAdapters(static_cast<D3DKMT_ENUMADAPTERS*>(p)); }, nullptr,
     sizeof(D3DKMT_ENUMADAPTERS)},
    DXGKIT_UNHUNG(D3DKMTEnumAdapters3, D3DKMT_ENUMADAPTERS3),
    DXGKIT_ENTRY(D3DKMTGetDisplayModeList, D3DKMT_GETDISPLAYMODELIST, hAdapter),
    DXGKIT_UNHUNG(D3DKMTCheckOcclusion, D3DKMT_CHECKOCCLUSION),
    DXGKIT_UNHUNG(D3DKMTQueryVidPnExclusiveOwnership, D3DKMT_QUERYVIDPNEXCLUSIVEOWNERSHIP),
    DXGKIT_ENTRY(D3DKMTSetVidPnSourceOwner1, D3DKMT_SETVIDPNSOURCEOWNER1, Version0.hDevice),
    DXGKIT_ENTRY(D3DKMTSetVidPnSourceOwner2, D3DKMT_SETVIDPNSOURCEOWNER2,
                 Version1.Version0.hDevice),
    // No structure: a process handle, of which none but that of the caller is good.
    {"D3DKMTReleaseProcessVidPnSourceOwners",
     [](void* p) { return D3DKMTReleaseProcessVidPnSourceOwners(p); }, nullptr, 0},
    DXGKIT_ENTRY(D3DKMTInvalidateActiveVidPn, D3DKMT_INVALIDATEACTIVEVIDPN, hAdapter),
    DXGKIT_ENTRY(D3DKMTPollDisplayChildren, D3DKMT_POLLDISPLAYCHILDREN, hAdapter),
    DXGKIT_UNHUNG(D3DKMTOpenNtHandleFromName, D3DKMT_OPENNTHANDLEFROMNAME),
    DXGKIT_UNHUNG(D3DKMTOpenSyncObjectNtHandleFromName, D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME),
    DXGKIT_ENTRY(D3DKMTCreateOverlay, D3DKMT_CREATEOVERLAY, hDevice),
    DXGKIT_ENTRY(D3DKMTUpdateOverlay, D3DKMT_UPDATEOVERLAY, hDevice),
    DXGKIT_ENTRY(D3DKMTFlipOverlay, D3DKMT_FLIPOVERLAY, hDevice),
    DXGKIT_ENTRY(D3DKMTDestroyOverlay, D3DKMT_DESTROYOVERLAY, hDevice),
    DXGKIT_ENTRY(D3DKMTGetOverlayState, D3DKMT_GETOVERLAYSTATE, hDevice),
    DXGKIT_ENTRY(D3DKMTCreateProtectedSession, D3DKMT_CREATEPROTECTEDSESSION, hDevice),
    DXGKIT_ENTRY(D3DKMTDestroyProtectedSession, D3DKMT_DESTROYPROTECTEDSESSION, hHandle),
    DXGKIT_UNHUNG(D3DKMTOpenProtectedSessionFromNtHandle, D3DKMT_OPENPROTECTEDSESSIONFROMNTHANDLE),
    DXGKIT_ENTRY(D3DKMTQueryProtectedSessionStatus, D3DKMT_QUERYPROTECTEDSESSIONSTATUS, hHandle),
    DXGKIT_UNHUNG(D3DKMTQueryProtectedSessionInfoFromNtHandle,
                  D3DKMT_QUERYPROTECTEDSESSIONINFOFROMNTHANDLE),
    DXGKIT_ENTRY(D3DKMTSetStablePowerState, D3DKMT_SETSTABLEPOWERSTATE, hAdapter),
    DXGKIT_ENTRY(D3DKMTSetDisplayPrivateDriverFormat, D3DKMT_SETDISPLAYPRIVATEDRIVERFORMAT,
                 hDevice),
    DXGKIT_ENTRY(D3DKMTGetMultisampleMethodList, D3DKMT_GETMULTISAMPLEMETHODLIST, hAdapter),
    DXGKIT_ENTRY(D3DKMTGetRuntimeData, D3DKMT_GETRUNTIMEDATA, hAdapter),
    DXGKIT_ENTRY(D3DKMTCheckMultiPlaneOverlaySupport, D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT,
                 hDevice),
    DXGKIT_ENTRY(D3DKMTCheckMultiPlaneOverlaySupport2, D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT2,
                 hAdapter),
    DXGKIT_ENTRY(D3DKMTCheckMultiPlaneOverlaySupport3, D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT3,
                 hAdapter),
    DXGKIT_ENTRY(D3DKMTPresentMultiPlaneOverlay, D3DKMT_PRESENT_MULTIPLANE_OVERLAY, hContext),
    DXGKIT_ENTRY(D3DKMTPresentMultiPlaneOverlay2, D3DKMT_PRESENT_MULTIPLANE_OVERLAY2, hAdapter),
    DXGKIT_ENTRY(D3DKMTPresentMultiPlaneOverlay3, D3DKMT_PRESENT_MULTIPLANE_OVERLAY3, hAdapter),
    DXGKIT_ENTRY(D3DKMTGetMultiPlaneOverlayCaps, D3DKMT_GET_MULTIPLANE_OVERLAY_CAPS, hAdapter),
    DXGKIT_ENTRY(D3DKMTGetPostCompositionCaps, D3DKMT_GET_POST_COMPOSITION_CAPS, hAdapter),
    DXGKIT_ENTRY(D3DKMTSetGammaRamp, D3DKMT_SETGAMMARAMP, hDevice),
    DXGKIT_ENTRY(D3DKMTAdjustFullscreenGamma, D3DKMT_ADJUSTFULLSCREENGAMMA, hAdapter),
    DXGKIT_ENTRY(D3DKMTCheckMonitorPowerState, D3DKMT_CHECKMONITORPOWERSTATE, hAdapter),
    DXGKIT_ENTRY(D3DKMTWaitForVerticalBlankEvent2, D3DKMT_WAITFORVERTICALBLANKEVENT2, hAdapter),
};

TEST(ThunkTable, NamesEveryImplementedCall) {
  size_t implemented = 0;
  for (const thunks::ThunkSupport& entry : thunks::support()) {
    if (entry.support == thunks::Support::kRefused) continue;
    if (entry.name == "D3DKMTCheckExclusiveOwnership") continue;  // it has no arguments
    ++implemented;
    EXPECT_TRUE(
        std::ranges::any_of(kEntries, [&](const Entry& known) { return entry.name == known.name; }))
        << entry.name << " has no hostile-argument test";
  }
  EXPECT_EQ(implemented, std::size(kEntries));
}

class ThunkEntry : public ContractTest, public ::testing::WithParamInterface<Entry> {};

TEST_P(ThunkEntry, RefusesNullAndUnreadableArguments) {
  DXGKIT_COVERS("THUNK-01", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const Unreadable nowhere;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return GetParam().call(nullptr); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(client.call([&] { return GetParam().call(nowhere.as<void>()); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_P(ThunkEntry, RefusesHandlesThatAreBadStaleForeignOrOfTheWrongType) {
  DXGKIT_COVERS("THUNK-04", "THUNK-05");
  if (GetParam().hang == nullptr) return;
  with_client([](Stack& stack, Client& client) {
    Client stranger(stack, "stranger");
    for (int i = 0; i < 3; ++i) static_cast<void>(stranger.make_device());
    const ContextBuffers theirs = stranger.make_context();
    const ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE allocation = client.make_allocation();
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    const D3DKMT_HANDLE stale = client.make_device();
    ASSERT_EQ(client.destroy_device(stale), 0);
    const std::array<D3DKMT_HANDLE, 5> live = {client.adapter, client.device, context.handle,
                                               allocation, fence};
    std::vector<D3DKMT_HANDLE> wrong = {0,          1,     0x40000000 | 0x3FFFF << 6,
                                        UINT32_MAX, stale, theirs.handle};
    // Wrong type: every live handle of a type the call does not hang on. The call's own type is the
    // one it accepts; find it by name.
    const std::string name = GetParam().name;
    // On something else than these: queues, mutexes, global handles.
    const bool on_other =
        name == "D3DKMTDestroyPagingQueue" || name == "D3DKMTMakeResident" ||
        name == "D3DKMTUpdateAllocationProperty" || name == "D3DKMTReclaimAllocations2" ||
        name == "D3DKMTMapGpuVirtualAddress" || name == "D3DKMTOpenSynchronizationObject" ||
        name.find("KeyedMutex") != std::string::npos || name == "D3DKMTDestroyHwContext" ||
        name == "D3DKMTDestroyProtectedSession" || name == "D3DKMTQueryProtectedSessionStatus" ||
        name.find("HwQueue") != std::string::npos;
    const auto owns = [&](size_t kind) {
      if (name == "D3DKMTCloseAdapter" || name == "D3DKMTQueryAdapterInfo" ||
          name == "D3DKMTEscape" || name == "D3DKMTCreateDevice" ||
          name == "D3DKMTGetSharedPrimaryHandle" || name == "D3DKMTCheckVidPnExclusiveOwnership" ||
          name == "D3DKMTGetScanLine" || name == "D3DKMTWaitForVerticalBlankEvent" ||
          name == "D3DKMTQueryClockCalibration" || name == "D3DKMTFlushHeapTransitions" ||
          name == "D3DKMTIsFeatureEnabled" || name == "D3DKMTGetDisplayModeList" ||
          name == "D3DKMTInvalidateActiveVidPn" || name == "D3DKMTSetStablePowerState" ||
          name == "D3DKMTGetMultisampleMethodList" || name == "D3DKMTGetRuntimeData" ||
          name == "D3DKMTPollDisplayChildren" || name == "D3DKMTReserveGpuVirtualAddress" ||
          name == "D3DKMTFreeGpuVirtualAddress" || name.find("VideoMemory") != std::string::npos) {
        return kind == 0;
      }
      if (on_other) return false;
      if (name == "D3DKMTDestroySynchronizationObject") return kind == 4;
      alignas(16) std::array<std::byte, 4096> probe{};
      GetParam().hang(probe.data(), 0x12345678);
      const bool context_first =
          name.find("Context") != std::string::npos
              ? !name.starts_with("D3DKMTCreate")
              : name == "D3DKMTRender" || name == "D3DKMTPresent" || name == "D3DKMTWaitSyncFile" ||
                    name == "D3DKMTSubmitCommand" || name.find("FromGpu") != std::string::npos ||
                    (name.find("SynchronizationObject") != std::string::npos &&
                     name.find("Create") == std::string::npos &&
                     name.find("FromCpu") == std::string::npos);
      return context_first ? kind == 2 : kind == 1;
    };
    for (size_t kind = 0; kind < live.size(); ++kind) {
      if (!owns(kind)) wrong.push_back(live[kind]);
    }
    ASSERT_EQ(wrong.size(), on_other ? 11U : 10U);
    const Digest before = digest(stack, {&client, &stranger});
    for (const D3DKMT_HANDLE handle : wrong) {
      alignas(16) std::array<std::byte, 4096> arguments{};
      ASSERT_LE(GetParam().bytes, arguments.size());
      GetParam().hang(arguments.data(), handle);
      EXPECT_EQ(client.call([&] { return GetParam().call(arguments.data()); }),
                nt_status(Status::kInvalidParameter))
          << std::hex << handle;
    }
    EXPECT_EQ(digest(stack, {&client, &stranger}), before);
  });
}

TEST_P(ThunkEntry, AnswersOnlyToAThreadThatActsForAProcess) {
  running([](Stack& stack) {
    static_cast<void>(stack);
    alignas(16) std::array<std::byte, 4096> arguments{};
    EXPECT_EQ(GetParam().call(arguments.data()), nt_status(Status::kInvalidParameter));
  });
}

INSTANTIATE_TEST_SUITE_P(Calls, ThunkEntry, ::testing::ValuesIn(kEntries),
                         [](const auto& row) { return std::string(row.param.name); });

// A trace says why a call was refused where its status does not.
TEST_F(ThunkTest, WhyACallIsRefusedIsTraced) {
  DXGKIT_COVERS("THUNK-01", "THUNK-04");
  using trace::RefusalReason;
  with_client([](Stack&, Client& client) {
    const Unreadable page;
    D3DKMT_CREATEDEVICE unknown{}, other{}, right{};
    unknown.hAdapter = client.adapter + 0x40 * 100;
    other.hAdapter = client.device;
    right.hAdapter = client.adapter;
    const auto expect = [&](D3DKMT_CREATEDEVICE* args, RefusalReason reason, uint64_t handle) {
      trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
      trace::Recorder* const before = trace::current();
      trace::set_current(&recorder);
      EXPECT_EQ(D3DKMTCreateDevice(args), kInvalid);
      trace::set_current(before);
      std::vector<std::pair<uint64_t, uint64_t>> causes;
      for (const trace::Event& event : recorder.events()) {
        if (event.kind == static_cast<uint16_t>(trace::EventKind::kWhyRefused))
          causes.emplace_back(event.a, event.b);
      }
      EXPECT_THAT(causes, ::testing::ElementsAre(std::pair{static_cast<uint64_t>(reason), handle}));
    };
    client.as_client([&] {
      expect(nullptr, RefusalReason::kNull, 0);
      expect(page.as<D3DKMT_CREATEDEVICE>(), RefusalReason::kUnreadable, 0);
      expect(&unknown, RefusalReason::kHandle, unknown.hAdapter);
      expect(&other, RefusalReason::kHandleType, other.hAdapter);
    });
    expect(&right, RefusalReason::kNoProcess, 0);
  });
}

TEST_F(ThunkTest, EverythingElseSaysNotSupported) {
  DXGKIT_COVERS("THUNK-38");
  with_client([](Stack& stack, Client& client) {
    const Digest before = digest(stack, {&client});
    D3DKMT_SUBMITPRESENTBLTTOHWQUEUE copy{};
    D3DKMT_SUBMITPRESENTTOHWQUEUE submit{};
    EXPECT_EQ(client.call([&] { return D3DKMTSubmitPresentBltToHwQueue(&copy); }),
              nt_status(Status::kNotSupported));
    EXPECT_EQ(client.call([&] { return D3DKMTSubmitPresentToHwQueue(&submit); }),
              nt_status(Status::kNotSupported));
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(ThunkTest, EnumAdaptersTellsTheCountFirstAndNeedsRoom) {
  DXGKIT_COVERS("THUNK-09");
  with_client([](Stack& stack, Client& client) {
    D3DKMT_ENUMADAPTERS2 enumerate{};
    EXPECT_EQ(client.call([&] { return D3DKMTEnumAdapters2(&enumerate); }), 0);
    EXPECT_EQ(enumerate.NumAdapters, 34U) << "as many as there can be";
    D3DKMT_ADAPTERINFO info{};
    enumerate.pAdapters = &info;
    enumerate.NumAdapters = 0;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTEnumAdapters2(&enumerate); }),
              nt_status(Status::kBufferTooSmall));
    const Unreadable nowhere;
    enumerate.pAdapters = nowhere.as<D3DKMT_ADAPTERINFO>();
    enumerate.NumAdapters = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTEnumAdapters2(&enumerate); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before) << "no handle is left behind";
    enumerate.pAdapters = &info;
    EXPECT_EQ(client.call([&] { return D3DKMTEnumAdapters2(&enumerate); }), 0);
    EXPECT_EQ(info.AdapterLuid.LowPart, stack.luid.low);
    EXPECT_NE(info.hAdapter, client.adapter) << "a handle of its own";
    D3DKMT_CLOSEADAPTER close{info.hAdapter};
    EXPECT_EQ(client.call([&] { return D3DKMTCloseAdapter(&close); }), 0);
    EXPECT_EQ(client.call([&] { return D3DKMTCloseAdapter(&close); }),
              nt_status(Status::kInvalidParameter));
  });
}

TEST_F(ThunkTest, EnumAdaptersSaysHowManyItWrote) {
  DXGKIT_COVERS("THUNK-09");
  with_client([](Stack& stack, Client& client) {
    std::array<D3DKMT_ADAPTERINFO, 4> infos{};
    D3DKMT_ENUMADAPTERS2 enumerate{};
    enumerate.pAdapters = infos.data();
    enumerate.NumAdapters = 4;
    ASSERT_EQ(client.call([&] { return D3DKMTEnumAdapters2(&enumerate); }), 0);
    EXPECT_EQ(enumerate.NumAdapters, 1U);
    EXPECT_EQ(infos[0].AdapterLuid.LowPart, stack.luid.low);
    EXPECT_EQ(infos[1].hAdapter, 0U) << "not written";
    D3DKMT_CLOSEADAPTER close{infos[0].hAdapter};
    EXPECT_EQ(client.call([&] { return D3DKMTCloseAdapter(&close); }), 0);
  });
}

// Command buffers and lists belong to contexts; a device of this kernel has none of its own.
TEST_F(ThunkTest, ADeviceHasNoBuffersOfItsOwn) {
  DXGKIT_COVERS("THUNK-02");
  with_client([](Stack&, Client& client) {
    D3DKMT_CREATEDEVICE args;
    std::memset(&args, 0x5A, sizeof args);
    args.hAdapter = client.adapter;
    args.Flags = {};
    ASSERT_EQ(client.call([&] { return D3DKMTCreateDevice(&args); }), 0);
    EXPECT_NE(args.hDevice, client.device);
    EXPECT_EQ(args.pCommandBuffer, nullptr);
    EXPECT_EQ(args.CommandBufferSize, 0U);
    EXPECT_EQ(args.pAllocationList, nullptr);
    EXPECT_EQ(args.AllocationListSize, 0U);
    EXPECT_EQ(args.pPatchLocationList, nullptr);
    EXPECT_EQ(args.PatchLocationListSize, 0U);
    EXPECT_EQ(client.destroy_device(args.hDevice), 0);
  });
}

TEST_F(ThunkTest, WithoutADisplayNothingIsPresented) {
  DXGKIT_COVERS("DISP-21");
  with_client([](Stack& stack, Client& client) {
    const ContextBuffers context = client.make_context();
    const RECT rect{0, 0, 8, 8};
    D3DKMT_PRESENT args{};
    args.hContext = context.handle;
    args.Flags.ColorFill = 1;
    args.SubRectCnt = 1;
    args.pSrcSubRects = &rect;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTPresent(&args); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(ThunkTest, AnUnknownLuidOpensNothing) {
  DXGKIT_COVERS("THUNK-10");
  with_client([](Stack& stack, Client& client) {
    const Digest before = digest(stack, {&client});
    for (const auto& [low, high] :
         {std::pair<ULONG, LONG>{0, 0}, {stack.luid.low + 1, 0}, {stack.luid.low, 1}}) {
      D3DKMT_OPENADAPTERFROMLUID open{};
      open.AdapterLuid.LowPart = low;
      open.AdapterLuid.HighPart = high;
      EXPECT_EQ(client.call([&] { return D3DKMTOpenAdapterFromLuid(&open); }),
                nt_status(Status::kInvalidParameter));
      EXPECT_EQ(open.hAdapter, 0U);
    }
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(ThunkTest, NestedPointersThatCannotBeReadChangeNothing) {
  DXGKIT_COVERS("THUNK-01", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const Unreadable nowhere;
    const ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    const UINT64 value = 1;
    const Digest before = digest(stack, {&client});
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 1;
    create.pAllocationInfo = nowhere.as<D3DDDI_ALLOCATIONINFO>();
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }),
              nt_status(Status::kInvalidParameter));
    create.pAllocationInfo = nullptr;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }),
              nt_status(Status::kInvalidParameter));
    D3DDDI_ALLOCATIONINFO info{};
    info.pPrivateDriverData = nowhere.as<void>();
    info.PrivateDriverDataSize = 8;
    create.pAllocationInfo = &info;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }),
              nt_status(Status::kInvalidParameter));
    info.PrivateDriverDataSize = UINT32_MAX;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }),
              nt_status(Status::kInvalidParameter));
    create.NumAllocations = UINT32_MAX;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }),
              nt_status(Status::kInvalidParameter));
    create.NumAllocations = 0;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }),
              nt_status(Status::kInvalidParameter));

    D3DKMT_DESTROYALLOCATION2 destroy{};
    destroy.hDevice = client.device;
    destroy.phAllocationList = nowhere.as<D3DKMT_HANDLE>();
    destroy.AllocationCount = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTDestroyAllocation2(&destroy); }),
              nt_status(Status::kInvalidParameter));
    destroy.phAllocationList = &fence;
    EXPECT_EQ(client.call([&] { return D3DKMTDestroyAllocation2(&destroy); }),
              nt_status(Status::kInvalidParameter));

    D3DKMT_CREATECONTEXT make{};
    make.hDevice = client.device;
    make.pPrivateDriverData = nowhere.as<void>();
    make.PrivateDriverDataSize = 4;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateContext(&make); }),
              nt_status(Status::kInvalidParameter));
    make = {};
    make.hDevice = client.device;
    for (const UINT node : {2U, UINT32_MAX}) {
      make.NodeOrdinal = node;
      EXPECT_EQ(client.call([&] { return D3DKMTCreateContext(&make); }),
                nt_status(Status::kInvalidParameter));
    }
    make.NodeOrdinal = 0;
    for (const UINT affinity : {2U, 3U, UINT32_MAX}) {
      make.EngineAffinity = affinity;
      EXPECT_EQ(client.call([&] { return D3DKMTCreateContext(&make); }),
                nt_status(Status::kInvalidParameter));
    }

    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal{};
    signal.hDevice = client.device;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = nowhere.as<D3DKMT_HANDLE>();
    signal.FenceValueArray = &value;
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&signal); }),
              nt_status(Status::kInvalidParameter));
    signal.ObjectHandleArray = &fence;
    signal.FenceValueArray = nowhere.as<UINT64>();
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&signal); }),
              nt_status(Status::kInvalidParameter));
    signal.FenceValueArray = nullptr;
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&signal); }),
              nt_status(Status::kInvalidParameter));
    signal.FenceValueArray = &value;
    for (const UINT count : {0U, UINT32_MAX}) {
      signal.ObjectCount = count;
      EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&signal); }),
                nt_status(Status::kInvalidParameter));
    }

    D3DKMT_QUERYADAPTERINFO query{};
    query.hAdapter = client.adapter;
    query.Type = KMTQAITYPE_UMDRIVERPRIVATE;
    query.pPrivateDriverData = nowhere.as<void>();
    query.PrivateDriverDataSize = 16;
    EXPECT_EQ(client.call([&] { return D3DKMTQueryAdapterInfo(&query); }),
              nt_status(Status::kInvalidParameter));
    query.PrivateDriverDataSize = 0;
    EXPECT_EQ(client.call([&] { return D3DKMTQueryAdapterInfo(&query); }),
              nt_status(Status::kInvalidParameter));
    D3DKMT_ESCAPE escape{};
    escape.hAdapter = client.adapter;
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    escape.pPrivateDriverData = nowhere.as<void>();
    escape.PrivateDriverDataSize = 16;
    EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }),
              nt_status(Status::kInvalidParameter));
    escape.PrivateDriverDataSize = 0;
    escape.hContext = context.handle;  // without its device
    EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

// Handles that nobody could be given are not made.
TEST_F(ThunkTest, AListThatCannotBeWrittenMakesNothing) {
  DXGKIT_COVERS("THUNK-01", "THUNK-05", "THUNK-20");
  with_client([](Stack& stack, Client& client) {
    void* const page =
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    auto* const infos = new (page) D3DDDI_ALLOCATIONINFO[2]{};
    auto* const infos2 = new (static_cast<std::byte*>(page) + 1024) D3DDDI_ALLOCATIONINFO2[2]{};
    ASSERT_EQ(mprotect(page, 4096, PROT_READ), 0);
    const Digest before = digest(stack, {&client});
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 2;
    create.pAllocationInfo = infos;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }),
              nt_status(Status::kInvalidParameter));
    create.pAllocationInfo2 = infos2;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&create); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
    ASSERT_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&create); }), 0);
    EXPECT_NE(infos2[1].hAllocation, 0U);
    munmap(page, 4096);
  });
}

TEST_F(ThunkTest, ReservedFlagsAreRefused) {
  DXGKIT_COVERS("THUNK-03", "ALLOC-21", "ALLOC-22", "ALLOC-40");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE allocation = client.make_allocation();
    const Digest before = digest(stack, {&client});
    const auto create = [&](UINT flags) {
      D3DDDI_ALLOCATIONINFO info{};
      D3DKMT_CREATEALLOCATION args{};
      args.hDevice = client.device;
      args.NumAllocations = 1;
      args.pAllocationInfo = &info;
      std::memcpy(&args.Flags, &flags, sizeof flags);
      return client.call([&] { return D3DKMTCreateAllocation(&args); });
    };
    constexpr UINT kCreateResource = 1, kShared = 2, kExistingSysMem = 1 << 5, kNtSharing = 1 << 6,
                   kCrossAdapter = 1 << 11, kStandard = 1 << 16, kSection = 1 << 17;
    EXPECT_EQ(create(1U << 31), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(create(kShared), nt_status(Status::kInvalidParameter))
        << "CreateShared needs CreateResource";
    EXPECT_EQ(create(kCreateResource | kNtSharing), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(create(kExistingSysMem), nt_status(Status::kInvalidParameter))
        << "needs StandardAllocation";
    EXPECT_EQ(create(kStandard), nt_status(Status::kInvalidParameter)) << "needs existing memory";
    EXPECT_EQ(create(kStandard | kExistingSysMem | kSection), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(create(kStandard | kSection | kCreateResource | kShared),
              nt_status(Status::kNotSupported));
    EXPECT_EQ(create(kStandard | kSection | kCreateResource | kCrossAdapter),
              nt_status(Status::kInvalidParameter));
    for (UINT bit = 0; bit < 32; ++bit) {
      D3DKMT_CREATEDEVICE device{};
      device.hAdapter = client.adapter;
      const UINT flags = 1U << bit;
      std::memcpy(&device.Flags, &flags, sizeof flags);
      if (bit >= 3) {
        EXPECT_EQ(client.call([&] { return D3DKMTCreateDevice(&device); }),
                  nt_status(Status::kInvalidParameter))
            << bit;
        EXPECT_EQ(device.hDevice, 0U);
      }
    }
    EXPECT_EQ(client.destroy_allocation(allocation, 1U << 31),
              nt_status(Status::kInvalidParameter));
    D3DKMT_LOCK2 lock{};
    lock.hDevice = client.device;
    lock.hAllocation = allocation;
    for (UINT bit = 0; bit < 32; ++bit) {
      lock.Flags.Value = 1U << bit;
      EXPECT_EQ(client.call([&] { return D3DKMTLock2(&lock); }),
                nt_status(Status::kInvalidParameter))
          << bit;
      EXPECT_EQ(lock.pData, nullptr);
    }
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

// A process with as many handles as there can be makes nothing more, and nothing is left of what it
// tried.
TEST_F(ThunkTest, WithoutAHandleNothingIsMade) {
  DXGKIT_COVERS("THUNK-05");
  with_client([](Stack& stack, Client& client) {
    dxgk::HandleTable& handles = client.process->handles();
    const auto device = handles.find<dxgk::Device>(client.device);
    ASSERT_TRUE(device.has_value());
    std::vector<dxgk::Handle> taken;
    for (auto one = handles.insert_hidden(*device); one.has_value();
         one = handles.insert_hidden(*device))
      taken.push_back(*one);
    const size_t objects = stack.miniport.live_objects(), pages = stack.machine.free_page_count();
    const NTSTATUS none = nt_status(Status::kNoMemory);
    D3DKMT_CREATEDEVICE create{};
    create.hAdapter = client.adapter;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateDevice(&create); }), none);
    EXPECT_EQ(create.hDevice, 0U);
    ContextBuffers context;
    EXPECT_EQ(client.create_context(&context), none);
    D3DKMT_HANDLE allocation = 0;
    EXPECT_EQ(client.create_allocation({}, &allocation), none);
    stack.drive();
    EXPECT_EQ(stack.miniport.live_objects(), objects);
    EXPECT_EQ(stack.machine.free_page_count(), pages);
    for (const dxgk::Handle one : taken) handles.erase(one);
    EXPECT_EQ(client.create_context(&context), 0);
    EXPECT_EQ(client.call([&] { return D3DKMTCreateDevice(&create); }), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(ThunkTest, DefinedFlagsOfADeviceAreTaken) {
  DXGKIT_COVERS("THUNK-03");
  with_client([](Stack& stack, Client& client) {
    for (UINT flags = 0; flags < 8; ++flags) {
      SCOPED_TRACE(flags);
      D3DKMT_CREATEDEVICE device{};
      device.hAdapter = client.adapter;
      std::memcpy(&device.Flags, &flags, sizeof flags);
      EXPECT_EQ(client.call([&] { return D3DKMTCreateDevice(&device); }), 0);
      EXPECT_NE(device.hDevice, 0U);
      EXPECT_EQ(client.destroy_device(device.hDevice), 0);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(ThunkTest, PrioritiesHaveARangeAndAPrivilege) {
  DXGKIT_COVERS("SCHED-11", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    static_cast<void>(stack);
    const ContextBuffers context = client.make_context();
    const auto set = [&](INT priority) {
      D3DKMT_SETCONTEXTSCHEDULINGPRIORITY args{};
      args.hContext = context.handle;
      args.Priority = priority;
      return client.call([&] { return D3DKMTSetContextSchedulingPriority(&args); });
    };
    const auto get = [&] {
      D3DKMT_GETCONTEXTSCHEDULINGPRIORITY args{};
      args.hContext = context.handle;
      EXPECT_EQ(client.call([&] { return D3DKMTGetContextSchedulingPriority(&args); }), 0);
      return args.Priority;
    };
    EXPECT_EQ(get(), 0);
    EXPECT_EQ(set(-7), 0);
    EXPECT_EQ(get(), -7);
    for (const INT bad : {-8, 8, INT32_MIN, INT32_MAX}) {
      EXPECT_EQ(set(bad), nt_status(Status::kInvalidParameter));
      EXPECT_EQ(get(), -7);
    }
    for (const INT privileged : {1, 7}) {
      EXPECT_EQ(set(privileged), nt_status(Status::kInvalidParameter));
      EXPECT_EQ(get(), -7);
    }
    EXPECT_EQ(set(0), 0);
  });
}

TEST_F(ThunkTest, ARenderListThatIsRewrittenWhileItIsReadWasReadOnce) {
  DXGKIT_COVERS("THUNK-02");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE allocation = client.make_allocation();
    // The driver's Render runs after the capture: what the client writes then has no effect.
    stack.miniport.hooks.render = [&](void* driver_context, DXGKARG_RENDER* args) {
      context.allocations[0].hAllocation = 0xDEADBEEF;
      return stack.miniport.default_render(driver_context, args);
    };
    ASSERT_EQ(client.render(context, work_on({allocation})), 0);
    stack.drive();
    EXPECT_NE(stack.miniport.calls().patches.back().allocations.at(0).device_handle, nullptr);
    EXPECT_EQ(stack.statistics().packets_completed, 2U);
  });
}

TEST_F(ThunkTest, EscapesReachTheDriverBothWays) {
  DXGKIT_COVERS("THUNK-32");
  with_client([](Stack& stack, Client& client) {
    std::vector<std::byte> seen;
    UINT size = 0;
    HANDLE device = nullptr, context = nullptr;
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE* args) {
      device = args->hDevice;
      context = args->hContext;
      size = args->PrivateDriverDataSize;
      const auto* data = static_cast<const std::byte*>(args->pPrivateDriverData);
      seen.assign(data, data + size);
      std::memset(args->pPrivateDriverData, 0x22, size);
      return NTSTATUS{0};
    };
    std::vector<std::byte> data(24, std::byte{0x11});
    D3DKMT_ESCAPE escape{};
    escape.hAdapter = client.adapter;
    escape.hDevice = client.device;
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    escape.pPrivateDriverData = data.data();
    escape.PrivateDriverDataSize = 24;
    EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
    EXPECT_EQ(size, 24U);
    EXPECT_EQ(seen, std::vector<std::byte>(24, std::byte{0x11}));
    EXPECT_EQ(data, std::vector<std::byte>(24, std::byte{0x22}));
    // The driver gets its own handles of what the client names.
    const HANDLE its_device = device;
    EXPECT_NE(its_device, nullptr);
    EXPECT_EQ(context, nullptr);
    escape.hContext = client.make_context(0).handle;
    EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
    EXPECT_EQ(device, its_device);
    EXPECT_NE(context, nullptr);
    escape.hDevice = escape.hContext = 0;
    EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
    EXPECT_EQ(device, nullptr);
    EXPECT_EQ(context, nullptr);
    stack.miniport.hooks.escape = [](const DXGKARG_ESCAPE*) {
      return nt_status(Status::kPrivilegedInstruction);
    };
    EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }),
              nt_status(Status::kPrivilegedInstruction));
  });
}

// HardwareAccess and DriverKnownEscape are flags of this call; no other bit reaches a driver.
TEST_F(ThunkTest, AnEscapeWithAnyOtherFlagIsRefused) {
  DXGKIT_COVERS("THUNK-32", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const Digest before = digest(stack, {&client});
    for (UINT bit = 1; bit < 32; ++bit) {
      if (bit == 6) continue;
      D3DKMT_ESCAPE args{};
      args.hAdapter = client.adapter;
      args.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
      args.Flags.Value = 1U << bit;
      EXPECT_EQ(client.call([&] { return D3DKMTEscape(&args); }),
                nt_status(Status::kInvalidParameter))
          << bit;
    }
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(stack.miniport.count("DxgkDdiEscape"), 0U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
