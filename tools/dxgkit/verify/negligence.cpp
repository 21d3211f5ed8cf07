#include "tools/dxgkit/verify/negligence.h"

#include <algorithm>
#include <utility>

namespace dxgkit::tool::verify {
namespace {

using verifier::Situation;

/// Situations of these come up by what the call has answered, or are told behind it.
constexpr std::string_view kToldAfterwards[] = {
    "DxgkDdiBuildPagingBuffer", "DxgkDdiCreateAllocation", "DxgkDdiCreateContext",
    "DxgkDdiCreateDevice",      "DxgkDdiCreateProcess",    "DxgkDdiQueryAdapterInfo",
    "DxgkDdiStartDevice",       "DxgkDdiRender",           "DxgkDdiSubmitCommandVirtual"};
/// Of these entries, what is told before the call.
constexpr Situation kToldBefore[] = {Situation::kQueryUnknownType, Situation::kQuerySmallBuffer};
/// Interrupt routines and DPCs have no status, and what queries an identity cannot be left out.
constexpr std::string_view kNeeded[] = {"DxgkDdiInterruptRoutine"};

const verifier::SituationInfo& info_of(Situation situation) {
  return verifier::situation_catalogue()[static_cast<size_t>(situation)];
}

bool is_told_afterwards(Situation situation) {
  return std::ranges::find(kToldAfterwards, info_of(situation).ddi) != std::end(kToldAfterwards) &&
         std::ranges::find(kToldBefore, situation) == std::end(kToldBefore);
}

}  // namespace

Negligence::Negligence(const verifier::SituationLog& log) : log_(log) {
  for (size_t i = 0; i < verifier::kSituations; ++i) {
    const auto situation = static_cast<Situation>(i);
    watch(situation);
  }
}

Negligence::Negligence(const verifier::SituationLog& log, Situation which, Calls calls)
    : log_(log), which_(which), planned_(std::move(calls)) {
  watch(which);
}

void Negligence::watch(Situation situation) {
  entries_[info_of(situation).ddi].watched.push_back(
      {.situation = situation,
       .told_afterwards = is_told_afterwards(situation),
       .count = log_.count(situation)});
}

bool Negligence::can_neglect(Situation situation) {
  const std::string_view ddi = info_of(situation).ddi;
  return ddi.starts_with("DxgkDdi") && std::ranges::find(kNeeded, ddi) == std::end(kNeeded);
}

void Negligence::look(Entry& entry, bool at_call) {
  for (Watched& one : entry.watched) {
    const uint64_t count = log_.count(one.situation);
    if (count == one.count) continue;
    one.count = count;
    one.calls.insert(at_call && one.told_afterwards ? entry.calls - 1 : entry.calls);
  }
}

bool Negligence::neglects(std::string_view ddi) {
  const auto found = entries_.find(ddi);
  if (found == entries_.end()) return false;
  Entry& entry = found->second;
  ++entry.calls;
  look(entry, /*at_call=*/true);
  if (!which_.has_value()) return false;
  const Watched& mine = entry.watched.front();
  const Calls& calls = mine.told_afterwards ? planned_ : mine.calls;
  if (!calls.contains(entry.calls)) return false;
  ++neglected_;
  return true;
}

Negligence::Calls Negligence::calls_of(Situation situation) {
  Entry& entry = entries_.at(info_of(situation).ddi);
  look(entry, /*at_call=*/false);
  return std::ranges::find(entry.watched, situation, &Watched::situation)->calls;
}

std::optional<Status> Negligence::before_ddi(std::string_view ddi) {
  const bool neglected = neglects(ddi);
  if (const std::optional<Status> answer = inner_->before_ddi(ddi)) return answer;
  return neglected ? std::optional(Status::kSuccess) : std::nullopt;
}

std::optional<Status> Negligence::before_paging(const port::PagingOperation& operation,
                                                uint32_t buffer_bytes) {
  const bool neglected = neglects("DxgkDdiBuildPagingBuffer");
  if (const std::optional<Status> answer = inner_->before_paging(operation, buffer_bytes))
    return answer;
  return neglected ? std::optional(Status::kSuccess) : std::nullopt;
}

}  // namespace dxgkit::tool::verify
