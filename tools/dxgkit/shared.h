// An object that a process shares with the processes it forks.
#pragma once

#include <sys/mman.h>

#include <new>
#include <type_traits>

#include "base/check.h"

namespace dxgkit::tool {

/// Made before the processes are forked: what they write there stays when one of them ends. T owns
/// nothing outside itself, and its locks, if it has any, are free of futexes of one process: atomic
/// numbers and plain bytes.
template <typename T>
class Shared {
 public:
  Shared() {
    static_assert(std::is_trivially_destructible_v<T>);
    void* const memory =
        mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DXGKIT_CHECK(memory != MAP_FAILED);
    object_ = new (memory) T;
  }
  ~Shared() { munmap(object_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  T* object_;
};

}  // namespace dxgkit::tool
