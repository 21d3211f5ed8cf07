#include "dxgk/display/display.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/arithmetic.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display_level_two.h"
#include "dxgk/work/device.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint32_t kPixelBytes = 4;
/// STATUS_GRAPHICS_PRESENT_OCCLUDED.
constexpr Status kPresentOccluded = Status{0xC01E0006};
constexpr uint32_t kPointerPitchMax = 1U << 16;
/// Bits of DXGK_POINTERFLAGS.
constexpr uint32_t kPointerMonochrome = 1, kPointerColor = 2, kPointerMaskedColor = 4;

bool inside(const port::Rect& rect, const DisplayMode& mode) {
  if (rect.left < 0 || rect.top < 0) return false;
  if (rect.right <= rect.left || rect.bottom <= rect.top) return false;
  return static_cast<uint32_t>(rect.right) <= mode.width &&
         static_cast<uint32_t>(rect.bottom) <= mode.height;
}

bool inside(const port::MoveRect& move, const DisplayMode& mode) {
  if (!inside(move.destination, mode)) return false;
  // The destination is inside, so its sizes are small; the source is still anything.
  const int64_t right = int64_t{move.source_x} + (move.destination.right - move.destination.left);
  const int64_t bottom = int64_t{move.source_y} + (move.destination.bottom - move.destination.top);
  if (move.source_x < 0 || move.source_y < 0) return false;
  return right <= int64_t{mode.width} && bottom <= int64_t{mode.height};
}

}  // namespace

Display::Display(Adapter& adapter)
    : adapter_(adapter), core_(adapter.core()), display_only_(adapter.core().display_only()) {}

Display::~Display() {
  for (auto& [id, source] : sources_) free_surface(source);
}

Status Display::refuse(Status status, const char* rule, const char* ddi, std::string actual,
                       std::string expected, std::string fix) {
  core_.findings().report(verifier::Finding{.rule = rule,
                                            .severity = verifier::Severity::kStartFail,
                                            .ddi = ddi,
                                            .actual = std::move(actual),
                                            .expected = std::move(expected),
                                            .fix = std::move(fix)});
  return status;
}

Status Display::failed_call(const char* ddi, Status status) {
  if (status == Status::kDeviceRemoved || !core_.running_or_starting()) return status;
  const std::string_view name = status_name(status);
  core_.findings().report(verifier::Finding{
      .rule = "DOD-03",
      .severity = verifier::Severity::kViolation,
      .ddi = ddi,
      .actual = name.empty() ? fmt::format("It answered 0x{:08X}.", static_cast<uint32_t>(status))
                             : fmt::format("It answered {}.", name),
      .expected = "Success for what the driver itself offered: its sources, targets and modes.",
      .fix = "Find out which path of this DDI ends with that status; a mode that cannot be set is "
             "not to be offered by DxgkDdiEnumVidPnCofuncModality.",
      .windows = "The mode is not set, and the display stays black or shows what it showed; the "
                 "adapter goes on without a message.",
      .confidence = verifier::Confidence::kInferred});
  return status;
}

Status Display::describe(std::vector<port::ChildInfo> children, uint32_t sources) {
  children_ = std::move(children);
  source_count_ = sources;
  if (!display_only_) {
    flips_ = std::make_unique<Flips>(adapter_, sources);
    DXGKIT_RETURN_IF_FAILED(check_flip_depth());
  }
  vidpn::Profile profile;
  profile.kind = display_only_ ? vidpn::DriverKind::kDisplayOnly : vidpn::DriverKind::kFull;
  profile.interface_version = core_.interface_version();
  profile.source_count = sources;
  profile.vsync_control = core_.port().has_entry("DxgkDdiControlInterrupt") &&
                          core_.port().has_entry("DxgkDdiGetScanLine");
  std::set<uint32_t> seen;
  for (const port::ChildInfo& child : children_) {
    if (!seen.insert(child.uid).second) {
      return refuse(Status::kDeviceConfigurationError, "CAPS-07", "DxgkDdiQueryChildRelations",
                    fmt::format("Two children have ChildUid {}.", child.uid),
                    "Each child has a ChildUid of its own.",
                    "Number the children; the ChildUid of a video output is its VidPN target id.");
    }
    if (child.kind != port::ChildInfo::Kind::kOther) profile.targets.push_back(child.uid);
  }
  if (profile.targets.size() < sources) {
    return refuse(
        Status::kDeviceConfigurationError, "CAPS-07", "DxgkDdiQueryChildRelations",
        fmt::format("{} of {} children are video outputs; NumberOfVideoPresentSources is {}.",
                    profile.targets.size(), children_.size(), sources),
        "There are at least as many video outputs as video present sources.",
        "Describe each connector with ChildDeviceType TypeVideoOutput and count it in "
        "NumberOfChildren, or report fewer sources.");
  }
  vidpn::ManagerConfig config;
  config.profile = std::move(profile);
  config.findings = &core_.findings();
  config.kernel = &core_.kernel();
  config.adapter_handle = core_.port().device_handle();
  manager_ = std::make_unique<vidpn::Manager>(std::move(config));
  const runtime::MutexLock lock(mutex_);
  for (uint32_t id = 0; id < sources; ++id) sources_[id];
  return Status::kSuccess;
}

Status Display::start(const char** step) {
  {
    const runtime::MutexLock lock(mutex_);
    for (const uint32_t target : manager_->profile().targets) {
      if (const Status status = attach_monitor(target, step); status == Status::kDeviceRemoved)
        return status;
    }
    // A driver that cannot show anything runs on, dark, as on Windows; the finding says why.
    const Status status = commit_for_connected(wanted_, step);
    if (status == Status::kDeviceRemoved) return status;
  }
  worker_ = core_.runtime().spawn("display", [this] { worker(); });
  if (flips_) core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { flips_->start(); });
  return Status::kSuccess;
}

void Display::stop() {
  {
    const runtime::MutexLock lock(events_mutex_);
    ending_ = true;
  }
  events_.fetch_add(1);
  core_.runtime().wake_all(events_);
  if (worker_ != nullptr) worker_->join();
  worker_.reset();
  const runtime::MutexLock lock(mutex_);
  if (stopped_) return;
  stopped_ = true;
  if (flips_) core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { flips_->drop_all(); });
  for (auto& [id, source] : sources_) {
    drop_primary(source.next);
    drop_primary(source.current);
    source.visible = false;
  }
  close_owner();
  if (manager_ != nullptr) manager_->report_leaks();
}

void Display::on_child_status(uint32_t child, bool connected) {
  {
    const runtime::MutexLock lock(events_mutex_);
    if (ending_) return;
    hot_plugs_.push_back({child, connected});
    ++announced_;
  }
  events_.fetch_add(1);
  core_.runtime().wake_all(events_);
}

void Display::worker() {
  for (;;) {
    const uint32_t seen = events_.load();
    std::vector<HotPlug> taken;
    bool ending = false, was_reset = false;
    {
      const runtime::MutexLock lock(events_mutex_);
      taken.swap(hot_plugs_);
      ending = ending_;
      was_reset = std::exchange(was_reset_, false);
    }
    if (ending) {  // nobody waits for what will not be served
      served_.fetch_add(static_cast<uint32_t>(taken.size()));
      core_.runtime().wake_all(served_);
      return;
    }
    if (was_reset) {
      uint64_t resets = 0;
      core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { resets = resets_; });
      {
        const runtime::MutexLock lock(mutex_);
        show_after_reset();
      }
      core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
        resets_shown_ = resets;
        core_.progress();
      });
    }
    while (flips_ && flips_->work()) {
    }
    for (const HotPlug& event : taken) {
      const runtime::MutexLock lock(mutex_);
      handle_hot_plug(event);
    }
    if (!taken.empty()) {
      served_.fetch_add(static_cast<uint32_t>(taken.size()));
      core_.runtime().wake_all(served_);
      continue;
    }
    core_.runtime().wait(events_, seen);
  }
}

void Display::wait_for_hot_plug() {
  uint32_t wanted = 0;
  {
    const runtime::MutexLock lock(events_mutex_);
    wanted = announced_;
  }
  for (uint32_t seen = served_.load(); static_cast<int32_t>(wanted - seen) > 0;
       seen = served_.load())
    core_.runtime().wait(served_, seen);
}

void Display::handle_hot_plug(const HotPlug& event) {
  if (stopped_ || !core_.running()) return;
  const auto known = std::ranges::find(children_, event.child, &port::ChildInfo::uid);
  if (known == children_.end() || known->kind == port::ChildInfo::Kind::kOther) {
    core_.findings().report(verifier::Finding{
        .rule = "CAPS-09",
        .severity = verifier::Severity::kViolation,
        .ddi = "DxgkCbIndicateChildStatus",
        .actual =
            fmt::format("ChildUid is {}, which is no video output of this adapter.", event.child),
        .expected = "ChildUid names a video output that DxgkDdiQueryChildRelations described.",
        .fix = "Pass the ChildUid given in the child descriptor."});
    return;
  }
  if (connected_[event.child] == event.connected) return;
  connected_[event.child] = event.connected;
  const char* step = "";
  if (event.connected) {
    if (!is_success(read_monitor(event.child, &step))) return;
  } else {
    has_descriptor_[event.child] = false;
    manager_->disconnect_monitor(event.child);
  }
  if (power_ == port::PowerState::kD0) static_cast<void>(commit_for_connected(wanted_, &step));
}

void Display::on_progress(const port::InterruptReport& report) {
  bool unexpected = false;
  {
    const runtime::MutexLock lock(events_mutex_);
    PresentState& state = presents_[report.source];
    progress_failed_[report.source] = report.failed;
    switch (state) {
      case PresentState::kIdle:
      case PresentState::kReported:
        unexpected = true;
        break;
      case PresentState::kInDriver:
        state = PresentState::kReported;
        break;
      case PresentState::kPending:
        state = PresentState::kIdle;
        break;
    }
  }
  progressed_.set();
  if (unexpected) {
    core_.findings().report(verifier::Finding{
        .rule = "DOD-02",
        .severity = verifier::Severity::kViolation,
        .ddi = "DxgkCbNotifyInterrupt",
        .actual = fmt::format(
            "DISPLAYONLY_PRESENT_PROGRESS was reported for source {}, which has no present under "
            "way.",
            report.source),
        .expected = "One report for each present that was answered with STATUS_PENDING.",
        .fix = "Report progress only when DxgkDdiPresentDisplayOnly returned STATUS_PENDING, and "
               "name its VidPnSourceId."});
  }
}

void Display::hardware_was_reset() {
  ++resets_;
  if (flips_) flips_->hardware_was_reset();
}

void Display::wait_for_reset() {
  static_cast<void>(core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    return resets_shown_ == resets_ || core_.gate().closed();
  }));
}

void Display::set_again() {
  {
    const runtime::MutexLock lock(events_mutex_);
    was_reset_ = true;
  }
  wake_worker();
}

void Display::show_after_reset() {
  if (stopped_ || !core_.running()) return;
  if (power_ != port::PowerState::kD0) return;  // it is shown when power is back
  for (auto& [id, source] : sources_) source.visible = false;
  const char* step = "";
  if (!active_.paths.empty()) static_cast<void>(recommit(&step));  // a failure has been told
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (flips_ && !core_.failed()) flips_->start();
  });
}

void Display::on_adapter_failed() {
  if (flips_) flips_->drop_all();
  {
    const runtime::MutexLock lock(events_mutex_);
    adapter_failed_ = true;
  }
  progressed_.set();
}

std::optional<uint32_t> Display::target_of(uint32_t source) const {
  for (const vidpn::Path& path : active_.paths) {
    if (path.source == source) return path.target;
  }
  return std::nullopt;
}

std::optional<DisplayMode> Display::mode_of(uint32_t source) const {
  if (!active_.has_source(source)) return std::nullopt;
  const vidpn::SourceMode* mode = active_.pinned_source_mode(source);
  if (mode == nullptr) return std::nullopt;
  return DisplayMode{mode->surface.width, mode->surface.height};
}

DisplayConfiguration Display::configuration() {
  const runtime::MutexLock lock(mutex_);
  DisplayConfiguration result;
  result.display_only = display_only_;
  for (const auto& [id, source] : sources_) {
    result.sources.push_back({.id = id,
                              .mode = mode_of(id),
                              .target = target_of(id),
                              .visible = source.visible,
                              .modes = source.modes});
  }
  for (const uint32_t target : manager_->profile().targets) {
    result.targets.push_back(
        {.id = target, .connected = connected_[target], .has_descriptor = has_descriptor_[target]});
  }
  return result;
}

vidpn::Network Display::active_network() {
  const runtime::MutexLock lock(mutex_);
  return active_;
}

Status Display::prepare_surface(Source& source, const DisplayMode& mode) {
  if (source.page_count != 0 && source.surface_mode == mode) return Status::kSuccess;
  const uint64_t bytes = uint64_t{mode.width} * mode.height * kPixelBytes;
  const uint64_t pages = (bytes + kPageBytes - 1) / kPageBytes;
  const Result<bus::PageFrame> first = core_.machine().allocate_contiguous(pages);
  if (!first.has_value()) return first.error();
  free_surface(source);
  source.pages = *first;
  source.page_count = pages;
  source.surface_mode = mode;
  return Status::kSuccess;
}

void Display::free_surface(Source& source) {
  if (source.page_count != 0) core_.machine().free_contiguous(source.pages, source.page_count);
  source.page_count = 0;
  source.surface_mode = {};
}

Status Display::present(const DisplayPresent& request) {
  if (!display_only_) return Status::kNotSupported;
  const runtime::MutexLock lock(mutex_);
  if (stopped_ || !core_.running()) return Status::kDeviceRemoved;
  const std::optional<DisplayMode> mode = mode_of(request.source);
  if (!mode.has_value()) return Status::kInvalidParameter;
  const uint64_t row_bytes = uint64_t{mode->width} * kPixelBytes;
  if (request.pitch_bytes < row_bytes) return Status::kInvalidParameter;
  const uint64_t needed = uint64_t{request.pitch_bytes} * (mode->height - 1) + row_bytes;
  if (request.pixels.size() < needed) return Status::kInvalidParameter;
  for (const port::MoveRect& move : request.moves) {
    if (!inside(move, *mode)) return Status::kInvalidParameter;
  }
  for (const port::Rect& rect : request.dirty) {
    if (!inside(rect, *mode)) return Status::kInvalidParameter;
  }
  Source& source = sources_.at(request.source);
  if (!source.visible || power_ != port::PowerState::kD0) return kPresentOccluded;
  // There is one already, but where a mode set was taken back without memory for it.
  DXGKIT_RETURN_IF_FAILED(prepare_surface(source, *mode));

  std::vector<port::Rect> dirty = request.dirty;
  if (dirty.empty() && request.moves.empty()) {
    dirty.push_back({0, 0, static_cast<int32_t>(mode->width), static_cast<int32_t>(mode->height)});
  }
  // The driver is handed memory of the machine that is ours: whole picture, also where nothing
  // changed, whatever a driver wrote there before.
  std::byte* const surface = core_.machine().system_pointer(
      bus::PhysicalAddress{source.pages.value * kPageBytes}, source.page_count * kPageBytes);
  for (uint32_t y = 0; y < mode->height; ++y) {
    std::memcpy(surface + y * row_bytes, request.pixels.data() + uint64_t{y} * request.pitch_bytes,
                row_bytes);
  }
  {
    const runtime::MutexLock events(events_mutex_);
    presents_[request.source] = PresentState::kInDriver;
    progress_failed_[request.source] = false;
  }
  progressed_.reset();
  const Status status =
      core_.port().scanout().present_display_only({.source = request.source,
                                                   .pixels = surface,
                                                   .bytes_per_pixel = kPixelBytes,
                                                   .pitch_bytes = static_cast<int32_t>(row_bytes),
                                                   .moves = request.moves,
                                                   .dirty = dirty});
  if (status == Status::kPending) return wait_for_progress(request.source);
  bool reported = false;
  {
    const runtime::MutexLock events(events_mutex_);
    reported = presents_[request.source] == PresentState::kReported;
    presents_[request.source] = PresentState::kIdle;
  }
  if (reported && is_success(status)) {
    core_.findings().report(verifier::Finding{
        .rule = "DOD-02",
        .severity = verifier::Severity::kViolation,
        .ddi = "DxgkDdiPresentDisplayOnly",
        .actual = fmt::format("It answered STATUS_SUCCESS for source {}, and progress was reported "
                              "for it too.",
                              request.source),
        .expected = "A present ends once: by STATUS_SUCCESS, or by a report after STATUS_PENDING.",
        .fix = "Return STATUS_PENDING when an interrupt reports the end."});
  }
  if (!is_success(status)) return failed_call("DxgkDdiPresentDisplayOnly", status);
  return Status::kSuccess;
}

Status Display::wait_for_progress(uint32_t source) {
  bool waiting = false;
  {
    const runtime::MutexLock events(events_mutex_);
    PresentState& state = presents_[source];
    waiting = state != PresentState::kReported;
    state = waiting ? PresentState::kPending : PresentState::kIdle;
  }
  const runtime::TimeNs limit = core_.options().tdr_delay_ns;
  const runtime::TimeNs deadline = limit <= 0 ? runtime::kForever : core_.runtime().now() + limit;
  while (waiting) {
    const bool late = progressed_.wait(deadline) == runtime::WaitResult::kTimedOut;
    {
      const runtime::MutexLock events(events_mutex_);
      progressed_.reset();
      if (presents_[source] != PresentState::kPending) break;
      if (adapter_failed_) return Status::kDeviceRemoved;
      if (!late) continue;
    }
    core_.fail(verifier::Finding{
        .rule = "DOD-01",
        .severity = verifier::Severity::kBugCheck,
        .ddi = "DxgkDdiPresentDisplayOnly",
        .actual = fmt::format("It answered STATUS_PENDING for source {}, and no "
                              "DISPLAYONLY_PRESENT_PROGRESS interrupt followed in {} ms.",
                              source, limit / runtime::kMillisecond),
        .expected = fmt::format("The end of a pending present is reported within TdrDelay ({} ms).",
                                limit / runtime::kMillisecond),
        .fix = "Report DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS through DxgkCbNotifyInterrupt "
               "inside DxgkCbSynchronizeExecution, then queue a DPC that calls DxgkCbNotifyDpc; or "
               "finish the copy and return STATUS_SUCCESS.",
        .bugcheck_code = 0x116,
        .bugcheck_parameter = 0,
        .why = "The next picture waits for this one: the kernel may not touch the source image "
               "before the report.",
        .windows = "Timeout detection resets the adapter; when that fails, bug check 0x116."});
    return Status::kDeviceRemoved;
  }
  bool failed = false;
  {
    const runtime::MutexLock events(events_mutex_);
    failed = progress_failed_[source];
  }
  if (!failed) return Status::kSuccess;
  return failed_call("DxgkDdiPresentDisplayOnly (progress)", Status::kUnsuccessful);
}

Result<Scanout> Display::scanout(uint32_t source_id) {
  const runtime::MutexLock lock(mutex_);
  if (stopped_) return Error(Status::kDeviceRemoved);
  const std::optional<DisplayMode> mode = mode_of(source_id);
  if (!mode.has_value()) return Error(Status::kInvalidParameter);
  if (!display_only_) return scanout_primary(sources_.at(source_id), *mode);
  // The POST frame buffer is what is on the screen as long as the mode still is the one that
  // firmware set.
  bus::PciFunction& function = core_.function();
  const std::optional<bus::PostDisplay> post = function.post_display();
  if (!post.has_value() || source_id != 0) return Error(Status::kNotSupported);
  if (post->width != mode->width || post->height != mode->height)
    return Error(Status::kNotSupported);
  const bus::Bar& bar = function.bars()[post->bar];
  const uint64_t bytes = uint64_t{post->pitch_bytes} * post->height;
  if (!range_within(post->offset_bytes, bytes, bar.size)) return Error(Status::kNotSupported);
  auto* pixels = static_cast<std::byte*>(
      core_.machine().map_io(bus::PhysicalAddress{bar.base.value + post->offset_bytes}, bytes));
  if (pixels == nullptr) return Error(Status::kNoMemory);
  Scanout picture = picture_of(pixels, *mode, post->pitch_bytes);
  static_cast<void>(core_.machine().unmap_io(pixels, bytes));
  return picture;
}

Scanout Display::picture_of(const std::byte* pixels, const DisplayMode& mode,
                            uint64_t pitch_bytes) {
  Scanout picture;
  picture.width = mode.width;
  picture.height = mode.height;
  picture.pixels.resize(size_t{mode.width} * mode.height * kPixelBytes);
  uint8_t* out = picture.pixels.data();
  for (uint32_t y = 0; y < mode.height; ++y) {
    const auto* in = reinterpret_cast<const uint8_t*>(pixels) + y * pitch_bytes;
    for (uint32_t x = 0; x < mode.width; ++x, in += kPixelBytes, out += kPixelBytes) {
      out[0] = in[2];
      out[1] = in[1];
      out[2] = in[0];
      out[3] = 0xFF;
    }
  }
  return picture;
}

Status Display::set_pointer_shape(const port::PointerShape& shape) {
  const runtime::MutexLock lock(mutex_);
  if (stopped_ || !core_.running()) return Status::kDeviceRemoved;
  const port::DisplayCaps caps = port::display_caps_of(core_.caps(), core_.interface_version());
  uint32_t needed_flag = kPointerColor;
  if (shape.format == port::PointerShape::Format::kMonochrome) needed_flag = kPointerMonochrome;
  if (shape.format == port::PointerShape::Format::kMaskedColor) needed_flag = kPointerMaskedColor;
  if ((caps.pointer_flags & needed_flag) == 0) return Status::kNotSupported;
  if (!sources_.contains(shape.source)) return Status::kInvalidParameter;
  if (shape.width > caps.max_pointer_width) return Status::kInvalidParameter;
  if (shape.height > caps.max_pointer_height) return Status::kInvalidParameter;
  // A monochrome pointer is an AND mask above an XOR mask, one bit per pixel.
  const bool monochrome = shape.format == port::PointerShape::Format::kMonochrome;
  const uint64_t row = monochrome ? (uint64_t{shape.width} + 7) / 8 : uint64_t{shape.width} * 4;
  const uint64_t rows = monochrome ? uint64_t{shape.height} * 2 : shape.height;
  if (shape.pitch_bytes < row || shape.pitch_bytes > kPointerPitchMax)
    return Status::kInvalidParameter;
  if (shape.pixels.size() < uint64_t{shape.pitch_bytes} * (rows - 1) + row)
    return Status::kInvalidParameter;
  // The hot spot is a pixel of the pointer, which so has at least one.
  if (shape.hot_x >= shape.width || shape.hot_y >= shape.height) return Status::kInvalidParameter;
  // A driver may refuse a shape: the pointer is drawn in software then, and nobody complains.
  return core_.port().scanout().set_pointer_shape(shape);
}

Status Display::set_pointer_position(uint32_t source, int32_t x, int32_t y, bool visible) {
  const runtime::MutexLock lock(mutex_);
  if (stopped_ || !core_.running()) return Status::kDeviceRemoved;
  const port::DisplayCaps caps = port::display_caps_of(core_.caps(), core_.interface_version());
  if (caps.pointer_flags == 0) return Status::kNotSupported;
  if (!sources_.contains(source)) return Status::kInvalidParameter;
  return core_.port().scanout().set_pointer_position(source, x, y, visible);
}

Status Display::update_path(const vidpn::Path& path) {
  const runtime::MutexLock lock(mutex_);
  if (stopped_ || !core_.running()) return Status::kDeviceRemoved;
  const auto found = std::ranges::find_if(active_.paths, [&](const vidpn::Path& one) {
    return one.source == path.source && one.target == path.target;
  });
  if (found == active_.paths.end()) return Status::kInvalidParameter;
  const Status status =
      level_two(adapter_, [&] { return core_.port().vidpn().update_active_present_path(path); });
  if (status == Status::kNotSupported) return status;
  if (!is_success(status)) return failed_call("DxgkDdiUpdateActiveVidPnPresentPath", status);
  *found = path;
  return Status::kSuccess;
}

void Display::suspend() {
  const runtime::MutexLock lock(mutex_);
  if (stopped_ || power_ != port::PowerState::kD0) return;
  power_ = port::PowerState::kD3;
  const char* step = "";
  for (auto& [id, source] : sources_) {
    source.shown_before_sleep = source.visible;
    if (source.visible) static_cast<void>(make_visible(id, false, &step));
    if (flips_) core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { flips_->unpin(id); });
    unpin_primary(source.current);
  }
}

void Display::wake() {
  const runtime::MutexLock lock(mutex_);
  if (stopped_ || power_ != port::PowerState::kD3) return;
  power_ = port::PowerState::kD0;
  const char* step = "";
  for (auto& [id, source] : sources_) {
    Ref<OpenedAllocation> clients;
    if (flips_)
      core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { clients = flips_->on_screen(id); });
    if (clients) {
      if (!is_success(place_client(id, clients, /*again=*/true, &step))) continue;
    } else if (source.current.opened && !is_success(place_primary(id, source.current, &step))) {
      continue;
    }
    if (source.shown_before_sleep) static_cast<void>(make_visible(id, true, &step));
  }
}

Status Display::set_power(port::PowerState state, port::PowerAction action) {
  if (!display_only_) return Status::kNotSupported;
  const runtime::MutexLock lock(mutex_);
  if (stopped_ || !core_.running()) return Status::kDeviceRemoved;
  if (state == power_) return Status::kSuccess;
  const char* step = "";
  const auto set_children = [&] {
    for (const port::ChildInfo& child : children_) {
      static_cast<void>(level_two(adapter_, [&] {
        return core_.port().power().set_power_state(child.uid, state, action);
      }));
    }
  };
  const auto set_adapter = [&] {
    static_cast<void>(level_two(
        adapter_, [&] { return core_.port().power().set_power_state({}, state, action); }));
  };
  if (state == port::PowerState::kD0) {
    set_adapter();
    set_children();
    power_ = state;
    // Hardware has forgotten its mode: the same VidPN once more, then visible.
    return recommit(&step);
  }
  for (auto& [id, source] : sources_) {
    if (source.visible) DXGKIT_RETURN_IF_FAILED(make_visible(id, false, &step));
  }
  set_children();
  set_adapter();
  power_ = state;
  return core_.running() ? Status::kSuccess : Status::kDeviceRemoved;
}

Status Display::show_bug_check(std::span<const std::byte> pixels, uint32_t width, uint32_t height) {
  // No lock: a bug check comes whatever anybody holds.
  if (!core_.port().has_entry("DxgkDdiSystemDisplayEnable")) return Status::kNotSupported;
  if (width == 0 || height == 0 || width > UINT16_MAX || height > UINT16_MAX)
    return Status::kInvalidParameter;
  if (pixels.size() < uint64_t{width} * height * kPixelBytes) return Status::kInvalidParameter;
  uint32_t screen_width{}, screen_height{}, format{};
  const Status status = core_.port().scanout().system_display_enable(post_target(), &screen_width,
                                                                     &screen_height, &format);
  if (!is_success(status)) return failed_call("DxgkDdiSystemDisplayEnable", status);
  if (screen_width < width || screen_height < height) return Status::kInvalidParameter;
  return core_.port().scanout().system_display_write(pixels, width, height, width * kPixelBytes, 0,
                                                     0);
}

}  // namespace dxgkit::dxgk
