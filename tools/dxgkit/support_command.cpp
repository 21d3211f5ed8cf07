#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nt/kernel.h"
#include "port/support.h"
#include "thunks/support.h"
#include "tools/dxgkit/commands.h"

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

int support_command(bool json) {
  const std::vector<Table> tables{
      table("Driver entries (DxgkDdi*) the kernel calls", "ddis", port::ddi_support()),
      table("Callbacks (DxgkCb*) a driver may call", "callbacks", port::callback_support()),
      table("NT exports a driver may link", "nt_exports", nt::exports()),
      table("D3DKMT functions a client may call", "d3dkmt", thunks::support())};
  if (json) {
    nlohmann::ordered_json out;
    for (const Table& t : tables) {
      for (const Row& row : t.rows)
        out[t.key].push_back({{"name", row.name}, {"support", row.support}, {"note", row.note}});
    }
    fmt::print("{}\n", out.dump(1));
    return kExitDone;
  }
  for (const Table& t : tables) {
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
