#include "dxgk/display/flips.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "dxgk/display/display_level_two.h"
#include "dxgk/display/display_worker.h"
#include "dxgk/display/monitors.h"
#include "dxgk/display/surface_pins.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"

namespace dxgkit::dxgk {
namespace {

const Ref<OpenedAllocation> kNothing;

void report_wrong_vsync(AdapterCore& core, const char* rule, std::string actual,
                        std::string expected, std::string fix, uint32_t bugcheck_parameter) {
  verifier::Finding finding;
  finding.rule = rule;
  finding.severity = verifier::Severity::kViolation;
  finding.ddi = "DxgkCbNotifyInterrupt";
  finding.actual = std::move(actual);
  finding.expected = std::move(expected);
  finding.fix = std::move(fix);
  if (bugcheck_parameter == 0) {
    core.findings().report(std::move(finding));
    return;
  }
  finding.severity = verifier::Severity::kBugCheck;
  finding.bugcheck_code = 0x119;
  finding.bugcheck_parameter = bugcheck_parameter;
  core.fail(std::move(finding));
}

}  // namespace

/// A flip between D3DKMTPresent and the vertical sync that shows it.
struct Flips::Record {
  uint64_t id = 0;
  Ref<OpenedAllocation> surface;  // pinned, in use
  Ref<OpenedAllocation> leaves;   // in use until this one is shown: a client's, or null
  Device* device = nullptr;
  SegmentId segment;
  uint64_t address = 0;
  std::vector<void*> contexts;  // driver's handles
  uint32_t unreached = 0;
  bool synced = false;  // programmed for the next vertical sync
};

struct Flips::Source : vidsch::FlipPort {
  Source(Flips& owner_in, uint32_t id_in, uint32_t depth)
      : owner(owner_in), id(id_in), queue(*this, depth) {}
  void program(const vidsch::FlipRequest& flip, bool at_once) override DXGKIT_REQUIRES(on_lane) {
    owner.program(*this, flip, at_once);
  }
  void done(const vidsch::FlipRequest& flip) override { finished.push_back(flip.id); }
  Record* record(uint64_t flip) {
    const auto found = std::ranges::find(records, flip, &Record::id);
    return found == records.end() ? nullptr : &*found;
  }

  Flips& owner;
  const uint32_t id;
  vidsch::FlipQueue queue;
  std::deque<Record> records;      // by id
  std::vector<uint64_t> finished;  // by the queue, not yet acted on
  SyncObjectId done_fence;         // its value: the last flip that is over
  bool has_fence = false;
  Ref<OpenedAllocation> screen;  // a client's, pinned; null: the kernel's own, or nothing
  bool screen_pinned = false;
  std::vector<uint32_t> targets;  // the first leads
  bool shown = false;
  uint64_t vsyncs = 0;
  uint64_t frames = 0, cancelled = 0;  // flips that were shown, and those that were not
  int64_t vsync_ns = 0;                // of the last vertical sync
  uint64_t frame_vsync = 0;            // `vsyncs` when the last flip was shown
  uint32_t waiters = 0;                // for the vertical sync that comes next
  uint32_t idle_syncs = 0;             // whole periods without activity, the latest (DISP-12)
  bool active = false;                 // something was to do in the period that is running
  bool clients_mode = false;
  uint64_t mode = 1;  // counts what was shown otherwise than by flips
};

struct Flips::Work {
  enum class Kind { kVsync, kAddress };
  Kind kind = Kind::kVsync;
  bool enabled = false;
  port::SourceAddressArgs address;
  std::vector<void*> contexts;
};

/// What planes take from the flips of their adapter.
class Flips::PlanesOwner final : public Planes::Owner {
 public:
  explicit PlanesOwner(Flips& flips) : flips_(flips) {}
  uint64_t new_flip_id() override DXGKIT_REQUIRES(on_lane) { return ++flips_.last_id_; }
  uint64_t mode(uint32_t source) const override DXGKIT_REQUIRES(on_lane) {
    return flips_.mode(source);
  }
  void planes_need_vsync(uint32_t source) override DXGKIT_REQUIRES(on_lane) {
    flips_.find(source)->active = true;
    flips_.vsync_.look();
  }
  uint32_t pending_flips(const Device& device) const override DXGKIT_REQUIRES(on_lane) {
    uint32_t count = 0;
    for (const auto& source : flips_.sources_) {
      for (const Record& record : source->records) count += record.device == &device ? 1 : 0;
    }
    return count;
  }
  std::optional<uint32_t> leading_target(uint32_t source) const override DXGKIT_REQUIRES(on_lane) {
    const Source* const found = flips_.find(source);
    if (found == nullptr || found->targets.empty()) return std::nullopt;
    return found->targets.front();
  }

 private:
  Flips& flips_;
};

Flips::Flips(DisplayCore& display, DisplayWorker& worker, const Monitors& monitors)
    : display_(display),
      core_(display.core()),
      worker_(worker),
      monitors_(monitors),
      vsync_(display, static_cast<VsyncControl::Owner&>(*this)),
      overlays_owner_(std::make_unique<PlanesOwner>(*this)),
      overlays_(core_.port().planes().version() == port::PlaneVersion::kNone
                    ? nullptr
                    : std::make_unique<Planes>(display, worker, *overlays_owner_)) {
  const port::FlipCaps caps = port::flip_caps_of(core_.caps(), core_.interface_version());
  mmio_ = caps.on_vsync_mmio;
  no_wait_ = caps.on_vsync_with_no_wait;
  intervals_ = caps.interval;
  immediate_mmio_ = caps.immediate_mmio;
  depth_ = std::max(caps.max_queued_on_vsync, 1U);
  planes_ = std::max(caps.max_overlay_planes, 1U);
  for (uint32_t id = 0; id < display.source_count(); ++id)
    sources_.push_back(std::make_unique<Source>(*this, id, depth_));
}

Flips::~Flips() = default;

Flips::Source* Flips::find(uint32_t source) const {
  return source < sources_.size() ? sources_[source].get() : nullptr;
}

// --- the mode side

void Flips::let_go(Ref<OpenedAllocation>& surface) {
  if (!surface) return;
  unpin_surface(core_, *surface);
  surface = Ref<OpenedAllocation>();
}

void Flips::show(uint32_t source_id, uint64_t address, std::span<const uint32_t> targets) {
  Source* source = find(source_id);
  if (source == nullptr || dropped_) return;
  source->targets.assign(targets.begin(), targets.end());
  source->shown = true;
  source->clients_mode = false;
  ++source->mode;
  source->queue.show(address);
  source->active = true;
  finish_done(*source);
  if (overlays_) overlays_->reset(source_id);
  Ref<OpenedAllocation> before = std::move(source->screen);
  source->screen = Ref<OpenedAllocation>();
  if (source->screen_pinned) let_go(before);
  source->screen_pinned = false;
  core_.progress();
}

void Flips::show_client(uint32_t source_id, const Ref<OpenedAllocation>& surface,
                        uint64_t address) {
  Source* source = find(source_id);
  const std::vector<uint32_t> targets = source->targets;
  show(source_id, address, targets);
  source->screen = surface;
  source->screen_pinned = true;
  source->clients_mode = true;
}

void Flips::hide(uint32_t source_id) {
  show(source_id, 0, {});
  if (Source* source = find(source_id); source != nullptr) source->shown = false;
}

void Flips::drop_all() {
  if (std::exchange(dropped_, true)) return;
  for (const auto& source : sources_) {
    source->queue.show(0);
    finish_done(*source);
    if (source->screen_pinned) let_go(source->screen);
    source->screen = Ref<OpenedAllocation>();
    source->screen_pinned = source->shown = source->clients_mode = false;
    if (overlays_) overlays_->reset(source->id);
  }
  work_.clear();
  vsync_.end();
  core_.progress();
}

void Flips::hardware_was_reset() {
  if (dropped_) return;
  for (const auto& source : sources_) {
    hide(source->id);
  }
  work_.clear();
  vsync_.hardware_was_reset();
}

const Ref<OpenedAllocation>& Flips::on_screen(uint32_t source) const {
  const Source* found = find(source);
  return found == nullptr ? kNothing : found->screen;
}

void Flips::unpin(uint32_t source_id) {
  Source* source = find(source_id);
  if (source == nullptr) return;
  source->queue.show(0);  // nobody sees the flips that are left
  finish_done(*source);
  if (overlays_) overlays_->reset(source_id);
  if (source->screen_pinned) {
    Ref<OpenedAllocation> screen = source->screen;
    let_go(screen);
  }
  source->screen_pinned = false;
}

bool Flips::repin(uint32_t source_id, const OpenedAllocation& surface, uint64_t address) {
  Source* source = find(source_id);
  if (source->screen.get() != &surface) return false;
  source->screen_pinned = true;
  source->queue.show(address);
  return true;
}

std::optional<uint32_t> Flips::shows(const OpenedAllocation& opened) const {
  for (const auto& source : sources_) {
    if (source->screen.get() == &opened) return source->id;
    for (const Record& record : source->records) {
      if (record.surface.get() == &opened) return source->id;
    }
  }
  return overlays_ ? overlays_->shows(opened) : std::nullopt;
}

bool Flips::mode_is_clients(uint32_t source) const {
  const Source* found = find(source);
  return found != nullptr && found->clients_mode;
}

// --- flips

uint64_t Flips::mode(uint32_t source) const {
  const Source* found = find(source);
  return found == nullptr ? 0 : found->mode;
}

Status Flips::prepare(FlipSubmission& flip) {
  if (dropped_) return Status::kDeviceRemoved;
  if (mode(flip.source) != flip.mode) return Status::kGraphicsAllocationInvalid;  // DISP-17
  if (overlays_ && overlays_->active(flip.source)) return Status::kInvalidParameter;
  if (flip.surface->closing) return Status::kInvalidParameter;
  const vidmm::Use use{flip.surface->allocation->id, false};
  if (!flip.pinned) {
    const auto plan = display_.floor().residency->make_resident(std::span(&use, 1));
    if (!plan.has_value()) {
      return plan.error().status == Status::kGraphicsAllocationBusy ? Status::kRetry
                                                                    : plan.error().status;
    }
    flip.pinned = true;
    ++flip.surface->uses;
    display_.floor().paging->enqueue(plan->operations, nullptr);
    core_.pump();
  }
  return core_.memory().pending_operations(use.allocation) == 0 ? Status::kSuccess : Status::kRetry;
}

void Flips::abandon(const FlipSubmission& flip) {
  if (!flip.pinned) return;
  --flip.surface->uses;
  Ref<OpenedAllocation> surface = flip.surface;
  let_go(surface);
  core_.progress();
}

uint64_t Flips::queue(const FlipSubmission& flip, bool by_driver) {
  core_.lane().assert_current();
  Source& source = *find(flip.source);
  if (!source.has_fence) {
    source.done_fence = core_.new_sync_object_id();
    vidsch::SyncDesc desc;
    desc.kind = vidsch::SyncKind::kMonitoredFence;
    DXGKIT_CHECK(is_success(core_.scheduler().sync_objects().create(source.done_fence, desc)));
    source.has_fence = true;
  }
  Record record;
  record.id = ++last_id_;
  record.surface = flip.surface;
  record.leaves = source.records.empty() ? source.screen : source.records.back().surface;
  if (record.leaves) ++record.leaves->uses;
  record.device = &flip.contexts.front()->device();
  const vidmm::Placement place = core_.memory().placement(flip.surface->allocation->id);
  record.segment = place.segment;
  record.address =
      core_.segment_infos().segments.at(place.segment.value - 1).base_address + place.offset_bytes;
  for (const Context* context : flip.contexts) record.contexts.push_back(context->driver_handle());
  record.unreached = static_cast<uint32_t>(by_driver ? 1 : flip.contexts.size());
  source.queue.announce({.id = record.id,
                         .surface = record.address,
                         .interval = flip.interval,
                         .by_driver = by_driver});
  source.records.push_back(std::move(record));
  return last_id_;
}

void Flips::reached(uint32_t source_id, uint64_t id, bool completed) {
  core_.lane().assert_current();
  Source* source = find(source_id);
  Record* record = source == nullptr ? nullptr : source->record(id);
  if (record == nullptr) {
    if (overlays_) overlays_->reached(id, completed);
    return;
  }
  // Planes were set meanwhile: this flip would switch them off again.
  if (!completed || (overlays_ && overlays_->active(source_id))) {
    if (source->queue.cancel(id)) {
      source->finished.push_back(id);
      finish_done(*source);
    }
    return;
  }
  if (record->unreached == 0 || --record->unreached != 0) return;
  source->active = true;
  source->queue.reach(id);
  finish_done(*source);
  vsync_.look();
}

void Flips::flip_others(Source& source) {
  if (!mmio_ || !immediate_mmio_ || source.targets.size() < 2) return;
  if (source.finished.empty()) return;
  const Record* const record = source.record(source.finished.back());
  if (record == nullptr || !record->synced || record->address != source.queue.shown()) return;
  static_cast<void>(core_.port().scanout().flip(arguments(source, *record, /*at_once=*/true)));
}

port::SourceAddressArgs Flips::arguments(const Source& source, const Record& record, bool at_once) {
  port::SourceAddressArgs args;
  args.source = source.id;
  args.segment = record.segment.value;
  args.address = record.address;
  args.allocation = record.surface->driver_allocation;
  args.kind = at_once ? port::SourceAddressArgs::Kind::kFlipImmediate
                      : port::SourceAddressArgs::Kind::kFlipOnNextVsync;
  args.contexts = record.contexts;
  return args;
}

void Flips::program(Source& source, const vidsch::FlipRequest& flip, bool at_once) {
  Record& record = *source.record(flip.id);
  record.synced = !at_once;
  const port::SourceAddressArgs args = arguments(source, record, at_once);
  if (mmio_) {  // DISP-01
    static_cast<void>(core_.port().scanout().flip(args));
    return;
  }
  Work work;
  work.kind = Work::Kind::kAddress;
  work.address = args;
  work.contexts = record.contexts;
  work_.push_back(std::move(work));
  worker_.wake();
}

void Flips::finish_done(Source& source) {
  while (!source.finished.empty()) {
    const uint64_t id = source.finished.front();
    source.finished.erase(source.finished.begin());
    const auto found = std::ranges::find(source.records, id, &Record::id);
    DXGKIT_CHECK(found != source.records.end());
    Record over = std::move(*found);
    source.records.erase(found);
    --over.surface->uses;
    if (over.leaves) --over.leaves->uses;
    const bool shown = source.queue.shown() == over.address;
    ++(shown && !dropped_ ? source.frames : source.cancelled);
    if (shown && !dropped_) {
      source.frame_vsync = source.vsyncs;
      Ref<OpenedAllocation> before = std::move(source.screen);
      const bool pinned = std::exchange(source.screen_pinned, true);
      source.screen = std::move(over.surface);
      if (pinned) let_go(before);
    } else {
      let_go(over.surface);
    }
    if (core_.failed()) continue;
    const vidsch::SyncPoint point{source.done_fence, id, false};
    if (core_.scheduler().sync_objects().value(source.done_fence) < id)
      static_cast<void>(core_.scheduler().sync_objects().signal(std::span(&point, 1)));
  }
  core_.progress();
}

std::optional<vidsch::SyncPoint> Flips::before_write(const OpenedAllocation& opened) const {
  for (const auto& source : sources_) {
    if (source->records.empty()) continue;
    // By allocation: it may be open more than once.
    const Allocation* const written = opened.allocation;
    bool on_screen = source->screen && source->screen->allocation == written;
    uint64_t leaves = 0;
    for (const Record& record : source->records) {
      if (record.surface->allocation == written) {
        on_screen = true;
        leaves = 0;
      } else if (on_screen) {
        leaves = record.id;
        on_screen = false;
      }
    }
    if (leaves != 0) return end_of(source->id, leaves);
  }
  return overlays_ ? overlays_->before_write(opened) : std::nullopt;
}

vidsch::SyncPoint Flips::end_of(uint32_t source, uint64_t id) const {
  return {find(source)->done_fence, id, false};
}

uint32_t Flips::pending(const Device& device) const {
  return overlays_owner_->pending_flips(device) + (overlays_ ? overlays_->pending(device) : 0);
}

// --- vertical sync

void Flips::on_vsync(const port::InterruptReport& report) {
  core_.lane().assert_current();
  if (dropped_) return;
  if (report.planes != 0 && report.highest_plane >= planes_) {
    report_wrong_vsync(core_, "INT-20",
                       fmt::format("A vertical sync named overlay plane {}; MaxOverlayPlanes is "
                                   "{}.",
                                   report.highest_plane, planes_),
                       "LayerIndex of each plane is below the number of planes of the caps.",
                       "Number planes from 0 and name only those that DXGK_DRIVERCAPS counts.",
                       0xE);
    return;
  }
  Source* leads = nullptr;
  bool known = false;
  for (const auto& source : sources_) {
    const auto found = std::ranges::find(source->targets, report.source);
    if (found == source->targets.end()) continue;
    known = true;
    if (found == source->targets.begin()) leads = source.get();  // DISP-09
  }
  if (!known && !monitors_.has_target(report.source)) {
    report_wrong_vsync(core_, "DISP-23",
                       fmt::format("A vertical sync named VidPN target {}.", report.source),
                       "VidPnTargetId is the ChildUid of a video output of this adapter.",
                       "Report the ChildUid given to DxgkDdiQueryChildRelations.", 0);
    return;
  }
  const bool of_planes = leads != nullptr && overlays_ && overlays_->active(leads->id);
  if (report.address == 0 && !report.planes_by_id && !of_planes) {
    report_wrong_vsync(
        core_, "DISP-08",
        fmt::format("A vertical sync of target {} carries the address 0.", report.source),
        "PhysicalAddress is that of the primary on the screen, also while the "
        "monitor is blanked.",
        "Read the address the display scans out at the time of the interrupt.", 0);
    return;
  }
  if (leads == nullptr) return;
  vsync_.on_vsync();
  ++leads->vsyncs;
  leads->vsync_ns = core_.runtime().now();
  // The period that ends here, not the one that begins: what it served was there until now.
  const bool planes_wait = overlays_ && overlays_->needs_vsync(leads->id);
  const bool idle = !leads->active && !leads->queue.needs_vsync() && !planes_wait;
  leads->idle_syncs = idle ? leads->idle_syncs + 1 : 0;
  leads->active = false;
  leads->waiters = 0;  // all of them are served
  if (of_planes) {
    overlays_->on_vsync(leads->id, report);
    leads->queue.show(leads->queue.shown());  // flips of before are over
    finish_done(*leads);
    if (idle_long_enough()) vsync_.rest();
    core_.progress();
    return;
  }
  // Without an address the report tells of no flip by D3DKMTPresent.
  const vidsch::FlipQueue::Vsync what =
      leads->queue.vsync(report.planes_by_id ? leads->queue.shown() : report.address);
  if (what == vidsch::FlipQueue::Vsync::kUnknown && leads->shown) {
    report_wrong_vsync(
        core_, "DISP-22",
        fmt::format("A vertical sync of target {} reports 0x{:X}; source {} shows 0x{:X} and has "
                    "{} flips in hardware.",
                    report.source, report.address, leads->id, leads->queue.shown(),
                    leads->queue.in_hardware()),
        "The address is that of the primary shown, or of a flip that was programmed.",
        "Report PrimaryAddress of the last DxgkDdiSetVidPnSourceAddress that has taken effect.", 0);
  }
  if (what == vidsch::FlipQueue::Vsync::kFlipped) flip_others(*leads);
  finish_done(*leads);
  if (idle_long_enough()) vsync_.rest();
  core_.progress();
}

uint64_t Flips::vsyncs(uint32_t source) const {
  const Source* found = find(source);
  return found == nullptr ? 0 : found->vsyncs;
}

Flips::Counts Flips::counts(uint32_t source) const {
  const Source* found = find(source);
  if (found == nullptr) return {};
  return {.frames = found->frames,
          .cancelled = found->cancelled,
          .queued = static_cast<uint32_t>(found->records.size()),
          .vsyncs = found->vsyncs,
          .vsync_ns = found->vsync_ns,
          .frame_vsync = found->frame_vsync};
}

bool Flips::vsync_needed() const {
  return std::ranges::any_of(sources_, [&](const auto& source) DXGKIT_REQUIRES(on_lane) {
    return source->waiters != 0 || source->queue.needs_vsync() ||
           (overlays_ && overlays_->needs_vsync(source->id));
  });
}

bool Flips::idle_long_enough() const {
  const uint32_t most = core_.options().vsync_idle_periods;
  if (most == 0) return false;
  return std::ranges::all_of(sources_, [&](const auto& source) {
    return !source->shown || (!source->active && source->idle_syncs >= most);
  });
}

void Flips::control_vsync(bool enabled) {
  Work work;
  work.kind = Work::Kind::kVsync;
  work.enabled = enabled;
  work_.push_back(std::move(work));
  worker_.wake();
}

uint64_t Flips::add_waiter(uint32_t source_id) {
  Source* source = find(source_id);
  if (source == nullptr) return 0;
  source->active = true;
  ++source->waiters;
  vsync_.look();
  return source->vsyncs;
}

bool Flips::work() {
  std::optional<Work> next;
  core_.lane().run([&] {
    if (work_.empty()) return;
    next = std::move(work_.front());
    work_.pop_front();
  });
  if (!next.has_value()) return overlays_ && overlays_->work();
  if (next->kind == Work::Kind::kAddress) {
    next->address.contexts = next->contexts;
    static_cast<void>(level_two(display_.floor(), [&] {
      return core_.port().scanout().set_source_address(next->address);
    }));
    return true;
  }
  static_cast<void>(level_two(display_.floor(), [&] {
    Status status = Status::kSuccess;
    for (const auto& source : sources_) {
      if (!source->shown) continue;
      status = core_.port().scanout().control_vsync(source->id, next->enabled);
    }
    return status;
  }));
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { vsync_.told(next->enabled); });
  return true;
}

}  // namespace dxgkit::dxgk
