// The support state of each D3DKMT call, generated from the table that decides it.
#pragma once

#include <span>
#include <string_view>

namespace dxgkit::thunks {

enum class Support { kSupported, kPartial, kRefused };

struct ThunkSupport {
  std::string_view name;
  Support support;
  std::string_view note;
};

/// Every D3DKMT entry point of the ABI, by name.
std::span<const ThunkSupport> support();
/// Every type of D3DKMTQueryAdapterInfo, by value. kRefused: STATUS_NOT_SUPPORTED.
std::span<const ThunkSupport> adapter_info_support();

}  // namespace dxgkit::thunks
