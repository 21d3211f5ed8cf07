// Clients with explicit residency: a WDDM 2.0 driver that patches, with little memory.
#pragma once

#include <initializer_list>
#include <vector>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {

inline constexpr uint64_t kUnit = 64 * kKibibyte;
inline constexpr uint32_t kMemoryUnits = 16;  // what the memory segment holds
inline constexpr uint32_t kMemorySet = 1, kApertureSet = 2;
inline constexpr D3DDDI_MAKERESIDENT_FLAGS kNoFlags{};

/// One memory segment of kMemoryUnits units the CPU cannot see, one aperture segment.
void explicit_residency(ScriptedMiniport& miniport);

D3DDDI_MAKERESIDENT_FLAGS cant_trim(bool must_succeed = false);

/// A paging queue as its client sees it.
struct Queue {
  D3DKMT_HANDLE handle = 0, fence = 0;
  void* address = nullptr;
  uint64_t value() const;
};

/// A client that lists what it needs.
struct ListingClient : Client {
  explicit ListingClient(Stack& stack_in, const char* name = "client") : Client(stack_in, name) {
    queue = make_queue();
  }
  Queue queue;

  NTSTATUS create_queue(Queue* out, int priority = 0, UINT physical_adapter = 0,
                        D3DKMT_HANDLE on = 0);
  Queue make_queue(int priority = 0);
  NTSTATUS destroy_queue(D3DKMT_HANDLE which);
  /// In the memory segment only, `units` wide.
  D3DKMT_HANDLE make(uint64_t units) { return make_allocation(units * kUnit, kMemorySet); }
  /// The whole structure comes back; `status` is the call's.
  D3DDDI_MAKERESIDENT make_resident(std::vector<D3DKMT_HANDLE> list, NTSTATUS* status,
                                    D3DDDI_MAKERESIDENT_FLAGS flags = {}, D3DKMT_HANDLE on = 0);
  NTSTATUS make_resident(std::vector<D3DKMT_HANDLE> list, D3DDDI_MAKERESIDENT_FLAGS flags = {});
  NTSTATUS evict(std::vector<D3DKMT_HANDLE> list, UINT flags = 0, uint64_t* trim = nullptr);
  D3DKMT_QUERYVIDEOMEMORYINFO memory(
      D3DKMT_MEMORY_SEGMENT_GROUP group = D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL);
  D3DKMT_ALLOCATIONRESIDENCYSTATUS where(D3DKMT_HANDLE allocation);
  bool in_memory(D3DKMT_HANDLE allocation) {
    return where(allocation) == D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY;
  }
};

}  // namespace dxgkit::contract
