#include "tools/dxgkit/view/notes.h"

#include <algorithm>
#include <initializer_list>

namespace dxgkit::tool {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kMark = "# run ";
constexpr std::string_view kPicture = "data:image/png;base64,";

std::string text_of(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// The members of these names that are texts.
ordered_json texts_of(const ordered_json& object, std::initializer_list<const char*> names) {
  ordered_json out = ordered_json::object();
  for (const char* const name : names) {
    if (std::string text = text_of(object, name); !text.empty()) out[name] = std::move(text);
  }
  return out;
}

const ordered_json& list_of(const ordered_json& object, const char* name) {
  static const ordered_json empty = ordered_json::array();
  if (!object.is_object()) return empty;
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : empty;
}

ordered_json lines_of(const ordered_json& list) {
  ordered_json out = ordered_json::array();
  for (const ordered_json& line : list)
    if (line.is_string()) out.push_back(line);
  return out;
}

bool is_number(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() && found->get<int64_t>() >= 0;
}

/// Without processor registers: they are addresses of one process.
ordered_json place_of(const ordered_json& place) {
  ordered_json out = texts_of(place, {"image", "symbol"});
  out["stack"] = lines_of(list_of(place, "stack"));
  out["source"] = ordered_json::array();
  for (const ordered_json& frame : list_of(place, "source")) {
    if (!frame.is_object()) continue;
    ordered_json one = texts_of(frame, {"function", "file"});
    one["line"] = is_number(frame, "line") ? frame["line"] : ordered_json(0U);
    out["source"].push_back(std::move(one));
  }
  return out;
}

ordered_json finding_of(const ordered_json& finding) {
  ordered_json out = texts_of(
      finding, {"rule", "severity", "ddi", "actual", "expected", "fix", "windows", "confidence",
                "why", "because_of", "waived", "statement", "text", "provoked"});
  out["before"] = lines_of(list_of(finding, "before"));
  if (const auto place = finding.find("place"); place != finding.end() && place->is_object())
    out["place"] = place_of(*place);
  return out;
}

bool is_picture(std::string_view address) {
  if (!address.starts_with(kPicture)) return false;
  return std::ranges::all_of(address.substr(kPicture.size()), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '/' || c == '=';
  });
}

ordered_json known_of(const ordered_json& run) {
  if (!run.is_object()) return ordered_json::object();
  ordered_json out = texts_of(run, {"result", "driver"});
  ordered_json findings = ordered_json::array(), frames = ordered_json::array();
  for (const ordered_json& finding : list_of(run, "findings"))
    if (finding.is_object()) findings.push_back(finding_of(finding));
  for (const ordered_json& frame : list_of(run, "frames")) {
    if (!frame.is_object() || !is_picture(text_of(frame, "picture"))) continue;
    ordered_json one = texts_of(frame, {"program", "picture"});
    bool whole = true;
    for (const char* const name : {"number", "time_ns", "width", "height"}) {
      whole = whole && is_number(frame, name);
      if (whole) one[name] = frame[name];
    }
    if (whole) frames.push_back(std::move(one));
  }
  if (!findings.empty()) out["findings"] = std::move(findings);
  if (!frames.empty()) out["frames"] = std::move(frames);
  return out;
}

}  // namespace

ordered_json findings_for_page(const std::vector<verifier::Finding>& findings) {
  ordered_json list = ordered_json::array();
  for (const verifier::Finding& finding : findings) {
    ordered_json one = ordered_json::parse(verifier::to_json(finding), nullptr, false);
    if (one.is_discarded()) one = {{"rule", finding.rule}};
    one["text"] = verifier::to_text(finding);
    list.push_back(std::move(one));
  }
  return list;
}

std::string notes_line(const ordered_json& run) {
  ordered_json known = known_of(run);
  if (known.empty()) return {};
  // The text for people has the registers, and the page puts its own together.
  if (known.contains("findings"))
    for (ordered_json& finding : known["findings"]) finding.erase("text");
  return std::string(kMark) + known.dump(-1, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

ordered_json take_notes(std::string* text) {
  const size_t before = text->rfind("\n" + std::string(kMark));
  if (before == std::string::npos && !text->starts_with(kMark)) return ordered_json::object();
  const size_t at = before == std::string::npos ? 0 : before + 1;
  const std::string_view line =
      std::string_view(*text).substr(at, text->find('\n', at) - at).substr(kMark.size());
  ordered_json run = ordered_json::parse(line, nullptr, false);
  text->resize(at);
  return run.is_discarded() ? ordered_json::object() : known_of(run);
}

}  // namespace dxgkit::tool
