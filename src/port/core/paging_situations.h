// Situations of paging operations: how DxgkDdiBuildPagingBuffer was asked, and for what.
#pragma once

#include <map>
#include <set>

#include "base/spin_lock.h"
#include "port/types.h"
#include "verifier/situations.h"

namespace dxgkit::port {

/// On the lane, but for the root page tables of contexts, which come on any thread.
class PagingSituations {
 public:
  explicit PagingSituations(verifier::SituationLog& log) : log_(log) {}

  /// After the call.
  void built(const BuildPagingArgs& args, const BuildPagingResult& result);
  void root_set(void* context, const RootPageTable& root);

 private:
  using Situation = verifier::Situation;
  void transferred(const PagingOperation& operation, bool later_pass, bool little_room);
  void filled(uint32_t pattern, bool later_pass, bool little_room);
  void mapped(const PagingOperation& operation, bool later_pass);
  void updated(const PagingOperation& operation, bool by_cpu, bool later_pass);
  void transferred_virtually(const PagingOperation& operation, bool later_pass);

  verifier::SituationLog& log_;
  SpinLock lock_;                         // guards what follows
  std::set<void*> processes_;             // whose tables were written
  std::map<void*, RootPageTable> roots_;  // by context
};

}  // namespace dxgkit::port
