// What D3DKMTQueryAdapterInfo answers, type by type.
#pragma once

#include <d3dkmthk.h>

#include <cstddef>
#include <span>

#include "base/status.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "thunks/support.h"

namespace dxgkit::thunks {

/// Who asks, and about which adapter. It runs, and is kept from stopping.
struct AdapterQuestion {
  dxgk::Process& process;
  dxgk::Adapter& adapter;
};

/// One KMTQUERYADAPTERINFOTYPE.
struct AdapterInfoType {
  KMTQUERYADAPTERINFOTYPE type;
  ThunkSupport support;
  /// The size of the type's structure. A client's buffer has exactly this size, unless `at_least`:
  /// then its last member is as long as the client says.
  size_t bytes = 0;
  bool at_least = false;
  /// Fills `data`, a copy of the client's buffer with inputs where the structure has some. `data`
  /// does not reach the client unless the answer is kSuccess. Null: kNotSupported.
  Status (*answer)(const AdapterQuestion& question, std::span<std::byte> data) = nullptr;
};

/// Every type of the ABI but KMTQAITYPE_UMDRIVERPRIVATE, by value.
std::span<const AdapterInfoType> adapter_info_types();

}  // namespace dxgkit::thunks
