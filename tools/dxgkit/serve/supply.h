// Descriptors for an adapter process, which may make none itself: it asks the broker. A connection
// of its own carries a request and its answer, one after the other.
#pragma once

#include <cstdint>

#include "runtime/runtime.h"

namespace dxgkit::serve {

/// In the adapter process: from here on new descriptors (base/new_descriptors.h) come from the
/// broker over `socket`. For the rest of the process's life. Real threads only.
void use_supply(runtime::Runtime& runtime, int socket);

enum class SupplyState { kAnswered, kNothing, kEnded, kNonsense };

/// In the broker: answers one request, if there is one. Does not block. Memory of more than
/// `bytes_most` is refused. kNonsense also if the adapter process does not take its answers.
SupplyState answer_supply(int socket, uint64_t bytes_most);

}  // namespace dxgkit::serve
