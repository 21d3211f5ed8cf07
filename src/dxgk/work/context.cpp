#include "dxgk/work/context.h"

#include <fmt/format.h>

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/late_selection.h"
#include "dxgk/core/process.h"
#include "dxgk/memory/residency.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/va/update_batches.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/context_in_space.h"
#include "dxgk/work/device.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/work_floor.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

Context::Context(Device& device) : Context(device, kType) {}

Context::Context(Device& device, ObjectType type)
    : Object(type),
      device_(&device),
      rendering_(*this),
      presents_(*this),
      virtual_submissions_(*this),
      priority_(*this) {}

Context::~Context() = default;

Result<Ref<Context>> Context::create(Device& device, const ContextCreation& creation) {
  const GatePass pass(device.gate());
  if (!pass || device.lost()) return Error(Status::kDeviceRemoved);
  WorkFloor& floor = device.floor();
  const port::DriverCaps& caps = floor.core.caps();
  if (creation.virtual_addressing && floor.gpu_va == nullptr)
    return Error(Status::kInvalidParameter);  // VA-01
  if (!creation.virtual_addressing && floor.gpu_va != nullptr)
    return Error(Status::kInvalidParameter);  // THUNK-13
  if (creation.node.value >= caps.node_count) return Error(Status::kInvalidParameter);
  // SCHED-01: one engine at most, and there is one per node here.
  if (creation.engine_affinity > 1) return Error(Status::kInvalidParameter);
  Ref<Context> context = make_object<Context>(device);
  context->node_ = creation.node;
  context->null_rendering_ = creation.null_rendering;
  context->virtual_ = creation.virtual_addressing;
  HandleTable& handles = device.process().handles();
  DXGKIT_ASSIGN_OR_RETURN(context->handle, handles.insert_hidden(context));
  Status status = Status::kSuccess;
  if (caps.multi_engine_aware) {
    const Result<port::ContextInfo> info = floor.core.port().objects().create_context(
        device.driver_handle(), context->handle, creation.node, 1,
        /*system=*/false, creation.private_data, creation.virtual_addressing);
    if (info.has_value()) {
      context->info_ = *info;
      context->driver_context_ = true;
    } else {
      status = info.error();
    }
  } else {  // SCHED-02: the device stands in for the context
    const port::DeviceInfo& info = device.info();
    context->info_.handle = info.handle;
    context->info_.dma_buffer_bytes = info.dma_buffer_bytes;
    context->info_.dma_buffer_segment_set = info.dma_buffer_segment_set;
    context->info_.dma_private_bytes = info.dma_private_bytes;
    context->info_.allocation_list_size = info.allocation_list_size;
    context->info_.patch_list_size = info.patch_list_size;
  }
  if (is_success(status)) status = context->check_info();
  if (is_success(status) && !context->virtual_) {
    status = context->rendering_.allocate();
  }
  if (is_success(status)) {
    // Its page tables wait for the memory of what runs. An attempt that fails wakes those who wait,
    // so this asks again only once there may be more room.
    std::optional<uint64_t> refused_at;
    const bool asked = floor.core.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
      if (device.lost()) {
        status = Status::kDeviceRemoved;
        return true;
      }
      const bool running = floor.core.scheduler().anything_on_hardware();
      if (refused_at.has_value() && running && *refused_at == floor.residency->room_changes())
        return false;
      status = context->enter(context->node_);
      if (status == Status::kNoMemory && context->virtual_ && running) {
        refused_at = floor.residency->room_changes();
        return false;
      }
      if (!is_success(status)) return true;
      if (!context->virtual_) context->rendering_.open_pool();
      device.contexts.push_back(context.get());
      trace::emit(trace::EventKind::kContextOwner, context->id_.value, device.process().number(),
                  device.handle, 0, static_cast<uint16_t>(context->node_.value));
      if (trace::current() != nullptr) {
        trace::emit_name(trace::ObjectClass::kContext, context->id_.value,
                         fmt::format("{}, context {} on node {}", device.process().name(),
                                     context->id_.value, context->node_.value));
      }
      return true;
    });
    if (!asked) status = Status::kDeviceRemoved;
  }
  // What it submits needs the root; the adapter fails if that never comes.
  if (is_success(status) && context->virtual_) {
    static_cast<void>(floor.core.block_until(
        [&]() DXGKIT_REQUIRES(on_lane) { return context->in_space().rooted || device.lost(); }));
  }
  if (is_success(status)) {
    handles.publish(context->handle);
    return context;
  }
  handles.erase(context->handle);
  if (context->driver_context_)
    static_cast<void>(floor.core.port().objects().destroy_context(context->info_.handle));
  context->drop_memory();
  return Error(status);
}

Status Context::enter(NodeOrdinal scheduler_node) {
  WorkFloor& floor = device_->floor();
  id_ = floor.core.new_context_id();
  DXGKIT_RETURN_IF_FAILED(floor.core.scheduler().create_context(
      id_, {.node = scheduler_node,
            .priority_class = device_->process().priority_class(),
            .process = device_->process().number()}));
  if (!virtual_) return Status::kSuccess;
  in_space_ = std::make_unique<ContextInSpace>(*this);
  const Status status = floor.gpu_va->attach(*in_space_);
  if (!is_success(status)) DXGKIT_CHECK(floor.core.scheduler().destroy_context(id_));
  return status;
}

void Context::leave() {
  WorkFloor& floor = device_->floor();
  if (virtual_) floor.gpu_va->detach(*in_space_);
  DXGKIT_CHECK(floor.core.scheduler().destroy_context(id_));
  std::erase(device_->contexts, this);
}

void Context::destroy_in_driver() {
  if (driver_context_)
    static_cast<void>(device_->floor().core.port().objects().destroy_context(info_.handle));
}

Status Context::check_info() {
  const auto refuse = [&](const char* rule, std::string actual, std::string expected,
                          std::string fix) {
    device_->floor().core.findings().report(
        verifier::Finding{.rule = rule,
                          .severity = verifier::Severity::kViolation,
                          .ddi = driver_context_ ? "DxgkDdiCreateContext" : "DxgkDdiCreateDevice",
                          .actual = std::move(actual),
                          .expected = std::move(expected),
                          .fix = std::move(fix)});
    return Status::kInvalidParameter;
  };
  for (size_t i = 0; i < 32; ++i) {  // REND-13
    if ((info_.dma_buffer_segment_set >> i & 1U) == 0) continue;
    const auto& segments = device_->floor().core.segment_infos().segments;
    const bool aperture = i < segments.size() && (segments[i].flags & 1U) != 0;
    if (!aperture) {
      return refuse(
          "REND-13",
          fmt::format("DmaBufferSegmentSet is 0x{:X}; segment {} is no aperture segment.",
                      info_.dma_buffer_segment_set, i + 1),
          "DMA buffers live in aperture segments only; 0 means contiguous locked system memory.",
          "Name aperture segments, or set DmaBufferSegmentSet to 0.");
    }
  }
  if (info_.dma_private_bytes > CommandMemory::kMaxCommandBytes) {
    return refuse("REND-14",
                  fmt::format("DmaBufferPrivateDataSize is {}.", info_.dma_private_bytes),
                  fmt::format("At most {} bytes.", CommandMemory::kMaxCommandBytes),
                  "Report the private data the context needs per submission.");
  }
  if (virtual_) return Status::kSuccess;  // no DMA buffers, no lists
  if (info_.dma_buffer_bytes == 0 || info_.dma_buffer_bytes > CommandMemory::kMaxCommandBytes) {
    return refuse("REND-14", fmt::format("DmaBufferSize is {}.", info_.dma_buffer_bytes),
                  fmt::format("1 to {} bytes.", CommandMemory::kMaxCommandBytes),
                  "Report the DMA buffer size the context needs.");
  }
  if (info_.allocation_list_size > CommandMemory::kMaxListEntries ||
      info_.patch_list_size > CommandMemory::kMaxListEntries) {
    return refuse("REND-14",
                  fmt::format("AllocationListSize is {}, PatchLocationListSize is {}.",
                              info_.allocation_list_size, info_.patch_list_size),
                  fmt::format("At most {} entries.", CommandMemory::kMaxListEntries),
                  "Report the list sizes the context needs.");
  }
  return Status::kSuccess;
}

Status Context::queue_sync(vidsch::PacketKind kind, std::span<const vidsch::SyncPoint> points) {
  WorkFloor& floor = device_->floor();
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (closed_ || device_->lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    if (!sync_in_reach(floor.core, points)) {
      status = Status::kInvalidParameter;
      return;
    }
    Packet& packet = floor.submission->packets().create();
    packet.kind = kind;
    packet.context = this;
    packet.points.assign(points.begin(), points.end());
    floor.submission->queue(packet);
    select_after_call(floor.core, floor.adapter);
  });
  return status;
}

Status Context::queue_signal(std::span<const Ref<Context>> contexts,
                             std::span<const vidsch::SyncPoint> points, SignalOrder order) {
  WorkFloor& floor = contexts.front()->device_->floor();
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!sync_in_reach(floor.core, points)) status = Status::kInvalidParameter;
    for (const Ref<Context>& context : contexts) {
      if (context->closed_ || context->device_->lost()) status = Status::kDeviceRemoved;
    }
    if (!is_success(status)) return;
    std::shared_ptr<vidsch::Broadcast> broadcast;
    if (contexts.size() > 1 || order.event) {
      broadcast = std::make_shared<vidsch::Broadcast>();
      broadcast->missing = static_cast<uint32_t>(contexts.size());
      broadcast->event = std::move(order.event);
    }
    for (const Ref<Context>& context : contexts) {
      Packet& packet = floor.submission->packets().create();
      packet.kind = vidsch::PacketKind::kSignal;
      packet.context = context.get();
      packet.points.assign(points.begin(), points.end());
      packet.at_submission = order.at_submission;
      packet.broadcast = broadcast;
      floor.submission->queue(packet);
    }
    select_after_call(floor.core, floor.adapter);
  });
  return status;
}

void Context::destroy() {
  WorkFloor& floor = device_->floor();
  {
    RenderTurns::Turn turn(turns_);
    turn.end();
  }
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (closed_) return;
    floor.core.scheduler().drain_context(id_);
    floor.core.pump();
  });
  static_cast<void>(floor.core.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    return closed_ || floor.core.scheduler().packets_of(id_) == 0;
  }));
  close_driver_side();
}

void Context::close_driver_side() {
  WorkFloor& floor = device_->floor();
  bool first = false;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    first = !closed_;
    closed_ = true;
    if (!first) return;
    rendering_.clear();
    leave();
  });
  gate_.close();
  gate_.wait_empty();
  if (!first) return;
  if (virtual_) {
    if (void* const companion = floor.updates->take_companion(id_, device_->process().number()))
      static_cast<void>(floor.core.port().objects().destroy_context(companion));
  }
  // A switch away from it names it (SUB-24).
  static_cast<void>(floor.core.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    return !floor.core.has_memory() || floor.context_allocations->let_end(*this);
  }));
  destroy_in_driver();
  drop_memory();
}

void Context::drop_memory() {
  WorkFloor& floor = device_->floor();
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    memory_closed_ = true;
    floor.context_allocations->owner_gone(*this);
    if (!floor.core.failed()) floor.core.pump();
  });
}

}  // namespace dxgkit::dxgk
