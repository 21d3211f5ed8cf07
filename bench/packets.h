// Packets with patch locations and allocations, as many under way as there is room for.
#pragma once

#include <array>
#include <cstring>

#include "bench/null_world.h"
#include "miniports/softgpu/commands.h"

namespace dxgkit::bench {

inline constexpr uint32_t kPackets = 128;  // per batch
inline constexpr uint32_t kPatches = 64;   // per packet: a field of eight bytes each
inline constexpr uint32_t kAllocations = 16;
inline constexpr uint32_t kContexts = 4;

/// What a client hands over: commands with a field for each address, and where those go.
struct PacketCommands {
  std::array<uint64_t, kPatches> fields{};
  std::array<D3DDDI_PATCHLOCATIONLIST, kPatches> patches{};
};

inline PacketCommands packet_commands() {
  PacketCommands commands;
  for (uint32_t i = 0; i < kPatches; ++i) {
    D3DDDI_PATCHLOCATIONLIST& patch = commands.patches[i];
    patch = {};
    patch.AllocationIndex = i % kAllocations;
    patch.SlotId = i % softgpu::kSlots;
    patch.AllocationOffset = 64 * i;
    patch.PatchOffset = static_cast<UINT>(i * sizeof(uint64_t));
    patch.SplitOffset = patch.PatchOffset;
  }
  return commands;
}

struct Pipeline : NullWorld {
  explicit Pipeline(runtime::Runtime& os) : NullWorld(os) {
    for (uint32_t i = 0; i < kAllocations && world.error().empty(); ++i) {
      uint64_t unused = 0;
      allocations[i] = world.create_allocation(&unused, sizeof(unused));
    }
    for (uint32_t i = 0; i < kContexts && world.error().empty(); ++i) {
      world.create_context(0, &contexts[i]);
      fences[i] = world.create_fence();
    }
  }
  void run(uint32_t packets) {
    for (uint32_t i = 0; i < packets; ++i) {
      World::Context& context = contexts[i % kContexts];
      std::memcpy(context.commands, commands.fields.data(), sizeof(commands.fields));
      std::memcpy(context.patches, commands.patches.data(), sizeof(commands.patches));
      for (uint32_t k = 0; k < kAllocations; ++k) {
        context.allocations[k] = {};
        context.allocations[k].hAllocation = allocations[k];
        context.allocations[k].WriteOperation = 1;
      }
      DXGKIT_CHECK(world.render(context, sizeof(commands.fields), kAllocations, kPatches));
    }
    ++value;
    for (uint32_t i = 0; i < kContexts; ++i)
      DXGKIT_CHECK(world.signal(contexts[i], fences[i], value));
    for (uint32_t i = 0; i < kContexts; ++i) DXGKIT_CHECK(world.wait(fences[i], value));
  }

  const PacketCommands commands = packet_commands();
  std::array<D3DKMT_HANDLE, kAllocations> allocations{};
  std::array<World::Context, kContexts> contexts;
  std::array<D3DKMT_HANDLE, kContexts> fences{};
  uint64_t value = 0;
};

}  // namespace dxgkit::bench
