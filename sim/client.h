// A client process: random work on one adapter, and a model that knows the right results.
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
#include <string>
#include <string_view>
#include <vector>

#include "dxgk/system.h"
#include "miniports/softgpu/softgpu_umd.h"
#include "sim/content.h"
#include "sim/random.h"
#include "sim/world.h"

namespace dxgkit::sim {

/// Two fibers: `run` works, and `run_waiter` blocks in CPU waits beside it. All actions of a client
/// are rows of `operations`; add a new thunk there.
///
/// Order: the model changes when a submission is accepted. If one context uses an allocation after
/// another context, it waits for the other's fence, on the GPU or on the CPU. The CPU waits before
/// it looks.
class Client {
 public:
  struct Options {
    uint32_t number = 0;
    uint64_t seed = 0;
    uint64_t dies_at = 0;      // dies in the n-th thunk; 0: it ends by itself
    std::string_view dies_in;  // only calls of this thunk count; "": all calls
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
  /// True while its process is being ended: the client may not use the process any more.
  void mark_dying() {
    dying_ = true;
    wake_waiter();
  }
  bool dying() const { return dying_; }
  /// True if its process has ended.
  void ended() { give_up_turn(); }
  /// True if all its submissions are done. For use while it rests, and not while its process ends.
  bool idle() const;
  /// The process was ended; see World::reap.
  bool process_gone = false;

 private:
  /// The time of a submission: `value` of the fence of context `context`.
  struct Moment {
    uint64_t context = 0;  // Context::id; 0: never
    uint64_t value = 0;
  };
  /// The number of submissions whose commands a context keeps.
  static constexpr uint32_t kSlots = 4;
  struct Allocation {
    D3DKMT_HANDLE handle = 0;  // changes if a lock with Discard renames the allocation
    D3DKMT_HANDLE first_handle = 0;
    D3DKMT_HANDLE resource = 0;
    uint32_t placement = 0;
    Content content{0};
    Moment written;
    std::vector<Moment> read;  // since the last write
    std::byte* locked = nullptr;
    bool offered = false;
    bool resident = false;                // on the device's list (WDDM 2.0)
    bool read_only = false;               // other clients have it open
    std::shared_ptr<Common> common = {};  // set if other clients write it too, in turn
    uint64_t address = 0;                 // the address where all of it is mapped; 0: none yet
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
    // With virtual addresses, commands are in slots of a page of the context's own, used in turn.
    std::unique_ptr<Allocation> commands;
    uint32_t next_slot = 0;
    uint64_t paging_waited = 0;  // for entries; Client::va_fence_
    // A slot is free once the context's fence has this value.
    std::array<uint64_t, kSlots> slot_free = {};
  };
  struct Command {
    enum class Kind { kFill, kCopy, kDelay } kind = Kind::kFill;
    Allocation* source = nullptr;
    Allocation* destination = nullptr;
    uint64_t source_offset = 0, offset = 0, size = 0;
    uint32_t pattern = 0;
    bool stubborn = false;  // kDelay: it cannot be preempted
  };

  /// The process is ending, or the world failed: unwinds `run`.
  struct Ended {};
  /// A thunk said that the device is lost: the client makes a new one.
  struct DeviceLost {};
  /// The adapter stopped: no more work is possible.
  struct AdapterLost {};

  // --- client_calls.cpp: thunks
  template <typename Body>
  NTSTATUS call(const char* name, const Body& body);
  /// Counts a call of `thunk`. True: the client dies in this call.
  bool dies_now(std::string_view thunk);
  /// True: success. False: refused because of a fault, with no effect. Any other status ends the
  /// world.
  bool accepted(const char* name, NTSTATUS status);
  bool device_is_lost(Status answer);
  void fail(std::string_view what);
  /// Call it after every action that lets others run.
  void throw_if_ended() const;
  void throw_if_adapter_lost() const;
  /// Freezes with the rest of the machine, if need be.
  void sleep_for(int64_t ns);
  [[noreturn]] void lost(const char* name);
  bool open_adapter();
  bool create_device();
  void destroy_device();
  bool create_context(uint32_t node);
  void destroy_context(size_t index);
  /// Creates `sizes.size()` allocations in one call, of a resource of their own if wanted.
  bool create_allocations(std::span<const uint64_t> sizes, uint32_t placement, bool resource);
  /// Destroys the allocation at `index` and all of its resource.
  void destroy_allocation(size_t index, bool synchronous);
  bool lock(Allocation& allocation);
  void unlock(Allocation& allocation);
  void unlock_all();
  bool submit(Context& context, std::span<const Command> commands);
  bool gpu_wait(Context& context, const Context& on, uint64_t value);
  void cpu_wait(Context& context, uint64_t value);
  void wait_for(const Moment& moment);
  /// Waits until all operations on `allocation` are done.
  void settle(const Allocation& allocation, bool for_writing);
  bool has_happened(const Moment& moment);
  void check_fence(Context& context);
  Context* find_context(uint64_t id);
  void forget_device();

  // --- client_hang.cpp: timeouts
  /// A failure of the hardware, or the recovery from it, leaves devices in certain states. Checks
  /// that this device had to come into this one.
  bool loss_is_explained(D3DKMT_DEVICEEXECUTION_STATE state) const;
  /// Called before a failure is reported: a lost device may explain it.
  void throw_if_lost();
  /// A packet that ends in time, near the moment of the reset, or never.
  void submit_long();

  // --- client_memory.cpp: residency, offers, the older lock
  bool create_paging_queue();
  /// Makes the allocations in `used` resident that are not on the list yet; `context` waits for it.
  /// True without lists.
  bool make_resident(Context& context, std::span<Allocation* const> used);
  void wait_for_paging(uint64_t value);
  bool evict(std::span<Allocation* const> allocations);
  /// True if a refusal is right: the client asked for more at once than a segment holds, or
  /// strangers hold memory. Or page tables lie in video memory and do not move, so that many or
  /// large allocations may not fit beside them.
  bool may_not_fit() const;
  /// Evicts the allocations that are on the list and not in `but`.
  bool trim(std::span<Allocation* const> but);
  /// The context, or the CPU, waits until paging has come that far.
  void after_paging(Context& context, uint64_t value);
  bool offer(Allocation& allocation);
  bool reclaim(Allocation& allocation);
  /// Lock with Discard: may give another instance, whose content is undefined.
  bool lock_discarding(Allocation& allocation);
  void unlock_older(Allocation& allocation);
  void check_budget();

  // --- client_va.cpp: GPU virtual addresses
  /// The content of one page of a window.
  struct Page {
    Allocation* allocation = nullptr;  // null: zeros, or as `left` says
    uint64_t page = 0;
    bool writable = false;
    enum class Left : uint8_t {
      kNothing,
      kFading,   // its allocation was destroyed: ends when paging gets there, and stays away
      kPerhaps,  // a shared one was closed: stays if the process still has it open
    } left = Left::kNothing;
  };
  /// A range from a call, beside the ranges that show whole allocations. Unmapped pages fault.
  struct Window {
    uint64_t bytes = 0;
    bool reserved = false;          // by Reserve; else by Map
    std::vector<Moment> used = {};  // by submissions
  };
  bool has_addresses() const { return world_.plan.has_addresses(); }
  bool create_commands(Context& context);
  bool submit_virtual(Context& context, std::span<const Command> commands,
                      std::span<Allocation* const> used);
  /// An address of the bytes. It may be in a window, which is noted in touched_; otherwise in the
  /// mapping of the whole allocation.
  uint64_t address_of(const Allocation& allocation, uint64_t offset, uint64_t size, bool write);
  bool show(Allocation& allocation, bool execute);
  bool hide(Allocation& allocation);
  bool map(D3DDDI_MAPGPUVIRTUALADDRESS& args);
  bool free_addresses(uint64_t base, uint64_t bytes);
  /// Removes all mappings of it.
  void forget_pages(const Allocation& allocation);
  void note_pages(uint64_t base, uint64_t pages, Allocation* allocation, uint64_t first,
                  bool writable);
  /// Called when the call that needs new entries has them. Before that neither the new nor the old
  /// entries are certain.
  bool settle_addresses();
  void settle(const Window& window);
  /// Walks pages as the device does: windows, their neighbours, whole allocations.
  void check_addresses();
  void check_page(const softgpu::VirtualSpace& space, uint64_t address, const Page* expected);
  std::map<uint64_t, Window>::iterator any_window(bool reserved);
  void submit_wildly(Context& context);
  void hostile_address_call();

  // --- client_sync.cpp
  /// `memory`: the address where the CPU sees its value, if wanted.
  bool create_fence(D3DKMT_HANDLE* fence, const volatile uint64_t** memory = nullptr);
  void destroy_fence(D3DKMT_HANDLE fence);
  /// Lets the other thread wait. False: it waits for another object already.
  bool wait_beside(D3DKMT_HANDLE fence, uint64_t value);
  /// The thread must be back soon; `why` says why.
  void must_come_back(D3DKMT_HANDLE fence, const char* why);
  void signal_from_cpu();
  void abandon_waiter();
  /// Two contexts copy an allocation that has just been evicted.
  void read_twice();
  void work_with_signals();

  // --- client_questions.cpp
  void ask_questions();
  void ask_about_adapter();
  bool ask_statistics(D3DKMT_QUERYSTATISTICS& query);
  void ask_about_segments();
  void ask_about_nodes();
  void list_adapters();
  void flush_transitions();
  void give_device_up();
  void share_by_name();
  void use_by_name();
  /// It has the turn. Opens the fence, signals it and closes it.
  void signal_by_name(std::u16string& name);
  /// Null: no object has this name any more.
  Named* named(std::u16string_view name);

  // --- client_sharing.cpp
  Allocation* make_shared(uint64_t bytes, uint32_t placement, D3DKMT_HANDLE* global);
  Allocation* open_shared(const Shared& shared);
  /// Sometimes writes the resources that all clients write.
  void work_with_others();
  /// Does nothing if another client has the turn.
  void take_turn(Allocation& allocation, bool write);
  /// Ends its turn in the middle: the content is unknown now.
  void give_up_turn();

  // --- client_work.cpp: operations
  void work(uint32_t count);
  /// Between operations, while faults are injected: pauses, jumps of the clock.
  void let_time_pass();
  /// The adapter is gone, but its locks are not: they show anything, but memory is there.
  void touch_locked();
  void work_as_hog();
  void step();
  /// Reads all of it and compares: through a lock, or through staging if it cannot be locked.
  /// False: a fault prevented the read.
  bool verify(Allocation& allocation);
  bool verify_through_staging(Allocation& allocation);
  void verify_all();
  Allocation* any_allocation();
  Context* any_context();
  uint64_t bytes_live() const;
  Command random_command();
  /// One packet that fills a part of every allocation.
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
  Random extra_;                 // for decisions outside the table of operations
  uint32_t pauses_taken_ = 0;
  std::shared_ptr<Common> turn_;     // the resource whose turn it has
  std::u16string named_turn_;        // the named fence whose turn it has; empty: none
  bool may_exhaust_memory_ = false;  // it used more at once than video memory holds

  D3DKMT_HANDLE adapter_ = 0, device_ = 0;
  D3DKMT_HANDLE paging_queue_ = 0, paging_fence_ = 0;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<std::unique_ptr<Allocation>> allocations_;
  std::vector<const Allocation*> asked_;  // the allocations of the last MakeResident; only compared
  uint64_t asked_bytes_ = 0;
  uint64_t asked_staging_bytes_ = 0;  // of these, the bytes that only the aperture can hold
  std::vector<D3DKMT_HANDLE> stale_;
  uint64_t last_context_ = 0;

  std::map<uint64_t, Window> windows_;  // by address
  std::map<uint64_t, Page> pages_;      // of windows, by page number
  std::set<uint64_t> fence_pages_;      // pages where engines see fences, or saw them
  std::set<uint64_t> touched_;          // windows of the submission that is being built
  uint64_t va_fence_ = 0;               // of the paging queue, for all calls so far
  D3DKMT_HANDLE update_fence_ = 0;
  uint64_t update_value_ = 0;
  bool was_wild_ = false;  // its device may have faulted
  bool may_hang_ = false;  // it submitted work that may take longer than TdrDelay
  bool marked_ = false;    // it marked its device as failed
  struct NodeAnswer {
    uint64_t submitted = 0, completed = 0;  // packets, when it last asked
  };
  std::array<NodeAnswer, 2> node_answers_ = {};  // by node
  uint32_t names_ = 0;                           // that it gave to fences

  // Shared by the two fibers.
  struct WaiterTask {
    D3DKMT_HANDLE device = 0, fence = 0;
    uint64_t value = 0;
  };
  std::optional<WaiterTask> waiter_task_;
  D3DKMT_HANDLE waits_at_ = 0;  // the object that the other thread waits for now
  bool waiter_ends_ = false;
  std::atomic<uint32_t> waiter_changes_{0};
  void wake_waiter();
};

/// By index in Counters::operations.
std::vector<std::string_view> operation_names();

}  // namespace dxgkit::sim
