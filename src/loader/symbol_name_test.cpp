// Names of functions out of what compilers make of them.
#include "loader/symbol_name.h"

#include <gtest/gtest.h>

namespace dxgkit::loader {
namespace {

TEST(SymbolName, IsWhatTheSourceSays) {
  EXPECT_EQ(readable_name("?read_user@softgpu@@YAJPEAX@Z"), "softgpu::read_user");
  EXPECT_EQ(readable_name("?read_user~softgpu~~YAJPEAX~Z"), "softgpu::read_user");
  EXPECT_EQ(readable_name("DriverEntry"), "DriverEntry");
  EXPECT_EQ(readable_name("??0Adapter@@QEAA@XZ"), "??0Adapter@@QEAA@XZ");
  EXPECT_EQ(readable_name("?unfinished@space"), "?unfinished@space");
  EXPECT_EQ(readable_name("?"), "?");
  EXPECT_EQ(readable_name(""), "");
  EXPECT_EQ(readable_name("line\nbreak"), "line?break");
}

/// The number comes from where the source lies, so two machines would tell of two functions.
TEST(SymbolName, HasNoNumberOfAnAnonymousNamespace) {
  const std::string here = readable_name("?start_after@?A0x6B568BE7@mutants@@YAJQEAX@Z");
  EXPECT_EQ(here, "mutants::(anonymous)::start_after");
  EXPECT_EQ(readable_name("?start_after~?A0x11111111~mutants~~YAJQEAX~Z"), here);
}

}  // namespace
}  // namespace dxgkit::loader
