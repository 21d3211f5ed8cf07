// Programs whose kernel is in another process.
#include <d3dkmthk.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <ntstatus.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "dxcore/dxcore_interface.h"
#include "dxcore/remote_program_test.h"
#include "dxcore/remote_server_test.h"
#include "miniports/softgpu/softgpu_umd.h"
#include "runtime/host_thread.h"

namespace dxgkit::dxcore {
namespace {

constexpr uint32_t kBytes = 4096;

/// The CPU writes the first half, the GPU copies it to the second half and fills the last quarter.
void run_patched(Shared* out) {
  const Opened opened = open_device();
  D3DKMT_CREATECONTEXT context{};
  context.hDevice = opened.device;
  ASSERT_EQ(CALL(D3DKMTCreateContext)(&context), STATUS_SUCCESS);
  ASSERT_NE(context.pCommandBuffer, nullptr);
  ASSERT_NE(context.pAllocationList, nullptr);
  const D3DKMT_HANDLE allocation = make_allocation(opened.device, kBytes);
  std::byte* bytes = lock(opened.device, allocation);
  for (uint32_t i = 0; i < kBytes / 2; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  unlock(opened.device, allocation);
  const auto fence = make_fence(opened.device);
  EXPECT_EQ(value_of(fence), 0U);
  void* commands_at = context.pCommandBuffer;
  D3DDDI_ALLOCATIONLIST* list = context.pAllocationList;
  for (UINT64 round = 1; round <= 2; ++round) {
    struct {
      SgpuUmdBufferHeader header;
      SgpuUmdCopy copy;
      SgpuUmdFill fill;
    } commands{};
    commands.header = {SGPU_UMD_BUFFER_MAGIC, SGPU_UMD_VERSION, sizeof commands, 0};
    commands.copy = {{SGPU_UMD_OP_COPY, sizeof(SgpuUmdCopy)}, {0, 0}, {0, kBytes / 2}, kBytes / 2};
    commands.fill = {{SGPU_UMD_OP_FILL, sizeof(SgpuUmdFill)},
                     {0, kBytes * 3 / 4},
                     kBytes / 4,
                     0x600D'0000 + static_cast<uint32_t>(round),
                     0};
    std::memcpy(commands_at, &commands, sizeof commands);
    list[0] = {};
    list[0].hAllocation = allocation;
    list[0].WriteOperation = 1;
    D3DKMT_RENDER render{};
    render.hContext = context.hContext;
    render.CommandLength = sizeof commands;
    render.AllocationCount = 1;
    ASSERT_EQ(CALL(D3DKMTRender)(&render), STATUS_SUCCESS);
    ASSERT_NE(render.pNewCommandBuffer, nullptr);
    commands_at = render.pNewCommandBuffer;
    list = render.pNewAllocationList;
    signal_behind(context.hContext, fence.hSyncObject, round);
    ASSERT_EQ(wait_for(opened.device, fence.hSyncObject, round), STATUS_SUCCESS);
    EXPECT_GE(value_of(fence), round);
  }
  bytes = lock(opened.device, allocation);
  std::memcpy(out->words, bytes, kBytes);
  unlock(opened.device, allocation);
}

/// The same with GPU virtual addresses; commands lie in memory that stays locked.
void run_addressed(Shared* out) {
  const Opened opened = open_device();
  D3DKMT_CREATEPAGINGQUEUE queue{};
  queue.hDevice = opened.device;
  ASSERT_EQ(CALL(D3DKMTCreatePagingQueue)(&queue), STATUS_SUCCESS);
  ASSERT_NE(queue.FenceValueCPUVirtualAddress, nullptr);
  D3DKMT_CREATECONTEXTVIRTUAL context{};
  context.hDevice = opened.device;
  ASSERT_EQ(CALL(D3DKMTCreateContextVirtual)(&context), STATUS_SUCCESS);
  const D3DKMT_HANDLE handles[] = {make_allocation(opened.device, kBytes),
                                   make_allocation(opened.device, kBytes)};
  D3DGPU_VIRTUAL_ADDRESS addresses[2] = {};
  UINT64 paged = 0;
  for (int i = 0; i < 2; ++i) {
    D3DDDI_MAPGPUVIRTUALADDRESS map{};
    map.hPagingQueue = queue.hPagingQueue;
    map.hAllocation = handles[i];
    map.SizeInPages = 1;
    map.Protection.Write = i == 0 ? 1 : 0;
    map.Protection.Execute = i == 1 ? 1 : 0;
    ASSERT_GE(CALL(D3DKMTMapGpuVirtualAddress)(&map), 0);
    addresses[i] = map.VirtualAddress;
    paged = std::max<UINT64>(paged, map.PagingFenceValue);
  }
  D3DDDI_MAKERESIDENT resident{};
  resident.hPagingQueue = queue.hPagingQueue;
  resident.NumAllocations = 2;
  resident.AllocationList = handles;
  ASSERT_GE(CALL(D3DKMTMakeResident)(&resident), 0);
  paged = std::max<UINT64>(paged, resident.PagingFenceValue);
  ASSERT_EQ(wait_for(opened.device, queue.hSyncObject, paged), STATUS_SUCCESS);
  EXPECT_GE(__atomic_load_n(static_cast<const uint64_t*>(queue.FenceValueCPUVirtualAddress),
                            __ATOMIC_ACQUIRE),
            paged);
  std::byte* bytes = lock(opened.device, handles[0]);
  for (uint32_t i = 0; i < kBytes / 2; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  unlock(opened.device, handles[0]);
  std::byte* const commands_at = lock(opened.device, handles[1]);
  const auto fence = make_fence(opened.device);
  for (UINT64 round = 1; round <= 2; ++round) {
    struct {
      SgpuUmdCopy copy;
      SgpuUmdFill fill;
    } commands{};
    const auto at = [&](uint64_t offset) { return sgpu_umd_at(addresses[0] + offset); };
    commands.copy = {{SGPU_UMD_OP_COPY, sizeof(SgpuUmdCopy)}, at(0), at(kBytes / 2), kBytes / 2};
    commands.fill = {{SGPU_UMD_OP_FILL, sizeof(SgpuUmdFill)},
                     at(kBytes * 3 / 4),
                     kBytes / 4,
                     0x600D'0000 + static_cast<uint32_t>(round),
                     0};
    std::memcpy(commands_at, &commands, sizeof commands);
    D3DKMT_SUBMITCOMMAND submit{};
    submit.Commands = addresses[1];
    submit.CommandLength = sizeof commands;
    submit.BroadcastContextCount = 1;
    submit.BroadcastContext[0] = context.hContext;
    ASSERT_EQ(CALL(D3DKMTSubmitCommand)(&submit), STATUS_SUCCESS);
    signal_behind(context.hContext, fence.hSyncObject, round);
    ASSERT_EQ(wait_for(opened.device, fence.hSyncObject, round), STATUS_SUCCESS);
  }
  bytes = lock(opened.device, handles[0]);
  std::memcpy(out->words, bytes, kBytes);
  unlock(opened.device, handles[0]);
}

std::vector<uint32_t> expected_words() {
  std::vector<uint8_t> bytes(kBytes);
  for (uint32_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<uint8_t>(i % (kBytes / 2) * 7);
  std::vector<uint32_t> words(kBytes / 4);
  std::memcpy(words.data(), bytes.data(), kBytes);
  std::fill(words.begin() + kBytes * 3 / 16, words.end(), 0x600D'0002);
  return words;
}

void same_as_in_one_process(const char* driver, const char* registry, void (*body)(Shared*)) {
  const Folder folder;
  Shared* const here = make_shared_memory();
  {
    std::ofstream(folder.file("registry.toml")) << registry;
    std::ofstream(folder.file("stack.toml"))
        << (*registry != 0 ? "registry = \"registry.toml\"\n" : "") << "driver = \"" << driver
        << "\"\nfindings = \"" << folder.file("findings.txt") << "\"\n";
    setenv("DXGKIT_STACK", folder.file("stack.toml").c_str(), 1);
    EXPECT_EQ(end_of(start_program(DXCORE_LIBRARY, "", [&] { body(here); })), 0);
  }
  const std::vector<uint32_t> words = expected_words();
  EXPECT_EQ(std::vector<uint32_t>(here->words, here->words + words.size()), words);
  for (const bool with_mailbox : {false, true}) {
    Shared* const there = make_shared_memory();
    std::filesystem::remove(folder.file("socket"));
    TestServer server(folder.file("socket"), driver, registry, with_mailbox);
    EXPECT_EQ(run_program(folder.file("socket"), [&] { body(there); }), 0);
    const ServerEnd end = server.end();
    EXPECT_TRUE(end.clean) << end.findings;
    EXPECT_EQ(std::vector<uint32_t>(there->words, there->words + words.size()), words)
        << (with_mailbox ? "with a mailbox" : "over the socket alone");
  }
}

TEST(RemoteLibrary, APatchedPacketGivesWhatItGivesInOneProcess) {
  same_as_in_one_process("softgpu", "", run_patched);
}
TEST(RemoteLibrary, APacketWithAddressesGivesWhatItGivesInOneProcess) {
  same_as_in_one_process("softgpu_wddm2", "[service]\nMemoryModel = 2\n", run_addressed);
}

TEST(RemoteLibrary, ThreadsShareHandlesAndAForkedChildDoesNot) {
  const Folder folder;
  TestServer server(folder.file("socket"), "softgpu");
  EXPECT_EQ(run_program(
                folder.file("socket"),
                [&] {
                  const Opened opened = open_device();
                  const auto fence = make_fence(opened.device);
                  std::vector<std::unique_ptr<runtime::HostThread>> threads;
                  for (UINT64 value = 1; value <= 4; ++value) {
                    threads.push_back(std::make_unique<runtime::HostThread>("waits", [&, value] {
                      EXPECT_EQ(wait_for(opened.device, fence.hSyncObject, value), STATUS_SUCCESS);
                    }));
                  }
                  for (UINT64 value = 1; value <= 4; ++value)
                    EXPECT_EQ(signal(opened.device, fence.hSyncObject, value), STATUS_SUCCESS);
                  for (const auto& thread : threads) thread->join();
                  EXPECT_EQ(value_of(fence), 4U);
                  const pid_t child = fork();
                  if (child == 0) {
                    // Another client process, to which the parent's handle means nothing.
                    EXPECT_EQ(signal(opened.device, fence.hSyncObject, 9),
                              STATUS_INVALID_PARAMETER);
                    EXPECT_NE(open_device().device, 0U);
                    std::exit(testing::Test::HasFailure() ? 1 : 0);
                  }
                  EXPECT_EQ(end_of(child), 0);
                  EXPECT_EQ(signal(opened.device, fence.hSyncObject, 5), STATUS_SUCCESS);
                }),
            0);
  const ServerEnd end = server.end();
  EXPECT_TRUE(end.clean) << end.findings;
  EXPECT_EQ(end.clients, 2U);
}

TEST(RemoteLibrary, AKilledProgramLeavesNothing) {
  const Folder folder;
  Shared* const shared = make_shared_memory();
  TestServer server(folder.file("socket"), "softgpu");
  // It dies inside a wait that would never end.
  const pid_t dying = start_program(DXCORE_REMOTE_LIBRARY, folder.file("socket"), [&] {
    const Opened opened = open_device();
    const D3DKMT_HANDLE allocation = make_allocation(opened.device, kBytes);
    lock(opened.device, allocation);
    const auto fence = make_fence(opened.device);
    shared->step.store(1);
    runtime::wake_host_waiters(shared->step);
    static_cast<void>(wait_for(opened.device, fence.hSyncObject, 1));
  });
  while (shared->step.load() == 0) sched_yield();
  kill(dying, SIGKILL);
  EXPECT_EQ(end_of(dying), 1000 + SIGKILL);
  EXPECT_EQ(run_program(folder.file("socket"), [&] { run_patched(shared); }), 0);
  const ServerEnd end = server.end();
  EXPECT_TRUE(end.clean) << end.findings;
  EXPECT_EQ(end.clients, 2U);
}

TEST(RemoteLibrary, WhenTheServerDiesDevicesAreRemoved) {
  const Folder folder;
  auto server = std::make_unique<TestServer>(folder.file("socket"), "softgpu");
  Shared* const shared = make_shared_memory();
  const pid_t program = start_program(DXCORE_REMOTE_LIBRARY, folder.file("socket"), [&] {
    const Opened opened = open_device();
    const auto fence = make_fence(opened.device);
    shared->step.store(1);
    EXPECT_EQ(wait_for(opened.device, fence.hSyncObject, 1), STATUS_DEVICE_REMOVED);
    EXPECT_EQ(signal(opened.device, fence.hSyncObject, 1), STATUS_DEVICE_REMOVED);
    EXPECT_EQ(value_of(fence), 0U);  // the page stays
    shared->step.store(2);
    while (shared->step.load() == 2) sched_yield();
    // Adapters of the next server.
    EXPECT_NE(open_device().device, 0U);
  });
  while (shared->step.load() != 1) sched_yield();
  server->kill();
  while (shared->step.load() != 2) sched_yield();
  std::filesystem::remove(folder.file("socket"));
  server = std::make_unique<TestServer>(folder.file("socket"), "softgpu");
  shared->step.store(3);
  EXPECT_EQ(end_of(program), 0);
  EXPECT_TRUE(server->end().clean);
}

TEST(RemoteLibrary, WhatDoesNotGoToOtherProcessesIsRefused) {
  const Folder folder;
  TestServer server(folder.file("socket"), "softgpu");
  EXPECT_EQ(run_program(folder.file("socket"),
                        [&] {
                          const Opened opened = open_device();
                          // A function of the program.
                          D3DKMT_REGISTERTRIMNOTIFICATION trim{};
                          trim.hDevice = opened.device;
                          EXPECT_EQ(CALL(D3DKMTRegisterTrimNotification)(&trim),
                                    STATUS_NOT_SUPPORTED);
                          EXPECT_EQ(trim.Handle, nullptr);
                        }),
            0);
  EXPECT_TRUE(server.end().clean);
}

std::string content_of(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(RemoteLibrary, NoKernelIsInIt) {
  const std::string remote = content_of(DXCORE_REMOTE_LIBRARY),
                    hosting = content_of(DXCORE_LIBRARY);
  EXPECT_NE(remote.find("D3DKMTRender"), std::string::npos);
  for (const char* space : {"6dxgkit4dxgk", "6dxgkit5vidmm", "6dxgkit6vidsch", "6dxgkit6thunks"}) {
    EXPECT_EQ(remote.find(space), std::string::npos) << space;
    EXPECT_NE(hosting.find(space), std::string::npos) << space;
  }
}

TEST(RemoteLibrary, DxCoreStandsOnIt) {
  const Folder folder;
  TestServer server(folder.file("socket"), "softgpu");
  EXPECT_EQ(run_program(folder.file("socket"),
                        [] {
                          const auto create = reinterpret_cast<HRESULT (*)(const GUID&, void**)>(
                              dlsym(g_library, "DXCoreCreateAdapterFactory"));
                          void* object = nullptr;
                          ASSERT_EQ(create(kIDXCoreAdapterFactory, &object), kOk);
                          auto* const factory = static_cast<IDXCoreAdapterFactory*>(object);
                          ASSERT_EQ(factory->CreateAdapterList(1, &kD3D11Graphics,
                                                               kIDXCoreAdapterList, &object),
                                    kOk);
                          auto* const list = static_cast<IDXCoreAdapterList*>(object);
                          ASSERT_EQ(list->GetAdapterCount(), 1U);
                          ASSERT_EQ(list->GetAdapter(0, kIDXCoreAdapter, &object), kOk);
                          auto* const adapter = static_cast<IDXCoreAdapter*>(object);
                          EXPECT_TRUE(adapter->IsValid());
                          DXCoreHardwareIDParts ids{};
                          EXPECT_EQ(adapter->GetProperty(DXCoreAdapterProperty::HardwareIDParts,
                                                         sizeof ids, &ids),
                                    kOk);
                          EXPECT_NE(ids.vendorID, 0U);
                          adapter->Release();
                          list->Release();
                          factory->Release();
                        }),
            0);
  EXPECT_TRUE(server.end().clean);
}

TEST(RemoteLibrary, WithoutAServerNothingIsSupported) {
  const Folder folder;
  EXPECT_EQ(run_program(folder.file("nobody"),
                        [] {
                          D3DKMT_ENUMADAPTERS2 all = {};
                          EXPECT_EQ(CALL(D3DKMTEnumAdapters2)(&all), STATUS_NOT_SUPPORTED);
                        }),
            0);
}

}  // namespace
}  // namespace dxgkit::dxcore
