#include "wire/server_call.h"

#include <fmt/format.h>

#include "base/spelling.h"
#include "wire/channel.h"

namespace dxgkit::wire {
namespace {

/// A handle that is no descriptor of this process.
constexpr uint64_t kNeverADescriptor = 0x7FFF'FFFF;
constexpr size_t kMaxNotes = 3;
/// Room that most calls need no more of.
constexpr size_t kUsualParts = 16, kUsualWindows = 4, kUsualBytes = 1024;

uint64_t address_of(const void* pointer) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
}

}  // namespace

std::expected<ServerCall, std::string> ServerCall::decode(std::span<const std::byte> request,
                                                          std::span<const UniqueFd> descriptors,
                                                          Arena& arena) {
  ServerCall call(arena);
  call.request_ = request;
  call.parts_.reserve(kUsualParts);
  call.notes_.reserve(kMaxNotes);
  Reader reader(request);
  uint32_t magic = 0, count = 0, state = 0, bytes = 0;
  if (!reader.get(&magic) || !reader.get(&call.function_) || !reader.get(&count))
    return std::unexpected("the request is shorter than its head");
  if (magic != kRequest) return std::unexpected("it is no request");
  if (call.function_ >= functions().size())
    return std::unexpected(fmt::format("there is no function {}", call.function_));
  const Function& function = functions()[call.function_];
  if (function.local != nullptr)
    return std::unexpected(fmt::format("{} does not go to other processes", function.name));
  if (count == 0 || count > kMaxParts)
    return std::unexpected(fmt::format("the number of blocks is {}", count));
  const Structure& structure = structure_at(function.structure);
  if (!reader.get(&state) || !reader.get(&bytes) || static_cast<State>(state) != State::kPresent ||
      bytes != structure.bytes)
    return std::unexpected(fmt::format("{} has a structure of other size", function.name));
  const size_t at = reader.position();
  const std::byte* const from = reader.take(bytes);
  std::byte* const memory = arena.take(bytes);
  if (from == nullptr || memory == nullptr)
    return std::unexpected(fmt::format("the structure of {} is missing", function.name));
  if (bytes != 0) std::memcpy(memory, from, bytes);
  call.parts_.push_back({at, bytes, memory, function.structure,
                         function.writes == Writes::kNever ? Use::kBoth : Use::kRoom});
  for (size_t i = 0; i < call.parts_.size(); ++i) {
    if (std::string error = call.expand(i, reader, descriptors, arena); !error.empty())
      return std::unexpected(std::move(error));
  }
  if (call.parts_.size() != count)
    return std::unexpected(fmt::format("{} has other blocks than it says", function.name));
  if (call.next_descriptor_ != descriptors.size())
    return std::unexpected(
        fmt::format("the descriptors of {} are others than it says", function.name));
  if (std::string error = call.read_notes(reader); !error.empty())
    return std::unexpected(std::move(error));
  if (!reader.at_end()) return std::unexpected("there are bytes behind the request");
  return call;
}

std::string ServerCall::expand(size_t number, Reader& reader, std::span<const UniqueFd> descriptors,
                               Arena& arena) {
  const Part part = parts_[number];
  if (part.structure < 0 || part.memory == nullptr) return {};
  const Structure& structure = structure_at(part.structure);
  if (structure.fields.empty()) return {};
  std::string error;
  for (size_t done = 0; done + structure.bytes <= part.bytes; done += structure.bytes) {
    const std::byte* const base = request_.data() + part.at + done;
    for_each_field(structure, base, function_, [&](const Field& field, Kind kind) {
      if (!error.empty() || kind == Kind::kValue) return;
      const uint64_t sent = slot_at(base, field.offset);
      uint64_t value = 0;
      uint64_t most = 0;
      switch (kind) {
        case Kind::kBlock:
        case Kind::kText:
          error = add_part(field, kind, base, reader, arena, &value);
          break;
        case Kind::kDescriptor:
          most = kBadDescriptor;
          if (sent == kBadDescriptor) value = kNeverADescriptor;
          if (sent != kSentDescriptor) break;
          if (next_descriptor_ < descriptors.size())
            value = static_cast<uint64_t>(descriptors[next_descriptor_++].get());
          else
            error = "a descriptor is missing";
          break;
        case Kind::kPresence:
          most = 1;
          if (sent != 0) value = address_of(arena.bad());
          break;
        case Kind::kPages:  // the address means nothing here, but whether it is one of a page
          most = kPagesElsewhere;
          if (sent != 0)
            value = address_of(arena.bad()) + (sent == kPagesAligned ? 0U : sizeof(uint64_t));
          break;
        default:  // nothing of it goes to the kernel
          break;
      }
      if (error.empty() && sent > most)
        error = fmt::format("{}.{} holds {}", structure.name, field.name, sent);
      set_slot(part.memory + done, field.offset, value);
    });
    if (!error.empty()) return error;
  }
  return {};
}

std::string ServerCall::add_part(const Field& field, Kind kind, const std::byte* base,
                                 Reader& reader, Arena& arena, uint64_t* pointer) {
  if (parts_.size() >= kMaxParts) return "the call has too many blocks";
  Part& part = parts_.emplace_back();
  uint32_t state = 0, bytes = 0;
  if (!reader.get(&state) || !reader.get(&bytes)) return fmt::format("{} is missing", field.name);
  switch (static_cast<State>(state)) {
    case State::kNull:
      *pointer = 0;
      return bytes == 0 ? "" : "a null pointer has no bytes";
    case State::kBad:
      *pointer = address_of(arena.bad());
      return bytes == 0 ? "" : "a bad pointer has no bytes";
    case State::kPresent:
      break;
    default:
      return fmt::format("{} has state {}", field.name, state);
  }
  const size_t at = reader.position();
  const std::byte* const from = reader.take(bytes);
  if (from == nullptr) return fmt::format("{} is cut off", field.name);
  if (kind == Kind::kText) {
    if (bytes < 2 || bytes % 2 != 0 || bytes > 2 * field.most || from[bytes - 1] != std::byte{} ||
        from[bytes - 2] != std::byte{})
      return fmt::format("{} is no text", field.name);
  } else if (block_bytes(field, base) != bytes) {
    return fmt::format("{} has {} bytes, and its count says something else", field.name, bytes);
  }
  std::byte* const memory = arena.take(bytes);
  if (memory == nullptr) return "the call is too large";
  if (bytes != 0) std::memcpy(memory, from, bytes);
  part = {at, bytes, memory, kind == Kind::kText ? int16_t{-1} : field.element, field.use};
  *pointer = address_of(memory);
  return {};
}

std::string ServerCall::read_notes(Reader& reader) {
  uint32_t count = 0;
  if (!reader.get(&count)) return "the notes are missing";
  if (count > kMaxNotes) return fmt::format("the number of notes is {}", count);
  for (uint32_t i = 0; i < count; ++i) {
    MemoryNote note;
    if (!reader.get(&note)) return "a note is missing";
    const std::byte* const from = reader.take(note.bytes);
    if (from == nullptr) return "a note is cut off";
    notes_.push_back({note, {from, note.bytes}});
  }
  return {};
}

std::span<const std::byte> ServerCall::block(size_t number) const {
  if (number >= parts_.size() || parts_[number].memory == nullptr) return {};
  return request_.subspan(parts_[number].at, parts_[number].bytes);
}

std::vector<std::byte> ServerCall::reply(int64_t result, const ShowMemory& show,
                                         std::span<const WindowNote> ended,
                                         std::vector<UniqueFd>* descriptors) const {
  std::pmr::vector<WindowNote> windows(parts_.get_allocator().resource());
  windows.reserve(kUsualWindows);
  std::pmr::vector<std::byte> blocks(parts_.get_allocator().resource());
  blocks.reserve(kUsualBytes);
  Writer writer(&blocks);
  for (const Part& part : parts_) {
    if (part.memory == nullptr || !comes_back(part.use)) continue;
    const size_t before = blocks.size();
    writer.put(uint32_t{1});
    writer.bytes(part.memory, part.bytes);
    std::byte* const now = blocks.data() + before + sizeof(uint32_t);
    hide_addresses(part, now, result >= 0, show, &windows, descriptors);
    if (part.bytes != 0 && std::memcmp(now, request_.data() + part.at, part.bytes) != 0) continue;
    blocks.resize(before);
    writer.put(uint32_t{0});
  }
  windows.insert(windows.end(), ended.begin(), ended.end());
  std::vector<std::byte> out;
  out.reserve(sizeof(uint64_t) * 2 + windows.size() * sizeof(WindowNote) + blocks.size());
  Writer head(&out);
  head.put(kReply);
  head.put(result);
  head.put(static_cast<uint32_t>(windows.size()));
  for (const WindowNote& note : windows) head.put(note);
  head.bytes(blocks.data(), blocks.size());
  return out;
}

void ServerCall::hide_addresses(const Part& part, std::byte* now, bool succeeded,
                                const ShowMemory& show, std::pmr::vector<WindowNote>* windows,
                                std::vector<UniqueFd>* descriptors) const {
  if (part.structure < 0) return;
  const Structure& structure = structure_at(part.structure);
  if (structure.fields.empty()) return;
  for (size_t done = 0; done + structure.bytes <= part.bytes; done += structure.bytes) {
    const std::byte* const base = request_.data() + part.at + done;
    for_each_field(structure, base, function_, [&](const Field& field, Kind kind) {
      if (kind == Kind::kValue) return;
      const uint64_t value = slot_at(now + done, field.offset);
      uint64_t sent = slot_at(base, field.offset);
      switch (kind) {
        case Kind::kAddress: {
          WindowNote note;
          UniqueFd descriptor;
          if (value == 0 || !show(field.memory, &note, &descriptor)) break;
          sent = 1;
          note.memory = static_cast<uint32_t>(field.memory);
          note.has_descriptor = descriptor ? 1 : 0;
          windows->push_back(note);
          if (descriptor) descriptors->push_back(std::move(descriptor));
          break;
        }
        case Kind::kInto:
          sent = place_of(value);
          break;
        case Kind::kDescriptorOut:
          if (value == 0 || !succeeded) break;
          sent = kSentDescriptor;
          descriptors->emplace_back(static_cast<int>(value));
          break;
        default:
          break;
      }
      set_slot(now + done, field.offset, sent);
    });
  }
}

uint64_t ServerCall::place_of(uint64_t pointer) const {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].memory == nullptr) continue;
    const uint64_t offset = pointer - address_of(parts_[i].memory);
    if (pointer != 0 && offset < parts_[i].bytes) return (i + 1) << 32 | offset;
  }
  return 0;
}

}  // namespace dxgkit::wire
