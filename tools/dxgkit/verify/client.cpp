// Client processes of the exerciser.
#include "thunks/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {
namespace {

/// ALLOC-63: what the client is about to write has to fit. True if one does not.
bool report_too_small(Bench& bench, dxgk::Process& process,
                      std::span<const ClientAllocation> allocations) {
  if (!bench.running()) return false;
  for (const ClientAllocation& one : allocations) {
    if (one.size_bytes == 0) continue;  // whatever the driver makes of it
    const uint64_t bytes = bench.exercise().memory().size_bytes(process, one.handle);
    if (bytes == 0 || bytes >= one.size_bytes) continue;
    bench.findings().report(
        {.rule = "ALLOC-63",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiCreateAllocation",
         .actual = fmt::format("The client plug-in asked for an allocation of {} bytes, and the "
                               "driver told a Size that takes pages of {} bytes.",
                               one.size_bytes, bytes),
         .expected = "Size of DXGK_ALLOCATIONINFO holds what the private driver data asks for.",
         .fix = "Follow the size, or width, pitch and height, from the private data to Size.",
         .why = "The kernel makes as many pages as Size says, and the client uses what it asked "
                "for.",
         .windows = "Applications and engines write behind the last page: a crash, or memory of "
                    "somebody else."});
    return true;
  }
  return false;
}

}  // namespace

Client::Client(Bench& bench, std::string name)
    : bench_(bench), process_(bench.system().create_process(std::move(name))) {}

Client::~Client() { bench_.system().end_process(process_); }

Answer<void> Client::open_adapter() {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_OPENADAPTERFROMLUID open{};
  open.AdapterLuid.LowPart = bench_.luid().low;
  open.AdapterLuid.HighPart = bench_.luid().high;
  DXGKIT_VERIFY_TRY(check_answer("D3DKMTOpenAdapterFromLuid", D3DKMTOpenAdapterFromLuid(&open)));
  adapter_ = open.hAdapter;
  return {};
}

Answer<void> Client::close_adapter() {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  const D3DKMT_CLOSEADAPTER close{.hAdapter = adapter_};
  return check_answer("D3DKMTCloseAdapter", D3DKMTCloseAdapter(&close));
}

Answer<D3DKMT_HANDLE> Client::create_device() {
  D3DKMT_HANDLE device = 0;
  DXGKIT_VERIFY_TRY(check_answer("D3DKMTCreateDevice", try_create_device(&device)));
  return device;
}

NTSTATUS Client::try_create_device(D3DKMT_HANDLE* device) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_CREATEDEVICE create{};
  create.hAdapter = adapter_;
  const NTSTATUS status = D3DKMTCreateDevice(&create);
  if (is_success(from_ntstatus(status))) *device = create.hDevice;
  return status;
}

Answer<void> Client::destroy_device(D3DKMT_HANDLE device) {
  begin_call();
  paging_queues_.erase(device);
  const thunks::ClientScope scope(bench_.system(), process_);
  const D3DKMT_DESTROYDEVICE destroy{.hDevice = device};
  return check_answer("D3DKMTDestroyDevice", D3DKMTDestroyDevice(&destroy));
}

Answer<ClientContext> Client::create_context(D3DKMT_HANDLE device, uint32_t node,
                                             std::span<const std::byte> private_data) {
  ClientContext context;
  const char* const function =
      bench_.gpu_addresses() ? "D3DKMTCreateContextVirtual" : "D3DKMTCreateContext";
  DXGKIT_VERIFY_TRY(
      check_answer(function, try_create_context(device, node, private_data, &context)));
  return context;
}

NTSTATUS Client::try_create_context(D3DKMT_HANDLE device, uint32_t node,
                                    std::span<const std::byte> private_data,
                                    ClientContext* context) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  std::vector<std::byte> data(private_data.begin(), private_data.end());
  if (bench_.gpu_addresses()) {
    D3DKMT_CREATECONTEXTVIRTUAL create{};
    create.hDevice = device;
    create.NodeOrdinal = node;
    create.pPrivateDriverData = data.empty() ? nullptr : data.data();
    create.PrivateDriverDataSize = static_cast<UINT>(data.size());
    create.ClientHint = D3DKMT_CLIENTHINT_UNKNOWN;
    const NTSTATUS status = D3DKMTCreateContextVirtual(&create);
    if (is_success(from_ntstatus(status))) {
      *context = {};
      context->device = device;
      context->handle = create.hContext;
    }
    return status;
  }
  D3DKMT_CREATECONTEXT create{};
  create.hDevice = device;
  create.NodeOrdinal = node;
  create.EngineAffinity = 0;
  create.pPrivateDriverData = data.empty() ? nullptr : data.data();
  create.PrivateDriverDataSize = static_cast<UINT>(data.size());
  create.ClientHint = D3DKMT_CLIENTHINT_UNKNOWN;
  const NTSTATUS status = D3DKMTCreateContext(&create);
  if (is_success(from_ntstatus(status))) {
    *context = {.handle = create.hContext,
                .commands = static_cast<std::byte*>(create.pCommandBuffer),
                .command_bytes = create.CommandBufferSize,
                .list = create.pAllocationList,
                .list_size = create.AllocationListSize,
                .patches = create.pPatchLocationList,
                .patches_size = create.PatchLocationListSize,
                .device = device};
  }
  return status;
}

Answer<void> Client::destroy_context(D3DKMT_HANDLE context) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  const D3DKMT_DESTROYCONTEXT destroy{.hContext = context};
  return check_answer("D3DKMTDestroyContext", D3DKMTDestroyContext(&destroy));
}

Answer<void> Client::set_priority(D3DKMT_HANDLE context, int32_t priority) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_SETCONTEXTSCHEDULINGPRIORITY set{};
  set.hContext = context;
  set.Priority = priority;
  return check_answer("D3DKMTSetContextSchedulingPriority",
                      D3DKMTSetContextSchedulingPriority(&set));
}

Answer<D3DKMT_HANDLE> Client::create_allocations(D3DKMT_HANDLE device,
                                                 std::span<ClientAllocation> allocations,
                                                 bool as_resource) {
  D3DKMT_HANDLE resource = 0;
  DXGKIT_VERIFY_TRY(check_answer(
      "D3DKMTCreateAllocation2",
      try_create_allocations(device, allocations,
                             as_resource ? Grouping::kResource : Grouping::kAlone, &resource)));
  return resource;
}

NTSTATUS Client::try_create_allocations(D3DKMT_HANDLE device,
                                        std::span<ClientAllocation> allocations, Grouping grouping,
                                        D3DKMT_HANDLE* out) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  std::vector<D3DDDI_ALLOCATIONINFO2> infos(allocations.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    infos[i] = {};
    infos[i].pPrivateDriverData = allocations[i].private_data.data();
    infos[i].PrivateDriverDataSize = static_cast<UINT>(allocations[i].private_data.size());
  }
  D3DKMT_CREATEALLOCATION create{};
  create.hDevice = device;
  create.NumAllocations = static_cast<UINT>(infos.size());
  create.pAllocationInfo2 = infos.data();
  create.Flags.CreateResource = grouping != Grouping::kAlone;
  create.Flags.CreateShared = grouping == Grouping::kSharedResource;
  const NTSTATUS status = D3DKMTCreateAllocation2(&create);
  if (!is_success(from_ntstatus(status))) return status;
  for (size_t i = 0; i < infos.size(); ++i) allocations[i].handle = infos[i].hAllocation;
  *out = grouping == Grouping::kSharedResource ? create.hGlobalShare : create.hResource;
  if (report_too_small(bench_, process_, allocations)) {
    // Nobody can use them: a write would leave their pages.
    D3DKMT_DESTROYALLOCATION2 destroy{};
    destroy.hDevice = device;
    destroy.hResource = create.hResource;
    std::vector<D3DKMT_HANDLE> handles;
    for (const ClientAllocation& one : allocations) handles.push_back(one.handle);
    if (create.hResource == 0) {
      destroy.phAllocationList = handles.data();
      destroy.AllocationCount = static_cast<UINT>(handles.size());
    }
    static_cast<void>(D3DKMTDestroyAllocation2(&destroy));
    return to_ntstatus(Status::kBufferTooSmall);
  }
  return status;
}

NTSTATUS Client::try_open_resource(D3DKMT_HANDLE device, D3DKMT_HANDLE global, size_t count,
                                   D3DKMT_HANDLE* resource) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_QUERYRESOURCEINFO query{};
  query.hDevice = device;
  query.hGlobalShare = global;
  if (const NTSTATUS status = D3DKMTQueryResourceInfo(&query); !is_success(from_ntstatus(status)))
    return status;
  std::vector<D3DDDI_OPENALLOCATIONINFO> infos(count);
  std::vector<std::byte> all(query.TotalPrivateDriverDataSize),
      own(query.ResourcePrivateDriverDataSize), runtime(query.PrivateRuntimeDataSize);
  D3DKMT_OPENRESOURCE open{};
  open.hDevice = device;
  open.hGlobalShare = global;
  open.NumAllocations = static_cast<UINT>(count);
  open.pOpenAllocationInfo = infos.data();
  open.pPrivateRuntimeData = runtime.data();
  open.PrivateRuntimeDataSize = static_cast<UINT>(runtime.size());
  open.pResourcePrivateDriverData = own.data();
  open.ResourcePrivateDriverDataSize = static_cast<UINT>(own.size());
  open.pTotalPrivateDriverDataBuffer = all.data();
  open.TotalPrivateDriverDataBufferSize = static_cast<UINT>(all.size());
  const NTSTATUS status = D3DKMTOpenResource(&open);
  if (is_success(from_ntstatus(status))) *resource = open.hResource;
  return status;
}

NTSTATUS Client::try_escape(D3DKMT_HANDLE device, std::span<std::byte> data, bool hardware_access) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_ESCAPE escape{};
  escape.hAdapter = adapter_;
  escape.hDevice = device;
  escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
  escape.Flags.HardwareAccess = hardware_access ? 1 : 0;
  escape.pPrivateDriverData = data.empty() ? nullptr : data.data();
  escape.PrivateDriverDataSize = static_cast<UINT>(data.size());
  return D3DKMTEscape(&escape);
}

NTSTATUS Client::try_create_allocation(D3DKMT_HANDLE device, ClientAllocation& allocation) {
  allocation.handle = 0;
  D3DKMT_HANDLE no_resource = 0;
  return try_create_allocations(device, {&allocation, 1}, Grouping::kAlone, &no_resource);
}

Answer<void> Client::destroy_allocations(D3DKMT_HANDLE device,
                                         std::span<const D3DKMT_HANDLE> handles) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_DESTROYALLOCATION2 destroy{};
  destroy.hDevice = device;
  destroy.phAllocationList = handles.data();
  destroy.AllocationCount = static_cast<UINT>(handles.size());
  return check_answer("D3DKMTDestroyAllocation2", D3DKMTDestroyAllocation2(&destroy));
}

Answer<void> Client::destroy_resource(D3DKMT_HANDLE device, D3DKMT_HANDLE resource) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_DESTROYALLOCATION2 destroy{};
  destroy.hDevice = device;
  destroy.hResource = resource;
  return check_answer("D3DKMTDestroyAllocation2", D3DKMTDestroyAllocation2(&destroy));
}

Answer<std::byte*> Client::lock(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_LOCK2 lock{};
  lock.hDevice = device;
  lock.hAllocation = allocation;
  DXGKIT_VERIFY_TRY(check_answer("D3DKMTLock2", D3DKMTLock2(&lock)));
  bench_.wait_while_frozen();
  return static_cast<std::byte*>(lock.pData);
}

Answer<void> Client::unlock(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_UNLOCK2 unlock{};
  unlock.hDevice = device;
  unlock.hAllocation = allocation;
  return check_answer("D3DKMTUnlock2", D3DKMTUnlock2(&unlock));
}

NTSTATUS Client::try_render(ClientContext& context, uint32_t command_bytes, uint32_t list_count,
                            uint32_t patch_count, bool null_rendering) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_RENDER render{};
  render.hContext = context.handle;
  render.CommandLength = command_bytes;
  render.AllocationCount = list_count;
  render.PatchLocationCount = patch_count;
  render.Flags.NullRendering = null_rendering ? 1 : 0;
  std::vector<D3DKMT_HANDLE> named;
  for (uint32_t i = 0; bench_.explicit_residency() && i < list_count && i < context.list_size;
       ++i) {
    if (context.list[i].hAllocation != 0) named.push_back(context.list[i].hAllocation);
  }
  bool listed = false;
  if (!named.empty()) {
    const Answer<PagingQueue*> queue = paging_queue(context.device);
    D3DDDI_MAKERESIDENT resident{};
    resident.hPagingQueue = queue.has_value() ? (*queue)->handle : 0;
    resident.NumAllocations = static_cast<UINT>(named.size());
    resident.AllocationList = named.data();
    resident.Flags.CantTrimFurther = 1;
    // No wait for the fence: the device does not run before its list is resident.
    listed = is_success(from_ntstatus(D3DKMTMakeResident(&resident)));
  }
  ++submissions_;
  const NTSTATUS status = D3DKMTRender(&render);
  if (listed) {
    D3DKMT_EVICT evict{};
    evict.hDevice = context.device;
    evict.NumAllocations = static_cast<UINT>(named.size());
    evict.AllocationList = named.data();
    evict.Flags.EvictOnlyIfNecessary = 1;
    static_cast<void>(D3DKMTEvict(&evict));
  }
  if (render.pNewCommandBuffer != nullptr) {  // THUNK-15
    context.commands = static_cast<std::byte*>(render.pNewCommandBuffer);
    context.command_bytes = render.NewCommandBufferSize;
    context.list = render.pNewAllocationList;
    context.list_size = render.NewAllocationListSize;
    context.patches = render.pNewPatchLocationList;
    context.patches_size = render.NewPatchLocationListSize;
  }
  return status;
}

Answer<void> Client::wait_idle(D3DKMT_HANDLE device) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  const D3DKMT_WAITFORIDLE wait{.hDevice = device};
  return check_answer("D3DKMTWaitForIdle", D3DKMTWaitForIdle(&wait));
}

NTSTATUS Client::query_umd_private(std::span<std::byte> data) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_QUERYADAPTERINFO query{};
  query.hAdapter = adapter_;
  query.Type = KMTQAITYPE_UMDRIVERPRIVATE;
  query.pPrivateDriverData = data.data();
  query.PrivateDriverDataSize = static_cast<UINT>(data.size());
  return D3DKMTQueryAdapterInfo(&query);
}

void Client::ask_umd_private() {
  constexpr size_t kUnknownBytes = 64;
  const Plugin* const plugin = bench_.plugin();
  std::vector<std::byte> data(plugin == nullptr ? kUnknownBytes
                                                : plugin->functions().umd_private_bytes);
  if (!data.empty()) static_cast<void>(query_umd_private(data));
}

std::optional<D3DKMT_DEVICEEXECUTION_STATE> Client::execution_state(D3DKMT_HANDLE device) {
  begin_call();
  const thunks::ClientScope scope(bench_.system(), process_);
  D3DKMT_GETDEVICESTATE state{};
  state.hDevice = device;
  state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
  if (!is_success(from_ntstatus(D3DKMTGetDeviceState(&state)))) return std::nullopt;
  return state.ExecutionState;
}

bool Client::active(D3DKMT_HANDLE device) {
  return execution_state(device) == D3DKMT_DEVICEEXECUTION_ACTIVE;
}

bool Client::page_faulted(D3DKMT_HANDLE device) {
  return execution_state(device) == D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT;
}

bool Client::faulted(D3DKMT_HANDLE device) {
  const auto state = execution_state(device);
  return state == D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT ||
         state == D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT;
}

}  // namespace dxgkit::tool::verify
