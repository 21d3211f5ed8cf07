// Why nothing goes on: waits, values, and whose turn it would be.
#pragma once

#include <string>

#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

struct WorkFloor;

/// Who waits for which value of which object, and who could signal it: for deadlock reports. One
/// line per waiter, empty if there is none.
std::string describe_waits(WorkFloor& floor) DXGKIT_REQUIRES(on_lane);

}  // namespace dxgkit::dxgk
