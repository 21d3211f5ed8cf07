// One call as it came from a client: bytes that may be anything, rebuilt in memory of our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "wire/arena.h"
#include "wire/unique_fd.h"
#include "wire/walk.h"

namespace dxgkit::wire {

class ServerCall {
 public:
  /// Bytes for the kernel's memory that the client has written.
  struct Note {
    MemoryNote note;
    std::span<const std::byte> bytes;
  };

  /// Reads all of `request`, which outlives the call, as do `arena` and `descriptors`. The error is
  /// one sentence. The arena holds what the call needs: less than three times the request.
  static std::expected<ServerCall, std::string> decode(std::span<const std::byte> request,
                                                       std::span<const UniqueFd> descriptors,
                                                       Arena& arena);

  uint32_t function() const { return function_; }
  /// The structure of the arguments, for the kernel: every pointer in it is null, one that nobody
  /// can follow, or one to a block of the arena that is as long as the structure says.
  std::byte* arguments() const { return parts_.front().memory; }
  /// The same as it came, without pointers.
  const std::byte* captured() const { return request_.data() + parts_.front().at; }
  std::span<const Note> notes() const { return notes_; }
  /// A block of the caller by its number (0: the arguments); empty if there is none.
  std::span<const std::byte> block(size_t number) const;

  /// Tells of the kernel's memory that the call gave. False: it cannot be shown; the client sees
  /// null.
  using ShowMemory = std::function<bool(Memory memory, WindowNote* note, UniqueFd* descriptor)>;
  /// What goes back after the call. Takes the descriptors that the kernel has made.
  /// @param ended  windows of the client that have ended
  std::vector<std::byte> reply(int64_t result, const ShowMemory& show,
                               std::span<const WindowNote> ended,
                               std::vector<UniqueFd>* descriptors) const;

 private:
  struct Part {
    size_t at = 0;  // in the request
    size_t bytes = 0;
    std::byte* memory = nullptr;  // null: not there
    int16_t structure = -1;
    Use use = Use::kIn;
  };

  explicit ServerCall(Arena& arena) : parts_(arena.notes()), notes_(arena.notes()) {}
  std::string expand(size_t part, Reader& reader, std::span<const UniqueFd> descriptors,
                     Arena& arena);
  std::string add_part(const Field& field, Kind kind, const std::byte* base, Reader& reader,
                       Arena& arena, uint64_t* pointer);
  std::string read_notes(Reader& reader);
  /// Replaces the addresses in a block that goes back. `now`: what the kernel made of it.
  void hide_addresses(const Part& part, std::byte* now, bool succeeded, const ShowMemory& show,
                      std::pmr::vector<WindowNote>* windows,
                      std::vector<UniqueFd>* descriptors) const;
  uint64_t place_of(uint64_t pointer) const;

  uint32_t function_ = 0;
  std::span<const std::byte> request_;
  std::pmr::vector<Part> parts_;
  std::pmr::vector<Note> notes_;
  size_t next_descriptor_ = 0;
};

}  // namespace dxgkit::wire
