// Walking the frames of driver code by the x64 exception directory (.pdata, UNWIND_INFO).
//
// Nothing here trusts an image or a stack: all reads are guarded, all loops are bounded.
// Thread: any. Allocates nothing, so that it serves on a driver's small stack.
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

/// Which handlers virtual_unwind looks for; the bits of UNWIND_INFO.
inline constexpr uint8_t kExceptionHandler = 1, kUnwindHandler = 2;

/// The entry that covers `pc`, as it lies in the image, or null: a leaf function, or no code of the
/// image.
const FunctionEntry* find_function(const DriverImage& image, uint64_t pc);

/// What virtual_unwind found out about the frame it left.
struct UnwoundFrame {
  uint64_t establisher = 0;            // as the frame's handlers know it
  ExceptionRoutine handler = nullptr;  // null: none of the kind asked for applies at this pc
  const void* handler_data = nullptr;  // what follows the handler in UNWIND_INFO
};

/// KNONVOLATILE_CONTEXT_POINTERS: where the registers of a frame were saved.
struct SavedPlaces {
  std::array<uint64_t*, 16> floating = {};
  std::array<uint64_t*, 16> general = {};
};

/// Leaves the frame `context` stands in: on return it is the caller's, right after its call.
///
/// False if the unwind data or the stack make no sense; `context` is then undefined.
/// `places` may be null.
bool virtual_unwind(const DriverImage& image, const FunctionEntry* function, uint8_t handler_kind,
                    Context& context, UnwoundFrame* frame, SavedPlaces* places = nullptr);

}  // namespace dxgkit::nt
