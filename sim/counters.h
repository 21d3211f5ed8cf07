// Counts of the events in worlds. Plain data: worker processes leave it in shared memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/fault_plan.h"
#include "sim/thunk_names.h"
#include "verifier/situations.h"

namespace dxgkit::sim {

inline constexpr size_t kOperationsMost = 48;

struct Counters {
  uint64_t seeds = 0, simulated_ns = 0, clients = 0, thunk_calls = 0, refused_calls = 0;
  uint64_t content_checks = 0, bytes_checked = 0, property_checks = 0, replays = 0;
  uint64_t packets = 0, paging_packets = 0, evictions = 0, page_ins = 0, page_outs = 0, fills = 0,
           aperture_maps = 0, bytes_moved = 0, multipass_paging = 0, multipass_renders = 0,
           splits = 0, offers_discarded = 0, renamings = 0;
  uint64_t openings = 0, maps = 0, updates = 0, window_uses = 0, walks = 0, pages_walked = 0;
  uint64_t engine_timeouts = 0, preempted_packets = 0;
  uint64_t events = 0, switches = 0, pauses = 0, idle_ns = 0, idle_steps = 0, common_uses = 0;
  uint64_t names_opened = 0, stranger_calls = 0, stranger_successes = 0;
  uint64_t worst_drain_ns = 0;
  std::array<uint64_t, kFaultKinds> struck{}, worlds_with{};
  std::array<uint64_t, kOperationsMost> operations{};
  std::array<uint64_t, kThunkNames.size()> deaths{};  // of clients, by the thunk they were in
  /// A bit each: those that came up, and those that could have (verifier::SituationReport).
  using SituationBits = std::array<uint64_t, (verifier::kSituations + 63) / 64>;
  SituationBits situations{}, situations_possible{};

  static const std::array<uint64_t Counters::*, 39> kSums;

  void add(const Counters& other) {
    const auto sum = [](auto& to, const auto& from) {
      for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    };
    for (uint64_t Counters::*number : kSums) this->*number += other.*number;
    if (other.worst_drain_ns > worst_drain_ns) worst_drain_ns = other.worst_drain_ns;
    sum(struck, other.struck);
    sum(worlds_with, other.worlds_with);
    sum(operations, other.operations);
    sum(deaths, other.deaths);
    for (size_t i = 0; i < situations.size(); ++i) {
      situations[i] |= other.situations[i];
      situations_possible[i] |= other.situations_possible[i];
    }
  }
};

inline constexpr std::array<uint64_t Counters::*, 39> Counters::kSums = {
    &Counters::seeds,
    &Counters::simulated_ns,
    &Counters::clients,
    &Counters::thunk_calls,
    &Counters::refused_calls,
    &Counters::content_checks,
    &Counters::bytes_checked,
    &Counters::property_checks,
    &Counters::replays,
    &Counters::packets,
    &Counters::paging_packets,
    &Counters::evictions,
    &Counters::page_ins,
    &Counters::page_outs,
    &Counters::fills,
    &Counters::aperture_maps,
    &Counters::bytes_moved,
    &Counters::multipass_paging,
    &Counters::multipass_renders,
    &Counters::splits,
    &Counters::offers_discarded,
    &Counters::renamings,
    &Counters::openings,
    &Counters::maps,
    &Counters::updates,
    &Counters::window_uses,
    &Counters::walks,
    &Counters::pages_walked,
    &Counters::engine_timeouts,
    &Counters::preempted_packets,
    &Counters::events,
    &Counters::switches,
    &Counters::pauses,
    &Counters::idle_ns,
    &Counters::idle_steps,
    &Counters::common_uses,
    &Counters::names_opened,
    &Counters::stranger_calls,
    &Counters::stranger_successes};

}  // namespace dxgkit::sim
