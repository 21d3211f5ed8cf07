// Listens for GL programs. Each connection has a thread with a session and a backend of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "devices/vfiouser/connection.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "tools/dxgkit/gl/frame.h"
#include "tools/dxgkit/gl/session.h"

namespace dxgkit::gl {

/// A connection that is over.
struct ProgramRecord {
  std::string name;   // as it calls itself; empty: it did not say
  std::string wrong;  // why its connection was ended, one sentence; empty: it closed it
  SessionCounts counts;
  std::optional<Frame> frame;
  std::vector<KeptFrame> last_frames;  // if the server keeps them
};

enum class KeepFrames { kNo, kYes };

/// Real threads only.
class Server {
 public:
  /// Connections at a time; another one is closed with a line.
  static constexpr size_t kConnectionsMost = 64;

  /// Listens from here on. The trace gets a marker for each connection that is ended, and with
  /// `keep` for each frame.
  /// @param keep  whether records have the last frames of their programs
  /// @param log  gets a line without its end for each connection that is ended. Any thread.
  Server(runtime::Runtime& runtime, vfiouser::Descriptor listener,
         Session::MakeBackend make_backend, std::function<void(const std::string&)> log,
         KeepFrames keep = KeepFrames::kNo);
  ~Server();  // as stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Ends all connections, waits for their threads, and listens no more: all connections that were,
  /// in the order of their ends. Empty the second time. Work that the adapter does not end is given
  /// up after a while.
  std::vector<ProgramRecord> stop();

 private:
  struct Connection {
    Connection(runtime::Runtime& runtime, vfiouser::Descriptor socket, runtime::DurationNs timeout)
        : channel(runtime, std::move(socket), timeout) {}
    SocketChannel channel;
    std::unique_ptr<runtime::Thread> thread;
    runtime::Event over;
    runtime::Mutex mutex;                                 // outside those of a session
    Session* session DXGKIT_GUARDED_BY(mutex) = nullptr;  // while it is there
  };

  void listen();
  void serve(Connection& connection);
  /// Joins the threads of connections that are over.
  void reap();

  runtime::Runtime& runtime_;
  const vfiouser::Descriptor listener_;
  const vfiouser::Descriptor bell_;  // an eventfd that ends listen()
  const Session::MakeBackend make_backend_;
  const std::function<void(const std::string&)> log_;
  const KeepFrames keep_;
  std::vector<std::unique_ptr<Connection>> connections_;  // of the listening thread
  runtime::Mutex mutex_;                                  // leaf
  std::vector<ProgramRecord> records_ DXGKIT_GUARDED_BY(mutex_);
  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace dxgkit::gl
