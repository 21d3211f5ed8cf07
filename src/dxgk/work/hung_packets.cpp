#include "dxgk/work/hung_packets.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "dxgk/core/adapter_core.h"
#include "dxgk/memory/dma_buffer.h"
#include "dxgk/work/submission.h"
#include "dxgk/work/work_floor.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

using trace::emit;
using trace::EventKind;

void trace_patches(const Packet& packet) {
  const DmaBuffer& buffer = *packet.buffer;
  const uint32_t count = std::min(packet.patch_length, kHungPatchesMost);
  for (uint32_t i = packet.patch_start; i < packet.patch_start + count; ++i) {
    if (i >= buffer.patches.size()) return;
    const port::PatchLocation& patch = buffer.patches[i];
    const OpenedAllocation* const opened = patch.allocation_index < buffer.references.size()
                                               ? buffer.references[patch.allocation_index]
                                               : nullptr;
    emit(EventKind::kHungPatch, packet.id.value, patch.patch_offset,
         opened == nullptr ? 0 : opened->allocation->id.value, patch.allocation_offset);
  }
}

/// The driver wrote them: they are only read here, inside the buffer.
void trace_bytes(const Packet& packet) {
  const port::DmaBufferView& view = packet.buffer->view;
  const uint32_t end = std::min(packet.slice.end, view.size_bytes);
  if (view.cpu == nullptr || packet.slice.start >= end) return;
  const uint32_t bytes = std::min(end - packet.slice.start, kHungBytesMost);
  for (uint32_t at = 0; at < bytes; at += 16) {
    std::array<uint64_t, 2> words{};
    std::memcpy(words.data(), view.cpu + packet.slice.start + at,
                std::min<uint32_t>(bytes - at, 16));
    emit(EventKind::kHungBytes, packet.id.value, at, words[0], words[1]);
  }
}

}  // namespace

void trace_hung_packets(WorkFloor& floor, NodeOrdinal node) {
  static_assert(std::endian::native == std::endian::little);
  if (trace::current() == nullptr) return;
  const auto node_number = static_cast<uint16_t>(node.value);
  for (const auto& [id, fence] : floor.core.scheduler().packets_on(node)) {
    const Packet& packet = floor.submission->packets().at(id);
    if (packet.buffer == nullptr) {
      emit(EventKind::kHungBuffer, id.value, trace::kVirtual, packet.command.address,
           packet.command.bytes, node_number);
      continue;
    }
    const port::DmaBufferView& view = packet.buffer->view;
    emit(EventKind::kHungBuffer, id.value, view.segment.value,
         view.physical_address + packet.slice.start, packet.slice.end - packet.slice.start,
         node_number);
    trace_patches(packet);
    trace_bytes(packet);
  }
}

}  // namespace dxgkit::dxgk
