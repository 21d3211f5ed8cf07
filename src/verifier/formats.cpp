#include "verifier/formats.h"

#include <fmt/format.h>

#include <algorithm>

#include "verifier/json_text.h"
#include "verifier/observed.h"
#include "verifier/rule_catalogue.h"
#include "verifier/source_lines.h"

namespace dxgkit::verifier {
namespace {

std::string field(std::string_view name, std::string_view text) {
  return fmt::format("{}:{}", json_string(name), json_string(text));
}

/// Joins with commas, leaving empty parts out.
std::string join(std::initializer_list<std::string> parts) {
  std::string out;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!out.empty()) out += ',';
    out += part;
  }
  return out;
}

const char* level_name(const Finding& finding) {
  if (!finding.because_of.empty()) return "note";
  return finding.severity == Severity::kWarning ? "warning" : "error";
}

/// A path as the URI reference SARIF wants: '/' between parts, other special bytes escaped.
std::string uri(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("/-_.~").find(c) != std::string_view::npos;
    if (c == '\\') {
      out += '/';
    } else if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

std::string physical_location(const Finding& finding, const ReportedRun& run) {
  const Place& place = finding.place;
  if (place.image.empty()) {
    // Some viewers drop a result without a file, so the driver stands for it.
    return fmt::format(R"("physicalLocation":{{"artifactLocation":{{{}}}}})",
                       field("uri", uri(run.driver)));
  }
  if (const std::vector<SourceFrame> source = source_of(place);
      !source.empty() && source[0].line != 0) {
    return fmt::format(
        R"("physicalLocation":{{"artifactLocation":{{{}}},"region":{{"startLine":{}}}}})",
        field("uri", uri(source[0].file)), source[0].line);
  }
  return fmt::format(
      R"("physicalLocation":{{"artifactLocation":{{{}}},"address":{{"relativeAddress":{},{}}}}})",
      field("uri", uri(run.driver)), place.rva,
      field("fullyQualifiedName", fmt::format("{}+{:#x}{}{}", place.image, place.rva,
                                              place.symbol.empty() ? "" : " ", place.symbol)));
}

std::string stack_of(const Finding& finding) {
  if (finding.place.stack.empty()) return {};
  std::string frames;
  for (const std::string& frame : finding.place.stack) {
    frames += fmt::format(R"({}{{"location":{{"logicalLocations":[{{{}}}]}}}})",
                          frames.empty() ? "" : ",", field("fullyQualifiedName", frame));
  }
  return fmt::format(R"("stacks":[{{"message":{{{}}},"frames":[{}]}}])",
                     field("text", "innermost first"), frames);
}

/// Its reason is kept outside of the driver's source.
std::string suppression_of(const Finding& finding) {
  if (finding.waived.empty()) return {};
  return fmt::format(R"(,"suppressions":[{{"kind":"external","status":"accepted",{}}}])",
                     field("justification", finding.waived));
}

std::string result_of(const Finding& finding, size_t rule_index, const ReportedRun& run) {
  std::string text =
      finding.because_of.empty() ? "" : fmt::format("Because of {}: ", finding.because_of);
  text += finding.actual + " Expected: " + finding.expected;
  if (!finding.why.empty()) text += " Why: " + finding.why;
  text += " Fix: " + finding.fix + " On Windows: " + consequence_text(finding);
  if (!finding.before.empty()) text += " Before:";
  for (const std::string& line : finding.before) text += "\n" + line;
  const std::string bug_check = finding.severity == Severity::kBugCheck
                                    ? fmt::format(R"("bugcheckCode":{},"bugcheckParameter":{})",
                                                  finding.bugcheck_code, finding.bugcheck_parameter)
                                    : std::string();
  const std::string properties = join(
      {field("severity", severity_text(finding)), field("actual", finding.actual),
       field("expected", finding.expected), field("fix", finding.fix),
       field("windows", consequence_text(finding)), field("confidence", confidence_text(finding)),
       bug_check, finding.because_of.empty() ? "" : field("becauseOf", finding.because_of)});
  const std::string location = join({physical_location(finding, run),
                                     fmt::format(R"("logicalLocations":[{{{},"kind":"function"}}])",
                                                 field("fullyQualifiedName", finding.ddi))});
  return fmt::format(
      R"({{{},"ruleIndex":{},"level":"{}","message":{{{}}},"locations":[{{{}}}]{}{}{},"properties":{{{}}}}})",
      field("ruleId", finding.rule), rule_index, level_name(finding), field("text", text), location,
      finding.place.stack.empty() ? "" : ",", stack_of(finding), suppression_of(finding),
      properties);
}

std::string rule_of(const std::string& id) {
  const Rule* rule = find_rule(id);
  if (rule == nullptr) return fmt::format("{{{}}}", field("id", id));
  std::string effects;
  for (const std::string& sentence : consequences_of(*rule))
    effects += (effects.empty() ? "" : " ") + sentence;
  return fmt::format(R"({{{},"shortDescription":{{{}}},"help":{{{}}},"properties":{{{}}}}})",
                     field("id", id), field("text", rule->statement),
                     field("text", fmt::format("{} When it is broken: {} Sources: {}.",
                                               rule->statement, effects, rule->sources)),
                     join({field("level", rule->level), field("who", to_string(rule->who)),
                           rule->our_choice ? std::string(R"("ourChoice":true)") : std::string()}));
}

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Bytes above ASCII could be in any encoding, and text from a driver is not trusted.
        out += (byte < 0x20 && c != '\n' && c != '\t') || byte >= 0x7F ? '?' : c;
        break;
    }
  }
  return out;
}

}  // namespace

std::string to_sarif(std::span<const Finding> findings, const ReportedRun& run) {
  std::vector<std::string> ids;
  for (const Finding& finding : findings) {
    if (std::ranges::find(ids, finding.rule) == ids.end()) ids.push_back(finding.rule);
  }
  std::string rules;
  for (const std::string& id : ids) rules += (rules.empty() ? "\n    " : ",\n    ") + rule_of(id);
  std::string results;
  for (const Finding& finding : findings) {
    const auto index = static_cast<size_t>(std::ranges::find(ids, finding.rule) - ids.begin());
    results += (results.empty() ? "\n   " : ",\n   ") + result_of(finding, index, run);
  }
  std::string notes;
  const auto add_note = [&](std::string_view level, const std::string& note) {
    notes += fmt::format(R"({}{{"level":"{}","message":{{{}}}}})", notes.empty() ? "" : ",", level,
                         field("text", note));
  };
  for (const std::string& note : run.notes) add_note("error", note);
  for (const std::string& remark : run.remarks) add_note("note", remark);
  return fmt::format(
      R"({{
 "$schema":"https://json.schemastore.org/sarif-2.1.0.json",
 "version":"2.1.0",
 "runs":[{{
  "tool":{{"driver":{{"name":"dxgkit","rules":[{}]}}}},
  "invocations":[{{{},"executionSuccessful":{},"toolExecutionNotifications":[{}]}}],
  "artifacts":[{{"location":{{{}}}}}],
  "results":[{}]
 }}]
}}
)",
      rules, field("commandLine", run.command), run.ended, notes, field("uri", uri(run.driver)),
      results);
}

JunitCase interrupted_case(const std::string& how_far) {
  return {.name = "interrupted",
          .outcome = JunitCase::Outcome::kFailed,
          .message = "interrupted by the user " + how_far,
          .text = {}};
}

std::string to_junit(const std::string& suite, std::span<const JunitCase> cases) {
  using Outcome = JunitCase::Outcome;
  const auto count = [&](Outcome outcome) {
    return std::ranges::count(cases, outcome, &JunitCase::outcome);
  };
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
      xml_text(suite), cases.size(), count(Outcome::kFailed), count(Outcome::kSkipped));
  for (const JunitCase& one : cases) {
    out +=
        fmt::format("<testcase classname=\"{}\" name=\"{}\">", xml_text(suite), xml_text(one.name));
    if (one.outcome == Outcome::kSkipped)
      out += fmt::format("<skipped message=\"{}\"/>", xml_text(one.message));
    if (one.outcome == Outcome::kFailed)
      out += fmt::format("<failure message=\"{}\">{}</failure>", xml_text(one.message),
                         xml_text(one.text));
    out += "</testcase>\n";
  }
  return out + "</testsuite>\n</testsuites>\n";
}

}  // namespace dxgkit::verifier
