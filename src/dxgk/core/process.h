// A client process: a name and a handle table.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dxgk/core/gate.h"
#include "dxgk/core/handle_table.h"
#include "runtime/sync.h"
#include "vidsch/policy.h"

namespace dxgkit::dxgk {

class Adapter;
class ClientMemory;
class System;

/// Lives while System knows it or a thread is bound to it: what ended still answers.
class Process : public std::enable_shared_from_this<Process> {
 public:
  Process(System& system, std::string name, uint32_t number, KernelNumber kernel = {})
      : system_(system), name_(std::move(name)), number_(number), handles_(kernel, number) {}
  System& system() { return system_; }
  const std::string& name() const { return name_; }
  uint32_t number() const { return number_; }
  HandleTable& handles() { return handles_; }
  /// Every thunk of its threads is inside. Closed when the process ends.
  Gate& gate() { return gate_; }

  /// SCHED-11, SCHED-12: may ask for context priorities above 0 and for the classes high and
  /// realtime, as Windows lets holders of the privilege to increase base priorities. The host says
  /// so; clients have none by themselves. Any thread.
  void set_base_priority_privilege(bool held) { base_priority_privilege_.store(held); }
  bool base_priority_privilege() const { return base_priority_privilege_.load(); }
  /// Of its contexts that are made from here on; System::set_priority_class tells those there are.
  void set_priority_class(vidsch::PriorityClass priority_class) {
    priority_class_.store(priority_class);
  }
  vidsch::PriorityClass priority_class() const { return priority_class_.load(); }

  /// Before its first call: the client is in another process. Null, the default: it is in this one.
  void set_client_memory(std::shared_ptr<ClientMemory> memory) {
    client_memory_ = std::move(memory);
  }
  ClientMemory* client_memory() const { return client_memory_.get(); }

  /// D3DKMT_QUERYPROCESSOFFERINFO: a number that changes when what the process could decommit does.
  uint64_t decommit_uniqueness() const { return commitment_changes_.load(); }
  void note_commitment_change() { commitment_changes_.fetch_add(1); }

  /// The process on whose behalf the calling thread is in the kernel: what handles in driver
  /// callbacks mean. Null: none.
  static Process* current();
  class Scope {
   public:
    explicit Scope(Process* process);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Process* previous_;
  };

  /// Driver's process handle per adapter, made before its first device there (LIFE-16, THUNK-12).
  /// By LUID low part.
  struct OnAdapter {
    void* driver_process = nullptr;
    size_t devices = 0;
    bool created = false;
  };
  runtime::Mutex mutex;
  std::map<uint32_t, OnAdapter> on_adapters DXGKIT_GUARDED_BY(mutex);

 private:
  System& system_;
  const std::string name_;
  const uint32_t number_;
  Gate gate_;
  HandleTable handles_;
  std::atomic<bool> base_priority_privilege_{false};
  std::atomic<vidsch::PriorityClass> priority_class_{vidsch::PriorityClass::kNormal};
  std::atomic<uint64_t> commitment_changes_{0};
  std::shared_ptr<ClientMemory> client_memory_;
};

}  // namespace dxgkit::dxgk
