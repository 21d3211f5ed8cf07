// The messages of one call (src/wire), taken apart without making the call: for text, mapping and
// comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "arguments/table.h"
#include "wire/walk.h"

namespace dxgkit::record {

/// The arguments, or what one of their pointers leads to.
struct Block {
  bool there = false;  // null and bad pointers lead to none
  size_t at = 0;       // in the request
  size_t bytes = 0;
  const arguments::Field* field = nullptr;  // null: the arguments themselves
  int16_t structure = -1;
  uint32_t element_bytes = 0;
  int16_t named = -1;  // the members of an element that name something (arguments::named)
  arguments::Use use = arguments::Use::kIn;
};

struct NoteAt {
  wire::MemoryNote note;
  size_t at = 0;  // of its bytes, in the request
};

struct Request {
  uint32_t function = 0;
  std::vector<Block> blocks;  // the first is the arguments
  std::vector<NoteAt> notes;
  size_t descriptors = 0;
};

/// Takes a request of a client apart. The bytes may be anything; the error is one sentence.
std::expected<Request, std::string> read_request(std::span<const std::byte> bytes);

struct Reply {
  struct Content {
    size_t block = 0;
    std::span<const std::byte> bytes;  // of the reply, or of the request if nothing changed
  };
  int64_t result = 0;
  std::vector<wire::WindowNote> windows;
  std::vector<Content> contents;  // of the blocks that come back
};

/// Takes the reply to `request` apart; it refers to both messages. The bytes may be anything.
std::expected<Reply, std::string> read_reply(const Request& request,
                                             std::span<const std::byte> request_bytes,
                                             std::span<const std::byte> bytes);

/// Calls `visit(offset in the block, named member)` for each member that names something.
template <typename Visit>
void for_each_name(const Block& block, Visit&& visit) {
  const auto members = arguments::named(block.named);
  if (members.empty() || block.element_bytes == 0) return;
  for (size_t at = 0; at + block.element_bytes <= block.bytes; at += block.element_bytes) {
    for (const arguments::Named& member : members) visit(at + member.place.offset, member);
  }
}

}  // namespace dxgkit::record
