// Start and stop of an adapter: what is asked of the driver, in which order, and what refuses it.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/interface_versions.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/adapter/segment_rules.h"
#include "dxgk/device.h"
#include "dxgk/display/display.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/residency.h"
#include "dxgk/power/power.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/va/gpu_va_rules.h"
#include "dxgk/work/context.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/timeout.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint32_t kMaxVidPnSources = 16;    // D3DKMDT_MAX_VIDPN_SOURCES
constexpr uint32_t kMaxNodes = 64;           // DXGK_MAX_ASYMETRICAL_PROCESSING_NODES
constexpr uint32_t kWddmVersion20 = 0x2000;  // DXGK_WDDMVERSION
constexpr uint32_t kMaxHardwareQueueDepth = 64;

/// What release_pages kept: the device is stopped, nothing of it writes there any more.
void give_back(bus::Machine& machine, std::vector<bus::PageFrame>* pages) {
  if (!pages->empty()) machine.free_pages(*pages);
  pages->clear();
}

}  // namespace

Status Adapter::refuse_start(const char* rule, const char* ddi, std::string actual,
                             std::string expected, std::string fix) {
  findings_.report(verifier::Finding{.rule = rule,
                                     .severity = verifier::Severity::kStartFail,
                                     .ddi = ddi,
                                     .actual = std::move(actual),
                                     .expected = std::move(expected),
                                     .fix = std::move(fix)});
  return Status::kDeviceConfigurationError;  // one constant for every refusal (G-19)
}

void Adapter::explain_failed_start(const char* ddi, Status status) {
  for (const verifier::Finding& finding : findings_.all()) {
    const bool stops = finding.severity == verifier::Severity::kStartFail ||
                       finding.severity == verifier::Severity::kBugCheck;
    if (stops) return;  // the reason is told already
  }
  const std::string_view name = status_name(status);
  const char* rule = "LIFE-12";
  if (std::string_view(ddi) == "DxgkDdiAddDevice") rule = "LIFE-07";
  if (std::string_view(ddi) == "DxgkDdiStartDevice") rule = "LIFE-11";
  static_cast<void>(refuse_start(
      rule, ddi,
      name.empty() ? fmt::format("It answered 0x{:08X}.", static_cast<uint32_t>(status))
                   : fmt::format("It answered {}.", name),
      "Success: an adapter whose driver fails a step of its start is stopped and removed.",
      "Find out why the driver refused this step; its own failure paths end with this status."));
}

Status Adapter::start() {
  port_ = std::make_unique<port::AdapterPort>(driver_, kernel_, machine_, function_,
                                              static_cast<port::AdapterHost&>(*this), findings_);
  port_->levels().set_lane_check([this] { return lane_.is_current(); });
  port_->set_fault_injector(options_.faults);
  port_->set_reference_checks(options_.check_level == CheckLevel::kReference);
  timer_ =
      runtime_.make_timer([this] { lane_.post_from_interrupt([this] { timeout_->on_timer(); }); });
  quantum_timer_ = runtime_.make_timer([this] {
    lane_.post_from_interrupt([this] {
      quantum_due_.reset();
      pump();
    });
  });
  timeout_->start();
  if (const Status status = port_->life().add_device(); status != Status::kSuccess) {
    // LIFE-05: "not mine" is no failure of the driver.
    if (status != Status::kNotSupported) explain_failed_start("DxgkDdiAddDevice", status);
    port_.reset();
    gate_.close();
    return is_success(status) ? Status::kUnsuccessful : status;
  }
  const char* step = "DxgkDdiQueryAdapterInfo(early caps)";  // for explain_failed_start
  const Status status = display_only() ? start_display_only(&step) : start_full(&step);
  if (is_success(status) && !fatal_.load()) {
    trace::emit(trace::EventKind::kAdapterState, luid_.low, 1);
    was_running_ = true;
    return Status::kSuccess;
  }
  if (!is_success(status)) explain_failed_start(step, status);
  gate_.close();
  end_exclusions();
  gate_.wait_empty();
  if (display_) display_->stop();
  if (!paging_buffers_.empty()) unmap_paging_buffers();
  timeout_->stop();
  destroy_system_objects();
  if (device_started_) static_cast<void>(stop_device());  // LIFE-12
  static_cast<void>(port_->life().remove_device());
  timer_.reset();
  quantum_timer_.reset();
  if (gpu_va_) gpu_va_->stop();
  if (has_dummy_page_) machine_.free_contiguous(dummy_page_, 1);
  has_dummy_page_ = false;
  lane_.run([&] {
    residency_.reset();
    paging_.reset();
    gpu_va_.reset();
    scheduler_.reset();
    memory_.reset();
    give_back(machine_, &graveyard_);
    user_graveyard_.clear();
  });
  display_.reset();
  port_.reset();
  return is_success(status) ? Status::kDeviceConfigurationError : status;
}

Status Adapter::start_device() {
  const Result<port::StartInfo> info = port_->life().start_device();
  if (!info.has_value()) return info.error();  // LIFE-11: only RemoveDevice follows
  device_started_ = true;
  start_info_ = *info;
  if (start_info_.video_present_sources > kMaxVidPnSources) {
    return refuse_start(
        "LIFE-09", "DxgkDdiStartDevice",
        fmt::format("NumberOfVideoPresentSources is {}.", start_info_.video_present_sources),
        fmt::format("At most {}; 0 for a render-only adapter.", kMaxVidPnSources),
        "Write the number of video present sources the hardware has.");
  }
  return Status::kSuccess;
}

Status Adapter::describe_display(const char** step) {
  *step = "DxgkDdiQueryChildRelations";
  if (start_info_.children == 0 && start_info_.video_present_sources == 0) return Status::kSuccess;
  if (start_info_.video_present_sources != 0) DXGKIT_RETURN_IF_FAILED(check_display_entries());
  std::vector<port::ChildInfo> children;
  DXGKIT_RETURN_IF_FAILED(port_->children().query_child_relations(start_info_.children, &children));
  if (start_info_.video_present_sources == 0) return Status::kSuccess;  // DISP-21
  display_ = std::make_unique<Display>(*this);
  return display_->describe(std::move(children), start_info_.video_present_sources);
}

Status Adapter::stop_device() {
  device_started_ = false;
  const std::optional<bus::PostDisplay> post = function_.post_display();
  const bool shows = display_ != nullptr && post.has_value();
  if (shows && !fatal_.load() &&
      port::display_caps_of(caps_, interface_version()).support_non_vga) {
    port::DisplayInformation left;  // LIFE-19
    if (is_success(port_->life().stop_device_and_release(display_->post_target(), &left))) {
      keep_post_display(*post, left);
      return Status::kSuccess;
    }
  }
  return port_->life().stop_device();
}

void Adapter::keep_post_display(bus::PostDisplay post, const port::DisplayInformation& left) {
  const bus::Bar& bar = function_.bars()[post.bar];
  const uint64_t bytes = uint64_t{left.pitch_bytes} * left.height;
  const bool inside = left.address >= bar.base.value &&
                      range_within(left.address - bar.base.value, bytes, bar.size) &&
                      left.pitch_bytes / 4 >= left.width;
  if (left.width == 0 || left.height == 0 || !inside) {
    findings_.report(verifier::Finding{
        .rule = "DOD-08",
        .severity = verifier::Severity::kViolation,
        .ddi = "DxgkDdiStopDeviceAndReleasePostDisplayOwnership",
        .actual = fmt::format("It left {}x{} pixels, pitch {}, at 0x{:X}.", left.width, left.height,
                              left.pitch_bytes, left.address),
        .expected = fmt::format("The display left behind is a linear frame buffer inside the "
                                "adapter's BAR at 0x{:X}, {} bytes.",
                                bar.base.value, bar.size),
        .fix = "Keep the current mode and fill DisplayInfo with it: width, height, pitch, format "
               "and physical address.",
        .windows = "The next driver, or the basic display driver, finds no usable screen."});
    return;
  }
  post.offset_bytes = left.address - bar.base.value;
  post.width = left.width;
  post.height = left.height;
  post.pitch_bytes = left.pitch_bytes;
  post.target_id = left.target_id;
  function_.set_post_display(post);
}

Status Adapter::start_display_only(const char** step) {
  DXGKIT_RETURN_IF_FAILED(port_->caps().query_early_caps());
  *step = "DxgkDdiStartDevice";
  DXGKIT_RETURN_IF_FAILED(start_device());
  DXGKIT_RETURN_IF_FAILED(describe_display(step));
  *step = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)";
  DXGKIT_ASSIGN_OR_RETURN_STATUS(caps_, port_->caps().query_driver_caps());
  DXGKIT_RETURN_IF_FAILED(check_display_only_caps());
  DXGKIT_RETURN_IF_FAILED(check_addressing());
  return display_ ? display_->start(step) : Status::kSuccess;
}

Status Adapter::start_full(const char** step) {
  DXGKIT_RETURN_IF_FAILED(port_->caps().query_early_caps());
  *step = "DxgkDdiStartDevice";
  DXGKIT_RETURN_IF_FAILED(start_device());
  *step = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)";
  DXGKIT_ASSIGN_OR_RETURN_STATUS(caps_, port_->caps().query_driver_caps());
  DXGKIT_RETURN_IF_FAILED(check_caps());
  *step = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)";
  DXGKIT_ASSIGN_OR_RETURN_STATUS(segment_infos_, port_->caps().query_segments());
  std::vector<vidmm::SegmentDesc> segments;
  DXGKIT_RETURN_IF_FAILED(check_segments(&segments));
  DXGKIT_RETURN_IF_FAILED(check_host_apertures(step));
  *step = "DxgkDdiQueryAdapterInfo(GPUMMUCAPS)";
  DXGKIT_RETURN_IF_FAILED(check_gpu_va_model());
  Status native = Status::kSuccess;
  native_fences_ = NativeFences::make(*this, &native);
  DXGKIT_RETURN_IF_FAILED(native);
  // Both exist in the field: a new interface with an old model, which keeps its allocation lists.
  explicit_residency_ =
      interface_version() >= kInterfaceWddm20 && caps_.wddm_version >= kWddmVersion20;
  std::vector<vidsch::NodeDesc> nodes;
  std::vector<port::NodeMetadata> metadata(caps_.node_count);
  *step = "DxgkDdiGetNodeMetadata";
  for (uint32_t i = 0; i < caps_.node_count; ++i) {
    if (interface_version() >= kInterfaceWddm13)
      DXGKIT_RETURN_IF_FAILED(port_->caps().get_node_metadata(NodeOrdinal{i}, &metadata[i]));
    vidsch::NodeDesc node;
    node.node = NodeOrdinal{i};
    if (caps_.hw_queue_packet_cap != 0) {
      node.hardware_queue_depth = std::min(caps_.hw_queue_packet_cap, kMaxHardwareQueueDepth);
    }
    node.preemptible = caps_.preemption_aware;
    nodes.push_back(node);
  }
  hw_queues_ = HwQueues::make(*this, metadata, &nodes);
  DXGKIT_RETURN_IF_FAILED(describe_display(step));
  lane_.run([&] {
    memory_ = std::make_unique<vidmm::MemoryManager>(segments);
    const VerifierSwitches& verifier = options_.verifier;
    memory_->set_switches({.keep_offers = verifier.has(VerifierSwitch::kNeverDiscardOffer),
                           .no_demotion = verifier.has(VerifierSwitch::kNoDemotion),
                           .fail_compaction = verifier.has(VerifierSwitch::kFailDefragPass)});
    scheduler_ =
        std::make_unique<vidsch::Scheduler>(static_cast<vidsch::EnginePort&>(*this), nodes);
    scheduler_->set_clock([this] { return runtime_.now(); });
    paging_ = std::make_unique<PagingExecutor>(static_cast<PagingExecutor::Owner&>(*this), *port_,
                                               machine_);
    residency_ = std::make_unique<Residency>(*this);
    context_allocations_ = std::make_unique<ContextAllocations>(*this);
    cpu_windows_ = std::make_unique<CpuWindows>(*this);
    if (gpu_va_model_) gpu_va_ = std::make_unique<GpuVa>(*this, gpu_va_model_->geometry);
    for (const vidmm::SegmentDesc& segment : segments) {
      trace::emit(trace::EventKind::kSegment, luid_.low, segment.id.value, segment.base_address,
                  segment.size_bytes);
    }
  });
  if (caps_.support_runtime_power_management) {
    *step = "DxgkDdiQueryAdapterInfo(POWERCOMPONENTINFO)";
    std::vector<port::PowerComponent> components = port_->power().query_power_components();
    lane_.run([&] {
      if (!components.empty()) {
        runtime_power_ = std::make_unique<RuntimePower>(static_cast<RuntimePower::Owner&>(*this),
                                                        std::move(components), caps_.node_count);
      }
    });
  }
  if (hw_queues_) {
    *step = "DxgkDdiSetupPriorityBands";
    DXGKIT_RETURN_IF_FAILED(hw_queues_->start());
  }
  *step = "DxgkDdiCreateDevice, DxgkDdiCreateContext (system)";
  DXGKIT_RETURN_IF_FAILED(make_system_objects());
  lane_.run([&] {
    if (runtime_power_) runtime_power_->look();
  });
  return display_ ? display_->start(step) : Status::kSuccess;
}

Status Adapter::check_addressing() {
  const uint64_t last_page = machine_.highest_system_address().value;
  if (caps_.highest_acceptable_address != 0 && caps_.highest_acceptable_address < last_page) {
    return refuse_start(
        "LIFE-14", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
        fmt::format("HighestAcceptableAddress is 0x{:X}.", caps_.highest_acceptable_address),
        fmt::format("It covers all installed memory, which ends at 0x{:X}.", last_page),
        fmt::format("Report the highest address the device can reach (at least {} bits), or "
                    "support remapping.",
                    std::bit_width(last_page)));
  }
  return Status::kSuccess;
}

Status Adapter::check_caps() {
  if (caps_.node_count == 0 || caps_.node_count > kMaxNodes) {
    return refuse_start(
        "SCHED-03", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
        fmt::format("GpuEngineTopology.NbAsymetricProcessingNodes is {}.", caps_.node_count),
        fmt::format("1 to {} nodes.", kMaxNodes),
        "Report the number of nodes the scheduler may submit to.");
  }
  if (!caps_.multi_engine_aware) {  // SCHED-02: one node, PagingNode ignored
    caps_.node_count = 1;
    caps_.paging_node = 0;
  }
  if (caps_.paging_node >= caps_.node_count) {
    return refuse_start("SCHED-03", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
                        fmt::format("MemoryManagementCaps.PagingNode is {}, there are {} nodes.",
                                    caps_.paging_node, caps_.node_count),
                        "The paging node is one of the nodes.",
                        "Name a node below NbAsymetricProcessingNodes.");
  }
  if (caps_.preemption_aware && !caps_.multi_engine_aware) {
    return refuse_start("PREEMPT-01", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
                        "SchedulingCaps.PreemptionAware is set, MultiEngineAware is not.",
                        "PreemptionAware needs MultiEngineAware.",
                        "Set MultiEngineAware (and implement contexts), or clear PreemptionAware.");
  }
  if (caps_.cancel_command_aware && !caps_.multi_engine_aware) {
    return refuse_start(
        "CANCEL-02", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
        "SchedulingCaps.CancelCommandAware is set, MultiEngineAware is not.",
        "CancelCommandAware needs MultiEngineAware.",
        "Set MultiEngineAware (and implement contexts), or clear CancelCommandAware.");
  }
  if (caps_.no_dma_patching && !(caps_.preemption_aware && caps_.multi_engine_aware)) {
    return refuse_start(
        "PREEMPT-01", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
        "SchedulingCaps.NoDmaPatching is set without PreemptionAware and MultiEngineAware.",
        "NoDmaPatching needs both.", "Set both bits, or clear NoDmaPatching.");
  }
  if (interface_version() >= kInterfaceWin8 && interface_version() < kInterfaceWddm20) {
    const port::FlipCaps flips = port::flip_caps_of(caps_, interface_version());
    if (!flips.reports_preemption) {
      return refuse_start("PREEMPT-02", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
                          "PreemptionCaps leaves a granularity at 0 (NONE).",
                          "From WDDM 1.2 on a driver says how finely graphics and compute work "
                          "can be preempted.",
                          "Set GraphicsPreemptionGranularity and ComputePreemptionGranularity, at "
                          "least to the DMA buffer boundary.");
    }
    if (video_present_sources() != 0 && !flips.on_vsync_mmio) {
      findings_.report({.rule = "PREEMPT-02",
                        .severity = verifier::Severity::kWarning,
                        .ddi = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
                        .actual = "FlipCaps.FlipOnVSyncMmIo is clear on an adapter with displays.",
                        .expected = "From WDDM 1.2 on flips go through "
                                    "DxgkDdiSetVidPnSourceAddress, as preemption happens with "
                                    "flips pending.",
                        .fix = "Set FlipOnVSyncMmIo and program the address there.",
                        .windows = "Windows may refuse the driver."});
    }
  }
  DXGKIT_RETURN_IF_FAILED(check_version_features());
  DXGKIT_RETURN_IF_FAILED(check_caps_entries());
  check_software_key();
  return check_addressing();
}

Status Adapter::check_segments(std::vector<vidmm::SegmentDesc>* segments) {
  SegmentSurroundings around;
  // A type-4 query has no AGP members: nothing was told (SEG-10).
  if (interface_version() < kInterfaceWddm20) around.agp = machine_.agp_aperture(function_);
  for (const bus::Bar& bar : function_.bars()) {
    if (bar.kind == bus::BarKind::kMemory)
      around.largest_memory_bar_bytes = std::max(around.largest_memory_bar_bytes, bar.size);
  }
  std::optional<SegmentRefusal> refusal =
      check_segment_rules(segment_infos_, caps_, interface_version(), around, findings_, segments);
  if (!refusal.has_value()) return Status::kSuccess;
  findings_.report(verifier::Finding{
      .rule = refusal->rule,
      .severity = verifier::Severity::kStartFail,
      .ddi = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)",
      .actual = std::move(refusal->actual),
      .expected = std::move(refusal->expected),
      .fix = std::move(refusal->fix),
      .why = why_segments_break(refusal->rule),
      .windows = "The device does not start (Code 43): DxgkDdiStopDevice and "
                 "DxgkDdiRemoveDevice follow. Which descriptions it refuses is not documented one "
                 "by one."});
  return Status::kDeviceConfigurationError;  // G-19
}

Status Adapter::check_gpu_va_model() {
  const char* ddi = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)";
  std::optional<GpuVaRefusal> refusal = check_addressing_model(caps_);
  if (!refusal.has_value() && !caps_.gpu_mmu_supported) return Status::kSuccess;
  if (!refusal.has_value()) {
    GpuVaModel model;
    DXGKIT_ASSIGN_OR_RETURN_STATUS(model.caps, port_->gpu_va().query_gpu_mmu());
    DXGKIT_RETURN_IF_FAILED(check_gpu_va_entries(model.caps));
    ddi = "DxgkDdiQueryAdapterInfo(GPUMMUCAPS)";
    refusal = check_gpu_mmu(model.caps, segment_infos_, &model.geometry);
    if (!refusal.has_value()) {
      gpu_va_model_ = std::move(model);
      return Status::kSuccess;
    }
  }
  findings_.report(verifier::Finding{.rule = refusal->rule,
                                     .severity = verifier::Severity::kStartFail,
                                     .ddi = ddi,
                                     .actual = std::move(refusal->actual),
                                     .expected = std::move(refusal->expected),
                                     .fix = std::move(refusal->fix),
                                     .why = std::move(refusal->why)});
  return refusal->status;
}

Status Adapter::make_system_objects() {
  if (gpu_va_) gpu_va_->process_begins(0);
  Result<void*> process = port_->objects().create_process(0, /*system=*/true);
  if (!process.has_value()) return process.error();
  system_process_ = *process;
  has_system_process_ = true;
  const Result<port::DeviceInfo> device =
      port_->objects().create_device(0, /*system=*/true, system_process_);
  if (!device.has_value()) return device.error();
  system_device_ = device->handle;
  has_system_device_ = true;
  const NodeOrdinal node{caps_.paging_node};
  system_context_ = system_device_;
  if (caps_.multi_engine_aware) {
    const Result<port::ContextInfo> context = port_->objects().create_context(
        system_device_, 0, node, 1, /*system=*/true, {}, gpu_va_ != nullptr);
    if (!context.has_value()) return context.error();
    system_context_ = context->handle;
    has_system_context_ = true;
  }
  const Result<bus::PageFrame> dummy = machine_.allocate_contiguous(1);
  if (!dummy.has_value()) return dummy.error();
  dummy_page_ = *dummy;
  has_dummy_page_ = true;
  Status status = Status::kSuccess;
  lane_.run([&] {
    paging_context_ = new_context_id();
    trace::emit_name(trace::ObjectClass::kContext, paging_context_.value, "paging");
    status = scheduler_->create_context(paging_context_,
                                        {.node = node, .priority = 0, .is_system = true});
    if (!is_success(status)) return;
    PagingExecutor::Config config;
    config.buffer_bytes = segment_infos_.paging_buffer_bytes;
    config.private_bytes = segment_infos_.paging_private_bytes;
    config.dummy_page = dummy_page_.value * kPageBytes;
    config.system_context = system_context_;
    config.virtual_addresses = gpu_va_ != nullptr;
    config.transfer_chunk_bytes = options_.transfer_chunk_bytes;
    status = paging_->configure(config);
  });
  DXGKIT_RETURN_IF_FAILED(status);
  // Their buffers have addresses of their own.
  if (gpu_va_) return gpu_va_->start(system_process_, system_context_);
  return segment_infos_.paging_buffer_segment == 0 ? Status::kSuccess : map_paging_buffers();
}

Status Adapter::map_paging_buffers() {
  if (gpu_va_) return Status::kSuccess;  // they have virtual addresses
  Status status = Status::kSuccess;
  lane_.run([&] {
    for (size_t i = 0; i < paging_->buffer_count() && is_success(status); ++i) {
      const DmaBuffer& buffer = paging_->buffer(i);
      Allocation& allocation = allocations_.create();
      allocation.size_bytes = align_up(buffer.view.size_bytes, kPageBytes);
      std::vector<bus::PageFrame> pages;
      for (uint64_t page = 0; page < allocation.size_bytes / kPageBytes; ++page)
        pages.push_back(bus::PageFrame{buffer.pages.value + page});
      allocation.pages = FrameList(pages);
      allocation.borrows_pages = true;  // the executor's
      vidmm::AllocationDesc desc;
      desc.size_bytes = allocation.size_bytes;
      desc.alignment_bytes = kPageBytes;
      desc.supported_read = desc.supported_write =
          vidmm::segment_bit(SegmentId{segment_infos_.paging_buffer_segment});
      desc.cpu_visible = true;
      desc.pinned = true;
      status = memory_->create(allocation.id, desc);
      if (!is_success(status)) {
        allocations_.destroy(allocation);
        return;
      }
      memory_->mark_cpu_written(allocation.id);
      const vidmm::Use use{allocation.id, false};
      const auto plan = memory_->make_resident(std::span(&use, 1));
      if (!plan.has_value()) {
        status = plan.error().status;
        DXGKIT_CHECK(memory_->destroy(allocation.id).has_value());
        allocations_.destroy(allocation);
        return;
      }
      paging_buffers_.push_back(allocation.id);
      paging_->enqueue(plan->operations, [this, i, place = plan->placements.front()] {
        paging_->move_buffer(i, place);
      });
    }
    pump();
  });
  // Power may fail meanwhile: then the rest waits for it.
  const bool mapped = block_until([&] { return paging_->idle() || power_->off(); });
  return is_success(status) && !mapped ? Status::kDeviceConfigurationError : status;
}

bool Adapter::is_paging_buffer(AllocationId id) const {
  return std::ranges::find(paging_buffers_, id) != paging_buffers_.end();
}

void Adapter::unmap_paging_buffers() {
  lane_.run([&] {
    for (size_t i = 0; i < paging_buffers_.size(); ++i) {
      paging_->move_buffer(i, vidmm::Placement{});
      if (failed_) continue;
      const vidmm::Use use{paging_buffers_[i], false};
      memory_->release(std::span(&use, 1));
      free_internal(allocations_.at(paging_buffers_[i]));
    }
    paging_buffers_.clear();
    if (!failed_) pump();
  });
  static_cast<void>(block_until([&] { return paging_->idle() || power_->off(); }));
}

void Adapter::destroy_system_objects() {
  if (has_system_context_) static_cast<void>(port_->objects().destroy_context(system_context_));
  if (has_system_device_) static_cast<void>(port_->objects().destroy_device(system_device_));
  if (has_system_process_) static_cast<void>(port_->objects().destroy_process(system_process_));
  has_system_context_ = has_system_device_ = has_system_process_ = false;
}

void Adapter::evict_everything() {
  lane_.run([&] {
    if (failed_) return;
    residency_->let_all_go();
    paging_->set_context(nullptr);
    for (const vidmm::SegmentDesc& segment : memory_->segments()) {
      if (segment.kind != vidmm::SegmentKind::kMemory) continue;
      Result<std::vector<vidmm::PagingOp>> operations =
          memory_->evict_segment(segment.id, vidmm::Pinned::kLeave);  // ALLOC-49
      // What the CPU has locked stays; its owner goes right after.
      if (operations.has_value()) paging_->enqueue(*operations, nullptr);
    }
    pump();
  });
  static_cast<void>(block_until([&] { return paging_->idle(); }));
  lane_.run([&] { paging_->set_context(system_context_); });
}

void Adapter::remove() {
  // First of all the driver is told, beside whatever it is doing.
  bool asleep = false;
  lane_.run([&] { asleep = power_->asleep(); });
  const bool asked_for =
      asleep ? caps_.support_surprise_removal_in_hibernation : caps_.support_surprise_removal;
  Status told = Status::kNotSupported;
  if (asked_for && running()) told = port_->power().notify_surprise_removal(asleep);
  if (!is_success(told) && running()) {
    findings_.report(
        {.rule = "LIFE-21",
         .severity = verifier::Severity::kWarning,
         .ddi = "DxgkDdiNotifySurpriseRemoval",
         .actual = told == Status::kNotSupported
                       ? fmt::format("The driver does not support surprise removal {}.",
                                     asleep ? "in a low-power state" : "of a running adapter")
                       : fmt::format("It answered 0x{:08X}.", static_cast<uint32_t>(told)),
         .expected = "The driver is told, and cleans up in software what the kernel takes back.",
         .fix = asleep ? "Set SupportSurpriseRemovalInHibernation, and return STATUS_SUCCESS."
                       : "From WDDM 2.0 on set SupportSurpriseRemoval, and return STATUS_SUCCESS.",
         .windows = "The system restarts; a driver that sets SupportSurpriseRemoval is stopped "
                    "whatever it answers."});
  }
  trace::emit(trace::EventKind::kAdapterState, luid_.low, 4);
  if (!fatal_.exchange(true)) lane_.run([&] { stop_after_failure(); });
  stop();
}

void Adapter::stop() {
  // LIFE-18: refuse new work; those inside finish (their waits end because devices are lost); then
  // nobody but us is left.
  if (!gate_.close()) return;
  power_->before_stop();
  end_exclusions();
  lane_.run([&] { lose_devices(DeviceState::kStopped); });
  gate_.wait_empty();
  if (residency_) {
    residency_->stop_periodic_trim();
    residency_->trim().stop();
  }
  if (display_) display_->stop();
  const bool healthy = !fatal_.load();
  if (healthy && scheduler_) {
    block_until([&] {
      for (Device* device : devices_) {
        for (Context* context : device->contexts) {
          if (scheduler_->packets_of(context->id()) != 0) return false;
        }
      }
      return paging_->idle();
    });
  }
  // A driver that failed meanwhile is stopped all the same; nothing of ours may wait for its
  // hardware then.
  lane_.run([&] {
    if (fatal_.load()) stop_after_failure();
  });
  if (healthy && memory_) evict_everything();
  std::vector<Ref<Device>> devices;
  lane_.run([&] {
    for (Device* device : devices_) devices.emplace_back(device);
  });
  for (const Ref<Device>& device : devices) device->close_driver_side();
  lane_.run([&] { drop_shared_resources(); });
  if (!fatal_.load() && paging_)
    block_until(
        [&] { return paging_->idle() && teardowns_.empty() && context_allocations_->settled(); });
  lane_.run([&] {
    if (fatal_.load()) stop_after_failure();
  });
  if (!paging_buffers_.empty()) unmap_paging_buffers();
  lane_.run([&] {
    if (!memory_) return;
    for (const vidmm::SegmentDesc& segment : memory_->segments()) {
      DXGKIT_CHECK(failed_ || memory_->usage(segment.id).allocations == 0);  // our BC(10E,C)
    }
  });
  timeout_->stop();
  destroy_system_objects();
  static_cast<void>(stop_device());
  static_cast<void>(port_->life().remove_device());
  timer_.reset();
  quantum_timer_.reset();
  if (gpu_va_) gpu_va_->stop();
  lane_.run([&] {
    failed_ = true;
    paging_.reset();
    give_back(machine_, &graveyard_);
    user_graveyard_.clear();
    trace::emit(trace::EventKind::kAdapterState, luid_.low, 0);
  });
  if (has_dummy_page_) machine_.free_contiguous(dummy_page_, 1);
  display_.reset();
  port_.reset();
  stopped_.set();
}

}  // namespace dxgkit::dxgk
