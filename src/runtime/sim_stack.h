// Stacks for fibers.
#pragma once

#include <cstddef>

namespace dxgkit::runtime {

/// A stack with an inaccessible guard page below it: an overflow faults instead of overwriting a
/// neighbour.
struct FiberStack {
  void* mapping = nullptr;
  size_t mapping_bytes = 0;
  void* bottom = nullptr;  // lowest usable address
  size_t bytes = 0;
  void* top() const { return static_cast<char*>(bottom) + bytes; }
};

/// Takes a stack of at least `bytes` from the calling OS thread's cache, or maps one.
FiberStack acquire_stack(size_t bytes);
/// Returns a stack to the calling OS thread's cache. No fiber may run on it any more.
void release_stack(const FiberStack& stack);

}  // namespace dxgkit::runtime
