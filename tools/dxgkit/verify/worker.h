// A client that works: what steps submit jobs with.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

/// A client with a device and a context on each node.
struct Worker {
  Worker(Bench& b, std::string worker_name)
      : bench(b), name(std::move(worker_name)), client(b, name) {}
  Answer<void> open();
  Answer<void> open_device();
  /// One more on that node, with the plug-in's private data.
  Answer<ClientContext> add_context(uint32_t node);
  /// Waits for its work. False: the work lost the device, and `wrong` says so.
  Answer<bool> idle(std::string* wrong);

  Bench& bench;
  const std::string name;  // of its process
  Client client;
  D3DKMT_HANDLE device = 0;
  std::vector<ClientContext> contexts;  // by node
};

/// What came of a job on each node. `wrong` is empty if all results are right.
struct NodeJobs {
  std::string wrong;
  bool lost = false;  // the work cost its device, at `node`
  bool late = false;  // is_late() of one of them
  uint32_t node = 0;
};
/// Work that takes no time to speak of has taken so long that the kernel asked for its fence. Never
/// in real time, nor in a mutation, which may lose the interrupt.
bool is_late(Bench& bench, runtime::TimeNs since);
/// Runs them one after the other, with a client of its own. An error: a call was refused.
Answer<NodeJobs> run_on_each_node(Bench& bench, const std::string& name);
/// Jobs while the fences of all nodes go on so many quarters of what 32 bits hold. Three lead from
/// the start into the upper half: there a number that stands for nothing, 0 or all ones, is a newer
/// one (SUB-13). Without a plug-in there is no work.
Answer<void> raise_fences(Bench& bench, const std::string& name, int quarters = 3);
/// A job whose allocations must survive `between`. It runs afterwards and must be right. Without
/// work (Bench::has_work) only `between`.
Answer<void> work_across(Bench& bench, const std::function<Status()>& between);

}  // namespace dxgkit::tool::verify
