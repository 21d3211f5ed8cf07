// One call of a client, flattened: the structure and what it points to, each byte read once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "wire/kernel_memory.h"
#include "wire/unique_fd.h"

namespace dxgkit::wire {

/// What a call has done that its caller cannot have, and how it ends.
struct Unwanted {
  enum class End {
    kDestroy,  // D3DKMTDestroyAllocation2, by resource, or by list if that is 0: the caller's pages
               // cannot be exchanged
    kUnlock,   // D3DKMTUnlock, and
    kUnlock2,  // D3DKMTUnlock2: the caller has no memory to show the content in
  };
  End end = End::kDestroy;
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

  /// After `finish`; the result is STATUS_INVALID_PARAMETER then, or STATUS_NO_MEMORY of a lock,
  /// and the caller sees no output.
  const std::optional<Unwanted>& undo() const { return undo_; }

  /// Takes the reply: writes what the function wrote, and returns what it returned. nullopt: it is
  /// no reply to this call, or the caller has no memory for what other functions than locks show
  /// it; some of it may have been written.
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
  void add_text(const Field& field, const std::byte* client);
  void begin_part(uint32_t state, size_t bytes);
  /// Exchanges the caller's pages for what the notes behind those of addresses say. All or none.
  bool exchange(std::span<const WindowNote> windows, std::vector<UniqueFd>* descriptors);
  /// Of the parts that have changed, by number, in order.
  using Contents = std::pmr::vector<std::pair<size_t, std::pmr::vector<std::byte>>>;
  void plan_undo(const Contents& contents);
  /// `root`: the structure as the function left it. False: the call is no lock.
  bool plan_unlock(std::span<const std::byte> root);
  uint64_t restore(const Fixup& fixup, uint64_t sent, std::span<const WindowNote> windows,
                   std::vector<UniqueFd>* descriptors);

  const uint32_t function_;
  KernelMemory& memory_;
  std::optional<int64_t> answer_;
  /// Most calls need no more.
  alignas(16) std::array<std::byte, size_t{6} << 10> room_;
  std::pmr::monotonic_buffer_resource memory_of_call_{room_.data(), room_.size()};
  std::pmr::vector<std::byte> message_{&memory_of_call_};
  std::vector<int> descriptors_;
  std::pmr::vector<Part> parts_{&memory_of_call_};
  std::pmr::vector<Fixup> fixups_{&memory_of_call_};
  std::pmr::vector<std::byte> element_{&memory_of_call_};  // that is being looked at
  std::optional<Unwanted> undo_;
  bool has_no_room_ = false;  // for a window that the reply shows
  size_t next_window_ = 0;
  size_t next_descriptor_ = 0;
};

}  // namespace dxgkit::wire
