// Memory of programs whose kernel is in another process, with a real GPU model behind it.
#include <sched.h>
#include <sys/mman.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <string>

#include "dxcore/remote_program_test.h"
#include "dxcore/remote_server_test.h"

namespace dxgkit::dxcore {
namespace {

constexpr uint32_t kBytes = 64 << 10;

/// A context, an allocation that stays locked, and a fence of which only the page is looked at.
class Watcher {
 public:
  explicit Watcher(const Opened& opened)
      : allocation(make_allocation(opened.device, kBytes)),
        bytes(lock(opened.device, allocation)),
        device_(opened.device) {
    context_.hDevice = opened.device;
    EXPECT_EQ(CALL(D3DKMTCreateContext)(&context_), STATUS_SUCCESS);
    fence_ = make_fence(opened.device);
  }
  ~Watcher() { unlock(device_, allocation); }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// The GPU copies the first half to the second one.
  void copy() {
    struct {
      SgpuUmdBufferHeader header;
      SgpuUmdCopy copy;
    } commands{};
    commands.header = {SGPU_UMD_BUFFER_MAGIC, SGPU_UMD_VERSION, sizeof commands, 0};
    commands.copy = {{SGPU_UMD_OP_COPY, sizeof(SgpuUmdCopy)}, {0, 0}, {0, kBytes / 2}, kBytes / 2};
    std::memcpy(context_.pCommandBuffer, &commands, sizeof commands);
    context_.pAllocationList[0] = {};
    context_.pAllocationList[0].hAllocation = allocation;
    context_.pAllocationList[0].WriteOperation = 1;
    D3DKMT_RENDER render{};
    render.hContext = context_.hContext;
    render.CommandLength = sizeof commands;
    render.AllocationCount = 1;
    ASSERT_EQ(CALL(D3DKMTRender)(&render), STATUS_SUCCESS);
    context_.pCommandBuffer = render.pNewCommandBuffer;
    context_.pAllocationList = render.pNewAllocationList;
    signal_behind(context_.hContext, fence_.hSyncObject, ++rounds_);
    while (value_of(fence_) < rounds_) sched_yield();
  }

  const D3DKMT_HANDLE allocation;
  std::byte* const bytes;

 private:
  const D3DKMT_HANDLE device_;
  D3DKMT_CREATECONTEXT context_{};
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence_{};
  UINT64 rounds_ = 0;
};

/// How many pieces of the kernel's memory for clients are mapped in this process.
size_t mapped_windows() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.contains("/memfd:dxgkit-client") ? 1 : 0;
  return count;
}

TEST(RemoteMemory, AProgramThatOnlyWatchesTheFenceSeesWhatTheGpuWrote) {
  const Folder folder;
  TestServer server(folder.file("socket"), "softgpu");
  EXPECT_EQ(run_program(
                folder.file("socket"),
                [] {
                  Watcher watcher(open_device());
                  for (uint8_t round = 1; round <= 20; ++round) {
                    std::memset(watcher.bytes, round, kBytes / 2);
                    watcher.copy();
                    ASSERT_EQ(std::memcmp(watcher.bytes, watcher.bytes + kBytes / 2, kBytes / 2), 0)
                        << int{round};
                  }
                }),
            0);
  const ServerEnd end = server.end();
  EXPECT_TRUE(end.clean) << end.findings;
}

TEST(RemoteMemory, WindowsGoWithAllocationsAndDevices) {
  const Folder folder;
  TestServer server(folder.file("socket"), "softgpu");
  EXPECT_EQ(run_program(folder.file("socket"),
                        [] {
                          const Opened opened = open_device();
                          for (int i = 0; i < 10; ++i) {
                            const D3DKMT_HANDLE one = make_allocation(opened.device, kBytes);
                            std::byte* const first = lock(opened.device, one);
                            unlock(opened.device, one);
                            EXPECT_EQ(lock(opened.device, one), first) << "no new mapping";
                            unlock(opened.device, one);
                            EXPECT_EQ(mapped_windows(), 1U);
                            D3DKMT_DESTROYALLOCATION2 destroy{};
                            destroy.hDevice = opened.device;
                            destroy.phAllocationList = &one;
                            destroy.AllocationCount = 1;
                            EXPECT_EQ(CALL(D3DKMTDestroyAllocation2)(&destroy), STATUS_SUCCESS);
                            EXPECT_EQ(mapped_windows(), 0U);
                          }
                          lock(opened.device, make_allocation(opened.device, kBytes));
                          D3DKMT_DESTROYDEVICE device{opened.device};
                          EXPECT_EQ(CALL(D3DKMTDestroyDevice)(&device), STATUS_SUCCESS);
                          EXPECT_EQ(mapped_windows(), 0U);
                        }),
            0);
  EXPECT_TRUE(server.end().clean);
}

/// A program writes to a mapping that it has kept after the destruction, and dies. Another one
/// works all the while, and its content is right. The server's stack counts pages as it ends.
TEST(RemoteMemory, AProgramThatKeepsAndWritesWhatItGaveBackHarmsNoOther) {
  const Folder folder;
  TestServer server(folder.file("socket"), "softgpu");
  Shared* const shared = make_shared_memory();
  const pid_t hostile = start_program(DXCORE_REMOTE_LIBRARY, folder.file("socket"), [&] {
    const Opened opened = open_device();
    const D3DKMT_HANDLE allocation = make_allocation(opened.device, kBytes);
    // A second mapping of the same pages, of which the library knows nothing.
    void* const kept = mremap(lock(opened.device, allocation), 0, kBytes, MREMAP_MAYMOVE, nullptr);
    ASSERT_NE(kept, MAP_FAILED);
    unlock(opened.device, allocation);
    D3DKMT_DESTROYALLOCATION2 destroy{};
    destroy.hDevice = opened.device;
    destroy.phAllocationList = &allocation;
    destroy.AllocationCount = 1;
    EXPECT_EQ(CALL(D3DKMTDestroyAllocation2)(&destroy), STATUS_SUCCESS);
    shared->step.store(1);
    while (true) std::memset(kept, 0xEE, kBytes);
  });
  while (shared->step.load() == 0) sched_yield();
  EXPECT_EQ(run_program(folder.file("socket"),
                        [] {
                          Watcher watcher(open_device());
                          for (uint8_t round = 1; round <= 20; ++round) {
                            std::memset(watcher.bytes, round, kBytes / 2);
                            watcher.copy();
                            for (uint32_t i = 0; i < kBytes; ++i)
                              ASSERT_EQ(watcher.bytes[i], std::byte{round}) << i;
                          }
                        }),
            0);
  kill(hostile, SIGKILL);
  EXPECT_EQ(end_of(hostile), 1000 + SIGKILL);
  const ServerEnd end = server.end();
  EXPECT_TRUE(end.clean) << end.findings;
  EXPECT_EQ(end.clients, 2U);
}

/// A driver without existing memory refuses it as in one process, and the program keeps its pages.
TEST(RemoteMemory, WithoutSupportOfTheDriverPagesStayThePrograms) {
  const Folder folder;
  TestServer server(folder.file("socket"), "softgpu");
  EXPECT_EQ(run_program(folder.file("socket"),
                        [] {
                          const Opened opened = open_device();
                          alignas(4096) static std::byte memory[4096];
                          D3DKMT_CREATESTANDARDALLOCATION standard{};
                          standard.Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
                          standard.ExistingHeapData.Size = sizeof memory;
                          D3DDDI_ALLOCATIONINFO2 info{};
                          info.pSystemMem = memory;
                          D3DKMT_CREATEALLOCATION create{};
                          create.hDevice = opened.device;
                          create.NumAllocations = 1;
                          create.pAllocationInfo2 = &info;
                          create.pStandardAllocation = &standard;
                          create.Flags.CreateResource = 1;
                          create.Flags.ExistingSysMem = 1;
                          create.Flags.StandardAllocation = 1;
                          EXPECT_EQ(CALL(D3DKMTCreateAllocation2)(&create), STATUS_NOT_SUPPORTED);
                          EXPECT_EQ(info.hAllocation, 0U);
                          EXPECT_EQ(create.hResource, 0U);
                          EXPECT_EQ(mapped_windows(), 0U);
                        }),
            0);
  EXPECT_TRUE(server.end().clean);
}

}  // namespace
}  // namespace dxgkit::dxcore
