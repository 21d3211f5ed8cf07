// DXGKDDI_INTERFACE_VERSION values at which the treatment of drivers changes. Modules that may not
// include the ABI's headers use these copies; src/port checks them against the ABI.
#pragma once

#include <cstdint>

namespace dxgkit {

/// The interface version that a driver declares in its initialization data.
inline constexpr uint32_t kInterfaceWin7 = 0x2005;  // WDDM 1.1
inline constexpr uint32_t kInterfaceWin8 = 0x300E;  // WDDM 1.2
inline constexpr uint32_t kInterfaceWddm13 = 0x4002;
inline constexpr uint32_t kInterfaceWddm20 = 0x5023;
inline constexpr uint32_t kInterfaceWddm21 = 0x6003;
inline constexpr uint32_t kInterfaceWddm22 = 0x700A;
inline constexpr uint32_t kInterfaceWddm23 = 0x8001;
inline constexpr uint32_t kInterfaceWddm24 = 0x9006;
inline constexpr uint32_t kInterfaceWddm25 = 0xA00B;
inline constexpr uint32_t kInterfaceWddm26 = 0xB004;
inline constexpr uint32_t kInterfaceWddm29 = 0xE003;
inline constexpr uint32_t kInterfaceWddm30 = 0xF003;
inline constexpr uint32_t kInterfaceWddm31 = 0x10004;
inline constexpr uint32_t kInterfaceWddm32 = 0x11007;

/// The version that a driver reports in DXGK_DRIVERCAPS::WDDMVersion (DXGK_WDDMVERSION).
inline constexpr uint32_t kModelWddm12 = 0x1200;
inline constexpr uint32_t kModelWddm20 = 0x2000;

}  // namespace dxgkit
