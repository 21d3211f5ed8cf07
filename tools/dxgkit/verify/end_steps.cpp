// Reset, power, stop, start again, the screen of a bug check, unload.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/spelling.h"
#include "bus/function.h"
#include "dxgk/display_exercise.h"
#include "dxgk/notices.h"
#include "nt/kernel.h"
#include "port/fault_injector.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/canvas.h"
#include "tools/dxgkit/verify/darkness.h"
#include "tools/dxgkit/verify/pattern.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {
namespace {

constexpr const char* kOnScreen = "a primary is on the screen and cannot be evicted";

const char* content_note(Bench& bench) {
  return bench.plugin() == nullptr ? "" : ", content kept, work runs";
}

Outcome fences(Bench& bench) {
  const Result<uint32_t> answered = bench.exercise().query_fences();
  if (!answered.has_value()) return Outcome::failed(status_text(answered.error()));
  return Outcome::ok(fmt::format("{} idle nodes asked", *answered));
}

/// Interrupts the driver before each callback of its start, as another device on the line may: the
/// interrupt is connected before DxgkDdiStartDevice is called.
class EarlyInterrupts final : public port::FaultInjector {
 public:
  explicit EarlyInterrupts(bus::InterruptLine& line) : line_(line) {}
  std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
  std::optional<Status> before_paging(const port::PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
  void shape(port::SegmentsInfo*) override {}
  std::optional<Status> before_callback(std::string_view callback) override {
    const nt::CallFrame* const frame = nt::CallFrame::current_or_null();
    if (frame == nullptr || std::string_view(frame->name()) != "DxgkDdiStartDevice")
      return std::nullopt;
    times_.fetch_add(1, std::memory_order_relaxed);
    const bool claimed = line_.raise();
    // Who has not mapped a register cannot know of any cause.
    if (callback == "DxgkCbMapMemory") maps_ = true;
    if (claimed && !maps_) claims_ = true;
    return std::nullopt;
  }
  uint32_t times() const { return times_.load(std::memory_order_relaxed); }
  bool claims() const { return claims_; }

 private:
  bus::InterruptLine& line_;
  std::atomic<uint32_t> times_{0};
  std::atomic<bool> maps_{false}, claims_{false};
};

/// A start with other devices on the line, and one without. What is wrong; else how often.
Answer<uint32_t> interrupt_start(Bench& bench) {
  EarlyInterrupts early(bench.line());
  for (const bool interrupted : {true, false}) {
    const Outcome stopped = bench.stop();
    if (stopped.kind != Outcome::Kind::kOk) return std::unexpected(stopped.text);
    const Outcome started =
        interrupted ? bench.start({.faults = &early, .verifier = {}}) : bench.start();
    if (started.kind != Outcome::Kind::kOk) return std::unexpected(started.text);
  }
  if (early.claims()) {
    bench.findings().report(
        {.rule = "INT-08",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiInterruptRoutine",
         .actual = "It claimed an interrupt before DxgkDdiStartDevice had mapped a register.",
         .expected = "FALSE for an interrupt of another device.",
         .fix = "Return FALSE while the driver cannot ask its device.",
         .windows = "The other device on the line is not asked, and waits."});
    return std::unexpected("it claims interrupts of which it cannot know");
  }
  return early.times();
}

Outcome shared_line(Bench& bench) {
  if (!bench.has_entry("DxgkDdiInterruptRoutine"))
    return Outcome::skipped("the driver has no DxgkDdiInterruptRoutine");
  if (bench.mutated())
    return Outcome::skipped("an interrupt of the device may be pending that a mutation has lost");
  constexpr int kTimes = 4;
  // Each engine has interrupted before, and what it interrupted for is over.
  if (bench.plugin() != nullptr && !bench.display_only()) {
    const Answer<NodeJobs> jobs = run_on_each_node(bench, "shared line");
    if (!jobs) return Outcome::failed(jobs.error());
    if (!jobs->wrong.empty()) {
      report_result(bench, jobs->wrong);
      return Outcome::failed(jobs->wrong);
    }
  }
  for (int i = 0; i < kTimes && bench.running(); ++i)
    bench.exercise().interrupt_of_another_device();
  if (!bench.running()) return Outcome::failed("the adapter stopped at an interrupt");
  const Answer<uint32_t> early = interrupt_start(bench);
  if (!early)
    return Outcome::failed("when another device interrupted while it started: " + early.error());
  return Outcome::ok(fmt::format("{} of another device on its line, and {} while it started",
                                 counted(kTimes, "interrupt"), *early));
}

/// INT-22: what was completed before a reset or a sleep is completed behind it.
Status ask_for_fences(Bench& bench, Status before) {
  if (is_success(before)) static_cast<void>(bench.exercise().query_fences());
  return before;
}

Outcome reset(Bench& bench) {
  bool busy = false;
  Darkness dark(bench);
  const auto reset_once = [&] {
    return work_across(bench, [&] {
      const Status status = ask_for_fences(bench, bench.exercise().reset());
      busy = status == Status::kGraphicsAllocationBusy;
      return busy ? Status::kSuccess : status;
    });
  };
  const size_t found = bench.findings().total();
  Answer<void> done = reset_once();
  if (busy) return Outcome::skipped(kOnScreen);
  // A driver that cannot even do that is in no state to go on with.
  if (done && bench.findings().total() == found) done = raise_fences(bench, "raises fences");
  if (done && bench.findings().total() == found) done = reset_once();
  // And round to the lower half.
  if (done && bench.findings().total() == found) done = raise_fences(bench, "raises fences", 1);
  if (!done) return Outcome::failed(done.error());
  if (const Status status = dark.end(); !is_success(status))
    return Outcome::failed("its screens are not shown again: " + status_text(status));
  return Outcome::ok(fmt::format("an idle adapter was reset, twice{}", content_note(bench)));
}

/// PWR-15: the adapter stands by, and meanwhile a client asks its driver, which wakes no device.
Status stand_by(Bench& bench, Client& client) {
  const auto down = bench.system().set_power(bench.luid(), dxgk::PowerTarget::kStandby);
  if (!down.has_value()) return down.error();
  client.ask_umd_private();
  const auto up = bench.system().set_power(bench.luid(), dxgk::PowerTarget::kD0);
  return ask_for_fences(bench, up.has_value() ? Status::kSuccess : up.error());
}

/// As the machine's power manager has it, with all that goes before and after.
Status sleep_and_wake(Bench& bench) {
  for (const dxgk::PowerTarget target : {dxgk::PowerTarget::kD3, dxgk::PowerTarget::kD0}) {
    const auto done = bench.system().set_power(bench.luid(), target);
    if (!done.has_value()) return done.error();
  }
  return Status::kSuccess;
}

Outcome power(Bench& bench) {
  bool busy = false;
  Darkness dark(bench);
  const size_t found = bench.findings().total();
  const Answer<void> cycled = work_across(bench, [&] {
    Status status = bench.exercise().power_cycle();
    if (status == Status::kGraphicsAllocationBusy) status = sleep_and_wake(bench);  // on the screen
    busy = status == Status::kGraphicsAllocationBusy;
    return busy ? Status::kSuccess : ask_for_fences(bench, status);
  });
  if (busy) return Outcome::skipped(kOnScreen);
  if (!cycled) return Outcome::failed(cycled.error());
  // A driver that cannot even do that is in no state to be asked.
  if (bench.findings().total() != found)
    return Outcome::ok(fmt::format("D3 and back{}", content_note(bench)));
  Client client(bench, "asks while it sleeps");
  if (const Answer<void> open = client.open_adapter(); !open) return Outcome::failed(open.error());
  // A fence that is forgotten is 0: an older one before, a newer one now.
  if (const Answer<void> high = raise_fences(bench, "between sleeps"); !high)
    return Outcome::failed(high.error());
  const Answer<void> stood_by = work_across(bench, [&] { return stand_by(bench, client); });
  if (!stood_by) return Outcome::failed(stood_by.error());
  if (const Status status = dark.end(); !is_success(status))
    return Outcome::failed("its screens are not shown again: " + status_text(status));
  return Outcome::ok(fmt::format("D3 and back, twice{}", content_note(bench)));
}

/// An adapter that has just started, and nobody has worked yet: its nodes are preempted, and it is
/// reset, again and again. Fences are not asked for: none has been submitted.
Answer<void> disturb_unused(Bench& bench) {
  constexpr int kTimes = 2;
  for (int i = 0; i <= kTimes; ++i) {
    for (uint32_t node = 0; node < bench.node_count(); ++node) {
      const Status status = bench.exercise().preempt_idle(NodeOrdinal{node});
      if (!is_success(status) && status != Status::kNotSupported) {
        return std::unexpected(
            fmt::format("node {} was not preempted: {}", node, status_text(status)));
      }
    }
    const size_t found = bench.findings().total();
    const Status status = i == kTimes ? Status::kSuccess : bench.exercise().reset();
    if (status == Status::kGraphicsAllocationBusy || bench.findings().total() != found) break;
    if (!is_success(status)) return std::unexpected("it was not reset: " + status_text(status));
  }
  return {};
}

Outcome restart(Bench& bench) {
  // A client that keeps its objects while the adapter stops.
  auto client = std::make_unique<Client>(bench, "survivor");
  Answer<D3DKMT_HANDLE> device = std::unexpected(std::string());
  if (!bench.display_only() && client->open_adapter()) device = client->create_device();
  const Outcome stopped = bench.stop();
  if (stopped.kind != Outcome::Kind::kOk) return stopped;
  if (device && client->active(*device))
    return Outcome::failed("a device of a stopped adapter is still active");
  client.reset();
  const Outcome started = bench.start();
  if (started.kind != Outcome::Kind::kOk) return started;
  if (bench.display_only()) return Outcome::ok("stopped, removed, added and started again");
  if (const Answer<void> unused = disturb_unused(bench); !unused)
    return Outcome::failed("before any work: " + unused.error());
  const Answer<void> works = work_across(bench, [] { return Status::kSuccess; });
  if (!works) return Outcome::failed("after the second start: " + works.error());
  return Outcome::ok("stopped with a client on it, removed, added and started again");
}

/// The POST display is not taken over: the driver is not asked for it, and is stopped plainly.
class NoTakeOver final : public port::FaultInjector {
 public:
  static constexpr std::string_view kRelease = "DxgkDdiStopDeviceAndReleasePostDisplayOwnership";
  std::optional<Status> before_ddi(std::string_view ddi) override {
    if (ddi != kRelease) return std::nullopt;
    asked_ = true;
    return Status::kNotSupported;
  }
  std::optional<Status> before_paging(const port::PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
  void shape(port::SegmentsInfo*) override {}
  bool asked() const { return asked_; }

 private:
  std::atomic<bool> asked_{false};
};

Outcome plain_stop(Bench& bench) {
  if (!bench.has_entry(NoTakeOver::kRelease))
    return Outcome::skipped(
        "without an entry that gives the display back, every stop is a plain one");
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return Outcome::failed(sources.error());
  for (const dxgk::DisplaySource& source : *sources) {
    // So that there is something to be cleared.
    Canvas canvas(bench, source.id, *source.mode);
    if (!source.visible || !bench.display_only()) continue;
    if (const Answer<void> right = canvas.present_all(); !right)
      return Outcome::failed(right.error());
  }
  const Outcome before = bench.stop();
  if (before.kind != Outcome::Kind::kOk) return before;
  const bool cleared = bench.screen() == nullptr || is_dark(bench.screen()->image());
  NoTakeOver no_take_over;
  const Outcome started = bench.start({.faults = &no_take_over});
  if (started.kind != Outcome::Kind::kOk) return started;
  const Outcome stopped = bench.stop();
  const Outcome again = bench.start();
  if (stopped.kind != Outcome::Kind::kOk) return stopped;
  if (again.kind != Outcome::Kind::kOk) return again;
  if (!no_take_over.asked())
    return Outcome::skipped("no firmware has set a display that could be given back");
  if (!cleared) {
    bench.findings().report(
        {.rule = "DOD-08",
         .severity = verifier::Severity::kViolation,
         .ddi = std::string(NoTakeOver::kRelease),
         .actual = "The picture of before is on the screen when it returns.",
         .expected = "The frame buffer that is left behind is cleared.",
         .fix = "Write zeros over the whole frame buffer before it is unmapped.",
         .windows = "The last desktop is in view until the next driver draws."});
    return Outcome::failed("the display was given back with a picture on it");
  }
  return Outcome::ok("stopped with its display kept, and started again");
}

constexpr const char* kEnable = "DxgkDdiSystemDisplayEnable";
constexpr const char* kWrite = "DxgkDdiSystemDisplayWrite";

Outcome wrong_screen(Bench& bench, const char* ddi, std::string actual) {
  std::string text = actual;
  bench.findings().report(
      {.rule = "DOD-12",
       .severity = verifier::Severity::kViolation,
       .ddi = ddi,
       .actual = std::move(actual) + ".",
       .expected = "SystemDisplayEnable tells size and format of the mode that it leaves, and "
                   "SystemDisplayWrite puts the picture at its position and nowhere else.",
       .fix = "Write Width, Height and ColorFormat; copy the rows with SourceStride to PositionX "
              "and PositionY, without the GPU.",
       .windows = "The text of a bug check cannot be read."});
  return Outcome::failed(std::move(text));
}

/// A picture in the middle of the screen with longer rows, then one in each corner.
Outcome write_pictures(Bench& bench, dxgk::DisplayExercise& exercise,
                       const dxgk::DisplayExercise::BugCheckScreen& screen,
                       std::optional<uint32_t> source) {
  constexpr uint32_t kPixelBytes = dxgk::kPixelBytes;
  const auto look = [&]() -> Result<dxgk::Scanout> {
    if (!source.has_value()) return Error(Status::kNotSupported);
    return dxgk::Displays(bench.system()).scanout(bench.luid(), *source);
  };
  const uint32_t wide = std::max(1U, screen.width / 3), high = std::max(1U, screen.height / 3);
  const uint32_t right = screen.width - wide, bottom = screen.height - high;
  const std::pair<uint32_t, uint32_t> places[] = {
      {right / 2, bottom / 2}, {0, 0}, {right, 0}, {0, bottom}, {right, bottom}};
  const uint32_t stride = wide * kPixelBytes + 64;
  std::vector<std::byte> pixels(size_t{stride} * high);
  Result<dxgk::Scanout> expected = look();
  size_t compared = 0;
  for (const auto& [x, y] : places) {
    write_pattern(pixels, bench.random());
    if (const Status status = exercise.write_system_display(pixels, wide, high, stride, x, y);
        !is_success(status))
      return Outcome::failed("SystemDisplayWrite: " + status_text(status));
    const Result<dxgk::Scanout> seen = look();
    if (!expected.has_value() || !seen.has_value()) continue;
    if (seen->width != screen.width || seen->height != screen.height) {
      return wrong_screen(bench, kEnable,
                          fmt::format("It said {}x{} pixels, and the screen has {}x{}",
                                      screen.width, screen.height, seen->width, seen->height));
    }
    for (uint32_t row = 0; row < high; ++row) {
      for (uint32_t column = 0; column < wide; ++column) {
        uint8_t* const pixel = expected->pixels.data() +
                               (size_t{y + row} * screen.width + x + column) * size_t{kPixelBytes};
        const std::byte* const from =
            pixels.data() + size_t{row} * stride + size_t{column} * kPixelBytes;
        for (size_t color = 0; color < 3; ++color)
          pixel[color] = static_cast<uint8_t>(from[2 - color]);
      }
    }
    ++compared;
    const auto [want, is] = std::ranges::mismatch(expected->pixels, seen->pixels);
    if (want == expected->pixels.end()) continue;
    const size_t at = static_cast<size_t>(want - expected->pixels.begin()) / kPixelBytes;
    return wrong_screen(
        bench, kWrite,
        fmt::format("After a picture of {}x{} at ({}, {}) the pixel at ({}, {}) is wrong", wide,
                    high, x, y, at % screen.width, at / screen.width));
  }
  return Outcome::ok(fmt::format("{}x{} pixels, {}, {} compared with the screen", screen.width,
                                 screen.height, counted(std::size(places), "picture"), compared));
}

Outcome bug_check_screen(Bench& bench) {
  Result<dxgk::DisplayExercise> exercise = dxgk::DisplayExercise::on(bench.system(), bench.luid());
  if (!exercise.has_value()) return Outcome::failed(status_text(exercise.error()));
  if (!exercise->has_entry(kEnable) || !exercise->has_entry(kWrite))
    return Outcome::skipped("the driver has no entries for the screen of a bug check");
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return Outcome::failed(sources.error());
  if (sources->empty()) return Outcome::skipped("nothing is shown: no monitor is connected");
  const auto screen = exercise->enable_system_display();
  if (!screen.has_value()) {
    return wrong_screen(
        bench, kEnable,
        fmt::format("It failed with {} for a connected target", status_text(screen.error())));
  }
  constexpr uint32_t kSideMax = 65535;
  constexpr uint32_t kR8G8B8 = 20, kA8R8G8B8 = 21, kX8R8G8B8 = 22;
  if (screen->width == 0 || screen->height == 0 || screen->width > kSideMax ||
      screen->height > kSideMax) {
    return wrong_screen(bench, kEnable,
                        fmt::format("It said {}x{} pixels", screen->width, screen->height));
  }
  if (screen->format != kR8G8B8 && screen->format != kA8R8G8B8 && screen->format != kX8R8G8B8)
    return wrong_screen(bench, kEnable, fmt::format("It said format {}", screen->format));
  if (screen->format == kR8G8B8)
    return Outcome::ok("its screen has pixels of three bytes: no picture was written");
  return write_pictures(bench, *exercise, *screen,
                        bench.display_only() ? std::optional(sources->front().id) : std::nullopt);
}

constexpr const char* kResetDevice = "DxgkDdiResetDevice";

/// OPT-37, if the device shows something else while its source is hidden.
Outcome text_mode(Bench& bench) {
  if (!bench.has_entry(kResetDevice))
    return Outcome::skipped("the driver has no entry that brings character mode back");
  Result<dxgk::DisplayExercise> exercise = dxgk::DisplayExercise::on(bench.system(), bench.luid());
  if (!exercise.has_value()) return Outcome::failed(status_text(exercise.error()));
  if (exercise->has_entry(kEnable))
    return Outcome::skipped("a bug check asks its DxgkDdiSystemDisplayEnable instead");
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return Outcome::failed(sources.error());
  bus::DeviceScreen* const screen = bench.screen();
  std::optional<bus::ScreenImage> shown;
  const auto is_shown = [&](const bus::ScreenImage& image) {
    return image.width == shown->width && image.height == shown->height &&
           image.pixels == shown->pixels;
  };
  const auto visible = std::ranges::find_if(*sources, &dxgk::DisplaySource::visible);
  if (screen != nullptr && visible != sources->end()) {
    shown = screen->image();
    for (const bool show : {false, true}) {
      if (const Status status = exercise->set_visible(visible->id, show); !is_success(status))
        return Outcome::failed("a source is hidden and shown: " + status_text(status));
      const auto right = [&](const bus::ScreenImage& image) { return is_shown(image) == show; };
      if (await_screen(bench, right)) continue;
      shown.reset();  // nobody can tell
      break;
    }
  }
  const Status status = dxgk::Notices(bench.system()).reset_to_text(bench.luid());
  if (!is_success(status)) return Outcome::failed(status_text(status));
  if (!shown.has_value()) return Outcome::ok("called, and nothing is shown that could be seen");
  if (!is_shown(screen->image())) return Outcome::ok("no source is shown any more");
  bench.findings().report(
      {.rule = "OPT-37",
       .severity = verifier::Severity::kViolation,
       .ddi = kResetDevice,
       .actual = "When it returned, the screen showed what its source had shown.",
       .expected = "The adapter is in character mode, or its outputs are off.",
       .fix = "Reset the display by a few register accesses: without memory that is paged, without "
              "locks, and from any state.",
       .windows = "The bug check cannot be read: the last desktop stays on the screen."});
  return Outcome::failed("the screen shows the desktop when the system has stopped");
}

/// A driver that does not wait for its threads leaves them behind (NT-14).
Outcome stop(Bench& bench) {
  bench.slow_threads();
  return bench.stop();
}
Outcome unload(Bench& bench) { return bench.unload(); }

constexpr Step kSteps[] = {
    {"fences", "idle nodes are asked for their fence", Step::Needs::kRender, fences},
    {"shared-line", "another device on the interrupt line interrupts", Step::Needs::kAdapter,
     shared_line},
    {"reset", "an idle adapter is reset as after a timeout", Step::Needs::kRender, reset},
    {"power", "the adapter sleeps and wakes", Step::Needs::kRender, power},
    {"plain-stop", "the adapter is stopped without giving its display back", Step::Needs::kDisplay,
     plain_stop},
    {"restart", "the adapter is stopped and started again", Step::Needs::kAdapter, restart},
    {"bug-check-screen", "the screen of a bug check is written", Step::Needs::kDisplay,
     bug_check_screen},
    {"text-mode", "the adapter goes back to character mode for a bug check", Step::Needs::kDisplay,
     text_mode},
    {"stop", "the adapter is stopped and removed", Step::Needs::kDriver, stop},
    {"unload", "the driver is unloaded; what it still holds is a finding", Step::Needs::kDriver,
     unload},
};

}  // namespace

std::span<const Step> end_steps() { return kSteps; }

std::vector<Step> all_steps() {
  std::vector<Step> all;
  for (const std::span<const Step> group :
       {begin_steps(),   object_steps(),     memory_steps(),       failure_steps(),
        work_steps(),    timeout_steps(),    private_data_steps(), overreach_steps(),
        address_steps(), page_table_steps(), render_pass_steps(),  transfer_steps(),
        world_steps(),   display_steps(),    pointer_steps(),      flip_steps(),
        update_steps(),  plane_steps(),      vidpn_steps(),        start_steps(),
        end_steps(),     device_steps(),     removal_steps()})
    all.insert(all.end(), group.begin(), group.end());
  const auto last = std::ranges::find_if(
      all, [](const Step& step) { return std::string_view("bug-check-screen") == step.name; });
  const std::span<const Step> storms = storm_steps();
  all.insert(last, storms.begin(), storms.end());
  return all;
}

}  // namespace dxgkit::tool::verify
