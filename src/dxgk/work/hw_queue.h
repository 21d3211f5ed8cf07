// Hardware contexts and hardware queues: work that engines take from memory by themselves, and
// whose completion a fence in memory tells.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "dxgk/core/object.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/work/context.h"
#include "dxgk/work/hw_engine_resets.h"
#include "dxgk/work/hw_suspension.h"
#include "port/ddi/hw_queue.h"
#include "port/ddi/hw_scheduling.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class HwQueue;
class HwQueues;
struct WorkFloor;

struct HwContextCreation {
  NodeOrdinal node;
  uint32_t engine_affinity = 0;
  std::span<std::byte> private_data;  // in/out
};

/// What the hardware schedules: the state of one client's engine, with the queues that feed it.
class HwContext : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kHwContext;
  explicit HwContext(Device& device);
  ~HwContext() override;

  /// kNotSupported: no hardware queues on the adapter, or the node; kInvalidParameter: node or
  /// affinity (SCHED-01); kDeviceRemoved; the driver's own failure. Nothing stays on failure.
  /// Caller's thread.
  static Result<Ref<HwContext>> create(Device& device, const HwContextCreation& creation);
  /// The handle is gone already. Its queues go first, as HwQueue::destroy does; then the context is
  /// taken off the engine, and destroyed. Any thread but the lane.
  void destroy();
  /// SCHED-11, SCHED-18: -7..+7 among the contexts of its process; kPrivilegeNotHeld above 0. Takes
  /// effect in the hardware's next round. State unchanged on failure.
  Status set_priority(int32_t priority);
  int32_t priority();
  /// The priority class of its process has changed, and so its band. Lane.
  void follow_process() DXGKIT_REQUIRES(on_lane);

  Device& device() { return *device_; }
  NodeOrdinal node() const { return node_; }
  void* driver_handle() const { return driver_handle_; }
  /// As Device::gate.
  Gate& gate() { return gate_; }
  Handle handle = 0;

  /// The driver's context only; the queues are gone. Idempotent.
  void close_driver_side();
  port::SchedulingProperties properties() const DXGKIT_REQUIRES(on_lane);

  // Lane; kept by HwQueues:
  std::vector<HwQueue*> queues DXGKIT_GUARDED_BY(on_lane);  // creation order
  bool closed DXGKIT_GUARDED_BY(on_lane) = false;
  bool configured DXGKIT_GUARDED_BY(on_lane) =
      false;  // the driver knows its scheduling properties (SCHED-18)
  // Where the driver was told its root is (VA-06): queues of a context share it.
  std::optional<port::RootPageTable> root;
  // SCHED-19: contexts are created resumed.
  enum class Running { kYes, kStopping, kNo };
  Running running = Running::kYes;
  uint32_t held = 0;            // who wants it off the engine
  uint64_t suspend_fence = 0;   // last issued; rises
  int64_t suspended_since = 0;  // when it was asked, while kStopping

 private:
  const Ref<Device> device_;
  NodeOrdinal node_;
  void* driver_handle_ = nullptr;
  Gate gate_;
  int32_t priority_ DXGKIT_GUARDED_BY(on_lane) = 0;
};

struct HwQueueCreation {
  uint32_t flags = 0;                 // D3DDDI_CREATEHWQUEUEFLAGS.Value, checked
  std::span<std::byte> private_data;  // in/out
};

/// D3DKMTSubmitCommandToHwQueue.
struct HwSubmission {
  uint64_t progress_fence = 0;
  uint64_t commands = 0;
  uint32_t bytes = 0;
  std::span<const std::byte> private_data;  // captured
  std::span<const Ref<OpenedAllocation>> written_primaries;
};

/// A context of the scheduler with a place of its own on hardware. What is queued runs in order;
/// waits and signals among it take effect in order (SYNC-05, SYNC-20).
class HwQueue : public Context {
 public:
  static constexpr ObjectType kType = ObjectType::kHwQueue;
  explicit HwQueue(HwContext& context);
  ~HwQueue() override;

  /// kNoMemory also when the adapter has no more places for queues; else as HwContext::create.
  static Result<Ref<HwQueue>> create(HwContext& context, const HwQueueCreation& creation);
  /// kInvalidParameter: the value is not above the last one (SUB-40); kDeviceRemoved, also when a
  /// written primary is not resident (RES-26); what DxgkDdiValidateSubmitCommand answers. Nothing
  /// is queued then. Caller's thread.
  Status submit(const HwSubmission& submission);

  HwContext& hw_context() const { return *context_; }
  /// An ordinary monitored fence: lost with the queue.
  SyncObject& progress_fence() { return *fence_; }
  /// False in the middle of its creation.
  bool has_progress_fence() const { return static_cast<bool>(fence_); }
  /// Where engines write it, in the process's address space.
  uint64_t progress_fence_va() const { return fence_va_; }

  /// D3DDDI_CREATEHWQUEUEFLAGS.Value of its creation.
  uint32_t flags() const { return flags_; }

  // Lane; kept by HwQueues:
  struct InFlight {
    PacketId packet DXGKIT_GUARDED_BY(on_lane);
    SubmissionFenceId fence DXGKIT_GUARDED_BY(on_lane);  // the scheduler's
    uint64_t value DXGKIT_GUARDED_BY(on_lane) = 0;       // of the progress fence
  };
  std::optional<NodeOrdinal> place DXGKIT_GUARDED_BY(on_lane);  // in the scheduler
  bool entered = false;  // the scheduler and the address space know it
  void* driver_queue = nullptr;
  std::deque<InFlight> in_flight DXGKIT_GUARDED_BY(on_lane);  // by both fences, rising
  int64_t progress_ns DXGKIT_GUARDED_BY(on_lane) =
      0;  // last submission to an empty queue, or completion

 private:
  void destroy_in_driver() override;
  Status make(const HwQueueCreation& creation);
  void unmake();

  const Ref<HwContext> context_;
  Ref<SyncObject> fence_;
  uint64_t fence_va_ = 0;
  uint32_t flags_ = 0;
  uint64_t last_queued_ DXGKIT_GUARDED_BY(on_lane) = 0;
};

/// All of an adapter. Lane, except where a call says otherwise.
class HwQueues {
 public:
  /// Places for queues: what the scheduler can count beside the engines.
  static constexpr uint32_t kPlacesMost = 64;

  /// Null: the driver has no hardware queues, or there are no GPU virtual addresses. Not on the
  /// lane, during start.
  /// @param nodes   what DxgkDdiGetNodeMetadata said, by node
  /// @param engines the scheduler's; places are appended
  static std::unique_ptr<HwQueues> make(WorkFloor& floor, std::span<const port::NodeMetadata> nodes,
                                        std::vector<vidsch::NodeDesc>* engines);
  ~HwQueues();

  /// SCHED-18: before the first work item. The driver's failure refuses the start. Not on the lane.
  Status start();
  /// The driver schedules: contexts can be taken off the engine.
  bool scheduling() const DXGKIT_REQUIRES(on_lane) { return scheduling_; }
  bool supported(NodeOrdinal node) const { return nodes_[node.value].context_scheduling; }

  // --- contexts and queues that come and go ---
  void add(HwContext& context) DXGKIT_REQUIRES(on_lane) { contexts_.push_back(&context); }
  void remove(HwContext& context) DXGKIT_REQUIRES(on_lane) { std::erase(contexts_, &context); }
  /// A place in the scheduler. kNoMemory: all are taken.
  Result<NodeOrdinal> take_place(HwQueue& queue) DXGKIT_REQUIRES(on_lane);
  void give_place_back(NodeOrdinal place) DXGKIT_REQUIRES(on_lane);
  /// Tells the driver the context's scheduling properties (SCHED-18).
  Status configure(HwContext& context) DXGKIT_REQUIRES(on_lane);
  /// Queues of a context that is off the engine, or whose engine is reset, get nothing.
  void refresh_holds(HwContext& context) DXGKIT_REQUIRES(on_lane);
  /// The driver's entries. Any thread.
  port::HwQueuePort& driver() { return queues_; }

  // --- what the scheduler asks ---
  /// Hands a packet of a queue to the driver.
  vidsch::EnginePort::Submit submit(Packet& packet, SubmissionFenceId fence)
      DXGKIT_REQUIRES(on_lane);
  /// A packet of a queue left the scheduler.
  void packet_left(const Packet& packet) DXGKIT_REQUIRES(on_lane);

  // --- what the driver says ---
  /// Engines have written fences: queues whose progress fence says so retire work.
  void look_at_fences(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
  void page_faulted(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);

  // --- what happens to all of them ---
  /// The whole adapter has been reset. Every packet has left, every device is lost.
  void adapter_was_reset() DXGKIT_REQUIRES(on_lane);
  /// Progress fences of a device that is lost jump to their maximum, each once nothing of its queue
  /// is on hardware: who waits for one wakes up, and nobody takes running work for finished.
  void device_lost(Device& device) DXGKIT_REQUIRES(on_lane);

  /// Contexts off the engine, and back.
  HwSuspension& suspension() { return suspension_; }
  /// Silence, and resets of single engines.
  HwEngineResets& resets() { return resets_; }
  /// By the driver's handle; null: there is none.
  HwContext* context_of(const void* driver_handle) const DXGKIT_REQUIRES(on_lane);
  /// In creation order.
  const std::vector<HwContext*>& contexts() const DXGKIT_REQUIRES(on_lane) { return contexts_; }
  /// By place; null: free.
  const std::vector<HwQueue*>& places() const DXGKIT_REQUIRES(on_lane) { return places_; }

 private:
  HwQueues(WorkFloor& floor, std::span<const port::NodeMetadata> nodes, uint32_t first_place);
  HwQueue* queue_at(NodeOrdinal place) const DXGKIT_REQUIRES(on_lane);
  void retire_finished(HwQueue& queue) DXGKIT_REQUIRES(on_lane);
  void release_fence(HwQueue& queue) DXGKIT_REQUIRES(on_lane);
  WorkFloor& floor_;
  AdapterCore& core_;
  port::HwQueuePort queues_;
  port::HwSchedulingPort scheduler_;
  const bool scheduling_;
  const std::vector<port::NodeMetadata> nodes_;
  const uint32_t first_place_;
  std::vector<HwQueue*> places_ DXGKIT_GUARDED_BY(on_lane);      // null: free
  std::vector<HwContext*> contexts_ DXGKIT_GUARDED_BY(on_lane);  // creation order
  std::vector<std::byte> scratch_
      DXGKIT_GUARDED_BY(on_lane);  // private data, for the time of one call (SUB-39)
  HwSuspension suspension_;
  HwEngineResets resets_;
};

}  // namespace dxgkit::dxgk
