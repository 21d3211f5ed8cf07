#include "devices/virtio/virtqueue.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/arithmetic.h"
#include "devices/virtio/virtio_hw.h"

namespace dxgkit::virtio {
namespace {

std::unexpected<std::string> broken(std::string why) { return std::unexpected(std::move(why)); }

constexpr uint64_t kChainBytesMost = uint64_t{1} << 32;  // 2.7.5
constexpr uint64_t kRingIndex = 2;                       // offset of the index in both rings
constexpr uint64_t kRingEntries = 4;                     // offset of the first entry

/// Moves between `bytes` at `offset` of the pieces and a buffer: `move(address, done, length)`.
template <typename Move>
bool walk(std::span<const Piece> pieces, uint64_t offset, uint64_t bytes, const Move& move) {
  uint64_t done = 0;
  for (const Piece& piece : pieces) {
    if (done == bytes) break;
    if (offset >= piece.bytes) {
      offset -= piece.bytes;
      continue;
    }
    const uint64_t length = std::min(bytes - done, piece.bytes - offset);
    if (piece.address + offset < offset || !move(piece.address + offset, done, length))
      return false;
    done += length;
    offset = 0;
  }
  return done == bytes;
}

}  // namespace

bool Chain::read(Memory& memory, uint64_t offset, std::span<std::byte> to) const {
  if (!range_within(offset, to.size(), readable_bytes)) return false;
  return walk(readable, offset, to.size(), [&](uint64_t address, uint64_t done, uint64_t length) {
    return memory.read(address, to.subspan(done, length));
  });
}

bool Chain::write(Memory& memory, uint64_t offset, std::span<const std::byte> from) const {
  if (!range_within(offset, from.size(), writable_bytes)) return false;
  return walk(writable, offset, from.size(), [&](uint64_t address, uint64_t done, uint64_t length) {
    return memory.write(address, from.subspan(done, length));
  });
}

struct Virtqueue::Descriptor {
  uint64_t address;
  uint32_t bytes;
  uint16_t flags;
  uint16_t next;
};

Virtqueue::Virtqueue(Memory& memory, QueueLayout layout, QueueFeatures features)
    : memory_(memory), layout_(layout), features_(features) {
  static_assert(sizeof(Descriptor) == VIRTQ_DESC_BYTES);
}

std::expected<uint16_t, std::string> Virtqueue::available() {
  uint16_t index = 0;
  if (!memory_.load(layout_.driver + kRingIndex, &index))
    return broken("the driver area is no memory");
  // What the index promises is read after it.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (static_cast<uint16_t>(index - taken_) > layout_.size)
    return broken("the index of the driver area is " + std::to_string(index) + ", and only " +
                  std::to_string(layout_.size) + " chains can be available behind " +
                  std::to_string(taken_));
  return index;
}

std::expected<std::optional<Chain>, std::string> Virtqueue::take() {
  auto index = available();
  if (!index.has_value()) return broken(index.error());
  if (*index == taken_) {
    if (!features_.event_index) return std::nullopt;  // the driver notifies always
    // From here on the driver notifies for the next chain. It may have added one before it saw
    // that, so the index is read once more, behind a full barrier.
    if (!memory_.store(layout_.device + kRingEntries + uint64_t{8} * layout_.size, taken_))
      return broken("the device area is no memory");
    std::atomic_thread_fence(std::memory_order_seq_cst);
    index = available();
    if (!index.has_value()) return broken(index.error());
    if (*index == taken_) return std::nullopt;
  }
  uint16_t head = 0;
  const uint64_t slot = taken_ % layout_.size;
  if (!memory_.load(layout_.driver + kRingEntries + 2 * slot, &head))
    return broken("the driver area is no memory");
  ++taken_;
  auto chain = read_chain(head);
  if (!chain.has_value()) return broken(chain.error());
  return std::optional(std::move(*chain));
}

std::optional<std::string> Virtqueue::add(const Descriptor& descriptor, Chain* chain) const {
  const bool is_writable = (descriptor.flags & VIRTQ_DESC_WRITE) != 0;
  if (!is_writable && !chain->writable.empty())
    return "a descriptor that the device reads comes behind one that it writes";
  const Piece piece{descriptor.address, descriptor.bytes};
  if (is_writable) {
    chain->writable.push_back(piece);
    chain->writable_bytes += piece.bytes;
  } else {
    chain->readable.push_back(piece);
    chain->readable_bytes += piece.bytes;
  }
  if (chain->readable.size() + chain->writable.size() > layout_.size)
    return "a chain has more descriptors than the queue";  // or it is a loop
  if (chain->readable_bytes + chain->writable_bytes > kChainBytesMost)
    return "a chain has more than 2^32 bytes";
  return std::nullopt;
}

std::expected<Chain, std::string> Virtqueue::read_chain(uint16_t head) {
  Chain chain;
  chain.head = head;
  uint64_t table = layout_.descriptors;
  uint32_t entries = layout_.size;
  bool in_indirect = false;
  uint32_t index = head;
  while (true) {
    if (index >= entries)
      return broken("descriptor " + std::to_string(index) + " is named, of " +
                    std::to_string(entries));
    Descriptor descriptor{};
    if (!memory_.load(table + uint64_t{VIRTQ_DESC_BYTES} * index, &descriptor))
      return broken("descriptor " + std::to_string(index) + " is in no memory");
    if ((descriptor.flags & VIRTQ_DESC_INDIRECT) != 0) {
      if (!features_.indirect) return broken("indirect descriptors are not negotiated");
      if (in_indirect) return broken("an indirect table names another one");
      if ((descriptor.flags & VIRTQ_DESC_NEXT) != 0)
        return broken("a descriptor of an indirect table has a next one");
      if (descriptor.bytes == 0 || descriptor.bytes % VIRTQ_DESC_BYTES != 0)
        return broken("an indirect table has " + std::to_string(descriptor.bytes) +
                      " bytes, which are no whole descriptors");
      if (descriptor.address > UINT64_MAX - descriptor.bytes)
        return broken("an indirect table is in no memory");
      table = descriptor.address;
      entries = descriptor.bytes / VIRTQ_DESC_BYTES;
      in_indirect = true;
      index = 0;
      continue;
    }
    if (auto why = add(descriptor, &chain); why.has_value()) return broken(std::move(*why));
    if ((descriptor.flags & VIRTQ_DESC_NEXT) == 0) return chain;
    index = descriptor.next;
  }
}

std::expected<bool, std::string> Virtqueue::give_back(uint16_t head, uint32_t written) {
  struct Used {
    uint32_t id;
    uint32_t bytes;
  };
  const uint64_t slot = returned_ % layout_.size;
  if (!memory_.store(layout_.device + kRingEntries + sizeof(Used) * slot, Used{head, written}))
    return broken("the device area is no memory");
  const uint16_t before = returned_++;
  std::atomic_thread_fence(std::memory_order_release);  // the entry before the index
  if (!memory_.store(layout_.device + kRingIndex, returned_))
    return broken("the device area is no memory");
  // The driver writes its wish and then looks at the index; here it is the other way round.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  uint16_t wish = 0;
  const uint64_t at = features_.event_index ? kRingEntries + uint64_t{2} * layout_.size : 0;
  if (!memory_.load(layout_.driver + at, &wish)) return broken("the driver area is no memory");
  if (!features_.event_index) return (wish & VIRTQ_AVAIL_NO_INTERRUPT) == 0;
  // The index has stepped over the one that the driver waits for (2.7.7.2).
  return static_cast<uint16_t>(returned_ - wish - 1) < static_cast<uint16_t>(returned_ - before);
}

std::optional<std::string> layout_error(const QueueLayout& layout, uint16_t size_most) {
  if (!std::has_single_bit(layout.size) || layout.size > size_most)
    return "its size of " + std::to_string(layout.size) + " is no power of two of at most " +
           std::to_string(size_most);
  const struct {
    const char* name;
    uint64_t address, alignment, bytes;
  } areas[] = {{"descriptor", layout.descriptors, 16, uint64_t{VIRTQ_DESC_BYTES} * layout.size},
               {"driver", layout.driver, 2, VIRTQ_AVAIL_BYTES(layout.size)},
               {"device", layout.device, 4, VIRTQ_USED_BYTES(layout.size)}};
  for (const auto& area : areas) {
    if (area.address % area.alignment != 0 || area.address > UINT64_MAX - area.bytes)
      return std::string("its ") + area.name + " area is not aligned to " +
             std::to_string(area.alignment) + " bytes, or does not end in the address space";
  }
  return std::nullopt;
}

}  // namespace dxgkit::virtio
