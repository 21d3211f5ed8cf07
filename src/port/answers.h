// Answers of drivers that are not an NTSTATUS.
#pragma once

#include <cstdint>
#include <string_view>

namespace dxgkit::port {

/// Words for a finding if `answer` is not an NTSTATUS; empty if it may be one (NT-22). It may be
/// one with any severity and a facility that an NTSTATUS has. Of the success codes only those count
/// that a driver can mean: STATUS_SUCCESS, STATUS_TIMEOUT, STATUS_PENDING and those with a
/// facility. Cost: a few compares, for answers that are not STATUS_SUCCESS only.
std::string_view no_ntstatus(int32_t answer);

}  // namespace dxgkit::port
