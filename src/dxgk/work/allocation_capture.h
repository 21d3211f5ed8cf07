// The allocation list of a pass: what the client named, and where it is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/work/command_memory.h"
#include "dxgk/work/packet.h"
#include "dxgk/work/render_turn.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Device;

/// An entry of the list, found.
struct CapturedAllocation {
  OpenedAllocation* opened = nullptr;  // null: a NULL entry
  bool write = false;
  bool on_screen = false;  // of a present: the kernel sees to its place
};

/// The allocation list of one context's pass. Allocations that a client lists are alive while the
/// lane is held, and are looked up again for each pass. The caller keeps those alive that the
/// kernel lists itself.
class AllocationCapture {
 public:
  explicit AllocationCapture(Device& device) : device_(device) {}

  /// The client's list, to be filled in before `capture_list`.
  std::vector<ClientAllocation>& client_list() DXGKIT_REQUIRES(in_turn) { return client_list_; }
  /// Finds the allocations that the client's list names. Most lists are equal to the one before,
  /// and nothing has happened to its allocations; then nothing is looked up. kInvalidParameter
  /// (REND-05, THUNK-03), kInvalidHandle (REND-04), kAccessDenied (THUNK-24), or as
  /// check_captured().
  Status capture_list() DXGKIT_REQUIRES(on_lane) DXGKIT_REQUIRES(in_turn);
  /// The kernel's own list (REND-17).
  void set(std::span<const CapturedAllocation> list) DXGKIT_REQUIRES(in_turn);
  void clear() DXGKIT_REQUIRES(in_turn) { captured_.clear(); }
  /// The listed allocations may be used now. kInvalidHandle, kGraphicsAllocationInvalid (DISP-17),
  /// kInvalidParameter (offered); kDeviceRemoved, with the device in error: one is not resident
  /// (RES-25).
  Status check_captured() DXGKIT_REQUIRES(on_lane) DXGKIT_REQUIRES(in_turn);
  /// Puts the list into a buffer, with the places of now (REND-06), and counts as a use of each.
  void fill(DmaBuffer& buffer) DXGKIT_REQUIRES(on_lane) DXGKIT_REQUIRES(in_turn);

 private:
  Status find_allocations() DXGKIT_REQUIRES(in_turn);
  /// `entries_` from `captured_`.
  void list_places() DXGKIT_REQUIRES(on_lane) DXGKIT_REQUIRES(in_turn);

  Device& device_;
  std::vector<ClientAllocation> client_list_ DXGKIT_GUARDED_BY(in_turn);
  // What the list of the last pass named. Alive and valid while AdapterCore::listing_changes() is
  // what it was then; 0: not to be used again.
  std::vector<CapturedAllocation> captured_ DXGKIT_GUARDED_BY(in_turn);
  std::vector<ClientAllocation> captured_list_ DXGKIT_GUARDED_BY(in_turn);
  uint64_t captured_as_of_ DXGKIT_GUARDED_BY(in_turn) = 0;
  // As a driver gets it, with the places as of that plan of the memory manager; 0: of none.
  std::vector<port::AllocationListEntry> entries_ DXGKIT_GUARDED_BY(in_turn);
  uint64_t entries_as_of_ DXGKIT_GUARDED_BY(in_turn) = 0;
};

}  // namespace dxgkit::dxgk
