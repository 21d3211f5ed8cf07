#include "tools/dxgkit/va/address_story.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/arithmetic.h"

namespace dxgkit::tool::va {
namespace {

using trace::Event;
using trace::EventKind;

constexpr uint64_t kUnknown = UINT64_MAX;
constexpr uint64_t kAddressBitsMost = 63, kLevelsMost = 6;

/// Ranges that replace the parts they overlap. A value is moved with `cut` when its front is
/// removed.
template <typename Value>
class RangeMap {
 public:
  struct Piece {
    uint64_t end = 0;
    Value value;
  };
  void erase(uint64_t begin, uint64_t end) {
    split(begin);
    split(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
  }
  void set(uint64_t begin, uint64_t end, Value value) {
    erase(begin, end);
    pieces_[begin] = {end, std::move(value)};
  }
  const std::pair<const uint64_t, Piece>* at(uint64_t address) const {
    auto found = pieces_.upper_bound(address);
    if (found == pieces_.begin()) return nullptr;
    --found;
    return address < found->second.end ? &*found : nullptr;
  }
  /// Of the range that begins there; null without one.
  Value* begins_at(uint64_t address) {
    const auto found = pieces_.find(address);
    return found == pieces_.end() ? nullptr : &found->second.value;
  }
  const std::map<uint64_t, Piece>& pieces() const { return pieces_; }
  void clear() { pieces_.clear(); }

 private:
  void split(uint64_t address) {
    const auto* const found = at(address);
    if (found == nullptr || found->first == address) return;
    const uint64_t begin = found->first;
    Piece tail = found->second;
    tail.value.cut(address - begin);
    pieces_[begin].end = address;
    pieces_[address] = std::move(tail);
  }
  std::map<uint64_t, Piece> pieces_;
};

struct Shown {
  Range::Kind kind = Range::Kind::kReserved;
  uint64_t allocation = 0, offset = 0, protection = 0;
  int64_t since_ns = 0;
  void cut(uint64_t bytes) { offset += bytes; }
};
/// Reserved ranges, and above them mapped ones.
struct Space {
  RangeMap<Shown> reserved, mapped;
  std::optional<uint64_t> last;  // address of a kGpuVaMapped whose kGpuVaView is still to come
};

/// [begin, end) of an event's range; empty for one that is no range of pages.
std::pair<uint64_t, uint64_t> bytes_of(uint64_t address, uint64_t size) {
  uint64_t end = 0;
  if (!checked_add(address, size, &end)) return {0, 0};
  return {address, end};
}

void apply(const Event& event, uint64_t process, Space* space) {
  const auto [begin, end] = bytes_of(event.b, event.c);
  switch (static_cast<EventKind>(event.kind)) {
    case EventKind::kGpuVaReserved:
      if (event.a == process && begin != end)
        space->reserved.set(begin, end, {.since_ns = event.time_ns});
      break;
    case EventKind::kGpuVaFreed:
      if (event.a != process || begin == end) break;
      space->reserved.erase(begin, end);
      space->mapped.erase(begin, end);
      break;
    case EventKind::kGpuVaMapped:
      space->last.reset();
      if (event.a != process || begin == end) break;
      space->mapped.set(begin, end,
                        {.kind = event.d == 0 ? Range::Kind::kZero : Range::Kind::kMapped,
                         .allocation = event.d,
                         .since_ns = event.time_ns});
      space->last = begin;
      break;
    case EventKind::kGpuVaView:
      if (event.a != process || !space->last.has_value()) break;
      if (Shown* const shown = space->mapped.begins_at(*std::exchange(space->last, {}))) {
        shown->offset = event.b;
        shown->protection = event.c;
        // Nothing but a driver's protection is kept for it: every access faults.
        if ((event.c & 8) != 0) shown->kind = Range::Kind::kReserved;
      }
      break;
    case EventKind::kGpuVaUnmapped:
      if (event.a == process && begin != end) space->mapped.erase(begin, end);
      break;
    case EventKind::kGpuVaSpaceEnded:
      if (event.a != process) break;
      space->reserved.clear();
      space->mapped.clear();
      break;
    default:
      break;
  }
}

Range range_of(uint64_t begin, uint64_t end, const Shown& shown) {
  return {.address = begin,
          .size = end - begin,
          .kind = shown.kind,
          .allocation = shown.allocation,
          .offset = shown.offset,
          .protection = shown.protection,
          .since_ns = shown.since_ns};
}

std::string protection_text(uint64_t bits) {
  std::string text = "read";
  if ((bits & 1) != 0) text += ", write";
  if ((bits & 2) != 0) text += ", execute";
  return text;
}

std::string place_text(uint64_t segment, uint64_t offset) {
  return segment == 0 ? fmt::format("system memory {:#x}", offset)
                      : fmt::format("segment {} + {:#x}", segment, offset);
}

}  // namespace

AddressStory::AddressStory(const trace::Recording& recording) : recording_(recording) {
  std::map<uint64_t, std::string> names;
  std::map<uint64_t, Process> found;
  std::map<std::pair<uint16_t, uint64_t>, uint64_t> submitted;  // context by node and fence
  const auto seen = [&](uint64_t number) -> Process& {
    Process& process = found[number];
    process.number = number;
    return process;
  };
  if (!recording.events.empty()) {
    begin_ns_ = recording.events.front().time_ns;
    end_ns_ = recording.events.back().time_ns;
  }
  for (const Event& event : recording.events) {
    switch (static_cast<EventKind>(event.kind)) {
      case EventKind::kObjectName:
        if (event.c == static_cast<uint64_t>(trace::ObjectClass::kProcess) &&
            event.b < recording.names.size())
          names[event.a] = recording.names[event.b];
        break;
      case EventKind::kGpuVaSpace: {
        Process& process = seen(event.a);
        process.address_bits = event.b;
        process.levels = event.c;
        uint64_t bits = 12;
        for (uint64_t level = 0; level < std::min(event.c, kLevelsMost); ++level)
          bits += event.d >> (8 * level) & 0xFF;
        // A description that is not one of tables is not walked.
        if (event.c == 0 || event.c > kLevelsMost || bits > kAddressBitsMost) process.levels = 0;
        index_bits_[event.a] = event.d;
        break;
      }
      case EventKind::kGpuVaReserved:
      case EventKind::kGpuVaFreed:
      case EventKind::kGpuVaMapped:
      case EventKind::kGpuVaUpdated:
        ++seen(event.a).calls;
        break;
      case EventKind::kGpuVaRoot:
        static_cast<void>(seen(event.a));
        process_of_[event.b] = event.a;
        break;
      case EventKind::kPacketSubmitted:
        submitted[{event.node, event.c}] = event.b;
        break;
      case EventKind::kGpuVaFault: {
        uint64_t process = kUnknown;
        if (const auto context = submitted.find({event.node, event.a});
            context != submitted.end()) {
          if (const auto owner = process_of_.find(context->second); owner != process_of_.end())
            process = owner->second;
        }
        process_of_fault_.push_back(process);
        if (process != kUnknown) ++seen(process).faults;
        break;
      }
      default:
        break;
    }
  }
  for (auto& [number, process] : found) {
    const auto name = names.find(number);
    process.name = number == 0 ? "the kernel, for paging" : "";
    if (name != names.end() && number != 0) process.name = name->second;
    processes_.push_back(std::move(process));
  }
}

const Process* AddressStory::find(uint64_t number) const {
  const auto found = std::ranges::find(processes_, number, &Process::number);
  return found == processes_.end() ? nullptr : &*found;
}

template <typename Visit>
void AddressStory::until(int64_t at_ns, Visit visit) const {
  for (const Event& event : recording_.events) {
    if (event.time_ns > at_ns) return;
    visit(event);
  }
}

std::vector<Range> AddressStory::map_at(uint64_t process, int64_t at_ns) const {
  Space space;
  until(at_ns, [&](const Event& event) { apply(event, process, &space); });
  std::vector<Range> ranges;
  for (const auto& [begin, piece] : space.mapped.pieces()) {
    space.reserved.erase(begin, piece.end);
    ranges.push_back(range_of(begin, piece.end, piece.value));
  }
  for (const auto& [begin, piece] : space.reserved.pieces())
    ranges.push_back(range_of(begin, piece.end, piece.value));
  std::ranges::sort(ranges, {}, &Range::address);
  return ranges;
}

std::optional<Range> AddressStory::range_at(uint64_t process, uint64_t address,
                                            int64_t at_ns) const {
  Space space;
  until(at_ns, [&](const Event& event) { apply(event, process, &space); });
  for (const RangeMap<Shown>* map : {&space.mapped, &space.reserved}) {
    if (const auto* const found = map->at(address); found != nullptr)
      return range_of(found->first, found->second.end, found->second.value);
  }
  return std::nullopt;
}

std::optional<uint32_t> AddressStory::entry_bits(uint64_t process, uint64_t level) const {
  const Process* const known = find(process);
  if (known == nullptr || level >= known->levels) return std::nullopt;
  uint32_t bits = 12;
  for (uint64_t below = 0; below < level; ++below)
    bits += static_cast<uint32_t>(index_bits_.at(process) >> (8 * below) & 0xFF);
  return bits;
}

Walk AddressStory::walk_at(uint64_t process, uint64_t address, int64_t at_ns) const {
  const Process* const known = find(process);
  if (known == nullptr || known->levels == 0) return {};
  std::vector<WalkStep> levels(known->levels);
  for (uint64_t level = 0; level < known->levels; ++level) levels[level].level = level;
  WalkStep table;  // whose entries come next
  std::optional<uint32_t> bits;
  until(at_ns, [&](const Event& event) {
    const auto kind = static_cast<EventKind>(event.kind);
    if (kind == EventKind::kPageTableWrite) {
      bits = event.a == process ? entry_bits(process, event.b) : std::nullopt;
      table.level = event.b;
      table.table_offset = event.c;
      table.table_segment = event.d;
    } else if (kind == EventKind::kPageTableEntries && bits.has_value()) {
      if (address < event.a || (address - event.a) >> *bits >= event.b) return;
      const uint64_t entry = (address - event.a) >> *bits;
      WalkStep& step = levels[table.level];
      step = table;
      step.written = true;
      step.flags = event.d & UINT32_MAX;
      step.page = event.c + entry * (event.d >> 32);
      step.since_ns = event.time_ns;
    } else if ((kind == EventKind::kPageTablesLost && (event.a == 0 || event.a == process)) ||
               (kind == EventKind::kGpuVaSpaceEnded && event.a == process)) {
      for (WalkStep& step : levels) step.written = false;
    }
  });
  Walk walk;
  for (uint64_t level = known->levels; level-- != 0;) {
    WalkStep step = levels[level];
    const uint32_t shift = *entry_bits(process, level);
    const uint64_t index_bits = index_bits_.at(process) >> (8 * level) & 0xFF;
    // The root of two levels grows beyond the bits it begins with.
    step.index = level + 1 == known->levels ? address >> shift
                                            : address >> shift & ((uint64_t{1} << index_bits) - 1);
    walk.steps.push_back(step);
    if (!step.valid()) return walk;
    if (level != 0 && !step.large()) continue;
    walk.translates = true;
    walk.zero = step.zero();
    walk.segment = step.segment();
    walk.offset = step.page * kPageBytes + (address & ((uint64_t{1} << shift) - 1));
    return walk;
  }
  return walk;
}

std::optional<Place> AddressStory::place_at(uint64_t allocation, int64_t at_ns) const {
  std::optional<Place> place;
  until(at_ns, [&](const Event& event) {
    if (event.a != allocation) return;
    const auto kind = static_cast<EventKind>(event.kind);
    if (kind == EventKind::kPlaced) place = {event.b, event.c, event.d};
    if (kind == EventKind::kEvicted || kind == EventKind::kAllocationDestroyed) place.reset();
  });
  return place;
}

std::vector<Happening> AddressStory::history_of(uint64_t process, uint64_t address) const {
  std::vector<Happening> out;
  std::map<uint32_t, std::vector<uint64_t>> thunks;  // open on a thread: name ids
  uint64_t allocation = 0;                           // mapped at the address
  bool table_is_ours = false, view_is_ours = false;
  WalkStep table;
  std::optional<uint32_t> bits;
  size_t fault = 0;
  // `call`: a client's call caused it, and not a queued operation that ran on the client's thread.
  const auto add = [&](const Event& event, const char* what, std::string text, bool call = true) {
    if (const auto open = thunks.find(event.thread);
        call && open != thunks.end() && !open->second.empty()) {
      const uint64_t name = open->second.back();
      text += fmt::format(", in {}",
                          name < recording_.names.size() ? recording_.names[name] : "a thunk");
    }
    out.push_back({event.time_ns, what, std::move(text)});
  };
  const auto covers = [&](const Event& event) {
    const auto [begin, end] = bytes_of(event.b, event.c);
    return event.a == process && address >= begin && address < end;
  };
  const auto range = [](const Event& event) {
    return fmt::format("{:#x} to {:#x}", event.b, event.b + event.c);
  };
  for (const Event& event : recording_.events) {
    switch (static_cast<EventKind>(event.kind)) {
      case EventKind::kThunkEnter:
        thunks[event.thread].push_back(event.a);
        break;
      case EventKind::kThunkExit:
        if (auto& open = thunks[event.thread]; !open.empty()) open.pop_back();
        break;
      case EventKind::kGpuVaReserved:
        if (covers(event))
          add(event, "reserved",
              fmt::format("{}{}", range(event),
                          event.d == 1   ? ", reads zeros"
                          : event.d == 2 ? ", by the driver"
                                         : ""));
        break;
      case EventKind::kGpuVaFreed:
        if (!covers(event)) break;
        add(event, "freed", range(event));
        break;
      case EventKind::kGpuVaMapped:
        view_is_ours = covers(event);
        if (!view_is_ours) break;
        allocation = event.d;
        add(event, "mapped",
            event.d == 0 ? fmt::format("{}: zeros", range(event))
                         : fmt::format("{}: allocation {}", range(event), event.d));
        break;
      case EventKind::kGpuVaView:
        if (!view_is_ours || event.a != process) break;
        view_is_ours = false;
        out.back().text += fmt::format("; from {:#x}, {}", event.b,
                                       (event.c & 8) != 0 ? "no access" : protection_text(event.c));
        break;
      case EventKind::kGpuVaUnmapped:
        if (!covers(event)) break;
        allocation = 0;
        add(event, "unmapped", range(event));
        break;
      case EventKind::kPageTableWrite:
        table_is_ours = event.a == process;
        bits = table_is_ours ? entry_bits(process, event.b) : std::nullopt;
        table.level = event.b;
        break;
      case EventKind::kPageTableEntries: {
        if (!bits.has_value() || address < event.a || (address - event.a) >> *bits >= event.b)
          break;
        const uint64_t entry = (address - event.a) >> *bits;
        const uint64_t page = event.c + entry * (event.d >> 32);
        WalkStep step;
        step.written = true;
        step.flags = event.d & UINT32_MAX;
        std::string text = fmt::format("level {}: ", table.level);
        if (!step.valid()) {
          text += "invalid";
        } else if (step.zero()) {
          text += "zeros";
        } else {
          text += place_text(step.segment(), page * kPageBytes);
          if (table.level != 0 && !step.large()) text += " (a table)";
        }
        add(event, "entry", std::move(text), false);
        break;
      }
      case EventKind::kTlbFlushed:
        if (event.a == process && address >= event.b && address < event.c)
          add(event, "flushed", fmt::format("{:#x} to {:#x}", event.b, event.c), false);
        break;
      case EventKind::kPlaced:
        if (allocation != 0 && event.a == allocation)
          add(event, "placed",
              fmt::format("allocation {} in {}", event.a, place_text(event.b, event.c)), false);
        break;
      case EventKind::kEvicted:
        if (allocation != 0 && event.a == allocation)
          add(event, "evicted",
              fmt::format("allocation {} from {}", event.a, place_text(event.b, event.c)), false);
        break;
      case EventKind::kGpuVaFault: {
        const uint64_t who = process_of_fault_[fault++];
        if (event.b / kPageBytes != address / kPageBytes) break;
        if (who != process && who != kUnknown) break;
        add(event, "faulted",
            fmt::format("{} of {:#x} on node {}, fence {}, level {}{}",
                        (event.c & 1) != 0 ? "write" : "access", event.b, event.node, event.a,
                        event.d, who == kUnknown ? "; the process is not known" : ""),
            false);
        break;
      }
      case EventKind::kGpuVaSpaceEnded:
        if (event.a != process) break;
        allocation = 0;
        add(event, "ended", "the process's address space is gone");
        break;
      case EventKind::kPageTablesLost:
        if (event.a != 0 && event.a != process) break;
        add(event, "lost",
            event.a == 0 ? "the tables of all processes; they are written again"
                         : "the process's tables gave way to others; they are written again",
            false);
        break;
      default:
        break;
    }
  }
  return out;
}

std::optional<int64_t> parse_time(std::string_view text) {
  static constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
      {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
  uint64_t scale = 1;
  for (const auto& [unit, ns] : kUnits) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    scale = ns;
    break;
  }
  const size_t dot = text.find('.');
  const std::string_view whole = text.substr(0, dot);
  std::string_view rest = dot == std::string_view::npos ? "" : text.substr(dot + 1);
  if (dot != std::string_view::npos && rest.empty()) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(whole.data(), whole.data() + whole.size(), value);
  if (error != std::errc() || end != whole.data() + whole.size()) return std::nullopt;
  if (!checked_mul(value, scale, &value) || value > INT64_MAX) return std::nullopt;
  for (uint64_t digit = scale / 10; !rest.empty(); digit /= 10, rest.remove_prefix(1)) {
    if (rest[0] < '0' || rest[0] > '9' || digit == 0) return std::nullopt;
    value += digit * static_cast<uint64_t>(rest[0] - '0');
  }
  if (value > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<uint64_t> parse_address(std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace dxgkit::tool::va
