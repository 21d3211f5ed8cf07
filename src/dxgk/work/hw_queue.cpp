// Hardware contexts and queues: from creation to the last fence.
#include "dxgk/work/hw_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/late_selection.h"
#include "dxgk/core/process.h"
#include "dxgk/memory/residency.h"
#include "dxgk/va/space_user.h"
#include "dxgk/va/system_pages.h"
#include "dxgk/work/device.h"
#include "dxgk/work/faults.h"
#include "dxgk/work/priority.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/work_floor.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

/// Buffers of one queue on hardware when the driver says nothing of it (our choice).
constexpr uint32_t kBuffersInFlight = 8;
/// What private data looks like once its call is over (SUB-39).
constexpr std::byte kPoison{0xDD};
/// Defaults of the scheduling properties, in units of 100 ns (SCHED-10).
constexpr uint64_t kQuantum = 200'000, kGrace = 10'000;

}  // namespace

// --- contexts ---

HwContext::HwContext(Device& device) : Object(kType), device_(&device) {}

HwContext::~HwContext() = default;

Result<Ref<HwContext>> HwContext::create(Device& device, const HwContextCreation& creation) {
  const GatePass pass(device.gate());
  if (!pass || device.lost()) return Error(Status::kDeviceRemoved);
  WorkFloor& floor = device.floor();
  HwQueues* const all = floor.hw_queues;
  if (all == nullptr) return Error(Status::kNotSupported);
  if (creation.node.value >= floor.core.caps().node_count) return Error(Status::kInvalidParameter);
  if (creation.engine_affinity > 1) return Error(Status::kInvalidParameter);  // SCHED-01
  if (!all->supported(creation.node)) return Error(Status::kNotSupported);
  Ref<HwContext> context = make_object<HwContext>(device);
  context->node_ = creation.node;
  HandleTable& handles = device.process().handles();
  DXGKIT_ASSIGN_OR_RETURN(context->handle, handles.insert_hidden(context));
  const Result<void*> made = all->driver().create_hw_context(
      device.driver_handle(), context->handle, creation.node, 1, creation.private_data);
  Status status = made.has_value() ? Status::kSuccess : made.error();
  if (is_success(status)) {
    context->driver_handle_ = *made;
    floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (device.lost()) {
        status = Status::kDeviceRemoved;
        return;
      }
      status = all->configure(*context);
      if (!is_success(status)) return;
      all->add(*context);
      device.hw_contexts.push_back(context.get());
    });
    if (!is_success(status)) static_cast<void>(all->driver().destroy_hw_context(*made));
  }
  if (!is_success(status)) {
    handles.erase(context->handle);
    return Error(status);
  }
  handles.publish(context->handle);
  return context;
}

void HwContext::destroy() {
  gate_.close();
  gate_.wait_empty();  // queues that other threads were making are there now, and go with it
  std::vector<Ref<HwQueue>> own_queues;
  device_->floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (HwQueue* queue : queues) own_queues.emplace_back(queue);
  });
  for (const Ref<HwQueue>& queue : own_queues) {
    device_->process().handles().erase(queue->handle);
    queue->destroy();
  }
  close_driver_side();
}

void HwContext::close_driver_side() {
  WorkFloor& floor = device_->floor();
  HwQueues& all = *floor.hw_queues;
  bool first = false;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    first = !closed;
    closed = true;
    if (first && !floor.core.failed()) all.suspension().take_off(*this);
  });
  if (!first) return;
  // Once it is off nothing on the engine refers to it any more. Another thread may be at the end of
  // one of its queues.
  static_cast<void>(floor.core.block_until(
      [&]() DXGKIT_REQUIRES(on_lane) { return queues.empty() && all.suspension().off(*this); }));
  gate_.close();
  gate_.wait_empty();
  static_cast<void>(all.driver().destroy_hw_context(driver_handle_));
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    all.remove(*this);
    std::erase(device_->hw_contexts, this);
  });
}

void HwContext::follow_process() {
  if (!closed) static_cast<void>(device_->floor().hw_queues->configure(*this));
}

port::SchedulingProperties HwContext::properties() const {
  using Class = vidsch::PriorityClass;
  const Class priority_class = device_->process().priority_class();
  port::PriorityBand band = port::PriorityBand::kNormal;
  if (priority_class == Class::kIdle) band = port::PriorityBand::kIdle;
  if (priority_class == Class::kHigh) band = port::PriorityBand::kFocus;
  if (priority_class == Class::kRealtime) band = port::PriorityBand::kRealtime;
  return {.band = band,
          .realtime_level = 0,
          .in_process_priority = priority_,
          .quantum = kQuantum,
          .grace_same_priority = kGrace,
          .grace_lower_priority = 0};
}

Status HwContext::set_priority(int32_t priority) {
  DXGKIT_RETURN_IF_FAILED(check_priority(device_->process(), priority));
  WorkFloor& floor = device_->floor();
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (closed || device_->lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    const int32_t before = std::exchange(priority_, priority);
    status = floor.hw_queues->configure(*this);
    if (!is_success(status)) priority_ = before;
  });
  return status;
}

int32_t HwContext::priority() {
  int32_t priority = 0;
  device_->floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { priority = priority_; });
  return priority;
}

// --- queues ---

HwQueue::HwQueue(HwContext& context)
    : Context(context.device(), ObjectType::kHwQueue), context_(&context) {}

HwQueue::~HwQueue() = default;

Result<Ref<HwQueue>> HwQueue::create(HwContext& context, const HwQueueCreation& creation) {
  Device& device = context.device();
  const GatePass device_pass(device.gate());
  if (!device_pass || device.lost()) return Error(Status::kDeviceRemoved);
  const GatePass pass(context.gate());
  if (!pass) return Error(Status::kInvalidParameter);
  Ref<HwQueue> queue = make_object<HwQueue>(context);
  HandleTable& handles = device.process().handles();
  DXGKIT_ASSIGN_OR_RETURN(queue->handle, handles.insert_hidden(queue));
  const Status status = queue->make(creation);
  if (!is_success(status)) {
    handles.erase(queue->handle);
    if (queue->entered)
      device.floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { queue->leave(); });
    queue->unmake();
    return Error(status);
  }
  handles.publish(queue->handle);
  return queue;
}

Status HwQueue::make(const HwQueueCreation& creation) {
  Device& owner = device();
  WorkFloor& floor = owner.floor();
  HwQueues& all = *floor.hw_queues;
  node_ = context_->node();
  virtual_ = true;
  info_.handle = context_->driver_handle();
  flags_ = creation.flags;
  SyncRequest request;
  request.of_paging_queue = true;  // goes with its queue, never alone
  DXGKIT_ASSIGN_OR_RETURN_STATUS(fence_, owner.sync().create_sync_object(request));
  Status status = Status::kSuccess;
  const auto shown = std::make_shared<bool>(false);
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (owner.lost() || context_->closed) {
      status = Status::kDeviceRemoved;
      return;
    }
    const Result<NodeOrdinal> taken = all.take_place(*this);
    if (!taken.has_value()) {
      status = taken.error();
      return;
    }
    place = *taken;
    const Result<uint64_t> address = floor.system_pages->map_system_page(
        owner.process().number(), fence_->shared->page, [&floor, shown]() DXGKIT_REQUIRES(on_lane) {
          *shown = true;
          floor.core.progress();
        });
    if (!address.has_value()) {
      status = address.error();
      return;
    }
    fence_va_ = *address;
    status = enter(*place);
    if (!is_success(status)) return;
    entered = true;
    owner.contexts.push_back(this);
    context_->queues.push_back(this);
    all.refresh_holds(*context_);
  });
  DXGKIT_RETURN_IF_FAILED(status);
  const bool there = floor.core.block_until(
      [&]() DXGKIT_REQUIRES(on_lane) { return owner.lost() || (*shown && in_space().rooted); });
  if (!there || owner.lost()) return Status::kDeviceRemoved;
  port::HwQueueArgs args;
  args.handle = handle;
  args.flags = creation.flags;
  args.private_data = creation.private_data;
  args.progress_fence = fence_->handle;
  args.progress_fence_cpu = fence_->shared->storage;
  args.progress_fence_va = fence_va_;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(void* const made,
                                 all.driver().create_hw_queue(context_->driver_handle(), args));
  floor.core.lane().run([&] {
    driver_queue = made;
    driver_context_ = true;
  });
  return Status::kSuccess;
}

void HwQueue::destroy_in_driver() {
  WorkFloor& floor = device().floor();
  if (driver_context_) static_cast<void>(floor.hw_queues->driver().destroy_hw_queue(driver_queue));
  unmake();
}

void HwQueue::unmake() {
  WorkFloor& floor = device().floor();
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    std::erase(context_->queues, this);
    if (fence_va_ != 0) {
      // The page stays as long as an engine may write it.
      floor.system_pages->unmap_system_page(device().process().number(), fence_va_,
                                            [fence = fence_] {});
    }
    if (place.has_value()) floor.hw_queues->give_place_back(*place);
    floor.core.progress();  // its context may be waiting for it to go
  });
  if (!fence_) return;
  device().process().handles().erase(fence_->handle);
  fence_->close();
}

Status HwQueue::submit(const HwSubmission& submission) {
  const RenderTurns::Turn turn(turns());  // one at a time (SCHED-21)
  if (turn.over()) return Status::kInvalidParameter;
  WorkFloor& floor = device().floor();
  std::vector<std::byte> private_data(submission.private_data.begin(),
                                      submission.private_data.end());
  if (!private_data.empty()) {  // SUB-34
    port::ValidateSubmitArgs args;
    args.buffer_va = submission.commands;
    args.buffer_bytes = submission.bytes;
    args.contexts = std::span(&driver_queue, 1);
    args.private_data = private_data.data();
    args.private_bytes = args.user_private_bytes = static_cast<uint32_t>(private_data.size());
    args.hardware_queues = true;
    args.progress_fence = submission.progress_fence;
    const Status valid = floor.core.port().rendering().validate_submit(args);
    if (valid != Status::kNotSupported) DXGKIT_RETURN_IF_FAILED(valid);
  }
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (device().lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    if (submission.progress_fence <= last_queued_) {
      status = Status::kInvalidParameter;  // SUB-40
      return;
    }
    for (const Ref<OpenedAllocation>& primary : submission.written_primaries) {
      if (!primary->closing && primary->listing.count != 0) continue;
      device().set_error(DeviceState::kErrorOutOfMemory);  // RES-26
      status = Status::kDeviceRemoved;
      return;
    }
    last_queued_ = submission.progress_fence;
    Packet& packet = floor.submission->packets().create();
    packet.kind = vidsch::PacketKind::kRender;
    packet.context = this;
    packet.driver_context = info_.handle;
    packet.command.address = submission.commands;
    packet.command.bytes = submission.bytes;
    packet.command.progress_fence = submission.progress_fence;
    packet.command.private_data = std::move(private_data);
    floor.residency->packet_queued(device().memory(), packet.residency);
    floor.submission->queue(packet);
    select_after_call(floor.core, floor.adapter);
  });
  return status;
}

// --- all of them ---

std::unique_ptr<HwQueues> HwQueues::make(WorkFloor& floor,
                                         std::span<const port::NodeMetadata> nodes,
                                         std::vector<vidsch::NodeDesc>* engines) {
  const bool any = std::ranges::any_of(nodes, &port::NodeMetadata::context_scheduling);
  if (!any || !floor.core.facts().virtual_addresses) return nullptr;
  auto made =
      std::unique_ptr<HwQueues>(new HwQueues(floor, nodes, static_cast<uint32_t>(engines->size())));
  if (!made->queues_.supported()) return nullptr;
  for (uint32_t place = made->first_place_; place < kPlacesMost; ++place) {
    vidsch::NodeDesc desc;
    desc.node = NodeOrdinal{place};
    desc.of_queue = true;
    engines->push_back(desc);
  }
  return made;
}

HwQueues::HwQueues(WorkFloor& floor, std::span<const port::NodeMetadata> nodes,
                   uint32_t first_place)
    : floor_(floor),
      core_(floor.core),
      queues_(floor.core.port().hw_queues()),
      scheduler_(floor.core.port().hw_scheduling()),
      scheduling_(scheduler_.supported()),
      nodes_(nodes.begin(), nodes.end()),
      first_place_(first_place),
      places_(kPlacesMost - std::min(first_place, kPlacesMost)),
      suspension_(floor, *this),
      resets_(floor, *this, nodes.size()) {}

HwQueues::~HwQueues() = default;

Status HwQueues::start() {
  if (!scheduling_) return Status::kSuccess;
  using Band = port::PriorityBand;
  port::PriorityBands bands;
  bands.process_quantum.fill(kQuantum);
  bands.process_grace.fill(kGrace);
  bands.grace.fill(kGrace);
  bands.grace[static_cast<size_t>(Band::kIdle)] = 0;      // it preempts nobody
  bands.grace[static_cast<size_t>(Band::kRealtime)] = 0;  // it waits for nobody
  Status status = Status::kSuccess;
  core_.lane().run([&] { status = scheduler_.setup_priority_bands(bands); });
  return status;
}

Status HwQueues::configure(HwContext& context) {
  if (!scheduling_) return Status::kSuccess;
  const Status status =
      scheduler_.set_context_properties(context.driver_handle(), context.properties());
  context.configured = context.configured || is_success(status);
  return status;
}

Result<NodeOrdinal> HwQueues::take_place(HwQueue& queue) {
  const auto free = std::ranges::find(places_, nullptr);
  if (free == places_.end()) return Error(Status::kNoMemory);
  *free = &queue;
  const NodeOrdinal place{first_place_ + static_cast<uint32_t>(free - places_.begin())};
  const uint32_t most = nodes_[queue.node().value].max_in_flight_buffers;
  core_.scheduler().set_depth(place, most == 0 ? kBuffersInFlight : most);
  return place;
}

void HwQueues::give_place_back(NodeOrdinal place) { places_[place.value - first_place_] = nullptr; }

HwQueue* HwQueues::queue_at(NodeOrdinal place) const { return places_[place.value - first_place_]; }

vidsch::EnginePort::Submit HwQueues::submit(Packet& packet, SubmissionFenceId fence) {
  using Submit = vidsch::EnginePort::Submit;
  auto& queue = static_cast<HwQueue&>(*packet.context);
  DXGKIT_CHECK(!scheduling_ || queue.hw_context().configured);  // SCHED-18
  ++core_.counters().packets_submitted;
  core_.counters().dma_bytes += packet.command.bytes;
  trace::emit(trace::EventKind::kPacketSubmitted, packet.id.value, queue.id().value, fence.value,
              queue.in_flight.size(), static_cast<uint16_t>(queue.node().value));
  if (queue.in_flight.empty()) queue.progress_ns = core_.runtime().now();
  queue.in_flight.push_back({packet.id, fence, packet.command.progress_fence});
  scratch_.assign(packet.command.private_data.begin(), packet.command.private_data.end());
  port::HwQueueSubmission work;
  work.queue = queue.driver_queue;
  work.progress_fence = packet.command.progress_fence;
  work.buffer_va = packet.command.address;
  work.buffer_bytes = packet.command.bytes;
  work.private_data = scratch_.data();
  work.private_bytes = static_cast<uint32_t>(scratch_.size());
  work.progress_fence_va = queue.progress_fence_va();
  work.progress_fence_cpu = queue.progress_fence().shared->storage;
  const Status status = queues_.submit(work);
  std::ranges::fill(scratch_, kPoison);
  packet.command.private_data.clear();
  resets_.watch();
  if (status == Status::kSuccess) return Submit::kTaken;
  if (status == Status::kInvalidParameter) {
    floor_.faults->set_device_state(DeviceState::kErrorDmaFault);
    floor_.faults->blame(packet);
    return Submit::kRefused;
  }
  core_.fail(verifier::Finding{
      .rule = "SUB-41",
      .severity = verifier::Severity::kBugCheck,
      .ddi = "DxgkDdiSubmitCommandToHwQueue",
      .actual = fmt::format("It returned 0x{:08X} for progress fence value {}.",
                            static_cast<uint32_t>(to_ntstatus(status)), work.progress_fence),
      .expected = "STATUS_SUCCESS, or STATUS_INVALID_PARAMETER for a malformed buffer or malformed "
                  "private data.",
      .fix = "Check the buffer first and refuse it with STATUS_INVALID_PARAMETER; nothing else may "
             "fail here.",
      .bugcheck_code = 0x119,
      .bugcheck_parameter = 0x2});
  return Submit::kStopping;
}

void HwQueues::packet_left(const Packet& packet) {
  auto& queue = static_cast<HwQueue&>(*packet.context);
  const size_t left =
      std::erase_if(queue.in_flight, [&](const HwQueue::InFlight& one) DXGKIT_REQUIRES(on_lane) {
        return one.packet == packet.id;
      });
  if (left == 0) return;
  queue.progress_ns = core_.runtime().now();
  resets_.work_left(queue.node());
  release_fence(queue);
}

void HwQueues::retire_finished(HwQueue& queue) {
  if (queue.in_flight.empty()) return;
  const uint64_t value = queue.progress_fence().shared->storage->load(std::memory_order_acquire);
  std::optional<SubmissionFenceId> last;
  for (const HwQueue::InFlight& one : queue.in_flight) {
    if (one.value > value) break;
    last = one.fence;
  }
  if (!last.has_value()) return;
  static_cast<void>(core_.scheduler().completed(*queue.place, *last, core_.runtime().now()));
}

void HwQueues::look_at_fences(NodeOrdinal node) {
  for (HwQueue* const queue : places_) {
    if (queue != nullptr && queue->node() == node) retire_finished(*queue);
  }
}

void HwQueues::page_faulted(const port::InterruptReport& report) {
  for (HwQueue* const queue : places_) {
    if (queue == nullptr || queue->driver_queue != report.handle) continue;
    for (const HwQueue::InFlight& one : queue->in_flight) {
      if (one.value != report.fence64) continue;
      floor_.faults->set_device_state(DeviceState::kErrorDmaPageFault);
      const SubmissionFenceId fence = one.fence;
      static_cast<void>(
          core_.scheduler().faulted(*queue->place, fence, core_.runtime().now(), nullptr));
      return;
    }
  }
  core_.fail(verifier::Finding{
      .rule = "INT-11",
      .severity = verifier::Severity::kBugCheck,
      .ddi = "DxgkCbNotifyInterrupt",
      .actual = fmt::format("HWQUEUE_PAGE_FAULTED named progress fence value {} of a queue of node "
                            "{}; no such work is on hardware.",
                            report.fence64, report.node),
      .expected = "FaultedHwQueue and FaultedFenceId name work that was submitted and has not "
                  "completed.",
      .fix = "Report the HwQueueProgressFenceId of the submission that faulted, with the handle "
             "DxgkDdiCreateHwQueue returned.",
      .bugcheck_code = 0x119,
      .bugcheck_parameter = 0x1});
}

HwContext* HwQueues::context_of(const void* driver_handle) const {
  const auto found = std::ranges::find(contexts_, driver_handle, &HwContext::driver_handle);
  return found == contexts_.end() ? nullptr : *found;
}

void HwQueues::refresh_holds(HwContext& context) {
  const bool off = context.held != 0;
  for (HwQueue* const queue : context.queues) {
    if (queue->place.has_value())
      core_.scheduler().hold_node(*queue->place, off || resets_.stops(queue->node()));
  }
}

void HwQueues::adapter_was_reset() {
  suspension_.power_failed();
  resets_.adapter_was_reset();
  for (HwContext* const context : contexts_) refresh_holds(*context);
}

void HwQueues::device_lost(Device& device) {
  for (HwContext* const context : device.hw_contexts) {
    for (HwQueue* const queue : context->queues) release_fence(*queue);
  }
}

void HwQueues::release_fence(HwQueue& queue) {
  if (!queue.device().lost() || !queue.in_flight.empty() || !queue.has_progress_fence()) return;
  const vidsch::SyncPoint point{queue.progress_fence().id, std::numeric_limits<uint64_t>::max(),
                                false};
  static_cast<void>(core_.scheduler().sync_objects().signal(std::span(&point, 1)));
}

}  // namespace dxgkit::dxgk
