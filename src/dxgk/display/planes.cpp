#include "dxgk/display/planes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "dxgk/display/display_level_two.h"
#include "dxgk/display/display_worker.h"
#include "dxgk/display/surface_pins.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/timeout.h"

namespace dxgkit::dxgk {
namespace {

constexpr const char* kSetName = "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay";

}  // namespace

/// A present between D3DKMTPresentMultiPlaneOverlay and the vertical sync that shows its planes.
struct Planes::Present {
  struct One {
    Ref<OpenedAllocation> surface;  // pinned, in use; null: the plane is switched off
    uint32_t interval = 1;
    bool done = false;
    std::vector<std::byte> private_data;
  };
  enum class State {
    kAnnounced,  // its contexts have work before it
    kReached,
    kDraining,  // the driver wants older flips to end first
    kAsked,     // the driver wants the call at PASSIVE_LEVEL; the worker makes it
    kHardware,
  };
  uint64_t id = 0;
  State state = State::kAnnounced;
  Device* device = nullptr;
  uint32_t unreached = 0;
  bool all_planes = false, all_sources = false, at_passive = false;  // while it drains
  port::PlaneSettings settings;
  std::vector<One> planes;  // as settings.planes
};

struct Planes::Plane {
  Ref<OpenedAllocation> shown;  // pinned; null: the plane is off
  uint64_t address = 0, present_id = 0;
  uint64_t syncs = 0;  // since the one that began to show it
  SyncObjectId fence;  // its value: the last present that is over here
};

struct Planes::Source {
  explicit Source(uint32_t id_in) : id(id_in) {}
  const uint32_t id;
  std::map<uint32_t, Plane> planes;  // by layer; those that were ever set in this mode
  std::deque<Present> presents;      // by id
  bool active = false;
  bool disabled = false;
};

struct Planes::Work {
  uint32_t source = 0;
  uint64_t present = 0;  // to be set; 0: only told that it is on the screen
  uint32_t target = 0, layer = 0;
  uint64_t present_id = 0;
};

Planes::Planes(DisplayCore& display, DisplayWorker& worker, Owner& owner)
    : display_(display), core_(display.core()), worker_(worker), owner_(owner) {
  const port::FlipCaps caps = port::flip_caps_of(core_.caps(), core_.interface_version());
  if (core_.port().planes().version() != port::PlaneVersion::kNone) most_ = caps.max_overlay_planes;
  hw_queue_ = caps.max_hw_queued > 1;
  depth_ = std::max(caps.max_hw_queued, 1U);
  immediate_ = caps.immediate_planes;
  no_wait_ = caps.on_vsync_with_no_wait;
  for (uint32_t id = 0; id < display.source_count(); ++id)
    sources_.push_back(std::make_unique<Source>(id));
}

Planes::~Planes() = default;

// --- presents; the caller's thread

Status Planes::present(const PlanePresent& request) {
  Context& context = *request.contexts.front();
  Device& device = context.device();
  const RenderTurns::Turn turn(context.turns());
  if (turn.over()) return Status::kInvalidParameter;
  Status status = Status::kSuccess;
  const bool admitted = core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    status = device.lost() ? Status::kDeviceRemoved : Status::kSuccess;
    if (!is_success(status)) return true;
    if (owner_.pending_flips(device) + pending(device) < device.flip_limit) return true;
    if (request.do_not_wait) status = Status::kGraphicsAllocationBusy;
    return request.do_not_wait;
  });
  if (!admitted) status = Status::kDeviceRemoved;
  DXGKIT_RETURN_IF_FAILED(status);
  bool pinned = false;
  const bool asked = core_.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    status = device.lost() ? Status::kDeviceRemoved : prepare(request, &pinned);
    return status != Status::kRetry;
  });
  if (!asked) status = Status::kDeviceRemoved;
  if (is_success(status)) status = tell_driver(request);
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (device.lost()) status = Status::kDeviceRemoved;
    if (is_success(status) && owner_.mode(request.source) != request.mode)
      status = Status::kGraphicsAllocationInvalid;
    if (is_success(status)) {
      queue(request);
      return;
    }
    if (pinned) unprepare(request);
    if (status == Status::kGraphicsGpuExceptionOnDevice)  // REND-15
      device.set_error(DeviceState::kErrorDmaFault);
  });
  return status;
}

Status Planes::prepare(const PlanePresent& request, bool* pinned) {
  const Source& source = *sources_[request.source];
  if (core_.failed()) return Status::kDeviceRemoved;
  if (owner_.mode(request.source) != request.mode)
    return Status::kGraphicsAllocationInvalid;  // DISP-17
  if (source.disabled) return Status::kInvalidParameter;
  std::vector<vidmm::Use> uses;
  for (const PlanePresent::Plane& one : request.planes) {
    if (!one.surface) continue;
    if (one.surface->closing) return Status::kInvalidParameter;
    uses.push_back({one.surface->allocation->id, false});
  }
  if (!*pinned && !uses.empty()) {
    const auto plan = display_.floor().residency->make_resident(uses);
    if (!plan.has_value()) {
      return plan.error().status == Status::kGraphicsAllocationBusy ? Status::kRetry
                                                                    : plan.error().status;
    }
    *pinned = true;
    for (const PlanePresent::Plane& one : request.planes) {
      if (one.surface) ++one.surface->uses;
    }
    display_.floor().paging->enqueue(plan->operations, nullptr);
    core_.pump();
  }
  const bool there = std::ranges::all_of(uses, [&](const vidmm::Use& use) DXGKIT_REQUIRES(on_lane) {
    return core_.memory().pending_operations(use.allocation) == 0;
  });
  return there ? Status::kSuccess : Status::kRetry;
}

void Planes::unprepare(const PlanePresent& request) {
  for (const PlanePresent::Plane& one : request.planes) {
    if (!one.surface) continue;
    --one.surface->uses;
    Ref<OpenedAllocation> surface = one.surface;
    let_go(surface);
  }
  core_.progress();
}

/// DxgkDdiPresent, without a DMA buffer.
Status Planes::tell_driver(const PlanePresent& request) {
  port::PresentArgs args;
  args.context = request.contexts.front()->driver_handle();
  args.flags.flip = true;
  args.flags.flip_with_no_wait = no_wait_;
  args.vidpn_source = request.source;
  std::vector<port::PresentPlane> planes;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (const PlanePresent::Plane& one : request.planes) {
      args.flip_interval = std::max(args.flip_interval, one.interval);
      port::PresentPlane plane{.layer = one.layer, .enabled = one.enabled};
      if (one.surface) {
        const vidmm::Placement place = core_.memory().placement(one.surface->allocation->id);
        plane.device_specific = one.surface->device_specific;
        plane.segment = place.segment.value;
        plane.address = place.gpu_address;
      }
      planes.push_back(plane);
    }
  });
  args.planes = planes;
  const Status status = core_.port().rendering().present(args).status;
  return status == Status::kGraphicsInsufficientDmaBuffer ? Status::kInvalidParameter : status;
}

Planes::Plane& Planes::plane(Source& source, uint32_t layer) {
  const auto [found, made] = source.planes.try_emplace(layer);
  if (made) {
    vidsch::SyncDesc desc;
    desc.kind = vidsch::SyncKind::kMonitoredFence;
    found->second.fence = core_.new_sync_object_id();
    DXGKIT_CHECK(is_success(core_.scheduler().sync_objects().create(found->second.fence, desc)));
  }
  return found->second;
}

void Planes::queue(const PlanePresent& request) {
  Source& source = *sources_[request.source];
  Present& present = source.presents.emplace_back();
  present.id = owner_.new_flip_id();
  present.device = &request.contexts.front()->device();
  present.unreached = static_cast<uint32_t>(request.contexts.size());
  present.settings.source = request.source;
  present.settings.duration_100ns = request.duration_100ns;
  present.settings.post_composition = request.post_composition;
  for (const Ref<Context>& context : request.contexts)
    present.settings.contexts.push_back(context->driver_handle());
  for (const PlanePresent::Plane& one : request.planes) {
    present.planes.push_back(
        {.surface = one.surface, .interval = one.interval, .private_data = one.private_data});
    port::PlaneSetting setting;
    setting.layer = one.layer;
    setting.enabled = one.enabled;
    setting.immediate = one.interval == 0 && immediate_;
    setting.present_id = present.id;
    setting.max_flip_line = one.max_flip_line;
    setting.attributes = one.attributes;
    if (one.surface) {
      const vidmm::Placement place = core_.memory().placement(one.surface->allocation->id);
      setting.allocation = one.surface->driver_allocation;
      setting.segment = place.segment.value;
      setting.address = core_.segment_infos().segments.at(place.segment.value - 1).base_address +
                        place.offset_bytes;
    }
    present.settings.planes.push_back(std::move(setting));
    static_cast<void>(plane(source, one.layer));
  }
  for (size_t i = 0; i < present.planes.size(); ++i)
    present.settings.planes[i].private_data = present.planes[i].private_data;
  Submission& submission = *display_.floor().submission;
  for (const Ref<Context>& context : request.contexts) {
    Packet& reached = submission.packets().create();
    reached.kind = vidsch::PacketKind::kSignal;
    reached.context = context.get();
    reached.flip = present.id;
    reached.vidpn_source = request.source;
    submission.queue(reached);
    if (no_wait_) continue;
    Packet& shown = submission.packets().create();  // DISP-05
    shown.kind = vidsch::PacketKind::kWait;
    shown.context = context.get();
    for (const PlanePresent::Plane& one : request.planes) {
      if (one.interval != 0)
        shown.points.push_back({source.planes.at(one.layer).fence, present.id, false});
    }
    submission.queue(shown);
  }
  core_.pump();
}

// --- the lane

void Planes::let_go(Ref<OpenedAllocation>& surface) {
  if (!surface) return;
  unpin_surface(core_, *surface);
  surface = Ref<OpenedAllocation>();
}

void Planes::reached(uint64_t id, bool completed) {
  for (const auto& source : sources_) {
    const auto found = std::ranges::find(source->presents, id, &Present::id);
    if (found == source->presents.end()) continue;
    if (!completed) {
      if (found->state != Present::State::kAnnounced) return;
      for (size_t i = 0; i < found->planes.size(); ++i) plane_done(*source, *found, i, false);
      drop_finished(*source);
      advance(*source);
      return;
    }
    if (found->unreached == 0 || --found->unreached != 0) return;
    found->state = Present::State::kReached;
    owner_.planes_need_vsync(source->id);
    advance(*source);
    return;
  }
}

bool Planes::in_hardware(const Source& source) const {
  return std::ranges::any_of(source.presents, [](const Present& present) {
    return present.state == Present::State::kHardware;
  });
}

/// Presents of one plane go in order, as many at once as its queue in hardware takes. Another
/// plane's do not matter.
bool Planes::may_go(const Source& source, size_t index) const {
  const Present& present = source.presents[index];
  if (present.state == Present::State::kDraining) {
    const bool waits = std::ranges::any_of(sources_, [&](const auto& other) {
      if (other.get() != &source && !present.all_sources) return false;
      return std::ranges::any_of(other->presents, [&](const Present& before) {
        if (before.state != Present::State::kHardware) return false;
        if (present.all_planes || present.all_sources) return true;
        return std::ranges::any_of(before.settings.planes, [&](const port::PlaneSetting& one) {
          return std::ranges::find(present.settings.planes, one.layer,
                                   &port::PlaneSetting::layer) != present.settings.planes.end();
        });
      });
    });
    return !waits;
  }
  if (present.state != Present::State::kReached) return false;
  for (size_t i = 0; i < present.planes.size(); ++i) {
    uint32_t before = 0;
    for (size_t j = 0; j < index; ++j) {
      const Present& older = source.presents[j];
      const auto same = std::ranges::find(older.settings.planes, present.settings.planes[i].layer,
                                          &port::PlaneSetting::layer);
      if (same == older.settings.planes.end()) continue;
      const auto at = static_cast<size_t>(same - older.settings.planes.begin());
      if (older.planes[at].done) continue;
      if (older.state != Present::State::kHardware) return false;
      ++before;
    }
    if (before >= depth_) return false;
    // DISP-04: the picture before it has been shown long enough at the next vertical sync.
    if (present.planes[i].interval <= 1) continue;
    const Plane& now = source.planes.at(present.settings.planes[i].layer);
    if (before != 0 || now.syncs + 1 < present.planes[i].interval) return false;
  }
  return true;
}

void Planes::advance(Source& source) {
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < source.presents.size(); ++i) {
      if (!may_go(source, i)) continue;
      program(source, source.presents[i]);
      drop_finished(source);
      again = true;
      break;
    }
  }
  core_.progress();
}

void Planes::program(Source& source, Present& present) {
  source.active = true;
  if (present.at_passive) {
    present.state = Present::State::kAsked;
    work_.push_back({.source = source.id, .present = present.id});
    worker_.wake();
    return;
  }
  present.settings.target_time = static_cast<uint64_t>(core_.runtime().now());
  port::PlaneAnswer answer;
  const Status status =
      core_.port().planes().set(present.settings, port::PlanesPort::Where::kDeviceLevel, &answer);
  answered(source, present, status, answer, /*at_passive=*/false);
}

void Planes::answered(Source& source, Present& present, Status status,
                      const port::PlaneAnswer& answer, bool at_passive) {
  if (is_success(status)) {
    present.state = Present::State::kHardware;
    for (size_t i = 0; i < present.planes.size(); ++i) {
      const port::PlaneOutcome outcome =
          i < answer.planes.size() ? answer.planes[i] : port::PlaneOutcome{};
      const bool at_once = present.settings.planes[i].immediate || outcome.at_once;
      if (!at_once || outcome.completes_by_report) continue;
      if (outcome.post_present) {
        work_.push_back({.source = source.id,
                         .target = owner_.leading_target(source.id).value_or(0),
                         .layer = present.settings.planes[i].layer,
                         .present_id = present.id});
        worker_.wake();
      }
      plane_done(source, present, i, true);
    }
    return;
  }
  if (status == Status::kRetry) {
    // PrePresentNeeded alone: at once, at PASSIVE_LEVEL. A driver asks for that once.
    if (answer.at_passive_level && !answer.drain && !at_passive) {
      present.state = Present::State::kAsked;
      work_.push_back({.source = source.id, .present = present.id});
      worker_.wake();
      return;
    }
    const bool something_pends =
        answer.drain_all_sources
            ? std::ranges::any_of(sources_, [&](const auto& one) DXGKIT_REQUIRES(
                                                on_lane) { return in_hardware(*one); })
            : in_hardware(source);
    if (something_pends) {
      present.state = Present::State::kDraining;
      present.at_passive = answer.at_passive_level;
      present.all_sources = answer.drain_all_sources;
      // Asked again after the flips of its own planes, it may still have to wait for the others.
      present.all_planes = answer.drain_all_planes || !answer.drain || present.all_planes;
      if (!may_go(source,
                  static_cast<size_t>(std::ranges::find(source.presents, present.id, &Present::id) -
                                      source.presents.begin())))
        return;
      present.all_planes = true;
      return;
    }
  }
  refused(source, present, status);
}

void Planes::refused(Source& source, Present& present, Status status) {
  const bool retry = status == Status::kRetry;
  const std::string actual =
      retry ? fmt::format("It returned STATUS_RETRY while no flip of source {} was pending.",
                          source.id)
            : fmt::format("It returned {:#010x} for {} plane{} of source {}.",
                          static_cast<uint32_t>(to_ntstatus(status)), present.planes.size(),
                          present.planes.size() == 1 ? "" : "s", source.id);
  for (size_t i = 0; i < present.planes.size(); ++i) plane_done(source, present, i, false);
  if (status == Status::kDeviceRemoved) return;
  verifier::Finding finding;
  finding.ddi = kSetName;
  finding.actual = actual;
  // In the model of hardware flip queues the kernel takes either for a hang.
  if (retry || (hw_queue_ && status == Status::kInvalidParameter)) {
    finding.rule = retry ? "DISP-20" : "DISP-28";
    finding.severity = verifier::Severity::kViolation;
    finding.expected = "STATUS_RETRY means that flips before this one are in the way.";
    finding.fix = "Program the planes at once if the queue is empty.";
    finding.windows = "The flip is lost, and the adapter is reset.";
    core_.findings().report(std::move(finding));
    display_.floor().timeout->require_adapter_reset(NodeOrdinal{0}, actual);
    return;
  }
  finding.rule = "DISP-28";
  finding.severity = verifier::Severity::kBugCheck;
  finding.expected = "STATUS_SUCCESS: a configuration that was checked can be shown.";
  finding.fix =
      "Answer unsupported configurations in DxgkDdiCheckMultiPlaneOverlaySupport, and show what "
      "was found supported.";
  finding.bugcheck_code = 0x119;
  finding.bugcheck_parameter = 0xB;
  core_.fail(std::move(finding));
}

void Planes::plane_done(Source& source, Present& present, size_t index, bool shown) {
  Present::One& one = present.planes[index];
  if (std::exchange(one.done, true)) return;
  const port::PlaneSetting& setting = present.settings.planes[index];
  Plane& plane = source.planes.at(setting.layer);
  if (one.surface) --one.surface->uses;
  if (shown) {
    Ref<OpenedAllocation> before = std::move(plane.shown);
    plane.shown = std::move(one.surface);
    plane.address = setting.enabled ? setting.address : 0;
    plane.present_id = present.id;
    plane.syncs = 0;
    let_go(before);
  } else {
    let_go(one.surface);
  }
  if (core_.failed()) return;
  const vidsch::SyncPoint point{plane.fence, present.id, false};
  if (core_.scheduler().sync_objects().value(plane.fence) < present.id)
    static_cast<void>(core_.scheduler().sync_objects().signal(std::span(&point, 1)));
}

void Planes::drop_finished(Source& source) {
  std::erase_if(source.presents, [](const Present& present) {
    return std::ranges::all_of(present.planes, &Present::One::done);
  });
}

bool Planes::active(uint32_t source) const {
  return source < sources_.size() && sources_[source]->active;
}

bool Planes::needs_vsync(uint32_t source) const {
  return source < sources_.size() &&
         std::ranges::any_of(sources_[source]->presents, [](const Present& present) {
           return present.state != Present::State::kAnnounced;
         });
}

void Planes::on_vsync(uint32_t source_id, const port::InterruptReport& report) {
  Source& source = *sources_[source_id];
  for (auto& [layer, plane] : source.planes) ++plane.syncs;
  for (auto& [layer, plane] : source.planes) {
    const auto told = std::ranges::find(report.shown_planes, layer, &port::ShownPlane::layer);
    const bool named = told != report.shown_planes.end();
    // The last present of this plane in hardware whose picture is the one that is reported.
    Present* newest = nullptr;
    for (Present& present : source.presents) {
      if (present.state != Present::State::kHardware) continue;
      for (size_t i = 0; i < present.planes.size(); ++i) {
        const port::PlaneSetting& setting = present.settings.planes[i];
        if (setting.layer != layer || present.planes[i].done) continue;
        const bool here = !setting.enabled ? !named || !told->enabled || told->by_id
                          : !named         ? false
                          : told->by_id    ? told->present_id >= setting.present_id
                                           : told->enabled && told->address == setting.address;
        if (here) newest = &present;
      }
    }
    const bool known = !named || newest != nullptr ||
                       (told->by_id ? told->present_id <= plane.present_id
                                    : !told->enabled || told->address == plane.address ||
                                          (!plane.shown && plane.present_id == 0));
    if (!known) {
      core_.findings().report(verifier::Finding{
          .rule = "DISP-29",
          .severity = verifier::Severity::kViolation,
          .ddi = "DxgkCbNotifyInterrupt",
          .actual = told->by_id
                        ? fmt::format("A vertical sync reports present {} on plane {} of source "
                                      "{}, which shows present {}.",
                                      told->present_id, layer, source.id, plane.present_id)
                        : fmt::format("A vertical sync reports {:#x} on plane {} of source {}, "
                                      "which shows {:#x}.",
                                      told->address, layer, source.id, plane.address),
          .expected = "Each plane reports what it shows, or a flip that was programmed.",
          .fix = "Keep what was programmed for each plane, and report it from the vertical sync "
                 "on that takes it over."});
    }
    if (newest == nullptr) continue;
    if (named && told->by_id && told->post_present) {
      work_.push_back({.source = source.id,
                       .target = report.source,
                       .layer = layer,
                       .present_id = told->present_id});
      worker_.wake();
    }
    for (Present& present : source.presents) {
      if (present.id > newest->id) continue;  // those before it with this plane are in hardware
      for (size_t i = 0; i < present.planes.size(); ++i) {
        if (present.settings.planes[i].layer == layer && !present.planes[i].done)
          plane_done(source, present, i, &present == newest);
      }
    }
  }
  drop_finished(source);
  for (const auto& one : sources_) advance(*one);  // one may have waited for all sources
}

void Planes::reset(uint32_t source_id) {
  if (source_id >= sources_.size()) return;
  Source& source = *sources_[source_id];
  source.active = false;
  for (Present& present : source.presents) {
    for (size_t i = 0; i < present.planes.size(); ++i) plane_done(source, present, i, false);
  }
  source.presents.clear();
  std::erase_if(work_, [&](const Work& work) { return work.source == source_id; });
  for (auto& [layer, plane] : source.planes) {
    let_go(plane.shown);
    plane.address = plane.present_id = plane.syncs = 0;
  }
  core_.progress();
}

std::optional<uint32_t> Planes::shows(const OpenedAllocation& opened) const {
  for (const auto& source : sources_) {
    for (const auto& [layer, plane] : source->planes) {
      if (plane.shown.get() == &opened) return source->id;
    }
    for (const Present& present : source->presents) {
      for (const Present::One& one : present.planes) {
        if (one.surface.get() == &opened) return source->id;
      }
    }
  }
  return std::nullopt;
}

std::optional<vidsch::SyncPoint> Planes::before_write(const OpenedAllocation& opened) const {
  const Allocation* const written = opened.allocation;
  for (const auto& source : sources_) {
    for (const auto& [layer, plane] : source->planes) {
      bool on_screen = plane.shown && plane.shown->allocation == written;
      uint64_t leaves = 0;
      for (const Present& present : source->presents) {
        for (size_t i = 0; i < present.planes.size(); ++i) {
          if (present.settings.planes[i].layer != layer || present.planes[i].done) continue;
          const Ref<OpenedAllocation>& surface = present.planes[i].surface;
          if (surface && surface->allocation == written) {
            on_screen = true;
            leaves = 0;
          } else if (on_screen) {
            leaves = present.id;
            on_screen = false;
          }
        }
      }
      if (leaves != 0) return vidsch::SyncPoint{plane.fence, leaves, false};
    }
  }
  return std::nullopt;
}

uint32_t Planes::pending(const Device& device) const {
  uint32_t count = 0;
  for (const auto& source : sources_) {
    for (const Present& present : source->presents) count += present.device == &device ? 1 : 0;
  }
  return count;
}

void Planes::set_disabled(uint32_t source, bool disabled) {
  if (source < sources_.size()) sources_[source]->disabled = disabled;
}

// --- the display worker's thread

bool Planes::work() {
  std::optional<Work> next;
  port::PlaneSettings settings;
  std::vector<std::vector<std::byte>> private_data;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (work_.empty()) return;
    next = std::move(work_.front());
    work_.pop_front();
    if (next->present == 0) return;
    for (const Present& present : sources_[next->source]->presents) {
      if (present.id != next->present) continue;
      settings = present.settings;
      for (size_t i = 0; i < present.planes.size(); ++i) {
        private_data.push_back(present.planes[i].private_data);
        settings.planes[i].private_data = private_data.back();
      }
    }
  });
  if (!next.has_value()) return false;
  if (next->present == 0) {
    static_cast<void>(
        core_.port().planes().post_present(next->target, next->layer, next->present_id));
    return true;
  }
  if (settings.planes.empty()) return true;  // its mode is over
  settings.target_time = static_cast<uint64_t>(core_.runtime().now());
  port::PlaneAnswer answer;
  const Status status = level_two(display_.floor(), [&] {
    return core_.port().planes().set(settings, port::PlanesPort::Where::kPassiveLevel, &answer);
  });
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    Source& source = *sources_[next->source];
    const auto found = std::ranges::find(source.presents, next->present, &Present::id);
    if (found == source.presents.end()) return;
    answered(source, *found, status, answer, /*at_passive=*/true);
    drop_finished(source);
    advance(source);
  });
  return true;
}

}  // namespace dxgkit::dxgk
