#include "dxgk/sync_object.h"

#include <unistd.h>

#include "dxgk/device.h"

namespace dxgkit::dxgk {

SyncObject::SyncObject() : Object(kType) {}

SyncObject::~SyncObject() {
  if (machine != nullptr) machine->free_contiguous(page, 1);
  if (event_fd >= 0) close(event_fd);
}

}  // namespace dxgkit::dxgk
