// A reference trace: the allocations of each submission. Read from text, hostile or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dxgkit::tool::evict {

/// A checked trace. Allocations are numbered from 0 in the order of their `alloc` lines.
struct Trace {
  struct Submission {
    uint32_t process = 0;  // numbered from 0 in the order of appearance
    size_t first = 0;      // of its references
    size_t count = 0;
  };
  std::vector<uint64_t> bytes;  // by allocation; the sum fits in 63 bits
  std::vector<uint64_t> ids;    // by allocation: its id in the text
  std::vector<Submission> submissions;
  std::vector<uint32_t> references;  // no allocation twice in one submission
  uint32_t processes = 0;

  std::span<const uint32_t> of(const Submission& submission) const {
    return std::span(references).subspan(submission.first, submission.count);
  }
  /// The bytes of all allocations, whether a submission names them or not.
  uint64_t total_bytes() const;
  /// The bytes of the largest submission.
  uint64_t largest_submission_bytes() const;
};

/// The sum of all sizes must stay below this, so that no sum of a replay can wrap.
inline constexpr uint64_t kTraceBytesMax = uint64_t{1} << 62;

/// Reads the text format of docs/evict-bench.md. The error is one sentence that begins with
/// "line N: ". Cost: linear in the text.
std::expected<Trace, std::string> parse_trace(std::string_view text);

/// The text of a trace; parse_trace gives the same trace again.
std::string to_text(const Trace& trace, std::string_view comment);

}  // namespace dxgkit::tool::evict
