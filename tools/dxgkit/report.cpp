#include "tools/dxgkit/report.h"

#include "tools/dxgkit/report_page.h"

namespace dxgkit::tool {
namespace {

/// Inside a script element nothing may look like a tag; in JSON '<' occurs in strings only.
std::string without_tags(const std::string& json) {
  std::string out;
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string trace_file(const std::string& path, const trace::Recording& recording) {
  return path.ends_with(".txt") ? trace::to_text(recording) : trace::to_perfetto(recording);
}

std::string make_report(const trace::Recording& recording, const nlohmann::ordered_json& run) {
  std::string page(report_page::kBeforeData);
  page += trace::to_report_json(recording);
  page += report_page::kBetween;
  // Texts of a driver may hold any bytes: bytes that are not UTF-8 are replaced and cause no
  // exception.
  page += without_tags(run.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  page += report_page::kAfterRun;
  return page;
}

}  // namespace dxgkit::tool
