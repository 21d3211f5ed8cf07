#include "tests/support/known_run.h"

#include <errno.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/runtime.h"

namespace dxgkit::testing {
namespace {

/// Where map_fixed and Linux put programs, libraries, heaps and stacks. No address of a simulated
/// machine or GPU that tests use is there.
constexpr uint64_t kHostLowest = 0x2000'0000'0000, kHostHighest = 0x7FFF'FFFF'FFFF;

/// `text` with "(address)" for every number that can be an address of this process, and "(offset)"
/// for those in a driver's image, which the compiler chooses.
std::string without_addresses(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (std::isdigit(static_cast<unsigned char>(text[at])) == 0) {
      out += text[at++];
      continue;
    }
    const bool hex = text.substr(at).starts_with("0x");
    const char* const begin = text.data() + at + (hex ? 2 : 0);
    uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(begin, text.data() + text.size(), value, hex ? 16 : 10);
    const size_t next = static_cast<size_t>(end - text.data());
    if (error == std::errc{} && value >= kHostLowest && value <= kHostHighest) {
      out += "(address)";
    } else if (hex && out.ends_with("+")) {
      out += "(offset)";
    } else {
      out += text.substr(at, next - at);
    }
    at = next;
  }
  return out;
}

}  // namespace

std::string text_of(const verifier::Finding& finding) {
  std::string text = fmt::format("{} {}, {}", finding.rule,
                                 verifier::severity_text(finding.severity), finding.ddi);
  if (finding.bugcheck_code != 0) text += fmt::format(", bug check {:#x}", finding.bugcheck_code);
  // Page faults have half the address as their parameter. Of an address of this process it can be
  // any number, small ones too.
  constexpr uint32_t kPageFaultInNonPagedArea = 0x50, kDriverIrqlNotLessOrEqual = 0xD1;
  const bool is_fault = finding.bugcheck_code == kPageFaultInNonPagedArea ||
                        finding.bugcheck_code == kDriverIrqlNotLessOrEqual;
  const bool is_ours =
      is_fault && without_addresses(finding.actual).find("touched (address)") != std::string::npos;
  if (finding.bugcheck_parameter != 0 && finding.bugcheck_parameter <= 0xFFFF && !is_ours)
    text += fmt::format("/{:#x}", finding.bugcheck_parameter);
  text += fmt::format(", {}\n", verifier::confidence_text(finding.confidence));
  for (const auto& [name, value] : {std::pair{"actual", &finding.actual},
                                    {"expected", &finding.expected},
                                    {"fix", &finding.fix},
                                    {"why", &finding.why},
                                    {"windows", &finding.windows}}) {
    if (!value->empty()) text += fmt::format("  {}: {}\n", name, *value);
  }
  return without_addresses(text);
}

uint64_t hash_of(const trace::Recorder& recorder) {
  std::vector<trace::Event> events = recorder.events();
  for (trace::Event& event : events) {
    for (uint64_t* const argument : {&event.a, &event.b, &event.c, &event.d}) {
      if (*argument >= kHostLowest && *argument <= kHostHighest) *argument = 1;
    }
  }
  for (const std::string& name : recorder.names()) {
    for (const char byte : name) events.push_back({.a = static_cast<unsigned char>(byte)});
  }
  return trace::hash_of(events);
}

namespace {

/// By test: its findings, or the hash of its trace.
using Texts = std::map<std::string, std::string>;

std::string path(std::string_view what) {
  return fmt::format("{}/{}.{}.txt", DXGKIT_KNOWN_RUNS, program_invocation_short_name, what);
}

/// "[Suite.Test]", and below it the findings.
Texts read_findings() {
  Texts texts;
  std::ifstream file(path("findings"));
  std::string* section = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("[") && line.ends_with("]")) {
      section = &texts[line.substr(1, line.size() - 2)];
    } else if (section != nullptr) {
      *section += line + "\n";
    }
  }
  return texts;
}

/// "HASH Suite.Test".
Texts read_traces() {
  Texts traces;
  std::ifstream file(path("traces"));
  for (std::string line; std::getline(file, line);) {
    if (const size_t space = line.find(' '); space != std::string::npos)
      traces[line.substr(space + 1)] = line.substr(0, space);
  }
  return traces;
}

bool keeps() { return std::getenv("DXGKIT_KEEP_RUNS") != nullptr; }

/// What this program's tests gave before and give now.
struct Known {
  Texts findings = read_findings(), traces = read_traces();
  Texts findings_now, traces_now;
  std::map<std::string, int> seen;  // kernels of each test so far
};
Known& known() {
  static Known all;
  return all;
}

bool holds_none = false;

/// Whether what happens now is compared: a test runs, and its runs are not anybody's.
bool held() {
  return !holds_none && ::testing::UnitTest::GetInstance()->current_test_info() != nullptr;
}

/// Begins anew where all tests are repeated; writes what was given, if that is asked for.
class Keeper : public ::testing::Environment {
 public:
  void SetUp() override { known().seen.clear(); }
  void TearDown() override {
    if (!keeps()) return;
    Known& all = known();
    if (GTEST_FLAG_GET(filter) != "*") {  // tests that did not run stay as they were
      all.findings_now.merge(all.findings);
      all.traces_now.merge(all.traces);
    }
    if (!all.findings_now.empty()) {
      std::ofstream file(path("findings"));
      for (const auto& [test, text] : all.findings_now) file << "[" << test << "]\n" << text;
      EXPECT_TRUE(file.good());
    }
    if (!all.traces_now.empty()) {
      std::ofstream file(path("traces"));
      for (const auto& [test, hash] : all.traces_now) file << hash << " " << test << "\n";
      EXPECT_TRUE(file.good());
    }
  }
};
const ::testing::Environment* const kKeeper = ::testing::AddGlobalTestEnvironment(new Keeper);

/// "Suite.Test", with " #2" behind it for the test's second kernel; empty outside a test.
std::string next_name() {
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  const runtime::Runtime* const runtime = runtime::Runtime::current_or_null();
  if (!held() || (runtime != nullptr && !runtime->is_simulated())) return {};
  std::string name = fmt::format("{}.{}", test->test_suite_name(), test->name());
  if (const int number = ++known().seen[name]; number > 1) name += fmt::format(" #{}", number);
  return name;
}

void compare_findings(const std::string& name, const verifier::Findings& findings) {
  std::string text;
  for (const verifier::Finding& finding : findings.all()) text += text_of(finding);
  const auto before = known().findings.find(name);
  if (keeps()) {
    known().findings.erase(name);
    if (!text.empty()) known().findings_now[name] = text;
    return;
  }
  EXPECT_EQ(text, before == known().findings.end() ? "" : before->second)
      << name << " gives other findings than " << path("findings")
      << " says; if the change is meant: make known";
}

void compare_trace(const std::string& name, const trace::Recorder& recorder) {
  if (const char* const folder = std::getenv("DXGKIT_TEST_TRACES"); folder != nullptr) {
    std::string file = name;
    std::ranges::replace(file, '/', '-');
    std::filesystem::create_directories(folder);
    std::ofstream(fmt::format("{}/{}.txt", folder, file))
        << trace::to_text({.events = recorder.events(), .names = recorder.names(), .threads = {}});
  }
  const std::string hash = fmt::format("{:016x}", hash_of(recorder));
  if (keeps()) {
    known().traces_now[name] = hash;
    return;
  }
  EXPECT_EQ(hash, known().traces[name])
      << name << " leaves another trace than " << path("traces")
      << " says. DXGKIT_TEST_TRACES=FOLDER writes it, here and in the commit before; if the change "
         "is meant: make known";
}

}  // namespace

void hold_no_runs() { holds_none = true; }

KnownRun::KnownRun(const verifier::Findings& findings) : findings_(findings) {
  runtime::Runtime& runtime = runtime::Runtime::current();
  if (!held() || trace::current() != nullptr || !runtime.is_simulated()) return;
  recorder_ = std::make_unique<trace::Recorder>(
      trace::Recorder::Clock{.now_ns = [&runtime] { return runtime.now(); },
                             .thread = [&runtime] { return runtime.thread_number(); }});
  trace::set_current(recorder_.get());
}

KnownRun::~KnownRun() {
  const bool recorded = recorder_ != nullptr && trace::current() == recorder_.get();
  if (recorded) trace::set_current(nullptr);
  const std::string name = next_name();
  if (name.empty()) return;
  compare_findings(name, findings_);
  if (recorded) compare_trace(name, *recorder_);
}

KnownFindings::~KnownFindings() {
  if (const std::string name = next_name(); !name.empty()) compare_findings(name, findings_);
}

}  // namespace dxgkit::testing
