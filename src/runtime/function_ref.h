// A callable passed by reference: no copy, no allocation.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "runtime/thread_annotations.h"

namespace dxgkit::runtime {

/// Refers to any `void()` callable for the length of a call. The callable must outlive the
/// reference. The caller must hold the capabilities that the callable requires; clang's analysis
/// cannot see this.
class FunctionRef {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_v<F&>)
      // NOLINTNEXTLINE(google-explicit-constructor): a parameter type, made from the argument in
      // place.
      FunctionRef(F&& callable)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
          (*static_cast<std::remove_reference_t<F>*>(object))();
        }) {}

  void operator()() const { call_(object_); }

 private:
  void* object_;
  void (*call_)(void*);
};

}  // namespace dxgkit::runtime
