// Constants and conversions of the ABI that several families of DDIs use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dxgkit::port {

/// The initial values of outputs that a call must write, and of members that must stay unchanged.
inline constexpr uint32_t kPoison = 0xA5A5A5A5;
inline constexpr int kPoisonByte = 0xA5;  // as a BOOLEAN neither TRUE nor FALSE

/// A D3DKMT handle in a member that is a pointer in the ABI.
inline void* handle_of(uint32_t handle) { return reinterpret_cast<void*>(uint64_t{handle}); }
/// Private data in the form of the ABI: null for none, and never const.
inline void* data_of(std::span<const std::byte> data) {
  return data.empty() ? nullptr : const_cast<std::byte*>(data.data());
}
inline uint32_t size_of(std::span<const std::byte> data) {
  return static_cast<uint32_t>(data.size());
}

}  // namespace dxgkit::port
