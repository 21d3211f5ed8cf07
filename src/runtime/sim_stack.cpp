#include "runtime/sim_stack.h"

#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/fixed_memory.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DXGKIT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define DXGKIT_ASAN 1
#endif
#ifdef DXGKIT_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace dxgkit::runtime {
namespace {

/// Mapping a stack and faulting its pages in costs more than a short simulation; so a few are kept.
class StackCache {
 public:
  ~StackCache() {
    for (const FiberStack& stack : stacks_) unmap_fixed(stack.mapping, stack.mapping_bytes);
  }
  bool take(size_t bytes, FiberStack* stack) {
    for (size_t i = stacks_.size(); i-- > 0;) {
      if (stacks_[i].bytes != bytes) continue;
      *stack = stacks_[i];
      stacks_.erase(stacks_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return false;
  }
  bool keep(const FiberStack& stack) {
    if (stacks_.size() >= kMost) return false;
    stacks_.push_back(stack);
    return true;
  }

 private:
  static constexpr size_t kMost = 64;
  std::vector<FiberStack> stacks_;
};

thread_local StackCache t_cache;

}  // namespace

FiberStack acquire_stack(size_t bytes) {
  bytes = align_up(bytes, kPageBytes);
  FiberStack stack;
  if (t_cache.take(bytes, &stack)) return stack;
  stack.mapping_bytes = bytes + kPageBytes;
  stack.mapping = map_fixed(FixedRange::kStacks, stack.mapping_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK);
  DXGKIT_CHECK(stack.mapping != MAP_FAILED);
  DXGKIT_CHECK(mprotect(stack.mapping, kPageBytes, PROT_NONE) == 0);
  stack.bottom = static_cast<char*>(stack.mapping) + kPageBytes;
  stack.bytes = bytes;
  return stack;
}

void release_stack(const FiberStack& stack) {
#ifdef DXGKIT_ASAN
  // The last frames never returned, so their red zones are still marked.
  ASAN_UNPOISON_MEMORY_REGION(stack.bottom, stack.bytes);
#endif
  if (!t_cache.keep(stack)) unmap_fixed(stack.mapping, stack.mapping_bytes);
}

}  // namespace dxgkit::runtime
