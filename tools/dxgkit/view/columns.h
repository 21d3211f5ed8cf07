// Tables of a report as typed columns in compressed blocks, as the report page reads them. The
// format is in tools/dxgkit/report/columns.js; change both together.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "trace/report_tables.h"

namespace dxgkit::tool {

/// Rows are taken in chunks, so what it holds beside its output does not grow with the tables.
class ColumnWriter : public trace::TableOutput {
 public:
  /// @param prefix  of the blocks' names in the page: letters
  explicit ColumnWriter(std::string prefix) : prefix_(std::move(prefix)) {}

  void begin_table(std::string_view name, std::span<const char* const> columns) override;
  void number(uint64_t value) override;
  void null() override;
  void text(std::string_view value) override;
  void end_row() override;
  void end_table() override;

  /// The tables: columns, chunks and how each is encoded. Texts are UTF-8.
  nlohmann::ordered_json take_tables() { return std::move(tables_); }
  /// The blocks as elements of a page.
  std::string take_blocks() { return std::move(blocks_); }

 private:
  struct Column {
    std::string name;
    std::vector<uint64_t> values;  // of the chunk; of texts their numbers
    std::vector<bool> nulls;
    bool is_text = false, any_null = false;
    uint64_t most = 0;
    std::map<std::string, uint64_t, std::less<>> numbers;
    std::vector<std::string> texts;  // by number
  };
  Column& next_column();
  void end_chunk();
  /// Appends the column's chunk to `bytes`, and returns how it is encoded.
  static std::string encode(const Column& column, std::string& bytes);

  const std::string prefix_;
  nlohmann::ordered_json tables_ = nlohmann::ordered_json::object();
  std::string blocks_;
  uint64_t block_count_ = 0;
  std::string name_;
  std::vector<Column> columns_;
  size_t at_ = 0;
  uint64_t rows_ = 0, chunk_rows_ = 0;
  nlohmann::ordered_json chunks_;
};

}  // namespace dxgkit::tool
