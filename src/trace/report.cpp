// The JSON of report.html. The format is written down in README.md; change both together.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "trace/report_tables.h"

namespace dxgkit::trace {
namespace {

/// Length of the well-formed UTF-8 sequence at the front of `text`, 0 if there is none. Unicode,
/// table 3-7.
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto in = [&](size_t i, unsigned low, unsigned high) {
    return i < text.size() && at(i) >= low && at(i) <= high;
  };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return in(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) && in(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

class Json : public TableOutput {
 public:
  void key(std::string_view name) {
    separate();
    string(name);
    out_ += ':';
    fresh_ = true;
  }
  void open(char bracket) {
    separate();
    out_ += bracket;
    fresh_ = true;
  }
  void close(char bracket) {
    out_ += bracket;
    fresh_ = false;
  }

  void begin_table(std::string_view name, std::span<const char* const> columns) override {
    key(name);
    open('{');
    key("columns");
    open('[');
    for (const char* column : columns) text(column);
    close(']');
    key("rows");
    open('[');
    in_table_ = true;
  }
  void number(uint64_t value) override {
    begin_cell();
    constexpr uint64_t kExact = (uint64_t{1} << 53) - 1;  // the largest exact integer in JavaScript
    if (value <= kExact) {
      fmt::format_to(std::back_inserter(out_), "{}", value);
    } else {
      fmt::format_to(std::back_inserter(out_), "\"{}\"", value);
    }
  }
  void null() override {
    begin_cell();
    out_ += "null";
  }
  void text(std::string_view value) override {
    begin_cell();
    string(value);
  }
  void end_row() override {
    close(']');
    in_row_ = false;
  }
  void end_table() override {
    close(']');
    close('}');
    in_table_ = false;
  }

  std::string take() { return std::move(out_); }

 private:
  void begin_cell() {
    if (in_table_ && !in_row_) {
      open('[');
      in_row_ = true;
    }
    separate();
  }
  void separate() {
    if (!fresh_) out_ += ',';
    fresh_ = false;
  }
  void string(std::string_view value) {
    out_ += '"';
    while (!value.empty()) {
      const size_t length = utf8_length(value);
      const char first = value[0];
      if (length == 0) {
        out_ += "\\ufffd";
      } else if (length == 1 && (static_cast<unsigned char>(first) < 0x20 || first == '<')) {
        fmt::format_to(std::back_inserter(out_), "\\u{:04x}", static_cast<unsigned char>(first));
      } else if (first == '"' || first == '\\') {
        out_ += '\\';
        out_ += first;
      } else {
        out_ += value.substr(0, length);
      }
      value.remove_prefix(std::max<size_t>(length, 1));
    }
    out_ += '"';
  }

  std::string out_;
  bool fresh_ = true;
  bool in_table_ = false, in_row_ = false;
};

}  // namespace

std::string to_report_json(const Recording& recording) {
  const Story story = tell(recording);
  Json json;
  json.open('{');
  json.key("format");
  json.text("dxgkit-report");
  json.key("version");
  json.number(1);
  json.key("start_ns");
  json.number(static_cast<uint64_t>(story.start));
  json.key("duration_ns");
  json.number(static_cast<uint64_t>(story.end - story.start));
  json.key("events");
  json.number(story.events.size());
  json.key("dropped");
  json.number(recording.dropped);
  json.key("threads");
  json.open('[');
  for (const std::string& name : story.threads) json.text(name);
  json.close(']');
  write_tables(recording, story, json);
  json.close('}');
  return json.take();
}

}  // namespace dxgkit::trace
