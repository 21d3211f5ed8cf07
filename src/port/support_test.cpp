#include "port/support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace dxgkit::port {
namespace {

std::string sources() {
  std::string text;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(PORT_SOURCES)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".cpp" || name.ends_with("_test.cpp") || name == "support.cpp")
      continue;
    std::ifstream file(entry.path());
    text += std::string(std::istreambuf_iterator<char>(file), {});
  }
  return text;
}

/// The support table names exactly the entries that the code of this folder calls through the
/// driver's table.
TEST(Support, SaysWhatTheCodeCalls) {
  const std::string text = sources();
  std::set<std::string> called;
  for (const std::string& table : {std::string("ddi.DxgkDdi"), std::string("table.DxgkDdi")}) {
    for (size_t at = text.find(table); at != std::string::npos; at = text.find(table, at + 1)) {
      const size_t start = text.find('D', at);
      const auto end = static_cast<size_t>(
          std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(),
                           [](unsigned char c) { return std::isalnum(c) != 0; }) -
          text.begin());
      called.insert(text.substr(start, end - start));
    }
  }
  std::set<std::string> listed;
  for (const SupportEntry& entry : ddi_support()) {
    if (entry.support != Support::kRefused) listed.insert(std::string(entry.name));
  }
  EXPECT_EQ(called, listed);
}

TEST(Support, CoversBothTables) {
  EXPECT_GT(ddi_support().size(), 180u);
  EXPECT_GT(callback_support().size(), 60u);
  for (const auto* table : {&ddi_support(), &callback_support()}) {
    for (const SupportEntry& entry : *table) {
      EXPECT_EQ(entry.support == Support::kSupported, entry.note.empty()) << entry.name;
    }
  }
  const auto find = [](const std::vector<SupportEntry>& table, std::string_view name) {
    return std::ranges::find(table, name, &SupportEntry::name)->support;
  };
  EXPECT_EQ(find(callback_support(), "DxgkCbNotifyDpc"), Support::kSupported);
  EXPECT_EQ(find(callback_support(), "DxgkCbQueryServices"), Support::kPartial);
  EXPECT_EQ(find(callback_support(), "DxgkCbEvalAcpiMethod"), Support::kRefused);
  EXPECT_EQ(find(callback_support(), "DxgkCbCreateContextAllocation"), Support::kPartial);
  EXPECT_EQ(find(ddi_support(), "DxgkDdiPatch"), Support::kSupported);
  EXPECT_EQ(find(ddi_support(), "DxgkDdiSetPalette"), Support::kRefused);
}

}  // namespace
}  // namespace dxgkit::port
