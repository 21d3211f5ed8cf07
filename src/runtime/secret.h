// Bytes that nobody can guess: for what only the user is to know. No simulation has any.
#pragma once

#include <array>
#include <cstddef>

namespace dxgkit::runtime {

/// Of the system's own source. Any thread. Not in simulation (our bug, aborts): a run with a seed
/// would not come again.
std::array<std::byte, 16> secret_bytes();

}  // namespace dxgkit::runtime
