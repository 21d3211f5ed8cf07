// Global share handles, which any process may use.
#pragma once

#include <utility>

#include "base/status.h"
#include "dxgk/core/handle_table.h"

namespace dxgkit::dxgk {

/// Global share handles: any process may use them (THUNK-24). Their bits 0 and 1 are 2, so that
/// none is also a handle of a process. Thread-safe.
class GlobalShares {
 public:
  /// Before the first one is made.
  void set_kernel(KernelNumber kernel) { mark_ = kMark | kernel.mark(); }
  Result<Handle> insert(Ref<Object> object) {
    DXGKIT_ASSIGN_OR_RETURN(const Handle handle, table_.insert(std::move(object)));
    return handle | mark_;
  }
  /// kInvalidParameter: no such handle, or something else than a T.
  template <typename T>
  Result<Ref<T>> find(Handle handle) {
    if ((handle & kMarkMask) != mark_) return Error(Status::kInvalidParameter);
    return table_.template find<T>(handle & ~kMarkMask);
  }
  void erase(Handle handle) { table_.erase(handle & ~kMarkMask); }
  size_t size() const { return table_.size(); }

 private:
  static constexpr Handle kMark = 2;  // what clients have seen in the low bits on Windows
  static constexpr Handle kMarkMask = 0x3F;
  Handle mark_ = kMark;
  HandleTable table_;
};

}  // namespace dxgkit::dxgk
