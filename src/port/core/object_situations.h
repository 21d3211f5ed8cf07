// Situations of objects: processes, devices, contexts, allocations, queues and fences.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/spin_lock.h"
#include "base/status.h"
#include "port/types.h"
#include "verifier/situations.h"

namespace dxgkit::port {

/// Any thread; each method is called after the DDI.
class ObjectSituations {
 public:
  explicit ObjectSituations(verifier::SituationLog& log) : log_(log) {}

  void process_made(bool system, Status status);
  void process_gone();
  void device_made(Status status);
  void device_gone();
  void context_made(void* handle, NodeOrdinal node, bool system, Status status);
  void context_gone(void* handle);
  void allocations_made(std::span<const AllocationInfo> infos, bool in_resource, Status status);
  void opened(size_t count, bool create);
  void escaped(size_t bytes);

 private:
  using Situation = verifier::Situation;

  verifier::SituationLog& log_;
  SpinLock lock_;         // guards what follows
  size_t processes_ = 0;  // of clients
  size_t devices_ = 0;
  std::vector<void*> contexts_;  // by age
};

}  // namespace dxgkit::port
