#include "tools/dxgkit/power_plan.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "base/spelling.h"

namespace dxgkit::tool {
namespace {

constexpr std::array<std::pair<std::string_view, PowerStep>, 7> kSteps{
    {{"standby", PowerStep::kStandby},
     {"hibernate", PowerStep::kHibernate},
     {"hybrid", PowerStep::kHybrid},
     {"d1", PowerStep::kD1},
     {"d2", PowerStep::kD2},
     {"d3", PowerStep::kD3},
     {"remove", PowerStep::kRemove}}};
constexpr size_t kPlanBytesMax = 1 << 20;

/// Words of a text, and where each begins.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  size_t line() const { return line_; }
  size_t column() const { return column_; }
  /// The next word, ";" at the end of a statement (a line's end among them), "" at the end of all.
  std::string_view next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
    if (at_ < text_.size() && text_[at_] == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    }
    column_ = at_ - line_start_ + 1;
    line_ = next_line_;
    if (at_ == text_.size()) return {};
    if (text_[at_] == '\n') {
      ++at_;
      ++next_line_;
      line_start_ = at_;
      return ";";
    }
    const size_t begin = at_;
    if (text_[at_] == ';') {
      ++at_;
      return ";";
    }
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n;#").find(text_[at_]) == std::string_view::npos)
      ++at_;
    return text_.substr(begin, at_ - begin);
  }

 private:
  std::string_view text_;
  size_t at_ = 0, line_start_ = 0;
  size_t line_ = 1, next_line_ = 1, column_ = 1;
};

}  // namespace

const char* power_step_name(PowerStep step) {
  for (const auto& [name, one] : kSteps) {
    if (one == step) return name.data();
  }
  return "";
}

std::expected<PowerPlan, std::string> parse_power_plan(std::string_view text) {
  if (text.size() > kPlanBytesMax)
    return std::unexpected(fmt::format("the plan has more than {} bytes", kPlanBytesMax));
  PowerPlan plan;
  Words words(text);
  const auto wrong = [&](std::string_view found, std::string_view wanted) {
    return std::unexpected(fmt::format("line {}, column {}: {} where {} is expected", words.line(),
                                       words.column(),
                                       found.empty()  ? "the end"
                                       : found == ";" ? "the end of the statement"
                                                      : fmt::format("'{:.40}'", found),
                                       wanted));
  };
  while (true) {
    std::string_view word = words.next();
    if (word.empty()) return plan;
    if (word == ";") continue;
    if (word != "at") return wrong(word, "'at'");
    if (!plan.empty() && plan.back().step == PowerStep::kRemove)
      return wrong(word, "nothing, after a removal,");
    word = words.next();
    PlannedPower one;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), one.packets);
    if (word.empty() || error != std::errc() || end != word.data() + word.size())
      return wrong(word, "a number of packets");
    if (!plan.empty() && one.packets <= plan.back().packets)
      return wrong(word, fmt::format("a number above {}", plan.back().packets));
    word = words.next();
    bool known = false;
    for (const auto& [name, step] : kSteps) {
      if (name != word) continue;
      one.step = step;
      known = true;
    }
    if (!known) {
      const auto name_of = [](const auto& step) -> std::string_view { return step.first; };
      return std::unexpected(
          wrong(word, "one of standby, hibernate, hybrid, d1, d2, d3, remove").error() +
          did_you_mean(word, kSteps, name_of));
    }
    plan.push_back(one);
    word = words.next();
    if (!word.empty() && word != ";") return wrong(word, "';'");
  }
}

}  // namespace dxgkit::tool
