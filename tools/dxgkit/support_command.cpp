#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/spelling.h"
#include "nt/kernel.h"
#include "port/support.h"
#include "thunks/support.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/files.h"
#include "umd/callbacks.h"

namespace dxgkit::tool {
namespace {

struct Row {
  std::string name, support, note;
};
struct Table {
  std::string title, key;
  std::vector<Row> rows;
};

/// Each module has an enum of its own, with the same three names in the same order.
template <typename Support>
std::string word(Support support) {
  switch (support) {
    case Support::kSupported:
      return "supported";
    case Support::kPartial:
      return "partial";
    case Support::kRefused:
      return "refused";
  }
  return "";
}

template <typename Entries>
Table table(std::string title, std::string key, const Entries& entries) {
  Table made{std::move(title), std::move(key), {}};
  for (const auto& entry : entries)
    made.rows.push_back({std::string(entry.name), word(entry.support), std::string(entry.note)});
  return made;
}

}  // namespace

int support_command(const SupportOptions& options) {
  const Reports& reports = options.reports;
  if (const int code = reports.check(); code != kExitDone) return code;
  std::vector<Table> tables{
      table("Driver entries (DxgkDdi*) the kernel calls", "ddis", port::ddi_support()),
      table("Callbacks (DxgkCb*) a driver may call", "callbacks", port::callback_support()),
      table("NT exports a driver may link", "nt_exports", nt::exports()),
      table("D3DKMT functions a client may call", "d3dkmt", thunks::support()),
      table("Callbacks (pfn*Cb) a user-mode driver gets", "umd_callbacks", umd::support()),
      table("Questions of D3DKMTQueryAdapterInfo", "adapter_info", thunks::adapter_info_support())};
  std::vector<std::string> names;
  size_t shown = 0;
  for (Table& t : tables) {
    for (const Row& row : t.rows) names.push_back(row.name);
    std::erase_if(t.rows, [&](const Row& row) {
      return (options.ddis && t.key != "ddis") || (options.refused && row.support != "refused") ||
             lower(row.name).find(lower(options.name)) == std::string::npos;
    });
    shown += t.rows.size();
  }
  if (shown == 0 && !options.name.empty()) {
    const auto view = [](const std::string& name) -> std::string_view { return name; };
    return bad_input(fmt::format("nothing of that kind has '{}' in its name{}", options.name,
                                 did_you_mean(options.name, names, view)));
  }
  if (reports.json.has_value()) {
    nlohmann::ordered_json out = nlohmann::ordered_json::object();
    for (const Table& t : tables) {
      for (const Row& row : t.rows)
        out[t.key].push_back({{"name", row.name}, {"support", row.support}, {"note", row.note}});
    }
    if (!write_output(reports.json, out.dump(1) + "\n")) return kExitNotWritten;
    if (reports.on_stdout()) return kExitDone;
  }
  for (const Table& t : tables) {
    if (t.rows.empty()) continue;
    const auto count = [&](const char* support) {
      return std::ranges::count_if(t.rows, [&](const Row& row) { return row.support == support; });
    };
    size_t width = 0;
    for (const Row& row : t.rows) width = std::max(width, row.name.size());
    fmt::print("{}: {} supported, {} partial, {} refused\n", t.title, count("supported"),
               count("partial"), count("refused"));
    for (const Row& row : t.rows) {
      if (row.note.empty()) {
        fmt::print("  {:<{}}  {}\n", row.name, width, row.support);
      } else {
        fmt::print("  {:<{}}  {:<9}  {}\n", row.name, width, row.support, row.note);
      }
    }
    fmt::print("\n");
  }
  return kExitDone;
}

}  // namespace dxgkit::tool
