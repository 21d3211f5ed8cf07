// The chains of capabilities behind answers of VFIO.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace dxgkit::vfio {

/// The bytes of an answer are more than this only if Linux is not Linux.
inline constexpr uint32_t kAnswerBytesMost = 1U << 20;

/// A structure at an offset of an answer; false if it does not lie within.
template <typename T>
[[nodiscard]] bool take(std::span<const std::byte> answer, size_t offset, T* out) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (offset > answer.size() || sizeof(T) > answer.size() - offset) return false;
  std::memcpy(out, answer.data() + offset, sizeof(T));
  return true;
}

/// The offset of the capability with that id, 0 if the chain has none. nullopt: the chain leaves
/// the answer or runs in a circle.
std::optional<size_t> find_capability(std::span<const std::byte> answer, uint32_t first,
                                      uint16_t id);

}  // namespace dxgkit::vfio
