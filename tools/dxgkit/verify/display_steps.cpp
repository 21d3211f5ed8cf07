// Screens: modes, presents and their pictures, visibility, vertical syncs, power.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/spelling.h"
#include "bus/device.h"
#include "dxgk/display_exercise.h"
#include "tools/dxgkit/verify/canvas.h"
#include "tools/dxgkit/verify/monitors.h"
#include "tools/dxgkit/verify/pointer_look.h"
#include "tools/dxgkit/verify/screen_look.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {
namespace {

constexpr size_t kModesTriedMax = 6;
constexpr size_t kRandomPresents = 4;
constexpr uint32_t kPixelBytes = dxgk::kPixelBytes;
constexpr int kVsyncs = 8;
constexpr int kVsyncsInRow = 120;
/// Long enough for a kernel to find nobody interested in vertical syncs.
constexpr int kIdlePeriods = 60;

Outcome modes(Bench& bench) {
  dxgk::Displays displays(bench.system());
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return Outcome::failed(sources.error());
  if (sources->empty()) return Outcome::skipped("nothing is shown: no monitor is connected");
  if (const Answer<void> monitors = check_monitors(bench); !monitors)
    return Outcome::failed(monitors.error());
  size_t tried = 0;
  for (const dxgk::DisplaySource& source : *sources) {
    for (size_t i = 0; i < source.modes.size() && i < kModesTriedMax; ++i) {
      const Status status = displays.set_mode(bench.luid(), source.id, source.modes[i]);
      if (!is_success(status)) {
        return Outcome::failed(fmt::format("source {} offered {}x{} and refused it: {}", source.id,
                                           source.modes[i].width, source.modes[i].height,
                                           status_text(status)));
      }
      ++tried;
    }
    if (const Status back = displays.set_mode(bench.luid(), source.id, *source.mode);
        !is_success(back))
      return Outcome::failed("back to the first mode: " + status_text(back));
  }
  return Outcome::ok(
      fmt::format("{} on {}", counted(tried, "mode"), counted(sources->size(), "source")));
}

/// Some rectangles inside the mode, one of them a single pixel.
std::vector<port::Rect> random_rects(Bench& bench, const dxgk::DisplayMode& mode) {
  std::vector<port::Rect> rects;
  for (size_t i = 0; i < 3; ++i) {
    port::Rect rect;
    rect.left = i == 0 ? 0 : static_cast<int32_t>(bench.random() % mode.width);
    rect.top = i == 0 ? 0 : static_cast<int32_t>(bench.random() % mode.height);
    const uint64_t wide = i == 1 ? 1 : 1 + bench.random() % mode.width;
    const uint64_t high = i == 1 ? 1 : 1 + bench.random() % mode.height;
    rect.right = static_cast<int32_t>(
        std::min<uint64_t>(mode.width, static_cast<uint64_t>(rect.left) + wide));
    rect.bottom = static_cast<int32_t>(
        std::min<uint64_t>(mode.height, static_cast<uint64_t>(rect.top) + high));
    rects.push_back(rect);
  }
  return rects;
}

/// A stretch in the middle that moves by so much; source and destination overlap.
port::MoveRect middle(const dxgk::DisplayMode& mode, int32_t right, int32_t down) {
  const auto width = static_cast<int32_t>(mode.width), height = static_cast<int32_t>(mode.height);
  const int32_t left = width / 4, top = height / 4;
  const int32_t wide = std::max(1, width / 2), high = std::max(1, height / 2);
  return {.source_x = left,
          .source_y = top,
          .destination = {left + right, top + down, left + right + wide, top + down + high}};
}

Answer<void> present_everywhere(Bench& bench, Canvas& canvas) {
  const dxgk::DisplayMode& mode = canvas.mode();
  const auto width = static_cast<int32_t>(mode.width), height = static_cast<int32_t>(mode.height);
  DXGKIT_VERIFY_TRY(canvas.present_all());
  const port::Rect edges[] = {{0, 0, width, 1},
                              {0, 0, 1, height},
                              {width - 1, 0, width, height},
                              {0, height - 1, width, height},
                              {0, height - 1, 1, height}};
  DXGKIT_VERIFY_TRY(canvas.present_rects(edges, 0));
  for (size_t i = 0; i < kRandomPresents; ++i) {
    const uint32_t padding =
        i % 2 == 0 ? 0 : kPixelBytes * (1 + static_cast<uint32_t>(bench.random() % 60));
    DXGKIT_VERIFY_TRY(canvas.present_rects(random_rects(bench, mode), padding));
  }
  const int32_t right = width / 8, down = height / 8;
  const std::pair<int32_t, int32_t> ways[] = {{right, down}, {-right, -down}, {right, -down},
                                              {-right, 0},   {0, down},       {0, -down}};
  for (const auto& [x, y] : ways) {
    const port::MoveRect move = middle(mode, x, y);
    DXGKIT_VERIFY_TRY(canvas.present_moves(std::span(&move, 1), {}));
  }
  // The second takes what the first has left there, the third ends at the edges.
  const int32_t wide = std::max(1, width / 2), high = std::max(1, height / 2);
  const port::MoveRect chain[] = {
      middle(mode, right, down),
      {.source_x = right, .source_y = down, .destination = {0, 0, wide, high}},
      {.source_x = 0, .source_y = 0, .destination = {width - wide, height - high, width, height}}};
  return canvas.present_moves(chain, random_rects(bench, mode));
}

Outcome presents(Bench& bench) {
  if (!bench.display_only())
    return Outcome::skipped("a full driver shows primaries; presents are for display-only ones");
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return Outcome::failed(sources.error());
  if (sources->empty()) return Outcome::skipped("nothing is shown: no monitor is connected");
  size_t done = 0;
  size_t compared = 0;
  for (const dxgk::DisplaySource& source : *sources) {
    Canvas canvas(bench, source.id, *source.mode);
    if (const Answer<void> right = present_everywhere(bench, canvas); !right)
      return Outcome::failed(right.error());
    done += canvas.presents();
    compared += canvas.compared();
  }
  return Outcome::ok(
      fmt::format("{}, {} compared with the screen", counted(done, "present"), compared));
}

Answer<void> look_dark(Bench& bench, const char* ddi, const char* when) {
  if (await_screen(bench, is_dark)) return {};
  bench.findings().report(
      {.rule = "DOD-11",
       .severity = verifier::Severity::kViolation,
       .ddi = ddi,
       .actual = fmt::format("The screen is not dark {}.", when),
       .expected = "A source that is not visible shows nothing, whatever is presented on it.",
       .fix = "Keep what SetVidPnSourceVisibility said last. On FALSE turn the output off or clear "
              "the screen, and leave out the pixels of presents until TRUE.",
       .windows = "The old desktop, or half of a new one, stays in view during a mode change."});
  return std::unexpected(fmt::format("the screen is not dark {}", when));
}

/// Gives the kernel's primary of a full driver one color. False: it cannot be filled.
Answer<bool> color_primary(Bench& bench, dxgk::DisplayExercise& exercise, uint32_t source) {
  constexpr uint32_t kColor = 0x00FF'8040;
  if (bench.display_only() || bench.gpu_addresses()) return false;
  const Status status = exercise.fill_primary(source, kColor);
  if (status == Status::kNotSupported) return false;
  if (!is_success(status)) return std::unexpected("a primary is filled: " + status_text(status));
  return true;
}

bool is_whole(const bus::ScreenImage& image, const dxgk::DisplayMode& mode) {
  return image.width == mode.width && image.height == mode.height;
}

/// Pixels that have another color than the first.
size_t other_pixels(const bus::ScreenImage& image) {
  size_t others = 0;
  for (size_t i = kPixelBytes; i < image.pixels.size(); i += kPixelBytes)
    others += std::memcmp(&image.pixels[i], image.pixels.data(), kPixelBytes) != 0 ? 1 : 0;
  return others;
}

/// Hardware takes an address at a vertical sync, and a real screen may be late where others
/// compute. Returns when the picture is as it should be, and if it never is.
void await_picture(Bench& bench, const dxgk::DisplayMode& mode, bool colored) {
  const runtime::TimeNs deadline = bench.runtime().now() + 2 * runtime::kSecond;
  do {
    bench.runtime().sleep_for(10 * runtime::kMillisecond);
    const bus::ScreenImage image = bench.screen()->image();
    if (is_whole(image, mode) && (!colored || (other_pixels(image) == 0 && !is_dark(image))))
      return;
  } while (bench.runtime().now() < deadline);
}

/// A full driver's screen shows the whole primary, whatever is in it.
Answer<void> look_whole(Bench& bench, const dxgk::DisplayMode& mode) {
  const bus::ScreenImage image = bench.screen()->image();
  if (bench.display_only() || is_whole(image, mode)) return {};
  bench.findings().report(
      {.rule = "DOD-11",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiSetVidPnSourceAddress",
       .actual = fmt::format("The screen shows {}x{} pixels of a visible source with {}x{}.",
                             image.width, image.height, mode.width, mode.height),
       .expected = "A source that is visible shows its primary, from the first row to the last.",
       .fix = "Give the hardware width, height and pitch together with the address.",
       .windows = "The screen is black, or has the desktop in one corner."});
  return std::unexpected("a source that is visible does not show its whole primary");
}

/// The primary has one color.
Answer<void> look_colored(Bench& bench) {
  const bus::ScreenImage image = bench.screen()->image();
  const size_t others = other_pixels(image);
  if (others == 0 && !is_dark(image)) return {};
  bench.findings().report(
      {.rule = "DOD-11",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiSetVidPnSourceAddress",
       .actual = fmt::format(
           "The primary is filled with one color. On the screen {}.",
           others == 0 ? "it is black" : fmt::format("{} pixels have another one", others)),
       .expected = "A source that is visible shows its primary.",
       .fix = "Give the hardware PrimaryAddress, and width, height and pitch of the allocation.",
       .windows = "The screen shows other memory than the desktop."});
  return std::unexpected("a source that is visible does not show its primary");
}

Answer<void> hide_and_show(Bench& bench, dxgk::DisplayExercise& exercise,
                           const dxgk::DisplaySource& source) {
  Canvas canvas(bench, source.id, *source.mode);
  if (bench.display_only()) DXGKIT_VERIFY_TRY(canvas.present_all());
  const Answer<bool> colored = color_primary(bench, exercise, source.id);
  if (!colored) return std::unexpected(colored.error());
  const bus::ScreenImage before = bench.screen()->image();
  if (const Status status = exercise.set_visible(source.id, true); !is_success(status))
    return std::unexpected("showing what is shown: " + status_text(status));
  if (!bench.display_only()) await_picture(bench, *source.mode, *colored);
  DXGKIT_VERIFY_TRY(look_whole(bench, *source.mode));
  if (*colored) DXGKIT_VERIFY_TRY(look_colored(bench));
  if (bench.display_only() && before.pixels != bench.screen()->image().pixels) {
    bench.findings().report(
        {.rule = "DOD-11",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiSetVidPnSourceVisibility",
         .actual = "The picture is gone after Visible was TRUE for a source that was visible.",
         .expected = "A source that is visible already shows what it showed.",
         .fix = "Clear the screen where a source becomes invisible, and only there.",
         .windows = "Parts of the desktop are black until they are drawn again."});
    return std::unexpected("a source that is shown again has lost its picture");
  }
  if (const Status status = exercise.set_visible(source.id, false); !is_success(status))
    return std::unexpected("hiding: " + status_text(status));
  Answer<void> dark = look_dark(bench, "DxgkDdiSetVidPnSourceVisibility", "once it is invisible");
  if (dark && bench.display_only()) {
    static_cast<void>(exercise.present(canvas.whole()));  // a failure is an answer, too
    dark = look_dark(bench, "DxgkDdiPresentDisplayOnly", "after a present while it is invisible");
  }
  if (const Status status = exercise.set_visible(source.id, true); !is_success(status))
    return std::unexpected("showing: " + status_text(status));
  if (!dark) return dark;
  if (bench.display_only()) return canvas.present_all();
  // The primary has kept its content, and is still the one.
  if (is_dark(before) || before.pixels == bench.screen()->image().pixels) return {};
  bench.findings().report(
      {.rule = "DOD-11",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiSetVidPnSourceVisibility",
       .actual = "A source that was invisible and is visible again does not show what it showed.",
       .expected = "The same primary is on the screen again.",
       .fix = "On TRUE turn the output on with the address that was set last.",
       .windows = "The desktop stays black or stale until the next flip."});
  return std::unexpected("the picture is not back when the source is visible again");
}

}  // namespace

Outcome visibility(Bench& bench) {
  if (bench.screen() == nullptr)
    return Outcome::skipped("nobody but the driver knows what the device's screen shows");
  Result<dxgk::DisplayExercise> exercise = dxgk::DisplayExercise::on(bench.system(), bench.luid());
  if (!exercise.has_value()) return Outcome::failed(status_text(exercise.error()));
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return Outcome::failed(sources.error());
  if (sources->empty()) return Outcome::skipped("nothing is shown: no monitor is connected");
  if (sources->size() > 1)
    return Outcome::skipped(
        "the screen of a device with several sources has another one's picture");
  for (const dxgk::DisplaySource& source : *sources) {
    if (const Answer<void> right = hide_and_show(bench, *exercise, source); !right)
      return Outcome::failed(right.error());
  }
  return Outcome::ok(
      fmt::format("{} hidden and shown, {}", counted(sources->size(), "source"),
                  is_dark(bench.screen()->image()) ? "all of them black" : "with a picture"));
}

namespace {

void report_line(Bench& bench, std::string actual) {
  bench.findings().report(
      {.rule = "DISP-24",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiGetScanLine",
       .actual = std::move(actual),
       .expected = "ScanLine is the line that is drawn now, below the total height of the mode; "
                   "InVerticalBlank is FALSE while a line of the picture is drawn.",
       .fix = "Read the position where the hardware tells it, and clear its flag bits.",
       .windows = "Clients that race the beam tear, or wait for a whole frame."});
}

/// Looks at the beam through one period. The number of different lines that were seen.
Answer<size_t> follow_beam(Bench& bench, dxgk::DisplayExercise& exercise, uint32_t source,
                           const vidpn::Signal& signal, runtime::DurationNs period) {
  constexpr int kLooks = 40;
  const bool total_open = signal.total.height == vidpn::kNotSpecified;
  std::set<uint32_t> lines;
  bool drawn = false, blank = false;
  int looks_drawn = 0;
  for (int i = 0; i < kLooks; ++i) {
    bool in_blank = false;
    uint32_t line = 0;
    const Status status = exercise.scan_line(source, &in_blank, &line);
    if (status == Status::kNotSupported) return size_t{0};
    if (!is_success(status)) return std::unexpected("GetScanLine: " + status_text(status));
    if (in_blank) {
      blank = true;
    } else {
      drawn = true;
      ++looks_drawn;
      lines.insert(line);
    }
    const uint32_t most = in_blank && !total_open ? signal.total.height : signal.active.height;
    if ((!in_blank || !total_open) && line >= std::max(most, signal.active.height)) {
      report_line(
          bench, fmt::format("ScanLine is {}{}, and the mode has {}, {} in all.", line,
                             in_blank ? " in the blank" : "", counted(signal.active.height, "line"),
                             total_open ? 0 : signal.total.height));
      return std::unexpected("a scan line outside the mode");
    }
    bench.runtime().sleep_for(period / kLooks);
  }
  if (!drawn || (lines.size() < 2 && signal.active.height > 1)) {
    report_line(bench, fmt::format("In {} at one period it was {}.", counted(kLooks, "look"),
                                   drawn   ? fmt::format("always at line {}", *lines.begin())
                                   : blank ? "always in the vertical blank"
                                           : "nowhere"));
    return std::unexpected("the beam does not move");
  }
  // A blank that is shorter than the time between looks.
  constexpr int kFineLooks = 400;
  for (int i = 0; !blank && bench.simulated() && i < kFineLooks; ++i) {
    uint32_t line = 0;
    bench.runtime().sleep_for(period / kFineLooks);
    const Status status = exercise.scan_line(source, &blank, &line);
    if (!is_success(status))
      return std::unexpected("asking for the scan line: " + status_text(status));
  }
  if (!blank && bench.simulated()) {
    report_line(bench, fmt::format("In {} at one period it never was in the vertical blank.",
                                   counted(kFineLooks, "look")));
    return std::unexpected("the beam is never in the vertical blank");
  }
  // Any screen draws for most of its time, and in equal times equally many lines.
  const uint32_t height = signal.active.height;
  const uint32_t covered = *lines.rbegin() - *lines.begin() + 1;
  if (looks_drawn < kLooks / 2 || covered < height / 2) {
    report_line(bench, fmt::format("In {} at one period a line was drawn in {}, from line {} to {} "
                                   "of {}.",
                                   counted(kLooks, "look"), looks_drawn, *lines.begin(),
                                   *lines.rbegin(), height));
    return std::unexpected("the beam is in most of the period nowhere, or in few lines");
  }
  return lines.size();
}

/// So many in a row that a rate that is wrong by one in a hundred misses one of them.
Answer<void> count_vsyncs(Bench& bench, dxgk::DisplayExercise& exercise, uint32_t source,
                          runtime::DurationNs period) {
  runtime::TimeNs first = 0;
  for (int i = 0; i <= kVsyncsInRow; ++i) {
    if (const Status status = exercise.wait_for_vblank(source); !is_success(status))
      return std::unexpected("waiting for a vertical sync: " + status_text(status));
    if (i == 0) first = bench.runtime().now();
  }
  const runtime::DurationNs passed = bench.runtime().now() - first;
  const runtime::DurationNs due = kVsyncsInRow * period;
  if (passed > due - period && passed < due + period) return {};
  bench.findings().report(
      {.rule = "DISP-25",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkCbNotifyInterrupt",
       .actual =
           fmt::format("{} vertical syncs came in {} us; at the frequency of the mode they "
                       "take {} us.",
                       kVsyncsInRow, passed / runtime::kMicrosecond, due / runtime::kMicrosecond),
       .expected = "Vertical syncs come at the frequency that the driver has given the mode.",
       .fix = "Say in VSyncFreq of the target mode what the hardware does, and report each one.",
       .windows = "Animation runs at another speed than the screen."});
  return std::unexpected("vertical syncs come at another rate than the mode's");
}

/// Work whose completions come between the vertical syncs that are counted, if there is any.
class Beside {
 public:
  explicit Beside(Bench& bench) : bench_(bench), worker_(bench, "beside the vertical syncs") {}
  Answer<void> begin(runtime::DurationNs period) {
    constexpr int kJobs = 24;
    if (!bench_.has_work()) return {};
    DXGKIT_VERIFY_TRY(worker_.open());
    Answer<std::unique_ptr<Job>> job =
        Job::create(bench_, worker_.client, worker_.device, bench_.random(), 0);
    if (!job) return std::unexpected(job.error());
    job_ = std::move(*job);
    for (int i = 0; i < kJobs; ++i)
      DXGKIT_VERIFY_TRY(job_->submit(worker_.contexts[0], static_cast<uint64_t>(period) / 3));
    return {};
  }
  Answer<void> end() {
    if (job_ == nullptr) return {};
    DXGKIT_VERIFY_TRY(worker_.client.wait_idle(worker_.device));
    DXGKIT_VERIFY_TRY(job_->destroy());
    return worker_.client.destroy_device(worker_.device);
  }

 private:
  Bench& bench_;
  Worker worker_;
  std::unique_ptr<Job> job_;
};

Outcome vsyncs(Bench& bench) {
  if (bench.display_only())
    return Outcome::skipped(
        "the kernel has no use for the vertical syncs of a display-only driver");
  if (!bench.simulated())
    return Outcome::skipped("with real threads nobody knows when a thread looks: use --mode sim");
  Result<dxgk::DisplayExercise> exercise = dxgk::DisplayExercise::on(bench.system(), bench.luid());
  if (!exercise.has_value()) return Outcome::failed(status_text(exercise.error()));
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return Outcome::failed(sources.error());
  const vidpn::Network active = exercise->active();
  exercise->ask_other_interrupts();
  size_t waited = 0;
  size_t lines = 0;
  runtime::DurationNs longest = 0;
  for (const dxgk::DisplaySource& source : *sources) {
    const vidpn::TargetMode* const mode = active.pinned_target_mode(*source.target);
    if (mode == nullptr || !mode->signal.vsync.specified() || !source.visible) continue;
    const auto period =
        static_cast<runtime::DurationNs>(1e9 / std::max(1.0, mode->signal.vsync.hertz()));
    longest = std::max(longest, period);
    runtime::TimeNs last = 0;
    for (int i = 0; i < kVsyncs; ++i) {
      // The pause lets a kernel that saves power switch the interrupt off: it has to come back.
      if (i == kVsyncs / 2) bench.runtime().sleep_for(kIdlePeriods * period);
      // The first after switching on may be one that the hardware has kept from before.
      const bool in_step = i % (kVsyncs / 2) > 1;
      if (const Status status = exercise->wait_for_vblank(source.id); !is_success(status))
        return Outcome::failed("waiting for a vertical sync: " + status_text(status));
      ++waited;
      const runtime::TimeNs now = bench.runtime().now();
      const runtime::DurationNs passed = now - last;
      if (in_step && (passed < period / 2 || passed > 2 * period)) {
        bench.findings().report(
            {.rule = "DISP-25",
             .severity = verifier::Severity::kViolation,
             .ddi = "DxgkCbNotifyInterrupt",
             .actual = fmt::format("A vertical sync came {} us after the one before; the mode has "
                                   "one each {} us.",
                                   passed / runtime::kMicrosecond, period / runtime::kMicrosecond),
             .expected = "While it is switched on, each vertical sync is reported once.",
             .fix = "Report CRTC_VSYNC at each interrupt of that cause, and acknowledge it.",
             .windows = "Animation runs at another speed than the screen."});
        return Outcome::failed("vertical syncs come at another rate than the mode's");
      }
      last = now;
    }
    Beside beside(bench);
    if (const Answer<void> begun = beside.begin(period); !begun)
      return Outcome::failed("work beside the vertical syncs: " + begun.error());
    const Answer<void> right = count_vsyncs(bench, *exercise, source.id, period);
    const Answer<void> ended = beside.end();
    if (!right) return Outcome::failed(right.error());
    if (!ended) return Outcome::failed("work beside the vertical syncs: " + ended.error());
    waited += kVsyncsInRow;
    const Answer<size_t> seen = follow_beam(bench, *exercise, source.id, mode->signal, period);
    if (!seen) return Outcome::failed(seen.error());
    lines += *seen;
  }
  if (waited == 0) return Outcome::skipped("no source is shown with a vertical frequency");
  // Switching them on and off has left the other interrupts alone. Off: while they are on, each has
  // an ISR look at what else there is.
  if (bench.plugin() != nullptr) {
    bench.runtime().sleep_for(kIdlePeriods * longest);
    const Answer<NodeJobs> jobs = run_on_each_node(bench, "vsyncs");
    if (!jobs) return Outcome::failed("work behind the vertical syncs: " + jobs.error());
    if (!jobs->wrong.empty()) {
      report_result(bench, jobs->wrong);
      return Outcome::failed(jobs->wrong);
    }
  }
  return Outcome::ok(fmt::format("{} vertical syncs, {} scan lines", waited, lines));
}

/// Waits for a vertical sync of each source, so that the next ones are due.
void meet_vsync(Bench& bench) {
  Result<dxgk::DisplayExercise> exercise = dxgk::DisplayExercise::on(bench.system(), bench.luid());
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!bench.simulated() || !exercise.has_value() || !sources) return;
  for (const dxgk::DisplaySource& source : *sources) {
    if (source.visible) static_cast<void>(exercise->wait_for_vblank(source.id));
  }
}

/// A full driver's screen is what it was after each sleep, and its vertical syncs come.
Outcome sleep_and_show(Bench& bench) {
  size_t naps = 0;
  for (const dxgk::PowerTarget target :
       {dxgk::PowerTarget::kD3, dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kHibernate}) {
    const Answer<bool> pointed = show_pointers(bench);
    if (!pointed) return Outcome::failed(pointed.error());
    if (target != dxgk::PowerTarget::kD3) meet_vsync(bench);
    for (const dxgk::PowerTarget next : {target, dxgk::PowerTarget::kD0}) {
      const auto done = bench.system().set_power(bench.luid(), next);
      if (done.has_value()) continue;
      if (done.error() != Status::kGraphicsAllocationBusy)
        return Outcome::failed(status_text(done.error()));
      const Answer<void> again =
          *pointed ? show_pointers_again(bench, "a sleep that cannot be") : Answer<void>();
      if (!again) return Outcome::failed(again.error());
      return Outcome::skipped("a primary is on the screen and cannot be evicted");
    }
    ++naps;
    const Answer<void> again = *pointed ? show_pointers_again(bench, "a sleep") : Answer<void>();
    if (!again) return Outcome::failed(again.error());
    for (const auto& look : {visibility, vsyncs}) {
      const Outcome after = look(bench);
      if (after.kind == Outcome::Kind::kFailed) return after;
    }
  }
  return Outcome::ok(fmt::format("{} asleep, and shown again", counted(naps, "time")));
}

/// To sleep and to hibernate, and meanwhile a client asks the driver (PWR-15).
Outcome blank(Bench& bench) {
  if (!bench.display_only()) return sleep_and_show(bench);
  dxgk::Displays displays(bench.system());
  Client client(bench, "asks while it sleeps");
  if (const Answer<void> open = client.open_adapter(); !open) return Outcome::failed(open.error());
  for (const port::PowerAction action :
       {port::PowerAction::kSleep, port::PowerAction::kHibernate}) {
    for (const port::PowerState state : {port::PowerState::kD3, port::PowerState::kD0}) {
      const Status status = displays.set_power(bench.luid(), state, action);
      if (!is_success(status)) return Outcome::failed(status_text(status));
      if (state == port::PowerState::kD3) client.ask_umd_private();
    }
  }
  // The picture is right again afterwards.
  const Outcome after = presents(bench);
  if (after.kind == Outcome::Kind::kFailed) return after;
  return Outcome::ok("blanked and shown again, twice; " + after.text);
}

constexpr Step kSteps[] = {
    {"modes", "every offered mode is set", Step::Needs::kDisplay, modes},
    {"presents", "pictures and parts of them are presented", Step::Needs::kDisplay, presents},
    {"visibility", "a source is hidden and shown again", Step::Needs::kDisplay, visibility},
    {"vsyncs", "vertical syncs come, and the beam moves", Step::Needs::kDisplay, vsyncs},
    {"blank", "screens go dark and come back", Step::Needs::kDisplay, blank},
};

}  // namespace

std::span<const Step> display_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
