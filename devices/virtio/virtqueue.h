// A split virtqueue (virtio 1.2, 2.7), from the device's side.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "devices/virtio/memory.h"

namespace dxgkit::virtio {

/// Where the three areas of a queue are, by bus address.
struct QueueLayout {
  uint64_t descriptors = 0;  // aligned to 16
  uint64_t driver = 0;       // available ring, aligned to 2
  uint64_t device = 0;       // used ring, aligned to 4
  uint16_t size = 0;         // descriptors: a power of two, at most VIRTQ_SIZE_MOST
};

/// What the driver has negotiated.
struct QueueFeatures {
  bool indirect = false;
  bool event_index = false;
};

struct Piece {
  uint64_t address = 0;
  uint32_t bytes = 0;
};

/// A chain of descriptors that the driver made available. Addresses are as the driver wrote them.
struct Chain {
  uint16_t head = 0;
  std::vector<Piece> readable, writable;
  uint64_t readable_bytes = 0, writable_bytes = 0;  // together less than 2^32 + 1

  /// Copies from the readable part, as if it were in one piece. False: the range is not all inside,
  /// or a piece is no memory; `to` may be filled in part.
  bool read(Memory& memory, uint64_t offset, std::span<std::byte> to) const;
  /// Copies to the writable part. False: as above, and a part may have been written.
  bool write(Memory& memory, uint64_t offset, std::span<const std::byte> from) const;
};

/// One queue. One thread at a time. Everything read from memory is hostile: an error is one
/// sentence that says what the driver has done, and the queue must not be used after it. Memory
/// that the driver writes meanwhile is read once.
class Virtqueue {
 public:
  /// `layout` is sound (see layout_error).
  Virtqueue(Memory& memory, QueueLayout layout, QueueFeatures features);

  /// Takes the chain that has been available for longest; nullopt: there is none. Then the driver
  /// notifies when it adds one.
  std::expected<std::optional<Chain>, std::string> take();
  /// Returns a chain, of whose writable part `written` bytes are new. True: the driver wants an
  /// interrupt.
  std::expected<bool, std::string> give_back(uint16_t head, uint32_t written);

 private:
  struct Descriptor;
  /// The index of the available ring.
  std::expected<uint16_t, std::string> available();
  std::expected<Chain, std::string> read_chain(uint16_t head);
  /// Adds what a descriptor names to the chain.
  std::optional<std::string> add(const Descriptor& descriptor, Chain* chain) const;

  Memory& memory_;
  const QueueLayout layout_;
  const QueueFeatures features_;
  uint16_t taken_ = 0;     // chains, modulo 2^16
  uint16_t returned_ = 0;  // the same
};

/// What is wrong with a layout, as one sentence; nullopt: nothing. Whether memory is there shows
/// when the queue is used.
std::optional<std::string> layout_error(const QueueLayout& layout, uint16_t size_most);

}  // namespace dxgkit::virtio
