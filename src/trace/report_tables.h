// The tables of a report, apart from how they are written down. README.md lists them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trace/story.h"

namespace dxgkit::trace {

/// Takes tables row by row: begin_table, then for each row its cells and end_row, then end_table.
class TableOutput {
 public:
  virtual ~TableOutput() = default;
  virtual void begin_table(std::string_view name, std::span<const char* const> columns) = 0;
  virtual void number(uint64_t value) = 0;
  virtual void null() = 0;
  /// Any bytes.
  virtual void text(std::string_view value) = 0;
  virtual void end_row() = 0;
  virtual void end_table() = 0;
};

/// Hands all tables of a recording to `output`. Times are counted from the story's start.
/// @param story  of the recording
void write_tables(const Recording& recording, const Story& story, TableOutput& output);

}  // namespace dxgkit::trace
