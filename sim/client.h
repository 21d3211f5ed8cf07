// A client process: random work on one adapter, and a model that knows what must come of it.
#pragma once

#include <d3dkmthk.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "dxgk/system.h"
#include "miniports/softgpu/softgpu_umd.h"
#include "sim/content.h"
#include "sim/random.h"
#include "sim/world.h"

namespace dxgkit::sim {

/// Two fibers: `run` works, `run_waiter` blocks in CPU waits beside it. Everything the client may
/// do is a row of `operations`: a new thunk comes in there.
///
/// Order: the model changes when a submission is accepted. What one context does after another on
/// the same allocation waits for the other's fence, on the GPU or on the CPU; the CPU waits before
/// it looks.
class Client {
 public:
  struct Options {
    uint32_t number = 0;
    uint64_t seed = 0;
    uint64_t dies_at = 0;      // n-th thunk; 0: it ends by itself
    std::string_view dies_in;  // of these only; "": of all
    bool tidy = true;          // destroys what it made before it ends
    bool hostile = false;
    bool hog = false;  // keeps video memory locked instead of working
  };
  Client(World& world, const Options& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void run();
  void run_waiter();

  const Options& options() const { return options_; }
  dxgk::Process& process() { return *process_; }
  /// Its process is being ended: it may touch nothing of it any more.
  void mark_dying() {
    dying_ = true;
    wake_waiter();
  }
  bool dying() const { return dying_; }
  /// Its process has ended.
  void ended() { give_up_turn(); }
  /// All it submitted is done. While it rests; not while its process ends.
  bool idle() const;
  /// The process was ended; see World::reap.
  bool process_gone = false;

 private:
  /// A submission's place in time: `value` of the fence of context `context`.
  struct Moment {
    uint64_t context = 0;  // Context::id; 0: never
    uint64_t value = 0;
  };
  /// Submissions whose commands a context keeps.
  static constexpr uint32_t kSlots = 4;
  struct Allocation {
    D3DKMT_HANDLE handle = 0;  // changes when a lock with Discard renames
    D3DKMT_HANDLE first_handle = 0;
    D3DKMT_HANDLE resource = 0;
    uint32_t placement = 0;
    Content content{0};
    Moment written;
    std::vector<Moment> read;  // since then
    std::byte* locked = nullptr;
    bool offered = false;
    bool resident = false;                // on the device's list (WDDM 2.0)
    bool read_only = false;               // others have it open
    std::shared_ptr<Common> common = {};  // others write it, too: by turns
    uint64_t address = 0;                 // where all of it is mapped; 0: nowhere yet
    uint64_t size() const { return content.size(); }
  };
  struct Context {
    uint64_t id = 0;
    D3DKMT_HANDLE handle = 0;
    D3DKMT_HANDLE fence = 0;
    const volatile uint64_t* fence_memory = nullptr;
    uint64_t submitted = 0;  // last value its fence will have
    uint64_t seen = 0;       // last value read (P2)
    uint32_t node = 0;
    std::byte* command = nullptr;
    uint32_t command_bytes = 0;
    D3DDDI_ALLOCATIONLIST* list = nullptr;
    uint32_t list_size = 0;
    // With virtual addresses: commands are in slots of a page of its own, used in turn.
    std::unique_ptr<Allocation> commands;
    uint32_t next_slot = 0;
    uint64_t paging_waited = 0;                   // for entries; Client::va_fence_
    std::array<uint64_t, kSlots> slot_free = {};  // once its fence has this value
  };
  struct Command {
    enum class Kind { kFill, kCopy, kDelay } kind = Kind::kFill;
    Allocation* source = nullptr;
    Allocation* destination = nullptr;
    uint64_t source_offset = 0, offset = 0, size = 0;
    uint32_t pattern = 0;
    bool stubborn = false;  // kDelay: does not give way
  };

  /// The process is ending, or the world failed: unwinds `run`.
  struct Ended {};
  /// A thunk said that the device is lost: it is made anew.
  struct DeviceLost {};
  /// The adapter stopped: nothing can be done any more.
  struct AdapterLost {};

  // --- client_calls.cpp: thunks
  template <typename Body>
  NTSTATUS call(const char* name, const Body& body);
  /// Counts a call of `thunk`. True: the client dies in it.
  bool dies_now(std::string_view thunk);
  /// True: success. False: refused because of a fault, nothing happened. Anything else ends the
  /// world.
  bool accepted(const char* name, NTSTATUS status);
  void fail(std::string_view what);
  /// After whatever lets others run.
  void throw_if_ended() const;
  void throw_if_adapter_lost() const;
  /// Frozen with the rest of the machine, if need be.
  void sleep_for(int64_t ns);
  [[noreturn]] void lost(const char* name);
  bool open_adapter();
  bool create_device();
  void destroy_device();
  bool create_context(uint32_t node);
  void destroy_context(size_t index);
  /// Creates `sizes.size()` allocations in one call, of a resource of their own if wanted.
  bool create_allocations(std::span<const uint64_t> sizes, uint32_t placement, bool resource);
  /// Those at `index`, with all of its resource.
  void destroy_allocation(size_t index, bool synchronous);
  bool lock(Allocation& allocation);
  void unlock(Allocation& allocation);
  void unlock_all();
  bool submit(Context& context, std::span<const Command> commands);
  bool gpu_wait(Context& context, const Context& on, uint64_t value);
  void cpu_wait(Context& context, uint64_t value);
  void wait_for(const Moment& moment);
  /// Everything of `allocation` that is on its way has happened.
  void settle(const Allocation& allocation, bool for_writing);
  bool has_happened(const Moment& moment);
  void check_fence(Context& context);
  Context* find_context(uint64_t id);
  void forget_device();

  // --- client_hang.cpp: timeouts
  /// Of the states a failure of the hardware, or recovery from it, leaves devices in: this one had
  /// to come.
  bool loss_is_explained(D3DKMT_DEVICEEXECUTION_STATE state) const;
  /// Before a failure is told: what it saw may be what a lost device leaves.
  void throw_if_lost();
  /// A packet that ends in time, about the moment of the reset, or never.
  void submit_long();

  // --- client_memory.cpp: residency, offers, the older lock
  bool create_paging_queue();
  /// Lists what `used` names and lists not yet; `context` waits for it. True without lists.
  bool make_resident(Context& context, std::span<Allocation* const> used);
  void wait_for_paging(uint64_t value);
  bool evict(std::span<Allocation* const> allocations);
  /// It asked for more at once than a segment holds. Or, as page tables lie in video memory and do
  /// not move: much, or something large, may not fit beside them.
  bool may_not_fit() const;
  /// Gives up what is on the list and not in `but`.
  bool trim(std::span<Allocation* const> but);
  /// The context, or the CPU, waits until paging has come that far.
  void after_paging(Context& context, uint64_t value);
  bool offer(Allocation& allocation);
  bool reclaim(Allocation& allocation);
  /// Lock with Discard: another instance, perhaps, whose content is nobody's.
  bool lock_discarding(Allocation& allocation);
  void unlock_older(Allocation& allocation);
  void check_budget();

  // --- client_va.cpp: GPU virtual addresses
  /// What one page of a window shows.
  struct Page {
    Allocation* allocation = nullptr;  // null: zeros, or what `left` says
    uint64_t page = 0;
    bool writable = false;
    enum class Left : uint8_t {
      kNothing,
      kFading,   // its allocation was destroyed: goes when paging gets there, and stays away
      kPerhaps,  // a shared one was closed: stays if the process has it open once more
    } left = Left::kNothing;
  };
  /// A range some call gave, beside those that show whole allocations. Pages nobody mapped fault.
  struct Window {
    uint64_t bytes = 0;
    bool reserved = false;          // by Reserve: else by Map
    std::vector<Moment> used = {};  // by submissions
  };
  bool has_addresses() const { return world_.plan.has_addresses(); }
  bool create_commands(Context& context);
  bool submit_virtual(Context& context, std::span<const Command> commands,
                      std::span<Allocation* const> used);
  /// An address of the bytes: of a window, perhaps, which is noted in touched_; else of all of the
  /// allocation.
  uint64_t address_of(const Allocation& allocation, uint64_t offset, uint64_t size, bool write);
  bool show(Allocation& allocation, bool execute);
  bool hide(Allocation& allocation);
  bool map(D3DDDI_MAPGPUVIRTUALADDRESS& args);
  bool free_addresses(uint64_t base, uint64_t bytes);
  /// Nothing maps it any more.
  void forget_pages(const Allocation& allocation);
  void note_pages(uint64_t base, uint64_t pages, Allocation* allocation, uint64_t first,
                  bool writable);
  /// What called for new entries has them: until then neither they nor the old ones need hold.
  bool settle_addresses();
  void settle(const Window& window);
  /// Walks pages through the device's own eyes: windows, their neighbours, whole allocations.
  void check_addresses();
  void check_page(const softgpu::VirtualSpace& space, uint64_t address, const Page* expected);
  std::map<uint64_t, Window>::iterator any_window(bool reserved);
  void submit_wildly(Context& context);
  void hostile_address_call();

  // --- client_sync.cpp
  /// `memory`: where its value shows itself to the CPU, if wanted.
  bool create_fence(D3DKMT_HANDLE* fence, const volatile uint64_t** memory = nullptr);
  /// Lets the other thread wait. False: it waits for something else.
  bool wait_beside(D3DKMT_HANDLE fence, uint64_t value);
  /// It has to be back soon: `why` says so.
  void must_come_back(D3DKMT_HANDLE fence, const char* why);
  void signal_from_cpu();
  void abandon_waiter();
  /// Two contexts copy what has just been evicted.
  void read_twice();
  void work_with_signals();

  // --- client_sharing.cpp
  Allocation* make_shared(uint64_t bytes, uint32_t placement, D3DKMT_HANDLE* global);
  Allocation* open_shared(const Shared& shared);
  /// Now and then, what all of them write.
  void work_with_others();
  /// Nothing if somebody else is at it.
  void take_turn(Allocation& allocation, bool write);
  /// Ends its turn at what it did not finish: nobody knows what is there now.
  void give_up_turn();

  // --- client_work.cpp: what it does
  void work(uint32_t count);
  /// Between operations, while faults strike: pauses, jumps of the clock.
  void let_time_pass();
  /// The adapter is gone, and its locks are not: what they show may be anything, but is there.
  void touch_locked();
  void work_as_hog();
  void step();
  /// Reads all of it and compares: through a lock, or through staging where there is none. False:
  /// a fault kept it from looking.
  bool verify(Allocation& allocation);
  bool verify_through_staging(Allocation& allocation);
  void verify_all();
  Allocation* any_allocation();
  Context* any_context();
  uint64_t bytes_live() const;
  Command random_command();
  /// One packet that fills something of everything there is.
  void submit_to_all(Context& context);
  void hostile_call();  // client_calls.cpp

  // Rows of the table of operations.
  struct Operation {
    std::string_view name;
    uint32_t weight;
    void (Client::*run)();
  };
  static std::span<const Operation> operations();
  friend std::vector<std::string_view> operation_names();
  void op_create();
  void op_create_resource();
  void op_destroy();
  void op_submit();
  void op_cpu_write();
  void op_cpu_read();
  void op_lock_and_keep();
  void op_unlock();
  void op_verify();
  void op_wait();
  void op_wait_idle();
  void op_waiter();
  void op_create_context();
  void op_destroy_context();
  void op_priority();
  void op_new_device();
  void op_sleep();
  void op_hostile();
  void op_offer();
  void op_reclaim();
  void op_discard();
  void op_allocation_priority();
  void op_budget();
  void op_trim();
  void op_share();
  void op_open_shared();
  void op_reserve_addresses();
  void op_map();
  void op_free_addresses();
  void op_update_addresses();
  void op_check_addresses();

  World& world_;
  const Options options_;
  Random random_;
  dxgk::Process* process_;
  bool dying_ = false;
  uint64_t calls_ = 0, calls_to_die_in_ = 0;
  uint64_t excuses_before_ = 0;  // Faults::excuses when the last call began
  Random extra_;                 // for what the table of operations does not have
  uint32_t pauses_taken_ = 0;
  std::shared_ptr<Common> turn_;     // at whose content it is
  bool may_exhaust_memory_ = false;  // it used more at once than video memory holds

  D3DKMT_HANDLE adapter_ = 0, device_ = 0;
  D3DKMT_HANDLE paging_queue_ = 0, paging_fence_ = 0;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<std::unique_ptr<Allocation>> allocations_;
  std::vector<const Allocation*> asked_;  // what was last to be made resident; compared only
  uint64_t asked_bytes_ = 0;
  uint64_t asked_staging_bytes_ = 0;  // of them, what only the aperture holds
  std::vector<D3DKMT_HANDLE> stale_;
  uint64_t last_context_ = 0;

  std::map<uint64_t, Window> windows_;  // by address
  std::map<uint64_t, Page> pages_;      // of windows, by page number
  std::set<uint64_t> fence_pages_;      // where fences show themselves to engines, or did
  std::set<uint64_t> touched_;          // windows, by the submission being built
  uint64_t va_fence_ = 0;               // of the paging queue, for all calls so far
  D3DKMT_HANDLE update_fence_ = 0;
  uint64_t update_value_ = 0;
  bool was_wild_ = false;  // its device may have faulted
  bool may_hang_ = false;  // it submitted what may take longer than TdrDelay

  // Between the two fibers.
  struct WaiterTask {
    D3DKMT_HANDLE device = 0, fence = 0;
    uint64_t value = 0;
  };
  std::optional<WaiterTask> waiter_task_;
  D3DKMT_HANDLE waits_at_ = 0;  // the other thread, now
  bool waiter_ends_ = false;
  std::atomic<uint32_t> waiter_changes_{0};
  void wake_waiter();
};

/// By index in Counters::operations.
std::vector<std::string_view> operation_names();

}  // namespace dxgkit::sim
