// D3DKMT handles as drivers pass them back in callbacks.
#pragma once

#include <cstdint>

#include "dxgk/core/object.h"
#include "dxgk/core/process.h"

namespace dxgkit::dxgk {

/// What the handle names in the calling thread's process, hidden (being created) or not. Null: it
/// is stale, of another type, or the thread is on nobody's behalf.
template <typename T>
Ref<T> find_for_driver(uint32_t handle) {
  Process* process = Process::current();
  if (process == nullptr) return {};
  Result<Ref<T>> found = process->handles().find_even_hidden<T>(handle);
  return found.has_value() ? *found : Ref<T>();
}

}  // namespace dxgkit::dxgk
