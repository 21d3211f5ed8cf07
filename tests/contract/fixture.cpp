#include "tests/contract/fixture.h"

#include <bit>
#include <cstring>
#include <ostream>

#include "dxgk/adapter/adapter.h"
#include "dxgk/system_impl.h"
#include "thunks/client.h"

namespace dxgkit::contract {

Stack::Stack(const nt::KernelConfig& config, uint64_t memory_bytes)
    : machine(memory_bytes), kernel(runtime::Runtime::current(), machine, findings, config) {
  EXPECT_EQ(machine.add_function(miniport.function()), Status::kSuccess);
  system = std::make_unique<dxgk::System>(runtime::Runtime::current(), machine, kernel, findings);
  pages_at_start = machine.free_page_count();
}

Stack::~Stack() {
  blocking([&] { system.reset(); });
  driver.reset();
  if (!expect_leaks) {
    EXPECT_EQ(miniport.live_objects(), 0U) << "driver objects nobody destroyed";
    EXPECT_TRUE(kernel.leaks().empty());
  }
  EXPECT_EQ(machine.free_page_count(), pages_at_start) << "pages nobody returned";
  machine.remove_function(miniport.function());
}

Status Stack::load() {
  std::string message;
  Result<std::unique_ptr<port::Driver>> loaded =
      port::Driver::load(kernel, findings, miniport.source(), &message);
  if (!loaded.has_value()) return loaded.error();
  driver = std::move(*loaded);
  return Status::kSuccess;
}

Status Stack::start() {
  if (driver == nullptr) {
    if (const Status status = load(); status != Status::kSuccess) return status;
  }
  Status status = Status::kSuccess;
  blocking([&] {
    const Result<dxgk::Luid> started = system->start_adapter(*driver, miniport.function(), options);
    if (started.has_value()) {
      luid = *started;
    } else {
      status = started.error();
    }
  });
  return status;
}

dxgk::Adapter& Stack::adapter() {
  const dxgk::Ref<dxgk::Adapter> found = system->impl().find(luid);
  EXPECT_TRUE(found);
  return *found;
}

void Stack::settle() {
  if (system == nullptr) return;
  for (const dxgk::Ref<dxgk::Adapter>& one : system->impl().running())
    one->core().lane().run([] {});
}

size_t Stack::drive() {
  size_t completed = 0;
  for (;;) {
    settle();
    const size_t now = complete_work ? complete_work() : miniport.complete_all();
    if (now == 0) return completed;
    completed += now;
  }
}

Stack::Background::Background(Stack& stack, std::function<void()> call)
    : stack_(stack),
      thread_(runtime::Runtime::current().spawn("background", [this, call = std::move(call)] {
        call();
        done_.store(true, std::memory_order_release);
      })) {}

Stack::Background::~Background() {
  if (thread_ != nullptr) finish();
}

bool Stack::Background::finished(int rounds) {
  for (int i = 0; i < rounds && !done_.load(std::memory_order_acquire); ++i)
    runtime::Runtime::current().sleep_for(runtime::kMicrosecond);
  return done_.load(std::memory_order_acquire);
}

void Stack::Background::finish() {
  while (!stack_.complete_work && !done_.load(std::memory_order_acquire)) {
    // A GPU that completes at submission needs no help: two would report the same fence.
    if (!stack_.miniport.config.auto_complete) static_cast<void>(stack_.miniport.complete_all());
    // Not a yield: when everybody only yields, virtual time jumps to the next timer, which is the
    // timeout of a packet.
    runtime::Runtime::current().sleep_for(runtime::kMicrosecond);
  }
  thread_->join();
  thread_.reset();
}

void Stack::blocking(const std::function<void()>& call) { Background(*this, call).finish(); }

std::vector<std::string> Stack::rules() const {
  std::vector<std::string> rules;
  for (const verifier::Finding& finding : findings.all()) rules.push_back(finding.rule);
  return rules;
}

verifier::Finding Stack::only_finding() const {
  const std::vector<verifier::Finding> all = findings.all();
  EXPECT_EQ(all.size(), 1U) << ::testing::PrintToString(rules());
  return all.empty() ? verifier::Finding{} : all.front();
}

D3DDDI_PATCHLOCATIONLIST patch_at(uint32_t index, uint32_t offset, uint32_t split,
                                  uint32_t allocation_offset, uint32_t slot) {
  D3DDDI_PATCHLOCATIONLIST patch{};
  patch.AllocationIndex = index;
  patch.SlotId = slot & 0xFFFFFFU;
  patch.AllocationOffset = allocation_offset;
  patch.PatchOffset = offset;
  patch.SplitOffset = split;
  return patch;
}

Work work_on(std::initializer_list<D3DKMT_HANDLE> allocations) {
  Work work;
  uint32_t index = 0;
  for (const D3DKMT_HANDLE handle : allocations) {
    work.allocations.push_back({handle, true});
    work.patches.push_back(patch_at(index, 16 * index));
    ++index;
  }
  return work;
}

Client::Client(Stack& stack_in, const char* name, bool with_device) : stack(stack_in) {
  process = &stack.system->create_process(name);
  kept_ = process->shared_from_this();
  D3DKMT_OPENADAPTERFROMLUID open{};
  open.AdapterLuid.LowPart = stack.luid.low;
  open.AdapterLuid.HighPart = stack.luid.high;
  EXPECT_EQ(call([&] { return D3DKMTOpenAdapterFromLuid(&open); }), 0);
  adapter = open.hAdapter;
  if (with_device) device = make_device();
}

Client::~Client() {
  if (!ended_) end();
}

void Client::end() {
  ended_ = true;
  stack.blocking([&] { stack.system->end_process(*process); });
}

size_t Client::handles() const { return ended_ ? 0 : process->handles().size(); }

void Client::as_client(const std::function<void()>& body) {
  const thunks::ClientScope scope(*stack.system, *process);
  body();
}

D3DKMT_HANDLE Client::make_device() {
  D3DKMT_CREATEDEVICE create{};
  create.hAdapter = adapter;
  EXPECT_EQ(call([&] { return D3DKMTCreateDevice(&create); }), 0);
  return create.hDevice;
}

NTSTATUS Client::create_context(ContextBuffers* out, UINT node, D3DKMT_HANDLE on,
                                D3DDDI_CREATECONTEXTFLAGS flags) {
  D3DKMT_CREATECONTEXT create{};
  create.hDevice = on == 0 ? device : on;
  create.NodeOrdinal = node;
  create.Flags = flags;
  const NTSTATUS status = call([&] { return D3DKMTCreateContext(&create); });
  *out = {create.hContext,
          static_cast<std::byte*>(create.pCommandBuffer),
          create.CommandBufferSize,
          create.pAllocationList,
          create.AllocationListSize,
          create.pPatchLocationList,
          create.PatchLocationListSize};
  return status;
}

ContextBuffers Client::make_context(UINT node) {
  ContextBuffers context;
  EXPECT_EQ(create_context(&context, node), 0);
  return context;
}

NTSTATUS Client::create_allocation(const ScriptedAllocation& description, D3DKMT_HANDLE* out,
                                   D3DKMT_HANDLE on) {
  ScriptedAllocation data = description;
  D3DDDI_ALLOCATIONINFO info{};
  info.pPrivateDriverData = &data;
  info.PrivateDriverDataSize = sizeof data;
  D3DKMT_CREATEALLOCATION create{};
  create.hDevice = on == 0 ? device : on;
  create.NumAllocations = 1;
  create.pAllocationInfo = &info;
  const NTSTATUS status = call([&] { return D3DKMTCreateAllocation(&create); });
  *out = info.hAllocation;
  return status;
}

D3DKMT_HANDLE Client::make_allocation(const ScriptedAllocation& description) {
  D3DKMT_HANDLE handle = 0;
  EXPECT_EQ(create_allocation(description, &handle), 0);
  EXPECT_NE(handle, 0U);
  return handle;
}

D3DKMT_HANDLE Client::make_allocation(uint64_t size, uint32_t segments) {
  ScriptedAllocation description;
  description.size = size;
  description.supported_read = description.supported_write = segments;
  return make_allocation(description);
}

NTSTATUS Client::destroy_allocation(D3DKMT_HANDLE allocation, UINT flags) {
  D3DKMT_DESTROYALLOCATION2 destroy{};
  destroy.hDevice = device;
  destroy.phAllocationList = &allocation;
  destroy.AllocationCount = 1;
  destroy.Flags.Value = flags;
  return call([&] { return D3DKMTDestroyAllocation2(&destroy); });
}

NTSTATUS Client::render(ContextBuffers& context, const Work& work, D3DKMT_RENDER* out) {
  D3DKMT_RENDER args{};
  args.hContext = context.handle;
  args.CommandLength = work.command_bytes;
  args.AllocationCount = static_cast<UINT>(work.allocations.size());
  args.PatchLocationCount = static_cast<UINT>(work.patches.size());
  args.Flags = work.flags;
  // Of a process that has ended the buffers are gone.
  if (!ended_ && work.command_bytes <= context.command_bytes)
    std::memset(context.command, static_cast<int>(work.fill), work.command_bytes);
  for (size_t i = 0; !ended_ && i < work.allocations.size() && i < context.allocation_count; ++i) {
    context.allocations[i] = {};
    context.allocations[i].hAllocation = work.allocations[i].handle;
    context.allocations[i].WriteOperation = work.allocations[i].write ? 1 : 0;
  }
  for (size_t i = 0; !ended_ && i < work.patches.size() && i < context.patch_count; ++i)
    context.patches[i] = work.patches[i];
  const NTSTATUS status = call([&] { return D3DKMTRender(&args); });
  if (args.pNewCommandBuffer != nullptr) {
    context.command = static_cast<std::byte*>(args.pNewCommandBuffer);
    context.command_bytes = args.NewCommandBufferSize;
    context.allocations = args.pNewAllocationList;
    context.allocation_count = args.NewAllocationListSize;
    context.patches = args.pNewPatchLocationList;
    context.patch_count = args.NewPatchLocationListSize;
  }
  if (out != nullptr) *out = args;
  return status;
}

void Client::list(std::vector<D3DKMT_HANDLE> allocations) {
  if (paging_queue_ == 0) {
    D3DKMT_CREATEPAGINGQUEUE create{};
    create.hDevice = device;
    EXPECT_EQ(call([&] { return D3DKMTCreatePagingQueue(&create); }), 0);
    paging_queue_ = create.hPagingQueue;
  }
  D3DDDI_MAKERESIDENT args{};
  args.hPagingQueue = paging_queue_;
  args.NumAllocations = static_cast<UINT>(allocations.size());
  args.AllocationList = allocations.data();
  EXPECT_GE(call([&] { return D3DKMTMakeResident(&args); }), 0);
}

NTSTATUS Client::destroy_context(D3DKMT_HANDLE context) {
  D3DKMT_DESTROYCONTEXT destroy{};
  destroy.hContext = context;
  NTSTATUS status = 0;
  stack.blocking([&] { status = call([&] { return D3DKMTDestroyContext(&destroy); }); });
  return status;
}

NTSTATUS Client::destroy_device(D3DKMT_HANDLE which) {
  D3DKMT_DESTROYDEVICE destroy{};
  destroy.hDevice = which;
  NTSTATUS status = 0;
  stack.blocking([&] { status = call([&] { return D3DKMTDestroyDevice(&destroy); }); });
  return status;
}

NTSTATUS Client::lock(D3DKMT_HANDLE allocation, void** address) {
  D3DKMT_LOCK2 args{};
  args.hDevice = device;
  args.hAllocation = allocation;
  NTSTATUS status = 0;
  stack.blocking([&] { status = call([&] { return D3DKMTLock2(&args); }); });
  *address = args.pData;
  return status;
}

NTSTATUS Client::unlock(D3DKMT_HANDLE allocation) {
  D3DKMT_UNLOCK2 args{};
  args.hDevice = device;
  args.hAllocation = allocation;
  return call([&] { return D3DKMTUnlock2(&args); });
}

NTSTATUS Client::wait_for_idle() {
  D3DKMT_WAITFORIDLE args{};
  args.hDevice = device;
  NTSTATUS status = 0;
  stack.blocking([&] { status = call([&] { return D3DKMTWaitForIdle(&args); }); });
  return status;
}

D3DKMT_DEVICEEXECUTION_STATE Client::state() {
  D3DKMT_GETDEVICESTATE args{};
  args.hDevice = device;
  args.StateType = D3DKMT_DEVICESTATE_EXECUTION;
  EXPECT_EQ(call([&] { return D3DKMTGetDeviceState(&args); }), 0);
  return args.ExecutionState;
}

D3DKMT_HANDLE Client::make_sync(D3DDDI_SYNCHRONIZATIONOBJECT_TYPE type, uint64_t initial,
                                uint64_t maximum, D3DKMT_CREATESYNCHRONIZATIONOBJECT2* out) {
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
  args.hDevice = device;
  args.Info.Type = type;
  switch (type) {
    case D3DDDI_SYNCHRONIZATION_MUTEX:
      args.Info.SynchronizationMutex.InitialState = initial != 0;
      break;
    case D3DDDI_SEMAPHORE:
      args.Info.Semaphore.InitialCount = static_cast<UINT>(initial);
      args.Info.Semaphore.MaxCount = static_cast<UINT>(maximum);
      break;
    case D3DDDI_FENCE:
      args.Info.Fence.FenceValue = initial;
      break;
    default:
      args.Info.MonitoredFence.InitialFenceValue = initial;
      break;
  }
  EXPECT_EQ(call([&] { return D3DKMTCreateSynchronizationObject2(&args); }), 0);
  if (out != nullptr) *out = args;
  return args.hSyncObject;
}

NTSTATUS Client::signal_cpu(D3DKMT_HANDLE object, uint64_t value) {
  const UINT64 fence = value;
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU args{};
  args.hDevice = device;
  args.ObjectCount = 1;
  args.ObjectHandleArray = &object;
  args.FenceValueArray = &fence;
  return call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&args); });
}

NTSTATUS Client::wait_cpu(D3DKMT_HANDLE object, uint64_t value) {
  const UINT64 fence = value;
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU args{};
  args.hDevice = device;
  args.ObjectCount = 1;
  args.ObjectHandleArray = &object;
  args.FenceValueArray = &fence;
  return call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&args); });
}

NTSTATUS Client::signal_gpu(const ContextBuffers& context, D3DKMT_HANDLE object, uint64_t value) {
  const UINT64 fence = value;
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU args{};
  args.hContext = context.handle;
  args.ObjectCount = 1;
  args.ObjectHandleArray = &object;
  args.MonitoredFenceValueArray = &fence;
  return call([&] { return D3DKMTSignalSynchronizationObjectFromGpu(&args); });
}

NTSTATUS Client::wait_gpu(const ContextBuffers& context, D3DKMT_HANDLE object, uint64_t value) {
  const UINT64 fence = value;
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU args{};
  args.hContext = context.handle;
  args.ObjectCount = 1;
  args.ObjectHandleArray = &object;
  args.MonitoredFenceValueArray = &fence;
  return call([&] { return D3DKMTWaitForSynchronizationObjectFromGpu(&args); });
}

Digest digest(Stack& stack, std::initializer_list<const Client*> clients) {
  stack.settle();
  Digest out;
  for (const Client* client : clients) out.handles.push_back(client->handles());
  out.driver_objects = stack.miniport.live_objects();
  out.driver_calls = stack.miniport.calls().order.size();
  out.findings = stack.findings.total();
  out.free_pages = stack.machine.free_page_count();
  const Result<dxgk::AdapterStatistics> sums = stack.system->statistics(stack.luid);
  if (sums.has_value()) {
    static_assert(sizeof(*sums) % sizeof(uint64_t) == 0);
    out.statistics.resize(sizeof(*sums) / sizeof(uint64_t));
    std::memcpy(out.statistics.data(), &*sums, sizeof(*sums));
  }
  return out;
}

std::ostream& operator<<(std::ostream& out, const Digest& digest) {
  return out << "handles " << ::testing::PrintToString(digest.handles) << ", driver objects "
             << digest.driver_objects << ", driver calls " << digest.driver_calls << ", findings "
             << digest.findings << ", free pages " << digest.free_pages << ", statistics "
             << ::testing::PrintToString(digest.statistics);
}

void ContractTest::bare(const std::function<void(Stack&)>& body, uint64_t seed) {
  const auto runtime = runtime::make_sim_runtime(
      {.seed = seed, .time_limit = 3600 * runtime::kSecond, .stack_bytes = 512 * 1024});
  runtime->run_main([&] {
    Stack stack;
    body(stack);
    stack.miniport.hooks = {};  // what they refer to went with the body
  });
}

void ContractTest::running(const std::function<void(Stack&)>& body,
                           const std::function<void(ScriptedMiniport&)>& prepare, uint64_t seed) {
  bare(
      [&](Stack& stack) {
        if (prepare) prepare(stack.miniport);
        ASSERT_EQ(stack.start(), Status::kSuccess);
        body(stack);
      },
      seed);
}

void ContractTest::with_client(const std::function<void(Stack&, Client&)>& body,
                               const std::function<void(ScriptedMiniport&)>& prepare,
                               uint64_t seed) {
  running(
      [&](Stack& stack) {
        Client client(stack);
        body(stack, client);
        stack.miniport.hooks = {};  // before the client's end calls the driver again
      },
      prepare, seed);
}

}  // namespace dxgkit::contract
