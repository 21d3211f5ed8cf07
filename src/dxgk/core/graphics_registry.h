// The values of the registry that the graphics kernel itself follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "nt/kernel.h"

namespace dxgkit::dxgk {

/// A REG_DWORD of Control\GraphicsDrivers; nothing if it is not there or of another type. Names are
/// not case-sensitive.
/// @param subkey  "Scheduler" for Control\GraphicsDrivers\Scheduler; "" for the key itself
std::optional<uint32_t> graphics_dword(const nt::KernelConfig& config, std::string_view subkey,
                                       std::string_view name);

}  // namespace dxgkit::dxgk
