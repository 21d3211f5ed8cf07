// The summary as a page: no network, no scripts, readable on paper.
#include <fmt/format.h>

#include <map>

#include "base/spelling.h"
#include "tools/dxgkit/check/summary.h"

namespace dxgkit::tool::check {
namespace {

using verifier::Finding;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --line: #8884; --bad: #b3261e; --fair: #8a6100; --good: #1b6e3c; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --fair: #e6b84d; --good: #7bd39c; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; border-bottom: 1px solid var(--line); margin-top: 2rem; }
h3 { font-size: 1rem; margin-bottom: .25rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { overflow-x: auto; padding: .5rem; border: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; } td { border-top: 1px solid var(--line); padding: .2rem .6rem .2rem 0; vertical-align: top; }
td:first-child { white-space: nowrap; } .bad { color: var(--bad); } .fair { color: var(--fair); } .good { color: var(--good); }
details { margin: .5rem 0; } summary { cursor: pointer; } .verdict { font-size: 1.1rem; font-weight: 600; }
)";

/// Text between tags and in quoted attributes. Bytes that no page may have become '?'.
std::string html_text(std::string_view text) {
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
      case '\'':
        out += "&#39;";
        break;
      default:
        out += (byte < 0x20 && c != '\n' && c != '\t') || byte >= 0x7F ? '?' : c;
        break;
    }
  }
  return out;
}

std::string row(std::string_view name, std::string_view text) {
  return fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", html_text(name), html_text(text));
}

std::string fault_html(const Fault& fault, bool with_baseline) {
  const Finding& finding = fault.finding;
  const bool warning = finding.severity == verifier::Severity::kWarning;
  const std::string place = place_of(finding);
  const std::string state = !with_baseline || warning ? "" : fault.known ? " (known)" : " (new)";
  return fmt::format(
      "<details{}><summary><strong class=\"{}\">{}</strong> {} in <code>{}</code>{}{}<br>{}"
      "</summary>\n<pre>{}</pre></details>\n",
      fault.known || warning ? "" : " open", warning ? "fair" : "bad", html_text(finding.rule),
      html_text(verifier::severity_text(finding.severity)), html_text(finding.ddi),
      place.empty() ? "" : ", <code>" + html_text(place) + "</code>", state,
      html_text(finding.actual), html_text(verifier::to_text(finding)));
}

std::string gaps_html(const Summary& summary, Way way) {
  std::string steps;
  std::map<std::string, std::string> situations;  // reason -> ids
  for (const Gap& gap : summary.gaps) {
    if (gap.way != way) continue;
    if (gap.is_step) {
      steps += row(gap.name, gap.why);
    } else {
      std::string& ids = situations[gap.why];
      ids += (ids.empty() ? "" : ", ") + gap.name;
    }
  }
  if (steps.empty() && situations.empty()) return {};
  std::string out = fmt::format("<h3>{}</h3>\n", html_text(heading_of(way, summary)));
  if (!steps.empty()) out += "<table>\n" + steps + "</table>\n";
  for (const auto& [reason, ids] : situations) {
    out += fmt::format("<details><summary>situations{}</summary><p>{}</p></details>\n",
                       reason.empty() ? "" : ": not so: " + html_text(reason), html_text(ids));
  }
  return out;
}

}  // namespace

std::string to_html(const Summary& summary) {
  const std::string driver = html_text(summary.report.driver);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<title>{}: dxgkit check</title>\n<style>{}</style></head><body>\n"
      "<h1>{}</h1>\n<p>{}</p>\n<p class=\"verdict {}\">{}</p>\n<p><code>{}</code></p>\n",
      driver, kStyle, driver, html_text(subject_of(summary.facts)),
      summary.exit_code == kExitDone ? "good" : "bad", html_text(verdict_of(summary)),
      html_text(summary.report.command));

  out += "<h2 id=\"wrong\">Wrong</h2>\n";
  if (summary.faults.empty() && summary.failed.empty()) out += "<p>Nothing was found.</p>\n";
  for (const Fault& fault : summary.faults) out += fault_html(fault, summary.baseline.has_value());
  if (!summary.failed.empty()) {
    out += "<h3>Steps that failed</h3>\n<table>\n";
    for (const FailedStep& step : summary.failed)
      out += row(step.name, step.text + (step.known ? " (known)" : ""));
    out += "</table>\n";
  }
  if (summary.report.left_out)
    out += "<p>The steps behind them are left out: the same mistake would end them, too.</p>\n";
  if (!summary.report.waivers.empty()) {
    out += "<h3>Broken on purpose</h3>\n<table>\n";
    for (size_t i = 0; i < summary.report.waivers.all().size(); ++i) {
      const verifier::Waiver& waiver = summary.report.waivers.all()[i];
      out += row(waiver.rule, fmt::format("{} ({})", waiver.reason,
                                          counted(summary.report.waivers.uses(i), "use")));
    }
    out += "</table>\n";
  }

  out += "<h2 id=\"works\">Works</h2>\n<table>\n";
  for (const verify::StepResult& step : summary.works)
    out += row(step.name, step.outcome.text.empty() ? step.title : step.outcome.text);
  out += "</table>\n<h2 id=\"not-reached\">Not reached</h2>\n";
  for (const Way way : kWays) out += gaps_html(summary, way);
  if (!summary.report.never_called.empty()) {
    out += "<h3>Entries of the driver that were never called</h3>\n<p>";
    for (const std::string& entry : summary.report.never_called)
      out += "<code>" + html_text(entry) + "</code> ";
    out += "</p>\n";
  }
  if (!summary.not_seen.empty()) {
    out += fmt::format("<h2>Of {}, and not seen now</h2>\n<ul>\n", html_text(*summary.baseline));
    for (const Mark& mark : summary.not_seen) out += "<li>" + html_text(to_text(mark)) + "</li>\n";
    out += "</ul>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace dxgkit::tool::check
