// Copies from or to memory that may not be there: a client's pointer.
#pragma once

#include <cstddef>

namespace dxgkit {

/// Copies `bytes` bytes; false if any of them could not be read or written (then some may have been
/// copied). Any thread. The first call installs a handler for SIGSEGV and SIGBUS that passes on
/// every fault not in this copy. A range that wraps the address space is refused. Cost: that of
/// `rep movsb`; a fault costs a signal.
[[nodiscard]] bool guarded_copy(void* to, const void* from, size_t bytes);

}  // namespace dxgkit
