// tests/sweep/known_runs.txt: what the runs of each story, kind of fault and DDI gave.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/trace.h"

namespace dxgkit::sweep {

/// The runs of one line: how they ended, and a hash of all that happened.
class KnownLine {
 public:
  void add(std::string_view text) {
    for (const char byte : text) facts_.push_back({.a = static_cast<unsigned char>(byte)});
  }
  void add(uint64_t number) { facts_.push_back({.b = number}); }
  void count(bool runs) { ++(runs ? running_ : stopped_); }
  /// "12/1 0123456789abcdef": the adapter ran after 12 runs, and had stopped after 1.
  std::string text() const;

 private:
  std::vector<trace::Event> facts_;
  size_t running_ = 0, stopped_ = 0;
};

/// By "story kind DDI".
using KnownLines = std::map<std::string, KnownLine>;

/// Compares with the lines of the file that begin with `prefix` ("story kind "), and fails the
/// test for each that differs. Where DXGKIT_KEEP_RUNS is in the environment the file gets them.
void compare_lines(const std::string& prefix, const KnownLines& lines);

}  // namespace dxgkit::sweep
