// Whose context it was.
#pragma once

#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/work_floor.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// The device that the context belongs to; null: it is the kernel's own, or gone.
inline Device* device_of(WorkFloor& floor, ContextId context) DXGKIT_REQUIRES(on_lane) {
  for (Device* device : floor.devices) {
    for (const Context* one : device->contexts) {
      if (one->id() == context) return device;
    }
  }
  return nullptr;
}

}  // namespace dxgkit::dxgk
