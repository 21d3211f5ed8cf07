#include "tools/dxgkit/view/columns.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "tools/dxgkit/report.h"

namespace dxgkit::tool {
namespace {

constexpr uint64_t kChunkRows = 65536;
constexpr uint64_t kExact = uint64_t{1} << 53;  // larger integers are not exact in JavaScript

/// Small for small changes up and down.
uint64_t zigzag(uint64_t from, uint64_t to) {
  const auto change = static_cast<int64_t>(to - from);
  return static_cast<uint64_t>(change) << 1 ^ static_cast<uint64_t>(change >> 63);
}

/// The fewest of 1, 2, 4 and 8 bytes for numbers up to `most`, with the greatest left for "none".
size_t width_for(uint64_t most) {
  if (most < UINT8_MAX) return 1;
  if (most < UINT16_MAX) return 2;
  return most < UINT32_MAX ? 4 : 8;
}

void append(std::string& bytes, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
}

std::string deflated(std::string_view bytes) {
  constexpr int kLevel = 4;  // half the time of the default, a tenth larger
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), kLevel);
  DXGKIT_CHECK(result == Z_OK);  // the room is what it asks for
  out.resize(size);
  return out;
}

}  // namespace

void ColumnWriter::begin_table(std::string_view name, std::span<const char* const> columns) {
  name_ = name;
  columns_.clear();
  for (const char* column : columns) columns_.emplace_back().name = column;
  at_ = 0;
  rows_ = chunk_rows_ = 0;
  chunks_ = nlohmann::ordered_json::array();
}

ColumnWriter::Column& ColumnWriter::next_column() {
  DXGKIT_CHECK(at_ < columns_.size());
  return columns_[at_++];
}

void ColumnWriter::number(uint64_t value) {
  Column& column = next_column();
  column.values.push_back(value);
  column.nulls.push_back(false);
  column.most = std::max(column.most, value);
}

void ColumnWriter::null() {
  Column& column = next_column();
  column.values.push_back(0);
  column.nulls.push_back(true);
  column.any_null = true;
}

void ColumnWriter::text(std::string_view value) {
  Column& column = next_column();
  column.is_text = true;
  auto found = column.numbers.find(value);
  if (found == column.numbers.end()) {
    found = column.numbers.emplace(std::string(value), column.texts.size()).first;
    column.texts.emplace_back(value);
  }
  column.values.push_back(found->second);
  column.nulls.push_back(false);
  column.most = std::max(column.most, found->second);
}

void ColumnWriter::end_row() {
  DXGKIT_CHECK(at_ == columns_.size());
  at_ = 0;
  ++rows_;
  if (++chunk_rows_ == kChunkRows) end_chunk();
}

std::string ColumnWriter::encode(const Column& column, std::string& bytes) {
  const std::vector<uint64_t>& values = column.values;
  const size_t count = values.size();
  uint64_t most = 0, most_change = 0, before = 0, first = 0;
  size_t nulls = 0;
  bool begun = false, constant = true;
  for (size_t i = 0; i < count; ++i) {
    if (column.nulls[i]) {
      ++nulls;
      continue;
    }
    if (!begun) before = first = values[i];
    begun = true;
    constant = constant && values[i] == first;
    most = std::max(most, values[i]);
    most_change = std::max(most_change, zigzag(before, values[i]));
    before = values[i];
  }
  if (nulls == count) return "-";
  if (constant && nulls == 0 && most < kExact) return fmt::format("={}", first);
  while (bytes.size() % 8 != 0) bytes += '\0';  // typed arrays begin at multiples of their width
  const size_t raw = width_for(most), change = width_for(most_change);
  if (change < 8 && change <= raw && first < kExact) {
    before = first;
    for (size_t i = 0; i < count; ++i) {
      if (column.nulls[i]) {
        append(bytes, UINT64_MAX, change);
        continue;
      }
      append(bytes, zigzag(before, values[i]), change);
      before = values[i];
    }
    return fmt::format("d{}:{}", change, first);
  }
  for (size_t i = 0; i < count; ++i) {
    if (raw < 8) {
      append(bytes, column.nulls[i] ? UINT64_MAX : values[i], raw);
      continue;
    }
    const double value = column.nulls[i] ? std::nan("") : static_cast<double>(values[i]);
    append(bytes, std::bit_cast<uint64_t>(value), raw);
  }
  return fmt::format("u{}", raw);
}

void ColumnWriter::end_chunk() {
  std::string bytes;
  nlohmann::ordered_json encodings = nlohmann::ordered_json::array();
  for (Column& column : columns_) {
    encodings.push_back(encode(column, bytes));
    column.values.clear();
    column.nulls.clear();
  }
  chunks_.push_back({chunk_rows_, block_count_, std::move(encodings)});
  chunk_rows_ = 0;
  blocks_ += fmt::format("<script type=\"application/octet-stream\" id=\"{}{}\">", prefix_,
                         block_count_++);
  blocks_ += base64(deflated(bytes));
  blocks_ += "</script>\n";
}

void ColumnWriter::end_table() {
  if (chunk_rows_ != 0) end_chunk();
  nlohmann::ordered_json columns = nlohmann::ordered_json::array();
  for (Column& column : columns_) {
    nlohmann::ordered_json one{{"name", column.name}};
    if (column.is_text) {
      one["texts"] = std::move(column.texts);
    } else {
      // What holds all of the column: numbers that may be missing are floating point, with NaN.
      one["width"] = column.any_null || column.most >= UINT32_MAX ? 8 : width_for(column.most);
    }
    columns.push_back(std::move(one));
  }
  tables_[name_] = {
      {"count", rows_}, {"columns", std::move(columns)}, {"chunks", std::move(chunks_)}};
}

}  // namespace dxgkit::tool
