// Results of seeds in an SQLite database.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "sim/seeds.h"

struct sqlite3;

namespace dxgkit::tool {

/// Tables: `run` (key, value) for facts common to all seeds; `seed` with a row each. Their content
/// does not depend on when, where or in which order seeds ran. One thread. Errors are sentences.
class Results {
 public:
  /// Opens or makes `path`. An error if it is another kind of file, of another version, or has
  /// worlds other than `worlds`.
  static std::expected<Results, std::string> open(const std::string& path,
                                                  const std::string& worlds);
  /// Opens an existing file for reading, with any worlds.
  static std::expected<Results, std::string> open(const std::string& path);

  /// Opens a file from anybody that nobody writes any more. It is left as it is, nothing beside it
  /// is looked at, and it is refused if it has anything else than the two tables, or is damaged.
  static std::expected<Results, std::string> open_finished(const std::string& path);

  const std::string& worlds() const { return worlds_; }
  /// Replaces the row of the seed.
  std::optional<std::string> put(const sim::SeedResult& result);
  /// After this, the rows put so far are safe.
  std::optional<std::string> flush();
  /// Writes a new file with the same rows, whose bytes depend on the rows only. It must not exist.
  std::optional<std::string> write_plainly(const std::string& path);
  /// Rows, and those that failed. For a file that another process may be writing.
  struct Count {
    uint64_t rows = 0, failed = 0;
  };
  std::expected<Count, std::string> count() const;
  /// By seed. Returns the fault of the file, or nothing.
  std::optional<std::string> each(const std::function<void(const sim::SeedResult&)>& take) const;

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  explicit Results(sqlite3* db) : db_(db) {}
  /// An opened file, if its facts are those of this program.
  static std::expected<Results, std::string> known(const std::string& path, Results results,
                                                   bool opened);
  std::optional<std::string> execute(const char* sql);
  std::string last_error() const;
  std::expected<std::string, std::string> value(const char* key) const;

  std::unique_ptr<sqlite3, Close> db_;
  std::string worlds_;
  bool writing_ = false;
};

}  // namespace dxgkit::tool
