#include "tools/dxgkit/sim/results.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <charconv>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

namespace dxgkit::tool {
namespace {

constexpr const char* kFormat = "dxgkit sim 1";
/// As SQLite keeps their texts.
constexpr const char* kTables[] = {
    "CREATE TABLE run(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE seed(seed INTEGER PRIMARY KEY, failed INTEGER NOT NULL,"
    " died INTEGER NOT NULL, trace_hash TEXT NOT NULL, simulated_ns INTEGER NOT NULL,"
    " packets INTEGER NOT NULL, thunk_calls INTEGER NOT NULL, timeouts INTEGER NOT NULL,"
    " ran_twice INTEGER NOT NULL, struck TEXT NOT NULL, failure TEXT NOT NULL,"
    " counters BLOB NOT NULL)"};
/// Another process may look at the rows for a moment (Results::count).
constexpr int kPatienceMs = 60'000;
/// Of a text or a blob in a file from anybody.
constexpr int kValueBytesMost = 1 << 20;

/// The layout of the counters' bytes: another build may count other events.
std::string layout() {
  std::string text = fmt::format("{} bytes", sizeof(sim::Counters));
  for (const std::string_view kind : sim::kFaultNames) text += fmt::format(", {}", kind);
  return text;
}

class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    if (sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr) != SQLITE_OK) statement_ = nullptr;
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  bool ready() const { return statement_ != nullptr; }
  void bind(int place, const std::string& text) {
    sqlite3_bind_text(statement_, place, text.data(), static_cast<int>(text.size()),
                      SQLITE_TRANSIENT);
  }
  void bind(int place, uint64_t number) {
    sqlite3_bind_int64(statement_, place, static_cast<sqlite3_int64>(number));
  }
  void bind_bytes(int place, const void* bytes, size_t count) {
    sqlite3_bind_blob(statement_, place, bytes, static_cast<int>(count), SQLITE_TRANSIENT);
  }
  int step() { return sqlite3_step(statement_); }
  std::string text(int column) const {
    const auto* const at = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return at == nullptr ? "" : std::string(at);
  }
  uint64_t number(int column) const {
    return static_cast<uint64_t>(sqlite3_column_int64(statement_, column));
  }
  bool bytes(int column, void* out, size_t count) const {
    if (sqlite3_column_bytes(statement_, column) != static_cast<int>(count)) return false;
    std::memcpy(out, sqlite3_column_blob(statement_, column), count);
    return true;
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace

void Results::Close::operator()(sqlite3* db) const { sqlite3_close(db); }

std::string Results::last_error() const { return sqlite3_errmsg(db_.get()); }

std::optional<std::string> Results::execute(const char* sql) {
  if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return std::nullopt;
  return last_error();
}

std::expected<std::string, std::string> Results::value(const char* key) const {
  Statement look(db_.get(), "SELECT value FROM run WHERE key = ?");
  if (!look.ready()) return std::unexpected(last_error());
  look.bind(1, key);
  if (look.step() != SQLITE_ROW) return std::unexpected(fmt::format("it does not say its {}", key));
  return look.text(0);
}

std::expected<Results, std::string> Results::open(const std::string& path) {
  sqlite3* db = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr);
  return known(path, Results(db), opened == SQLITE_OK);
}

std::expected<Results, std::string> Results::open_finished(const std::string& path) {
  std::string address = "file:";
  for (const char c : path)
    address += c == '%' || c == '?' || c == '#' ? fmt::format("%{:02x}", c) : std::string(1, c);
  address += "?immutable=1";
  sqlite3* db = nullptr;
  const int opened =
      sqlite3_open_v2(address.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  Results results(db);
  const auto refuse = [&](const std::string& why) {
    return std::unexpected(fmt::format("{}: {}", path, why));
  };
  if (opened != SQLITE_OK) return refuse(db == nullptr ? "no memory" : results.last_error());
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, kValueBytesMost);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  if (results.execute("PRAGMA cell_size_check = ON").has_value())
    return refuse(results.last_error());
  {
    // Views and triggers would run whatever their maker wanted.
    Statement schema(db, "SELECT coalesce(sql, '') FROM sqlite_master ORDER BY name");
    size_t found = 0;
    for (int state = schema.ready() ? schema.step() : SQLITE_ERROR; state != SQLITE_DONE;
         state = schema.step()) {
      if (state != SQLITE_ROW) return refuse(results.last_error());
      if (found == std::size(kTables) || schema.text(0) != kTables[found++])
        return refuse("it has other tables than results of simulation");
    }
    if (found != std::size(kTables)) return refuse("no results of simulation: tables are missing");
    Statement check(db, "PRAGMA quick_check(1)");
    if (!check.ready() || check.step() != SQLITE_ROW) return refuse(results.last_error());
    if (check.text(0) != "ok") return refuse("it is damaged: " + check.text(0));
  }
  return known(path, std::move(results), true);
}

std::expected<Results, std::string> Results::known(const std::string& path, Results results,
                                                   bool opened) {
  const auto refuse = [&](const std::string& why) {
    return std::unexpected(fmt::format("{}: {}", path, why));
  };
  if (!opened) return refuse(results.db_ == nullptr ? "no memory" : results.last_error());
  sqlite3_busy_timeout(results.db_.get(), kPatienceMs);
  const auto format = results.value("format");
  if (!format.has_value()) return refuse("no results of simulation: " + format.error());
  if (*format != kFormat)
    return refuse(fmt::format("its format is '{}', and this program's is '{}'", *format, kFormat));
  const auto counted = results.value("counters");
  if (!counted.has_value() || *counted != layout())
    return refuse("another version of this program made it, which counts other things");
  const auto worlds = results.value("worlds");
  if (!worlds.has_value()) return refuse(worlds.error());
  results.worlds_ = *worlds;
  return results;
}

std::expected<Results, std::string> Results::open(const std::string& path,
                                                  const std::string& worlds) {
  {
    sqlite3* db = nullptr;
    const int opened =
        sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    Results fresh(db);
    const auto refuse = [&] {
      return std::unexpected(
          fmt::format("{}: {}", path, db == nullptr ? "no memory" : fresh.last_error()));
    };
    if (opened != SQLITE_OK) return refuse();
    Statement tables(db, "SELECT count(*) FROM sqlite_master");
    if (!tables.ready() || tables.step() != SQLITE_ROW) return refuse();
    if (tables.number(0) == 0) {
      for (const char* const table : kTables)
        if (fresh.execute(table).has_value()) return refuse();
      Statement note(db, "INSERT INTO run VALUES('format', ?), ('worlds', ?), ('counters', ?)");
      if (!note.ready()) return refuse();
      note.bind(1, std::string(kFormat));
      note.bind(2, worlds);
      note.bind(3, layout());
      if (note.step() != SQLITE_DONE) return refuse();
    }
  }
  auto results = open(path);
  if (results.has_value() && results->worlds_ != worlds)
    return std::unexpected(
        fmt::format("{}: its worlds are '{}', and these are '{}'", path, results->worlds_, worlds));
  return results;
}

std::optional<std::string> Results::put(const sim::SeedResult& result) {
  static_assert(std::is_trivially_copyable_v<sim::Counters>);
  if (!writing_) {
    if (auto error = execute("BEGIN")) return error;
    writing_ = true;
  }
  Statement put(db_.get(),
                "INSERT OR REPLACE INTO seed VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!put.ready()) return last_error();
  const sim::Counters& n = result.counters;
  std::string struck;
  for (size_t i = 0; i < sim::kFaultKinds; ++i) {
    if (n.struck[i] == 0) continue;
    struck += fmt::format("{}{} {}", struck.empty() ? "" : ", ", sim::kFaultNames[i], n.struck[i]);
  }
  put.bind(1, result.seed);
  put.bind(2, uint64_t{result.failure.empty() ? 0U : 1U});
  put.bind(3, uint64_t{result.died ? 1U : 0U});
  put.bind(4, fmt::format("{:016x}", result.trace_hash));
  put.bind(5, n.simulated_ns);
  put.bind(6, n.packets);
  put.bind(7, n.thunk_calls);
  put.bind(8, n.engine_timeouts);
  put.bind(9, n.replays);
  put.bind(10, struck);
  put.bind(11, result.failure);
  put.bind_bytes(12, &n, sizeof(n));
  if (put.step() != SQLITE_DONE) return last_error();
  return std::nullopt;
}

std::optional<std::string> Results::flush() {
  if (!writing_) return std::nullopt;
  writing_ = false;
  return execute("COMMIT");
}

std::optional<std::string> Results::write_plainly(const std::string& path) {
  if (auto error = flush()) return error;
  // A vacuum lays out rows by key, whatever the order in which they came.
  Statement copy(db_.get(), "VACUUM INTO ?");
  if (!copy.ready()) return last_error();
  copy.bind(1, path);
  if (copy.step() != SQLITE_DONE) return last_error();
  return std::nullopt;
}

std::expected<Results::Count, std::string> Results::count() const {
  Statement all(db_.get(), "SELECT count(*), coalesce(sum(failed != 0), 0) FROM seed");
  if (!all.ready() || all.step() != SQLITE_ROW) return std::unexpected(last_error());
  return Count{all.number(0), all.number(1)};
}

std::optional<std::string> Results::each(
    const std::function<void(const sim::SeedResult&)>& take) const {
  Statement all(db_.get(),
                "SELECT seed, died, trace_hash, failure, counters FROM seed ORDER BY seed");
  if (!all.ready()) return last_error();
  for (int state = all.step(); state != SQLITE_DONE; state = all.step()) {
    if (state != SQLITE_ROW) return last_error();
    sim::SeedResult result;
    result.seed = all.number(0);
    result.died = all.number(1) != 0;
    const std::string hash = all.text(2);
    const char* const end = hash.data() + hash.size();
    const auto [at, error] = std::from_chars(hash.data(), end, result.trace_hash, 16);
    if (hash.size() != 16 || error != std::errc{} || at != end)
      return fmt::format("the hash of seed {} is none", result.seed);
    result.failure = all.text(3);
    if (!all.bytes(4, &result.counters, sizeof(result.counters)))
      return fmt::format("the numbers of seed {} are of another size", result.seed);
    take(result);
  }
  return std::nullopt;
}

}  // namespace dxgkit::tool
