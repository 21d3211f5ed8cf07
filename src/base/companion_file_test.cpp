#include "base/companion_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace dxgkit {
namespace {

class CompanionFileTest : public ::testing::Test {
 protected:
  CompanionFileTest() {
    std::string pattern = testing::TempDir() + "companionXXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~CompanionFileTest() override { std::filesystem::remove_all(root_); }

  std::string made(const std::string& name) const {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << name;
    return path.string();
  }
  std::string path(const std::string& name) const { return (root_ / name).string(); }

  std::filesystem::path root_;
};

TEST_F(CompanionFileTest, TheNearestIsTaken) {
  const std::string program = path("bin/program");
  const std::string built = path("build/helper.so");
  const std::string packaged = path("usr/helper.so");
  const auto found = [&] {
    return find_companion({"helper.so", "../lib/mine", {"", built, packaged}}, program);
  };
  std::filesystem::create_directories(path("bin"));
  EXPECT_EQ(found(), path("lib/mine/helper.so"));  // nowhere: where it should be
  made("usr/helper.so");
  EXPECT_EQ(found(), packaged);
  made("build/helper.so");
  EXPECT_EQ(found(), built);
  made("lib/mine/helper.so");
  EXPECT_EQ(found(), path("lib/mine/helper.so"));
  made("bin/helper.so");
  EXPECT_EQ(found(), path("bin/helper.so"));
}

TEST_F(CompanionFileTest, AProgramWithoutAPathHasNothingBesideIt) {
  // The folder of the process is not that of its program.
  const std::string here = std::filesystem::path(made("helper.so")).parent_path();
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(here);
  EXPECT_EQ(find_companion({"helper.so", "lib"}, ""), "lib/helper.so");
  EXPECT_EQ(find_companion({"helper.so", ".", {made("build/helper.so")}}, ""),
            path("build/helper.so"));
  std::filesystem::current_path(before);
}

TEST_F(CompanionFileTest, TheProgramThatRuns) {
  const std::string program = own_program();
  EXPECT_TRUE(std::filesystem::equivalent(program, "/proc/self/exe"));
  EXPECT_EQ(find_companion({std::filesystem::path(program).filename().c_str(), "../lib"}), program);
}

}  // namespace
}  // namespace dxgkit
