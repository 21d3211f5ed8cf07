// The bug checks that rules name: what Windows says with them, and the rules behind each. Made from
// rules/bug_checks.json at build time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace dxgkit::verifier {

/// A value of the first parameter that stands for a kind of violation.
struct BugCheckValue {
  uint32_t value;
  std::string_view name;  // "FATAL_PAGE_FAULT"; empty where the page gives none
  std::string_view meaning;
  bool published;           // else it was seen and the page does not list it
  std::string_view rules;   // those that a driver breaks then, with a space between
  std::string_view causes;  // likely ones, a line each
};

/// All texts are UTF-8 and live as long as the process.
struct BugCheck {
  uint32_t code;
  std::string_view name;  // "VIDEO_TDR_FAILURE"
  std::string_view page;  // its address
  std::string_view meaning;
  bool live_dump;  // Windows runs on and writes a dump
  bool complete;   // the page publishes no other values of the first parameter than `values`
  std::array<std::string_view, 4> parameters;  // what each one is
  std::string_view rules;   // those that name it, whatever its parameters; with a space between
  std::string_view causes;  // likely ones, a line each
  std::span<const BugCheckValue> values;
};

/// By ascending code. Any thread.
std::span<const BugCheck> all_bug_checks();
/// The bug check with this code, or null.
const BugCheck* find_bug_check(uint64_t code);
/// What that value of the first parameter means, or null.
const BugCheckValue* find_value(const BugCheck& check, uint64_t value);

}  // namespace dxgkit::verifier
