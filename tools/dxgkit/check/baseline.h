// Findings that are known: a file that is kept with the driver, so that only new ones fail.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "tools/dxgkit/verify/report.h"
#include "verifier/findings.h"

namespace dxgkit::tool::check {

/// What a mistake is known by. There is no time, no address and no line in it, because these change
/// with every build: rule, place and what happened, without its numbers.
struct Mark {
  std::string rule;      // "PAGE-05"; empty: a step that failed
  std::string place;     // the DDI or function of the finding; the name of the step
  std::string function;  // of the driver; empty if no debugging information names it
  std::string what;

  /// The same mistake. One side may lack the function: a build without debugging information.
  bool is(const Mark& other) const;
  auto operator<=>(const Mark&) const = default;
};

Mark mark_of(const verifier::Finding& finding);
/// Of a step that failed.
Mark mark_of(const verify::StepResult& step);
/// One line: "PAGE-05 in DxgkDdiBuildPagingBuffer, FirstBuildPagingBuffer: It wrote ...".
std::string to_text(const Mark& mark);

class Baseline {
 public:
  static constexpr size_t kFileBytesMost = size_t{16} << 20;

  /// What a run found: its mistakes, and the steps that failed.
  static Baseline of(const verify::VerifyReport& report);
  /// The text of a file. Any bytes. The error is a sentence without a full stop.
  static std::expected<Baseline, std::string> parse(std::string_view text);
  /// JSON with a line for each mark, in their order: a change shows as a line.
  std::string to_json_text() const;

  bool has(const Mark& mark) const;
  const std::vector<Mark>& marks() const { return marks_; }
  /// Those of them that `now` does not have.
  std::vector<Mark> without(const Baseline& now) const;

 private:
  std::vector<Mark> marks_;  // sorted, each once
};

/// The report without what the baseline knows: verify::exit_code of it fails for what is new.
verify::VerifyReport only_new(const verify::VerifyReport& report, const Baseline& known);

}  // namespace dxgkit::tool::check
