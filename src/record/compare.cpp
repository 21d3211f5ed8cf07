#include "record/compare.h"

#include <d3dkmthk.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/spelling.h"

namespace dxgkit::record {
namespace {

/// What these write depends on the moment.
constexpr std::array<std::string_view, 6> kOfTheMoment = {
    "D3DKMTGetDeviceState",  "D3DKMTGetPresentHistory",     "D3DKMTGetScanLine",
    "D3DKMTQueryStatistics", "D3DKMTQueryClockCalibration", "D3DKMTQueryVideoMemoryInfo"};

/// The same of one member of the arguments. The GPU may have done more of its work, or less.
struct MemberOfTheMoment {
  std::string_view function, name;
};
constexpr std::array<MemberOfTheMoment, 1> kMembersOfTheMoment = {
    {{"D3DKMTRender", "QueuedBufferCount"}}};

/// Where in a block a difference is shown.
struct Place {
  std::string name;
  size_t at = 0, bytes = 0;
};

/// The member that a byte of a block belongs to; without one, the eight bytes around it.
Place place_of(const Request& request, const Block& block, size_t at) {
  const arguments::Function& function = arguments::functions()[request.function];
  if (block.field == nullptr) {
    for (const arguments::Shown& shown : function.shown) {
      if (at >= shown.place.offset && at < size_t{shown.place.offset} + shown.place.width)
        return {shown.name, shown.place.offset, shown.place.width};
    }
    return {fmt::format("byte {} of the arguments", at), at / 8 * 8, 8};
  }
  if (block.element_bytes <= 1)
    return {fmt::format("{}, byte {}", block.field->name, at), at / 8 * 8, 8};
  return {fmt::format("{}[{}], byte {}", block.field->name, at / block.element_bytes,
                      at % block.element_bytes),
          at / 8 * 8, 8};
}

/// The first bytes of a place as one number. What is beside the place may be anything.
uint64_t number_at(std::span<const std::byte> bytes, const Place& place) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + place.at,
              std::min({sizeof value, place.bytes, bytes.size() - place.at}));
  return value;
}

class Comparison {
 public:
  Comparison(const Request& parsed, const Side& recorded, const Side& replayed, NameMap& names)
      : parsed_(parsed), recorded_(recorded), replayed_(replayed), names_(names) {}

  /// One block that came back.
  std::string block(size_t number) {
    const Reply::Content& was = recorded_.reply.contents[number];
    const Block& block = parsed_.blocks[was.block];
    std::vector<std::byte> old(was.bytes.begin(), was.bytes.end());
    const std::span<const std::byte> now = replayed_.reply.contents[number].bytes;
    std::string text;
    for_each_name(block, [&](size_t at, const arguments::Named& member) {
      std::string one = name(block, at, member, old, now);
      if (text.empty()) text = std::move(one);
    });
    if (!text.empty() || of_the_moment()) return text;
    if (block.field == nullptr) pass_over_moment(old, now);
    const auto [first, other] = std::ranges::mismatch(old, now);
    if (first == old.end()) return {};
    const auto at = static_cast<size_t>(first - old.begin());
    const Place place = place_of(parsed_, block, at);
    return fmt::format("{} is {:#x}, and was {:#x}", place.name, number_at(now, place),
                       number_at(old, place));
  }

 private:
  bool of_the_moment() const {
    return std::ranges::find(kOfTheMoment,
                             std::string_view(arguments::functions()[parsed_.function].name)) !=
           kOfTheMoment.end();
  }

  void pass_over_moment(std::vector<std::byte>& old, std::span<const std::byte> now) const {
    const arguments::Function& function = arguments::functions()[parsed_.function];
    for (const MemberOfTheMoment& member : kMembersOfTheMoment) {
      if (member.function != function.name) continue;
      for (const arguments::Shown& shown : function.shown) {
        if (member.name == shown.name)
          std::memcpy(old.data() + shown.place.offset, now.data() + shown.place.offset,
                      shown.place.width);
      }
    }
  }

  /// A member that names something: it may differ, if the two numbers mean the same. It does not
  /// differ in `old` any more then.
  std::string name(const Block& block, size_t at, const arguments::Named& member,
                   std::vector<std::byte>& old, std::span<const std::byte> now) {
    const size_t width = member.place.width;
    const auto read = [&](const std::byte* from) {
      uint64_t value = 0;
      std::memcpy(&value, from, width);
      return value;
    };
    const uint64_t was = read(old.data() + at), is = read(now.data() + at);
    const uint64_t asked = read(recorded_.request.data() + block.at + at);
    const bool same = was == asked ? is == read(replayed_.request.data() + block.at + at)
                                   : (was == 0) == (is == 0);
    if (!same)
      return fmt::format("{} is {:#x}, and was {:#x}", place_of(parsed_, block, at).name, is, was);
    if (was != asked && was != 0) names_.learn(member.names, was, is);
    std::memcpy(old.data() + at, now.data() + at, width);
    return {};
  }

  const Request& parsed_;
  const Side& recorded_;
  const Side& replayed_;
  NameMap& names_;
};

}  // namespace

void rename(const NameMap& names, const Request& parsed, std::vector<std::byte>& request) {
  for (const Block& block : parsed.blocks) {
    if (!block.there) continue;
    for_each_name(block, [&](size_t at, const arguments::Named& member) {
      std::byte* const place = request.data() + block.at + at;
      uint64_t value = 0;
      std::memcpy(&value, place, member.place.width);
      value = names.there(member.names, value);
      std::memcpy(place, &value, member.place.width);
    });
  }
  // The list of D3DKMTRender names allocations.
  for (const NoteAt& note : parsed.notes) {
    if (static_cast<arguments::Memory>(note.note.memory) != arguments::Memory::kAllocations)
      continue;
    for (size_t at = 0; at + sizeof(D3DDDI_ALLOCATIONLIST) <= note.note.bytes;
         at += sizeof(D3DDDI_ALLOCATIONLIST)) {
      std::byte* const place = request.data() + note.at + at;
      uint32_t handle = 0;
      std::memcpy(&handle, place, sizeof handle);
      handle = static_cast<uint32_t>(names.there(arguments::Names::kHandle, handle));
      std::memcpy(place, &handle, sizeof handle);
    }
  }
}

std::string compare(const Request& parsed, const Side& recorded, const Side& replayed,
                    NameMap& names) {
  if (recorded.reply.result != replayed.reply.result)
    return fmt::format("the status is {:#010x}, and was {:#010x}",
                       static_cast<uint32_t>(replayed.reply.result),
                       static_cast<uint32_t>(recorded.reply.result));
  std::string text;
  Comparison comparison(parsed, recorded, replayed, names);
  for (size_t i = 0; i < recorded.reply.contents.size(); ++i) {
    std::string one = comparison.block(i);  // all of them: each may give names
    if (text.empty()) text = std::move(one);
  }
  if (!text.empty()) return text;
  const auto& was = recorded.reply.windows;
  const auto& now = replayed.reply.windows;
  if (was.size() != now.size())
    return fmt::format("it shows {} of memory, and showed {}", counted(now.size(), "piece"),
                       counted(was.size(), "piece"));
  for (size_t i = 0; i < was.size(); ++i) {
    if (was[i].bytes != now[i].bytes)
      return fmt::format("it shows {}, and showed {}", counted(now[i].bytes, "byte"),
                         counted(was[i].bytes, "byte"));
  }
  return {};
}

}  // namespace dxgkit::record
