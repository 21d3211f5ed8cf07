#include "thunks/capture.h"

namespace dxgkit::thunks {

Result<std::u16string> capture_text(const char16_t* client, size_t most) {
  std::u16string text;
  if (client == nullptr) return Error(Status::kInvalidParameter);
  while (text.size() < most) {
    char16_t unit = 0;  // one at a time: what lies behind the terminator may not be readable
    if (!guarded_copy(&unit, client + text.size(), sizeof unit)) break;
    if (unit == 0) return text;
    text.push_back(unit);
  }
  return Error(Status::kInvalidParameter);
}

bool writable(void* client, size_t bytes) { return guarded_probe(client, bytes); }

}  // namespace dxgkit::thunks
