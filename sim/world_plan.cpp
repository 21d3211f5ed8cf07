// The plan of a world, drawn from its seed.
#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.h"
#include "base/check.h"
#include "sim/random.h"
#include "sim/world.h"

namespace dxgkit::sim {
namespace {

/// For paging and DMA buffers, rings, and the driver's own memory.
constexpr uint64_t kReserveBytes = uint64_t{16} << 20;

uint64_t pages(uint64_t bytes) { return align_up(bytes, kPageBytes); }

WorldPlan draw_world(uint64_t seed, DriverFace face) {
  Random random(seed);
  WorldPlan plan;
  plan.vram_bytes = pages(random.magnitude(uint64_t{64} << 10, uint64_t{2} << 20));
  plan.aperture_bytes = pages(random.magnitude(uint64_t{64} << 10, uint64_t{4} << 20));
  plan.paging_buffer_bytes = static_cast<uint32_t>(random.magnitude(256, 64 << 10)) & ~7U;
  plan.client_count = static_cast<uint32_t>(random.between(1, 4));
  plan.operations = static_cast<uint32_t>(random.magnitude(10, 120));
  plan.operations_healed = static_cast<uint32_t>(random.between(5, 20));
  const uint64_t smaller = std::min(plan.vram_bytes, plan.aperture_bytes);
  // Two of them fit together, or (rarely) not.
  const bool big = random.percent(8);
  plan.allocation_bytes_max = big ? smaller : std::max(smaller * 45 / 100, kPageBytes);
  // All clients together use from a corner of video memory to three times as much.
  const uint64_t together = plan.vram_bytes * random.between(1, 12) / 4;
  plan.client_bytes = std::max(together / plan.client_count, plan.allocation_bytes_max * 2);
  plan.tight_memory = random.percent(8);
  plan.system_bytes = plan.client_bytes * plan.client_count + plan.vram_bytes * 2 + kReserveBytes;
  if (plan.tight_memory)
    plan.system_bytes = (uint64_t{3} << 20) + random.below(plan.client_bytes * 2);
  plan.reference_checks = random.percent(50);
  plan.tdr_delay_ns = static_cast<int64_t>(random.between(20, 200)) * runtime::kMillisecond;
  plan.faults = FaultPlan::draw(random);
  plan.explicit_residency = random.percent(35);
  if (face != DriverFace::kEither) plan.explicit_residency = face == DriverFace::kSecond;
  if (!random.percent(45) || face == DriverFace::kFirst) return plan;
  plan.memory_model = static_cast<uint32_t>(random.between(1, 3));
  plan.explicit_residency = true;
  // It also holds page tables, and command buffers in the aperture. A quarter of the memory that
  // clients use, or less.
  plan.vram_bytes = pages(random.magnitude(uint64_t{512} << 10, uint64_t{2} << 20));
  plan.aperture_bytes = std::max(plan.aperture_bytes, uint64_t{512} << 10);
  plan.allocation_bytes_max = std::max(plan.room() * 40 / 100, kPageBytes);
  const uint64_t wanted = plan.vram_bytes * random.between(2, 16) / 4;
  plan.client_bytes = std::max(wanted / plan.client_count, plan.allocation_bytes_max * 2);
  plan.system_bytes = plan.client_bytes * plan.client_count + plan.vram_bytes * 4 + kReserveBytes;
  if (plan.tight_memory)
    plan.system_bytes = (uint64_t{4} << 20) + random.below(plan.client_bytes * 2);
  return plan;
}

/// Drawn from other random numbers, so that newer draws do not change the older ones.
void draw_rest(uint64_t seed, WorldPlan* plan) {
  Random random(seed ^ 0x1D7Eu);
  constexpr uint64_t kSecond = runtime::kSecond;
  if (random.percent(40)) {
    plan->pauses = static_cast<uint32_t>(random.between(1, 3));
    plan->pause_most_ns = static_cast<int64_t>(random.magnitude(kSecond, 10 * 3600 * kSecond));
    plan->pause_chance = 1'000'000 * plan->pauses / plan->operations;
  }
  plan->sleep_ns = static_cast<int64_t>(random.magnitude(kSecond, 10 * 3600 * kSecond));
  plan->system_sleeps = random.percent(50);
  if (random.percent(10) && !plan->explicit_residency) {
    // One submission names more than there is room for: it runs in parts (REND-21).
    const uint64_t smaller = std::min(plan->vram_bytes, plan->aperture_bytes);
    plan->allocation_bytes_max = std::max(smaller / 4, kPageBytes);
    plan->client_bytes = 2 * (plan->vram_bytes + plan->aperture_bytes);
    plan->tight_memory = false;
    plan->system_bytes =
        plan->client_bytes * plan->client_count + plan->vram_bytes * 2 + kReserveBytes;
    plan->crowded = true;
  }
  if (random.percent(30)) plan->commons = static_cast<uint32_t>(random.between(3, 20));
  if (random.percent(40)) plan->signals = static_cast<uint32_t>(random.between(3, 15));
  if (random.percent(20))
    plan->periodic_trim_ns = static_cast<int64_t>(random.magnitude(kSecond / 1000, 60 * kSecond));
  if (random.percent(60)) plan->questions = static_cast<uint32_t>(random.between(5, 30));
  plan->strangers = random.percent(15);
}

}  // namespace

std::string Changes::as_options() const {
  std::string text;
  const auto number = [&](const char* option, const std::optional<uint32_t>& value) {
    if (value.has_value()) text += fmt::format(" --{} {}", option, *value);
  };
  number("clients", clients);
  number("operations", operations);
  number("operations-healed", operations_healed);
  number("processors", processors);
  if (memory_bytes.has_value()) text += fmt::format(" --memory {}", *memory_bytes);
  if (!faults.empty()) text += fmt::format(" --faults '{}'", faults);
  return text;
}

WorldPlan WorldPlan::draw(const SeedOptions& options) {
  WorldPlan plan = draw_world(options.seed, options.face);
  const Changes& changes = options.changes;
  plan.client_count = changes.clients.value_or(plan.client_count);
  plan.operations = changes.operations.value_or(plan.operations);
  plan.operations_healed = changes.operations_healed.value_or(plan.operations_healed);
  DXGKIT_CHECK(!plan.faults.change(changes.faults).has_value());
  draw_rest(options.seed, &plan);
  plan.system_bytes = std::max(plan.system_bytes, changes.memory_bytes.value_or(0));
  return plan;
}

int64_t WorldPlan::idle_most_ns() const {
  return int64_t{pauses} * (client_count + 1) * pause_most_ns +
         sleep_ns * (faults.power_events + 1) + int64_t{faults.time_jumps} * kJumpMost;
}

uint64_t WorldPlan::room_of(uint64_t bytes) const {
  return align_up(bytes, memory_model == 3 ? 16 * kPageBytes : kPageBytes);
}

uint64_t WorldPlan::room() const {
  // Tables of every process, and a page of commands for every context.
  const uint64_t tables = memory_model == 2 ? (client_count + 1) * 8 * kPageBytes : 0;
  const uint64_t commands = has_addresses() ? (client_count + 1) * 4 * kPageBytes : 0;
  return std::min(vram_bytes - tables, aperture_bytes - commands);
}

std::string WorldPlan::describe() const {
  std::string text = fmt::format(
      "VRAM {} KiB, aperture {} KiB, paging buffer {} bytes, {} clients with {} + {} operations on "
      "{} KiB each in allocations up to {} KiB{}{}; faults:",
      vram_bytes >> 10, aperture_bytes >> 10, paging_buffer_bytes, client_count, operations,
      operations_healed, client_bytes >> 10, allocation_bytes_max >> 10,
      tight_memory ? ", tight system memory" : "",
      !explicit_residency ? ""
      : !has_addresses()  ? ", WDDM 2.0"
                          : fmt::format(", GPU virtual addresses ({})", memory_model));
  if (pauses != 0)
    text.insert(text.rfind(';'),
                fmt::format(", pauses up to {} s", pause_most_ns / runtime::kSecond));
  if (periodic_trim_ns != 0)
    text.insert(text.rfind(';'),
                fmt::format(", trimmed every {} ms", periodic_trim_ns / runtime::kMillisecond));
  bool any = false;
  for (size_t i = 0; i < kFaultKinds; ++i) {
    if (faults.rate[i] == 0) continue;
    text += fmt::format("{} {} ({})", any ? "," : "", kFaultNames[i], faults.rate[i]);
    any = true;
  }
  return any ? text : text + " none";
}

}  // namespace dxgkit::sim
