// What both sides of a call do alike: find the members that are more than bytes, and how much they
// point to.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "arguments/table.h"

namespace dxgkit::wire {

using namespace arguments;  // the words of the table

/// The most blocks of one call.
inline constexpr size_t kMaxParts = size_t{1} << 18;

/// How a block stands in a message.
enum class State : uint32_t { kNull, kBad, kPresent };

/// How an address of the caller's pages stands in a message: whether it begins a page.
inline constexpr uint64_t kPagesAligned = 1, kPagesElsewhere = 2;

/// How a descriptor stands in a message.
inline constexpr uint64_t kNoDescriptor = 0, kSentDescriptor = 1, kBadDescriptor = 2;

inline uint64_t number_at(const std::byte* base, Place place) {
  uint64_t value = 0;  // little-endian, as the ABI
  std::memcpy(&value, base + place.offset, place.width);
  return value;
}

inline uint64_t slot_at(const std::byte* base, uint32_t offset) {
  return number_at(base, {static_cast<uint16_t>(offset), 8});
}

inline void set_slot(std::byte* base, uint32_t offset, uint64_t value) {
  std::memcpy(base + offset, &value, sizeof value);
}

inline bool holds(const Condition& when, const std::byte* base, uint32_t function) {
  if (when.function >= 0 && static_cast<uint32_t>(when.function) != function) return false;
  if (when.place.width == 0) return true;
  const uint64_t value = number_at(base, when.place) & when.mask;
  switch (when.test) {
    case Test::kIs:
      return value == when.value;
    case Test::kIsNot:
      return value != when.value;
    default:
      return value > when.value;
  }
}

/// Calls `visit(field, kind)` for each member that is more than bytes, in the order of offsets.
/// `base`: the structure, as it was captured or as it is in the message; both give the same.
template <typename Visit>
void for_each_field(const Structure& structure, const std::byte* base, uint32_t function,
                    Visit&& visit) {
  const auto fields = structure.fields;
  for (size_t i = 0; i < fields.size();) {
    const Field* chosen = nullptr;
    const Field& first = fields[i];
    for (; i < fields.size() && fields[i].offset == first.offset; ++i) {
      if (chosen == nullptr && holds(fields[i].when, base, function)) chosen = &fields[i];
    }
    if (chosen != nullptr)
      visit(*chosen, chosen->kind);
    else
      visit(first, Kind::kPresence);
  }
}

/// How many bytes a block has. nullopt: more than the function would take.
inline std::optional<size_t> block_bytes(const Field& field, const std::byte* base) {
  const uint64_t count = field.count.width == 0 ? field.fixed_count : number_at(base, field.count);
  if (count > field.most) return std::nullopt;
  return static_cast<size_t>(count) * field.element_bytes;
}

/// Whether a block of this use comes back.
inline bool comes_back(Use use) { return use != Use::kIn; }

/// Appends to a message, a vector of bytes.
template <typename Bytes>
class Writer {
 public:
  explicit Writer(Bytes* out) : out_(*out) {}
  template <typename T>
  void put(T value) {
    bytes(&value, sizeof value);
  }
  void bytes(const void* from, size_t count) {
    const auto* at = static_cast<const std::byte*>(from);
    out_.insert(out_.end(), at, at + count);
  }

 private:
  Bytes& out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  /// False: there are fewer bytes. Nothing is read then.
  template <typename T>
  bool get(T* value) {
    const std::byte* from = take(sizeof *value);
    if (from == nullptr) return false;
    std::memcpy(value, from, sizeof *value);
    return true;
  }
  /// Null: there are fewer bytes.
  const std::byte* take(size_t count) {
    if (in_.size() - at_ < count) return nullptr;
    const std::byte* from = in_.data() + at_;
    at_ += count;
    return from;
  }
  size_t position() const { return at_; }
  bool at_end() const { return at_ == in_.size(); }

 private:
  std::span<const std::byte> in_;
  size_t at_ = 0;
};

/// The first bytes of requests and replies.
inline constexpr uint32_t kRequest = 0x51575844, kReply = 0x52575844;  // "DXWQ", "DXWR"

/// What a reply says of an address of the kernel's memory. Behind those of addresses come notes of
/// windows that have ended: they have an id and no bytes.
struct WindowNote {
  uint32_t memory = 0;  // Memory
  uint32_t owner = 0;   // the handle whose object has the memory
  uint64_t bytes = 0;
  uint32_t has_descriptor = 0;
  uint32_t reserved = 0;
  uint64_t offset = 0;  // where it begins in the memory object
  uint64_t id = 0;      // of a window that stays until a note says that it has ended; 0: none
};

/// What a request says of a client's own copy of kernel memory: the next bytes go there.
struct MemoryNote {
  uint32_t memory = 0;  // Memory: kCommands, kAllocations, kPatches
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

}  // namespace dxgkit::wire
