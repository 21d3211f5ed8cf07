// Memory that a driver of a virtio GPU has written, of which no byte is to be trusted: rings and
// chains of both queues, register writes, and commands of 2D and 3D. Whatever it is, limits hold,
// and a reset gives everything back. The renderer behind 3D answers what the input says: it may
// refuse, leave, and send nonsense, and it is asked only about what there is.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "devices/virtio/registers.h"
#include "devices/virtio/test_ring.h"
#include "devices/virtiogpu/fake_renderer.h"
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

/// False: the device wants a reset.
bool execute(virtiogpu::Gpu& gpu, virtio::Memory& memory, uint16_t queue,
             const virtio::Chain& chain) {
  virtio::Request request(memory, chain);
  demand(gpu.time_of(queue, request) > 0);
  gpu.execute(queue, request);
  demand(request.written() <= chain.writable_bytes);
  demand(request.failure().empty() || request.written() == 0);
  look(gpu);
  return request.failure().empty();
}

/// Checks each question against what was asked before.
class HostileRenderer {
 public:
  HostileRenderer(std::span<const std::byte> input, virtiogpu::Renderers renderers)
      : input_(input), renderers_(renderers) {}

  std::unique_ptr<virtiogpu::Rendering> make() {
    std::vector<virtiogpu::Capset> capsets = {{.id = 1, .version_most = 1, .bytes_most = 300},
                                              {.id = 2, .version_most = 2, .bytes_most = 1000}};
    auto fake = std::make_unique<virtiogpu::FakeRenderer>(std::move(capsets));
    fake->respond = [this](const virtiogpu::Question& question, virtiogpu::Answer* answer) {
      return respond(question, answer);
    };
    fake_ = fake.get();
    return std::make_unique<virtiogpu::Rendering>(
        std::move(fake),
        [](uint64_t address, uint64_t bytes) -> std::optional<uint64_t> {
          if (address < kBase || address - kBase > kMemoryBytes) return std::nullopt;
          if (bytes > kMemoryBytes - (address - kBase)) return std::nullopt;
          return address - kBase;
        },
        renderers_);
  }
  void forget() {
    contexts_.clear();
    resources_.clear();
  }

 private:
  bool respond(const virtiogpu::Question& question, virtiogpu::Answer* answer) {
    demand(question.bytes <= virtiogpu::kMailboxBytes);
    const auto says = next();
    const bool refuses = says % 8 == 1;
    if (says % 32 == 2) return false;
    answer->bytes = right_bytes(question);
    if (says % 8 == 3) answer->bytes = uint32_t{next()} * 500;
    answer->error = refuses ? (says % 16 == 1 ? ENOMEM : EINVAL) : 0;
    // Of one for each, one may be lost alone: what it knew is not known here.
    if (renderers_ == virtiogpu::Renderers::kOne) look(question, !refuses);
    fake_->asked.clear();
    return true;
  }
  uint8_t next() {
    if (at_ >= input_.size()) return 0;
    return std::to_integer<uint8_t>(input_[at_++]);
  }
  static uint32_t right_bytes(const virtiogpu::Question& question) {
    if (question.ask == virtiogpu::Ask::kRead) return question.stride * question.box.height;
    if (question.ask == virtiogpu::Ask::kCapset) return question.number == 1 ? 300 : 1000;
    return 0;
  }
  void look(const virtiogpu::Question& question, bool is_done) {
    using virtiogpu::Ask;
    const uint32_t context = question.context, resource = question.resource;
    switch (question.ask) {
      case Ask::kCreateContext:
        demand(context != 0 && !contexts_.contains(context) && question.bytes <= 64);
        if (is_done) contexts_[context] = {};
        break;
      case Ask::kDestroyContext:
        demand(contexts_.erase(context) == 1);
        break;
      case Ask::kAttach:
        demand(contexts_.contains(context) && resources_.contains(resource));
        if (is_done) contexts_[context].insert(resource);
        break;
      case Ask::kDetach:
        demand(contexts_.contains(context) && contexts_[context].erase(resource) == 1);
        break;
      case Ask::kCreateResource:
        demand(resource != 0 && !resources_.contains(resource));
        if (is_done) resources_[resource] = false;
        break;
      case Ask::kUnref:
        demand(resources_.erase(resource) == 1);
        for (auto& [id, attached] : contexts_) attached.erase(resource);
        break;
      case Ask::kAttachBacking:
        demand(resources_.contains(resource) && !resources_[resource] && question.bytes != 0);
        for (uint32_t at = 0; at < question.bytes; at += sizeof(virtiogpu::MemoryRange)) {
          virtiogpu::MemoryRange range;
          std::memcpy(&range, fake_->mailbox().data() + at, sizeof range);
          demand(range.bytes != 0 && range.offset <= kMemoryBytes);
          demand(range.bytes <= kMemoryBytes - range.offset);
        }
        if (is_done) resources_[resource] = true;
        break;
      case Ask::kDetachBacking:
        demand(resources_.contains(resource) && resources_[resource]);
        resources_[resource] = false;
        break;
      case Ask::kToHost:
      case Ask::kFromHost:
        demand(resources_.contains(resource) && resources_[resource]);
        demand(context == 0 || contexts_[context].contains(resource));
        break;
      case Ask::kSubmit:
        demand(contexts_.contains(context) && question.bytes % 4 == 0);
        break;
      case Ask::kRead:
        demand(resources_.contains(resource) && question.box.depth == 1);
        demand(uint64_t{question.stride} * question.box.height <= virtiogpu::kMailboxBytes);
        break;
      case Ask::kStart:
      case Ask::kCapset:
      case Ask::kFinish:
        break;
    }
  }

  std::span<const std::byte> input_;
  const virtiogpu::Renderers renderers_;
  size_t at_ = 0;
  virtiogpu::FakeRenderer* fake_ = nullptr;
  std::map<uint32_t, std::set<uint32_t>> contexts_;  // and what is attached
  std::map<uint32_t, bool> resources_;               // of 3D; whether they have backing
};

/// The input is the memory: descriptors, both rings, and what the chains name.
void serve_rings(std::span<const std::byte> input, uint8_t flags) {
  virtio::FlatMemory memory(kBase, kMemoryBytes);
  memory.write(kBase, input.first(std::min(input.size(), kMemoryBytes)));
  HostileRenderer renderer(input.last(std::min<size_t>(input.size(), 64)),
                           virtiogpu::Renderers::kOne);
  virtiogpu::Gpu gpu(config(), (flags & 16) != 0 ? renderer.make() : nullptr);
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
    if (!execute(gpu, memory, (flags & 8) != 0 ? VGPU_QUEUE_CURSOR : VGPU_QUEUE_CONTROL, chain))
      break;
    if (!queue.give_back(chain.head, 0).has_value()) break;
  }
  gpu.reset();
  demand(gpu.memory_used() == 0);
  demand(gpu.resource_count() == 0);
}

/// The input is what a renderer says it can do.
void read_capsets(std::span<const std::byte> input) {
  static std::vector<std::byte> mailbox(virtiogpu::kMailboxBytes);
  virtiogpu::Answer answer;
  if (input.size() < sizeof answer.bytes) return;
  std::memcpy(&answer.bytes, input.data(), sizeof answer.bytes);
  answer.bytes %= virtiogpu::kMailboxBytes + 1;
  std::memcpy(mailbox.data(), input.data(), std::min(input.size(), mailbox.size()));
  const auto capsets = virtiogpu::read_capsets(answer, mailbox);
  if (!capsets.has_value()) return;
  demand(!capsets->empty() && capsets->size() <= virtiogpu::kCapsetsMost);
  for (const virtiogpu::Capset& capset : *capsets)
    demand(capset.bytes_most != 0 && capset.bytes_most <= virtiogpu::kCapsetBytesMost);
}

/// The input is commands: which one, then the rest of its structure; the lists of pages point into
/// the memory that the input itself fills.
void send_commands(std::span<const std::byte> input, bool is_3d, virtiogpu::Renderers renderers) {
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
                   {VGPU_MOVE_CURSOR, sizeof(VgpuCursor)},
                   // The rest is of 3D.
                   {VGPU_GET_CAPSET_INFO, sizeof(VgpuGetCapsetInfo)},
                   {VGPU_GET_CAPSET, sizeof(VgpuGetCapset)},
                   {VGPU_CTX_CREATE, sizeof(VgpuCreateContext)},
                   {VGPU_CTX_DESTROY, sizeof(VgpuContext)},
                   {VGPU_CTX_ATTACH_RESOURCE, sizeof(VgpuContextResource)},
                   {VGPU_CTX_DETACH_RESOURCE, sizeof(VgpuContextResource)},
                   {VGPU_RESOURCE_CREATE_3D, sizeof(VgpuCreate3D)},
                   {VGPU_TRANSFER_TO_HOST_3D, sizeof(VgpuTransfer3D)},
                   {VGPU_TRANSFER_FROM_HOST_3D, sizeof(VgpuTransfer3D)},
                   {VGPU_SUBMIT_3D, sizeof(VgpuSubmit) + 8}};
  constexpr size_t kCommands2D = 11;
  const size_t count = is_3d ? std::size(kCommands) : kCommands2D;
  virtio::FlatMemory memory(kBase, kMemoryBytes);
  memory.write(kBase, input.first(std::min(input.size(), kMemoryBytes)));
  HostileRenderer renderer(input.last(std::min<size_t>(input.size(), 64)), renderers);
  virtiogpu::Gpu gpu(config(), is_3d ? renderer.make() : nullptr);
  while (!input.empty()) {
    const auto which = std::to_integer<uint8_t>(input[0]);
    input = input.subspan(1);
    const auto& command = kCommands[which % count];
    // Values of one byte are what most fields need; the upper half of `which` asks for whole words.
    const uint32_t body = command.bytes - static_cast<uint32_t>(sizeof(VgpuHeader));
    std::vector<std::byte> bytes(command.bytes);
    std::memcpy(bytes.data(), &command.type, sizeof command.type);
    const bool is_whole = which >= 128;
    if (is_3d && !input.empty()) {  // fence, and one of four contexts
      const auto word = std::to_integer<uint32_t>(input[0]);
      VgpuHeader header = {};
      header.type = command.type;
      header.flags = word >> 4 & 3;
      header.context_id = word & 3;
      header.ring = (word & 0xC8) == 0xC8 ? 1 : 0;
      std::memcpy(bytes.data(), &header, sizeof header);
      input = input.subspan(1);
    }
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
    if (!execute(gpu, memory, is_cursor ? VGPU_QUEUE_CURSOR : VGPU_QUEUE_CONTROL, chain)) {
      gpu.interrupt();
      gpu.reset();
      renderer.forget();
      continue;
    }
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
    (data[0] & 4) != 0 && data[0] >= 128 ? read_capsets(input) : write_registers(input);
  } else {
    send_commands(input, (data[0] & 4) != 0,
                  (data[0] & 8) != 0 ? virtiogpu::Renderers::kEach : virtiogpu::Renderers::kOne);
  }
  return 0;
}
