// One call of a client, flattened: the structure and what it points to, each byte read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "wire/arguments.h"
#include "wire/kernel_memory.h"
#include "wire/unique_fd.h"

namespace dxgkit::wire {

/// An allocation that a call has made, and that must go: the caller's pages cannot be exchanged. To
/// be destroyed by resource, or by list if that is 0.
struct UnwantedAllocation {
  uint32_t device = 0, resource = 0;
  std::vector<uint32_t> allocations;
};

class ClientCall {
 public:
  /// Reads the caller's memory. `arguments`: as the caller has it; it may be no memory at all.
  ClientCall(uint32_t function, void* arguments, KernelMemory& memory);

  /// The answer, if no message is needed: STATUS_INVALID_PARAMETER for a structure that cannot be
  /// read, or not be written where the function writes it; STATUS_NOT_SUPPORTED for what does not
  /// go to other processes; STATUS_INSUFFICIENT_RESOURCES for a message over the limits.
  const std::optional<int64_t>& answer() const { return answer_; }
  std::span<const std::byte> message() const { return message_; }
  /// Descriptors of the caller, which stay the caller's.
  std::span<const int> descriptors() const { return descriptors_; }

  /// After `finish`; the result is STATUS_INVALID_PARAMETER then, and the caller sees no output.
  const std::optional<UnwantedAllocation>& undo() const { return undo_; }

  /// Takes the reply: writes what the function wrote, and returns what it returned. nullopt: it is
  /// no reply to this call; some of it may have been written.
  std::optional<int64_t> finish(std::span<const std::byte> reply,
                                std::vector<UniqueFd> descriptors);

 private:
  struct Part {
    bool there = false;  // null and bad pointers lead to none
    std::byte* client = nullptr;
    size_t at = 0;  // in the message
    size_t bytes = 0;
    int16_t structure = -1;
    Use use = Use::kIn;
  };
  /// A member that stands in the message as something else.
  struct Fixup {
    size_t part = 0;
    size_t offset = 0;  // in the part
    uint64_t original = 0;
    Kind kind = Kind::kValue;
  };

  void encode(void* arguments);
  bool expand(size_t part);
  /// The part behind a pointer.
  void add_block(const Field& field, std::byte* client, std::optional<size_t> bytes);
  void add_text(const std::byte* client);
  void begin_part(uint32_t state, size_t bytes);
  /// Exchanges the caller's pages for what the notes behind those of addresses say. All or none.
  bool exchange(std::span<const WindowNote> windows, std::vector<UniqueFd>* descriptors);
  /// `contents`: of the parts that come back, by number.
  void plan_undo(const std::map<size_t, std::vector<std::byte>>& contents);
  uint64_t restore(const Fixup& fixup, uint64_t sent, std::span<const WindowNote> windows,
                   std::vector<UniqueFd>* descriptors);

  const uint32_t function_;
  KernelMemory& memory_;
  std::optional<int64_t> answer_;
  std::vector<std::byte> message_;
  std::vector<int> descriptors_;
  std::vector<Part> parts_;
  std::vector<Fixup> fixups_;
  std::optional<UnwantedAllocation> undo_;
  size_t next_window_ = 0;
  size_t next_descriptor_ = 0;
};

}  // namespace dxgkit::wire
