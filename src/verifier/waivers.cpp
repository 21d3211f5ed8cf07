#include "verifier/waivers.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "base/check.h"
#include "base/spelling.h"
#include "verifier/rule_catalogue.h"

namespace dxgkit::verifier {

/// In memory that processes share: the one that prints the waivers is not the one that runs the
/// driver.
struct Waivers::Uses {
  std::atomic<uint64_t> of[kMost];

  static std::shared_ptr<Uses> make() {
    void* const memory =
        mmap(nullptr, sizeof(Uses), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DXGKIT_CHECK(memory != MAP_FAILED);
    return {new (memory) Uses, [](Uses* uses) { munmap(uses, sizeof(Uses)); }};
  }
};

namespace {

constexpr size_t kShownMost = 40;  // of a wrong name

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool has_control_character(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

/// For a message: short, and without bytes that a terminal would obey.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, kShownMost));
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) c = '?';
  }
  return out;
}

}  // namespace

std::expected<void, std::string> Waivers::add(std::string_view text) {
  const size_t sign = std::min(text.find('='), text.size());
  const std::string_view rule = trimmed(text.substr(0, sign));
  const std::string_view reason =
      sign == text.size() ? std::string_view() : trimmed(text.substr(sign + 1));
  if (find_rule(rule) == nullptr) {
    const auto id_of = [](const Rule& one) { return one.id; };
    // A longer name is near nothing, and looking would take long.
    const std::string meant =
        rule.size() > kShownMost ? std::string() : did_you_mean(rule, all_rules(), id_of);
    return std::unexpected(fmt::format("there is no rule '{}'{}", shown(rule),
                                       meant.empty() ? "; `dxgkit rules` lists them" : meant));
  }
  if (reason.empty())
    return std::unexpected(fmt::format("{}: a waiver takes a reason: {}=REASON", rule, rule));
  if (reason.size() > kReasonBytesMost)
    return std::unexpected(
        fmt::format("{}: its reason has more than {} bytes", rule, kReasonBytesMost));
  if (has_control_character(reason))
    return std::unexpected(fmt::format("{}: its reason has a control character", rule));
  if (std::ranges::find(all_, rule, &Waiver::rule) != all_.end())
    return std::unexpected(fmt::format("{} is waived twice", rule));
  if (all_.size() == kMost) return std::unexpected("more than " + counted(kMost, "waiver"));
  if (uses_ == nullptr) uses_ = Uses::make();
  all_.push_back({std::string(rule), std::string(reason)});
  return {};
}

std::expected<void, std::string> Waivers::add_file(std::string_view text) {
  if (text.size() > kFileBytesMost)
    return std::unexpected(fmt::format("more than {} bytes", kFileBytesMost));
  for (size_t at = 0, number = 1; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trimmed(text.substr(at, end - at));
    at = end + 1;
    if (line.empty() || line.starts_with('#')) continue;
    if (const auto added = add(line); !added)
      return std::unexpected(fmt::format("line {}: {}", number, added.error()));
  }
  return {};
}

std::string_view Waivers::use(std::string_view rule) const {
  const auto found = std::ranges::find(all_, rule, &Waiver::rule);
  if (found == all_.end()) return {};
  uses_->of[found - all_.begin()].fetch_add(1, std::memory_order_relaxed);
  return found->reason;
}

uint64_t Waivers::uses(size_t index) const {
  return uses_ == nullptr ? 0 : uses_->of[index].load(std::memory_order_relaxed);
}

}  // namespace dxgkit::verifier
