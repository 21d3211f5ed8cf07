// The socket's path: whose it is, and what is taken away.
#include "tools/dxgkit/serve/listener.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace dxgkit::serve {
namespace {

using testing::HasSubstr;

class ListenerTest : public testing::Test {
 protected:
  ListenerTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "dxgkit-serve-XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/s";
  }
  ~ListenerTest() override { std::filesystem::remove_all(folder_); }
  /// A socket file that nobody listens at any more.
  void leave_stale() {
    auto left = vfiouser::listen_at(path_);
    EXPECT_TRUE(left.has_value());
  }
  std::string folder_, path_;
};

TEST_F(ListenerTest, ListensAndTakesItsFileAway) {
  {
    const auto listener = Listener::at(path_);
    ASSERT_TRUE(listener.has_value()) << listener.error();
    EXPECT_EQ(listener->path(), path_);
    EXPECT_TRUE(vfiouser::connect_to(path_).has_value());
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ListenerTest, TakesThePlaceOfAStaleSocket) {
  leave_stale();
  ASSERT_TRUE(std::filesystem::exists(path_));
  const auto listener = Listener::at(path_);
  ASSERT_TRUE(listener.has_value()) << listener.error();
  EXPECT_TRUE(vfiouser::connect_to(path_).has_value());
}

TEST_F(ListenerTest, RefusesAPathInUse) {
  const auto first = Listener::at(path_);
  ASSERT_TRUE(first.has_value());
  EXPECT_THAT(Listener::at(path_).error(), HasSubstr("another server listens there"));
  EXPECT_TRUE(vfiouser::connect_to(path_).has_value()) << "the first one still listens";
}

// A server that knows nothing of our lock file.
TEST_F(ListenerTest, RefusesThePathOfAnotherKindOfServer) {
  const auto other = vfiouser::listen_at(path_);
  ASSERT_TRUE(other.has_value());
  EXPECT_THAT(Listener::at(path_).error(), HasSubstr("another server listens there"));
  EXPECT_TRUE(vfiouser::connect_to(path_).has_value());
}

TEST_F(ListenerTest, LeavesFilesOfOtherKindsAlone) {
  std::ofstream(path_) << "the user's";
  EXPECT_THAT(Listener::at(path_).error(), HasSubstr("a file of another kind"));
  std::string text;
  std::ifstream(path_) >> text;
  EXPECT_EQ(text, "the");
}

TEST_F(ListenerTest, LeavesTheSocketOfAnotherUserAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  leave_stale();
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_THAT(Listener::at(path_).error(), HasSubstr("belongs to another user"));
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ListenerTest, DoesNotTakeAwayWhatOthersPutThere) {
  auto listener = Listener::at(path_);
  ASSERT_TRUE(listener.has_value());
  std::filesystem::remove(path_);
  std::ofstream(path_) << "another";
  { const Listener ends = std::move(*listener); }
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ListenerTest, RefusesPathsThatAreNone) {
  EXPECT_THAT(Listener::at("").error(), HasSubstr("empty or too long"));
  EXPECT_THAT(Listener::at(folder_ + "/" + std::string(108, 'x')).error(), HasSubstr("too long"));
  EXPECT_THAT(Listener::at(folder_ + "/none/s").error(), HasSubstr("No such file"));
}

TEST_F(ListenerTest, ThePathIsTheGivenOneOrTheUsers) {
  EXPECT_EQ(socket_path("x").value(), "x");
  setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  EXPECT_EQ(socket_path("").value(), folder_ + "/dxgkit.sock");
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_THAT(socket_path("").error(), HasSubstr("--socket PATH is required"));
}

TEST_F(ListenerTest, WithoutAMessageOfSystemdNothingIsPassed) {
  setenv("LISTEN_PID", "1", 1);  // another process
  setenv("LISTEN_FDS", "1", 1);
  const auto passed = Listener::passed();
  ASSERT_TRUE(passed.has_value());
  EXPECT_FALSE(passed->has_value());
  unsetenv("LISTEN_PID");
  unsetenv("LISTEN_FDS");
}

}  // namespace
}  // namespace dxgkit::serve
