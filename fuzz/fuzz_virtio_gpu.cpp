// Memory that a driver of a virtio GPU has written, of which no byte is to be trusted: rings and
// chains of both queues, register writes, and commands. Whatever it is, limits hold, and a reset
// gives everything back.
#include <algorithm>
#include <cstring>

#include "devices/virtio/registers.h"
#include "devices/virtio/test_ring.h"
#include "devices/virtiogpu/gpu.h"
#include "fuzz/demand.h"

namespace {

using namespace dxgkit;
using fuzz::demand;

// Small, so that the input reaches all of it. Nothing is below.
constexpr uint64_t kBase = 0x1000;
constexpr size_t kMemoryBytes = 0x2000;
constexpr uint16_t kQueueSize = 8;
constexpr uint64_t kDriver = kBase + 16 * kQueueSize, kDevice = kDriver + 32,
                   kData = kDevice + 128;  // requests come behind it
constexpr int kChainsMost = 24;

virtiogpu::GpuConfig config() {
  return {.scanouts = 2, .modes = {{64, 64}}, .memory_bytes = 1 << 16, .resources = 8};
}

void look(virtiogpu::Gpu& gpu) {
  demand(gpu.memory_used() <= config().memory_bytes);
  demand(gpu.resource_count() <= config().resources);
  const bus::ScreenImage image = gpu.image();
  demand(image.pixels.size() == uint64_t{image.width} * image.height * 4);
}

void execute(virtiogpu::Gpu& gpu, virtio::Memory& memory, uint16_t queue,
             const virtio::Chain& chain) {
  virtio::Request request(memory, chain);
  demand(gpu.time_of(queue, request) > 0);
  gpu.execute(queue, request);
  demand(request.written() <= chain.writable_bytes);
  look(gpu);
}

/// The input is the memory: descriptors, both rings, and what the chains name.
void serve_rings(std::span<const std::byte> input, uint8_t flags) {
  virtio::FlatMemory memory(kBase, kMemoryBytes);
  memory.write(kBase, input.first(std::min(input.size(), kMemoryBytes)));
  virtiogpu::Gpu gpu(config());
  virtio::Virtqueue queue(
      memory, {.descriptors = kBase, .driver = kDriver, .device = kDevice, .size = kQueueSize},
      {.indirect = (flags & 2) != 0, .event_index = (flags & 4) != 0});
  for (int i = 0; i < kChainsMost; ++i) {
    const auto taken = queue.take();
    if (!taken.has_value()) {
      demand(!taken.error().empty());
      break;
    }
    if (!taken->has_value()) break;
    const virtio::Chain& chain = **taken;
    demand(chain.head < kQueueSize);
    demand(!chain.readable.empty() || !chain.writable.empty());
    demand(chain.readable.size() + chain.writable.size() <= kQueueSize);
    demand(chain.readable_bytes + chain.writable_bytes <= uint64_t{1} << 32);
    execute(gpu, memory, (flags & 8) != 0 ? VGPU_QUEUE_CURSOR : VGPU_QUEUE_CONTROL, chain);
    if (!queue.give_back(chain.head, 0).has_value()) break;
  }
  gpu.reset();
  demand(gpu.memory_used() == 0);
  demand(gpu.resource_count() == 0);
}

/// The input is commands: which one, then the rest of its structure; the lists of pages point into
/// the memory that the input itself fills.
void send_commands(std::span<const std::byte> input) {
  constexpr struct {
    uint32_t type;
    uint32_t bytes;
  } kCommands[] = {{VGPU_RESOURCE_CREATE_2D, sizeof(VgpuCreate2D)},
                   {VGPU_RESOURCE_UNREF, sizeof(VgpuResource)},
                   {VGPU_SET_SCANOUT, sizeof(VgpuSetScanout)},
                   {VGPU_RESOURCE_FLUSH, sizeof(VgpuFlush)},
                   {VGPU_TRANSFER_TO_HOST_2D, sizeof(VgpuTransfer)},
                   {VGPU_RESOURCE_ATTACH_BACKING, sizeof(VgpuAttach) + 2 * sizeof(VgpuEntry)},
                   {VGPU_RESOURCE_DETACH_BACKING, sizeof(VgpuResource)},
                   {VGPU_GET_EDID, sizeof(VgpuGetEdid)},
                   {VGPU_GET_DISPLAY_INFO, sizeof(VgpuHeader)},
                   {VGPU_UPDATE_CURSOR, sizeof(VgpuCursor)},
                   {VGPU_MOVE_CURSOR, sizeof(VgpuCursor)}};
  virtio::FlatMemory memory(kBase, kMemoryBytes);
  memory.write(kBase, input.first(std::min(input.size(), kMemoryBytes)));
  virtiogpu::Gpu gpu(config());
  while (!input.empty()) {
    const auto which = std::to_integer<uint8_t>(input[0]);
    input = input.subspan(1);
    const auto& command = kCommands[which % std::size(kCommands)];
    // Values of one byte are what most fields need; the upper half of `which` asks for whole words.
    const uint32_t body = command.bytes - static_cast<uint32_t>(sizeof(VgpuHeader));
    std::vector<std::byte> bytes(command.bytes);
    std::memcpy(bytes.data(), &command.type, sizeof command.type);
    const bool is_whole = which >= 128;
    for (uint32_t at = 0; at < body && !input.empty(); at += is_whole ? 1 : 4) {
      bytes[sizeof(VgpuHeader) + at] = input[0];
      input = input.subspan(1);
    }
    if (command.type == VGPU_RESOURCE_ATTACH_BACKING && !is_whole) {
      VgpuEntry entry{kData, 1 << 12, 0};
      std::memcpy(bytes.data() + sizeof(VgpuAttach), &entry, sizeof entry);
    }
    constexpr uint64_t kRequest = kBase + kMemoryBytes - 0x1000, kAnswer = kRequest + 0x800;
    memory.write(kRequest, bytes);
    virtio::Chain chain;
    chain.readable = {{kRequest, command.bytes}};
    chain.writable = {{kAnswer, 0x800}};
    chain.readable_bytes = command.bytes;
    chain.writable_bytes = 0x800;
    const bool is_cursor = command.type == VGPU_UPDATE_CURSOR || command.type == VGPU_MOVE_CURSOR;
    execute(gpu, memory, is_cursor ? VGPU_QUEUE_CURSOR : VGPU_QUEUE_CONTROL, chain);
    uint32_t answer = 0;
    memory.load(kAnswer, &answer);
    demand(answer >= VGPU_OK_NODATA && answer <= VGPU_ERR_INVALID_PARAMETER);
  }
  gpu.reset();
  demand(gpu.memory_used() == 0);
}

/// The input is register writes: offset, width, value.
void write_registers(std::span<const std::byte> input) {
  virtio::Registers registers(uint64_t{1} << VIRTIO_F_VERSION_1 | 3, {64, 16}, 3);
  while (input.size() >= 8) {
    uint16_t offset = 0;
    uint32_t value = 0;
    std::memcpy(&offset, input.data(), sizeof offset);
    std::memcpy(&value, input.data() + 3, sizeof value);
    const uint32_t bytes = 1U << (std::to_integer<uint32_t>(input[2]) & 3);
    registers.write(offset % 80, bytes, value);
    registers.read(offset, bytes);
    input = input.subspan(8);
    demand(registers.is_running() ? registers.has(VIRTIO_F_VERSION_1) : true);
    for (const virtio::QueueRegisters& queue : registers.queues()) {
      if (queue.enabled) demand(!virtio::layout_error(queue.layout, queue.size_most).has_value());
      demand(queue.vector < 3 || queue.vector == VIRTIO_NO_VECTOR);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto input = std::as_bytes(std::span(data, size)).subspan(1);
  if ((data[0] & 1) != 0) {
    serve_rings(input, data[0]);
  } else if ((data[0] & 2) != 0) {
    write_registers(input);
  } else {
    send_commands(input);
  }
  return 0;
}
