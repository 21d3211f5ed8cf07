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

  const std::string& worlds() const { return worlds_; }
  /// Replaces the row of the seed.
  std::optional<std::string> put(const sim::SeedResult& result);
  /// After this, the rows put so far are safe.
  std::optional<std::string> flush();
  /// By seed. Returns the fault of the file, or nothing.
  std::optional<std::string> each(const std::function<void(const sim::SeedResult&)>& take) const;

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  explicit Results(sqlite3* db) : db_(db) {}
  std::optional<std::string> execute(const char* sql);
  std::string last_error() const;
  std::expected<std::string, std::string> value(const char* key) const;

  std::unique_ptr<sqlite3, Close> db_;
  std::string worlds_;
  bool writing_ = false;
};

}  // namespace dxgkit::tool
