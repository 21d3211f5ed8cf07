// An outcome of `dxgkit fuzz` as bytes, for the pipe from a child process to its parent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/dxgkit/fuzz/fuzz_run.h"

namespace dxgkit::tool::fuzz {

/// At most `most` bytes. A problem that does not fit keeps its key only, or is left out.
std::string pack(const FuzzOutcome& outcome, size_t most);
/// Reads the output of `pack`.
FuzzOutcome unpack(std::string_view bytes);

}  // namespace dxgkit::tool::fuzz
