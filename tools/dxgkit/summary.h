// The report of a run: lines for a person, JSON for a program, the head of the report page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/dxgkit/session.h"

namespace dxgkit::tool {

/// "identical to CPU reference", or "DIFFERENT ..." with the number of wrong pixels, the first of
/// them and its tile.
std::string compare(const Plan& plan, const JobResult& job, const Picture& expected);

/// By adapter, if there are several: the result of compare, the run without a client, or the
/// refused call.
std::vector<std::string> compare_adapters(const Plan& plan, const SessionOutcome& outcome,
                                          const Picture& expected);
/// One line of these.
std::string sum_up(const SessionOutcome& outcome, const std::vector<std::string>& results);
/// No adapter ran the job or showed a picture that could be compared: nothing can be said of the
/// driver.
bool none_got_work(const SessionOutcome& outcome);
/// True if no call was refused and every picture is right.
bool all_went_well(const SessionOutcome& outcome, const std::vector<std::string>& results);

struct Summary {
  const SessionConfig& config;
  const Plan& plan;
  const SessionOutcome& outcome;
  std::string result;                     // from compare, or why there is none
  std::vector<std::string> results = {};  // the same by adapter, where there are several
};

/// Several lines, the last one "result: ...".
std::string to_text(const Summary& summary);
nlohmann::ordered_json to_json(const Summary& summary);
/// The object the page reads beside the recording: {result, driver, sections, findings}.
nlohmann::ordered_json to_report_run(const Summary& summary);

}  // namespace dxgkit::tool
