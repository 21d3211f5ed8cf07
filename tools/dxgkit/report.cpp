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

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string data_url(std::string_view type, std::string_view bytes) {
  std::string url = "data:" + std::string(type) + ";base64,";
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t j = i; j < i + 3; ++j)
      word = word << 8 | (j < bytes.size() ? static_cast<uint8_t>(bytes[j]) : 0U);
    for (size_t j = 0; j < 4; ++j)
      url += i + j > bytes.size() ? '=' : kBase64[word >> (18 - 6 * j) & 63];
  }
  return url;
}

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
