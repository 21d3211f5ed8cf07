#include "dxgk/work/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/guarded_copy.h"
#include "dxgk/core/adapter_core.h"
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
namespace {

constexpr uint32_t kMaxCommandBytes = 4U << 20;
constexpr uint32_t kMaxListEntries = 1U << 16;
/// Passes of one Render that neither wrote anything nor moved MultipassOffset before it is called a
/// livelock.
constexpr uint32_t kMaxPassesWithoutProgress = 2;

}  // namespace

Context::Context(Device& device) : Context(device, kType) {}

Context::Context(Device& device, ObjectType type) : Object(type), device_(&device) {}

Context::~Context() = default;

Result<Ref<Context>> Context::create(Device& device, const ContextCreation& creation) {
  const GatePass pass(device.gate());
  if (!pass || device.lost()) return Error(Status::kDeviceRemoved);
  WorkFloor& floor = device.floor();
  const port::DriverCaps& caps = floor.core.caps();
  if (creation.virtual_addressing && floor.gpu_va == nullptr)
    return Error(Status::kNotSupported);  // VA-01
  if (!creation.virtual_addressing && floor.gpu_va != nullptr)
    return Error(Status::kInvalidParameter);  // THUNK-13
  if (creation.node.value >= caps.node_count) return Error(Status::kInvalidParameter);
  if (!std::has_single_bit(creation.engine_affinity) &&
      creation.engine_affinity != 0) {  // SCHED-01
    return Error(Status::kInvalidParameter);
  }
  if (creation.engine_affinity > 1)
    return Error(Status::kInvalidParameter);  // one engine per node here
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
    status = context->allocate_client_buffers(context->info_.dma_buffer_bytes,
                                              context->info_.allocation_list_size,
                                              context->info_.patch_list_size);
  }
  if (is_success(status)) {
    const bool asked = floor.core.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
      if (device.lost()) {
        status = Status::kDeviceRemoved;
        return true;
      }
      status = context->enter(context->node_);
      // Its page tables wait for the memory of what runs.
      if (status == Status::kNoMemory && context->virtual_ &&
          floor.core.scheduler().anything_on_hardware())
        return false;
      if (!is_success(status)) return true;
      if (!context->virtual_) {
        context->pool_ = std::make_unique<DmaBufferPool>(floor, context->info_);
      }
      device.contexts.push_back(context.get());
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
  if (info_.dma_private_bytes > kMaxCommandBytes) {
    return refuse("REND-14",
                  fmt::format("DmaBufferPrivateDataSize is {}.", info_.dma_private_bytes),
                  fmt::format("At most {} bytes.", kMaxCommandBytes),
                  "Report the private data the context needs per submission.");
  }
  if (virtual_) return Status::kSuccess;  // no DMA buffers, no lists
  if (info_.dma_buffer_bytes == 0 || info_.dma_buffer_bytes > kMaxCommandBytes) {
    return refuse("REND-14", fmt::format("DmaBufferSize is {}.", info_.dma_buffer_bytes),
                  fmt::format("1 to {} bytes.", kMaxCommandBytes),
                  "Report the DMA buffer size the context needs.");
  }
  if (info_.allocation_list_size > kMaxListEntries || info_.patch_list_size > kMaxListEntries) {
    return refuse("REND-14",
                  fmt::format("AllocationListSize is {}, PatchLocationListSize is {}.",
                              info_.allocation_list_size, info_.patch_list_size),
                  fmt::format("At most {} entries.", kMaxListEntries),
                  "Report the list sizes the context needs.");
  }
  return Status::kSuccess;
}

Status Context::allocate_client_buffers(uint32_t command_bytes, uint32_t allocations,
                                        uint32_t patches) {
  auto command = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[command_bytes]());
  auto allocation_list =
      std::unique_ptr<ClientAllocation[]>(new (std::nothrow) ClientAllocation[allocations]());
  auto patch_list =
      std::unique_ptr<port::PatchLocation[]>(new (std::nothrow) port::PatchLocation[patches]());
  if (!command || !allocation_list || !patch_list) return Status::kNoMemory;
  command_storage_ = std::move(command);
  allocation_storage_ = std::move(allocation_list);
  patch_storage_ = std::move(patch_list);
  buffers_ = {command_storage_.get(), command_bytes, allocation_storage_.get(), allocations,
              patch_storage_.get(),   patches};
  return Status::kSuccess;
}

ClientBuffers Context::buffers() {
  runtime::MutexLock lock(render_mutex_);
  return buffers_;
}

void Context::list_uses(const DmaBuffer& buffer, uint32_t patch_start, uint32_t patch_length,
                        std::vector<vidmm::Use>* list) {
  std::vector<vidmm::Use>& uses = *list;
  uses.clear();
  // Memory is brought in for what the patch list references; list entries nobody patches stay where
  // they are.
  // Where devices list what they need, only the DMA buffer's own place is the packet's business.
  if (device_->floor().core.facts().explicit_residency) patch_length = 0;
  seen_.assign(buffer.allocation_count, 0);
  uint32_t unseen = buffer.allocation_count;
  for (uint32_t i = patch_start; unseen != 0 && i < patch_start + patch_length; ++i) {
    const uint32_t index = buffer.patches[i].allocation_index;
    if (seen_[index] != 0) continue;
    seen_[index] = 1;
    --unseen;
    const OpenedAllocation* opened = buffer.references[index];
    if (opened == nullptr) continue;
    const bool write = buffer.allocations[index].write();
    Allocation& allocation = *opened->allocation;
    // A guess, so that nobody has to search: two entries may name one allocation.
    const uint32_t place = allocation.listed_at;
    if (place < uses.size() && uses[place].allocation == allocation.id) {
      uses[place].write = uses[place].write || write;
      continue;
    }
    allocation.listed_at = static_cast<uint32_t>(uses.size());
    uses.push_back({allocation.id, write});
  }
  if (buffer.memory.value != 0) uses.push_back({buffer.memory, false});
}

Status Context::capture_list() {
  WorkFloor& floor = device_->floor();
  const size_t bytes = client_list_.size() * sizeof(ClientAllocation);
  const bool known =
      captured_as_of_ == floor.core.listing_changes() &&
      captured_list_.size() == client_list_.size() &&
      (bytes == 0 || std::memcmp(captured_list_.data(), client_list_.data(), bytes) == 0);
  if (known && !floor.core.facts().explicit_residency) return Status::kSuccess;
  captured_as_of_ = entries_as_of_ = 0;
  DXGKIT_RETURN_IF_FAILED(find_allocations());
  DXGKIT_RETURN_IF_FAILED(check_captured());
  captured_list_ = client_list_;
  captured_as_of_ = floor.core.listing_changes();
  return Status::kSuccess;
}

Status Context::find_allocations() {
  captured_.clear();
  captured_.resize(client_list_.size());
  Status refusal = Status::kSuccess;
  const auto acceptable = [&](size_t i) {
    if ((client_list_[i].flags >> 5) != 0) refusal = Status::kInvalidParameter;  // THUNK-03
    captured_[i].write = (client_list_[i].flags & 1U) != 0;
    return is_success(refusal);
  };
  size_t next = 0;  // the first entry that was not looked at
  // One lock for all: a list has dozens of entries.
  const Status found = device_->process().handles().find_each<OpenedAllocation>(
      client_list_.size(), [&](size_t i) { return client_list_[i].handle; },
      [&](size_t i, OpenedAllocation* opened) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {  // called here
        for (; next <= i; ++next) {
          if (!acceptable(next)) return false;
        }
        if (opened->device.get() != device_.get()) refusal = Status::kInvalidParameter;  // REND-05
        // An NT handle without write access was opened (THUNK-24).
        if (is_success(refusal) && captured_[i].write && opened->read_only)
          refusal = Status::kAccessDenied;
        // Between two holds of the lane the handle may go, and the object with it: teardown begins
        // on the lane.
        captured_[i].opened = opened;
        return is_success(refusal);
      });
  // NULL entries, which unbind slots (REND-23), and the one whose handle is none.
  for (; is_success(refusal) && next < client_list_.size(); ++next) {
    if (!acceptable(next)) break;
    if (client_list_[next].handle != 0) refusal = Status::kInvalidHandle;  // REND-04
  }
  static_cast<void>(found);  // said by the entry left over
  return refusal;
}

Status Context::render(const RenderRequest& request, uint32_t* queued) {
  runtime::MutexLock lock(render_mutex_);
  if (destroyed_ || virtual_) return Status::kInvalidParameter;
  WorkFloor& floor = device_->floor();
  if (device_->lost()) return Status::kDeviceRemoved;
  if (!range_within(request.command_offset, request.command_length, buffers_.command_bytes))
    return Status::kInvalidParameter;
  if (request.command_length == 0) return Status::kInvalidParameter;
  if (request.allocation_count > buffers_.allocation_count) return Status::kInvalidParameter;
  if (request.patch_count > buffers_.patch_count) return Status::kInvalidParameter;
  DXGKIT_RETURN_IF_FAILED(check_broadcast(request));
  // The client can write its list while we look: read it once (THUNK-02).
  client_list_.resize(request.allocation_count);
  if (request.allocation_count != 0 &&
      !guarded_copy(client_list_.data(), buffers_.allocations,
                    request.allocation_count * sizeof(ClientAllocation))) {
    return Status::kAccessViolation;
  }

  uint32_t multipass_offset = 0;
  uint32_t without_progress = 0;
  Status outcome = Status::kSuccess;
  for (;;) {
    DmaBuffer* buffer = nullptr;
    DXGKIT_RETURN_IF_FAILED(begin_pass(Listed::kByClient, &buffer));
    port::RenderArgs args;
    args.context = info_.handle;
    args.render_km = request.render_km;
    args.command = buffers_.command + request.command_offset;
    args.command_length = request.command_length;
    args.buffer = buffer->view;
    args.allocations = buffer->allocations.data();
    args.allocation_count = buffer->allocation_count;
    args.patches_in = buffers_.patches;
    args.patches_in_count = request.patch_count;
    args.patches_out = buffer->patches.data();
    args.patches_out_capacity = static_cast<uint32_t>(buffer->patches.size());
    args.multipass_offset = multipass_offset;
    const port::RenderResult result = floor.core.port().rendering().render(args);
    const bool more = result.status == Status::kGraphicsInsufficientDmaBuffer;
    if (!more && result.status != Status::kSuccess) {
      outcome = result.status;
      abandon_pass(*buffer);
      if (outcome == Status::kGraphicsGpuExceptionOnDevice) {  // REND-15
        floor.core.lane().run(
            [&]() DXGKIT_REQUIRES(on_lane) { device_->set_error(DeviceState::kErrorDmaFault); });
      }
      break;
    }
    if (more && device_->info().guaranteed_contract) {
      break_contract(*buffer, result.dma_bytes);
      outcome = Status::kDeviceRemoved;
      break;
    }
    if (more) {
      const bool progress = result.dma_bytes != 0 || result.multipass_offset != multipass_offset;
      without_progress = progress ? 0 : without_progress + 1;
      if (without_progress >= kMaxPassesWithoutProgress) {
        floor.core.findings().report(verifier::Finding{
            .rule = "REND-09",
            .severity = verifier::Severity::kViolation,
            .ddi = "DxgkDdiRender",
            .actual = fmt::format("It asked for another DMA buffer {} times without writing "
                                  "anything or moving MultipassOffset ({}).",
                                  without_progress, multipass_offset),
            .expected =
                "Each pass into an empty DMA buffer translates a part of the command buffer.",
            .fix = "Write what fits, advance pDmaBuffer and MultipassOffset, or ask for a larger "
                   "DMA buffer at context creation."});
        abandon_pass(*buffer);
        outcome = Status::kInvalidParameter;
        break;
      }
      multipass_offset = result.multipass_offset;
    }
    // One pass of several may hold just those commands that use nothing of the list.
    if (!more && args.multipass_offset == 0) check_references(*buffer, result);
    outcome = end_pass(*buffer, result, request, queued);
    if (!more || outcome != Status::kSuccess) break;
  }
  if (outcome != Status::kSuccess) return outcome;
  // THUNK-15: resizing is a wish; what cannot be had leaves the buffers as they are.
  const auto wish = [](uint32_t asked, uint32_t least, uint32_t now, uint32_t most) {
    return asked == 0 ? now : std::clamp(asked, least, most);
  };
  const uint32_t command_bytes = wish(request.resize_command_bytes, info_.dma_buffer_bytes,
                                      buffers_.command_bytes, kMaxCommandBytes);
  const uint32_t allocations = wish(request.resize_allocations, info_.allocation_list_size,
                                    buffers_.allocation_count, kMaxListEntries);
  const uint32_t patches =
      wish(request.resize_patches, info_.patch_list_size, buffers_.patch_count, kMaxListEntries);
  if (command_bytes != buffers_.command_bytes || allocations != buffers_.allocation_count ||
      patches != buffers_.patch_count) {
    static_cast<void>(allocate_client_buffers(command_bytes, allocations, patches));
  }
  return Status::kSuccess;
}

Status Context::check_captured() {
  const bool explicit_residency = device_->floor().core.facts().explicit_residency;
  for (const CapturedAllocation& captured : captured_) {
    if (captured.opened == nullptr) continue;
    const Allocation* const allocation = captured.opened->allocation;
    if (captured.opened->closing) return Status::kInvalidHandle;  // another thread destroyed it
    if (allocation->stale) return Status::kGraphicsAllocationInvalid;  // DISP-17
    // Offered content may be gone at any moment: it is reclaimed before it is used.
    if (allocation->offer != vidmm::OfferPriority::kNone) return Status::kInvalidParameter;
  }
  if (!explicit_residency) return Status::kSuccess;
  for (const CapturedAllocation& captured : captured_) {
    if (captured.opened == nullptr || captured.opened->listing.count != 0) continue;
    if (captured.on_screen) continue;                    // pinned
    device_->set_error(DeviceState::kErrorOutOfMemory);  // RES-25
    return Status::kDeviceRemoved;
  }
  return Status::kSuccess;
}

void Context::list_places() {
  WorkFloor& floor = device_->floor();
  const vidmm::MemoryManager& memory = floor.core.memory();
  entries_.assign(captured_.size(), port::AllocationListEntry{});
  entries_as_of_ = memory.plans();
  for (size_t i = 0; i < captured_.size(); ++i) {
    const OpenedAllocation* const opened = captured_[i].opened;
    if (opened == nullptr) continue;
    // The last known place; the driver may write it right away, Patch will come all the same.
    const vidmm::Placement place = memory.placement(opened->allocation->id);
    entries_[i].device_handle = opened->device_specific;
    if (place.segment != kSystemMemory && floor.core.strikes(VerifierSwitch::kNeverPrepatch)) {
      entries_[i].set(captured_[i].write, kSystemMemory, 0);
      entries_as_of_ = 0;  // no plan has that number: filled in at submission
      continue;
    }
    entries_[i].set(captured_[i].write, place.segment, place.gpu_address);
  }
}

Status Context::begin_pass(Listed listed, DmaBuffer** out) {
  WorkFloor& floor = device_->floor();
  Status status = Status::kSuccess;
  DmaBuffer* buffer = nullptr;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
    if (device_->lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    status = listed == Listed::kByClient ? capture_list() : check_captured();
    if (!is_success(status)) return;
    Result<DmaBuffer*> acquired = pool_->acquire();
    if (!acquired.has_value()) {
      status = acquired.error();
      return;
    }
    buffer = *acquired;
    buffer->users = 1;  // this call, until the packet is queued
    buffer->allocation_count = static_cast<uint32_t>(captured_.size());
    if (buffer->allocations.size() < captured_.size()) buffer->allocations.resize(captured_.size());
    const size_t patch_capacity = std::max<size_t>(info_.patch_list_size, buffers_.patch_count);
    if (buffer->patches.size() < patch_capacity) buffer->patches.resize(patch_capacity);
    if (entries_as_of_ == 0 || entries_as_of_ != floor.core.memory().plans()) list_places();
    std::ranges::copy(entries_, buffer->allocations.begin());
    buffer->places_as_of = entries_as_of_;
    buffer->references.resize(captured_.size());
    for (size_t i = 0; i < captured_.size(); ++i) {
      OpenedAllocation* const opened = captured_[i].opened;
      buffer->references[i] = opened;
      if (opened != nullptr) ++opened->uses;
    }
  });
  *out = buffer;
  return status;
}

void Context::break_contract(DmaBuffer& buffer, uint32_t written) {
  abandon_pass(buffer);
  device_->floor().core.fail(
      {.rule = "REND-10",
       .severity = verifier::Severity::kBugCheck,
       .ddi = "DxgkDdiRender",
       .actual = fmt::format("It asked for another DMA buffer after {} of {} bytes.", written,
                             info_.dma_buffer_bytes),
       .expected = "With GuaranteedDmaBufferContract one command buffer becomes one DMA buffer.",
       .fix = "Make DmaBufferSize large enough for the largest command buffer, or leave the flag "
              "clear at DxgkDdiCreateDevice.",
       .bugcheck_code = 0x10E,
       .bugcheck_parameter = 0x16});
}

void Context::abandon_pass(DmaBuffer& buffer) {
  WorkFloor& floor = device_->floor();
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    DmaBufferPool::drop_user(buffer);
    floor.core.progress();
  });
}

void Context::queue_pass(DmaBuffer& buffer, const port::RenderResult& result,
                         const RenderRequest& request) {
  WorkFloor& floor = device_->floor();
  Packet& packet = floor.submission->packets().create();
  packet.kind = vidsch::PacketKind::kRender;
  packet.context = this;
  packet.driver_context = info_.handle;
  packet.buffer = &buffer;
  packet.slice.end = result.dma_bytes;
  packet.slice.private_end = result.private_bytes;
  packet.patch_length = result.patch_count;
  packet.flags.null_rendering = request.null_rendering || null_rendering_;
  packet.flags.redirected_present = request.present_redirected;
  packet.flags.present = request.present;
  packet.counts_as_present = request.counts_as_present;
  if (request.counts_as_present) ++device_->queued_presents;
  list_uses(buffer, 0, result.patch_count, &packet.uses);
  if (request.flip != nullptr) begin_flip(packet, *request.flip);
  wait_for_flips(written_in(buffer));
  if (floor.core.facts().explicit_residency) floor.residency->packet_queued(*device_, packet);
  floor.submission->queue(packet);
}

Status Context::end_pass(DmaBuffer& buffer, const port::RenderResult& result,
                         const RenderRequest& request, uint32_t* queued) {
  WorkFloor& floor = device_->floor();
  Status status =
      check_patches(buffer, result, request.present ? "DxgkDdiPresent" : "DxgkDdiRender");
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (is_success(status) && device_->lost()) status = Status::kDeviceRemoved;
    if (result.status == Status::kGraphicsInsufficientDmaBuffer)
      ++floor.core.counters().multipass_renders;
    if (is_success(status) && result.dma_bytes != 0) {
      buffer.patch_count = result.patch_count;
      status = queue_everywhere(buffer, result, request);
    }
    DmaBufferPool::drop_user(buffer);
    floor.core.pump();
    *queued = static_cast<uint32_t>(floor.core.scheduler().packets_of(id_));
  });
  return status;
}

void Context::check_references(const DmaBuffer& buffer, const port::RenderResult& result) {
  if (result.patch_count != 0 || result.dma_bytes == 0) return;
  uint32_t used = 0, first = 0;
  for (uint32_t i = buffer.allocation_count; i-- > 0;) {
    if (buffer.allocations[i].device_handle == nullptr) continue;
    ++used;
    first = i;
  }
  if (used == 0) return;
  device_->floor().core.findings().report(verifier::Finding{
      .rule = "FIELD-01",
      .severity = verifier::Severity::kViolation,
      .ddi = "DxgkDdiRender",
      .actual = fmt::format("A DMA buffer of {} bytes has {} allocations in its allocation list, "
                            "the first at index {}, and no patch location.",
                            result.dma_bytes, used, first),
      .expected = "Each allocation the DMA buffer uses has an element in pPatchLocationListOut.",
      .fix = "Write a patch location per use of an allocation and advance pPatchLocationListOut, "
             "also where the address was written at once because SegmentId was not 0.",
      .why = "Only what the patch-location list references is made resident in the patch model: "
             "these allocations may be anywhere when the packet runs.",
      .windows = "Nothing is said: the packet runs, and faults at an address of its own or works "
                 "on what was evicted.",
      .confidence = verifier::Confidence::kMeasured});
}

/// All of them at once, without a branch: there are thousands, and hardly ever a bad one. What may
/// not be below zero is collected, and its sign tells. False: a closer look has to tell.
bool Context::plainly_right(const DmaBuffer& buffer, const port::RenderResult& result,
                            uint32_t slot_limit) {
  const int64_t last_allocation = int64_t{buffer.allocation_count} - 1;
  const int64_t last_byte = int64_t{result.dma_bytes} - 1;
  const int64_t last_slot = int64_t{slot_limit} - 1;
  int64_t signs = 0;
  uint32_t last_split = 0;
  const port::PatchLocation* const end = buffer.patches.data() + result.patch_count;
  for (const port::PatchLocation* patch = buffer.patches.data(); patch != end; ++patch) {
    signs |= last_allocation - patch->allocation_index;
    signs |= last_byte - patch->patch_offset;
    signs |= int64_t{patch->split_offset} - last_split;
    signs |= int64_t{patch->patch_offset} - patch->split_offset;
    signs |= last_slot - (patch->slot_id & 0xFFFFFFU);
    last_split = patch->split_offset;
  }
  return signs >= 0;
}

Status Context::check_patches(const DmaBuffer& buffer, const port::RenderResult& result,
                              const char* ddi) {
  const uint32_t slots = device_->floor().core.caps().max_allocation_list_slot_id;
  const uint32_t slot_limit = slots == 0 ? 1U << 24 : slots;
  if (plainly_right(buffer, result, slot_limit)) return Status::kSuccess;
  uint32_t last_split = 0;
  for (uint32_t i = 0; i < result.patch_count; ++i) {
    const port::PatchLocation& patch = buffer.patches[i];
    const char* rule = nullptr;
    std::string actual;
    if (patch.allocation_index >= buffer.allocation_count) {
      rule = "PATCH-27";
      actual = fmt::format("Patch element {} names allocation index {} of {}.", i,
                           patch.allocation_index, buffer.allocation_count);
    } else if (patch.patch_offset >= result.dma_bytes) {
      rule = "PATCH-27";
      actual = fmt::format("Patch element {} patches offset {} of a DMA buffer of {} bytes.", i,
                           patch.patch_offset, result.dma_bytes);
    } else if (patch.split_offset < last_split || patch.split_offset > patch.patch_offset) {
      rule = "REND-22";
      actual = fmt::format("Patch element {} has SplitOffset {} after {}, PatchOffset {}.", i,
                           patch.split_offset, last_split, patch.patch_offset);
    } else if ((patch.slot_id & 0xFFFFFFU) >= slot_limit) {
      rule = "REND-22";
      actual = fmt::format("Patch element {} has SlotId {}; MaxAllocationListSlotId is {}.", i,
                           patch.slot_id & 0xFFFFFFU, slots);
    }
    last_split = patch.split_offset;
    if (rule == nullptr) continue;
    device_->floor().core.findings().report(
        verifier::Finding{.rule = rule,
                          .severity = verifier::Severity::kViolation,
                          .ddi = ddi,
                          .actual = std::move(actual),
                          .expected = "Elements index the allocation list, patch inside the DMA "
                                      "buffer, are sorted by SplitOffset, and use slots below "
                                      "MaxAllocationListSlotId.",
                          .fix = "Fill D3DDDI_PATCHLOCATIONLIST for every reference in the order "
                                 "it is written; the submission is rejected."});
    return Status::kInvalidParameter;
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
    if (!sync_in_reach(device_->adapter(), points)) {
      status = Status::kInvalidParameter;
      return;
    }
    Packet& packet = floor.submission->packets().create();
    packet.kind = kind;
    packet.context = this;
    packet.points.assign(points.begin(), points.end());
    floor.submission->queue(packet);
    floor.core.pump();
  });
  return status;
}

Status Context::queue_signal(std::span<const Ref<Context>> contexts,
                             std::span<const vidsch::SyncPoint> points, SignalOrder order) {
  WorkFloor& floor = contexts.front()->device_->floor();
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (const Ref<Context>& context : contexts) {
      if (context->closed_ || context->device_->lost()) status = Status::kDeviceRemoved;
    }
    if (is_success(status) && !sync_in_reach(contexts.front()->device_->adapter(), points))
      status = Status::kInvalidParameter;
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
    floor.core.pump();
  });
  return status;
}

void Context::destroy() {
  WorkFloor& floor = device_->floor();
  {
    runtime::MutexLock lock(render_mutex_);
    destroyed_ = true;
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
    if (pool_) pool_->clear();
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
