// Lists and blocks of bytes that a client points to. They are copied once, with bounds, before any
// check of their content.
#pragma once

#include <cstddef>
#include <vector>

#include "base/guarded_copy.h"
#include "base/status.h"

namespace dxgkit::thunks {

/// A client's array, copied once into an empty list. kInvalidParameter: too long, or not readable
/// (THUNK-01).
template <typename T, typename List>
Status capture_array(const T* client, size_t count, size_t most, List* out) {
  if (count > most) return Status::kInvalidParameter;
  out->resize(count);
  if (count == 0) return Status::kSuccess;
  return guarded_copy(out->data(), client, count * sizeof(T)) ? Status::kSuccess
                                                              : Status::kInvalidParameter;
}

/// True if `bytes` bytes can be written there. Nothing is changed.
bool writable(void* client, size_t bytes);

/// Private driver data: bytes in, and perhaps bytes out.
Status capture_bytes(const void* client, size_t bytes, std::vector<std::byte>* out);

/// The most bytes of one private data block, and the most elements of one list, that a thunk
/// accepts.
inline constexpr size_t kMaxPrivateBytes = size_t{1} << 20;
inline constexpr size_t kMaxListElements = size_t{1} << 16;

}  // namespace dxgkit::thunks
