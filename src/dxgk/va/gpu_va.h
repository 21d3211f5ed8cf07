// GPU virtual addresses of an adapter: address spaces of processes, their page tables, and what
// keeps the two true as content moves.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dxgk/memory/allocation.h"
#include "dxgk/memory/residency.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/va/gpu_space.h"
#include "dxgk/va/gpu_va_work.h"
#include "dxgk/va/page_table_memory.h"
#include "dxgk/va/second_space.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Adapter;
class AdapterCore;
class Context;
class Device;
class PagingQueue;
class PagingSpace;
class Process;

/// What a call of the client came to.
struct GpuVaOutcome {
  Status status = Status::kSuccess;  // failures change nothing
  uint64_t address = 0;
  uint64_t fence = 0;  // of the paging queue, once the page tables say so; 0: they do (VA-27)
};

/// One operation of an update batch with the allocation it names.
struct GpuVaUpdate {
  gpuva::UpdateOperation operation;
  Ref<OpenedAllocation> opened;
};

/// Pages of an allocation whose mappings all have this driver protection (VA-24, PAGE-36).
struct UniqueRange {
  gpuva::PageSpan pages;
  uint64_t driver_protection = 0;
};

/// Lane: the adapter's, except where a call says otherwise.
///
/// Page-table work is planned when something is decided, and enters the paging executor's queue at
/// once; the queue is executed in that order, together with the content operations. So what is
/// planned last is what holds in the end, a table never says what is not there any more, and an
/// address is freed behind everything queued for it (VA-42). An entry is valid while a mapping and
/// a place in a segment are both there (VA-29): operations that take an allocation away are
/// preceded by the invalidation of its entries, those that bring one are followed by their writing.
class GpuVa {
 public:
  using Work = std::vector<std::unique_ptr<PagingWork>>;

  GpuVa(Adapter& adapter, const gpuva::Geometry& geometry);
  ~GpuVa();
  GpuVa(const GpuVa&) = delete;
  GpuVa& operator=(const GpuVa&) DXGKIT_REQUIRES(on_lane) = delete;

  /// The paging process's space: layout, tables, buffers (PAGE-02). Not on the lane.
  Status start(void* system_process, void* system_context);
  /// Frees all tables; no paging after it.
  void stop();

  // --- processes; not on the lane ---
  /// Before DxgkDdiCreateProcess: reservations of the driver go there.
  void process_begins(uint32_t process);
  /// The driver has made it.
  void process_made(uint32_t process, void* driver_process);
  /// After its last device: its tables are freed. The driver's process is destroyed next.
  void process_ends(uint32_t process);
  /// VA-09. The port has checked the request's shape.
  Result<uint64_t> reserve_for_driver(const port::GpuVaReservation& range);

  // --- contexts ---
  /// Gives the context its root as soon as that is complete. kNoMemory: there is none.
  Status attach(Context& context) DXGKIT_REQUIRES(on_lane);
  void detach(Context& context) DXGKIT_REQUIRES(on_lane);
  /// Something of the allocation is mapped to the process.
  bool maps(uint32_t process, AllocationId allocation) const DXGKIT_REQUIRES(on_lane);
  /// The driver knows the context's root (VA-06).
  bool has_root(const Context& context) const DXGKIT_REQUIRES(on_lane);

  // --- the client's calls; not on the lane ---
  /// VA-11..31. kNoMemory also without memory for page tables; kNotSupported: VA-22.
  GpuVaOutcome map(PagingQueue& queue, gpuva::MapRequest request,
                   const Ref<OpenedAllocation>& opened);
  /// VA-32..34. `queue` may be null: nothing to write then. The first one that succeeds makes the
  /// process's second space, if the GPU writes page tables; kNoMemory also without tables for that.
  GpuVaOutcome reserve(Process& process, PagingQueue* queue, const gpuva::ReserveRequest& request);
  /// VA-41: nothing on the GPU reaches the addresses any more when it returns.
  Status free(Process& process, uint64_t base, uint64_t size);
  /// VA-35..40: all or nothing; takes effect when `fence` has reached `value`, then sets it to
  /// `value` + 1. Waits while too many of the context's are queued.
  Status update(Context& context, SyncObject& fence, uint64_t value, bool wait,
                std::vector<GpuVaUpdate> updates);

  // --- pages the kernel shows to engines: gpu_va_system.cpp ---
  /// A page of system memory becomes readable and writable at an address of the process that its
  /// clients neither map nor free (SYNC-15); `then` (may be empty) runs when it can be used
  /// (SYNC-16). The page outlives `then` of the unmapping. kInvalidParameter: no such process here;
  /// kNoMemory: no address, or no tables. Nothing stays on failure.
  Result<uint64_t> map_system_page(uint32_t process, bus::PageFrame page,
                                   std::function<void()> then) DXGKIT_REQUIRES(on_lane);
  /// `then` (may be empty) runs when no engine reaches the page any more; on a failed adapter at
  /// once. The process's space may be gone already.
  void unmap_system_page(uint32_t process, uint64_t address, std::function<void()> then)
      DXGKIT_REQUIRES(on_lane);

  // --- the driver's calls; on the lane ---
  /// PAGE-43: a context allocation comes to its segment and stays until the driver has been asked
  /// to update it and the hardware has done so; then `done`. kNoMemory, kGraphicsAllocationBusy:
  /// no room; nothing happened.
  Status update_context(AllocationId allocation, std::vector<std::byte> data,
                        std::function<void()> done) DXGKIT_REQUIRES(on_lane);

  // --- memory is wanted; on the lane ---
  /// What queued update batches name may leave, though they have not run (RES-28): others need the
  /// room, or power goes. Our choice: a fence that never comes keeps no memory for ever. True:
  /// something was held.
  bool let_go() DXGKIT_REQUIRES(on_lane);
  /// The same for one allocation, which is about to be destroyed.
  void let_go(AllocationId allocation) DXGKIT_REQUIRES(on_lane);

  /// Page tables of all processes that have no work anywhere are freed; if there are none and
  /// nothing runs or pages, those of processes none of whose work is prepared. Entries follow from
  /// the address space, so nothing is saved. False: there were none. Not those of hardware queues,
  /// whose work nobody announces, nor of drivers that want entries invalidated first (PAGE-39).
  bool let_tables_go() DXGKIT_REQUIRES(on_lane);
  /// Those of the process were.
  bool tables_are_away(const Process& process) const DXGKIT_REQUIRES(on_lane);
  /// What a list of the process's device has to fit beside: the rooms of tables that stay, and the
  /// tables its process has, or would have, if they were made anew. Cost: O(mappings).
  using TableRoom = Residency::Owner::TableRoom;
  TableRoom table_room(const Process& process) DXGKIT_REQUIRES(on_lane);
  enum class TablesThere { kYes, kSoon, kNoMemory };
  /// Work of the process is about to run: evicted tables are planned again. kSoon: what is enqueued
  /// from now on in the paging executor comes behind their writing.
  TablesThere bring_tables(const Process& process) DXGKIT_REQUIRES(on_lane);

  /// Where the tables of a process begin, as contexts were told last. Nothing: no context has a
  /// root, or the tables are being written again. On the lane.
  struct Root {
    port::GpuPhysicalAddress place;
    uint32_t entries = 0;
  };
  std::optional<Root> root_of(uint32_t process) DXGKIT_REQUIRES(on_lane);

  // --- faults; on the lane ---
  struct Fault {
    std::string reason;  // a few words: "memory that was freed"
    std::string story;   // sentences: what is, or was, mapped there, what is near, the tables
    std::string advice;
  };
  /// Why an access faulted, as far as can be known. `process`: whose space the work ran in, 0: the
  /// paging process's.
  Fault explain(uint32_t process, uint64_t address, bool write) DXGKIT_REQUIRES(on_lane);

  // --- content that moves; from the paging executor ---
  void before(const vidmm::PagingOp& op, std::vector<std::unique_ptr<PagingWork>>* work)
      DXGKIT_REQUIRES(on_lane);
  void behind(std::span<const vidmm::PagingOp> operations,
              std::vector<std::unique_ptr<PagingWork>>* work) DXGKIT_REQUIRES(on_lane);
  /// What stands for a content operation; null: itself (PAGE-16).
  std::unique_ptr<PagingWork> translate(const vidmm::PagingOp& op) DXGKIT_REQUIRES(on_lane);
  /// The allocation is about to go; nobody has it open any more.
  void forget(AllocationId allocation) DXGKIT_REQUIRES(on_lane);
  /// The process has no opening of the allocation left: nothing of it is mapped to it any more
  /// (ALLOC-30).
  void forget(AllocationId allocation, const Process& process) DXGKIT_REQUIRES(on_lane);
  /// The allocation has moved, and its entries are not all written yet.
  bool entries_under_way(AllocationId allocation) const DXGKIT_REQUIRES(on_lane);
  /// What was put off until the paging executor is not in the middle of something; work that waits
  /// for contexts to leave the engines goes on when they have.
  void collect() DXGKIT_REQUIRES(on_lane);
  /// The hardware has lost its power, or may have: all tables are made again, and roots set. Before
  /// anything is paged: what is queued is about tables that go, and is abandoned; who waited for it
  /// goes on. Without memory for the tables all devices are lost (kErrorOutOfMemory).
  void rebuild() DXGKIT_REQUIRES(on_lane);

  // --- for page-table work ---
  const TableMemory& table(gpuva::TableId id) DXGKIT_REQUIRES(on_lane) { return memory_.at(id); }
  /// In order, and apart. Cost: O(1) while no client has such a protection.
  std::vector<UniqueRange> unique_ranges(AllocationId allocation) const DXGKIT_REQUIRES(on_lane);
  void* driver_allocation(AllocationId id) const DXGKIT_REQUIRES(on_lane);
  port::PageTableUpdateMode update_mode() const DXGKIT_REQUIRES(on_lane);
  bool hardware_idle() const DXGKIT_REQUIRES(on_lane);
  /// Operations that bring or change the allocation's content have been queued and not been done by
  /// the hardware; true also of what is no allocation.
  bool content_under_way(AllocationId allocation) const DXGKIT_REQUIRES(on_lane);
  bool contexts_idle(const GpuSpace& space) DXGKIT_REQUIRES(on_lane);
  void begin_hold(GpuSpace& space) DXGKIT_REQUIRES(on_lane);
  void end_hold_later(std::shared_ptr<GpuSpace> space) DXGKIT_REQUIRES(on_lane) {
    unheld_.push_back(std::move(space));
  }
  void free_later(std::span<const gpuva::TableId> tables) DXGKIT_REQUIRES(on_lane) {
    freed_.insert(freed_.end(), tables.begin(), tables.end());
  }
  void set_root(GpuSpace& space, const gpuva::Step& step) DXGKIT_REQUIRES(on_lane);
  /// Tables for what changed, and the steps that write it, appended to `work`. kNoMemory: nothing
  /// happened.
  Status plan(const std::shared_ptr<GpuSpace>& space, std::span<const gpuva::PageSpan> changed,
              const gpuva::PieceSource& source, gpuva::Plan* plan, bool with_root = false)
      DXGKIT_REQUIRES(on_lane);
  /// Plans `changed` in a second space, with its root; appended to `work`. kNoMemory: nothing
  /// happened.
  Status plan_kernel_space(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed,
                           Work* work) DXGKIT_REQUIRES(on_lane);
  /// The same for pages whose tables are there, when their turn has come.
  Status point_kernel_space(const std::shared_ptr<GpuSpace>& space, gpuva::PageSpan changed,
                            gpuva::Plan* plan) DXGKIT_REQUIRES(on_lane);
  /// Without memory for tables: entries concerned become invalid, which needs none; devices with
  /// contexts there are in error, and the pages are owed.
  void hide(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed, Work* work)
      DXGKIT_REQUIRES(on_lane);
  /// Null: the process has none.
  std::shared_ptr<SecondSpace> second_space(uint32_t process) const DXGKIT_REQUIRES(on_lane);
  /// The companion that `detach` left: waits until nothing of it is under way, then the driver may
  /// destroy it. Not on the lane. Null: there is none.
  void* take_companion(Context& context);
  const gpuva::Geometry& geometry() const { return geometry_; }
  Adapter& adapter() DXGKIT_REQUIRES(on_lane) { return adapter_; }
  PageTableMemory& memory() DXGKIT_REQUIRES(on_lane) { return memory_; }

 private:
  class Pieces;
  struct PendingUpdate {
    Ref<SyncObject> fence;
    uint64_t value = 0, sequence = 0;
    bool wait = false;
    std::vector<GpuVaUpdate> updates;
    std::vector<vidmm::Use> pools;  // what it maps or copies stays where it is (RES-28)
  };
  /// A context's queue of update batches (VA-38).
  struct Companion {
    std::deque<PendingUpdate> queue;
    std::optional<vidsch::CpuWaitId> waiting;
    bool running = false;
    std::vector<vidmm::Use> running_pools;  // likewise, of the batch that runs
    bool rooted = false;
    std::shared_ptr<CompanionContext> driver;  // null: not made
    bool making = false, refused = false;      // by the driver: entries are written then
  };

  std::shared_ptr<GpuSpace> space_of(uint32_t process) const DXGKIT_REQUIRES(on_lane);
  /// A table that was allocated and not used.
  struct Spare {
    gpuva::TableNeed need;
    gpuva::TableGrant grant;
  };
  /// What is planned of one space, together with that of others.
  struct Planned {
    std::shared_ptr<GpuSpace> space;
    gpuva::PageSpans changed;
    const gpuva::PieceSource* source = nullptr;
    gpuva::Plan* plan = nullptr;
    bool with_root = false;
    Status status = Status::kSuccess;  // kNoMemory: nothing happened to this one
    // While it is made:
    gpuva::PageTables::Draft draft;
    uint64_t version = 0;
    std::vector<Spare> used;
  };
  enum class Tables { kExisting, kMore };
  /// One plan per space. None is made before all have their tables: making room for a table queues
  /// operations, which a plan that is made and not queued would come behind.
  void plan_together(std::span<Planned> all, Tables tables) DXGKIT_REQUIRES(on_lane);
  /// With `companion` what a second space shows is copied there.
  void append(const std::shared_ptr<GpuSpace>& space, gpuva::Plan steps, Work* work,
              const std::shared_ptr<CompanionContext>& companion = nullptr)
      DXGKIT_REQUIRES(on_lane);
  /// The first root of a space.
  Status plan_root(const std::shared_ptr<GpuSpace>& space, Work* work) DXGKIT_REQUIRES(on_lane);
  /// Plans `changed` in a process's space, and what is owed there, appended to `work`.
  Status replan(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed, Work* work,
                const std::shared_ptr<CompanionContext>& companion = nullptr)
      DXGKIT_REQUIRES(on_lane);
  /// The same where there is no way back: see hide().
  void replan_or_hide(const std::shared_ptr<GpuSpace>& space, const gpuva::PageSpans& changed,
                      Work* work) DXGKIT_REQUIRES(on_lane);
  /// Every mapping of the allocation is planned again, for where it is now.
  void follow(AllocationId allocation, Tables tables, Work* work) DXGKIT_REQUIRES(on_lane);
  Status build_again() DXGKIT_REQUIRES(on_lane);
  void free_tables() DXGKIT_REQUIRES(on_lane);
  enum class Whose { kIdle, kQueued };
  bool may_evict(const GpuSpace& space, Whose whose) const DXGKIT_REQUIRES(on_lane);
  /// Its tables are of the kind that may give way.
  bool ever_evicts(const GpuSpace& space) const DXGKIT_REQUIRES(on_lane);
  /// The tables that show all that is mapped, from none on.
  std::vector<gpuva::TableNeed> needs_of_all(const GpuSpace& space) const DXGKIT_REQUIRES(on_lane);
  void evict_tables(GpuSpace& space) DXGKIT_REQUIRES(on_lane);
  /// kNoMemory: they stay away.
  Status restore_tables(const std::shared_ptr<GpuSpace>& space, Work* work)
      DXGKIT_REQUIRES(on_lane);
  Result<gpuva::TableGrant> grant(const GpuSpace& space, const gpuva::TableNeed& need)
      DXGKIT_REQUIRES(on_lane);
  /// Hands work to the executor with a fence of the queue around it.
  void enqueue(PagingQueue* queue, Work work, uint64_t* fence) DXGKIT_REQUIRES(on_lane);
  /// What was mapped in some spans, in case there is no memory for tables.
  struct Undo {
    gpuva::PageSpans spans;
    std::vector<gpuva::Mapping> mappings;
  };
  static Undo remember(const GpuSpace& space, gpuva::PageSpans spans);
  /// As it was before the call of that number took effect; later calls stay.
  static void put_back(GpuSpace& space, const Undo& undo, uint64_t sequence);
  /// A claim or reservation takes effect at once: the executor's queue keeps the order. kNoMemory:
  /// undone.
  Status take_effect(const std::shared_ptr<GpuSpace>& space, const gpuva::MapOperation& operation,
                     Work* work) DXGKIT_REQUIRES(on_lane);
  /// What is first mapped in a span that is about to lose it; nullopt: nothing.
  std::optional<GpuSpace::Gone> going(const GpuSpace& space, gpuva::PageSpan span,
                                      const char* how) const DXGKIT_REQUIRES(on_lane);
  static void note(GpuSpace& space, const std::optional<GpuSpace::Gone>& gone);
  std::string tell_tables(const GpuSpace& space, uint64_t page) DXGKIT_REQUIRES(on_lane);
  void set_root_of(GpuSpace& space, Context& context) DXGKIT_REQUIRES(on_lane);
  void set_kernel_root(const GpuSpace& space, void* context) DXGKIT_REQUIRES(on_lane);
  /// The process has a second space, if it needs one (VA-34).
  Status ensure_second(const GpuSpace& space, Work* work) DXGKIT_REQUIRES(on_lane);
  /// Off the engines, or back: each is called in turn.
  void set_off(Context& context, bool off) DXGKIT_REQUIRES(on_lane);
  void zero_source(gpuva::PteSource* source) const DXGKIT_REQUIRES(on_lane);
  /// False: the allocation is no page of the kernel's.
  bool system_source(AllocationId allocation, gpuva::PteSource* source) const
      DXGKIT_REQUIRES(on_lane);
  bool can_map_zero() const DXGKIT_REQUIRES(on_lane);
  uint64_t wished_alignment(const gpuva::MapRequest& request) const DXGKIT_REQUIRES(on_lane);
  Context& context_of(ContextId id) const DXGKIT_REQUIRES(on_lane);
  void hold_pools(const GpuSpace& space, PendingUpdate* update) DXGKIT_REQUIRES(on_lane);
  void release_pools(std::vector<vidmm::Use>* pools) DXGKIT_REQUIRES(on_lane);
  /// Asks the driver for the context that batches of this one run in: once, `making` says so. Not
  /// on the lane.
  void make_companion(Context& context);
  /// What a batch maps is seen in the second space.
  void show_pools(uint32_t process, std::span<const GpuVaUpdate> updates) DXGKIT_REQUIRES(on_lane);
  void advance(ContextId id) DXGKIT_REQUIRES(on_lane);
  void run_update(ContextId id) DXGKIT_REQUIRES(on_lane);

  Adapter& adapter_;
  AdapterCore& core_;
  const gpuva::Geometry geometry_;
  PageTableMemory memory_;
  std::unique_ptr<PagingSpace> paging_;
  // By process number; second spaces too, with kSecond added to it.
  static constexpr uint32_t kSecond = uint32_t{1} << 31;
  std::map<uint32_t, std::shared_ptr<GpuSpace>> spaces_;
  std::map<uint32_t, std::shared_ptr<SecondSpace>> seconds_;                // by process number
  std::map<ContextId, std::shared_ptr<CompanionContext>> left_companions_;  // of detached contexts
  std::map<ContextId, Companion> companions_;
  /// Where allocations are as far as the executor's queue goes; those in no segment are absent.
  std::unordered_map<uint64_t, vidmm::Placement> resident_;  // looked up only
  uint64_t moves_ = 0;                                       // changes of `resident_`
  struct SystemPage {
    bus::PageFrame page;
    uint32_t process = 0;
    uint64_t address = 0;
  };
  std::map<uint64_t, SystemPage> system_pages_;  // by the id that stands for them
  std::unordered_map<uint64_t, int64_t> left_;   // when allocations left theirs; looked up only
  std::vector<gpuva::TableId> freed_;
  std::vector<std::shared_ptr<GpuSpace>> unheld_;
  bool unique_seen_ = false;  // some client has mapped with a unique driver protection
  bool collecting_ = false;
  bool contexts_in_the_way_ = false;  // the head of the executor's queue waits for them
  bus::PageFrame zero_page_;          // without a Zero bit in entries (VA-22)
  bool has_zero_page_ = false;
  /// PagingExecutor::completed() once the entries of what moved are written; looked up only.
  std::unordered_map<uint64_t, uint64_t> written_with_;
};

}  // namespace dxgkit::dxgk
