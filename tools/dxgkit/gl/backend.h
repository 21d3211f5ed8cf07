// What one GL program needs of a GPU: the session speaks vtest above it, a D3DKMT client is below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "tools/dxgkit/gl/virgl_stream.h"
#include "tools/dxgkit/gl/vtest_protocol.h"

namespace dxgkit::gl {

/// The error is one sentence without a full stop, after which the program's connection ends.
template <typename T>
using Answer = std::expected<T, std::string>;

enum class Direction { kToHost, kFromHost };
enum class Waiting { kNo, kYes };

/// The memory of a resource is called its backing here: transfers move pixels between it and the
/// renderer. All calls but cancel() come from one thread. Work is done in the order of the calls.
class Backend {
 public:
  /// Names a resource. Never 0.
  using Id = uint64_t;
  /// A use of a stream that names the resource of this backend.
  struct Use {
    size_t position = 0;  // of the dword in the stream that names it
    Id resource = 0;
    bool written = false;
  };

  virtual ~Backend() = default;
  /// The renderer's capability set 1 or 2; empty: it has none.
  virtual Answer<std::vector<std::byte>> capabilities(uint32_t set) = 0;
  virtual Answer<Id> create(const ResourceDescription& resource) = 0;
  /// When queued work is done with it.
  virtual Answer<void> destroy(Id resource) = 0;
  /// Writes the backing, after queued work that uses it. The bytes lie inside its data_bytes.
  virtual Answer<void> write(Id resource, uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Reads the backing, after queued work that uses it.
  virtual Answer<void> read(Id resource, uint64_t offset, std::span<std::byte> bytes) = 0;
  /// Queues a transfer.
  virtual Answer<void> transfer(Id resource, Direction direction, const Transfer& transfer) = 0;
  /// Queues a stream. `stream` is the session's to lose: its dwords at `uses` are changed.
  /// @param also  resources whose backing it uses without naming them
  virtual Answer<void> submit(std::span<uint32_t> stream, std::span<const StreamCommand> commands,
                              std::span<const Use> uses, std::span<const Id> also) = 0;
  /// True: all queued work is done.
  virtual Answer<bool> idle(Waiting waiting) = 0;
  /// Any thread: calls that wait, and all later ones, are refused.
  virtual void cancel() = 0;
};

}  // namespace dxgkit::gl
