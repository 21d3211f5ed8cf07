// Driver answers that are no NTSTATUS.
#pragma once

#include <cstdint>
#include <string_view>

namespace dxgkit::port {

/// What `answer` is instead of an NTSTATUS, as words for a finding; empty when it may be one
/// (NT-22). May be: any severity, a facility an NTSTATUS has, of the success codes only those a
/// driver can mean (STATUS_SUCCESS, STATUS_TIMEOUT, STATUS_PENDING and those with a facility).
/// Cost: a few compares; asked only of answers that are not STATUS_SUCCESS.
std::string_view no_ntstatus(int32_t answer);

}  // namespace dxgkit::port
