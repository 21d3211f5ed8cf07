// DXGKDDI_INTERFACE_VERSION values from which on drivers are treated in another way.
#pragma once

#include <cstdint>

namespace dxgkit::dxgk {

inline constexpr uint32_t kInterfaceWin8 = 0x300E;  // WDDM 1.2
inline constexpr uint32_t kInterfaceWddm13 = 0x4002;
inline constexpr uint32_t kInterfaceWddm20 = 0x5023;
inline constexpr uint32_t kInterfaceWddm29 = 0xE003;
inline constexpr uint32_t kInterfaceWddm32 = 0x11007;

}  // namespace dxgkit::dxgk
