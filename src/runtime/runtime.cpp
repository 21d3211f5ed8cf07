#include "runtime/runtime.h"

#include "base/check.h"
#include "runtime/internal.h"

namespace dxgkit::runtime {

constinit thread_local Runtime* t_runtime = nullptr;
namespace detail {
constinit thread_local void** t_thread_slots = nullptr;
constinit thread_local Runtime* t_simulation = nullptr;
}  // namespace detail

Runtime* Runtime::current_or_null() { return t_runtime; }

Runtime& Runtime::current() {
  DXGKIT_CHECK(t_runtime != nullptr);
  return *t_runtime;
}

}  // namespace dxgkit::runtime
