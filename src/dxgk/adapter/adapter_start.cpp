// Start and stop of an adapter: what is made, in which order, and how it goes again.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/interface_versions.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/adapter/post_display.h"
#include "dxgk/core/graphics_registry.h"
#include "dxgk/display/display.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/residency.h"
#include "dxgk/memory/residency_budget.h"
#include "dxgk/power/power.h"
#include "dxgk/sync/cpu_events.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/hw_suspension.h"
#include "dxgk/work/timeout.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint32_t kMaxVidPnSources = 16;  // D3DKMDT_MAX_VIDPN_SOURCES

/// LIFE-34. `panel`: ChildUid of an integrated panel; none: for the adapter's own interfaces. What
/// the driver answers is judged by the port, and changes nothing here.
void ask_for_interfaces(port::AdapterPort& port, std::optional<uint32_t> panel) {
  if (!port.interfaces().offered()) return;
  port.levels().enter_level_two();
  static_cast<void>(panel.has_value() ? port.interfaces().ask_panel(*panel)
                                      : port.interfaces().ask_adapter());
  port.levels().leave_level_two();
}

}  // namespace

Status Adapter::start() {
  const nt::CallLog log(core_.kernel());
  nt::CallLog::begin_start(&core_.function());
  core_.open_port(callbacks_);
  timeout_->start();
  selection_.start();
  if (const Status status = core_.port().life().add_device(); status != Status::kSuccess) {
    // LIFE-05: "not mine" is no failure of the driver.
    if (status != Status::kNotSupported) {
      collect_info(port::DiagnosticPort::After::kAddDevice);
      rules_.explain_failure("DxgkDdiAddDevice", status);
    }
    nt::CallLog::end_start();
    core_.close_port();
    core_.gate().close();
    return is_success(status) ? Status::kUnsuccessful : status;
  }
  const char* step = "DxgkDdiQueryAdapterInfo(early caps)";  // for explain_failure
  const Status status = core_.display_only() ? start_display_only(&step) : start_full(&step);
  if (is_success(status) && !core_.fatal()) {
    trace::emit(trace::EventKind::kAdapterState, core_.luid().low, 1);
    was_running_ = true;
    if (trace::current() != nullptr && core_.port().has_entry("DxgkDdiControlEtwLogging"))
      logs_events_ = is_success(core_.port().notices().control_etw_logging(true));
    return Status::kSuccess;
  }
  if (!is_success(status)) rules_.explain_failure(step, status);
  nt::CallLog::end_start();
  undo_start();
  return is_success(status) ? Status::kDeviceConfigurationError : status;
}

void Adapter::undo_start() {
  core_.gate().close();
  exclusions_.end();
  if (display_) display_->stop();
  if (paging_buffers_ && !paging_buffers_->empty()) paging_buffers_->unmap();
  timeout_->stop();
  if (system_objects_) system_objects_->destroy();
  if (device_started_) static_cast<void>(stop_device());  // LIFE-12
  static_cast<void>(core_.port().life().remove_device());
  timeout_->end_watch();
  selection_.stop();
  if (gpu_va_) gpu_va_->stop();
  if (system_objects_) system_objects_->free_dummy_page();
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    residency_.reset();
    floor_.residency = nullptr;
    budgets_.reset();
    floor_.budgets = nullptr;
    paging_.reset();
    floor_.paging = nullptr;
    gpu_va_.reset();
    floor_.addresses = nullptr;
    core_.set_scheduler(nullptr);
    core_.set_memory(nullptr);
    backing_pages_.return_kept();
  });
  end_display();
  core_.close_port();
}

void Adapter::tell_runtime_power(port::PowerPort::RuntimePhase phase) {
  if (core_.facts().caps.support_runtime_power_management)
    static_cast<void>(core_.port().power().runtime_notice(phase));
}

void Adapter::collect_info(port::DiagnosticPort::After after) {
  Result<port::CollectedInfo> info = core_.port().diagnostics().collect(after);
  if (info.has_value()) rules_.set_collected(std::move(*info));
}

Status Adapter::start_device() {
  port::PreStartAnswer answer;
  if (core_.port().life().exchange_pre_start(&answer) == Status::kDeviceRemoved)
    return Status::kDeviceRemoved;
  const Result<port::StartInfo> info = core_.port().life().start_device();
  if (!info.has_value()) {  // LIFE-11: only RemoveDevice follows
    collect_info(port::DiagnosticPort::After::kStartDevice);
    return info.error();
  }
  device_started_ = true;
  core_.learn().start = *info;
  if (core_.facts().start.video_present_sources > kMaxVidPnSources) {
    return rules_.refuse("LIFE-09", "DxgkDdiStartDevice",
                         fmt::format("NumberOfVideoPresentSources is {}.",
                                     core_.facts().start.video_present_sources),
                         fmt::format("At most {}; 0 for a render-only adapter.", kMaxVidPnSources),
                         "Write the number of video present sources the hardware has.");
  }
  ask_for_interfaces(core_.port(), std::nullopt);
  return Status::kSuccess;
}

Status Adapter::query_children(const char** step, std::vector<port::ChildInfo>* children) {
  *step = "DxgkDdiQueryChildRelations";
  if (core_.facts().start.children == 0 && core_.facts().start.video_present_sources == 0)
    return Status::kSuccess;
  if (core_.facts().start.video_present_sources != 0)
    DXGKIT_RETURN_IF_FAILED(rules_.check_display_entries());
  DXGKIT_RETURN_IF_FAILED(
      core_.port().children().query_child_relations(core_.facts().start.children, children));
  const auto panel = std::ranges::find(*children, port::ChildInfo::Kind::kIntegratedDisplay,
                                       &port::ChildInfo::kind);
  if (panel != children->end()) ask_for_interfaces(core_.port(), panel->uid);
  return Status::kSuccess;
}

Status Adapter::describe_display(std::vector<port::ChildInfo> children) {
  if (core_.facts().start.video_present_sources == 0) return Status::kSuccess;  // DISP-21
  display_ =
      std::make_unique<Display>(floor_, static_cast<Primaries::Owner&>(*this), std::move(children),
                                core_.facts().start.video_present_sources);
  floor_.display = display_.get();
  floor_.powered_display = display_.get();
  DXGKIT_RETURN_IF_FAILED(display_->describe());
  floor_.flips = display_->flips();
  return Status::kSuccess;
}

void Adapter::end_display() {
  floor_.display = nullptr;
  floor_.flips = nullptr;
  floor_.powered_display = nullptr;
  display_.reset();
}

Status Adapter::start_display_only(const char** step) {
  DXGKIT_RETURN_IF_FAILED(core_.port().caps().query_early_caps());
  *step = "DxgkDdiStartDevice";
  DXGKIT_RETURN_IF_FAILED(start_device());
  std::vector<port::ChildInfo> children;
  DXGKIT_RETURN_IF_FAILED(query_children(step, &children));
  DXGKIT_RETURN_IF_FAILED(describe_display(std::move(children)));
  *step = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)";
  DXGKIT_ASSIGN_OR_RETURN_STATUS(core_.learn().caps, core_.port().caps().query_driver_caps());
  DXGKIT_RETURN_IF_FAILED(rules_.check_display_only_caps());
  DXGKIT_RETURN_IF_FAILED(rules_.check_addressing());
  *step = "DxgkDdiQueryAdapterInfo(DISPLAY_DRIVERCAPS_EXTENSION)";
  DXGKIT_RETURN_IF_FAILED(core_.port().caps().query_extensions({.display = display_ != nullptr}));
  return display_ ? display_->start(step) : Status::kSuccess;
}

Status Adapter::start_full(const char** step) {
  DXGKIT_RETURN_IF_FAILED(core_.port().caps().query_early_caps());
  *step = "DxgkDdiStartDevice";
  DXGKIT_RETURN_IF_FAILED(start_device());
  // Windows asks for the children before it asks for the capabilities.
  std::vector<port::ChildInfo> children;
  DXGKIT_RETURN_IF_FAILED(query_children(step, &children));
  *step = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)";
  DXGKIT_ASSIGN_OR_RETURN_STATUS(core_.learn().caps, core_.port().caps().query_driver_caps());
  DXGKIT_RETURN_IF_FAILED(rules_.check_caps());
  *step = "DxgkDdiQueryAdapterInfo(PHYSICALADAPTERCAPS)";
  DXGKIT_RETURN_IF_FAILED(core_.port().caps().query_extensions(
      {.display = core_.facts().start.video_present_sources != 0, .render = true}));
  // Both exist in the field: a new interface with an old model, which keeps its allocation lists.
  core_.learn().explicit_residency =
      core_.interface_version() >= kInterfaceWddm20 && core_.caps().wddm_version >= kModelWddm20;
  system_objects_ = std::make_unique<SystemObjects>(core_);
  floor_.system_objects = system_objects_.get();
  // Windows was seen to make the system context of a driver of WDDM 1.x before it asks for
  // segments. Later models have questions and host apertures between the two.
  const bool context_first = !core_.facts().explicit_residency && !core_.caps().gpu_mmu_supported;
  if (context_first) DXGKIT_RETURN_IF_FAILED(make_system_objects(step));
  *step = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)";
  DXGKIT_ASSIGN_OR_RETURN_STATUS(core_.learn().segments, core_.port().caps().query_segments());
  std::vector<vidmm::SegmentDesc> segments;
  DXGKIT_RETURN_IF_FAILED(rules_.check_segments(&segments));
  DXGKIT_RETURN_IF_FAILED(rules_.check_host_apertures(step));
  *step = "DxgkDdiQueryAdapterInfo(GPUMMUCAPS)";
  DXGKIT_RETURN_IF_FAILED(rules_.check_gpu_va_model(&gpu_va_model_));
  Status native = Status::kSuccess;
  native_fences_ = NativeFences::make(core_, upward_, &native);
  floor_.native_fences = native_fences_.get();
  cpu_events_ = std::make_unique<CpuEvents>(core_);
  floor_.cpu_events = cpu_events_.get();
  DXGKIT_RETURN_IF_FAILED(native);
  std::vector<vidsch::NodeDesc> nodes;
  *step = "DxgkDdiGetNodeMetadata";
  DXGKIT_RETURN_IF_FAILED(query_nodes(&core_.learn().nodes, &nodes));
  hw_queues_ = HwQueues::make(floor_, core_.facts().nodes, &nodes);
  floor_.hw_queues = hw_queues_.get();
  DXGKIT_RETURN_IF_FAILED(describe_display(std::move(children)));
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { make_parts(segments, nodes); });
  if (core_.caps().support_runtime_power_management) {
    *step = "DxgkDdiQueryAdapterInfo(POWERCOMPONENTINFO)";
    std::vector<port::PowerComponent> components = core_.port().power().query_power_components();
    core_.lane().run(
        [&]() DXGKIT_REQUIRES(on_lane) { component_power_.start(std::move(components)); });
    tell_runtime_power(port::PowerPort::RuntimePhase::kPrepareToStart);
    tell_runtime_power(port::PowerPort::RuntimePhase::kStarted);
  }
  if (hw_queues_) {
    *step = "DxgkDdiSetupPriorityBands";
    DXGKIT_RETURN_IF_FAILED(hw_queues_->start());
  }
  if (!context_first) DXGKIT_RETURN_IF_FAILED(make_system_objects(step));
  *step = StartRules::kStartOfPaging;
  DXGKIT_RETURN_IF_FAILED(system_objects_->start_paging({.paging = *paging_,
                                                         .paging_buffers = *paging_buffers_,
                                                         .submission = *submission_,
                                                         .gpu_va = gpu_va_.get()}));
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { component_power_.look(); });
  return display_ ? display_->start(step) : Status::kSuccess;
}

Status Adapter::make_system_objects(const char** step) {
  *step = "DxgkDdiCreateDevice, DxgkDdiCreateContext (system)";
  return system_objects_->make(floor_.spaces);
}

Status Adapter::query_nodes(std::vector<port::NodeMetadata>* metadata,
                            std::vector<vidsch::NodeDesc>* nodes) {
  const port::DriverCaps& caps = core_.caps();
  const bool may_preempt =  // PREEMPT-18
      graphics_dword(core_.kernel().config(), "Scheduler", "EnablePreemption").value_or(1) != 0;
  metadata->assign(caps.node_count, {});
  for (uint32_t i = 0; i < caps.node_count; ++i) {
    if (core_.interface_version() >= kInterfaceWddm13)
      DXGKIT_RETURN_IF_FAILED(
          core_.port().caps().get_node_metadata(NodeOrdinal{i}, &(*metadata)[i]));
    vidsch::NodeDesc node;
    node.node = NodeOrdinal{i};
    if (caps.hw_queue_packet_cap != 0) node.hardware_queue_depth = caps.hw_queue_packet_cap;
    node.preemptible = caps.preemption_aware && may_preempt;
    nodes->push_back(node);
  }
  return Status::kSuccess;
}

void Adapter::make_parts(const std::vector<vidmm::SegmentDesc>& segments,
                         const std::vector<vidsch::NodeDesc>& nodes) {
  core_.set_memory(std::make_unique<vidmm::MemoryManager>(segments));
  const VerifierSwitches& verifier = core_.options().verifier;
  core_.memory().set_switches({.keep_offers = verifier.has(VerifierSwitch::kNeverDiscardOffer),
                               .no_demotion = verifier.has(VerifierSwitch::kNoDemotion),
                               .fail_compaction = verifier.has(VerifierSwitch::kFailDefragPass)});
  paging_ = std::make_unique<PagingExecutor>(paging_steps_, core_.port(), core_.machine());
  floor_.paging = paging_.get();
  budgets_ = std::make_unique<Budgets>(floor_);
  floor_.budgets = budgets_.get();
  residency_ = std::make_unique<Residency>(floor_, upward_, *budgets_);
  floor_.residency = residency_.get();
  context_allocations_ = std::make_unique<ContextAllocations>(floor_);
  floor_.context_allocations = context_allocations_.get();
  cpu_windows_ = std::make_unique<CpuWindows>(floor_);
  floor_.cpu_windows = cpu_windows_.get();
  if (gpu_va_model_) {
    gpu_va_ =
        std::make_unique<GpuVa>(floor_, static_cast<GpuVa::Owner&>(*this), gpu_va_model_->geometry);
    floor_.addresses = &upward_;
  }
  teardowns_ =
      std::make_unique<Teardowns>(core_, static_cast<Teardowns::Owner&>(*this),
                                  Teardowns::Parts{.allocations = floor_.allocations,
                                                   .listing_changes = floor_.listing_changes,
                                                   .paging = *paging_,
                                                   .residency = *residency_,
                                                   .cpu_windows = *cpu_windows_,
                                                   .backing = backing_pages_});
  floor_.teardowns = teardowns_.get();
  offers_ = std::make_unique<Offers>(core_, floor_.allocations, *paging_, *residency_);
  floor_.offers = offers_.get();
  paging_buffers_ =
      std::make_unique<PagingBuffers>(core_, floor_.allocations, *paging_, *teardowns_);
  floor_.paging_buffers = paging_buffers_.get();
  faults_ = std::make_unique<Faults>(core_, floor_.fault_explainer, *timeout_);
  floor_.faults = faults_.get();
  submission_ =
      std::make_unique<Submission>(core_, static_cast<Submission::Owner&>(*this),
                                   Submission::Parts{.paging = *paging_,
                                                     .residency = *residency_,
                                                     .context_allocations = *context_allocations_,
                                                     .timeout = *timeout_,
                                                     .faults = *faults_,
                                                     .table_eviction = floor_.table_eviction,
                                                     .hw_queues = hw_queues_.get()});
  floor_.submission = submission_.get();
  core_.set_scheduler(std::make_unique<vidsch::Scheduler>(*submission_, nodes));
  core_.scheduler().set_clock([this] { return core_.runtime().now(); });
  processes_ = std::make_unique<DriverProcesses>(core_, *timeout_, floor_.spaces);
  floor_.processes = processes_.get();
  reports_.connect(*faults_, hw_queues_.get(), native_fences_.get());
  context_allocation_calls_.connect(*context_allocations_, gpu_va_.get());
  for (const vidmm::SegmentDesc& segment : segments) {
    trace::emit(trace::EventKind::kSegment, core_.luid().low, segment.id.value,
                segment.base_address, segment.size_bytes);
  }
}

void Adapter::evict_everything() {
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (core_.failed()) return;
    residency_->let_all_go();
    paging_->set_context(nullptr);
    for (const vidmm::SegmentDesc& segment : core_.memory().segments()) {
      if (segment.kind != vidmm::SegmentKind::kMemory) continue;
      Result<std::vector<vidmm::PagingOp>> operations =
          core_.memory().evict_segment(segment.id, vidmm::Pinned::kLeave);  // ALLOC-49
      // What the CPU has locked stays; its owner goes right after.
      if (operations.has_value()) paging_->enqueue(*operations, nullptr);
    }
    core_.pump();
  });
  static_cast<void>(core_.block_until([&]() DXGKIT_REQUIRES(on_lane) { return paging_->idle(); }));
  core_.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { paging_->set_context(system_objects_->context()); });
}

Status Adapter::stop_device() {
  device_started_ = false;
  const std::optional<bus::PostDisplay> post = core_.function().post_display();
  const bool shows = display_ != nullptr && post.has_value();
  if (shows && !core_.fatal() &&
      port::display_caps_of(core_.caps(), core_.interface_version()).support_non_vga) {
    port::DisplayInformation left;  // LIFE-19
    if (is_success(
            core_.port().life().stop_device_and_release(display_->active().post_target(), &left))) {
      keep_post_display(core_, *post, left, display_->monitors().manager().profile().targets);
      return Status::kSuccess;
    }
  }
  return core_.port().life().stop_device();
}

void Adapter::remove() {
  // First of all the driver is told, beside whatever it is doing.
  bool asleep = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { asleep = core_.power_phase().asleep(); });
  const bool asked_for = asleep ? core_.caps().support_surprise_removal_in_hibernation
                                : core_.caps().support_surprise_removal;
  Status told = Status::kNotSupported;
  if (asked_for && core_.running()) told = core_.port().power().notify_surprise_removal(asleep);
  if (!is_success(told) && core_.running()) {
    core_.findings().report(
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
  trace::emit(trace::EventKind::kAdapterState, core_.luid().low, 4);
  if (core_.become_fatal())
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { stop_after_failure(); });
  stop();
}

void Adapter::stop() {
  // LIFE-18: refuse new work; those inside finish (their waits end because devices are lost); then
  // nobody but us is left.
  if (!core_.gate().close()) return;
  power_->before_stop();
  exclusions_.end();
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { lose_devices(DeviceState::kStopped); });
  core_.gate().wait_empty();
  if (budgets_) {
    budgets_->stop_periodic_trim();
    budgets_->trim().stop();
  }
  if (display_) display_->stop();
  const bool healthy = !core_.fatal();
  if (healthy && core_.has_scheduler()) {
    core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
      for (Device* device : floor_.devices) {
        for (Context* context : device->contexts) {
          if (core_.scheduler().packets_of(context->id()) != 0) return false;
        }
      }
      return paging_->idle();
    });
  }
  if (healthy && core_.has_memory()) evict_everything();
  std::vector<Ref<Device>> devices;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (Device* device : floor_.devices) devices.emplace_back(device);
  });
  for (const Ref<Device>& device : devices) device->close_driver_side();
  protected_sessions_.stop();
  if (native_fences_) native_fences_->stop();
  if (cpu_events_) cpu_events_->stop();
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (teardowns_) teardowns_->end_shared_resources();
  });
  if (!core_.fatal() && paging_)
    core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
      return paging_->idle() && teardowns_->empty() && context_allocations_->settled();
    });
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (core_.fatal()) stop_after_failure();
  });
  if (paging_buffers_ && !paging_buffers_->empty()) paging_buffers_->unmap();
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!core_.has_memory()) return;
    for (const vidmm::SegmentDesc& segment : core_.memory().segments()) {
      DXGKIT_CHECK(core_.failed() ||
                   core_.memory().usage(segment.id).allocations == 0);  // our BC(10E,C)
    }
  });
  timeout_->stop();
  if (system_objects_) system_objects_->destroy();
  tell_runtime_power(port::PowerPort::RuntimePhase::kStopped);
  if (logs_events_) static_cast<void>(core_.port().notices().control_etw_logging(false));
  static_cast<void>(stop_device());
  static_cast<void>(core_.port().life().remove_device());
  timeout_->end_watch();
  selection_.stop();
  if (gpu_va_) gpu_va_->stop();
  std::vector<Ref<HwContext>> kept;  // of one that fell asleep and failed; it would keep itself
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    core_.set_failed();
    if (hw_queues_) kept = hw_queues_->suspension().give_up();
    paging_.reset();
    floor_.paging = nullptr;
    backing_pages_.return_kept();
    trace::emit(trace::EventKind::kAdapterState, core_.luid().low, 0);
  });
  if (system_objects_) system_objects_->free_dummy_page();
  end_display();
  core_.close_port();
  core_.set_stopped();
}

}  // namespace dxgkit::dxgk
