// How functions of the library report failure.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

namespace dxgkit {

/// Why a call failed.
struct Failure {
  int32_t status = 0;   // an NTSTATUS value as in ntstatus.h, negative
  std::string message;  // one sentence without a full stop
};

/// A value, or the failure that explains why there is none.
template <typename T>
using Expected = std::expected<T, Failure>;

}  // namespace dxgkit
