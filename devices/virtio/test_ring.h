// The driver's side of a virtqueue, for tests: plain, and able to write anything.
#pragma once

#include <cstring>
#include <vector>

#include "devices/virtio/memory.h"
#include "devices/virtio/virtio_hw.h"
#include "devices/virtio/virtqueue.h"

namespace dxgkit::virtio {

/// Memory from an address on; nothing is elsewhere.
class FlatMemory final : public Memory {
 public:
  FlatMemory(uint64_t base, size_t size) : base_(base), bytes_(size) {}
  bool read(uint64_t address, std::span<std::byte> to) override {
    if (address - base_ > bytes_.size() || to.size() > bytes_.size() - (address - base_))
      return false;
    std::memcpy(to.data(), bytes_.data() + (address - base_), to.size());
    return true;
  }
  bool write(uint64_t address, std::span<const std::byte> from) override {
    if (address - base_ > bytes_.size() || from.size() > bytes_.size() - (address - base_))
      return false;
    std::memcpy(bytes_.data() + (address - base_), from.data(), from.size());
    return true;
  }
  std::span<std::byte> bytes() { return bytes_; }

 private:
  uint64_t base_;
  std::vector<std::byte> bytes_;
};

struct TestDescriptor {
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint16_t flags = 0, next = 0;
};

/// A queue whose three areas begin at `base`, a page each.
class TestRing {
 public:
  TestRing(Memory& memory, uint64_t base, uint16_t size)
      : memory_(memory),
        layout_{.descriptors = base, .driver = base + 4096, .device = base + 8192, .size = size} {}

  const QueueLayout& layout() const { return layout_; }
  void put(uint16_t index, const TestDescriptor& descriptor) {
    memory_.store(layout_.descriptors + uint64_t{16} * index, descriptor);
  }
  /// Makes the chain that begins at `head` available.
  void offer(uint16_t head) {
    memory_.store(layout_.driver + 4 + uint64_t{2} * (index_ % layout_.size), head);
    set_index(static_cast<uint16_t>(index_ + 1));
  }
  void set_index(uint16_t index) {
    index_ = index;
    memory_.store(layout_.driver + 2, index);
  }
  void set_flags(uint16_t flags) { memory_.store(layout_.driver, flags); }
  void set_used_event(uint16_t at) {
    memory_.store(layout_.driver + 4 + uint64_t{2} * layout_.size, at);
  }
  uint16_t avail_event() const {
    return load<uint16_t>(layout_.device + 4 + uint64_t{8} * layout_.size);
  }
  uint16_t used_index() const { return load<uint16_t>(layout_.device + 2); }
  /// Chain and bytes of the n-th used entry.
  std::pair<uint32_t, uint32_t> used(uint16_t n) const {
    const uint64_t at = layout_.device + 4 + uint64_t{8} * (n % layout_.size);
    return {load<uint32_t>(at), load<uint32_t>(at + 4)};
  }
  /// A request in one descriptor, an answer in the next: descriptors `head` and `head` + 1.
  void offer_pair(uint16_t head, Piece request, Piece answer) {
    put(head, {request.address, request.bytes, VIRTQ_DESC_NEXT, static_cast<uint16_t>(head + 1)});
    put(static_cast<uint16_t>(head + 1), {answer.address, answer.bytes, VIRTQ_DESC_WRITE, 0});
    offer(head);
  }

 private:
  template <typename T>
  T load(uint64_t address) const {
    T value{};
    memory_.load(address, &value);
    return value;
  }
  Memory& memory_;
  const QueueLayout layout_;
  uint16_t index_ = 0;
};

}  // namespace dxgkit::virtio
