// Findings: the verifier's messages to the author of a driver.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dxgkit::verifier {

enum class Severity {
  kWarning,    // worth knowing; the adapter goes on
  kViolation,  // the driver broke a rule; the adapter goes on
  kStartFail,  // the adapter does not start
  kBugCheck,   // Windows would stop the machine; here this adapter stops
};

/// How sure we are that Windows does the same.
enum class Confidence {
  kDocumented,  // a public page says so
  kEventText,   // the text of a Windows event or debugger extension says so
  kMeasured,    // seen on a real machine
  kInferred,    // our reading of the above, or our choice
};

/// The place of an event in a driver. Empty parts are unknown. File and line are looked up when a
/// finding is written (source_lines.h).
struct Place {
  std::string image = {};      // "softgpu.sys"
  uint64_t rva = 0;            // of the instruction, relative to the image
  std::string symbol = {};     // "SgpuPatch+0x14"
  std::string registers = {};  // one line, "rax=... rbx=..."
  // Innermost first: "softgpu.sys+0x1a2c SgpuPatch+0x14".
  std::vector<std::string> stack = {};
  std::string path = {};    // the image's file on this machine
  bool after_call = false;  // `rva` is a return address: the call is the instruction before
  bool entry = false;       // no instruction is known; this is the function in the driver's table
};

/// One mistake of a driver, described so that its author can act on it. Every text is a full
/// sentence.
struct Finding {
  std::string rule;  // id of the rulebook, e.g. "PAGE-05"
  Severity severity = Severity::kViolation;
  std::string ddi;       // "DxgkDdiBuildPagingBuffer", or the callback or NT function involved
  std::string actual;    // what happened, with the values
  std::string expected;  // what the rule asks, with the values
  std::string fix;       // what to change in the driver
  uint32_t bugcheck_code = 0;       // kBugCheck: e.g. 0x119
  uint32_t bugcheck_parameter = 0;  //            e.g. 0x2
  // The rest is optional. An empty `why` stands for the rule's statement. An empty `windows` stands
  // for the consequence of `severity` and of the rule.
  std::string why = {};      // the mechanism, when the rule alone does not explain it
  std::string windows = {};  // what a Windows user sees: "Code 43, no event."
  Confidence confidence = Confidence::kDocumented;
  Place place = {};
  /// Nothing that comes after it on the same machine says anything new of the driver, though the
  /// machine goes on: a lock that stays held, a completion that never comes. A bug check always is
  /// such a finding.
  bool dooms = false;
  /// The rule whose finding made this one happen. Not empty: this is no mistake of its own.
  std::string because_of = {};
  /// Why the author breaks the rule on purpose. Not empty: the finding is listed and does not
  /// count.
  std::string waived = {};
  /// Of a start: what the driver did before, a line each, and what the machine offered it.
  std::vector<std::string> before = {};
};

/// True if a rule was broken here, waived or not: more than a warning, and no consequence.
inline bool breaks_rule(const Finding& finding) {
  return finding.severity != Severity::kWarning && finding.because_of.empty();
}

/// True if the author has something to mend here: a broken rule that is not waived.
inline bool is_mistake(const Finding& finding) {
  return breaks_rule(finding) && finding.waived.empty();
}

class Waivers;

/// Collects findings of one run, in order. Thread-safe. A repeat of the same rule, ddi and actual,
/// whatever numbers the text names, is counted and not stored: one mistake, one finding. What comes
/// after a finding that dooms its machine is marked as that finding's consequence (`because_of`).
class Findings {
 public:
  Findings();
  ~Findings();
  void report(Finding finding);
  std::vector<Finding> all() const;
  /// Findings of one rule so far (repeats counted).
  size_t count(std::string_view rule) const;
  size_t total() const;
  /// The rules that the author breaks on purpose. Before the first report; they live longer.
  void set_waivers(const Waivers* waivers);
  /// What the driver of the calling thread did last; empty if nobody knows. It takes no lock.
  using LinesBefore = std::vector<std::string> (*)();
  /// From here on findings are of another machine: nothing has happened to it yet. `lines_before`
  /// is asked for Finding::before of each finding but warnings, on the reporting thread.
  void begin_machine(LinesBefore lines_before = nullptr);
  /// The rule of the finding that doomed the machine; empty: none did.
  std::string doomed_by() const;
  /// Where the functions in a driver's table are, by the name of the DDI: the place of a finding
  /// that has none. Called with a lock held: it only looks. Null takes it away.
  void set_entry_places(std::function<Place(std::string_view ddi)> entry_place);
  /// Called for each stored finding, on the reporting thread. For the tool's live output.
  void set_listener(std::function<void(const Finding&)> listener);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Several lines of plain text: rule, DDI, actual, expected, why (from the rule catalogue), fix,
/// what Windows does.
std::string to_text(const Finding& finding);
/// One JSON object.
std::string to_json(const Finding& finding);
/// "warning", "violation", "start-failure", "bug-check".
std::string_view severity_text(Severity severity);
/// The same, and "note" for a consequence.
std::string_view severity_text(const Finding& finding);
/// "documented", "event text", "measured", "inferred".
std::string_view confidence_text(Confidence confidence);
/// The same of a finding. No finding is surer than its rule: "inferred" if no page states it, and
/// "documented in part" if a part of it is our choice.
std::string_view confidence_text(const Finding& finding);
/// The effect for a Windows user: the finding's own words, or those of its severity.
std::string consequence_text(const Finding& finding);

}  // namespace dxgkit::verifier
