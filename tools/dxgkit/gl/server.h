// Listens for GL programs. Each connection has a thread with a conversation of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "devices/vfiouser/connection.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "tools/dxgkit/gl/conversation.h"

namespace dxgkit::gl {

/// Real threads only.
class Server {
 public:
  /// Connections at a time; another one is closed with a line.
  static constexpr size_t kConnectionsMost = 64;

  /// Makes the conversation of a socket that does not block. On the listening thread.
  using Converse = std::function<std::unique_ptr<Conversation>(vfiouser::Descriptor socket)>;

  /// Listens from here on. The trace gets a marker for each connection that is ended.
  /// @param log  gets a line without its end for each connection that is ended. Any thread.
  Server(runtime::Runtime& runtime, vfiouser::Descriptor listener, Converse converse,
         std::function<void(const std::string&)> log);
  ~Server();  // as stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Ends all connections, waits for their threads, and listens no more: all connections that were,
  /// in the order of their ends. Empty the second time. Work that the adapter does not end is given
  /// up after a while.
  std::vector<ProgramRecord> stop();

 private:
  struct Connection {
    std::unique_ptr<Conversation> conversation;
    std::unique_ptr<runtime::Thread> thread;
    runtime::Event over;
  };

  void listen();
  void serve(Connection& connection);
  /// Joins the threads of connections that are over.
  void reap();

  runtime::Runtime& runtime_;
  const vfiouser::Descriptor listener_;
  const vfiouser::Descriptor bell_;  // an eventfd that ends listen()
  const Converse converse_;
  const std::function<void(const std::string&)> log_;
  std::vector<std::unique_ptr<Connection>> connections_;  // of the listening thread
  runtime::Mutex mutex_;                                  // leaf
  std::vector<ProgramRecord> records_ DXGKIT_GUARDED_BY(mutex_);
  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace dxgkit::gl
