// Walking the frames of driver code by the x64 exception directory (.pdata, UNWIND_INFO).
//
// This code trusts neither an image nor a stack: all reads are guarded, all loops are bounded. Any
// thread. Allocates nothing, so it can run on a driver's small stack.
#pragma once

#include <cstdint>

#include "nt/context.h"
#include "nt/kernel.h"

namespace dxgkit::nt {

/// RUNTIME_FUNCTION; addresses are relative to the image.
struct FunctionEntry {
  uint32_t begin = 0, end = 0, unwind = 0;
};
static_assert(sizeof(FunctionEntry) == 12);

/// The kind of handlers that virtual_unwind looks for; the bits of UNWIND_INFO.
inline constexpr uint8_t kExceptionHandler = 1, kUnwindHandler = 2;

/// The entry that covers `pc`, as it lies in the image. Null for a leaf function, and for an
/// address without code of the image.
const FunctionEntry* find_function(const DriverImage& image, uint64_t pc);

/// The frame that virtual_unwind left.
struct UnwoundFrame {
  uint64_t establisher = 0;            // the frame's address as its handlers know it
  ExceptionRoutine handler = nullptr;  // null: none of the kind asked for applies at this pc
  const void* handler_data = nullptr;  // the data behind the handler in UNWIND_INFO
};

/// KNONVOLATILE_CONTEXT_POINTERS: the places where the registers of a frame were saved.
struct SavedPlaces {
  std::array<uint64_t*, 16> floating = {};
  std::array<uint64_t*, 16> general = {};
};

/// Leaves the frame of `context`. On return `context` is the caller's, right after its call.
///
/// False if the unwind data or the stack make no sense; `context` is then undefined. `places` may
/// be null.
bool virtual_unwind(const DriverImage& image, const FunctionEntry* function, uint8_t handler_kind,
                    Context& context, UnwoundFrame* frame, SavedPlaces* places = nullptr);

}  // namespace dxgkit::nt
