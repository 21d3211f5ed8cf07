#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/arithmetic.h"
#include "base/spelling.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/va/address_story.h"

namespace dxgkit::tool {
namespace {

using nlohmann::ordered_json;
using va::AddressStory;
using va::Process;
using va::Range;
using va::Walk;
using va::WalkStep;

/// False: stderr says why.
bool print(const Reports& reports, const ordered_json& json) {
  // Names may hold any bytes.
  return write_output(reports.json,
                      json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

std::string hex(uint64_t value) { return fmt::format("{:#x}", value); }

/// A name out of a hostile file as it may be printed.
std::string shown(std::string_view name) {
  std::string out;
  for (const char c : name) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

std::string named(const Process& process) {
  return process.name.empty() ? fmt::format("process {}", process.number)
                              : fmt::format("process {} ({})", process.number, shown(process.name));
}

std::string size_text(uint64_t bytes) {
  if (bytes % (uint64_t{1} << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} KiB", bytes >> 10);
}

std::string place_text(uint64_t segment, uint64_t offset) {
  return segment == 0 ? fmt::format("system memory at {:#x}", offset)
                      : fmt::format("segment {} at {:#x}", segment, offset);
}

std::string protection_text(const Range& range) {
  return fmt::format("r{}{}", (range.protection & 1) != 0 ? "w" : "-",
                     (range.protection & 2) != 0 ? "x" : "-");
}

const char* kind_name(Range::Kind kind) {
  switch (kind) {
    case Range::Kind::kReserved:
      return "reserved";
    case Range::Kind::kMapped:
      return "mapped";
    case Range::Kind::kZero:
      return "zero";
  }
  return "";
}

std::string describe(const AddressStory& story, const Range& range, int64_t at_ns) {
  if (range.kind == Range::Kind::kReserved) return "reserved: every access faults";
  if (range.kind == Range::Kind::kZero) return "zeros";
  const auto place = story.place_at(range.allocation, at_ns);
  return fmt::format(
      "allocation {} + {:#x} {}, in {}", range.allocation, range.offset, protection_text(range),
      place.has_value() ? place_text(place->segment, place->offset + range.offset) : "no segment");
}

ordered_json to_json(const Range& range) {
  ordered_json json{{"address", hex(range.address)},
                    {"size", range.size},
                    {"kind", kind_name(range.kind)},
                    {"since_ns", range.since_ns}};
  if (range.kind != Range::Kind::kMapped) return json;
  json["allocation"] = range.allocation;
  json["offset"] = range.offset;
  json["write"] = (range.protection & 1) != 0;
  json["execute"] = (range.protection & 2) != 0;
  return json;
}

int list_processes(const AddressStory& story, const VaOptions& options) {
  const Reports& reports = options.reports;
  if (reports.json.has_value()) {
    ordered_json list = ordered_json::array();
    for (const Process& process : story.processes()) {
      list.push_back({{"process", process.number},
                      {"name", process.name},
                      {"bits", process.address_bits},
                      {"levels", process.levels},
                      {"calls", process.calls},
                      {"faults", process.faults}});
    }
    if (!print(reports,
               {{"begin_ns", story.begin_ns()}, {"end_ns", story.end_ns()}, {"processes", list}}))
      return kExitNotWritten;
    if (reports.on_stdout()) return kExitDone;
  }
  fmt::print("Addresses of {}, from {} to {} ns; --process P shows one:\n",
             counted(story.processes().size(), "process", "processes"), story.begin_ns(),
             story.end_ns());
  for (const Process& process : story.processes()) {
    fmt::print("  {}: {} in {}, {}, {}\n", named(process), counted(process.address_bits, "bit"),
               counted(process.levels, "level"), counted(process.calls, "change"),
               counted(process.faults, "fault"));
  }
  return kExitDone;
}

int show_map(const AddressStory& story, const Process& process, int64_t at_ns,
             const Reports& reports) {
  const std::vector<Range> ranges = story.map_at(process.number, at_ns);
  if (reports.json.has_value()) {
    ordered_json list = ordered_json::array();
    for (const Range& range : ranges) list.push_back(to_json(range));
    if (!print(reports, {{"process", process.number},
                         {"name", process.name},
                         {"at_ns", at_ns},
                         {"ranges", list}}))
      return kExitNotWritten;
    if (reports.on_stdout()) return kExitDone;
  }
  uint64_t mapped = 0;
  for (const Range& range : ranges)
    if (range.kind == Range::Kind::kMapped) mapped += range.size;
  fmt::print("{} at {} ns: {}, {} mapped\n", named(process), at_ns, counted(ranges.size(), "range"),
             size_text(mapped));
  for (const Range& range : ranges) {
    fmt::print("  {:#014x} {:>12}  {}\n", range.address, size_text(range.size),
               describe(story, range, at_ns));
  }
  return kExitDone;
}

/// The difference between the entries and the map; nothing: they agree.
std::string difference(const AddressStory& story, const std::optional<Range>& range,
                       const Walk& walk, uint64_t address, int64_t at_ns) {
  if (walk.steps.empty()) return {};
  if (!range.has_value() || range->kind == Range::Kind::kReserved)
    return walk.translates ? "The entries translate it, and nothing is mapped there." : "";
  if (range->kind == Range::Kind::kZero) return {};
  const auto place = story.place_at(range->allocation, at_ns);
  if (!place.has_value())
    return walk.translates ? "The entries translate it, and the allocation is in no segment." : "";
  if (!walk.translates) return "The allocation is in a segment, and the entries do not lead there.";
  const uint64_t offset = place->offset + range->offset + (address - range->address);
  if (walk.segment == place->segment && walk.offset == offset) return {};
  return fmt::format("The entries lead to {}, and the allocation has it in {}.",
                     place_text(walk.segment, walk.offset), place_text(place->segment, offset));
}

int show_address(const AddressStory& story, const Process& process, uint64_t address, int64_t at_ns,
                 const Reports& reports) {
  const std::optional<Range> range = story.range_at(process.number, address, at_ns);
  const Walk walk = story.walk_at(process.number, address, at_ns);
  const std::vector<va::Happening> history = story.history_of(process.number, address);
  const std::string wrong = difference(story, range, walk, address, at_ns);
  if (reports.json.has_value()) {
    ordered_json steps = ordered_json::array();
    for (const WalkStep& step : walk.steps) {
      ordered_json one{{"level", step.level}, {"index", step.index}, {"valid", step.valid()}};
      if (step.written) {
        one["table"] = {{"segment", step.table_segment}, {"offset", hex(step.table_offset)}};
        one["flags"] = hex(step.flags);
        one["page"] = hex(step.page);
        one["since_ns"] = step.since_ns;
      }
      steps.push_back(std::move(one));
    }
    ordered_json events = ordered_json::array();
    for (const va::Happening& one : history)
      events.push_back({{"time_ns", one.time_ns}, {"what", one.what}, {"text", one.text}});
    ordered_json out{{"process", process.number},
                     {"address", hex(address)},
                     {"at_ns", at_ns},
                     {"range", range.has_value() ? to_json(*range) : ordered_json()},
                     {"walk", steps},
                     {"translates", walk.translates}};
    if (walk.translates)
      out["leads_to"] = {
          {"segment", walk.segment}, {"offset", hex(walk.offset)}, {"zero", walk.zero}};
    if (!wrong.empty()) out["difference"] = wrong;
    out["history"] = events;
    if (!print(reports, out)) return kExitNotWritten;
    if (reports.on_stdout()) return kExitDone;
  }
  fmt::print("{}, address {:#x} at {} ns\n", named(process), address, at_ns);
  if (range.has_value()) {
    fmt::print("  in {:#x} of {} since {} ns: {}\n", range->address, size_text(range->size),
               range->since_ns, describe(story, *range, at_ns));
  } else {
    fmt::print("  belongs to nobody\n");
  }
  for (const WalkStep& step : walk.steps) {
    fmt::print("  level {} index {:<4} ", step.level, step.index);
    if (!step.written) {
      fmt::print("there is no table\n");
      continue;
    }
    fmt::print("of the table in {}, since {} ns: ",
               place_text(step.table_segment, step.table_offset), step.since_ns);
    if (!step.valid()) {
      fmt::print("invalid\n");
    } else if (step.zero()) {
      fmt::print("zeros\n");
    } else {
      fmt::print("{}, flags {:#x}\n", place_text(step.segment(), step.page * kPageBytes),
                 step.flags);
    }
  }
  if (walk.steps.empty()) {
    fmt::print("  no page tables were recorded\n");
  } else if (!walk.translates) {
    fmt::print("  an access faults\n");
  } else if (walk.zero) {
    fmt::print("  reads zeros\n");
  } else {
    fmt::print("  leads to {}\n", place_text(walk.segment, walk.offset));
  }
  if (!wrong.empty()) fmt::print("  {} A move under way looks like that for a while.\n", wrong);
  fmt::print("History:\n");
  for (const va::Happening& one : history)
    fmt::print("  {:>12} ns  {:<8}  {}\n", one.time_ns, one.what, one.text);
  if (history.empty()) fmt::print("  nothing happened to it\n");
  return kExitDone;
}

}  // namespace

int va_command(const VaOptions& options) {
  if (const int code = options.reports.check(); code != kExitDone) return code;
  std::optional<uint64_t> address;
  if (options.address.has_value()) {
    address = va::parse_address(*options.address);
    if (!address.has_value())
      return bad_input(fmt::format("--address: '{}' is not an address below 2^64, like 0x200000",
                                   shown(*options.address)));
  }
  std::optional<int64_t> at;
  if (options.at.has_value()) {
    at = va::parse_time(*options.at);
    if (!at.has_value())
      return bad_input(
          fmt::format("--at: '{}' is not a time, like 1200, 5us or 2.5ms", shown(*options.at)));
  }
  const auto text = read_file(options.trace);
  if (!text.has_value()) return bad_input(text.error());
  const auto recording = trace::from_text(*text);
  if (!recording.has_value())
    return bad_input(
        fmt::format("{}: {} (write one with --trace FILE.txt)", options.trace, recording.error()));
  if (!std::ranges::is_sorted(recording->events, {}, &trace::Event::time_ns))
    return bad_input(fmt::format("{}: its events are not in the order of time", options.trace));
  const AddressStory story(*recording);
  if (story.processes().empty())
    return bad_input(
        fmt::format("{}: nobody has GPU virtual addresses in it; the driver's model may be another",
                    options.trace));
  if (recording->dropped != 0)
    fmt::print(stderr, "dxgkit: {} at the beginning are missing: what they set is unknown\n",
               counted(recording->dropped, "event"));
  const Process* process = nullptr;
  if (options.process.has_value()) {
    if (const auto number = va::parse_address(*options.process); number.has_value())
      process = story.find(*number);
    for (const Process& one : story.processes())
      if (process == nullptr && one.name == *options.process) process = &one;
    if (process == nullptr)
      return bad_input(fmt::format("{}: '{}' has no GPU virtual addresses in it", options.trace,
                                   shown(*options.process)));
  } else {
    // The kernel's own process is not listed.
    const auto clients = std::ranges::count_if(story.processes(),
                                               [](const Process& one) { return one.number != 0; });
    if (clients != 1) {
      if (address.has_value() || at.has_value())
        return bad_input(fmt::format("{}: whose addresses? --process P is required, there are {}",
                                     options.trace, clients));
      return list_processes(story, options);
    }
    process = &*std::ranges::find_if(story.processes(),
                                     [](const Process& one) { return one.number != 0; });
  }
  const int64_t when = at.value_or(story.end_ns());
  if (address.has_value()) return show_address(story, *process, *address, when, options.reports);
  return show_map(story, *process, when, options.reports);
}

}  // namespace dxgkit::tool
