// The driver under test, its adapter, and clients that use it.
#pragma once

#include <d3dkmthk.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/interface_versions.h"
#include "dxgk/exercise.h"
#include "dxgk/system.h"
#include "nt/kernel.h"
#include "nt/stalls.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/child.h"
#include "tools/dxgkit/kernel_config.h"
#include "tools/dxgkit/verify/mutator.h"
#include "tools/dxgkit/verify/negligence.h"
#include "tools/dxgkit/verify/plugin.h"
#include "tools/dxgkit/verify/shortage.h"
#include "tools/dxgkit/verify/step.h"
#include "verifier/findings.h"
#include "verifier/situations.h"

namespace dxgkit::tool::verify {

/// "STATUS_NO_MEMORY", or the number.
std::string status_text(Status status);
/// All bits of the result depend on all bits of `number`: the last step of SplitMix64.
uint64_t mixed(uint64_t number);
/// What is added to a number from one to the next.
inline constexpr uint64_t kMixStep = 0x9E3779B97F4A7C15ULL;
/// Success for a success code, else the error "FUNCTION answered STATUS".
Answer<void> check_answer(const char* function, NTSTATUS status);

// The early return of calls that can be refused.
#define DXGKIT_VERIFY_TRY(expression)                            \
  do {                                                           \
    auto verify_try = (expression);                              \
    if (!verify_try) return std::unexpected(verify_try.error()); \
  } while (false)

class Client;

/// Lives inside a runtime. Steps run on its main thread, one after the other.
class Bench {
 public:
  /// @param mutator  makes faults in every machine; null: none.
  Bench(runtime::Runtime& runtime, const VerifyOptions& options, const std::string& driver_path,
        const nt::KernelConfig& kernel_config, const Plugin* plugin, verifier::Findings& findings,
        verifier::SituationLog& situations, Heartbeat* heartbeat, Mutator* mutator);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// The driver is lost: calls that do not return are waited for no longer than a second.
  void lose_patience() { world_->kernel().set_hang_limit(runtime::kSecond); }
  /// From now on threads of the driver are slow, where time costs nothing.
  void slow_threads();

  // --- for the first and last steps ---
  Outcome load();
  /// What a start has beside what it always has.
  struct StartChanges {
    port::FaultInjector* faults = nullptr;  // outlives the adapter; null: the shortage
    dxgk::VerifierSwitches verifier = {};
    uint64_t transfer_chunk_bytes = dxgk::AdapterOptions{}.transfer_chunk_bytes;
    bool may_fail = false;  // then nothing is said of a start that fails
  };
  Outcome start() { return start(StartChanges{}); }
  Outcome start(const StartChanges& changes);
  Outcome stop();
  Outcome unload();
  /// After a bug check: tears everything down, and starts a new machine with a new copy of the
  /// driver for the remaining steps. False if it does not start.
  bool start_over();
  /// After `unload`: loads a new copy of the driver into a new machine, and starts nothing.
  Outcome load_again() { return load_again(kernel_config_); }
  Outcome load_again(const nt::KernelConfig& kernel_config) {
    return load_again(kernel_config, device());
  }
  Outcome load_again(const nt::KernelConfig& kernel_config, const DeviceChoice& device);
  /// The device of the run; a machine may have been loaded with another one.
  const DeviceChoice& device() const { return options_.device; }
  const nt::KernelConfig& kernel_config() const { return kernel_config_; }
  /// Of the machine that was loaded last.
  const nt::KernelConfig& machine_config() const { return machine_config_; }
  /// Values of the registry that the driver has asked for by name, in any machine.
  const std::set<std::u16string>& asked_values() const { return asked_values_; }
  /// True if the command line sets a value of that name.
  bool is_configured(std::string_view name) const;
  /// The device leaves the machine, without a word to the kernel.
  void pull_out() { world_->pull_out(); }
  /// The device's registers answer no more, and it is still there.
  void silence() { world_->silence(); }
  /// The interrupt line of the machine's device.
  bus::InterruptLine& line() { return world_->function().interrupt_line(); }
  /// The kernel takes notice of that; not on an adapter that was stopped.
  Status remove();
  /// How often the kernel had to ask for a fence to hear of a completion, on all machines so far. 0
  /// where time is not the device's, or interrupts are taken away.
  uint64_t late_reports() const;
  /// What the driver has asked of devices that their manuals forbid, on all machines since the last
  /// call. Nothing where something is wrong with the device, or the driver, on purpose.
  std::vector<std::string> take_misuses();
  /// The longest stall of a call on this machine since the last call. Nothing where time is not the
  /// device's, or something is wrong on purpose.
  std::optional<nt::Stall> take_stall();
  /// Register accesses that no device has answered.
  uint64_t lost_accesses() const { return world_->machine().lost_register_accesses(); }
  /// Register accesses to sleeping devices on all machines since the last call. 0 where something
  /// is wrong with the driver on purpose.
  uint64_t take_sleeping_accesses();

  /// Stands before the injector of every start from here on; null: none.
  void set_negligence(Negligence* negligence) { negligence_ = negligence; }
  /// The rest of the step provokes what the kernel warns of by this rule. The warnings do not count
  /// against the driver.
  void expect_warnings(const char* rule) { expected_warnings_.emplace(rule); }
  std::set<std::string> take_expected_warnings() { return std::exchange(expected_warnings_, {}); }

  /// The driver has come back from a call: the parent's patience begins anew. Any thread.
  void came_back() {
    if (heartbeat_ != nullptr) heartbeat_->beat();
  }
  /// The processes of clients stand still while the machine sleeps: calls that they are in end, and
  /// they make no other, and touch no memory, until that is over. Clients wait for it themselves.
  void freeze(bool frozen);
  void wait_while_frozen();

  runtime::Runtime& runtime() { return runtime_; }
  /// The driver's kernel; a driver is loaded.
  const nt::Kernel& kernel() const { return world_->kernel(); }
  /// Makes requests of the driver fail.
  Shortage& shortage() { return shortage_; }
  /// False if memory of the same routine was reported before.
  bool is_new_leak(const nt::Leak& leak) {
    return known_leaks_.emplace(leak.what + leak.tag, leak.caller).second;
  }
  verifier::Findings& findings() { return findings_; }
  const verifier::SituationLog& situations() const { return situations_; }
  dxgk::System& system() { return *system_; }
  dxgk::Luid luid() const { return *luid_; }
  dxgk::Exercise& exercise() {
    came_back();
    return *exercise_;
  }
  /// The file is not a driver at all: there is nothing to verify.
  bool not_a_driver() const { return not_a_driver_; }
  bool loaded() const { return driver_ != nullptr; }
  /// True if the adapter has run at some time, in some machine.
  bool has_run() const { return has_run_; }
  /// True if the driver asked to be told of surprise removals when it ran last: of those of a
  /// running adapter, and of one that sleeps.
  bool supports_removal(bool asleep) const {
    return asleep ? supports_removal_asleep_ : supports_removal_;
  }
  /// True in a run of `verify --mutate`.
  bool mutated() const { return mutator_ != nullptr; }
  bool running() const { return exercise_.has_value() && exercise_->running(); }
  bool display_only() const { return driver_ != nullptr && driver_->display_only(); }
  uint32_t node_count() const;
  /// Time is virtual, and one thread runs at a time.
  bool simulated() const { return options_.mode == Mode::kSim; }
  /// True if contexts have GPU virtual addresses; then there is no D3DKMTRender.
  bool gpu_addresses() const { return exercise_.has_value() && exercise_->gpu_va_pages() != 0; }

  /// From now on numbers are those of the run's seed and this step, whatever was drawn before.
  void begin_random(std::string_view step);
  /// A number from the run's seed, the same in every run of it.
  uint64_t random();
  /// The content of some memory, from as many numbers.
  std::vector<std::byte> random_bytes(uint64_t count);
  /// 0..count-1 in an order from the seed.
  std::vector<size_t> shuffled(size_t count);
  /// The three orders in which objects are destroyed: as made, reversed, any.
  std::vector<std::vector<size_t>> orders(size_t count);

  /// What the device's screen shows. Null: the device has no screen.
  bus::DeviceScreen* screen() { return world_->device().screen(); }
  /// Null if the device cannot be made to fail, or has something wrong with it already.
  bus::FaultInjection* device_faults() {
    return mutator_ == nullptr ? world_->device().faults() : nullptr;
  }

  /// Memory errors that the device has met so far. 0: it does not count them.
  uint64_t memory_errors() {
    bus::FaultInjection* const faults = device_faults();
    return faults == nullptr ? 0 : faults->memory_errors().value_or(0);
  }
  /// Null if the device's time cannot be stopped, or something is wrong with it already.
  bus::DeviceClock* device_clock() {
    return mutator_ == nullptr ? world_->device().clock() : nullptr;
  }

  /// The device does as it should again: no faults, no late interrupts, and it does not stand
  /// still.
  void end_device_faults();

  /// Null without a plug-in, and if it could not be opened on this adapter.
  const Plugin* plugin() const { return client_refused_ ? nullptr : plugin_; }
  bool client_refused() const { return client_refused_; }
  /// The plug-in's work does not even come out right by itself: what fails with it where something
  /// is odd says nothing of that.
  void note_work_fails() { work_fails_ = true; }
  bool work_fails() const { return work_fails_; }
  /// There are jobs, and they come out right by themselves.
  bool has_work() const { return plugin() != nullptr && !work_fails_; }
  /// Opens the plug-in for the first time. If it fails, the other steps run without it.
  Answer<void> open_client();
  /// The plug-in, opened on the running adapter (the first time with UMDRIVERPRIVATE).
  Answer<Plugin::Instance*> client_code();
  /// LIFE-25: has the plug-in judge an answer to UMDRIVERPRIVATE. What is wrong; empty: nothing.
  std::string judge_adapter(const Plugin::Instance& code, Status status,
                            std::span<const std::byte> sent, std::span<const std::byte> returned);
  /// The private data of a context from the plug-in, or none.
  Answer<std::vector<std::byte>> context_data(uint32_t node);

  /// Runs bodies on threads of their own, waits for all; the first error in order of number.
  Answer<void> in_parallel(size_t count, const std::function<Answer<void>(size_t)>& body);

  /// Names of the entries in the driver's table, in its order.
  const std::vector<std::string>& filled_entries() const { return filled_entries_; }
  bool has_entry(std::string_view name) const {
    return std::ranges::find(filled_entries_, name) != filled_entries_.end();
  }
  uint32_t interface_version() const { return interface_version_; }
  /// True if devices have residency lists (WDDM 2.0).
  bool explicit_residency() const {
    return interface_version_ >= kInterfaceWddm20 && exercise_->caps().wddm_version >= kModelWddm20;
  }

 private:
  void power_off();
  void collect_misuses();
  Outcome load(const nt::KernelConfig& kernel_config, const DeviceChoice& device);

  runtime::Runtime& runtime_;
  const VerifyOptions& options_;
  const std::string driver_path_;
  const nt::KernelConfig& kernel_config_;
  nt::KernelConfig machine_config_;
  const Plugin* plugin_;
  verifier::Findings& findings_;
  verifier::SituationLog& situations_;  // what the driver was confronted with so far
  Heartbeat* heartbeat_;                // null: no process waits
  Mutator* const mutator_;
  Negligence* negligence_ = nullptr;
  Shortage shortage_;
  uint64_t random_state_;
  bool not_a_driver_ = false, client_refused_ = false, work_fails_ = false;
  bool has_run_ = false, supports_removal_ = false, supports_removal_asleep_ = false;
  std::set<std::string> expected_warnings_;
  runtime::Mutex asked_lock_;
  std::set<std::u16string> asked_values_;
  std::vector<std::string> filled_entries_;
  uint32_t interface_version_ = 0;
  std::set<std::pair<std::string, const void*>> known_leaks_;  // of this copy of the driver
  std::unique_ptr<World> world_;
  std::unique_ptr<port::Driver> driver_;
  std::unique_ptr<dxgk::System> system_;
  std::optional<dxgk::Luid> luid_;
  std::optional<dxgk::Exercise> exercise_;
  std::vector<std::string> misuses_;  // of devices, not yet told
  uint64_t sleeping_accesses_ = 0;    // of machines of before, not yet told
  uint64_t sleeping_before_ = 0;      // those of this machine that have been told
  uint64_t late_before_ = 0;          // late reports of adapters that have ended
  std::unique_ptr<Plugin::Instance> client_code_;
  std::atomic<uint32_t> frozen_{0};  // 1: clients wait
};

/// A context with its buffers, as its process sees it.
struct ClientContext {
  D3DKMT_HANDLE handle = 0;
  std::byte* commands = nullptr;
  uint32_t command_bytes = 0;
  D3DDDI_ALLOCATIONLIST* list = nullptr;
  uint32_t list_size = 0;
  D3DDDI_PATCHLOCATIONLIST* patches = nullptr;
  uint32_t patches_size = 0;
  D3DKMT_HANDLE device = 0;
};

/// The wanted properties of a mapping; pages are of 4 KiB.
struct MapWish {
  D3DKMT_HANDLE allocation = 0;  // 0: no allocation, Protection.Zero
  uint64_t offset_pages = 0, pages = 0;
  uint64_t base = 0;     // bytes; 0: anywhere
  uint64_t minimum = 0;  // bytes; for base 0
  bool execute = false;  // executable; else writable
  bool read_only = false;
  bool no_access = false;  // without an allocation; else that is Protection.Zero
  uint64_t driver_protection = 0;
};

struct ClientAllocation {
  D3DKMT_HANDLE handle = 0;
  uint64_t size_bytes = 0;  // as asked for
  std::vector<std::byte> private_data;
};

/// One client process. Any thread may call its functions, one at a time. Functions without an
/// Answer cannot be refused.
class Client {
 public:
  Client(Bench& bench, std::string name);
  /// Process exit: the kernel cleans up the rest.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Answer<void> open_adapter();
  Answer<void> close_adapter();
  Answer<D3DKMT_HANDLE> create_device();
  Answer<void> destroy_device(D3DKMT_HANDLE device);
  Answer<ClientContext> create_context(D3DKMT_HANDLE device, uint32_t node,
                                       std::span<const std::byte> private_data = {});
  Answer<void> destroy_context(D3DKMT_HANDLE context);
  Answer<void> set_priority(D3DKMT_HANDLE context, int32_t priority);
  /// Several at once, as a resource when asked; in/out private data.
  Answer<D3DKMT_HANDLE> create_allocations(D3DKMT_HANDLE device,
                                           std::span<ClientAllocation> allocations,
                                           bool as_resource);
  NTSTATUS try_create_allocation(D3DKMT_HANDLE device, ClientAllocation& allocation);
  Answer<void> destroy_allocations(D3DKMT_HANDLE device, std::span<const D3DKMT_HANDLE> handles);
  Answer<void> destroy_resource(D3DKMT_HANDLE device, D3DKMT_HANDLE resource);
  Answer<std::byte*> lock(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation);
  Answer<void> unlock(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation);
  /// Submits the commands, list and patches in the context's buffers, and replaces the buffers.
  NTSTATUS try_render(ClientContext& context, uint32_t command_bytes, uint32_t list_count,
                      uint32_t patch_count, bool null_rendering = false);
  Answer<void> wait_idle(D3DKMT_HANDLE device);

  // --- GPU virtual addresses, on one paging queue per device that goes with it ---
  /// The address where it is mapped. The GPU may access it once wait_paging() has returned.
  Answer<uint64_t> map(D3DKMT_HANDLE device, const MapWish& wish);
  /// @param base  bytes; 0: anywhere
  Answer<uint64_t> reserve(D3DKMT_HANDLE device, uint64_t size_bytes, uint64_t base = 0);
  Answer<void> free_addresses(uint64_t base, uint64_t size_bytes);
  /// Makes them resident, and waits until they are there and all earlier mappings are done.
  Answer<void> make_resident(D3DKMT_HANDLE device, std::span<const D3DKMT_HANDLE> allocations);
  Answer<void> evict(D3DKMT_HANDLE device, std::span<const D3DKMT_HANDLE> allocations);
  Answer<void> wait_paging(D3DKMT_HANDLE device);
  NTSTATUS try_submit(D3DKMT_HANDLE context, uint64_t commands, uint32_t command_bytes,
                      std::span<std::byte> private_data, bool null_rendering = false);
  Answer<D3DKMT_HANDLE> create_fence(D3DKMT_HANDLE device);
  Answer<void> wait_fence(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, uint64_t value);
  /// All updates take effect together; then the fence has `value` + 1.
  Answer<void> update(D3DKMT_HANDLE device, D3DKMT_HANDLE context, D3DKMT_HANDLE fence,
                      uint64_t value,
                      std::span<D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION> operations);
  /// True if the device was lost to a page fault.
  bool page_faulted(D3DKMT_HANDLE device);

  /// Calls of try_render and try_submit so far.
  uint64_t submissions() const { return submissions_; }
  NTSTATUS query_umd_private(std::span<std::byte> data);
  /// The same with a buffer of the plug-in's size, for a call that says nothing by its answer.
  void ask_umd_private();
  /// False if the device has been lost.
  bool active(D3DKMT_HANDLE device);
  /// True if the device was lost because its own work faulted.
  bool faulted(D3DKMT_HANDLE device);

  // --- the same as above, with the answer of the call; outputs as they were unless it succeeds ---
  NTSTATUS try_create_device(D3DKMT_HANDLE* device);
  NTSTATUS try_create_context(D3DKMT_HANDLE device, uint32_t node,
                              std::span<const std::byte> private_data, ClientContext* context);
  enum class Grouping : uint8_t { kAlone, kResource, kSharedResource };
  /// @param out  the handle of the resource, or, if it is shared, the global one; 0 without it.
  NTSTATUS try_create_allocations(D3DKMT_HANDLE device, std::span<ClientAllocation> allocations,
                                  Grouping grouping, D3DKMT_HANDLE* out);
  /// Opens a shared resource of `count` allocations by its global handle.
  NTSTATUS try_open_resource(D3DKMT_HANDLE device, D3DKMT_HANDLE global, size_t count,
                             D3DKMT_HANDLE* resource);
  /// D3DKMT_ESCAPE_DRIVERPRIVATE, with no flag but HardwareAccess; in/out data.
  NTSTATUS try_escape(D3DKMT_HANDLE device, std::span<std::byte> data, bool hardware_access);

  dxgk::Process& process() { return process_; }
  /// 0: not open.
  D3DKMT_HANDLE adapter() const { return adapter_; }

 private:
  struct PagingQueue {
    D3DKMT_HANDLE handle = 0, fence = 0;
    uint64_t value = 0;  // the last value that was given out
  };
  Answer<PagingQueue*> paging_queue(D3DKMT_HANDLE device);
  /// nullopt: there is no such device.
  std::optional<D3DKMT_DEVICEEXECUTION_STATE> execution_state(D3DKMT_HANDLE device);
  void begin_call() {
    bench_.came_back();
    bench_.wait_while_frozen();
  }

  Bench& bench_;
  dxgk::Process& process_;
  D3DKMT_HANDLE adapter_ = 0;
  uint64_t submissions_ = 0;
  std::map<D3DKMT_HANDLE, PagingQueue> paging_queues_;  // by device
};

/// A wrong result is a driver's violation, of any DDI.
void report_result(Bench& bench, const std::string& actual);
/// D3DKMTRender failed for work that the plug-in calls right, on a device that is not lost. A
/// status by which drivers refuse commands is the driver's violation.
void report_refusal(Bench& bench, Status status);
/// Explains why a device with correct work is lost.
std::string lost_text(Client& client, D3DKMT_HANDLE device);

/// A job of the plug-in: its allocations on one device, filled; runs on a context; checked.
class Job {
 public:
  /// Plans and creates what the job needs, maps it where addresses are virtual, and fills it.
  static Answer<std::unique_ptr<Job>> create(Bench& bench, Client& client, D3DKMT_HANDLE device,
                                             uint64_t seed, uint32_t node);
  Answer<void> fill();
  /// Records and submits without waiting.
  Answer<void> submit(ClientContext& context, uint64_t busy_ns = 0, bool null_rendering = false);
  /// The same without execution (SUB-22).
  Answer<void> submit_null(ClientContext& context) { return submit(context, 0, true); }
  /// Checks that the memory which the GPU writes and the CPU reads is as spoil() left it.
  Answer<bool> spoilt();
  /// Records only: the work is then in the context's buffers. Not for GPU virtual addresses.
  Answer<DxgkitClientJob> record(ClientContext& context, uint64_t busy_ns = 0);
  /// After the work is done: the plug-in's check of the bytes. The error also says what happened to
  /// the wrong memory.
  Answer<void> check();
  Answer<void> destroy();
  std::span<const ClientAllocation> allocations() const { return allocations_; }
  /// DXGKIT_CLIENT_* of an allocation.
  uint32_t usage(size_t allocation) const { return wanted_[allocation].usage; }
  /// True for what spoil() fills: what only the GPU writes, and the CPU reads.
  bool is_result(size_t allocation) const {
    constexpr uint32_t kBoth = DXGKIT_CLIENT_CPU_READS | DXGKIT_CLIENT_GPU_WRITES;
    return (usage(allocation) & (kBoth | DXGKIT_CLIENT_CPU_WRITES)) == kBoth;
  }
  /// What spoil() leaves in each byte.
  static constexpr std::byte kSpoilt{0xDB};

  // --- with GPU virtual addresses ---
  std::span<const uint64_t> addresses() const { return addresses_; }
  uint64_t commands_address() const { return commands_address_; }
  const ClientAllocation& commands() const { return commands_; }
  /// Frees the addresses of its allocations; its commands stay mapped.
  Answer<void> unmap();
  /// Maps its allocations at these free addresses, or anywhere if the list is empty. Each is mapped
  /// in several pieces one after the other, in an order from the run's seed.
  Answer<void> map_at(Bench& bench, std::span<const uint64_t> addresses);
  /// Other allocations were mapped over them: nothing is left to free.
  void forget_addresses() { addresses_.clear(); }
  /// Records with these addresses, even if they lead nowhere.
  void assume_addresses(std::span<const uint64_t> addresses) {
    addresses_.assign(addresses.begin(), addresses.end());
  }
  /// Submits commands with one mistake. Returns the answer of the call. The job's allocations stay
  /// resident.
  Answer<NTSTATUS> submit_spoilt(Bench& bench, const ClientContext& context, size_t how);
  /// A variant of the plug-in's record_overreach, and the answer of the call that submitted it.
  struct Overreach {
    DxgkitClientOverreach variant;
    NTSTATUS status;
  };
  /// In both memory models. nullopt: there is no variant with this number. Its memory stays
  /// resident.
  Answer<std::optional<Overreach>> submit_overreach(ClientContext& context, uint32_t variant);
  /// Fills the memory that only the GPU writes and the CPU reads with bytes that no job leaves, and
  /// what both write with what it had at first.
  Answer<void> spoil();

 private:
  Job(Bench& bench, Client& client, D3DKMT_HANDLE device)
      : bench_(bench), client_(client), device_(device) {}
  DxgkitClientJob description() const;
  Answer<void> fill_one(uint32_t allocation);
  Answer<void> create_commands();
  using Recorder = std::function<Answer<void>(DxgkitClientJob& job)>;
  Answer<DxgkitClientJob> record_with(ClientContext& context, uint64_t busy_ns,
                                      const Recorder& recorder);
  Answer<DxgkitClientJob> record_virtual_with(uint64_t busy_ns, const Recorder& recorder);
  /// The caller submits the commands' address.
  Answer<DxgkitClientJob> record_virtual(uint64_t busy_ns);
  Answer<void> submit_virtual(const ClientContext& context, uint64_t busy_ns, bool null_rendering);
  std::string history() const;

  Bench& bench_;
  Client& client_;
  D3DKMT_HANDLE device_;
  uint64_t seed_ = 0;
  uint32_t node_ = 0;
  Plugin::Instance* code_ = nullptr;
  std::vector<DxgkitClientAllocation> wanted_;
  std::vector<ClientAllocation> allocations_;
  std::vector<DxgkitClientHandle> handles_;
  ClientAllocation commands_;
  uint64_t commands_address_ = 0;    // 0: addresses are not virtual
  std::vector<uint64_t> addresses_;  // by allocation; empty while unmapped
  std::vector<std::byte> private_data_;
  uint64_t submission_ = 0;  // of the client's, the one that ran it last; 0: none
};

}  // namespace dxgkit::tool::verify
