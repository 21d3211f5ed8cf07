#include "tools/dxgkit/verify/pattern.h"

#include <fmt/format.h>

#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

std::byte pattern_byte(uint64_t seed, uint64_t at) {
  uint64_t x = seed + (at >> 3) * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ULL;
  return static_cast<std::byte>((x ^ (x >> 29)) >> (at % 8 * 8));
}

void write_pattern(std::span<std::byte> view, uint64_t seed) {
  for (size_t i = 0; i < view.size(); ++i) view[i] = pattern_byte(seed, i);
}

std::string compare_bytes(std::span<const std::byte> view,
                          const std::function<std::byte(size_t)>& expected) {
  size_t wrong = 0;
  size_t first = 0;
  size_t last = 0;
  for (size_t i = 0; i < view.size(); ++i) {
    if (view[i] == expected(i)) continue;
    if (wrong++ == 0) first = i;
    last = i;
  }
  if (wrong == 0) return {};
  return fmt::format(
      "{} of {} bytes differ, from {:#x} to {:#x}; byte {:#x} is {:#04x}, not {:#04x}", wrong,
      view.size(), first, last, first, static_cast<unsigned>(view[first]),
      static_cast<unsigned>(expected(first)));
}

void report_content(Bench& bench, const char* rule, const std::string& actual, const char* expected,
                    const char* fix, const char* why) {
  bench.findings().report({.rule = rule,
                           .severity = verifier::Severity::kViolation,
                           .ddi = "DxgkDdiBuildPagingBuffer",
                           .actual = actual,
                           .expected = expected,
                           .fix = fix,
                           .why = why,
                           .windows = "Wrong pictures, long after the mistake and far from it."});
}

}  // namespace dxgkit::tool::verify
