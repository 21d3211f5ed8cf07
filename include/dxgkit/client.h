// A client process: whose D3DKMT calls a thread makes.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace dxgkit {

class Stack;

/// A process of its own as far as the kernel is concerned: handles, budgets, GPU address spaces.
/// Made by Stack::make_client. Its end is process exit: everything it owns is destroyed (THUNK-08).
/// It ends with its stack at the latest.
class ClientProcess {
 public:
  ~ClientProcess();
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  /// While it lives, the D3DKMT functions (d3dkmthk.h) that the calling thread calls act for this
  /// process. Nests. A thread that the stack did not make joins it for that time; that is possible
  /// with real threads only, and our bug report otherwise: in simulation it aborts.
  class Attach {
   public:
    explicit Attach(ClientProcess& process);
    ~Attach();
    Attach(const Attach&) = delete;
    Attach& operator=(const Attach&) = delete;

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

  /// A thread of this process: attached from its first line to its last. In simulation it is a
  /// fiber, and the seed decides when it runs.
  class Thread {
   public:
    ~Thread();  // joins
    void join();

   private:
    friend class ClientProcess;
    struct State;
    explicit Thread(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };
  /// @param body  must not throw.
  std::unique_ptr<Thread> start(std::string name, std::function<void()> body);

  /// Process exit now. Blocks until its work is drained or aborted. Threads inside D3DKMT functions
  /// come back with an error; later calls answer STATUS_PROCESS_IS_TERMINATING. Again: nothing.
  void end();

 private:
  friend class Stack;
  struct Impl;
  explicit ClientProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit
