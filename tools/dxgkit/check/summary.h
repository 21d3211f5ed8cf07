// What a check says of a driver: what works, what is wrong, and what was not reached.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/dxgkit/check/baseline.h"
#include "tools/dxgkit/verify/report.h"

namespace dxgkit::tool::check {

/// What would reach something that a run did not reach.
enum class Way {
  kPlugIn,      // a client plug-in, or more of it
  kDevice,      // another device, or a model of it that can do more
  kSimulation,  // --mode sim
  kMending,     // the mistakes that were found end the run before it
  kRuns,        // nothing known stands in the way: other seeds, or an exercise that is not there
  kDriver,      // a driver that has the feature
};
inline constexpr Way kWays[] = {Way::kPlugIn,  Way::kDevice, Way::kSimulation,
                                Way::kMending, Way::kRuns,   Way::kDriver};
/// For JSON: "plug-in", "device", ...
std::string_view name_of(Way way);

/// The way past the reason for which a step was skipped, or a situation could not come up.
Way way_past(std::string_view reason);

/// A step or a situation that was not reached.
struct Gap {
  Way way = Way::kRuns;
  bool is_step = false;
  std::string name;
  std::string why;  // empty: nothing is known to stand in the way
};

struct Fault {
  verifier::Finding finding;
  bool known = false;  // to the baseline
};

struct FailedStep {
  std::string name, text;
  bool known = false;
};

/// What `doctor` has found out. Not of a driver that could not be asked.
struct DriverFacts {
  nlohmann::ordered_json diagnosis;  // to_json of a Diagnosis; null: none
  std::string missing;               // why there is none, a sentence without a full stop
};

struct Summary {
  verify::VerifyReport report;
  DriverFacts facts;
  bool has_plug_in = false;
  std::vector<verify::StepResult> works;
  std::vector<Fault> faults;  // worst first, and new before known; warnings too
  std::vector<FailedStep> failed;
  std::vector<Gap> gaps;
  size_t consequences = 0, waived = 0;
  std::optional<std::string> baseline;  // the file
  std::vector<Mark> not_seen;           // of the baseline
  int exit_code = 0;

  size_t count(verifier::Severity severity, bool known) const;
};

/// @param known      what the baseline knows; null without one
/// @param file       of the baseline
Summary summarize(verify::VerifyReport report, DriverFacts facts, bool has_plug_in,
                  const Baseline* known, const std::optional<std::string>& file);

/// "FirstPatch (first.c:120)", or as much as is known; empty if nothing is.
std::string place_of(const verifier::Finding& finding);
/// The line that says what the driver is.
std::string subject_of(const DriverFacts& facts);
/// What would reach gaps of that way, as a heading.
std::string heading_of(Way way, const Summary& summary);
/// "not clean: 2 new findings, ..."
std::string verdict_of(const Summary& summary);

/// For a terminal.
std::string to_text(const Summary& summary);
std::string to_json_text(const Summary& summary);
/// The log of the findings, each with its mark as a fingerprint. With a baseline each one says
/// whether it is new.
std::string to_sarif_text(const Summary& summary);
/// One self-contained page without scripts.
std::string to_html(const Summary& summary);

}  // namespace dxgkit::tool::check
