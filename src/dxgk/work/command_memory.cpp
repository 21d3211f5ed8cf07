#include "dxgk/work/command_memory.h"

#include <new>
#include <utility>

namespace dxgkit::dxgk {

Status CommandMemory::allocate(uint32_t command_bytes, uint32_t allocations, uint32_t patches,
                               const std::shared_ptr<ClientQuota>& quota) {
  const uint64_t bytes = command_bytes + uint64_t{allocations} * sizeof(ClientAllocation) +
                         uint64_t{patches} * sizeof(port::PatchLocation);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(MemoryCharge charge, MemoryCharge::take(quota, bytes));
  auto command = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[command_bytes]());
  auto allocation_list =
      std::unique_ptr<ClientAllocation[]>(new (std::nothrow) ClientAllocation[allocations]());
  auto patch_list =
      std::unique_ptr<port::PatchLocation[]>(new (std::nothrow) port::PatchLocation[patches]());
  if (!command || !allocation_list || !patch_list) return Status::kNoMemory;
  charge_ = std::move(charge);
  commands_ = std::move(command);
  allocations_ = std::move(allocation_list);
  patches_ = std::move(patch_list);
  buffers_ = {commands_.get(), command_bytes,  allocations_.get(),
              allocations,     patches_.get(), patches};
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
