// The slot of an object in its table, as part of its id.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace dxgkit {

/// The low bits of a 64-bit id are the slot of the object in its table: no two live ids of a kind
/// share them.
inline constexpr uint32_t kIdSlotBits = 22;
template <typename Tag>
constexpr uint32_t slot_of(StrongId<Tag, uint64_t> id) {
  return static_cast<uint32_t>(id.value & ((1U << kIdSlotBits) - 1));
}

}  // namespace dxgkit
