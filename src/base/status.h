// Status codes and Result: how our functions report failure.
#pragma once

#include <cstdint>
#include <expected>
#include <string_view>
#include <utility>

namespace dxgkit {

/// An NTSTATUS, spelled our way. The values are the ABI's, so converting at the edge loses nothing.
/// Success class (top bits 00) and pending are statuses too; `is_success()` is how callers test.
enum class [[nodiscard]] Status : uint32_t{
    kSuccess = 0x00000000,
    kTimeout = 0x00000102,
    kPending = 0x00000103,
    kUnsuccessful = 0xC0000001,
    kNotImplemented = 0xC0000002,
    kAccessViolation = 0xC0000005,
    kInvalidHandle = 0xC0000008,
    kInvalidParameter = 0xC000000D,
    kNoMemory = 0xC0000017,
    kIllegalInstruction = 0xC000001D,
    kAccessDenied = 0xC0000022,
    kBufferTooSmall = 0xC0000023,
    kObjectNameNotFound = 0xC0000034,
    kRevisionMismatch = 0xC0000059,
    kPrivilegeNotHeld = 0xC0000061,
    kInvalidImageFormat = 0xC000007B,
    kIntegerOverflow = 0xC0000095,
    kPrivilegedInstruction = 0xC0000096,
    kInsufficientResources = 0xC000009A,
    kNotSupported = 0xC00000BB,
    kInvalidUserBuffer = 0xC00000E8,
    kCancelled = 0xC0000120,
    kDeviceConfigurationError = 0xC0000182,
    kRetry = 0xC000022D,
    kDeviceRemoved = 0xC00002B6,
    kGraphicsNotExclusiveModeOwner = 0xC01E0000,
    kGraphicsInsufficientDmaBuffer = 0xC01E0001,
    kGraphicsCannotColorConvert = 0xC01E0008,
    kGraphicsDriverMismatch = 0xC01E0009,
    kGraphicsNoVideoMemory = 0xC01E0100,
    kGraphicsAllocationBusy = 0xC01E0102,
    kGraphicsTooManyReferences = 0xC01E0103,
    kGraphicsAllocationInvalid = 0xC01E0106,
    kGraphicsUnswizzlingApertureUnavailable = 0xC01E0107,
    kGraphicsCantEvictPinnedAllocation = 0xC01E0109,
    kGraphicsGpuExceptionOnDevice = 0xC01E0200,
};

/// True for every success-class or informational code: STATUS_PENDING and STATUS_TIMEOUT included.
constexpr bool is_success(Status status) { return static_cast<int32_t>(status) >= 0; }

/// The ABI's number for a status. Only the edge (port, thunks, nt) needs it.
constexpr int32_t to_ntstatus(Status status) { return static_cast<int32_t>(status); }
constexpr Status from_ntstatus(int32_t value) {
  return static_cast<Status>(static_cast<uint32_t>(value));
}

/// "STATUS_INVALID_PARAMETER"; "STATUS_0xC0001234" style text is the caller's job for unknown
/// codes, which give an empty view.
std::string_view status_name(Status status);

/// A value or the status that says why there is none.
template <typename T>
using Result = std::expected<T, Status>;
using Error = std::unexpected<Status>;

}  // namespace dxgkit

/// Evaluates `expr` (a Result<T>), returns its error from the enclosing function, else binds the
/// value.
#define DXGKIT_ASSIGN_OR_RETURN(declaration, expr) \
  DXGKIT_ASSIGN_OR_RETURN_IMPL(DXGKIT_CONCAT(result_, __LINE__), declaration, expr)
#define DXGKIT_CONCAT_INNER(a, b) a##b
#define DXGKIT_CONCAT(a, b) DXGKIT_CONCAT_INNER(a, b)
#define DXGKIT_ASSIGN_OR_RETURN_IMPL(temporary, declaration, expr)       \
  auto temporary = (expr);                                               \
  if (!temporary.has_value()) return ::dxgkit::Error(temporary.error()); \
  declaration = std::move(*temporary)

/// As DXGKIT_ASSIGN_OR_RETURN, inside a function that returns a plain Status.
#define DXGKIT_ASSIGN_OR_RETURN_STATUS(declaration, expr) \
  DXGKIT_ASSIGN_OR_RETURN_STATUS_IMPL(DXGKIT_CONCAT(result_, __LINE__), declaration, expr)
#define DXGKIT_ASSIGN_OR_RETURN_STATUS_IMPL(temporary, declaration, expr) \
  auto temporary = (expr);                                                \
  if (!temporary.has_value()) return temporary.error();                   \
  declaration = std::move(*temporary)

/// Evaluates `expr` (a Status) and returns it from the enclosing function unless it is a success.
#define DXGKIT_RETURN_IF_FAILED(expr)                                 \
  do {                                                                \
    const ::dxgkit::Status status_of_expr = (expr);                   \
    if (!::dxgkit::is_success(status_of_expr)) return status_of_expr; \
  } while (false)

/// As DXGKIT_RETURN_IF_FAILED, inside a function that returns a Result.
#define DXGKIT_RETURN_ERROR_IF_FAILED(expr)                                            \
  do {                                                                                 \
    const ::dxgkit::Status status_of_expr = (expr);                                    \
    if (!::dxgkit::is_success(status_of_expr)) return ::dxgkit::Error(status_of_expr); \
  } while (false)
