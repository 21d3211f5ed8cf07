// The kernel inside a program whose threads are not ours: made at its first call, ended at its
// exit.
//
// DXGKIT_STACK names the file that says which machine and which driver (stack_file.h). The program
// is one client process of this kernel. A thread is bound to it at its first call and until it
// ends. A forked child gets a kernel of its own at its first call.
#pragma once

#include <d3dkmthk.h>

#include <cstdint>

namespace dxgkit::dxcore {

struct ThreadRecord;

/// One D3DKMT call, or one question of DXCore, of any thread. Calls nest.
class Call {
 public:
  /// Makes the kernel at the process's first call, which takes as long as the driver's start. Costs
  /// two atomic exchanges on a cache line of the thread otherwise.
  Call();
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// 0: the kernel may be called. STATUS_NOT_SUPPORTED: there is none; standard error has said why,
  /// once. STATUS_PROCESS_IS_TERMINATING: the program exits.
  NTSTATUS refusal() const { return refusal_; }

  /// The number of the process's kernel. A forked child has another one than its parent.
  uint64_t kernel() const;

 private:
  ThreadRecord* record_ = nullptr;
  NTSTATUS refusal_ = 0;
};

}  // namespace dxgkit::dxcore
