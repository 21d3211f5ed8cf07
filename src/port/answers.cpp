#include "port/answers.h"

namespace dxgkit::port {

std::string_view no_ntstatus(int32_t answer) {
  const auto code = static_cast<uint32_t>(answer);
  const uint32_t severity = code >> 30;
  const uint32_t facility = code >> 16 & 0xFFF;
  // Successes of the system that are no Win32 error codes: STATUS_ABANDONED_WAIT_0 to 63 and
  // STATUS_USER_APC, and from STATUS_ALREADY_COMPLETE on, which DxgkDdiQueryConnectionChange has.
  constexpr uint32_t kFirstAbandoned = 0x80, kUserApc = 0xC0, kAlreadyComplete = 0xFF,
                     kLastSuccess = 0x12E;
  constexpr uint32_t kReservedBit = 1U << 28;  // set in codes mapped from an NTSTATUS
  constexpr uint32_t kCustomerBit = 1U << 29;  // a driver's own code: any value is allowed
  if ((code & kCustomerBit) != 0) return {};
  if ((code & kReservedBit) != 0) return "an NTSTATUS wrapped in an HRESULT";
  if (severity == 0 && facility == 0) {
    if (code == 0 || (code >= kFirstAbandoned && code <= kUserApc)) return {};
    if (code >= kAlreadyComplete && code <= kLastSuccess) return {};
    return code == 1 ? "TRUE, or a Win32 error code" : "a Win32 error code";
  }
  if (severity != 2) return {};
  // An HRESULT that failed looks like a warning. Warnings of the system end far below 0x4000.
  constexpr uint32_t kWin32Facility = 0x7, kFirstHresult = 0x4000;
  constexpr uint32_t kDirect3dFacility = 0x876, kDxgiFacility = 0x87A;
  if (facility == kWin32Facility) return "an HRESULT made of a Win32 error code";
  if (facility == kDirect3dFacility || facility == kDxgiFacility) return "an HRESULT of Direct3D";
  if (facility == 0 && (code & 0xFFFF) >= kFirstHresult) return "an HRESULT";
  return {};
}

}  // namespace dxgkit::port
