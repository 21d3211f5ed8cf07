#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/check.h"
#include "base/failed_check.h"
#include "base/status.h"

namespace dxgkit {
namespace {
std::atomic<LastWords> g_last_words{nullptr};
char g_failed_check[256];
std::atomic<bool> g_check_failed{false};
}  // namespace

void set_last_words(LastWords hook) { g_last_words.store(hook); }

const char* failed_check() {
  return g_check_failed.load(std::memory_order_acquire) ? g_failed_check : "";
}

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "dxgkit: internal error: CHECK(%s) failed at %s:%d\n", condition, file,
               line);
  static std::atomic<bool> writing{false};
  if (!writing.exchange(true)) {
    std::snprintf(g_failed_check, sizeof g_failed_check, "CHECK(%s) failed at %s:%d", condition,
                  file, line);
    g_check_failed.store(true, std::memory_order_release);
  }
  if (LastWords hook = g_last_words.exchange(nullptr)) hook();
  std::abort();
}

std::string_view status_name(Status status) {
  switch (status) {
    case Status::kSuccess:
      return "STATUS_SUCCESS";
    case Status::kTimeout:
      return "STATUS_TIMEOUT";
    case Status::kPending:
      return "STATUS_PENDING";
    case Status::kUnsuccessful:
      return "STATUS_UNSUCCESSFUL";
    case Status::kNotImplemented:
      return "STATUS_NOT_IMPLEMENTED";
    case Status::kAccessViolation:
      return "STATUS_ACCESS_VIOLATION";
    case Status::kInvalidHandle:
      return "STATUS_INVALID_HANDLE";
    case Status::kInvalidParameter:
      return "STATUS_INVALID_PARAMETER";
    case Status::kNoMemory:
      return "STATUS_NO_MEMORY";
    case Status::kIllegalInstruction:
      return "STATUS_ILLEGAL_INSTRUCTION";
    case Status::kAccessDenied:
      return "STATUS_ACCESS_DENIED";
    case Status::kBufferTooSmall:
      return "STATUS_BUFFER_TOO_SMALL";
    case Status::kObjectNameNotFound:
      return "STATUS_OBJECT_NAME_NOT_FOUND";
    case Status::kRevisionMismatch:
      return "STATUS_REVISION_MISMATCH";
    case Status::kPrivilegeNotHeld:
      return "STATUS_PRIVILEGE_NOT_HELD";
    case Status::kInvalidImageFormat:
      return "STATUS_INVALID_IMAGE_FORMAT";
    case Status::kIntegerOverflow:
      return "STATUS_INTEGER_OVERFLOW";
    case Status::kPrivilegedInstruction:
      return "STATUS_PRIVILEGED_INSTRUCTION";
    case Status::kInsufficientResources:
      return "STATUS_INSUFFICIENT_RESOURCES";
    case Status::kNotSupported:
      return "STATUS_NOT_SUPPORTED";
    case Status::kInvalidUserBuffer:
      return "STATUS_INVALID_USER_BUFFER";
    case Status::kCancelled:
      return "STATUS_CANCELLED";
    case Status::kDeviceConfigurationError:
      return "STATUS_DEVICE_CONFIGURATION_ERROR";
    case Status::kRetry:
      return "STATUS_RETRY";
    case Status::kDeviceRemoved:
      return "STATUS_DEVICE_REMOVED";
    case Status::kGraphicsNotExclusiveModeOwner:
      return "STATUS_GRAPHICS_NOT_EXCLUSIVE_MODE_OWNER";
    case Status::kGraphicsInsufficientDmaBuffer:
      return "STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER";
    case Status::kGraphicsCannotColorConvert:
      return "STATUS_GRAPHICS_CANNOTCOLORCONVERT";
    case Status::kGraphicsDriverMismatch:
      return "STATUS_GRAPHICS_DRIVER_MISMATCH";
    case Status::kGraphicsNoVideoMemory:
      return "STATUS_GRAPHICS_NO_VIDEO_MEMORY";
    case Status::kGraphicsAllocationBusy:
      return "STATUS_GRAPHICS_ALLOCATION_BUSY";
    case Status::kGraphicsTooManyReferences:
      return "STATUS_GRAPHICS_TOO_MANY_REFERENCES";
    case Status::kGraphicsAllocationInvalid:
      return "STATUS_GRAPHICS_ALLOCATION_INVALID";
    case Status::kGraphicsUnswizzlingApertureUnavailable:
      return "STATUS_GRAPHICS_UNSWIZZLING_APERTURE_UNAVAILABLE";
    case Status::kGraphicsCantEvictPinnedAllocation:
      return "STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION";
    case Status::kGraphicsGpuExceptionOnDevice:
      return "STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE";
  }
  return {};
}

}  // namespace dxgkit
