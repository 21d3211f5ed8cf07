// A context: an ordered stream of work on one node.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dxgk/core/gate.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/core/object.h"
#include "dxgk/work/context_presents.h"
#include "dxgk/work/priority.h"
#include "dxgk/work/render_stream.h"
#include "dxgk/work/render_turn.h"
#include "dxgk/work/virtual_submissions.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"
#include "vidmm/memory_manager.h"

namespace dxgkit::dxgk {

class Device;
class SpaceUser;
class SyncObject;

struct ContextCreation {
  NodeOrdinal node;
  uint32_t engine_affinity = 0;
  std::span<std::byte> private_data;
  bool null_rendering = false;
  bool virtual_addressing = false;  // its work names addresses, not allocations (SUB-01)
};

class Context : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kContext;
  explicit Context(Device& device);
  ~Context() override;
  uint64_t trace_id() const override { return id_.value; }
  bool of_hw_queue() const { return type() == ObjectType::kHwQueue; }

  /// kInvalidParameter: node or affinity (SCHED-01); else the driver's own failure. Nothing stays
  /// on failure.
  static Result<Ref<Context>> create(Device& device, const ContextCreation& creation);
  /// The handle is gone already. Waits until queued work has left (a context blocked behind a wait
  /// nobody satisfied, or of a device in error, drops it), then DxgkDdiDestroyContext (SCHED-22).
  /// Any thread but the lane.
  void destroy();

  /// Queues a wait or a signal behind what the context has (SYNC-05, SYNC-20).
  /// kInvalidParameter: a fence of 32 bits is out of reach (SYNC-17); kDeviceRemoved.
  Status queue_sync(vidsch::PacketKind kind, std::span<const vidsch::SyncPoint> points);
  /// Signals when all `contexts`, of one adapter, have come to it: with everything before it done,
  /// or with the hardware (SYNC-05, SYNC-12). `event` is called then, too; may be null (SYNC-07).
  /// Nothing is queued on failure.
  struct SignalOrder {
    bool at_submission = false;
    std::function<void()> event = {};
  };
  static Status queue_signal(std::span<const Ref<Context>> contexts,
                             std::span<const vidsch::SyncPoint> points, SignalOrder order);

  /// Not on the lane. Idempotent: when the context, its device or the adapter ends.
  void close_driver_side();

  Device& device() { return *device_; }
  ContextId id() const { return id_; }
  NodeOrdinal node() const { return node_; }
  bool virtual_addressing() const { return virtual_; }
  /// Of a context with virtual addressing, from its creation on. Any thread.
  SpaceUser& in_space() { return *in_space_; }
  void* driver_handle() const { return info_.handle; }
  const port::ContextInfo& info() const { return info_; }
  /// Of the creation flags (SUB-23).
  bool null_rendering() const { return null_rendering_; }

  // What clients do with it.
  RenderTurns& turns() { return turns_; }
  RenderStream& rendering() { return rendering_; }
  ContextPresents& presents() { return presents_; }
  VirtualSubmissions& virtual_submissions() { return virtual_submissions_; }
  ContextPriority& priority() { return priority_; }
  /// As Device::gate, for calls that are no Render.
  Gate& gate() { return gate_; }
  /// The driver's side is gone.
  bool closed() const DXGKIT_REQUIRES(on_lane) { return closed_; }
  /// It gets no context allocations any more.
  bool memory_closed() const DXGKIT_REQUIRES(on_lane) { return memory_closed_; }
  Handle handle = 0;

  std::vector<vidmm::Use> own_memory
      DXGKIT_GUARDED_BY(on_lane);  // its context allocations (RES-29)

 protected:
  Context(Device& device, ObjectType type);
  /// The driver's side, once nothing of the context is left in the scheduler. Not on the lane.
  virtual void destroy_in_driver();
  /// The scheduler knows it, and its process's address space; gets its number. Lane.
  Status enter(NodeOrdinal scheduler_node) DXGKIT_REQUIRES(on_lane);
  void leave() DXGKIT_REQUIRES(on_lane);  // undoes it

  NodeOrdinal node_;
  port::ContextInfo info_;
  bool driver_context_ = false;  // the driver made one (MultiEngineAware)
  bool virtual_ = false;

 private:
  Status check_info();
  /// The driver's context is gone, or was never made.
  void drop_memory();

  const Ref<Device> device_;
  ContextId id_;
  std::unique_ptr<SpaceUser> in_space_;  // null without virtual addressing
  Gate gate_;
  bool null_rendering_ = false;
  RenderTurns turns_;
  RenderStream rendering_;
  ContextPresents presents_;
  VirtualSubmissions virtual_submissions_;
  ContextPriority priority_;
  bool closed_ DXGKIT_GUARDED_BY(on_lane) = false;  // the driver side is gone
  bool memory_closed_ DXGKIT_GUARDED_BY(on_lane) = false;
};

}  // namespace dxgkit::dxgk
