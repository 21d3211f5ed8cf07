// The expected content of an allocation: every byte, or that a byte is unknown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dxgkit::sim {

/// The model of one allocation's bytes, changed in the order that its client meant. A new
/// allocation is zeros (P5). A range may be open: a submission that failed midway may have written
/// it or not. Open bytes are accepted as found, once; then they are known.
class Content {
 public:
  explicit Content(uint64_t size_bytes) : bytes_(size_bytes) {}

  uint64_t size() const { return bytes_.size(); }
  /// The ranges of all calls lie inside.
  void fill(uint64_t offset, uint64_t size, uint32_t pattern);
  void write(uint64_t offset, std::span<const std::byte> data);
  /// As a copy through a buffer: `from` may be the same object, and overlap.
  void copy(const Content& from, uint64_t source, uint64_t offset, uint64_t size);
  void open(uint64_t offset, uint64_t size);

  /// Compares `actual`, found at `offset`. Returns the difference, or nothing if it is as expected.
  /// Open bytes are closed.
  std::optional<std::string> compare(uint64_t offset, std::span<const std::byte> actual);
  /// The same for bytes that may still change: open bytes stay open.
  std::optional<std::string> compare_in_passing(uint64_t offset,
                                                std::span<const std::byte> actual) const;
  /// Canary: makes the model expect another byte.
  void lie(uint64_t offset) { bytes_[offset] ^= std::byte{0x55}; }

 private:
  struct Range {
    uint64_t begin, end;
  };
  void close(uint64_t offset, uint64_t size);
  std::optional<std::string> difference(uint64_t offset, std::span<const std::byte> actual) const;

  std::vector<std::byte> bytes_;
  std::vector<Range> open_;  // ascending, apart from each other
};

}  // namespace dxgkit::sim
