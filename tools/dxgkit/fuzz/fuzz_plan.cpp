#include "tools/dxgkit/fuzz/fuzz_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/random.h"

namespace dxgkit::tool::fuzz {
namespace {

constexpr std::string_view kFormat = "dxgkit-fuzz";
constexpr std::string_view kVersion = "2", kVersionOfPlans = "1";
constexpr size_t kTextBytesMost = size_t{4} << 20;
constexpr size_t kNumbersInLine = 16;
/// More than any machine of a run has.
constexpr uint64_t kMemoryBytesMost = uint64_t{1} << 36;

using Member = uint32_t DeviceFaults::*;
constexpr std::array<std::pair<std::string_view, Member>, 3> kRates{
    {{"lost-interrupts", &DeviceFaults::lost_interrupts},
     {"double-interrupts", &DeviceFaults::double_interrupts},
     {"late-interrupts", &DeviceFaults::late_interrupts}}};
constexpr std::array<std::string_view, 2> kHangs{"hang-3d", "hang-copy"};

/// The next word of a line; empty at its end.
std::string_view word(std::string_view* line) {
  const size_t first = line->find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return *line = {};
  line->remove_prefix(first);
  const size_t length = std::min(line->find_first_of(" \t\r"), line->size());
  const std::string_view found = line->substr(0, length);
  line->remove_prefix(length);
  return found;
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

/// The rest of a line that begins with `key` and a blank, or with `key` alone.
std::optional<std::string_view> rest_of(std::string_view line, std::string_view key) {
  if (!line.starts_with(key)) return std::nullopt;
  line.remove_prefix(key.size());
  if (line.empty()) return line;
  if (line.front() != ' ') return std::nullopt;
  return line.substr(1);
}

/// True if it is one whose text may hold anything.
bool take_text(std::string_view line, Surroundings* around) {
  if (const auto device = rest_of(line, "device")) {
    around->device = *device;
  } else if (const auto client = rest_of(line, "client")) {
    around->client = *client;
  } else if (const auto registry = rest_of(line, "registry")) {
    if (!around->registry.has_value()) around->registry.emplace();
    around->registry->append(*registry) += '\n';
  } else {
    return false;
  }
  return true;
}

/// One of the other lines of the surroundings. The error is a clause.
std::expected<bool, std::string> take_size(std::string_view line, Surroundings* around) {
  const std::string_view key = word(&line);
  const std::string_view text = word(&line);
  if (key == "special-pool") {
    if (!text.empty()) return std::unexpected("special-pool stands alone");
    return around->special_pool = true;
  }
  uint64_t* const size = key == "memory" ? &around->memory_bytes
                         : key == "vram" ? &around->vram_bytes
                                         : nullptr;
  if (size == nullptr) return false;
  const std::optional<uint64_t> value = number<uint64_t>(text);
  if (!value.has_value() || *value == 0 || *value > kMemoryBytesMost || !word(&line).empty())
    return std::unexpected(
        fmt::format("{} is a number of bytes up to {}, not '{}'", key, kMemoryBytesMost, text));
  *size = *value;
  return true;
}

/// One line of the plan that is no comment; the error is a clause.
std::expected<void, std::string> take(std::string_view line, FuzzPlan* plan, bool* seed_given) {
  const std::string_view key = word(&line);
  if (key == "steps") {
    for (std::string_view text = word(&line); !text.empty(); text = word(&line)) {
      const std::optional<uint32_t> step = number<uint32_t>(text);
      if (!step.has_value() || *step >= kStepsMost)
        return std::unexpected(fmt::format("'{}' is not a step below {}", text, kStepsMost));
      if (!plan->steps.empty() && plan->steps.back() >= *step)
        return std::unexpected(fmt::format("step {} is not above the one before", *step));
      plan->steps.push_back(*step);
    }
    return {};
  }
  const std::string_view text = word(&line);
  if (!word(&line).empty()) return std::unexpected(fmt::format("{} takes one number", key));
  if (key == "seed") {
    const std::optional<uint64_t> seed = number<uint64_t>(text);
    if (!seed.has_value()) return std::unexpected(fmt::format("'{}' is not a seed", text));
    plan->seed = *seed;
    *seed_given = true;
    return {};
  }
  const std::optional<uint32_t> value = number<uint32_t>(text);
  const auto bad = [&](uint32_t most) {
    return std::unexpected(fmt::format("{} is a number up to {}, not '{}'", key, most, text));
  };
  constexpr uint32_t kMillion = 1'000'000;
  for (const auto& [name, member] : kRates) {
    if (key != name) continue;
    if (!value.has_value() || *value > kMillion) return bad(kMillion);
    plan->faults.*member = *value;
    return {};
  }
  for (size_t node = 0; node < kHangs.size(); ++node) {
    if (key != kHangs[node]) continue;
    if (!value.has_value()) return bad(UINT32_MAX);
    plan->faults.hang_at[node] = *value;
    return {};
  }
  return std::unexpected(fmt::format("'{}' is unknown", key));
}

}  // namespace

FuzzPlan FuzzPlan::draw(uint64_t seed, uint32_t step_count) {
  FuzzPlan plan;
  plan.seed = seed;
  plan.steps.resize(std::min(step_count, kStepsMost));
  std::iota(plan.steps.begin(), plan.steps.end(), 0U);
  sim::Random random(seed ^ 0xDE71CEU);
  if (random.percent(50)) return plan;
  for (const auto& [name, member] : kRates) {
    if (random.percent(40))
      plan.faults.*member = static_cast<uint32_t>(random.magnitude(1'000, 300'000));
  }
  for (uint32_t& at : plan.faults.hang_at) {
    if (random.percent(25)) at = static_cast<uint32_t>(random.magnitude(1, 60));
  }
  return plan;
}

std::string to_text(const Reproducer& reproducer) {
  const auto& [plan, around] = reproducer;
  std::string text = fmt::format("{} {}\n", kFormat, kVersion);
  if (!around.device.empty()) text += fmt::format("device {}\n", around.device);
  if (around.memory_bytes != 0) text += fmt::format("memory {}\n", around.memory_bytes);
  if (around.vram_bytes != 0) text += fmt::format("vram {}\n", around.vram_bytes);
  if (around.special_pool) text += "special-pool\n";
  if (!around.client.empty()) text += fmt::format("client {}\n", around.client);
  std::string_view registry;
  if (around.registry.has_value()) registry = *around.registry;
  while (!registry.empty()) {
    const size_t end = std::min(registry.find('\n'), registry.size());
    text += fmt::format("registry {}\n", registry.substr(0, end));
    registry.remove_prefix(std::min(end + 1, registry.size()));
  }
  text += fmt::format("seed {}\n", plan.seed);
  for (const auto& [name, member] : kRates) {
    if (plan.faults.*member != 0) text += fmt::format("{} {}\n", name, plan.faults.*member);
  }
  for (size_t node = 0; node < kHangs.size(); ++node) {
    if (plan.faults.hang_at[node] != 0)
      text += fmt::format("{} {}\n", kHangs[node], plan.faults.hang_at[node]);
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    text += fmt::format("{}{}", i % kNumbersInLine == 0 ? "steps " : " ", plan.steps[i]);
    if (i % kNumbersInLine == kNumbersInLine - 1 || i + 1 == plan.steps.size()) text += '\n';
  }
  return text;
}

std::expected<Reproducer, std::string> parse_reproducer(std::string_view text) {
  Reproducer out;
  bool has_surroundings = false;
  if (text.size() > kTextBytesMost) return std::unexpected("it is larger than 4 MiB");
  bool head = false, seed_given = false;
  size_t number_of_line = 0;
  while (!text.empty()) {
    ++number_of_line;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto wrong = [&](std::string_view what) {
      return std::unexpected(fmt::format("line {}: {}", number_of_line, what));
    };
    if (has_surroundings && take_text(line, &out.around)) continue;
    line = line.substr(0, line.find('#'));
    if (std::string_view rest = line; word(&rest).empty()) continue;
    if (!head) {
      std::string_view rest = line;
      head = word(&rest) == kFormat;
      const std::string_view version = word(&rest);
      has_surroundings = version == kVersion;
      head = head && (has_surroundings || version == kVersionOfPlans) && word(&rest).empty();
      if (!head) return wrong(fmt::format("it begins with '{} {}'", kFormat, kVersion));
      continue;
    }
    if (has_surroundings) {
      const auto taken = take_size(line, &out.around);
      if (!taken) return wrong(taken.error());
      if (*taken) continue;
    }
    if (const auto taken = take(line, &out.plan, &seed_given); !taken) return wrong(taken.error());
  }
  if (!seed_given) return std::unexpected("line 1: there is no seed");
  return out;
}

Minimised minimise(const FuzzPlan& plan, const std::function<bool(const FuzzPlan&)>& still,
                   uint32_t tries_most) {
  Minimised out{.plan = plan};
  const auto holds = [&](FuzzPlan fewer) {
    if (out.tries >= tries_most) return false;
    ++out.tries;
    if (!still(fewer)) return false;
    out.plan = std::move(fewer);
    return true;
  };
  // Without faults at all, then without each.
  FuzzPlan fewer = out.plan;
  fewer.faults = {};
  if (fewer.faults != out.plan.faults && !holds(fewer)) {
    for (const auto& [name, member] : kRates) {
      fewer = out.plan;
      if (std::exchange(fewer.faults.*member, 0U) != 0) holds(fewer);
    }
    for (size_t node = 0; node < kHangs.size(); ++node) {
      fewer = out.plan;
      if (std::exchange(fewer.faults.hang_at[node], 0U) != 0) holds(fewer);
    }
  }
  // Leaves out the steps behind the last one that matters first; then pieces, halved again and
  // again.
  for (size_t piece = std::max<size_t>(out.plan.steps.size() / 2, 1);;) {
    bool any = false;
    for (size_t end = out.plan.steps.size(); end > 0 && out.tries < tries_most;) {
      const size_t begin = end - std::min(piece, end);
      fewer = out.plan;
      fewer.steps.erase(fewer.steps.begin() + static_cast<std::ptrdiff_t>(begin),
                        fewer.steps.begin() + static_cast<std::ptrdiff_t>(end));
      any = holds(fewer) || any;
      end = std::min(begin, out.plan.steps.size());
    }
    if (out.tries >= tries_most || (piece == 1 && !any)) break;
    if (piece > 1) piece /= 2;
  }
  return out;
}

}  // namespace dxgkit::tool::fuzz
