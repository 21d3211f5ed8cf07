// VidPNs that mode setting never makes: what the driver says about them, and what it leaves behind
// when a function of the VidPN interfaces fails.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/spelling.h"
#include "dxgk/display_exercise.h"
#include "tools/dxgkit/verify/canvas.h"
#include "vidpn/judge.h"

namespace dxgkit::tool::verify {
namespace {

using dxgk::DisplayExercise;
using vidpn::Network;
using vidpn::Path;
using vidpn::Pivot;
using vidpn::SourceTarget;

constexpr const char* kEnumerate = "DxgkDdiEnumVidPnCofuncModality";
constexpr const char* kIsSupported = "DxgkDdiIsSupportedVidPn";
constexpr const char* kUpdatePath = "DxgkDdiUpdateActiveVidPnPresentPath";

constexpr size_t kModesMax = 5;        // of a source or target are pinned, any of those offered
constexpr size_t kPairsMax = 6;        // of a source mode and a target mode
constexpr uint32_t kCallsMax = 200;    // of interface functions in one DDI
constexpr uint32_t kTooLarge = 65528;  // pixels: no adapter scans out so many in one direction
constexpr uint32_t kIdentity = 1;      // D3DKMDT_VPPS_IDENTITY, D3DKMDT_VPPR_IDENTITY
/// Whatever a path may support, without offsets of rotations.
constexpr uint32_t kScalingBits = 0x1F, kRotationBits = 0xF;
constexpr uint32_t kScalings = 5, kRotations = 4;  // values from 1: D3DKMDT_VPPS_*, D3DKMDT_VPPR_*

std::string mode_text(const vidpn::SourceMode& mode) { return vidpn::to_text(mode); }
std::string mode_text(const vidpn::TargetMode& mode) { return vidpn::to_text(mode.signal); }

bool same_mode(vidpn::SourceMode one, const vidpn::SourceMode& other) {
  one.id = other.id;
  return one == other;
}
bool same_mode(vidpn::TargetMode one, const vidpn::TargetMode& other) {
  one.id = other.id;
  one.preference = other.preference;  // it depends on what else is offered
  return one == other;
}

template <typename Mode>
bool contains(const vidpn::ModeSet<Mode>& set, const Mode& wanted) {
  return std::ranges::any_of(set.modes, [&](const Mode& mode) { return same_mode(mode, wanted); });
}

/// The first mode of `part` that `whole` lacks, in words; empty if there is none.
template <typename Mode>
std::string missing(const std::map<uint32_t, vidpn::ModeSet<Mode>>& part,
                    const std::map<uint32_t, vidpn::ModeSet<Mode>>& whole, const char* owner) {
  for (const auto& [id, set] : part) {
    const auto other = whole.find(id);
    for (const Mode& mode : set.modes) {
      if (other == whole.end() || !contains(other->second, mode))
        return fmt::format("{} of {} {}", mode_text(mode), owner, id);
    }
  }
  return {};
}

/// Whatever the modes of `part` offer beyond those of `whole`.
std::string beyond(const Network& part, const Network& whole) {
  const std::string source = missing(part.source_sets, whole.source_sets, "source");
  return source.empty() ? missing(part.target_sets, whole.target_sets, "target") : source;
}

/// Two answers to the same question: what one has and the other lacks.
std::string difference(const Network& first, const Network& second) {
  if (const std::string lost = beyond(first, second); !lost.empty())
    return lost + " is offered the first time only";
  if (const std::string fresh = beyond(second, first); !fresh.empty())
    return fresh + " is offered the second time only";
  for (const Path& path : first.paths) {
    const Path* const other = second.find_path(path.source, path.target);
    if (other == nullptr) continue;
    if (path.scaling_support == other->scaling_support &&
        path.rotation_support == other->rotation_support)
      continue;
    return fmt::format(
        "path {} -> {} supports scaling {:#x} and rotation {:#x} the first time, "
        "{:#x} and {:#x} the second",
        path.source, path.target, path.scaling_support, path.rotation_support,
        other->scaling_support, other->rotation_support);
  }
  return {};
}

template <typename Mode>
void list_pins(std::string* text, const std::map<uint32_t, vidpn::ModeSet<Mode>>& sets,
               const char* owner) {
  for (const auto& [id, set] : sets) {
    if (const Mode* const mode = set.pinned_mode()) {
      *text += fmt::format("{}{} pinned on {} {}", text->empty() ? "" : ", ", mode_text(*mode),
                           owner, id);
    }
  }
}

std::string pins_text(const Network& network) {
  std::string text;
  list_pins(&text, network.source_sets, "source");
  list_pins(&text, network.target_sets, "target");
  return text.empty() ? "nothing pinned" : text;
}

std::string pivot_text(const Pivot& pivot) {
  switch (pivot.kind) {
    case Pivot::Kind::kSource:
      return fmt::format("source {} as the pivot", pivot.source);
    case Pivot::Kind::kTarget:
      return fmt::format("target {} as the pivot", pivot.target);
    case Pivot::Kind::kScaling:
      return "the scaling as the pivot";
    case Pivot::Kind::kRotation:
      return "the rotation as the pivot";
    case Pivot::Kind::kNone:
      break;
  }
  return "no pivot";
}

std::string paths_text(const Network& network) {
  std::string text;
  for (const Path& path : network.paths)
    text += fmt::format("{}{} -> {}", text.empty() ? "" : ", ", path.source, path.target);
  return text.empty() ? "no path" : "path " + text;
}

/// Asks one driver. The first mistake is reported, and ends the inquiry with an error.
class Inquiry {
 public:
  Inquiry(Bench& bench, DisplayExercise& exercise) : bench_(bench), exercise_(exercise) {}

  Answer<void> ask_empty();
  /// Everything about VidPNs with these paths. An unsupported topology is counted only.
  Answer<void> ask_about(std::span<const SourceTarget> paths);
  Answer<void> recommend_modes(uint32_t target);
  Answer<void> update_paths();
  Answer<void> commit_failing(const dxgk::DisplaySource& source);
  std::string text() const;

 private:
  /// Findings so far that are more than warnings.
  size_t told() const;
  std::unexpected<std::string> wrong(const char* rule, const char* ddi, std::string actual,
                                     std::string expected, std::string fix, std::string why);
  Answer<void> check_answer(const char* ddi, const DisplayExercise::Answer& answer,
                            const std::string& asked);
  Answer<bool> is_supported(const Network& network);
  Answer<void> expect_supported(const Network& network, bool expected, const char* why);
  Answer<Network> enumerate(const Network& network, Pivot pivot);
  Answer<void> check_support_bits(const Network& before, const Network& after, const Pivot& pivot);
  Answer<void> repeat(const Network& fresh, const Network& free);
  Answer<void> pin_one_end(const Network& free, const Path& path);
  Answer<void> pin_both_ends(const Network& free, const Path& path);
  Answer<void> ask_for_too_much(const Network& free, const Path& path);
  /// Each function that the driver calls fails once; `again` must be right after each.
  Answer<void> fail_each(const char* ddi, const std::string& asked,
                         const std::function<DisplayExercise::Answer(uint32_t nth)>& call,
                         const std::function<Answer<void>()>& again);
  Answer<void> fail_questions(const Network& fresh, const Network& free, const Path& path);

  Bench& bench_;
  DisplayExercise& exercise_;
  size_t networks_ = 0, refused_ = 0, questions_ = 0, enumerations_ = 0, failures_ = 0;
  // Of the path at hand: what was pinned, and what was offered at the other end then.
  std::vector<std::pair<vidpn::SourceMode, vidpn::TargetModeSet>> by_source_;
  std::vector<std::pair<vidpn::TargetMode, vidpn::SourceModeSet>> by_target_;
};

std::string Inquiry::text() const {
  return fmt::format("{}, {} of them not supported, {}, {}, {} failing functions",
                     counted(networks_ + refused_, "topology", "topologies"), refused_,
                     counted(questions_, "question"), counted(enumerations_, "enumeration"),
                     failures_);
}

size_t Inquiry::told() const {
  return static_cast<size_t>(
      std::ranges::count_if(bench_.findings().all(), [](const verifier::Finding& finding) {
        return finding.severity != verifier::Severity::kWarning;
      }));
}

std::unexpected<std::string> Inquiry::wrong(const char* rule, const char* ddi, std::string actual,
                                            std::string expected, std::string fix,
                                            std::string why) {
  std::string text = actual;
  text.pop_back();  // an outcome has no full stop
  bench_.findings().report({.rule = rule,
                            .severity = verifier::Severity::kViolation,
                            .ddi = ddi,
                            .actual = std::move(actual),
                            .expected = std::move(expected),
                            .fix = std::move(fix),
                            .why = std::move(why),
                            .windows = "A mode set fails, or the wrong modes are in the list."});
  return std::unexpected(std::move(text));
}

Answer<void> Inquiry::check_answer(const char* ddi, const DisplayExercise::Answer& answer,
                                   const std::string& asked) {
  if (answer.status == Status::kSuccess) return {};
  if (answer.status == Status::kDeviceRemoved)
    return std::unexpected("the adapter did not survive: " + asked);
  if (is_success(answer.status)) {
    return wrong("VIDPN-34", ddi,
                 fmt::format("It answered {} for {}.", vidpn::status_text(answer.status), asked),
                 "A display DDI that succeeds returns STATUS_SUCCESS.",
                 "Do not pass on the status of the last interface function: the end of an "
                 "enumeration is a success code of its own.",
                 "The callers of this DDI compare with STATUS_SUCCESS.");
  }
  return wrong("DOD-03", ddi,
               fmt::format("It failed with {} for {}.", vidpn::status_text(answer.status), asked),
               "The DDI succeeds for a VidPN that the driver calls supported.",
               "Answer FALSE in DxgkDdiIsSupportedVidPn for a VidPN that cannot be enumerated.",
               "The kernel asks DxgkDdiIsSupportedVidPn first, and relies on the answer.");
}

Answer<bool> Inquiry::is_supported(const Network& network) {
  ++questions_;
  const DisplayExercise::Answer answer = exercise_.is_supported(&network);
  if (answer.status == vidpn::kInvalidVidPnTopology) return false;
  DXGKIT_VERIFY_TRY(
      check_answer(kIsSupported, answer, paths_text(network) + ", " + pins_text(network)));
  return answer.supported;
}

Answer<void> Inquiry::expect_supported(const Network& network, bool expected, const char* why) {
  const Answer<bool> supported = is_supported(network);
  if (!supported) return std::unexpected(supported.error());
  if (*supported == expected) return {};
  return wrong(
      "VIDPN-32", kIsSupported,
      fmt::format("IsVidPnSupported is {} for {} with {}: {}.", *supported ? "TRUE" : "FALSE",
                  paths_text(network), pins_text(network), why),
      "A VidPN is supported if modes can be pinned where none are yet, without a change "
      "of those that are, and the adapter can show all of them.",
      "Look at the pinned modes and transformations of every path, and compare them with "
      "what DxgkDdiEnumVidPnCofuncModality offers.",
      "");
}

Answer<Network> Inquiry::enumerate(const Network& network, Pivot pivot) {
  ++enumerations_;
  // Ids that do not belong to the kind of the pivot mean nothing, whatever they are.
  const bool plausible = bench_.random() % 2 == 0;
  if (!network.paths.empty() && plausible) {
    if (pivot.source == vidpn::kNoId) pivot.source = network.paths.front().source;
    if (pivot.target == vidpn::kNoId) pivot.target = network.paths.front().target;
  }
  const size_t before = told();
  const DisplayExercise::Answer answer = exercise_.enumerate(network, pivot);
  const std::string asked =
      fmt::format("{}, {} and {}", paths_text(network), pins_text(network), pivot_text(pivot));
  if (told() != before) return std::unexpected("wrong modes for " + asked);  // it has been told
  DXGKIT_VERIFY_TRY(check_answer(kEnumerate, answer, asked));
  DXGKIT_VERIFY_TRY(check_support_bits(network, answer.network, pivot));
  return answer.network;
}

Answer<void> Inquiry::check_support_bits(const Network& before, const Network& after,
                                         const Pivot& pivot) {
  for (const Path& path : after.paths) {
    const Path* const was = before.find_path(path.source, path.target);
    if (was == nullptr) continue;
    const auto judge = [&](const char* what, bool is_pivot, uint32_t value, uint32_t old_bits,
                           uint32_t bits) -> Answer<void> {
      const bool fixed = is_pivot || value != vidpn::kTransformationUnpinned;
      if (fixed ? bits == old_bits : bits != 0) return {};
      return wrong(
          "VIDPN-35", kEnumerate,
          fmt::format("The {} support of path {} -> {} was {:#x} and is {:#x}, with {} and {}.",
                      what, path.source, path.target, old_bits, bits, pivot_text(pivot),
                      fixed ? is_pivot ? "so not to be changed" : "a pinned transformation"
                            : "an unpinned transformation"),
          "The support of each path whose transformation is neither pinned nor the pivot names at "
          "least one; that of the others stays.",
          "Set ScalingSupport where Scaling is UNPINNED and RotationSupport where Rotation is, and "
          "call pfnUpdatePathSupportInfo; leave those of the pivot.",
          "Without support bits the kernel cannot pin a transformation.");
    };
    const bool is_meant = pivot.source == path.source && pivot.target == path.target;
    DXGKIT_VERIFY_TRY(judge("scaling", is_meant && pivot.kind == Pivot::Kind::kScaling,
                            was->scaling, was->scaling_support, path.scaling_support));
    DXGKIT_VERIFY_TRY(judge("rotation", is_meant && pivot.kind == Pivot::Kind::kRotation,
                            was->rotation, was->rotation_support, path.rotation_support));
  }
  return {};
}

Answer<void> Inquiry::ask_empty() {
  ++questions_;
  const DisplayExercise::Answer answer = exercise_.is_supported(nullptr);
  if (answer.status != Status::kSuccess || !answer.supported) {
    return wrong(
        "VIDPN-32", kIsSupported,
        fmt::format("It answered {} and {} for a null hDesiredVidPn.",
                    vidpn::status_text(answer.status), answer.supported ? "TRUE" : "FALSE"),
        "STATUS_SUCCESS and TRUE: an adapter can always show nothing.",
        "Compare hDesiredVidPn with NULL before anything is done with it.", "");
  }
  return expect_supported(Network{}, true, "an adapter can always show nothing");
}

Answer<void> Inquiry::repeat(const Network& fresh, const Network& free) {
  const auto told_twice = [&](const std::string& text) {
    return wrong(
        "VIDPN-33", kEnumerate,
        fmt::format("Asked twice about {} it has two answers: {}.", paths_text(fresh), text),
        "The same question has the same answer while monitors and paths are the same.",
        "Offer modes from a table, not from what the call before left behind.", "");
  };
  // Support bits that somebody else has left are no answer of the driver's.
  Network stale = fresh;
  for (Path& path : stale.paths) {
    path.scaling_support = kScalingBits;
    path.rotation_support = kRotationBits;
  }
  for (const Network* const from : {&fresh, &free, static_cast<const Network*>(&stale)}) {
    const Answer<Network> again = enumerate(*from, {});
    if (!again) return std::unexpected(again.error());
    if (const std::string text = difference(free, *again); !text.empty()) return told_twice(text);
  }
  // With all transformations pinned there is nothing to say of them.
  Network settled = free;
  for (Path& path : settled.paths) path.scaling = path.rotation = kIdentity;
  if (const Answer<Network> same = enumerate(settled, {}); !same)
    return std::unexpected(same.error());
  return {};
}

Answer<void> Inquiry::pin_one_end(const Network& free, const Path& path) {
  by_source_.clear();
  by_target_.clear();
  const auto offered_more = [&](const Network& pinned, const std::string& text) {
    return wrong("VIDPN-33", kEnumerate,
                 fmt::format("With {} it offers {}, which it does not offer with nothing pinned.",
                             pins_text(pinned), text),
                 "A pinned mode narrows what is offered.",
                 "Offer all modes that go with any mode of the other end when none is pinned.", "");
  };
  /// The answer without a pivot must be that with the pinned set as the pivot.
  const auto ask = [&](const Network& pinned, const Pivot& pivot) -> Answer<Network> {
    DXGKIT_VERIFY_TRY(
        expect_supported(pinned, true, "the pinned mode is one that the driver offered"));
    Answer<Network> with = enumerate(pinned, pivot);
    if (!with) return with;
    const Answer<Network> without = enumerate(pinned, {});
    if (!without) return without;
    if (const std::string text = difference(*with, *without); !text.empty()) {
      return wrong("VIDPN-33", kEnumerate,
                   fmt::format("With {}, the answers with and without a pivot differ: {}.",
                               pins_text(pinned), text),
                   "A set with a pinned mode is left alone, whether it is the pivot or not.",
                   "Look for pinned modes in every path, whatever the pivot is.", "");
    }
    if (const std::string text = beyond(*with, free); !text.empty())
      return offered_more(pinned, text);
    return with;
  };
  const vidpn::SourceModeSet& sources = free.source_sets.at(path.source);
  for (const size_t i : bench_.shuffled(sources.modes.size())) {
    if (by_source_.size() >= kModesMax) break;
    Network pinned = free;
    static_cast<void>(vidpn::pin_source_mode(pinned, path.source, sources.modes[i].id));
    const Answer<Network> offered = ask(pinned, {Pivot::Kind::kSource, path.source, vidpn::kNoId});
    if (!offered) return std::unexpected(offered.error());
    by_source_.emplace_back(sources.modes[i], offered->target_sets.at(path.target));
  }
  const vidpn::TargetModeSet& targets = free.target_sets.at(path.target);
  for (const size_t i : bench_.shuffled(targets.modes.size())) {
    if (by_target_.size() >= kModesMax) break;
    Network pinned = free;
    static_cast<void>(vidpn::pin_target_mode(pinned, path.target, targets.modes[i].id));
    const Answer<Network> offered = ask(pinned, {Pivot::Kind::kTarget, vidpn::kNoId, path.target});
    if (!offered) return std::unexpected(offered.error());
    by_target_.emplace_back(targets.modes[i], offered->source_sets.at(path.source));
  }
  return {};
}

Answer<void> Inquiry::pin_both_ends(const Network& free, const Path& path) {
  size_t pairs = 0;
  for (const auto& [source, targets] : by_source_) {
    for (const auto& [target, sources] : by_target_) {
      const bool forward = contains(targets, target);
      if (forward != contains(sources, source)) {
        return wrong(
            "VIDPN-33", kEnumerate,
            fmt::format("{} of target {} is {} with {} of source {} pinned, which is {} "
                        "with that target mode pinned.",
                        mode_text(target), path.target, forward ? "offered" : "not offered",
                        mode_text(source), path.source, forward ? "not offered" : "offered"),
            "Whether two modes go together does not depend on which is pinned first.",
            "Decide it in one function that both directions use.", "");
      }
      if (pairs++ >= kPairsMax) continue;
      Network pinned = free;
      static_cast<void>(vidpn::pin_source_mode(pinned, path.source, source.id));
      static_cast<void>(vidpn::pin_target_mode(pinned, path.target, target.id));
      DXGKIT_VERIFY_TRY(expect_supported(
          pinned, forward,
          forward ? "they were offered together" : "they are not offered together"));
      if (!forward) continue;
      for (const Pivot::Kind kind : {Pivot::Kind::kNone, Pivot::Kind::kSource, Pivot::Kind::kTarget,
                                     Pivot::Kind::kScaling, Pivot::Kind::kRotation}) {
        Pivot pivot{kind, path.source, path.target};
        if (const Answer<Network> same = enumerate(pinned, pivot); !same)
          return std::unexpected(same.error());
      }
    }
  }
  return {};
}

Answer<void> Inquiry::ask_for_too_much(const Network& free, const Path& path) {
  const SourceTarget alone{path.source, path.target};
  const Network fresh = vidpn::constraining_network(exercise_.profile(), std::span(&alone, 1));
  for (const auto& [wide, high] : {std::pair(true, false), {false, true}, {true, true}}) {
    vidpn::SourceMode mode = free.source_sets.at(path.source).modes.front();
    if (wide) mode.surface.width = mode.visible.width = kTooLarge;
    if (high) mode.surface.height = mode.visible.height = kTooLarge;
    mode.stride_bytes = std::max(mode.stride_bytes, mode.surface.width * dxgk::kPixelBytes);
    Network pinned = fresh;
    pinned.source_sets[path.source] = {.modes = {mode}, .pinned = mode.id};
    DXGKIT_VERIFY_TRY(expect_supported(pinned, false, "no adapter has such a mode"));
    vidpn::TargetMode signal = free.target_sets.at(path.target).modes.front();
    if (wide) signal.signal.active.width = kTooLarge;
    if (high) signal.signal.active.height = kTooLarge;
    signal.signal.total = {std::max(signal.signal.total.width, signal.signal.active.width),
                           std::max(signal.signal.total.height, signal.signal.active.height)};
    pinned = fresh;
    pinned.target_sets[path.target] = {.modes = {signal}, .pinned = signal.id};
    DXGKIT_VERIFY_TRY(expect_supported(pinned, false, "no screen has such a mode"));
  }
  for (uint32_t i = 1; i <= std::max(kScalings, kRotations); ++i) {
    const Path& offered = *free.find_path(path.source, path.target);
    Network shown = free;
    if (i <= kScalings && (offered.scaling_support >> (i - 1) & 1U) == 0) {
      shown.paths.front().scaling = i;
      DXGKIT_VERIFY_TRY(
          expect_supported(shown, false, "a scaling is pinned that the support bits do not name"));
    }
    shown = free;
    if (i <= kRotations && (offered.rotation_support >> (i - 1) & 1U) == 0) {
      shown.paths.front().rotation = i;
      DXGKIT_VERIFY_TRY(
          expect_supported(shown, false, "a rotation is pinned that the support bits do not name"));
    }
  }
  return {};
}

Answer<void> Inquiry::fail_each(const char* ddi, const std::string& asked,
                                const std::function<DisplayExercise::Answer(uint32_t nth)>& call,
                                const std::function<Answer<void>()>& again) {
  for (uint32_t nth = 1; nth <= kCallsMax; ++nth) {
    const size_t before = told();
    const DisplayExercise::Answer answer = call(nth);
    if (answer.failed == nullptr) {
      if (told() != before) return std::unexpected("wrong after a failure, for " + asked);
      return check_answer(ddi, answer, asked);
    }
    ++failures_;
    if (answer.status == Status::kDeviceRemoved)
      return std::unexpected(
          fmt::format("the adapter did not survive a failure of {}", answer.failed));
    if (told() != before)
      return std::unexpected(
          fmt::format("wrong after a failure of {}, for {}", answer.failed, asked));
    // To call a VidPN unsupported that could not be read is an answer.
    const bool refused = !is_success(answer.status) || (ddi == kIsSupported && !answer.supported);
    if (!refused) {
      return wrong("VIDPN-34", ddi,
                   fmt::format("{} answered STATUS_NO_MEMORY, and the DDI succeeded for {}.",
                               answer.failed, asked),
                   "The DDI fails when a function of the VidPN interfaces fails that it called.",
                   "Look at the status of every interface function; release what is held, and "
                   "return that status.",
                   "The VidPN was not read or not written, so the answer is no answer.");
    }
    DXGKIT_VERIFY_TRY(again());
  }
  return {};
}

Answer<void> Inquiry::fail_questions(const Network& fresh, const Network& free, const Path& path) {
  const auto fail_enumeration = [&](const Network& network, const Pivot& pivot) -> Answer<void> {
    const Answer<Network> reference = enumerate(network, pivot);
    if (!reference) return std::unexpected(reference.error());
    const auto again = [&]() -> Answer<void> {
      const Answer<Network> now = enumerate(network, pivot);
      if (!now) return std::unexpected(now.error());
      const std::string text = difference(*reference, *now);
      if (text.empty()) return {};
      return wrong(
          "VIDPN-34", kEnumerate,
          fmt::format("After a call that failed, the next answer is another one: {}.", text),
          "A failed call leaves nothing behind.",
          "Keep the state of an enumeration in the call, not in the adapter.", "");
    };
    return fail_each(
        kEnumerate,
        fmt::format("{}, {} and {}", paths_text(network), pins_text(network), pivot_text(pivot)),
        [&](uint32_t nth) { return exercise_.enumerate(network, pivot, nth); }, again);
  };
  DXGKIT_VERIFY_TRY(fail_enumeration(fresh, {}));
  Network one = free, both = free;
  static_cast<void>(vidpn::pin_source_mode(one, path.source, by_source_.front().first.id));
  DXGKIT_VERIFY_TRY(fail_enumeration(one, {Pivot::Kind::kSource, path.source, path.target}));
  one = free;
  static_cast<void>(vidpn::pin_target_mode(one, path.target, by_target_.front().first.id));
  DXGKIT_VERIFY_TRY(fail_enumeration(one, {Pivot::Kind::kTarget, path.source, path.target}));
  static_cast<void>(vidpn::pin_source_mode(both, path.source, by_source_.front().first.id));
  DXGKIT_VERIFY_TRY(fail_enumeration(both, {Pivot::Kind::kScaling, path.source, path.target}));
  DXGKIT_VERIFY_TRY(fail_enumeration(both, {Pivot::Kind::kRotation, path.source, path.target}));
  for (const Network* const network : std::initializer_list<const Network*>{&fresh, &both}) {
    DXGKIT_VERIFY_TRY(fail_each(
        kIsSupported, paths_text(*network) + ", " + pins_text(*network),
        [&](uint32_t nth) { return exercise_.is_supported(network, nth); },
        [&] {
          return expect_supported(*network, true, "it was before another call of it failed");
        }));
  }
  return {};
}

Answer<void> Inquiry::ask_about(std::span<const SourceTarget> paths) {
  const Network fresh = vidpn::constraining_network(exercise_.profile(), paths);
  const Answer<bool> supported = is_supported(fresh);
  if (!supported) return std::unexpected(supported.error());
  if (!*supported) {
    ++refused_;
    return {};
  }
  ++networks_;
  const Answer<Network> free = enumerate(fresh, {});
  if (!free) return std::unexpected(free.error());
  DXGKIT_VERIFY_TRY(repeat(fresh, *free));
  for (const Pivot::Kind kind : {Pivot::Kind::kScaling, Pivot::Kind::kRotation}) {
    const Path& path = fresh.paths.front();
    const Answer<Network> same = enumerate(fresh, {kind, path.source, path.target});
    if (!same) return std::unexpected(same.error());
  }
  for (const Path& path : free->paths) {
    for (const Pivot& pivot : {Pivot{Pivot::Kind::kSource, path.source, vidpn::kNoId},
                               Pivot{Pivot::Kind::kTarget, vidpn::kNoId, path.target}}) {
      if (const Answer<Network> half = enumerate(*free, pivot); !half)
        return std::unexpected(half.error());
    }
    DXGKIT_VERIFY_TRY(pin_one_end(*free, path));
    DXGKIT_VERIFY_TRY(pin_both_ends(*free, path));
    if (paths.size() == 1) DXGKIT_VERIFY_TRY(ask_for_too_much(*free, path));
    DXGKIT_VERIFY_TRY(fail_questions(fresh, *free, path));
  }
  return {};
}

Answer<void> Inquiry::recommend_modes(uint32_t target) {
  constexpr const char* kRecommend = "DxgkDdiRecommendMonitorModes";
  const std::string asked =
      fmt::format("the monitor at target {}, which has the modes already", target);
  const auto again = [&] {
    return check_answer(kRecommend, exercise_.recommend_monitor_modes(target), asked);
  };
  DXGKIT_VERIFY_TRY(again());
  return fail_each(
      kRecommend, asked,
      [&](uint32_t nth) { return exercise_.recommend_monitor_modes(target, nth); }, again);
}

Answer<void> Inquiry::update_paths() {
  for (const Path& path : exercise_.active().paths) {
    const auto update = [&](const Path& wanted, bool supported) -> Answer<void> {
      ++questions_;
      const Status status = exercise_.update_path(wanted);
      if (is_success(status) == supported) return {};
      const std::string asked =
          fmt::format("path {} -> {} with scaling {} and rotation {}", path.source, path.target,
                      wanted.scaling, wanted.rotation);
      if (supported) {
        DisplayExercise::Answer answer;
        answer.status = status;
        return check_answer(kUpdatePath, answer, asked + ", as it is shown now");
      }
      static_cast<void>(exercise_.update_path(path));
      return wrong("VIDPN-20", kUpdatePath,
                   fmt::format("It succeeded for {}; the support bits are {:#x} and {:#x}.", asked,
                               path.scaling_support, path.rotation_support),
                   "A transformation that the path does not support is refused.",
                   "Compare ContentTransformation with what the hardware can, and answer "
                   "STATUS_GRAPHICS_PATH_CONTENT_GEOMETRY_TRANSFORMATION_NOT_SUPPORTED.",
                   "");
    };
    DXGKIT_VERIFY_TRY(update(path, true));
    for (uint32_t i = 1; i <= std::max(kScalings, kRotations); ++i) {
      Path wanted = path;
      if (i <= kScalings && (path.scaling_support >> (i - 1) & 1U) == 0) {
        wanted.scaling = i;
        DXGKIT_VERIFY_TRY(update(wanted, false));
      }
      wanted = path;
      if (i <= kRotations && (path.rotation_support >> (i - 1) & 1U) == 0) {
        wanted.rotation = i;
        DXGKIT_VERIFY_TRY(update(wanted, false));
      }
    }
    DXGKIT_VERIFY_TRY(update(path, true));
  }
  return {};
}

Answer<void> Inquiry::commit_failing(const dxgk::DisplaySource& source) {
  constexpr const char* kCommit = "DxgkDdiCommitVidPn";
  Canvas canvas(bench_, source.id, *source.mode);
  bus::DeviceScreen* const screen = bench_.display_only() ? nullptr : bench_.screen();
  bus::ScreenImage before;
  if (bench_.display_only()) DXGKIT_VERIFY_TRY(canvas.present_all());
  if (screen != nullptr) before = screen->image();
  const auto again = [&]() -> Answer<void> {
    if (bench_.display_only()) return canvas.present_all();
    if (screen == nullptr || screen->image().pixels == before.pixels) return {};
    return wrong("DOD-03", kCommit, "After a commit that failed the screen shows something else.",
                 "What was shown before is shown, with the mode it had.",
                 "Read the whole VidPN first, and change the hardware and the adapter's state when "
                 "nothing can fail any more.",
                 "");
  };
  DXGKIT_VERIFY_TRY(fail_each(
      kCommit, fmt::format("source {}", source.id),
      [&](uint32_t nth) { return exercise_.commit_again(source.id, nth); }, again));
  return again();  // after the last one, which succeeded
}

/// The topologies that the connected targets allow: each path alone, two sources, a clone.
std::vector<std::vector<SourceTarget>> topologies(const vidpn::Profile& profile,
                                                  const std::vector<uint32_t>& targets) {
  constexpr size_t kAloneMax = 4;
  std::vector<std::vector<SourceTarget>> all;
  for (uint32_t source = 0; source < profile.source_count; ++source) {
    for (const uint32_t target : targets) {
      if (all.size() < kAloneMax) all.push_back({{source, target}});
    }
  }
  if (targets.size() < 2) return all;
  if (profile.source_count >= 2) {
    all.push_back({{0, targets[0]}, {1, targets[1]}});
    all.push_back({{1, targets[0]}, {0, targets[1]}});
  }
  all.push_back({{0, targets[0]}, {0, targets[1]}});
  return all;
}

Answer<void> inquire(Bench& bench, DisplayExercise& exercise, Inquiry& inquiry) {
  DXGKIT_VERIFY_TRY(inquiry.ask_empty());
  const std::vector<uint32_t> targets = exercise.connected_targets();
  for (const std::vector<SourceTarget>& paths : topologies(exercise.profile(), targets))
    DXGKIT_VERIFY_TRY(inquiry.ask_about(paths));
  if (exercise.has_entry("DxgkDdiRecommendMonitorModes")) {
    for (const uint32_t target : targets) DXGKIT_VERIFY_TRY(inquiry.recommend_modes(target));
  }
  if (exercise.has_entry(kUpdatePath)) DXGKIT_VERIFY_TRY(inquiry.update_paths());
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return std::unexpected(sources.error());
  for (const dxgk::DisplaySource& source : *sources) {
    if (source.visible) DXGKIT_VERIFY_TRY(inquiry.commit_failing(source));
  }
  if (const Status status = exercise.clear_and_show(); !is_success(status))
    return std::unexpected("a VidPN without paths, and one with them again: " +
                           status_text(status));
  for (const dxgk::DisplaySource& source : *sources) {
    Canvas canvas(bench, source.id, *source.mode);
    if (source.visible && bench.display_only()) DXGKIT_VERIFY_TRY(canvas.present_all());
  }
  return {};
}

Outcome vidpns(Bench& bench) {
  Result<DisplayExercise> exercise = DisplayExercise::on(bench.system(), bench.luid());
  if (!exercise.has_value()) return Outcome::failed(status_text(exercise.error()));
  if (exercise->connected_targets().empty())
    return Outcome::skipped("nothing can be shown: no monitor is connected");
  Inquiry inquiry(bench, *exercise);
  if (const Answer<void> right = inquire(bench, *exercise, inquiry); !right)
    return Outcome::failed(right.error());
  return Outcome::ok(inquiry.text());
}

constexpr Step kSteps[] = {
    {"vidpns", "VidPNs that no mode set makes, and interface functions that fail",
     Step::Needs::kDisplay, vidpns},
};

}  // namespace

std::span<const Step> vidpn_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
