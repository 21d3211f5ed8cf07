// Sync files: a fence and a value in a descriptor, which is waited for with and without D3DKMT.
#include <poll.h>
#include <unistd.h>

#include <filesystem>

#include "tests/contract/sync_fixture.h"
#include "tests/contract/two_adapters.h"

namespace dxgkit::contract {
namespace {

using namespace sync_flag;

class SyncFiles : public ContractTest {
 protected:
  static NTSTATUS create(Client& client, D3DKMT_HANDLE fence, uint64_t value, UINT64* file,
                         D3DKMT_HANDLE device = 0) {
    D3DKMT_CREATESYNCFILE args{};
    args.hDevice = device == 0 ? client.device : device;
    args.hMonitoredFence = fence;
    args.FenceValue = value;
    const NTSTATUS status = client.call([&] { return D3DKMTCreateSyncFile(&args); });
    *file = args.hSyncFile;
    return status;
  }
  static UINT64 make(Client& client, D3DKMT_HANDLE fence, uint64_t value) {
    UINT64 file = 0;
    EXPECT_EQ(create(client, fence, value, &file), 0);
    return file;
  }
  static NTSTATUS wait(Client& client, const ContextBuffers& context, UINT64 file,
                       UINT reserved = 0) {
    const D3DKMT_WAITSYNCFILE args{file, context.handle, reserved};
    return client.call([&] { return D3DKMTWaitSyncFile(&args); });
  }
  static D3DKMT_OPENSYNCOBJECTFROMSYNCFILE open(Client& client, UINT64 file, NTSTATUS* status) {
    D3DKMT_OPENSYNCOBJECTFROMSYNCFILE args{};
    args.hSyncFile = file;
    args.hDevice = client.device;
    client.stack.blocking(
        [&] { *status = client.call([&] { return D3DKMTOpenSyncObjectFromSyncFile(&args); }); });
    return args;
  }
  /// As a program without D3DKMT sees it.
  static bool signalled(UINT64 file) {
    pollfd state{static_cast<int>(file), POLLIN, 0};
    return poll(&state, 1, 0) == 1 && (state.revents & POLLIN) != 0;
  }
  static void close_file(UINT64 file) { ::close(static_cast<int>(file)); }
};

TEST_F(SyncFiles, ADescriptorIsReadableFromTheValueOn) {
  DXGKIT_COVERS("SYNC-39");
  with_client([](Stack& stack, Client& client) {
    const MonitoredFence fence = create_fence(client, 0, 5);
    const UINT64 past = make(client, fence.handle, 5), next = make(client, fence.handle, 6),
                 later = make(client, fence.handle, 9);
    EXPECT_TRUE(signalled(past));
    EXPECT_FALSE(signalled(next));
    ASSERT_EQ(client.signal_cpu(fence.handle, 7), 0);
    stack.settle();
    EXPECT_TRUE(signalled(next));
    EXPECT_FALSE(signalled(later));
    char byte = 0;
    EXPECT_EQ(read(static_cast<int>(next), &byte, 1), 0) << "its end, and nothing to take away";
    EXPECT_TRUE(signalled(next));
    EXPECT_EQ(destroy_sync(client, fence.handle), 0);
    EXPECT_FALSE(signalled(later)) << "the file holds the fence";
    for (const UINT64 file : {past, next, later}) close_file(file);
  });
}

// The value that hardware writes counts, too.
TEST_F(SyncFiles, ItsDescriptorsGoWithIt) {
  DXGKIT_COVERS("SYNC-39");
  with_client([](Stack& stack, Client& client) {
    const auto descriptors = [] {
      return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    };
    const MonitoredFence fence = create_fence(client, 0, 5);
    const auto before = descriptors();
    for (const uint64_t value : {4U, 6U}) {
      const UINT64 file = make(client, fence.handle, value);
      close_file(file);
      static_cast<void>(client.make_allocation());  // the kernel looks when it is called
      stack.settle();
      EXPECT_EQ(descriptors(), before) << value;
    }
  });
}

TEST_F(SyncFiles, AContextWaitsForAFileOfAnotherProcess) {
  DXGKIT_COVERS("SYNC-40", "SYNC-39");
  with_client([](Stack& stack, Client& client) {
    Client other(stack, "other");
    const MonitoredFence fence = create_fence(client, 0);
    const UINT64 file = make(client, fence.handle, 3);
    ContextBuffers waits = other.make_context(0), signals = client.make_context(1);
    ASSERT_EQ(wait(other, waits, file), 0);
    ASSERT_EQ(other.render(waits, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 0U);
    close_file(file);  // the wait is queued
    ASSERT_EQ(client.render(signals, work_on({})), 0);
    ASSERT_EQ(client.signal_gpu(signals, fence.handle, 3), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 2U);
  });
}

TEST_F(SyncFiles, TheFenceOfAFileIsOpenedForWaiting) {
  DXGKIT_COVERS("SYNC-41", "SYNC-11");
  with_client([](Stack& stack, Client& client) {
    Client other(stack, "other");
    const MonitoredFence fence = create_fence(client, kNt, 2);
    const UINT64 file = make(client, fence.handle, 4);
    NTSTATUS status = -1;
    const D3DKMT_OPENSYNCOBJECTFROMSYNCFILE opened = open(other, file, &status);
    ASSERT_EQ(status, 0);
    EXPECT_EQ(opened.FenceValue, 4U);
    EXPECT_EQ(*static_cast<const uint64_t*>(opened.FenceValueCPUVirtualAddress), 2U);
    EXPECT_EQ(other.signal_cpu(opened.hSyncObject, 4), kDenied);
    bool waited = false;
    {
      Stack::Background call(
          stack, [&] { waited = other.wait_cpu(opened.hSyncObject, opened.FenceValue) == 0; });
      EXPECT_FALSE(call.finished());
      ASSERT_EQ(client.signal_cpu(fence.handle, 4), 0);
      call.finish();
    }
    EXPECT_TRUE(waited);
    EXPECT_TRUE(signalled(file));
    close_file(file);
  });
}

TEST_F(SyncFiles, WhatIsNoFileOrNoFenceIsRefused) {
  DXGKIT_COVERS("SYNC-39", "SYNC-40", "SYNC-41", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    Client other(stack, "other");
    const MonitoredFence own = create_fence(client, 0), shared = create_fence(client, kNt);
    const MonitoredFence no_wait = create_fence(client, kNoWait);
    const D3DKMT_HANDLE semaphore = client.make_sync(D3DDDI_SEMAPHORE);
    ContextBuffers context = client.make_context();
    SharedHandle descriptor;
    ASSERT_EQ(share(client, {shared.handle}, &descriptor.handle), 0);
    const UINT64 of_shared = static_cast<UINT64>(fd_of(descriptor.handle));
    const UINT64 file = make(client, own.handle, 1);
    const Digest before = digest(stack, {&client, &other});
    UINT64 none = 77;
    EXPECT_EQ(create(client, 0, 1, &none), kInvalid);
    EXPECT_EQ(create(client, semaphore, 1, &none), kInvalid);
    EXPECT_EQ(create(client, no_wait.handle, 1, &none), kDenied);
    EXPECT_EQ(create(client, own.handle, 1, &none, client.adapter), kInvalid);
    EXPECT_EQ(create(other, own.handle, 1, &none), kInvalid) << "another process's handle";
    EXPECT_EQ(none, 0U);
    EXPECT_EQ(wait(client, context, 0), kBadHandle);
    EXPECT_EQ(wait(client, context, UINT64_MAX), kBadHandle);
    EXPECT_EQ(wait(client, context, of_shared), kTypeMismatch);
    EXPECT_EQ(wait(client, context, file, 1), kInvalid);
    ContextBuffers no_context;
    EXPECT_EQ(wait(client, no_context, file), kInvalid);
    NTSTATUS status = 0;
    EXPECT_EQ(open(client, of_shared, &status).hSyncObject, 0U);
    EXPECT_EQ(status, kTypeMismatch);
    EXPECT_EQ(open(other, file, &status).hSyncObject, 0U);
    EXPECT_EQ(status, kInvalid) << "its creator shares it with nobody";
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE as_shared{};
    as_shared.hNtHandle = reinterpret_cast<HANDLE>(uintptr_t{file});
    EXPECT_EQ(client.call([&] { return D3DKMTOpenSyncObjectFromNtHandle(&as_shared); }),
              kTypeMismatch);
    EXPECT_EQ(digest(stack, {&client, &other}), before);
    close_file(file);
    EXPECT_EQ(wait(client, context, file), kBadHandle) << "it is closed";
  });
}

TEST_F(SyncFiles, AFileIsOfTheAdapterOfItsFence) {
  DXGKIT_COVERS("SYNC-40", "SYNC-41", "THUNK-05");
  running([](Stack& stack) {
    SecondAdapter second(stack);
    {
      Client client(stack);
      const MonitoredFence fence = create_fence(client, kNt, 5);
      const D3DKMT_HANDLE elsewhere = second.make_device(client);
      ContextBuffers theirs;
      const ContextBuffers ours = client.make_context();
      ASSERT_EQ(client.create_context(&theirs, 0, elsewhere), 0);
      const UINT64 file = make(client, fence.handle, 7);
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(wait(client, theirs, file), kInvalid);
      D3DKMT_OPENSYNCOBJECTFROMSYNCFILE args{};
      args.hSyncFile = file;
      args.hDevice = elsewhere;
      EXPECT_EQ(client.call([&] { return D3DKMTOpenSyncObjectFromSyncFile(&args); }), kInvalid);
      EXPECT_EQ(args.hSyncObject, 0U);
      EXPECT_EQ(digest(stack, {&client}), before);
      EXPECT_EQ(wait(client, ours, file), 0);
      D3DKMT_MARKDEVICEASERROR lost{client.device, D3DKMT_DEVICE_ERROR_REASON_GENERIC};
      ASSERT_EQ(client.call([&] { return D3DKMTMarkDeviceAsError(&lost); }), 0);
      EXPECT_NE(wait(client, ours, file), 0);
      close_file(file);
      client.end();
    }
  });
}

// Whoever waits outside of D3DKMT is not left behind when the device is lost (SYNC-13).
TEST_F(SyncFiles, ALostDeviceSignalsTheFilesOfItsFences) {
  DXGKIT_COVERS("SYNC-39", "SYNC-13");
  with_client([](Stack& stack, Client& client) {
    const MonitoredFence fence = create_fence(client, 0);
    const UINT64 file = make(client, fence.handle, 3);
    D3DKMT_MARKDEVICEASERROR mark{};
    mark.hDevice = client.device;
    mark.Reason = D3DKMT_DEVICE_ERROR_REASON_GENERIC;
    ASSERT_EQ(client.call([&] { return D3DKMTMarkDeviceAsError(&mark); }), 0);
    stack.settle();
    EXPECT_TRUE(signalled(file));
    close_file(file);
  });
}

// A file that is closed unsignalled, or that outlives its adapter, leaves nothing behind.
TEST_F(SyncFiles, AFileMayOutliveClientAndAdapter) {
  DXGKIT_COVERS("SYNC-39");
  running([](Stack& stack) {
    UINT64 kept = 0, closed = 0;
    {
      Client client(stack);
      const MonitoredFence fence = create_fence(client, 0);
      kept = make(client, fence.handle, 3);
      closed = make(client, fence.handle, 4);
      close_file(closed);
    }
    EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess);
    close_file(kept);
  });
}

}  // namespace
}  // namespace dxgkit::contract
