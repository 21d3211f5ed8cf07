// The common start and end of every callback: the object behind the handle, one capture of the
// argument, the HRESULT, outputs.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/guarded_copy.h"
#include "thunks/capture.h"
#include "umd/generated.h"
#include "umd/hresult.h"
#include "umd/runtime_objects.h"

namespace dxgkit::umd {

/// When the captured structure, with outputs filled in, is copied back to the driver.
enum class Outputs {
  kNever,
  kOnSuccess,  // E_PENDING is a success
  kAlways,     // failures have outputs, too
};

inline bool succeeded(HRESULT result) { return result >= 0 || result == E_PENDING; }

/// Copies the argument once, as long as the driver's version knows it, runs `body(object,
/// argument)`, and copies outputs back. E_INVALIDARG, before anything happens: `object` is null
/// because its handle was wrong, or the argument cannot be read or cannot take the outputs.
template <typename Object, typename Args, typename Body>
HRESULT call(Object* object, Args* args, Outputs outputs, const Body& body) {
  using Plain = std::remove_const_t<Args>;
  if (object == nullptr || args == nullptr) return E_INVALIDARG;
  Plain captured{};
  const size_t bytes = record_bytes<Plain>(object->version());
  if (!guarded_copy(&captured, args, bytes)) return E_INVALIDARG;
  if constexpr (!std::is_const_v<Args>) {
    if (outputs != Outputs::kNever && !guarded_copy(args, &captured, bytes)) return E_INVALIDARG;
  }
  const HRESULT result = body(*object, captured);
  if constexpr (!std::is_const_v<Args>) {
    if (outputs == Outputs::kAlways || (outputs == Outputs::kOnSuccess && succeeded(result))) {
      // It was writable before the call. A driver that unmapped it meanwhile loses its outputs.
      static_cast<void>(guarded_copy(args, &captured, bytes));
    }
  }
  return result;
}

template <typename Args, typename Body>
HRESULT device_call(HANDLE device, Args* args, Outputs outputs, const Body& body) {
  return call(RuntimeDevice::find(device), args, outputs, body);
}

/// For structures that the D3DKMT function takes, too. It captures and checks them itself.
template <typename Args>
HRESULT forward(HANDLE device, Args* args, NTSTATUS (*thunk)(Args*)) {
  if (RuntimeDevice::find(device) == nullptr) return E_INVALIDARG;
  return to_hresult(thunk(args));
}

/// Handles of contexts and hardware queues are the kernel's.
inline HANDLE to_runtime(D3DKMT_HANDLE handle) {
  return reinterpret_cast<HANDLE>(static_cast<uintptr_t>(handle));
}

/// False: no handle of ours has this value. Null is 0, which the kernel refuses where it needs one.
inline bool to_kernel(HANDLE handle, D3DKMT_HANDLE* kernel) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  *kernel = static_cast<D3DKMT_HANDLE>(value);
  return value <= UINT32_MAX;
}

/// The first `count` of an array in a captured structure; a count that is too large is left to the
/// kernel, which refuses it.
template <size_t kMost>
bool to_kernel(const HANDLE (&handles)[kMost], UINT count, D3DKMT_HANDLE (&kernel)[kMost]) {
  for (size_t i = 0; i < kMost && i < count; ++i) {
    if (!to_kernel(handles[i], &kernel[i])) return false;
  }
  return true;
}

/// A list that the driver points to.
inline bool to_kernel(const HANDLE* handles, size_t count, std::vector<D3DKMT_HANDLE>* kernel) {
  std::vector<HANDLE> captured;
  if (!is_success(thunks::capture_array(handles, count, thunks::kMaxListElements, &captured)))
    return false;
  kernel->resize(captured.size());
  for (size_t i = 0; i < captured.size(); ++i) {
    if (!to_kernel(captured[i], &(*kernel)[i])) return false;
  }
  return true;
}

/// The kernel's resource behind a resource of this device. False: it is none, or it has no
/// allocations.
inline bool find_resource(const RuntimeDevice& device, HANDLE handle, D3DKMT_HANDLE* kernel) {
  const RuntimeResource* resource = RuntimeResource::find(handle);
  if (resource == nullptr || &resource->device() != &device) return false;
  *kernel = resource->kernel_handle();
  return *kernel != 0;
}

}  // namespace dxgkit::umd
