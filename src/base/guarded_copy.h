// Copies from or to memory that may be inaccessible, such as a client's pointer.
#pragma once

#include <cstddef>

namespace dxgkit {

/// Copies `bytes` bytes. Returns false if any of them could not be read or written; some may have
/// been copied then. Any thread. The first call installs a handler for SIGSEGV and SIGBUS, which
/// passes on every fault outside this copy. A range that wraps the address space is refused. Cost:
/// that of `rep movsb`; a fault costs a signal.
[[nodiscard]] bool guarded_copy(void* to, const void* from, size_t bytes);

/// True if all of these bytes can be written. Nothing is changed, also if others write there
/// meanwhile, and nothing is learned of their content. As guarded_copy otherwise. Cost: an
/// instruction for each page.
[[nodiscard]] bool guarded_probe(void* at, size_t bytes);

/// True for an instruction of these two that may fault: their own handler must get that fault.
bool in_guarded_copy(const void* instruction);

}  // namespace dxgkit
