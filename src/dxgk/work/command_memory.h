// Memory that a client fills with commands and lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "dxgk/core/client_quota.h"
#include "port/types.h"

namespace dxgkit::dxgk {

/// One entry of a client's allocation list: D3DDDI_ALLOCATIONLIST, same 8 bytes.
struct ClientAllocation {
  uint32_t handle = 0;
  uint32_t flags = 0;  // bit 0: WriteOperation; higher bits: offer hints, ignored on this path;
                       // reserved from bit 5
};
static_assert(sizeof(ClientAllocation) == 8);

/// Memory the client fills and D3DKMTRender reads: the command buffer and the two lists of a legacy
/// context (THUNK-14).
struct ClientBuffers {
  std::byte* command = nullptr;
  uint32_t command_bytes = 0;
  ClientAllocation* allocations = nullptr;
  uint32_t allocation_count = 0;
  port::PatchLocation* patches = nullptr;
  uint32_t patch_count = 0;
};

/// Owns the buffers of one context. In its turn.
class CommandMemory {
 public:
  static constexpr uint32_t kMaxCommandBytes = 4U << 20;
  static constexpr uint32_t kMaxListEntries = 1U << 16;

  /// New buffers, all zero, in place of those there were. kNoMemory: those stay.
  /// @param quota  whose memory they are; null: nobody counts them
  Status allocate(uint32_t command_bytes, uint32_t allocations, uint32_t patches,
                  const std::shared_ptr<ClientQuota>& quota = nullptr);
  /// All null before the first `allocate`.
  const ClientBuffers& buffers() const { return buffers_; }

 private:
  std::unique_ptr<std::byte[]> commands_;
  std::unique_ptr<ClientAllocation[]> allocations_;
  std::unique_ptr<port::PatchLocation[]> patches_;
  ClientBuffers buffers_;
  MemoryCharge charge_;
};

}  // namespace dxgkit::dxgk
