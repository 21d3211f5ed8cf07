#include "thunks/capture.h"

namespace dxgkit::thunks {

bool writable(void* client, size_t bytes) { return guarded_probe(client, bytes); }

Status capture_bytes(const void* client, size_t bytes, std::vector<std::byte>* out) {
  return capture_array(static_cast<const std::byte*>(client), bytes, kMaxPrivateBytes, out);
}

}  // namespace dxgkit::thunks
