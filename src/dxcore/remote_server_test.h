// A kernel that serves programs over a socket, for tests: as `dxgkit serve` does, without broker
// and jail.
#pragma once

#include <sys/types.h>

#include <string>

namespace dxgkit::dxcore {

/// What the server's process found when it ended.
struct ServerEnd {
  bool clean = false;    // it stopped by itself, and nothing leaked
  size_t clients = 0;    // client processes there were
  std::string findings;  // texts
};

class TestServer {
 public:
  /// Forks a process that listens at `socket` and runs `driver` (bundled) on one softgpu, which
  /// reads `registry`. It listens when this returns.
  TestServer(const std::string& socket, const std::string& driver, const std::string& registry = "",
             bool with_mailbox = true);
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  /// Waits until all clients have left, then ends the server.
  ServerEnd end();
  void kill();

 private:
  pid_t child_ = -1;
  int control_ = -1;  // closed: end when the last client has left
  int report_ = -1;
};

}  // namespace dxgkit::dxcore
