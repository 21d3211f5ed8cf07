// Lists and texts that a client points to. They are copied once, with bounds, before any check of
// their content. Thunks take counts and bounds from the table: members.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "arguments/limits.h"
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

/// A text of the client's up to its terminator, which is left out, read once. kInvalidParameter:
/// not readable, or more than `most` units with the terminator.
Result<std::u16string> capture_text(const char16_t* client, size_t most);

/// True if `bytes` bytes can be written there. Nothing is changed.
bool writable(void* client, size_t bytes);

using arguments::kMaxListElements;

}  // namespace dxgkit::thunks
