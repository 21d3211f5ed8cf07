#include "tools/dxgkit/evict/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <unordered_map>

namespace dxgkit::tool::evict {
namespace {

constexpr uint32_t kAllocationsMax = 1U << 30;
constexpr size_t kShownMax = 40;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Takes the next word off the front of a line; empty at its end.
std::string_view take_word(std::string_view* line) {
  size_t begin = 0;
  while (begin < line->size() && is_space((*line)[begin])) ++begin;
  size_t end = begin;
  while (end < line->size() && !is_space((*line)[end])) ++end;
  const std::string_view word = line->substr(begin, end - begin);
  line->remove_prefix(end);
  return word;
}

/// A word of a hostile file as it may be printed.
std::string shown(std::string_view word) {
  std::string text;
  for (const char c : word.substr(0, kShownMax)) {
    const bool plain = c >= ' ' && c <= '~';
    text += plain ? c : '?';
  }
  return word.size() > kShownMax ? text + "..." : text;
}

/// Decimal digits only, no sign. Empty when it is no number or does not fit 64 bits.
std::optional<uint64_t> number(std::string_view word) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

class Parser {
 public:
  std::expected<Trace, std::string> parse(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      line = line.substr(0, line.find('#'));
      const std::string_view verb = take_word(&line);
      std::string wrong;
      if (verb == "alloc") {
        wrong = alloc(line);
      } else if (verb == "submit") {
        wrong = submit(line);
      } else if (!verb.empty()) {
        wrong =
            fmt::format("'{}' is neither 'alloc ID BYTES' nor 'submit PROCESS ID...'", shown(verb));
      }
      if (!wrong.empty()) return std::unexpected(fmt::format("line {}: {}", line_, wrong));
    }
    if (trace_.bytes.empty()) {
      return std::unexpected(fmt::format("line {}: the trace ends without an 'alloc'", line_));
    }
    return std::move(trace_);
  }

 private:
  std::string alloc(std::string_view line) {
    const std::string_view id_word = take_word(&line);
    const std::string_view bytes_word = take_word(&line);
    if (bytes_word.empty()) return "'alloc' wants an ID and its BYTES";
    if (const std::string_view more = take_word(&line); !more.empty())
      return fmt::format("'{}' follows ID and BYTES of 'alloc'", shown(more));
    const std::optional<uint64_t> id = number(id_word);
    if (!id.has_value())
      return fmt::format("'{}' is not an ID: a whole number below 2^64", shown(id_word));
    const std::optional<uint64_t> bytes = number(bytes_word);
    if (!bytes.has_value() || *bytes == 0)
      return fmt::format("'{}' is not a size: a whole number of bytes, at least 1",
                         shown(bytes_word));
    if (*bytes >= kTraceBytesMax - total_)
      return fmt::format("with {} bytes more the sum of all sizes reaches 2^62", *bytes);
    if (trace_.bytes.size() == kAllocationsMax) return "more than 2^30 allocations";
    if (!by_id_.emplace(*id, static_cast<uint32_t>(trace_.bytes.size())).second)
      return fmt::format("allocation {} is there already", *id);
    total_ += *bytes;
    trace_.ids.push_back(*id);
    trace_.bytes.push_back(*bytes);
    named_in_.push_back(0);
    return {};
  }

  std::string submit(std::string_view line) {
    const std::string_view process = take_word(&line);
    if (process.empty()) return "'submit' wants a PROCESS and IDs";
    const auto known =
        processes_.emplace(std::string(process), static_cast<uint32_t>(processes_.size())).first;
    Trace::Submission submission{
        .process = known->second, .first = trace_.references.size(), .count = 0};
    const size_t mark = trace_.submissions.size() + 1;
    for (;;) {
      const std::string_view word = take_word(&line);
      if (word.empty()) break;
      const std::optional<uint64_t> id = number(word);
      if (!id.has_value())
        return fmt::format("'{}' is not an ID: a whole number below 2^64", shown(word));
      const auto found = by_id_.find(*id);
      if (found == by_id_.end()) return fmt::format("there is no allocation {} yet", *id);
      if (named_in_[found->second] == mark) continue;
      named_in_[found->second] = mark;
      trace_.references.push_back(found->second);
    }
    submission.count = trace_.references.size() - submission.first;
    trace_.submissions.push_back(submission);
    trace_.processes = static_cast<uint32_t>(processes_.size());
    return {};
  }

  Trace trace_;
  uint64_t total_ = 0;
  size_t line_ = 0;
  std::unordered_map<uint64_t, uint32_t> by_id_;         // looked up only
  std::unordered_map<std::string, uint32_t> processes_;  // looked up only
  std::vector<size_t> named_in_;  // by allocation: number of the last submission, from 1
};

}  // namespace

uint64_t Trace::total_bytes() const {
  uint64_t sum = 0;
  for (const uint64_t size : bytes) sum += size;
  return sum;
}

uint64_t Trace::largest_submission_bytes() const {
  uint64_t largest = 0;
  for (const Submission& submission : submissions) {
    uint64_t sum = 0;
    for (const uint32_t allocation : of(submission)) sum += bytes[allocation];
    largest = std::max(largest, sum);
  }
  return largest;
}

std::expected<Trace, std::string> parse_trace(std::string_view text) {
  return Parser().parse(text);
}

std::string to_text(const Trace& trace, std::string_view comment) {
  std::string text;
  const auto out = std::back_inserter(text);
  if (!comment.empty()) fmt::format_to(out, "# {}\n", comment);
  for (size_t i = 0; i < trace.bytes.size(); ++i) {
    fmt::format_to(out, "alloc {} {}\n", trace.ids[i], trace.bytes[i]);
  }
  for (const Trace::Submission& submission : trace.submissions) {
    fmt::format_to(out, "submit {}", submission.process);
    for (const uint32_t allocation : trace.of(submission)) {
      fmt::format_to(out, " {}", trace.ids[allocation]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace dxgkit::tool::evict
