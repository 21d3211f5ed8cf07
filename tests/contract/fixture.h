// What every contract test stands on: a machine, the scripted miniport on it, a client, and a test
// that is the GPU.
#pragma once

#include <d3dkmthk.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bus/machine.h"
#include "dxgk/system.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "tests/support/covers.h"
#include "tests/support/known_run.h"
#include "tests/support/scripted_miniport.h"
#include "verifier/findings.h"

namespace dxgkit::dxgk {
class Adapter;
}

namespace dxgkit::contract {

using dxgkit::testing::ScriptedAllocation;
using dxgkit::testing::ScriptedCalls;
using dxgkit::testing::ScriptedMiniport;

inline constexpr uint64_t kKibibyte = 1024, kMebibyte = 1024 * kKibibyte;

/// An NTSTATUS as a test compares it.
constexpr NTSTATUS nt_status(Status status) { return to_ntstatus(status); }
inline constexpr NTSTATUS kInvalid = nt_status(Status::kInvalidParameter);

/// The scripted miniport's segments: as sets, and where the GPU sees them. The CPU sees the first.
inline constexpr uint32_t kVisible = 1U << 0, kHidden = 1U << 1, kAperture = 1U << 2;
inline constexpr uint64_t kHiddenBase = 0x2'0000'0000, kApertureBase = 0x4'0000'0000;

/// The kernel with one scripted adapter. Made inside Runtime::run_main. Its end stops everything
/// and checks that the driver got all its objects back and the machine all its pages.
class Stack {
 public:
  explicit Stack(const nt::KernelConfig& config = {}, uint64_t memory_bytes = 64 * kMebibyte);
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  ScriptedMiniport miniport;
  bus::Machine machine;
  verifier::Findings findings;
  testing::KnownRun known_run{findings};
  nt::Kernel kernel;
  std::unique_ptr<port::Driver> driver;
  std::unique_ptr<dxgk::System> system;
  dxgk::AdapterOptions options;
  dxgk::Luid luid;
  /// After a bug check the driver keeps what it had.
  bool expect_leaks = false;

  /// Loads the driver; its failure is returned.
  Status load();
  /// Loads if need be and starts the adapter.
  Status start();
  /// The running adapter, or the last one that ran here.
  dxgk::Adapter& adapter();

  /// Set: the GPU runs on a thread of its own. This completes what is on hardware now and returns
  /// how many; drive() asks for it, blocking() and Background only wait.
  std::function<size_t()> complete_work;

  /// Lets the lane finish what reports started.
  void settle();
  /// Is the GPU: completes everything submitted, and what that leads to, until nothing is left.
  /// Returns how many.
  size_t drive();
  /// Runs `call`, which may block, on a thread of its own while the calling thread drives the GPU.
  void blocking(const std::function<void()>& call);
  /// The same, and nothing is completed meanwhile: returns false while `call` has not returned
  /// after `rounds` yields.
  class Background {
   public:
    Background(Stack& stack, std::function<void()> call);
    ~Background();
    bool finished(int rounds = 200);
    /// Drives the GPU until the call has returned.
    void finish();

   private:
    Stack& stack_;
    std::atomic<bool> done_{false};  // release/acquire: publishes what the call did
    std::unique_ptr<runtime::Thread> thread_;
  };

  dxgk::AdapterStatistics statistics() { return *system->statistics(luid); }
  /// Rules of all findings so far, in order, without the informational ones a test has taken.
  std::vector<std::string> rules() const;
  /// The only finding; fails the test and gives an empty one otherwise.
  verifier::Finding only_finding() const;

  uint64_t pages_at_start = 0;
};

/// A context as its client sees it.
struct ContextBuffers {
  D3DKMT_HANDLE handle = 0;
  std::byte* command = nullptr;
  UINT command_bytes = 0;
  D3DDDI_ALLOCATIONLIST* allocations = nullptr;
  UINT allocation_count = 0;
  D3DDDI_PATCHLOCATIONLIST* patches = nullptr;
  UINT patch_count = 0;
};

/// One Render: command bytes, allocation list, patch list.
struct Work {
  struct Listed {
    D3DKMT_HANDLE handle = 0;
    bool write = true;
  };
  uint32_t command_bytes = 256;
  std::byte fill{0x11};
  std::vector<Listed> allocations;
  std::vector<D3DDDI_PATCHLOCATIONLIST> patches;
  D3DKMT_RENDERFLAGS flags{};
};
D3DDDI_PATCHLOCATIONLIST patch_at(uint32_t index, uint32_t offset, uint32_t split = 0,
                                  uint32_t allocation_offset = 0, uint32_t slot = 1);
/// Every allocation written, one patch location each, 16 bytes apart.
Work work_on(std::initializer_list<D3DKMT_HANDLE> allocations);

/// A client process with one adapter handle and one device. Methods answer as the thunks do;
/// `make_*` expect success.
class Client {
 public:
  explicit Client(Stack& stack, const char* name = "client", bool with_device = true);
  ~Client();  // process exit, with the GPU at work, unless ended already

  Stack& stack;
  dxgk::Process* process;
  D3DKMT_HANDLE adapter = 0, device = 0;

  template <typename Call>
  NTSTATUS call(const Call& body) {
    NTSTATUS status = 0;
    as_client([&] { status = body(); });
    return status;
  }
  void as_client(const std::function<void()>& body);

  D3DKMT_HANDLE make_device();
  NTSTATUS create_context(ContextBuffers* out, UINT node = 0, D3DKMT_HANDLE on = 0,
                          D3DDDI_CREATECONTEXTFLAGS flags = {});
  ContextBuffers make_context(UINT node = 0);
  NTSTATUS create_allocation(const ScriptedAllocation& description, D3DKMT_HANDLE* out,
                             D3DKMT_HANDLE on = 0);
  D3DKMT_HANDLE make_allocation(const ScriptedAllocation& description = {});
  D3DKMT_HANDLE make_allocation(uint64_t size, uint32_t segments);
  NTSTATUS destroy_allocation(D3DKMT_HANDLE allocation, UINT flags = 0);
  NTSTATUS render(ContextBuffers& context, const Work& work, D3DKMT_RENDER* out = nullptr);
  /// WDDM 2.0: on the device's residency list (MakeResident).
  void list(std::vector<D3DKMT_HANDLE> allocations);
  NTSTATUS destroy_context(D3DKMT_HANDLE context);
  NTSTATUS destroy_device(D3DKMT_HANDLE which);
  NTSTATUS lock(D3DKMT_HANDLE allocation, void** address);
  NTSTATUS unlock(D3DKMT_HANDLE allocation);
  NTSTATUS wait_for_idle();
  D3DKMT_DEVICEEXECUTION_STATE state();
  D3DKMT_HANDLE make_sync(D3DDDI_SYNCHRONIZATIONOBJECT_TYPE type, uint64_t initial = 0,
                          uint64_t maximum = 1, D3DKMT_CREATESYNCHRONIZATIONOBJECT2* out = nullptr);
  NTSTATUS signal_cpu(D3DKMT_HANDLE object, uint64_t value);
  NTSTATUS wait_cpu(D3DKMT_HANDLE object, uint64_t value);
  NTSTATUS signal_gpu(const ContextBuffers& context, D3DKMT_HANDLE object, uint64_t value);
  NTSTATUS wait_gpu(const ContextBuffers& context, D3DKMT_HANDLE object, uint64_t value);
  void end();
  size_t handles() const;

 private:
  bool ended_ = false;
  std::shared_ptr<dxgk::Process> kept_;  // calls after its end are answered
  D3DKMT_HANDLE paging_queue_ = 0;       // for list()
};

/// What may not change when a call is refused.
struct Digest {
  std::vector<size_t> handles;
  size_t driver_objects = 0, driver_calls = 0, findings = 0;
  uint64_t free_pages = 0;
  std::vector<uint64_t> statistics;
  bool operator==(const Digest&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Digest& digest);
Digest digest(Stack& stack, std::initializer_list<const Client*> clients);

/// Runs bodies inside the simulation.
class ContractTest : public ::testing::Test {
 protected:
  /// A stack nobody has started.
  static void bare(const std::function<void(Stack&)>& body, uint64_t seed = 1);
  /// A stack whose adapter runs; `prepare` changes the miniport before.
  static void running(const std::function<void(Stack&)>& body,
                      const std::function<void(ScriptedMiniport&)>& prepare = nullptr,
                      uint64_t seed = 1);
  /// And a client with a device.
  static void with_client(const std::function<void(Stack&, Client&)>& body,
                          const std::function<void(ScriptedMiniport&)>& prepare = nullptr,
                          uint64_t seed = 1);
};

}  // namespace dxgkit::contract
