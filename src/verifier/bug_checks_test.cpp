#include "verifier/bug_checks.h"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "verifier/rule_catalogue.h"

namespace dxgkit::verifier {
namespace {

std::set<std::string> words_of(std::string_view text) {
  std::istringstream words{std::string(text)};
  return {std::istream_iterator<std::string>(words), {}};
}

// A bug check can be shown to an author: every text is there, in sentences, and its rules exist.
TEST(BugChecks, AreComplete) {
  std::set<uint32_t> codes;
  for (const BugCheck& check : all_bug_checks()) {
    EXPECT_TRUE(codes.insert(check.code).second) << check.name;
    EXPECT_EQ(find_bug_check(check.code), &check);
    EXPECT_TRUE(check.page.starts_with("https://")) << check.name;
    EXPECT_TRUE(check.meaning.ends_with(".")) << check.name;
    for (const std::string_view parameter : check.parameters)
      EXPECT_TRUE(parameter.ends_with(".")) << check.name;
    for (const std::string& id : words_of(check.rules)) EXPECT_NE(find_rule(id), nullptr) << id;
    EXPECT_FALSE(check.causes.empty() && check.values.empty()) << check.name;
    std::set<uint32_t> values;
    for (const BugCheckValue& value : check.values) {
      EXPECT_TRUE(values.insert(value.value).second) << check.name << value.value;
      EXPECT_EQ(find_value(check, value.value), &value);
      EXPECT_TRUE(value.meaning.ends_with(".")) << check.name << value.value;
      for (const std::string& id : words_of(value.rules)) EXPECT_NE(find_rule(id), nullptr) << id;
    }
  }
  EXPECT_EQ(find_bug_check(0x7777), nullptr);
  EXPECT_EQ(find_value(*find_bug_check(0x119), 0x7777), nullptr);
  // The upper half counts: an address is no value.
  EXPECT_EQ(find_value(*find_bug_check(0x119), 0x1'0000'0001), nullptr);
}

// The pages of the two managers list their first parameters in full.
TEST(BugChecks, HaveThePublishedValues) {
  std::set<uint32_t> memory;
  for (const BugCheckValue& value : find_bug_check(0x10E)->values) memory.insert(value.value);
  std::set<uint32_t> expected;
  for (uint32_t value = 0x1; value <= 0x44; ++value) expected.insert(value);
  EXPECT_EQ(memory, expected);
  std::set<uint32_t> scheduler;
  for (const BugCheckValue& value : find_bug_check(0x119)->values) scheduler.insert(value.value);
  expected = {0x400, 0xE00, 0x1000, 0xA000, 0x10000};
  for (uint32_t value = 0x1; value <= 0x13; ++value) expected.insert(value);
  EXPECT_EQ(scheduler, expected);
  for (const uint32_t code : {0x113U, 0x116U, 0x117U, 0x141U, 0x142U})
    EXPECT_NE(find_bug_check(code), nullptr) << code;
}

// A rule that names a bug check belongs to it, with the value that it names.
TEST(BugChecks, KnowTheRulesThatNameThem) {
  EXPECT_TRUE(words_of(find_value(*find_bug_check(0x119), 0x2)->rules).contains("SUB-27"));
  EXPECT_TRUE(words_of(find_value(*find_bug_check(0x10E), 0xB)->rules).contains("PAGE-07"));
  EXPECT_FALSE(words_of(find_value(*find_bug_check(0x10E), 0xC)->rules).contains("PAGE-07"));
  EXPECT_TRUE(words_of(find_bug_check(0x116)->rules).contains("TDR-23"));
  EXPECT_TRUE(words_of(find_bug_check(0x50)->rules).contains("NT-18"));
}

}  // namespace
}  // namespace dxgkit::verifier
