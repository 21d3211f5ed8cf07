#include "wire/client_call.h"

#include <d3dkmthk.h>
#include <fcntl.h>
#include <ntstatus.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "base/arithmetic.h"
#include "base/guarded_copy.h"
#include "wire/channel.h"
#include "wire/walk.h"

namespace dxgkit::wire {
namespace {

/// Room that most calls need no more of.
constexpr size_t kUsualBytes = 1024, kUsualParts = 16;

constexpr int64_t status(NTSTATUS value) { return value; }

/// Room for the notes behind the blocks.
constexpr size_t kMaxBlockBytes = kMaxFrameBytes - (size_t{4} << 20);

bool is_descriptor(uint64_t handle) {
  return handle > 0 && handle <= INT_MAX && fcntl(static_cast<int>(handle), F_GETFD) >= 0;
}

}  // namespace

ClientCall::ClientCall(uint32_t function, void* arguments, KernelMemory& memory)
    : function_(function), memory_(memory) {
  encode(arguments);
}

void ClientCall::encode(void* arguments) {
  const Function& called = functions()[function_];
  if (called.local != nullptr) {
    answer_ = status(STATUS_NOT_SUPPORTED);
    return;
  }
  const Structure& structure = structure_at(called.structure);
  message_.reserve(kUsualBytes);
  parts_.reserve(kUsualParts);
  fixups_.reserve(kUsualParts);
  Writer writer(&message_);
  writer.put(kRequest);
  writer.put(function_);
  const size_t count_at = message_.size();
  writer.put(uint32_t{0});
  begin_part(static_cast<uint32_t>(State::kPresent), structure.bytes);
  Part& root = parts_.emplace_back();
  root.there = true;
  root.client = static_cast<std::byte*>(arguments);
  root.at = message_.size() - structure.bytes;
  root.bytes = structure.bytes;
  root.structure = called.structure;
  root.use = called.writes == Writes::kNever ? Use::kBoth : Use::kRoom;
  if (structure.bytes != 0) {
    std::byte* const captured = message_.data() + root.at;
    if (arguments == nullptr || !guarded_copy(captured, arguments, structure.bytes) ||
        (root.use == Use::kRoom && !guarded_copy(arguments, captured, structure.bytes))) {
      answer_ = status(STATUS_INVALID_PARAMETER);
      return;
    }
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!expand(i)) return;
  }
  const auto count = static_cast<uint32_t>(parts_.size());
  std::memcpy(message_.data() + count_at, &count, sizeof count);
  if (!memory_.add_notes(function_, message_.data() + parts_.front().at, &message_))
    answer_ = status(STATUS_INSUFFICIENT_RESOURCES);
}

void ClientCall::begin_part(uint32_t state, size_t bytes) {
  Writer writer(&message_);
  writer.put(state);
  writer.put(static_cast<uint32_t>(bytes));
  message_.resize(message_.size() + bytes);
}

bool ClientCall::expand(size_t number) {
  const Part part = parts_[number];
  if (part.structure < 0 || !part.there) return true;
  const Structure& structure = structure_at(part.structure);
  if (structure.fields.empty()) return true;
  for (size_t done = 0; done + structure.bytes <= part.bytes; done += structure.bytes) {
    // The message grows while its structures are looked at.
    element_.assign(message_.begin() + static_cast<ptrdiff_t>(part.at + done),
                    message_.begin() + static_cast<ptrdiff_t>(part.at + done + structure.bytes));
    const std::pmr::vector<std::byte>& element = element_;
    for_each_field(structure, element.data(), function_, [&](const Field& field, Kind kind) {
      if (answer_.has_value() || kind == Kind::kValue) return;
      const uint64_t original = slot_at(element.data(), field.offset);
      uint64_t sent = 0;
      auto* const client = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(original));
      switch (kind) {
        case Kind::kBlock:
          add_block(field, client, block_bytes(field, element.data()));
          break;
        case Kind::kText:
          add_text(field, client);
          break;
        case Kind::kDescriptor:
          if (original != 0) sent = is_descriptor(original) ? kSentDescriptor : kBadDescriptor;
          if (sent == kSentDescriptor) descriptors_.push_back(static_cast<int>(original));
          break;
        case Kind::kPresence:
          sent = original != 0 ? 1 : 0;
          break;
        case Kind::kPages:
          if (original == 0) break;
          if (!memory_.exchanges_pages()) answer_ = status(STATUS_NOT_SUPPORTED);
          sent = original % kPageBytes == 0 ? kPagesAligned : kPagesElsewhere;
          break;
        default:
          break;
      }
      set_slot(message_.data() + part.at + done, field.offset, sent);
      fixups_.push_back({number, done + field.offset, original, kind});
    });
    if (!answer_.has_value() && (message_.size() > kMaxBlockBytes || parts_.size() > kMaxParts ||
                                 descriptors_.size() > kMaxFrameDescriptors))
      answer_ = status(STATUS_INSUFFICIENT_RESOURCES);
    if (answer_.has_value()) return false;
  }
  return true;
}

void ClientCall::add_block(const Field& field, std::byte* client, std::optional<size_t> bytes) {
  Part& part = parts_.emplace_back();
  const bool fits = bytes.has_value() && message_.size() + *bytes <= kMaxFrameBytes;
  State state = client == nullptr ? State::kNull : fits ? State::kPresent : State::kBad;
  const size_t before = message_.size();
  if (state == State::kPresent) {
    begin_part(static_cast<uint32_t>(state), *bytes);
    std::byte* const captured = message_.data() + (message_.size() - *bytes);
    const bool there =
        *bytes == 0 || (guarded_copy(captured, client, *bytes) &&
                        (field.use != Use::kRoom || guarded_copy(client, captured, *bytes)));
    if (there) {
      part = {true, client, message_.size() - *bytes, *bytes, field.element, field.use};
      return;
    }
    message_.resize(before);
    state = State::kBad;
  }
  begin_part(static_cast<uint32_t>(state), 0);
}

void ClientCall::add_text(const Field& field, const std::byte* client) {
  parts_.emplace_back();
  std::vector<uint16_t> text;
  State state = client == nullptr ? State::kNull : State::kBad;
  while (state == State::kBad && text.size() < field.most) {
    // One at a time: what lies behind the terminator may not be readable.
    uint16_t unit = 0;
    if (!guarded_copy(&unit, client + text.size() * sizeof unit, sizeof unit)) break;
    text.push_back(unit);
    if (unit == 0) state = State::kPresent;
  }
  const size_t bytes = state == State::kPresent ? text.size() * sizeof(uint16_t) : 0;
  begin_part(static_cast<uint32_t>(state), bytes);
  if (bytes != 0) std::memcpy(message_.data() + (message_.size() - bytes), text.data(), bytes);
}

std::optional<int64_t> ClientCall::finish(std::span<const std::byte> reply,
                                          std::vector<UniqueFd> descriptors) {
  Reader reader(reply);
  uint32_t magic = 0, window_count = 0;
  int64_t result = 0;
  if (!reader.get(&magic) || magic != kReply || !reader.get(&result) || !reader.get(&window_count))
    return std::nullopt;
  std::pmr::vector<WindowNote> windows(&memory_of_call_);
  windows.reserve(std::min<size_t>(window_count, kUsualParts));
  for (uint32_t i = 0; i < window_count; ++i) {
    WindowNote note;
    if (!reader.get(&note)) return std::nullopt;
    windows.push_back(note);
  }
  Contents contents(&memory_of_call_);
  std::span<const std::byte> root;
  size_t fixup = 0;
  for (size_t number = 0; number < parts_.size(); ++number) {
    const Part& part = parts_[number];
    const size_t first_fixup = fixup;
    while (fixup < fixups_.size() && fixups_[fixup].part == number) ++fixup;
    if (!part.there || !comes_back(part.use)) continue;
    uint32_t changed = 0;
    if (!reader.get(&changed)) return std::nullopt;
    if (number == 0) root = std::span(message_).subspan(part.at, part.bytes);
    if (changed == 0) continue;
    const std::byte* const from = reader.take(part.bytes);
    if (from == nullptr) return std::nullopt;
    if (number == 0) root = {from, part.bytes};
    std::pmr::vector<std::byte> content(from, from + part.bytes, &memory_of_call_);
    for (size_t i = first_fixup; i < fixup; ++i) {
      const uint64_t sent = slot_at(content.data() + fixups_[i].offset, 0);
      set_slot(content.data() + fixups_[i].offset, 0,
               restore(fixups_[i], sent, windows, &descriptors));
    }
    contents.emplace_back(number, std::move(content));
  }
  if (!reader.at_end()) return std::nullopt;
  for (size_t i = next_window_; i < windows.size(); ++i) {
    if (windows[i].bytes == 0) memory_.end(windows[i]);
  }
  if (result >= 0 && has_no_room_) {
    if (!plan_unlock(root)) return std::nullopt;
    return status(STATUS_NO_MEMORY);
  }
  if (result >= 0 && !exchange(windows, &descriptors)) {
    plan_undo(contents);
    return status(STATUS_INVALID_PARAMETER);
  }
  for (const auto& [number, content] : contents) {
    // As in the thunks: a caller whose memory went away meanwhile loses only its outputs. A
    // structure that the function writes against its prototype is the exception.
    const Part& part = parts_[number];
    const bool written = guarded_copy(part.client, content.data(), content.size());
    if (!written && number == 0 && part.use == Use::kBoth)
      result = status(STATUS_INVALID_PARAMETER);
  }
  if (result >= 0) memory_.after(function_, root.data());
  return result;
}

bool ClientCall::exchange(std::span<const WindowNote> windows, std::vector<UniqueFd>* descriptors) {
  std::vector<WindowNote> done;
  size_t next = next_window_;
  const auto exchange_one = [&](uint64_t address) {
    while (next < windows.size() && (windows[next].bytes == 0 || windows[next].has_descriptor == 0))
      ++next;
    if (next >= windows.size() || next_descriptor_ >= descriptors->size()) return false;
    const WindowNote& note = windows[next++];
    UniqueFd& object = (*descriptors)[next_descriptor_++];
    auto* const pages = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
    if (!memory_.exchanged().begin(note, std::move(object), pages)) return false;
    done.push_back(note);
    return true;
  };
  for (const Fixup& fixup : fixups_) {
    if (fixup.kind != Kind::kPages || fixup.original == 0 || exchange_one(fixup.original)) continue;
    for (const WindowNote& note : done) memory_.exchanged().end(note);
    return false;
  }
  return true;
}

void ClientCall::plan_undo(const Contents& contents) {
  static_assert(offsetof(D3DDDI_ALLOCATIONINFO, pSystemMem) ==
                offsetof(D3DDDI_ALLOCATIONINFO2, pSystemMem));
  static_assert(offsetof(D3DDDI_ALLOCATIONINFO, hAllocation) ==
                offsetof(D3DDDI_ALLOCATIONINFO2, hAllocation));
  undo_.emplace();
  const auto of_part = [&](size_t number) {
    return std::ranges::find(contents, number, &Contents::value_type::first);
  };
  const auto root = of_part(0);
  if (root == contents.end() || root->second.size() < sizeof(D3DKMT_CREATEALLOCATION)) return;
  D3DKMT_CREATEALLOCATION args;
  std::memcpy(&args, root->second.data(), sizeof args);
  undo_->device = args.hDevice;
  if (args.Flags.CreateResource != 0) undo_->resource = args.hResource;
  for (const Fixup& fixup : fixups_) {
    const auto found = of_part(fixup.part);
    if (fixup.kind != Kind::kPages || found == contents.end()) continue;
    const size_t element = fixup.offset - offsetof(D3DDDI_ALLOCATIONINFO2, pSystemMem);
    uint32_t handle = 0;
    std::memcpy(&handle,
                found->second.data() + element + offsetof(D3DDDI_ALLOCATIONINFO2, hAllocation),
                sizeof handle);
    undo_->allocations.push_back(handle);
  }
}

bool ClientCall::plan_unlock(std::span<const std::byte> root) {
  const auto plan = [&]<typename Args>(Unwanted::End end, Args args) {
    if (root.size() < sizeof args) return false;
    std::memcpy(&args, root.data(), sizeof args);
    undo_ = Unwanted{
        .end = end, .device = args.hDevice, .resource = 0, .allocations = {args.hAllocation}};
    return true;
  };
  const std::string_view name = functions()[function_].name;
  if (name == "D3DKMTLock") return plan(Unwanted::End::kUnlock, D3DKMT_LOCK{});
  if (name == "D3DKMTLock2") return plan(Unwanted::End::kUnlock2, D3DKMT_LOCK2{});
  return false;
}

uint64_t ClientCall::restore(const Fixup& fixup, uint64_t sent, std::span<const WindowNote> windows,
                             std::vector<UniqueFd>* descriptors) {
  const auto next_descriptor = [&]() -> UniqueFd {
    return next_descriptor_ < descriptors->size() ? std::move((*descriptors)[next_descriptor_++])
                                                  : UniqueFd{};
  };
  switch (fixup.kind) {
    case Kind::kAddress: {
      if (sent == 0 || next_window_ >= windows.size()) return fixup.original;
      const WindowNote& note = windows[next_window_++];
      UniqueFd descriptor;
      if (note.has_descriptor != 0) descriptor = next_descriptor();
      void* const shown = memory_.show(note, std::move(descriptor));
      has_no_room_ = has_no_room_ || (shown == nullptr && note.bytes != 0);
      return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(shown));
    }
    case Kind::kInto: {
      // The number of the block, counted from 1, and an offset in it.
      const uint64_t number = sent >> 32, offset = sent & UINT32_MAX;
      if (number == 0 || number > parts_.size() || !parts_[number - 1].there) return 0;
      return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(parts_[number - 1].client + offset));
    }
    case Kind::kDescriptorOut:
      return sent == kSentDescriptor ? static_cast<uint64_t>(next_descriptor().release())
                                     : fixup.original;
    default:
      return fixup.original;
  }
}

}  // namespace dxgkit::wire
