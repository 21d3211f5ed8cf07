#include "record/message.h"

#include <fmt/format.h>

namespace dxgkit::record {
namespace {

using arguments::Field;
using arguments::Kind;
using Error = std::unexpected<std::string>;

constexpr uint32_t kMaxNotes = 3;

class Walk {
 public:
  Walk(std::span<const std::byte> bytes, wire::Reader& reader, Request& request)
      : bytes_(bytes), reader_(reader), request_(request) {}

  /// Adds the blocks that the structures of one block point to.
  std::string expand(const Block& block) {
    if (block.structure < 0 || !block.there) return {};
    const arguments::Structure& structure = arguments::structure_at(block.structure);
    if (structure.fields.empty()) return {};
    for (size_t done = 0; done + structure.bytes <= block.bytes; done += structure.bytes) {
      const std::byte* const base = bytes_.data() + block.at + done;
      wire::for_each_field(structure, base, request_.function, [&](const Field& field, Kind kind) {
        if (!error_.empty()) return;
        if (kind == Kind::kBlock || kind == Kind::kText) add(field, kind, base);
        if (kind == Kind::kDescriptor && wire::slot_at(base, field.offset) == wire::kSentDescriptor)
          ++request_.descriptors;
      });
      if (!error_.empty()) return error_;
    }
    return {};
  }

 private:
  void add(const Field& field, Kind kind, const std::byte* base) {
    uint32_t state = 0, bytes = 0;
    if (request_.blocks.size() >= wire::kMaxParts) {
      error_ = "the call has too many blocks";
      return;
    }
    Block& block = request_.blocks.emplace_back();
    if (!reader_.get(&state) || !reader_.get(&bytes)) {
      error_ = fmt::format("{} is missing", field.name);
      return;
    }
    if (state > static_cast<uint32_t>(wire::State::kPresent)) {
      error_ = fmt::format("{} has state {}", field.name, state);
      return;
    }
    if (static_cast<wire::State>(state) != wire::State::kPresent) {
      if (bytes != 0) error_ = fmt::format("{} leads nowhere and has bytes", field.name);
      return;
    }
    const size_t at = reader_.position();
    if (reader_.take(bytes) == nullptr) {
      error_ = fmt::format("{} is cut off", field.name);
      return;
    }
    if (kind == Kind::kBlock && wire::block_bytes(field, base) != bytes) {
      error_ = fmt::format("{} has {} bytes, and its count says something else", field.name, bytes);
      return;
    }
    block = {.there = true,
             .at = at,
             .bytes = bytes,
             .field = &field,
             .structure = kind == Kind::kText ? int16_t{-1} : field.element,
             .element_bytes = field.element_bytes,
             .named = kind == Kind::kText ? int16_t{-1} : field.named,
             .use = field.use};
  }

  std::span<const std::byte> bytes_;
  wire::Reader& reader_;
  Request& request_;
  std::string error_;
};

}  // namespace

std::expected<Request, std::string> read_request(std::span<const std::byte> bytes) {
  Request request;
  wire::Reader reader(bytes);
  uint32_t magic = 0, count = 0, state = 0, size = 0;
  if (!reader.get(&magic) || !reader.get(&request.function) || !reader.get(&count) ||
      !reader.get(&state) || !reader.get(&size) || magic != wire::kRequest)
    return Error("it is no request");
  if (request.function >= arguments::functions().size())
    return Error(fmt::format("there is no function {}", request.function));
  const arguments::Function& function = arguments::functions()[request.function];
  const arguments::Structure& structure = arguments::structure_at(function.structure);
  const size_t at = reader.position();
  if (size != structure.bytes || static_cast<wire::State>(state) != wire::State::kPresent ||
      reader.take(size) == nullptr)
    return Error(fmt::format("the structure of {} is missing", function.name));
  request.blocks.push_back({.there = true,
                            .at = at,
                            .bytes = size,
                            .structure = function.structure,
                            .element_bytes = structure.bytes,
                            .named = function.named,
                            .use = function.writes == arguments::Writes::kNever
                                       ? arguments::Use::kBoth
                                       : arguments::Use::kRoom});
  Walk walk(bytes, reader, request);
  for (size_t i = 0; i < request.blocks.size(); ++i) {
    const Block block = request.blocks[i];  // the list grows
    if (std::string error = walk.expand(block); !error.empty()) return Error(std::move(error));
  }
  if (request.blocks.size() != count) return Error("it has other blocks than it says");
  if (!reader.get(&count) || count > kMaxNotes) return Error("its notes are missing");
  for (uint32_t i = 0; i < count; ++i) {
    NoteAt note;
    if (!reader.get(&note.note)) return Error("a note is missing");
    note.at = reader.position();
    if (reader.take(note.note.bytes) == nullptr) return Error("a note is cut off");
    request.notes.push_back(note);
  }
  if (!reader.at_end()) return Error("there are bytes behind the request");
  return request;
}

std::expected<Reply, std::string> read_reply(const Request& request,
                                             std::span<const std::byte> request_bytes,
                                             std::span<const std::byte> bytes) {
  Reply reply;
  wire::Reader reader(bytes);
  uint32_t magic = 0, count = 0;
  if (!reader.get(&magic) || magic != wire::kReply || !reader.get(&reply.result) ||
      !reader.get(&count))
    return Error("it is no reply");
  for (uint32_t i = 0; i < count; ++i) {
    wire::WindowNote note;
    if (!reader.get(&note)) return Error("what the reply says of memory is cut off");
    reply.windows.push_back(note);
  }
  for (size_t i = 0; i < request.blocks.size(); ++i) {
    const Block& block = request.blocks[i];
    if (!block.there || !wire::comes_back(block.use)) continue;
    uint32_t changed = 0;
    if (!reader.get(&changed)) return Error("the reply is cut off");
    auto content = request_bytes.subspan(block.at, block.bytes);
    if (changed != 0) {
      const std::byte* const from = reader.take(block.bytes);
      if (from == nullptr) return Error("the reply is cut off");
      content = {from, block.bytes};
    }
    reply.contents.push_back({i, content});
  }
  if (!reader.at_end()) return Error("there are bytes behind the reply");
  return reply;
}

}  // namespace dxgkit::record
