// What the verifier tells the author of a driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dxgkit {

enum class Severity {
  kWarning,    // worth knowing; the adapter goes on
  kViolation,  // the driver broke a rule; the adapter goes on
  kStartFail,  // the adapter does not start
  kBugCheck,   // Windows would stop the machine; here this adapter stops
};

/// One thing a driver did wrong. Every text is a full sentence; `dxgkit explain RULE` says more.
struct Finding {
  std::string rule;  // id of the rulebook: "PAGE-05"
  Severity severity = Severity::kViolation;
  std::string ddi;       // "DxgkDdiBuildPagingBuffer", or the callback or NT function involved
  std::string actual;    // what happened, with the values
  std::string expected;  // what the rule asks
  std::string fix;       // what to change in the driver
  uint32_t bugcheck_code = 0, bugcheck_parameter = 0;  // kBugCheck
  std::string image;                                   // "softgpu.sys"; empty: unknown
  std::string symbol;                                  // "SgpuPatch+0x14"; empty: unknown
  std::string function, file;                          // from debugging information; empty: unknown
  uint32_t line = 0;                                   // in `file`; 0: unknown
  /// The rule whose finding made this one happen; empty: it is a mistake of its own.
  std::string because_of;
  std::vector<std::string> stack;  // innermost first
  std::string text;                // all fields as several lines, for people
};

}  // namespace dxgkit
