// Bytes by which a test knows content again, and what is said of content that is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace dxgkit::tool::verify {

class Bench;

/// The byte at each position of a test pattern. It depends on position and seed in all bits, so
/// that moved, shifted or repeated pages show.
std::byte pattern_byte(uint64_t seed, uint64_t at);
void write_pattern(std::span<std::byte> view, uint64_t seed);
/// The place where the bytes differ, with a hint at the kind of mistake; empty if they are equal.
std::string compare_bytes(std::span<const std::byte> view,
                          const std::function<std::byte(size_t)>& expected);
/// Paging left wrong content: a violation of `rule`.
void report_content(Bench& bench, const char* rule, const std::string& actual, const char* expected,
                    const char* fix, const char* why);

}  // namespace dxgkit::tool::verify
