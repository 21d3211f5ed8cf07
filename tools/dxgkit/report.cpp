#include "tools/dxgkit/report.h"

#include <fmt/format.h>

#include <set>

#include "base/status.h"
#include "tools/dxgkit/explain/explanation.h"
#include "tools/dxgkit/report_page.h"
#include "tools/dxgkit/view/columns.h"
#include "tools/dxgkit/view/notes.h"
#include "tools/dxgkit/view/overview.h"
#include "trace/story.h"
#include "verifier/rule_catalogue.h"

namespace dxgkit::tool {
namespace {

using nlohmann::ordered_json;

/// Inside a script element nothing may look like a tag; in JSON '<' occurs in strings only. Texts
/// of a driver may hold any bytes: bytes that are not UTF-8 are replaced and cause no exception.
std::string without_tags(const ordered_json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', false, ordered_json::error_handler_t::replace)) {
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

/// The recording without its tables, then its tables.
ordered_json columns_of(const trace::Recording& recording, std::string prefix,
                        std::string& blocks) {
  const trace::Story story = trace::tell(recording);
  ColumnWriter writer(std::move(prefix));
  trace::write_tables(recording, story, writer);
  blocks += writer.take_blocks();
  return {{"format", "dxgkit-columns"},    {"version", 1},
          {"start_ns", story.start},       {"duration_ns", story.end - story.start},
          {"events", story.events.size()}, {"dropped", recording.dropped},
          {"threads", story.threads},      {"overview", overview_of(story)},
          {"tables", writer.take_tables()}};
}

bool names(std::string_view text, std::string_view word) {
  const size_t at = text.find(word);
  if (at == std::string_view::npos) return false;
  const size_t end = at + word.size();
  return end == text.size() || std::isalnum(static_cast<unsigned char>(text[end])) == 0;
}

/// The rules that a thunk's refusal may be: of its callers, that name the function and the status.
/// And the texts of all rules that the page may name, explained if something broke them.
ordered_json rules_of(const trace::Recording& recording) {
  ordered_json by_call = ordered_json::object(), texts = ordered_json::object();
  const auto tell = [&texts](const verifier::Rule& rule) {
    texts[std::string(rule.id)] = std::string(rule.statement);
  };
  for (const std::string_view id : {"THUNK-01", "THUNK-04", "THUNK-07", "THUNK-28"})
    if (const verifier::Rule* const rule = verifier::find_rule(id)) tell(*rule);
  std::set<std::pair<uint64_t, uint32_t>> refused;
  std::set<uint32_t> codes;
  for (const trace::Event& event : recording.events) {
    const bool thunk = event.kind == static_cast<uint16_t>(trace::EventKind::kThunkExit);
    const bool ddi = event.kind == static_cast<uint16_t>(trace::EventKind::kDdiExit);
    if ((!thunk && !ddi) || static_cast<int32_t>(event.b) >= 0) continue;
    codes.insert(static_cast<uint32_t>(event.b));
    if (thunk) refused.emplace(event.a, static_cast<uint32_t>(event.b));
  }
  ordered_json statuses = ordered_json::object();
  for (const uint32_t code : codes) {
    const std::string_view name = status_name(static_cast<Status>(code));
    if (!name.empty()) statuses[fmt::format("{}", code)] = std::string(name);
  }
  for (const auto& [name_id, code] : refused) {
    const std::string name = trace::name_of(recording, name_id);
    const std::string_view status = status_name(static_cast<Status>(code));
    ordered_json ids = ordered_json::array();
    for (const verifier::Rule& rule : verifier::all_rules()) {
      if (rule.who == verifier::Who::kMiniport || !names(rule.observed, status)) continue;
      if (!names(rule.sources, name) && !names(rule.statement, name)) continue;
      ids.push_back(std::string(rule.id));
      tell(rule);
    }
    if (!ids.empty()) by_call[fmt::format("{} 0x{:08X}", name, code)] = std::move(ids);
  }
  ordered_json explained = ordered_json::object();
  for (const trace::Event& event : recording.events) {
    if (event.kind != static_cast<uint16_t>(trace::EventKind::kFinding)) continue;
    const std::string id = trace::name_of(recording, event.a);
    const verifier::Rule* const rule = verifier::find_rule(id);
    if (rule != nullptr && !explained.contains(id)) explained[id] = rule_text(*rule);
  }
  return {{"by_call", std::move(by_call)},
          {"explained", std::move(explained)},
          {"texts", std::move(texts)},
          {"statuses", std::move(statuses)}};
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() / 3 * 4 + 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t j = i; j < i + 3; ++j)
      word = word << 8 | (j < bytes.size() ? static_cast<uint8_t>(bytes[j]) : 0U);
    for (size_t j = 0; j < 4; ++j)
      out += i + j > bytes.size() ? '=' : kBase64[word >> (18 - 6 * j) & 63];
  }
  return out;
}

std::string data_url(std::string_view type, std::string_view bytes) {
  return "data:" + std::string(type) + ";base64," + base64(bytes);
}

std::string trace_file(const std::string& path, const trace::Recording& recording,
                       const ordered_json& run) {
  return path.ends_with(".txt") ? trace::to_text(recording) + notes_line(run)
                                : trace::to_perfetto(recording);
}

std::string make_report(const trace::Recording& recording, const ordered_json& run,
                        const trace::Recording* other) {
  std::string blocks;
  const ordered_json data = columns_of(recording, "a", blocks);
  ordered_json second;
  if (other != nullptr) second = columns_of(*other, "b", blocks);
  ordered_json told = run.is_null() ? ordered_json::object() : run;
  told["rules"] = rules_of(recording);
  std::string page(report_page::kBeforeBlocks);
  page += blocks;
  page += report_page::kBeforeData;
  page += without_tags(data);
  page += report_page::kBeforeOther;
  page += without_tags(second);
  page += report_page::kBeforeRun;
  page += without_tags(told);
  page += report_page::kAfterRun;
  return page;
}

}  // namespace dxgkit::tool
