// A client process. D3DKMT calls are made in the name of one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace dxgkit {

class Stack;

/// A process as the kernel sees it, with handles, budgets and GPU address spaces of its own.
/// Stack::make_client makes it. Destroying the object is process exit: everything that the process
/// owns is destroyed (THUNK-08). The object must not outlive the body of Stack::run.
class ClientProcess {
 public:
  ~ClientProcess();
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  /// While an Attach lives, the D3DKMT functions (d3dkmthk.h) that its thread calls act for this
  /// process. Attaches nest. Do not attach after end(). A thread that the stack did not make joins
  /// the stack for that time. Such a thread needs Mode::kRealThreads; in simulation the program
  /// aborts.
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

  /// A thread that is attached to this process from its first line to its last. In simulation it
  /// is a fiber, and the seed decides when it runs.
  class Thread {
   public:
    ~Thread();  // calls join()
    void join();

   private:
    friend class ClientProcess;
    struct State;
    explicit Thread(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };
  /// Starts a thread of this process. Do not call it after end().
  /// @param name  of the thread, in traces and findings.
  /// @param body  must not throw.
  std::unique_ptr<Thread> start(std::string name, std::function<void()> body);

  /// A handle with which this process names `target` in hProcess of D3DKMT functions, as
  /// OpenProcess gives it on Windows. It belongs to this process, and ends with it or with
  /// close_process. Null if one of the two has ended.
  /// @param target  may be this process, too.
  /// @param access  PROCESS_QUERY_INFORMATION (0x400), PROCESS_SET_INFORMATION (0x200), or both.
  void* open_process(const ClientProcess& target, uint32_t access);
  /// False if it is no handle of this process.
  bool close_process(void* handle);

  /// A descriptor of an object directory, for RootDirectory of OBJECT_ATTRIBUTES. Directories with
  /// the same path are one. The caller closes it with close(). -1 if no descriptor is left, or
  /// after end().
  /// @param path  as `\\BaseNamedObjects` on Windows.
  /// @param may_name  whether objects may get names in the directory through this descriptor;
  ///                  otherwise they are only found there.
  int open_object_directory(std::u16string path, bool may_name);

  /// Process exit now. Blocks until the work of the process is drained or aborted. A thread inside
  /// a D3DKMT function comes back with an error, and later calls answer
  /// STATUS_PROCESS_IS_TERMINATING. A second end() does nothing.
  void end();

 private:
  friend class Stack;
  struct Impl;
  explicit ClientProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit
