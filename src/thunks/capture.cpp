#include "thunks/capture.h"

namespace dxgkit::thunks {

bool writable(void* client, size_t bytes) {
  std::vector<std::byte> same(bytes);
  return guarded_copy(same.data(), client, bytes) && guarded_copy(client, same.data(), bytes);
}

Status capture_bytes(const void* client, size_t bytes, std::vector<std::byte>* out) {
  return capture_array(static_cast<const std::byte*>(client), bytes, kMaxPrivateBytes, out);
}

}  // namespace dxgkit::thunks
