#include "dxgk/display/display_only_presents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"

namespace dxgkit::dxgk {
namespace {

/// STATUS_GRAPHICS_PRESENT_OCCLUDED.
constexpr Status kPresentOccluded = Status{0xC01E0006};

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

DisplayOnlyPresents::DisplayOnlyPresents(DisplayCore& display, const ActiveVidPn& active)
    : display_(display), core_(display.core()), active_(active) {}

DisplayOnlyPresents::~DisplayOnlyPresents() {
  for (auto& [source, surface] : surfaces_) free(surface);
}

Status DisplayOnlyPresents::prepare(uint32_t source, const DisplayMode& mode,
                                    uint32_t pitch_bytes) {
  Surface& surface = surfaces_[source];
  const uint64_t row_bytes = std::max<uint64_t>(uint64_t{mode.width} * kPixelBytes, pitch_bytes);
  const uint64_t bytes = row_bytes * mode.height;
  const uint64_t pages = (bytes + kPageBytes - 1) / kPageBytes;
  if (surface.page_count >= pages && surface.mode == mode) return Status::kSuccess;
  const Result<bus::PageFrame> first = core_.machine().allocate_contiguous(pages);
  if (!first.has_value()) return first.error();
  free(surface);
  surface.pages = *first;
  surface.page_count = pages;
  surface.mode = mode;
  return Status::kSuccess;
}

void DisplayOnlyPresents::release(uint32_t source) { free(surfaces_[source]); }

void DisplayOnlyPresents::free(Surface& surface) {
  if (surface.page_count != 0) core_.machine().free_contiguous(surface.pages, surface.page_count);
  surface.page_count = 0;
  surface.mode = {};
}

Status DisplayOnlyPresents::present(const DisplayPresent& request, Occluded occluded) {
  if (!display_.display_only()) return Status::kNotSupported;
  const DisplayLock lock(display_);
  if (!core_.running()) return Status::kDeviceRemoved;
  const std::optional<DisplayMode> mode = active_.mode_of(request.source);
  if (!mode.has_value()) return Status::kInvalidParameter;
  const uint64_t row_bytes = uint64_t{mode->width} * kPixelBytes;
  if (request.pitch_bytes < row_bytes || request.pitch_bytes > INT32_MAX)
    return Status::kInvalidParameter;
  const uint64_t needed = uint64_t{request.pitch_bytes} * (mode->height - 1) + row_bytes;
  if (request.pixels.size() < needed) return Status::kInvalidParameter;
  for (const port::MoveRect& move : request.moves) {
    if (!inside(move, *mode)) return Status::kInvalidParameter;
  }
  for (const port::Rect& rect : request.dirty) {
    if (!inside(rect, *mode)) return Status::kInvalidParameter;
  }
  if (display_.power() != port::PowerState::kD0) return kPresentOccluded;
  if (!active_.visible(request.source) && occluded == Occluded::kRefused) return kPresentOccluded;
  // There is memory already, unless a mode set failed and was taken back without it, or the rows
  // are longer than those before.
  DXGKIT_RETURN_IF_FAILED(prepare(request.source, *mode, request.pitch_bytes));
  const Surface& surface = surfaces_.at(request.source);

  std::vector<port::Rect> dirty = request.dirty;
  if (dirty.empty() && request.moves.empty()) {
    dirty.push_back({0, 0, static_cast<int32_t>(mode->width), static_cast<int32_t>(mode->height)});
  }
  // The memory is ours, but a driver may have written to it: the whole picture is copied, also
  // where nothing changed.
  std::byte* const pixels = core_.machine().system_pointer(
      bus::PhysicalAddress{surface.pages.value * kPageBytes}, surface.page_count * kPageBytes);
  std::memcpy(pixels, request.pixels.data(), needed);
  {
    const runtime::MutexLock events(mutex_);
    presents_[request.source] = PresentState::kInDriver;
    progress_failed_[request.source] = false;
  }
  progressed_.reset();
  const Status status = core_.port().scanout().present_display_only(
      {.source = request.source,
       .pixels = pixels,
       .bytes_per_pixel = kPixelBytes,
       .pitch_bytes = static_cast<int32_t>(request.pitch_bytes),
       .moves = request.moves,
       .dirty = dirty});
  if (status == Status::kPending) return wait_for_progress(request.source);
  bool reported = false;
  {
    const runtime::MutexLock events(mutex_);
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
  // DOD-03: of all display calls this one may fail for want of memory.
  if (status == Status::kNoMemory || status == Status::kInsufficientResources) return status;
  if (!is_success(status)) return display_.failed_call("DxgkDdiPresentDisplayOnly", status);
  return Status::kSuccess;
}

Status DisplayOnlyPresents::wait_for_progress(uint32_t source) {
  bool waiting = false;
  {
    const runtime::MutexLock events(mutex_);
    PresentState& state = presents_[source];
    waiting = state != PresentState::kReported;
    state = waiting ? PresentState::kPending : PresentState::kIdle;
  }
  const runtime::TimeNs limit = core_.options().tdr_delay_ns;
  const runtime::TimeNs deadline = limit <= 0 ? runtime::kForever : core_.runtime().now() + limit;
  while (waiting) {
    const bool late = progressed_.wait(deadline) == runtime::WaitResult::kTimedOut;
    {
      const runtime::MutexLock events(mutex_);
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
    const runtime::MutexLock events(mutex_);
    failed = progress_failed_[source];
  }
  if (!failed) return Status::kSuccess;
  return display_.failed_call("DxgkDdiPresentDisplayOnly (progress)", Status::kUnsuccessful);
}

void DisplayOnlyPresents::on_progress(const port::InterruptReport& report) {
  bool unexpected = false;
  {
    const runtime::MutexLock lock(mutex_);
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

void DisplayOnlyPresents::on_adapter_failed() {
  {
    const runtime::MutexLock lock(mutex_);
    adapter_failed_ = true;
  }
  progressed_.set();
}

Result<Scanout> DisplayOnlyPresents::scanout(uint32_t source, const DisplayMode& mode) {
  bus::PciFunction& function = core_.function();
  const std::optional<bus::PostDisplay> post = function.post_display();
  if (!post.has_value() || source != 0) return Error(Status::kNotSupported);
  if (post->width != mode.width || post->height != mode.height) return Error(Status::kNotSupported);
  const bus::Bar& bar = function.bars()[post->bar];
  const uint64_t bytes = uint64_t{post->pitch_bytes} * post->height;
  if (!range_within(post->offset_bytes, bytes, bar.size)) return Error(Status::kNotSupported);
  auto* pixels = static_cast<std::byte*>(
      core_.machine().map_io(bus::PhysicalAddress{bar.base.value + post->offset_bytes}, bytes));
  if (pixels == nullptr) return Error(Status::kNoMemory);
  Scanout picture = picture_of(pixels, mode, post->pitch_bytes);
  static_cast<void>(core_.machine().unmap_io(pixels, bytes));
  return picture;
}

}  // namespace dxgkit::dxgk
