#include "dxgk/core/registry_texts.h"

#include <gtest/gtest.h>

#include "tests/support/covers.h"

namespace dxgkit::dxgk {
namespace {

TEST(RegistryTexts, AVersionHasFourNumbersOf16Bits) {
  DXGKIT_COVERS("THUNK-42");
  struct Row {
    const char* what;
    std::u16string_view text;
    std::optional<uint64_t> version;
  };
  constexpr Row kRows[] = {
      {"each place", u"1.2.3.4", 0x0001'0002'0003'0004},
      {"the least", u"0.0.0.0", 0},
      {"the greatest", u"65535.65535.65535.65535", UINT64_MAX},
      {"zeros in front", u"00001.0.0.00002", 0x0001'0000'0000'0002},
      {"nothing", u"", {}},
      {"three numbers", u"1.2.3", {}},
      {"one number", u"1", {}},
      {"five numbers", u"1.2.3.4.5", {}},
      {"no first number", u".2.3.4", {}},
      {"no second number", u"1..3.4", {}},
      {"no last number", u"1.2.3.", {}},
      {"17 bits", u"1.65536.3.4", {}},
      {"17 bits at the end", u"1.2.3.65536", {}},
      {"six digits", u"000001.2.3.4", {}},
      {"a letter", u"1.2.3.a", {}},
      {"below the digits", u"1./.3.4", {}},
      {"behind the digits", u"1.:.3.4", {}},
      {"a space", u"1.2.3.4 ", {}},
      {"a sign", u"1.2.-3.4", {}},
  };
  for (const Row& row : kRows) EXPECT_EQ(parse_version(row.text), row.version) << row.what;
}

}  // namespace
}  // namespace dxgkit::dxgk
