// The CPU's accesses to memory of a device: sizes, and values as a bus has them.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace dxgkit::bus {

inline uint64_t all_ones(uint32_t size_bytes) {
  return size_bytes >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size_bytes)) - 1;
}

inline bool is_access_size(uint32_t size_bytes) {
  return size_bytes == 1 || size_bytes == 2 || size_bytes == 4 || size_bytes == 8;
}

/// Plain memory, as a CPU would: whole when aligned, so that a device on another thread sees no
/// torn value.
template <typename T>
uint64_t load(const volatile void* pointer) {
  if (std::bit_cast<uintptr_t>(pointer) % sizeof(T) == 0) {
    return __atomic_load_n(static_cast<const volatile T*>(pointer), __ATOMIC_ACQUIRE);
  }
  T value;
  std::memcpy(&value, const_cast<const void*>(pointer), sizeof value);
  return value;
}

template <typename T>
void store(volatile void* pointer, uint64_t value) {
  const T narrow = static_cast<T>(value);
  if (std::bit_cast<uintptr_t>(pointer) % sizeof(T) == 0) {
    __atomic_store_n(static_cast<volatile T*>(pointer), narrow, __ATOMIC_RELEASE);
    return;
  }
  std::memcpy(const_cast<void*>(pointer), &narrow, sizeof narrow);
}

}  // namespace dxgkit::bus
