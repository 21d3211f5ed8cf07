// What a context queues: one submission of (a slice of) a DMA buffer, or a wait or signal of sync
// objects.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "dxgk/core/id_table.h"
#include "dxgk/core/object.h"
#include "dxgk/memory/dma_buffer.h"
#include "dxgk/memory/residency.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"
#include "vidmm/memory_manager.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

class Context;

/// What a context with virtual addressing submits: the client's own buffer, at an address of its
/// process's space.
struct VirtualCommand {
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint32_t user_private_bytes = 0;      // the client's part
  uint64_t progress_fence = 0;          // of a hardware queue: the value that tells it is done
  std::vector<std::byte> private_data;  // of the size the context was created with (SUB-32)
};

/// Lane: the adapter's.
struct Packet {
  PacketId id;
  vidsch::PacketKind kind = vidsch::PacketKind::kRender;
  Context* context =
      nullptr;  // kept alive by the context's packet count; null for system paging packets
  void* driver_context = nullptr;
  DmaBuffer* buffer = nullptr;
  port::Slice slice;
  uint32_t patch_start = 0, patch_length = 0;
  port::PacketFlags flags;
  std::vector<vidmm::Use> uses;  // what must be resident: pinned from prepare to retirement
  uint32_t own_uses = 0;         // the first of them are its context's allocations (RES-29)
  bool pinned = false;
  PacketResidency residency;
  std::vector<vidsch::SyncPoint> points;  // kWait, kSignal
  bool at_submission = false;             // kSignal
  std::shared_ptr<vidsch::Broadcast> broadcast;
  VirtualCommand command;  // kRender of a context with virtual addressing
  // A flip: what waits for this packet (kSignal), or is done by it (flags.flip).
  uint64_t flip = 0;
  uint32_t vidpn_source = 0, flip_interval = 0;
  bool counts_as_present = false;  // against its device's limit (SCHED-16)
  int64_t submitted_ns = 0;        // the last time
  uint64_t number = 0;             // on hardware: how many its node has been given with it, from 1
  // With flags.context_switch: where, and which of the two submission DDIs (SUB-24).
  NodeOrdinal switched_node;
  bool switches_virtual = false;

  /// Back to the initial state, keeping storage for the next packet in this slot.
  void recycle() {
    uses.clear();
    std::vector<vidmm::Use> kept = std::move(uses);
    std::vector<std::byte> private_data = std::move(command.private_data);
    *this = Packet{};
    uses = std::move(kept);
    command.private_data = std::move(private_data);
  }
};

}  // namespace dxgkit::dxgk
