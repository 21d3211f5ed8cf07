// What tests of programs with a kernel in another process share: the programs, and their calls.
#pragma once

#include <d3dkmthk.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <ntstatus.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/staging_allocation.h"

namespace dxgkit::dxcore {

inline void* g_library = nullptr;

template <typename Function>
Function* function(const char* name) {
  void* const found = dlsym(g_library, name);
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function*>(found);
}
#define CALL(name) function<decltype(name)>(#name)

class Folder {
 public:
  Folder() {
    char path[] = "/tmp/dxgkit-remote-XXXXXX";
    path_ = mkdtemp(path);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Memory that a program shares with the test.
struct Shared {
  std::atomic<uint32_t> step{0};
  uint32_t words[1024] = {};
};
inline Shared* make_shared_memory() {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (memory) Shared;
}

/// Runs `body` in a forked program with the library. Returns its process.
inline pid_t start_program(const char* library, const std::string& socket,
                           const std::function<void()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("DXGKIT_SOCKET", socket.c_str(), 1);
  g_library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (g_library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    _exit(99);
  }
  try {
    body();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}
inline int end_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
inline int run_program(const std::string& socket, const std::function<void()>& body) {
  return end_of(start_program(DXCORE_REMOTE_LIBRARY, socket, body));
}

struct Opened {
  D3DKMT_HANDLE adapter = 0, device = 0;
};
inline Opened open_device() {
  D3DKMT_ENUMADAPTERS2 all = {};
  EXPECT_EQ(CALL(D3DKMTEnumAdapters2)(&all), STATUS_SUCCESS);
  std::vector<D3DKMT_ADAPTERINFO> infos(all.NumAdapters);
  all.pAdapters = infos.data();
  EXPECT_EQ(CALL(D3DKMTEnumAdapters2)(&all), STATUS_SUCCESS);
  EXPECT_EQ(all.NumAdapters, 1U);
  D3DKMT_CREATEDEVICE create = {};
  create.hAdapter = infos.at(0).hAdapter;
  EXPECT_EQ(CALL(D3DKMTCreateDevice)(&create), STATUS_SUCCESS);
  return {infos.at(0).hAdapter, create.hDevice};
}

inline D3DKMT_HANDLE make_allocation(D3DKMT_HANDLE device, uint64_t bytes) {
  StagingAllocation made(device, bytes);
  EXPECT_EQ(CALL(D3DKMTCreateAllocation2)(&made.create), STATUS_SUCCESS);
  return made.info.hAllocation;
}

inline D3DKMT_CREATESYNCHRONIZATIONOBJECT2 make_fence(D3DKMT_HANDLE device) {
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence{};
  fence.hDevice = device;
  fence.Info.Type = D3DDDI_MONITORED_FENCE;
  EXPECT_EQ(CALL(D3DKMTCreateSynchronizationObject2)(&fence), STATUS_SUCCESS);
  return fence;
}
inline uint64_t value_of(const D3DKMT_CREATESYNCHRONIZATIONOBJECT2& fence) {
  return __atomic_load_n(
      static_cast<const uint64_t*>(fence.Info.MonitoredFence.FenceValueCPUVirtualAddress),
      __ATOMIC_ACQUIRE);
}

template <typename Arguments>
NTSTATUS with_fence(NTSTATUS (*called)(const Arguments*), D3DKMT_HANDLE device, D3DKMT_HANDLE fence,
                    UINT64 value) {
  Arguments arguments = {};
  arguments.hDevice = device;
  arguments.ObjectCount = 1;
  arguments.ObjectHandleArray = &fence;
  arguments.FenceValueArray = &value;
  return called(&arguments);
}
inline NTSTATUS wait_for(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, UINT64 value) {
  return with_fence(CALL(D3DKMTWaitForSynchronizationObjectFromCpu), device, fence, value);
}
inline NTSTATUS signal(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, UINT64 value) {
  return with_fence(CALL(D3DKMTSignalSynchronizationObjectFromCpu), device, fence, value);
}
inline void signal_behind(D3DKMT_HANDLE context, D3DKMT_HANDLE fence, UINT64 value) {
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU args{};
  args.hContext = context;
  args.ObjectCount = 1;
  args.ObjectHandleArray = &fence;
  args.MonitoredFenceValueArray = &value;
  EXPECT_EQ(CALL(D3DKMTSignalSynchronizationObjectFromGpu)(&args), STATUS_SUCCESS);
}

inline std::byte* lock(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation) {
  D3DKMT_LOCK2 args{};
  args.hDevice = device;
  args.hAllocation = allocation;
  EXPECT_EQ(CALL(D3DKMTLock2)(&args), STATUS_SUCCESS);
  EXPECT_NE(args.pData, nullptr);
  return static_cast<std::byte*>(args.pData);
}
inline void unlock(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation) {
  D3DKMT_UNLOCK2 args{};
  args.hDevice = device;
  args.hAllocation = allocation;
  EXPECT_EQ(CALL(D3DKMTUnlock2)(&args), STATUS_SUCCESS);
}

}  // namespace dxgkit::dxcore
