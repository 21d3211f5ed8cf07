// Calls through messages, in one process: a client's half and a server's half on one kernel.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "arguments/limits.h"
#include "arguments/table.h"
#include "dxgk/core/process.h"
#include "tests/contract/fixture.h"
#include "thunks/support.h"
#include "wire/call_text.h"
#include "wire/client_call.h"
#include "wire/kernel_memory.h"
#include "wire/server_session.h"

namespace dxgkit::contract {
namespace {

/// A client process that reaches the kernel by messages.
class Far {
 public:
  explicit Far(Client& client) : session_(*client.stack.system, *client.process) {
    session_.set_texts(true);
  }
  template <typename Args>
  NTSTATUS call(std::string_view name, Args* args) {
    wire::ClientCall call(arguments::number_of(name), const_cast<std::remove_const_t<Args>*>(args),
                          memory);
    if (call.answer().has_value()) return static_cast<NTSTATUS>(*call.answer());
    std::vector<wire::UniqueFd> copies;
    for (const int fd : call.descriptors()) copies.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    wire::Reply reply = session_.handle(call.message(), std::move(copies));
    EXPECT_EQ(reply.refusal, "");
    text = reply.text;
    const auto result = call.finish(reply.bytes, std::move(reply.descriptors));
    EXPECT_TRUE(result.has_value());
    return static_cast<NTSTATUS>(result.value_or(-1));
  }
  wire::Reply send(std::span<const std::byte> bytes) { return session_.handle(bytes, {}); }

  wire::KernelMemory memory;
  std::string text;  // of the last call

 private:
  wire::ServerSession session_;
};

struct WireTest : ContractTest {};

TEST_F(WireTest, EveryFunctionIsInTheTableWithTheKernelsSupport) {
  const auto all = arguments::functions();
  EXPECT_EQ(all.size(), 188U);
  EXPECT_TRUE(
      std::ranges::is_sorted(all, {}, [](const auto& one) { return std::string(one.name); }));
  size_t local = 0;
  for (const arguments::Function& one : all) {
    const auto rows = thunks::support();
    const auto row =
        std::ranges::find(rows, std::string_view(one.name), &thunks::ThunkSupport::name);
    ASSERT_NE(row, rows.end()) << one.name;
    if (row->support == thunks::Support::kRefused) {
      EXPECT_STREQ(one.local, "the kernel refuses it") << one.name;
    }
    if (one.local != nullptr) ++local;
  }
  EXPECT_EQ(local, 39U + 2U);
}

/// A list over the bound of its function does not travel, and is refused as in one process.
TEST_F(WireTest, ListsAreBoundedAsInTheThunks) {
  with_client([](Stack& stack, Client& client) {
    Far far(client);
    const Digest before = digest(stack, {&client});
    std::vector<D3DKMT_HANDLE> handles(arguments::kMaxListElements + 1, client.device);
    const auto far_and_near = [&](std::string_view name, auto& args, auto* function) {
      EXPECT_EQ(far.call(name, &args), nt_status(Status::kInvalidParameter)) << name;
      EXPECT_EQ(client.call([&] { return function(&args); }), nt_status(Status::kInvalidParameter))
          << name;
      const wire::ClientCall call(arguments::number_of(name), &args, far.memory);
      return call.message().size();
    };
    D3DKMT_EVICT evict{};
    evict.hDevice = client.device;
    evict.NumAllocations = static_cast<UINT>(handles.size());
    evict.AllocationList = handles.data();
    EXPECT_LT(far_and_near("D3DKMTEvict", evict, &D3DKMTEvict), 256U);
    // Bounds of its own: one more than it takes.
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 signal{};
    signal.BroadcastContextArray = handles.data();
    signal.BroadcastContextCount = D3DDDI_MAX_BROADCAST_CONTEXT + 1;
    EXPECT_LT(far_and_near("D3DKMTSignalSynchronizationObjectFromGpu2", signal,
                           &D3DKMTSignalSynchronizationObjectFromGpu2),
              256U);
    signal.BroadcastContextCount = D3DDDI_MAX_BROADCAST_CONTEXT;
    const wire::ClientCall call(arguments::number_of("D3DKMTSignalSynchronizationObjectFromGpu2"),
                                &signal, far.memory);
    EXPECT_GT(call.message().size(), 256U);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(WireTest, AListComesBackWithTheCallersOwnPointers) {
  with_client([](Stack& stack, Client& client) {
    Far far(client);
    ScriptedAllocation description;
    const ScriptedAllocation before = description;
    D3DDDI_ALLOCATIONINFO infos[2] = {};
    for (D3DDDI_ALLOCATIONINFO& info : infos) {
      info.pPrivateDriverData = &description;
      info.PrivateDriverDataSize = sizeof description;
    }
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 2;
    create.pAllocationInfo = infos;
    EXPECT_EQ(far.call("D3DKMTCreateAllocation", &create), 0);
    EXPECT_EQ(create.pAllocationInfo, infos);
    for (const D3DDDI_ALLOCATIONINFO& info : infos) {
      EXPECT_NE(info.hAllocation, 0U);
      EXPECT_EQ(info.pPrivateDriverData, &description);
      EXPECT_EQ(info.pSystemMem, nullptr);
    }
    EXPECT_NE(infos[0].hAllocation, infos[1].hAllocation);
    EXPECT_EQ(std::memcmp(&before, &description, sizeof description), 0);
    EXPECT_NE(far.text.find("D3DKMTCreateAllocation(hDevice=0x"), std::string::npos) << far.text;
    EXPECT_NE(far.text.find("pAllocationInfo=[2]"), std::string::npos) << far.text;
    EXPECT_NE(far.text.find(") = 0x0"), std::string::npos) << far.text;
    const D3DKMT_HANDLE handles[] = {infos[0].hAllocation, infos[1].hAllocation};
    D3DKMT_DESTROYALLOCATION2 destroy{};
    destroy.hDevice = client.device;
    destroy.AllocationCount = 2;
    destroy.phAllocationList = handles;
    EXPECT_EQ(far.call("D3DKMTDestroyAllocation2", &destroy), 0);
    EXPECT_EQ(far.call("D3DKMTDestroyAllocation2", &destroy), nt_status(Status::kInvalidParameter));
    stack.settle();
  });
}

TEST_F(WireTest, BadPointersAreRefusedAsInOneProcessAndChangeNothing) {
  with_client([](Stack& stack, Client& client) {
    Far far(client);
    const auto* const nowhere = reinterpret_cast<D3DKMT_HANDLE*>(0x10);
    EXPECT_EQ(far.call<D3DKMT_CREATEDEVICE>("D3DKMTCreateDevice", nullptr),
              nt_status(Status::kInvalidParameter));
    const Digest before = digest(stack, {&client});
    D3DKMT_DESTROYALLOCATION2 destroy{};
    destroy.hDevice = client.device;
    destroy.AllocationCount = 2;
    for (const D3DKMT_HANDLE* list : {nowhere, static_cast<const D3DKMT_HANDLE*>(nullptr)}) {
      destroy.phAllocationList = list;
      EXPECT_EQ(far.call("D3DKMTDestroyAllocation2", &destroy),
                nt_status(Status::kInvalidParameter));
    }
    // More elements than a list may have.
    destroy.AllocationCount = 0xFFFF'FFFF;
    destroy.phAllocationList = &client.device;
    EXPECT_EQ(far.call("D3DKMTDestroyAllocation2", &destroy), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
    // Read-only memory where the function writes.
    void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_EQ(far.call("D3DKMTCreateDevice", static_cast<D3DKMT_CREATEDEVICE*>(page)),
              nt_status(Status::kInvalidParameter));
    munmap(page, 4096);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(WireTest, AHandleOfASharedObjectIsADescriptorOfTheCaller) {
  with_client([](Stack&, Client& client) {
    Far far(client);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence{};
    fence.hDevice = client.device;
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    fence.Info.Flags.Shared = 1;
    fence.Info.Flags.NtSecuritySharing = 1;
    ASSERT_EQ(far.call("D3DKMTCreateSynchronizationObject2", &fence), 0);
    // The page of the fence is the client's to read, and shows the value.
    const auto* const value =
        static_cast<const uint64_t*>(fence.Info.MonitoredFence.FenceValueCPUVirtualAddress);
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(*value, 0U);
    HANDLE shared = nullptr;
    const D3DKMT_HANDLE list[] = {fence.hSyncObject};
    uint64_t parameters[5] = {1, reinterpret_cast<uintptr_t>(list), 0, 0x1000'0000,
                              reinterpret_cast<uintptr_t>(&shared)};
    ASSERT_EQ(far.call("D3DKMTShareObjects", parameters), 0);
    ASSERT_NE(shared, nullptr);
    EXPECT_GE(fcntl(static_cast<int>(reinterpret_cast<intptr_t>(shared)), F_GETFD), 0);
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 open{};
    open.hNtHandle = shared;
    open.hDevice = client.device;
    ASSERT_EQ(far.call("D3DKMTOpenSyncObjectFromNtHandle2", &open), 0);
    EXPECT_EQ(open.hNtHandle, shared);
    EXPECT_NE(open.hSyncObject, fence.hSyncObject);
    const auto* const other =
        static_cast<const uint64_t*>(open.MonitoredFence.FenceValueCPUVirtualAddress);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(client.signal_cpu(fence.hSyncObject, 3), 0);
    EXPECT_EQ(*value, 3U);
    EXPECT_EQ(*other, 3U);
    close(static_cast<int>(reinterpret_cast<intptr_t>(shared)));
    // A number that is no descriptor.
    open.hNtHandle = reinterpret_cast<HANDLE>(uintptr_t{12345});
    EXPECT_EQ(far.call("D3DKMTOpenSyncObjectFromNtHandle2", &open),
              nt_status(Status::kInvalidHandle));
  });
}

TEST_F(WireTest, WhatTheClientWritesWhileItIsLockedArrivesAtTheUnlock) {
  with_client([](Stack&, Client& client) {
    Far far(client);
    const D3DKMT_HANDLE allocation = client.make_allocation();
    D3DKMT_LOCK2 lock{};
    lock.hDevice = client.device;
    lock.hAllocation = allocation;
    ASSERT_EQ(far.call("D3DKMTLock2", &lock), 0);
    ASSERT_NE(lock.pData, nullptr);
    std::memcpy(lock.pData, "from afar", 10);
    D3DKMT_UNLOCK2 unlock{};
    unlock.hDevice = client.device;
    unlock.hAllocation = allocation;
    ASSERT_EQ(far.call("D3DKMTUnlock2", &unlock), 0);
    void* near = nullptr;
    ASSERT_EQ(client.lock(allocation, &near), 0);
    EXPECT_STREQ(static_cast<const char*>(near), "from afar");
    std::memcpy(near, "from near", 10);
    EXPECT_EQ(client.unlock(allocation), 0);
    ASSERT_EQ(far.call("D3DKMTLock2", &lock), 0);
    EXPECT_STREQ(static_cast<const char*>(lock.pData), "from near");
    EXPECT_EQ(far.call("D3DKMTUnlock2", &unlock), 0);
    EXPECT_EQ(far.call("D3DKMTUnlock2", &unlock), nt_status(Status::kInvalidParameter));
  });
}

TEST_F(WireTest, RequestsThatAreNoneAreRefusedInOneSentenceAndReachNothing) {
  with_client([](Stack& stack, Client& client) {
    Far far(client);
    D3DKMT_HANDLE handles[] = {1, 2, 3};
    D3DKMT_EVICT evict{};
    evict.hDevice = client.device;
    evict.NumAllocations = 3;
    evict.AllocationList = handles;
    const wire::ClientCall call(arguments::number_of("D3DKMTEvict"), &evict, far.memory);
    const std::vector<std::byte> good(call.message().begin(), call.message().end());
    const Digest before = digest(stack, {&client});
    const auto refused = [&](std::vector<std::byte> bytes) {
      const wire::Reply reply = far.send(bytes);
      EXPECT_NE(reply.refusal, "");
      EXPECT_TRUE(reply.bytes.empty());
      EXPECT_EQ(digest(stack, {&client}), before);
    };
    for (size_t length = 0; length < good.size(); ++length)
      refused({good.begin(), good.begin() + static_cast<ptrdiff_t>(length)});
    const auto with = [&](size_t at, uint32_t value) {
      std::vector<std::byte> bytes = good;
      std::memcpy(bytes.data() + at, &value, sizeof value);
      return bytes;
    };
    refused(with(0, 0));    // another kind of frame
    refused(with(4, 188));  // no such function
    refused(with(4, arguments::number_of("D3DKMTRegisterTrimNotification")));  // a local one
    refused(with(8, 0));                                                       // no blocks
    refused(with(8, 3));   // more blocks than there are
    refused(with(16, 4));  // a structure of other size
    // Its count says four elements, and three come.
    refused(with(20 + offsetof(D3DKMT_EVICT, NumAllocations), 4));
    refused(with(20 + offsetof(D3DKMT_EVICT, NumAllocations), 0xFFFF'FFFF));
    refused(with(20 + offsetof(D3DKMT_EVICT, AllocationList), 0x1000));  // a pointer
    std::vector<std::byte> longer = good;
    longer.push_back(std::byte{});
    refused(longer);
    EXPECT_EQ(far.send(good).refusal, "");
  });
}

}  // namespace
}  // namespace dxgkit::contract
