// A device in another process that ends under a running adapter, as an embedder sees it.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "devices/catalog/catalog.h"
#include "devices/vfiouser/server.h"
#include "dxgkit/stack.h"
#include "runtime/runtime.h"

namespace dxgkit {
namespace {

/// softgpu in a process of its own.
class Server {
 public:
  Server() {
    EXPECT_NE(mkdtemp(folder_), nullptr);
    // It listens before the process is there, so that a client can come at once.
    auto listener = vfiouser::listen_at(path());
    EXPECT_TRUE(listener.has_value()) << listener.error();
    process_ = fork();
    if (process_ != 0) return;
    const auto os = runtime::make_os_runtime(1);
    os->run_main([&] {
      const auto model = devices::catalog().parse("softgpu,vram=4M");
      static_cast<void>(vfiouser::serve_clients(*os, *model, *listener, {}));
    });
    _exit(0);
  }
  ~Server() {
    end();
    unlink(path().c_str());
    rmdir(folder_);
  }
  void end() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  std::string path() const { return std::string(folder_) + "/socket"; }

 private:
  char folder_[32] = "/tmp/dxgkit-lost-XXXXXX";
  pid_t process_ = 0;
};

TEST(PublicStack, SaysWhenADeviceLeavesByItself) {
  Server server;
  std::atomic<uint32_t> lost{0};
  std::string reason;
  StackOptions options;
  options.devices = {"softgpu", "vfio-user:" + server.path()};
  options.on_device_lost = [&](size_t device, const std::string& why) {
    EXPECT_EQ(device, 1U);
    reason = why;
    lost.store(1);
    runtime::Runtime::current().wake_all(lost);
  };
  const auto outcome = Stack::run(options, [&](Stack& stack) {
    const Expected<std::string> path = bundled_driver("softgpu_wddm2");
    ASSERT_TRUE(path.has_value());
    const Expected<Driver*> driver = stack.load(*path);
    ASSERT_TRUE(driver.has_value());
    const Expected<AdapterId> own = stack.start(**driver, 0), remote = stack.start(**driver, 1);
    ASSERT_TRUE(own.has_value());
    ASSERT_TRUE(remote.has_value()) << remote.error().message;
    server.end();
    while (lost.load() == 0) static_cast<void>(runtime::Runtime::current().wait(lost, 0));
    EXPECT_EQ(reason, "the server closed the connection");
    EXPECT_TRUE(stack.remove(1).has_value());
    EXPECT_FALSE(stack.statistics(*remote).has_value());
    EXPECT_TRUE(stack.statistics(*own).has_value()) << "the other adapter goes on";
  });
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  EXPECT_TRUE(outcome->findings.empty()) << outcome->findings.front().text;
}

TEST(PublicStack, SimulationsHaveNoDeviceOfAnotherProcess) {
  StackOptions options;
  options.mode = Mode::kSimulation;
  options.devices = {"vfio-user:/nowhere"};
  const auto outcome = Stack::run(options, [](Stack&) { FAIL(); });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().message, "vfio-user:/nowhere lives in real time only");
}

}  // namespace
}  // namespace dxgkit
