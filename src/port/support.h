// The parts of the driver interface that this kernel uses: the support table of `dxgkit support`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace dxgkit::port {

enum class Support { kSupported, kPartial, kRefused };
struct SupportEntry {
  std::string_view name;
  uint32_t since = 0;  // DXGKDDI_INTERFACE_VERSION value
  Support support = Support::kRefused;
  std::string_view note;
};

/// Every entry of DRIVER_INITIALIZATION_DATA and KMDDOD_INITIALIZATION_DATA. kRefused: never
/// called, whether present or not.
const std::vector<SupportEntry>& ddi_support();
/// Every function of DXGKRNL_INTERFACE. kRefused: present, and answers STATUS_NOT_SUPPORTED.
const std::vector<SupportEntry>& callback_support();

}  // namespace dxgkit::port
