// NTSTATUS values of the executive's answers; numbers as in ntstatus.h of drivers.
#pragma once

#include <cstdint>

namespace dxgkit::nt::ntstatus {

inline constexpr int32_t value(uint32_t number) { return static_cast<int32_t>(number); }

inline constexpr int32_t kSuccess = 0;
inline constexpr int32_t kTimeout = 0x102;
inline constexpr int32_t kPending = 0x103;
inline constexpr int32_t kObjectNameExists = 0x40000000;
inline constexpr int32_t kBufferOverflow = value(0x80000005);
inline constexpr int32_t kNoMoreEntries = value(0x8000001A);
inline constexpr int32_t kUnsuccessful = value(0xC0000001);
inline constexpr int32_t kNotImplemented = value(0xC0000002);
inline constexpr int32_t kInfoLengthMismatch = value(0xC0000004);
inline constexpr int32_t kAccessViolation = value(0xC0000005);
inline constexpr int32_t kInvalidHandle = value(0xC0000008);
inline constexpr int32_t kInvalidParameter = value(0xC000000D);
inline constexpr int32_t kInvalidDeviceRequest = value(0xC0000010);
inline constexpr int32_t kEndOfFile = value(0xC0000011);
inline constexpr int32_t kMoreProcessingRequired = value(0xC0000016);
inline constexpr int32_t kNoMemory = value(0xC0000017);
inline constexpr int32_t kAccessDenied = value(0xC0000022);
inline constexpr int32_t kBufferTooSmall = value(0xC0000023);
inline constexpr int32_t kObjectTypeMismatch = value(0xC0000024);
inline constexpr int32_t kObjectNameInvalid = value(0xC0000033);
inline constexpr int32_t kObjectNameNotFound = value(0xC0000034);
inline constexpr int32_t kObjectNameCollision = value(0xC0000035);
inline constexpr int32_t kObjectPathNotFound = value(0xC000003A);
inline constexpr int32_t kObjectPathSyntaxBad = value(0xC000003B);
inline constexpr int32_t kMutantNotOwned = value(0xC0000046);
inline constexpr int32_t kSemaphoreLimitExceeded = value(0xC0000047);
inline constexpr int32_t kInvalidOwner = value(0xC000005A);
inline constexpr int32_t kNoToken = value(0xC000007C);
inline constexpr int32_t kInsufficientResources = value(0xC000009A);
inline constexpr int32_t kNotSupported = value(0xC00000BB);
inline constexpr int32_t kInvalidParameter1 = value(0xC00000EF);
inline constexpr int32_t kInvalidParameter2 = value(0xC00000F0);
inline constexpr int32_t kInvalidParameter3 = value(0xC00000F1);
inline constexpr int32_t kNameTooLong = value(0xC0000106);
inline constexpr int32_t kImageAlreadyLoaded = value(0xC000010E);
inline constexpr int32_t kCannotDelete = value(0xC0000121);
inline constexpr int32_t kInvalidBufferSize = value(0xC0000206);
inline constexpr int32_t kNotFound = value(0xC0000225);
inline constexpr int32_t kVariableNotFound = value(0xC0000100);
inline constexpr int32_t kKeyDeleted = value(0xC000017C);
inline constexpr int32_t kChildMustBeVolatile = value(0xC0000181);

}  // namespace dxgkit::nt::ntstatus
