// How memory moves between processors.
#pragma once

#include <cstddef>

namespace dxgkit {

/// What moves at once. Members that one thread writes while another uses its neighbours are aligned
/// to this. scripts/transfers counts what moves.
inline constexpr size_t kCacheLineBytes = 64;

}  // namespace dxgkit
