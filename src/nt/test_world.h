// Helpers of the tests of this folder: a kernel for each test, and exports called as a driver calls
// them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "nt/kernel.h"
#include "nt/layout.h"
#include "tests/support/covers.h"

namespace dxgkit::nt {

/// A typed call of an export, as a driver makes it.
template <typename Signature>
struct ExportCall;
template <typename R, typename... A>
struct ExportCall<R(A...)> {
  explicit ExportCall(const char* name) {
    const Export* found = find_export(name);
    EXPECT_NE(found, nullptr) << name;
    if (found != nullptr)
      function = reinterpret_cast<R(DXGKIT_NT_ABI*)(A...)>(const_cast<void*>(found->address));
  }
  R operator()(A... arguments) const { return function(arguments...); }
  R(DXGKIT_NT_ABI* function)(A...) = nullptr;
};

struct World {
  explicit World(KernelConfig config = {})
      : kernel(runtime::Runtime::current(), machine, findings, std::move(config)) {}
  std::string findings_text() const {
    std::string text;
    for (const verifier::Finding& finding : findings.all()) text += verifier::to_text(finding);
    return text;
  }
  bus::Machine machine{32 << 20};
  verifier::Findings findings;
  Kernel kernel;
};

template <typename Body>
void in_both_modes(const Body& body) {
  runtime::make_os_runtime(1)->run_main(body);
  runtime::make_sim_runtime(1)->run_main(body);
}

/// Runs a driver function inside a frame; false if it was abandoned.
inline bool run_driver(Kernel& kernel, Irql irql, void(DXGKIT_NT_ABI* function)(void*),
                       void* context) {
  CallFrame frame(kernel, "driver", irql);
  return frame.call_void(function, context);
}

template <typename Body>
DXGKIT_NT_ABI void call_body(void* body) {
  (*static_cast<Body*>(body))();
}

/// Runs a lambda as the driver; false if it was abandoned.
template <typename Body>
bool run_as_driver(Kernel& kernel, Irql irql, Body body) {
  return run_driver(kernel, irql, &call_body<Body>, &body);
}

/// The call ends the driver with one bug check finding of this rule and code.
template <typename Body>
void expect_bug_check(const char* rule, uint32_t code, Body body, Irql irql = kPassiveLevel) {
  World world;
  EXPECT_FALSE(run_as_driver(world.kernel, irql, std::move(body)));
  EXPECT_TRUE(world.kernel.driver_is_dead());
  ASSERT_GE(world.findings.total(), 1u);
  EXPECT_EQ(world.findings.all().back().rule, rule) << world.findings_text();
  EXPECT_EQ(world.findings.all().back().bugcheck_code, code) << world.findings_text();
}

/// A UNICODE_STRING over a literal.
struct Text {
  explicit Text(const char16_t* text)
      : units(text),
        string{static_cast<uint16_t>(units.size() * 2), static_cast<uint16_t>(units.size() * 2 + 2),
               units.data()} {}
  explicit Text(size_t capacity_units) : units(capacity_units, u'\xA5A5'), string{0, 0, nullptr} {
    string = {0, static_cast<uint16_t>(capacity_units * 2), units.data()};
  }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  std::u16string value() const { return {string.buffer, string.length / 2U}; }
  UnicodeString* get() { return &string; }
  std::u16string units;
  UnicodeString string;
};

inline constexpr int32_t nt_status(uint32_t value) { return static_cast<int32_t>(value); }

}  // namespace dxgkit::nt
