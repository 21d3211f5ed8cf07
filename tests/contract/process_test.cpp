// Handles by which clients name other processes.
#include "dxgk/core/process.h"

#include <cstring>

#include "dxgk/core/process_handles.h"
#include "tests/contract/res_fixture.h"
#include "thunks/client.h"

namespace dxgkit::contract {
namespace {

using dxgk::process_access::kQueryInformation;
using dxgk::process_access::kSetInformation;
constexpr NTSTATUS kBadHandle = nt_status(Status::kInvalidHandle);
constexpr NTSTATUS kDenied = nt_status(Status::kAccessDenied);
constexpr NTSTATUS kTerminating = static_cast<NTSTATUS>(0xC000010A);
const HANDLE kOwn = reinterpret_cast<HANDLE>(static_cast<intptr_t>(-1));

class ProcessNames : public ContractTest {
 protected:
  /// A process that watches another one.
  static void watching(
      const std::function<void(Stack&, ListingClient& watcher, ListingClient& other)>& body) {
    running(
        [&](Stack& stack) {
          ListingClient watcher(stack, "watcher");
          ListingClient other(stack, "other");
          body(stack, watcher, other);
        },
        explicit_residency);
  }
  static HANDLE open(Client& holder, Client& target, uint32_t access) {
    return reinterpret_cast<HANDLE>(
        uintptr_t{thunks::open_process(*holder.process, *target.process, access)});
  }
  static bool close(Client& holder, HANDLE handle) {
    return thunks::close_process_handle(*holder.process, reinterpret_cast<uintptr_t>(handle));
  }
};

NTSTATUS memory_of(Client& client, HANDLE process, D3DKMT_QUERYVIDEOMEMORYINFO* args) {
  *args = {};
  args->hProcess = process;
  args->hAdapter = client.adapter;
  return client.call([&] { return D3DKMTQueryVideoMemoryInfo(args); });
}
NTSTATUS reserve_for(Client& client, HANDLE process, uint64_t bytes) {
  D3DKMT_CHANGEVIDEOMEMORYRESERVATION args{};
  args.hProcess = process;
  args.hAdapter = client.adapter;
  args.Reservation = bytes;
  return client.call([&] { return D3DKMTChangeVideoMemoryReservation(&args); });
}
NTSTATUS set_class(Client& client, HANDLE process, int value) {
  return client.call([&] {
    return D3DKMTSetProcessSchedulingPriorityClass(
        process, static_cast<D3DKMT_SCHEDULINGPRIORITYCLASS>(value));
  });
}
NTSTATUS get_class(Client& client, HANDLE process, int* value) {
  D3DKMT_SCHEDULINGPRIORITYCLASS out{};
  const NTSTATUS status =
      client.call([&] { return D3DKMTGetProcessSchedulingPriorityClass(process, &out); });
  *value = static_cast<int>(out);
  return status;
}
D3DKMT_QUERYSTATISTICS nodes_of(const Stack& stack, HANDLE process) {
  D3DKMT_QUERYSTATISTICS args{};
  args.Type = D3DKMT_QUERYSTATISTICS_PROCESS_NODE;
  args.AdapterLuid.LowPart = stack.luid.low;
  args.AdapterLuid.HighPart = stack.luid.high;
  args.hProcess = process;
  return args;
}

TEST_F(ProcessNames, AWatcherSeesAnotherProcesssMemoryAndReservesForIt) {
  DXGKIT_COVERS("THUNK-56", "THUNK-54");
  watching([](Stack&, ListingClient& watcher, ListingClient& other) {
    const D3DKMT_HANDLE mine = watcher.make(1), theirs = other.make(5);
    ASSERT_EQ(watcher.make_resident({mine}), STATUS_PENDING);
    ASSERT_EQ(other.make_resident({theirs}), STATUS_PENDING);
    const HANDLE handle = open(watcher, other, kQueryInformation | kSetInformation);
    D3DKMT_QUERYVIDEOMEMORYINFO info;
    ASSERT_EQ(memory_of(watcher, handle, &info), 0);
    EXPECT_EQ(info.CurrentUsage, 5 * kUnit);
    ASSERT_EQ(reserve_for(watcher, handle, 2 * kUnit), 0);
    EXPECT_EQ(other.memory().CurrentReservation, 2 * kUnit);
    EXPECT_EQ(watcher.memory().CurrentReservation, 0U);
    for (const HANDLE own : {kOwn, static_cast<HANDLE>(nullptr)}) {
      ASSERT_EQ(memory_of(watcher, own, &info), 0);
      EXPECT_EQ(info.CurrentUsage, kUnit) << "its own";
    }
    const HANDLE itself = open(watcher, watcher, kQueryInformation);
    ASSERT_EQ(memory_of(watcher, itself, &info), 0);
    EXPECT_EQ(info.CurrentUsage, kUnit) << "a process may hold a handle of itself";
  });
}

TEST_F(ProcessNames, APriorityClassIsSetWithTheCallersPrivilege) {
  DXGKIT_COVERS("THUNK-56", "SCHED-12");
  watching([](Stack& stack, ListingClient& watcher, ListingClient& other) {
    const HANDLE handle = open(watcher, other, kQueryInformation | kSetInformation);
    int value = 0;
    ASSERT_EQ(set_class(watcher, handle, D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE), 0);
    ASSERT_EQ(get_class(watcher, handle, &value), 0);
    EXPECT_EQ(value, D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE);
    ASSERT_EQ(get_class(other, kOwn, &value), 0);
    EXPECT_EQ(value, D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE);
    ASSERT_EQ(get_class(watcher, kOwn, &value), 0);
    EXPECT_EQ(value, D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL);
    other.process->set_base_priority_privilege(true);
    const Digest before = digest(stack, {&watcher, &other});
    EXPECT_EQ(set_class(watcher, handle, D3DKMT_SCHEDULINGPRIORITYCLASS_HIGH), kInvalid)
        << "the watcher has no privilege";
    EXPECT_EQ(digest(stack, {&watcher, &other}), before);
    ASSERT_EQ(get_class(watcher, handle, &value), 0);
    EXPECT_EQ(value, D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE);
    watcher.process->set_base_priority_privilege(true);
    EXPECT_EQ(set_class(watcher, handle, D3DKMT_SCHEDULINGPRIORITYCLASS_HIGH), 0);
  });
}

TEST_F(ProcessNames, StatisticsAreOfTheProcessThatIsNamed) {
  DXGKIT_COVERS("THUNK-56", "THUNK-43");
  watching([](Stack& stack, ListingClient& watcher, ListingClient& other) {
    ContextBuffers context = other.make_context();
    ASSERT_EQ(other.render(context, work_on({})), 0);
    stack.drive();
    const HANDLE handle = open(watcher, other, kQueryInformation);
    const auto packets = [&](HANDLE process) {
      D3DKMT_QUERYSTATISTICS args = nodes_of(stack, process);
      EXPECT_EQ(watcher.call([&] { return D3DKMTQueryStatistics(&args); }), 0);
      return args.QueryResult.ProcessNodeInformation.PacketStatistics
          .DmaPacket[D3DKMT_ClientRenderBuffer]
          .PacketCompleted;
    };
    EXPECT_EQ(packets(handle), 1U);
    EXPECT_EQ(packets(kOwn), 0U);
  });
}

TEST_F(ProcessNames, AHandleGivesTheRightsItWasOpenedWith) {
  DXGKIT_COVERS("THUNK-56", "THUNK-05");
  watching([](Stack& stack, ListingClient& watcher, ListingClient& other) {
    const HANDLE asks = open(watcher, other, kQueryInformation);
    const HANDLE sets = open(watcher, other, kSetInformation);
    const Digest before = digest(stack, {&watcher, &other});
    D3DKMT_QUERYVIDEOMEMORYINFO info;
    EXPECT_EQ(memory_of(watcher, sets, &info), kDenied);
    EXPECT_EQ(info.Budget, 0U);
    EXPECT_EQ(reserve_for(watcher, asks, kUnit), kDenied);
    EXPECT_EQ(other.memory().CurrentReservation, 0U);
    int value = 0;
    EXPECT_EQ(get_class(watcher, sets, &value), kInvalid) << "the page has no other status";
    EXPECT_EQ(set_class(watcher, asks, D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE), kInvalid);
    D3DKMT_QUERYSTATISTICS statistics = nodes_of(stack, sets);
    EXPECT_EQ(watcher.call([&] { return D3DKMTQueryStatistics(&statistics); }), kDenied);
    D3DKMT_QUERYPROCESSOFFERINFO offers{};
    offers.cbSize = sizeof offers;
    offers.hProcess = sets;
    EXPECT_EQ(watcher.call([&] { return D3DKMTQueryProcessOfferInfo(&offers); }), kDenied);
    D3DKMT_TRIMPROCESSCOMMITMENT trim{};
    trim.cbSize = sizeof trim;
    trim.hProcess = asks;
    EXPECT_EQ(watcher.call([&] { return D3DKMTTrimProcessCommitment(&trim); }), kDenied);
    EXPECT_EQ(digest(stack, {&watcher, &other}), before);
    ASSERT_EQ(get_class(watcher, asks, &value), 0);
    EXPECT_EQ(value, D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL);
  });
}

TEST_F(ProcessNames, AHandleIsItsHoldersAndEndsWithItsClosing) {
  DXGKIT_COVERS("THUNK-56", "THUNK-05");
  watching([](Stack& stack, ListingClient& watcher, ListingClient& other) {
    const HANDLE handle = open(watcher, other, kQueryInformation);
    const HANDLE second = open(watcher, other, kQueryInformation);
    EXPECT_NE(handle, second);
    const Digest before = digest(stack, {&watcher, &other});
    D3DKMT_QUERYVIDEOMEMORYINFO info;
    EXPECT_EQ(memory_of(other, handle, &info), kBadHandle) << "another process's handle";
    EXPECT_FALSE(close(other, handle));
    EXPECT_TRUE(close(watcher, handle));
    EXPECT_FALSE(close(watcher, handle));
    EXPECT_EQ(memory_of(watcher, handle, &info), kBadHandle);
    EXPECT_EQ(memory_of(watcher, second, &info), 0);
    EXPECT_NE(open(watcher, other, kQueryInformation), handle) << "no number is given twice";
    EXPECT_EQ(digest(stack, {&watcher, &other}), before);
  });
}

TEST_F(ProcessNames, AProcessThatHasEndedIsRefused) {
  DXGKIT_COVERS("THUNK-56", "THUNK-05");
  watching([](Stack& stack, ListingClient& watcher, ListingClient& other) {
    const HANDLE handle = open(watcher, other, kQueryInformation | kSetInformation);
    const HANDLE back = open(other, watcher, kQueryInformation);
    other.end();
    const Digest before = digest(stack, {&watcher});
    D3DKMT_QUERYVIDEOMEMORYINFO info;
    EXPECT_EQ(memory_of(watcher, handle, &info), kTerminating);
    EXPECT_EQ(reserve_for(watcher, handle, 0), kTerminating);
    int value = 0;
    EXPECT_EQ(get_class(watcher, handle, &value), kInvalid);
    EXPECT_EQ(set_class(watcher, handle, D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE), kInvalid);
    D3DKMT_QUERYSTATISTICS statistics = nodes_of(stack, handle);
    EXPECT_EQ(watcher.call([&] { return D3DKMTQueryStatistics(&statistics); }), kTerminating);
    EXPECT_EQ(open(watcher, other, kQueryInformation), nullptr);
    EXPECT_EQ(open(other, watcher, kQueryInformation), nullptr);
    EXPECT_FALSE(close(other, back)) << "its handles went with it";
    EXPECT_EQ(digest(stack, {&watcher}), before);
  });
}

}  // namespace
}  // namespace dxgkit::contract
