// Turns paging plans into paging buffers on the system context, in order.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "bus/machine.h"
#include "dxgk/memory/dma_buffer.h"
#include "port/adapter_port.h"
#include "runtime/thread_annotations.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

/// What the executor needs to know of an allocation to describe it to the driver.
struct PagingTarget {
  void* driver_allocation = nullptr;  // null for DMA buffers (PAGE-26)
  void* device = nullptr;  // device-specific handle owner for aperture mapping; may be null
  std::span<const uint64_t> pages;  // backing page frames
  bool cached = false;
  void* context_handle = nullptr;   // what the driver knows a context allocation by
  void* virtual_address = nullptr;  // where its CPU sees it, if it asked for that
};

/// A slice of a paging buffer, ready for the hardware.
struct PagingSlice {
  DmaBuffer* buffer = nullptr;
  void* driver_context = nullptr;  // the driver's handle of where it runs
  port::Slice slice;
};

/// What takes several operations of the driver, made when its turn comes. Lane.
class PagingWork {
 public:
  struct Part {
    std::vector<port::PagingOperation> operations;  // what they point to lives until the next part
    std::shared_ptr<void> hold;                     // until the hardware has done them
    void* context = nullptr;  // the driver's handle of where they run; null: the system context
  };
  enum class Next {
    kPart,
    kLater,  // not now: asked again when packets have retired, and at look_again()
    kOver,
  };
  virtual ~PagingWork() = default;
  virtual Next next(Part* part) DXGKIT_REQUIRES(on_lane) = 0;
};

/// Lane: the adapter's. Operations run in the order given; several share a paging buffer and a
/// submission (PAGE-14).
///
/// A buffer that fills up is submitted and the operation goes on in the next one with the driver's
/// MultipassOffset (PAGE-08..10). ALLOCATION_BUSY waits until every earlier paging packet has
/// finished and repeats the call with AllocationIsIdle (PAGE-12): render work never uses what is
/// being moved, as moving needs it unpinned. Large transfers and mappings are built in parts, each
/// with multipass state of its own (PAGE-18, PAGE-19).
class PagingExecutor {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual PagingTarget paging_target(AllocationId allocation) DXGKIT_REQUIRES(on_lane) = 0;
    /// A packet that is not queued yet.
    virtual PacketId new_packet() DXGKIT_REQUIRES(on_lane) = 0;
    /// Queues the packet on the system context, with this to run.
    virtual void queue_paging(PacketId packet, const PagingSlice& slice)
        DXGKIT_REQUIRES(on_lane) = 0;
    /// True: the kernel has done it itself, the driver is not asked (the GART, SEG-36).
    virtual bool perform(const vidmm::PagingOp& op) DXGKIT_REQUIRES(on_lane) = 0;
    /// GPU virtual addresses: what stands for the operation, made when its turn comes. Null: the
    /// operation itself.
    virtual std::unique_ptr<PagingWork> translate(const vidmm::PagingOp& op)
        DXGKIT_REQUIRES(on_lane) = 0;
    /// Work on page tables that goes before an operation, or behind the last of several (VA-29),
    /// appended to `work`.
    virtual void before(const vidmm::PagingOp& op, std::vector<std::unique_ptr<PagingWork>>* work)
        DXGKIT_REQUIRES(on_lane) = 0;
    virtual void behind(std::span<const vidmm::PagingOp> operations,
                        std::vector<std::unique_ptr<PagingWork>>* work)
        DXGKIT_REQUIRES(on_lane) = 0;
    /// The operation's effect is complete: tell the memory manager, move CPU views.
    virtual void operation_done(const vidmm::PagingOp& op) DXGKIT_REQUIRES(on_lane) = 0;
    virtual void paging_failed(verifier::Finding finding) DXGKIT_REQUIRES(on_lane) = 0;
    virtual void count_multipass() DXGKIT_REQUIRES(on_lane) = 0;
  };

  struct Config {
    uint32_t buffer_bytes = 0, private_bytes = 0;  // as the driver asked (SEG-48)
    uint64_t dummy_page = 0;  // physical address unmapped apertures point at (PAGE-29)
    void* system_context = nullptr;
    bool virtual_addresses = false;  // submissions go through SubmitCommandVirtual
    size_t buffer_count = 4;
    /// Transfers of more are several sub-transfers (PAGE-19), and mappings of aperture segments
    /// several mappings. A multiple of the page.
    uint64_t transfer_chunk_bytes = uint64_t{64} << 20;
  };

  PagingExecutor(Owner& owner, port::AdapterPort& port, bus::Machine& machine);
  ~PagingExecutor();

  /// Allocates the paging buffers. kNoMemory leaves nothing behind.
  Status configure(const Config& config) DXGKIT_REQUIRES(on_lane);

  /// Appends operations. `done` runs on the lane when the last of them, and all before, are
  /// complete; at once when nothing is queued or running and `operations` is empty.
  void enqueue(std::span<const vidmm::PagingOp> operations, std::function<void()> done)
      DXGKIT_REQUIRES(on_lane);
  /// The same for one operation that is about no allocation: a plain copy (PAGE-21), a touch
  /// (PAGE-25). What it points to lives until `done`.
  void enqueue_plain(const port::PagingOperation& operation, std::function<void()> done)
      DXGKIT_REQUIRES(on_lane);
  /// The same for what is made as its turn comes. What it refers to lives until `done`, or until
  /// abandon() or halt().
  void enqueue_work(std::vector<std::unique_ptr<PagingWork>> work, std::function<void()> done)
      DXGKIT_REQUIRES(on_lane);
  /// How operations name the allocation to the driver.
  PagingTarget target(AllocationId allocation) DXGKIT_REQUIRES(on_lane) {
    return owner_.paging_target(allocation);
  }
  /// Work that said kLater may go on.
  void look_again() DXGKIT_REQUIRES(on_lane) { pump(); }
  /// Everything built so far has been done by the hardware.
  bool hardware_idle() const DXGKIT_REQUIRES(on_lane) {
    return in_flight_.empty() && (current_ == nullptr || current_->used == slice_start_);
  }
  /// Where the paging process's address space has the buffer.
  void set_buffer_address(size_t index, uint64_t address) DXGKIT_REQUIRES(on_lane) {
    buffers_[index]->dma.gpu_va = address;
  }
  size_t buffer_count() const DXGKIT_REQUIRES(on_lane) { return buffers_.size(); }
  const DmaBuffer& buffer(size_t index) const DXGKIT_REQUIRES(on_lane) {
    return buffers_[index]->dma;
  }
  /// From now on submissions name this place as the buffer's (SEG-47): an aperture range that shows
  /// its pages, or system memory. The buffer is idle, or has just been mapped by its own packet.
  void move_buffer(size_t index, const vidmm::Placement& place) DXGKIT_REQUIRES(on_lane);
  /// Whole-segment eviction is nobody's work: packets built from now on carry no context
  /// (PATCH-04). A buffer with a virtual address needs the context whose tables lead to it, and
  /// keeps it.
  void set_context(void* system_context) DXGKIT_REQUIRES(on_lane) {
    if (!config_.virtual_addresses) config_.system_context = system_context;
  }
  /// The physical address of what unmapped apertures show (PAGE-29).
  uint64_t dummy_page() const DXGKIT_REQUIRES(on_lane) { return config_.dummy_page; }
  /// How many operations were enqueued, and how many of them, in order, are complete.
  uint64_t enqueued() const DXGKIT_REQUIRES(on_lane) { return operations_queued_; }
  uint64_t completed() const DXGKIT_REQUIRES(on_lane) { return operations_done_; }
  bool idle() const DXGKIT_REQUIRES(on_lane) {
    return queue_.empty() && in_flight_.empty() && barriers_.empty();
  }

  /// A paging packet of ours left the scheduler. `may_be_read`: the hardware may still run its
  /// buffer, which then serves nobody again.
  void packet_retired(PacketId packet, bool completed, bool may_be_read) DXGKIT_REQUIRES(on_lane);
  /// What is enqueued from now on waits, with its callbacks, for resume(): the hardware is off.
  /// What is in flight retires as ever.
  void pause() DXGKIT_REQUIRES(on_lane);
  void resume() DXGKIT_REQUIRES(on_lane);
  /// The hardware lost its power: drops everything queued and, as it retires, in flight. Returns
  /// the callbacks that waited for it, in order: the caller runs them when the memory manager
  /// knows.
  std::vector<std::function<void()>> abandon() DXGKIT_REQUIRES(on_lane);
  /// Paging can go nowhere any more: drops everything queued, and runs no callback.
  void halt() DXGKIT_REQUIRES(on_lane);

 private:
  /// What waits: an operation of a plan, a plain one, or work.
  struct Queued {
    enum class Kind { kPlanned, kPlain, kWork };
    Kind kind = Kind::kPlanned;
    vidmm::PagingOp op = {};
    port::PagingOperation plain = {};
    std::unique_ptr<PagingWork> work = nullptr;  // kWork, and kPlanned once translated
  };
  /// What is left of a queue's element when it has been built.
  struct Built {
    bool planned = false;
    vidmm::PagingOp op;
  };
  enum class Progress {
    kDone,   // this operation is built
    kAgain,  // call again: a fresh buffer, or the allocation must be idle first
    kStop,   // nothing can go on now
  };
  struct Buffer {
    DmaBuffer dma;
    uint32_t used = 0, private_used = 0;
    uint32_t packets = 0;  // in flight
  };
  struct InFlight {
    PacketId packet;
    Buffer* buffer = nullptr;
    std::vector<Built> completes;  // those whose last part is in this packet
    std::vector<std::shared_ptr<void>> holds;
    uint64_t mdls = 0;  // PagingPort::paging_mdls_issued when it was submitted
  };
  struct Barrier {  // `done` of an enqueue: runs when `operations_done_` reaches `after`
    uint64_t after = 0;
    std::function<void()> done;
  };

  void pump() DXGKIT_REQUIRES(on_lane);
  Buffer* open_buffer() DXGKIT_REQUIRES(on_lane);
  void submit_slice() DXGKIT_REQUIRES(on_lane);
  void push(Queued queued) DXGKIT_REQUIRES(on_lane);
  /// The head of the queue is built entirely; false: not now.
  bool build_head() DXGKIT_REQUIRES(on_lane);
  bool build_work(PagingWork& work, uint64_t traced_kind, uint64_t traced_allocation)
      DXGKIT_REQUIRES(on_lane);
  /// One operation of the driver into the current buffer.
  /// `context`: null for the system's.
  Progress build(port::PagingOperation& operation, void* context, uint64_t traced_kind,
                 uint64_t traced_allocation, uint64_t traced_bytes) DXGKIT_REQUIRES(on_lane);
  void head_is_built() DXGKIT_REQUIRES(on_lane);
  void drop_queue() DXGKIT_REQUIRES(on_lane);
  port::PagingOperation describe(const vidmm::PagingOp& op) DXGKIT_REQUIRES(on_lane);
  /// Narrows an operation to the part of it that starts at `head_done_bytes_`; the bytes it covers.
  uint64_t narrow(port::PagingOperation* operation, uint64_t start) const DXGKIT_REQUIRES(on_lane);
  void complete(std::vector<Built> operations) DXGKIT_REQUIRES(on_lane);
  void run_barriers() DXGKIT_REQUIRES(on_lane);

  Owner& owner_;
  port::AdapterPort& port_;
  bus::Machine& machine_;
  Config config_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  Buffer* current_ = nullptr;  // being filled
  uint32_t slice_start_ = 0, slice_private_start_ = 0;
  void* slice_context_ = nullptr;  // where it runs, if not in the system context
  std::vector<Built> slice_completes_;
  std::vector<std::shared_ptr<void>> slice_holds_;
  std::deque<Queued> queue_;
  uint64_t head_done_bytes_ = 0;  // of the head of the queue: sub-operations built so far
  PagingWork::Part part_;         // of the head's work
  size_t part_done_ = 0;          // operations of it built so far
  bool in_part_ = false;
  std::deque<InFlight> in_flight_;
  std::deque<Barrier> barriers_;
  uint64_t operations_queued_ = 0, operations_done_ = 0;
  std::deque<Built> completed_;  // done, not told yet; in order
  bool completing_ = false;
  uint32_t multipass_offset_ = 0;
  uint32_t passes_without_progress_ = 0;  // in a row
  uint64_t whole_passes_ = 0;       // over whole buffers, for the operation that is being built
  bool head_must_be_idle_ = false;  // the driver answered ALLOCATION_BUSY for the head
  bool pumping_ = false;
  bool halted_ = false;
  bool paused_ = false;
};

}  // namespace dxgkit::dxgk
