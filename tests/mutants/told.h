// What every family of mutants asks of the finding that tells it what it did.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "nt/kernel.h"
#include "verifier/findings.h"

namespace dxgkit::mutants {

inline std::string text_of(const std::vector<verifier::Finding>& findings) {
  std::string text;
  for (const verifier::Finding& finding : findings) text += verifier::to_text(finding);
  return text;
}

/// Chooses the mutant `name` of an image; null: the driver as it is.
inline void choose(nt::KernelConfig& config, const char* name) {
  if (name == nullptr) return;
  const std::string_view ascii = name;
  config.registry[nt::KernelConfig::kDriverKey]["Mutant"] =
      nt::RegistryValue::string(std::u16string(ascii.begin(), ascii.end()));
}

/// The finding is the row's: rule, severity, a part of the DDI's name, each of its facts; and it
/// says what to do. A row without a bug check code leaves that open.
template <typename Row>
void expect_told(const verifier::Finding& finding, const Row& row) {
  const std::string text = verifier::to_text(finding);
  EXPECT_EQ(finding.rule, row.rule) << text;
  EXPECT_EQ(static_cast<int>(finding.severity), static_cast<int>(row.severity)) << text;
  EXPECT_NE(finding.ddi.find(row.ddi), std::string::npos) << text;
  EXPECT_FALSE(finding.actual.empty() || finding.expected.empty() || finding.fix.empty()) << text;
  for (const char* fact : row.facts)
    EXPECT_NE(text.find(fact), std::string::npos) << "missing: " << fact << "\n" << text;
  if (row.bugcheck != 0) {
    EXPECT_EQ(finding.bugcheck_code, row.bugcheck) << text;
  }
}

/// Of a test over (row, image, simulated).
template <typename Instance>
std::string name_of(const Instance& instance) {
  const std::string_view path = std::get<1>(instance.param);
  return std::string(std::get<0>(instance.param).name) +
         (path.ends_with(".sys") ? "_sys" : "_elf") +
         (std::get<2>(instance.param) ? "_sim" : "_os");
}

}  // namespace dxgkit::mutants
