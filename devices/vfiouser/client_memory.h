// The client's memory as the devices of a server reach it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "bus/machine.h"
#include "devices/vfiouser/connection.h"
#include "runtime/sync.h"

namespace dxgkit::vfiouser {

/// Asks the client for memory that it has not shared. Any thread.
class DmaMessages {
 public:
  virtual ~DmaMessages() = default;
  /// False: the client refused, or the connection is over.
  virtual bool dma_read(uint64_t address, std::span<std::byte> out) = 0;
  virtual bool dma_write(uint64_t address, ByteView in) = 0;
};

/// Ranges of bus addresses. With a descriptor that cannot shrink, a range is mapped here; a range
/// without one is reached by messages, so that it has no pointer. Any thread.
class ClientMemory final : public bus::OutsideMemory {
 public:
  /// Ranges that the client may have at a time.
  static constexpr size_t kRangesMost = 4096;

  ~ClientMemory() override;
  /// Where accesses to ranges without descriptor go; null: they fail. It outlives all accesses.
  void set_messages(DmaMessages* messages);
  /// Adds a range. Returns 0, or errno, and nothing has changed: EEXIST if it overlaps another one,
  /// ENOSPC if there are too many, EINVAL if the descriptor does not hold the range, ENOTSUP if
  /// its memory could shrink under the mapping, or if there is no descriptor and nobody to ask.
  int map(const DmaMap& map, Descriptor descriptor);
  /// Removes the range with exactly these bounds: 0, or ENOENT. Pointers into it stay valid memory,
  /// which the client no longer sees.
  int unmap(uint64_t address, uint64_t size);
  void unmap_all();

  std::byte* pointer(bus::PhysicalAddress address, uint64_t size) override;
  bool read(bus::PhysicalAddress address, std::span<std::byte> out) override;
  bool write(bus::PhysicalAddress address, std::span<const std::byte> in) override;

 private:
  struct Range {
    uint64_t size = 0;
    std::byte* bytes = nullptr;  // null: by message
    bool readable = false, writeable = false;
  };
  /// Part of an access, in one range.
  struct Piece {
    Range range;
    uint64_t address = 0, size = 0, skip = 0;  // `skip`: from the start of the range
  };
  using Ranges = std::map<uint64_t, Range>;  // by address

  Ranges::const_iterator find(uint64_t address) const DXGKIT_REQUIRES(mutex_);
  /// The pieces of an access; empty: not all of it is memory that allows it.
  std::vector<Piece> pieces(uint64_t address, uint64_t size, bool write);
  void retire(const Range& range) DXGKIT_REQUIRES(mutex_);

  runtime::Mutex mutex_;  // leaf
  Ranges ranges_ DXGKIT_GUARDED_BY(mutex_);
  /// Mappings of ranges that are gone. They show private zeros until the end.
  std::vector<std::span<std::byte>> retired_ DXGKIT_GUARDED_BY(mutex_);
  DmaMessages* messages_ DXGKIT_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace dxgkit::vfiouser
