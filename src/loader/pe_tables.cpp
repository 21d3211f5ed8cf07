// The exception directory of a PE32+ driver, with all data that an unwinder reads, and the
// informative tables: symbols, the name of the PDB.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "loader/pe_parser.h"
#include "loader/symbol_name.h"

namespace dxgkit::loader {
namespace {

constexpr uint32_t kFunctionsMax = 1 << 18;
/// Unwind codes of a whole image; compilers make about five per function.
constexpr uint64_t kUnwindCodesMax = uint64_t{1} << 22;
constexpr uint32_t kChainMax = 32;
constexpr uint32_t kSymbolsMax = 1 << 18;
constexpr uint32_t kSymbolNameBytesMax = 1024;
constexpr uint32_t kSymbolTextBytesMax = 16 << 20;

/// The number of slots of an unwind code; 0: there is no such code.
uint32_t unwind_code_slots(uint8_t version, uint8_t operation, uint8_t info) {
  switch (operation) {
    case 0:   // push a register
    case 2:   // small allocation
    case 3:   // frame register
    case 10:  // machine frame
      return 1;
    case 1:  // large allocation
      return info == 0 ? 2 : info == 1 ? 3 : 0;
    case 4:  // save a register
    case 8:  // save an XMM register
      return 2;
    case 5:  // the same, far away
    case 9:
      return 3;
    case 6:  // epilogs
      return version == 2 ? 1 : 0;
    default:
      return 0;
  }
}

}  // namespace

bool PeParser::functions() {
  const pe::Directory& directory = directories_[pe::kExceptionDirectory];
  if (directory.size == 0) return true;
  const auto data = data_from(directory.address);
  if (directory.size % sizeof(RuntimeFunction) != 0 || directory.address % 4 != 0)
    return fail(
        fmt::format("the exception directory at {:#x} has size {:#x}; expected a multiple of "
                    "4 and of {}.",
                    directory.address, directory.size, sizeof(RuntimeFunction)));
  if (!data.has_value() || data->size() < directory.size)
    return fail(
        fmt::format("the exception directory at {:#x} has size {:#x}; expected to lie inside "
                    "the data of one section.",
                    directory.address, directory.size));
  const auto count = static_cast<uint32_t>(directory.size / sizeof(RuntimeFunction));
  if (count > kFunctionsMax)
    return fail(fmt::format("the exception directory has {} entries; expected at most {}.", count,
                            kFunctionsMax));
  unwound_.resize(plan_.size / 4);
  unwind_bytes_.resize(plan_.size / 4);
  mark(directory.address, directory.size);
  uint32_t last_end = 0;
  for (uint32_t i = 0; i < count; ++i) {
    RuntimeFunction function;
    std::memcpy(&function, data->data() + i * sizeof(function), sizeof(function));
    if (function.begin >= function.end || function.begin < last_end)
      return fail(
          fmt::format("exception entry {} is for {:#x} to {:#x}; expected a range that "
                      "begins at {:#x} or later, where the entry before it ends.",
                      i, function.begin, function.end, last_end));
    const PePlan::Section* section = section_of(function.begin, function.end - function.begin);
    if (section == nullptr || !section->execute)
      return fail(
          fmt::format("exception entry {} is for {:#x} to {:#x}; expected a range inside an "
                      "executable section.",
                      i, function.begin, function.end));
    if (!unwind_chain(function)) return false;
    last_end = function.end;
  }
  plan_.functions = directory.address;
  plan_.function_count = count;
  return true;
}

/// A function's unwind info and the infos in which it continues. If the chain ends in another
/// chain, that one is checked already; only the total length counts.
bool PeParser::unwind_chain(const RuntimeFunction& function) {
  RuntimeFunction at = function;
  std::array<uint32_t, kChainMax> seen = {};
  uint32_t links = 0, known = 0;  // infos read here, and behind them
  for (;;) {
    if (at.unwind < plan_.size && at.unwind % 4 == 0 && unwound_[at.unwind / 4]) {
      const auto chained = chain_links_.find(at.unwind);
      known = chained == chain_links_.end() ? 1 : chained->second;
      break;
    }
    if (links == kChainMax) {
      known = 1;
      break;
    }
    std::optional<RuntimeFunction> parent;
    if (!unwind_info(at, &parent)) return false;
    seen[links++] = at.unwind;
    if (!parent.has_value()) break;
    at = *parent;
  }
  if (links + known > kChainMax)
    return fail(
        fmt::format("the unwind info of the function at {:#x} begins a chain of more than "
                    "{}; expected an end before that.",
                    function.begin, kChainMax));
  for (uint32_t i = 0; i < links; ++i) {
    unwound_[seen[i] / 4] = true;
    if (const uint32_t length = links - i + known; length > 1)
      chain_links_[seen[i]] = static_cast<uint8_t>(length);
  }
  return true;
}

bool PeParser::unwind_info(const RuntimeFunction& function,
                           std::optional<RuntimeFunction>* parent) {
  const auto refuse = [&](std::string what) {
    return fail(fmt::format("the unwind info at {:#x} of the function at {:#x} {}", function.unwind,
                            function.begin, what));
  };
  if ((function.unwind & 1) != 0)
    return refuse("is a reference to another entry (bit 0); expected an address.");
  if (function.unwind % 4 != 0) return refuse("is misaligned; expected a multiple of 4.");
  const auto data = data_from(function.unwind);
  pe::UnwindHeader header;
  if (!data.has_value() || data->size() < sizeof(header))
    return refuse("lies outside the data of the image.");
  std::memcpy(&header, data->data(), sizeof(header));
  const auto version = static_cast<uint8_t>(header.version_and_flags & 7U);
  const auto flags = static_cast<uint8_t>(header.version_and_flags >> 3U);
  if (version != 1 && version != 2)
    return refuse(fmt::format("has version {}; expected 1 or 2.", version));
  constexpr uint8_t kHandlers = pe::kUnwindExceptionHandler | pe::kUnwindTerminationHandler;
  if (flags > 7 || ((flags & pe::kUnwindChained) != 0 && (flags & kHandlers) != 0))
    return refuse(fmt::format("has flags {:#x}; expected handlers (1, 2), or a chain (4).", flags));
  uint64_t at = sizeof(header);
  // Padded to an even number of codes.
  const uint64_t after = at + (header.code_count + 1U) / 2 * 4;
  if (data->size() < after) return refuse("has codes outside the data of the image.");
  unwind_codes_ += header.code_count + uint64_t{1};
  if (unwind_codes_ > kUnwindCodesMax)
    return refuse(
        fmt::format("takes the image over {} unwind codes; expected fewer.", kUnwindCodesMax));
  for (uint32_t slot = 0; slot < header.code_count;) {
    const auto code = static_cast<uint8_t>((*data)[at + slot * 2 + 1]);
    const auto operation = static_cast<uint8_t>(code & 15U);
    const uint32_t slots = unwind_code_slots(version, operation, static_cast<uint8_t>(code >> 4U));
    if (slots == 0 || slots > header.code_count - slot)
      return refuse(
          fmt::format("has code {:#04x} in slot {} of {}; expected a known code with all "
                      "its slots.",
                      code, slot, header.code_count));
    slot += slots;
  }
  uint64_t end = after;
  if ((flags & pe::kUnwindChained) != 0) {
    RuntimeFunction next;
    end += sizeof(next);
    if (data->size() < after + sizeof(next))
      return refuse("is chained to an entry outside the data of the image.");
    std::memcpy(&next, data->data() + after, sizeof(next));
    const PePlan::Section* section =
        next.begin < next.end ? section_of(next.begin, next.end - next.begin) : nullptr;
    if (section == nullptr || !section->execute)
      return refuse(
          fmt::format("is chained to {:#x} to {:#x}; expected a range inside an executable "
                      "section.",
                      next.begin, next.end));
    *parent = next;
  } else if ((flags & kHandlers) != 0) {
    uint32_t handler = 0;
    end += sizeof(handler);
    if (data->size() < after + sizeof(handler))
      return refuse("has its handler outside the data of the image.");
    std::memcpy(&handler, data->data() + after, sizeof(handler));
    const PePlan::Section* section = section_of(handler, 1);
    if (section == nullptr || !section->execute)
      return refuse(
          fmt::format("has its handler at {:#x}; expected an address inside an executable "
                      "section.",
                      handler));
  }
  mark(function.unwind, static_cast<uint32_t>(end));
  return true;
}

/// Marks a range as unwind data. Both numbers are multiples of 4 and inside the image.
void PeParser::mark(uint32_t address, uint32_t size) {
  const auto from = unwind_bytes_.begin() + address / 4;
  std::fill(from, from + size / 4, true);
}

/// The checks must still hold after loading, so nothing that is written later may lie in the
/// checked data.
bool PeParser::unwind_data_stays() {
  if (plan_.function_count == 0) return true;
  const auto check = [&](const char* what, uint32_t address) {
    // Checks that all these places are 8 bytes inside the image, or absent.
    if (address == 0 || (!unwind_bytes_[address / 4] && !unwind_bytes_[address / 4 + 1] &&
                         !unwind_bytes_[(address + 7) / 4])) {
      return true;
    }
    return fail(fmt::format("{} at {:#x} would be written into unwind data; expected them apart.",
                            what, address));
  };
  for (const uint32_t address : plan_.relocations) {
    if (!check("a base relocation", address)) return false;
  }
  for (const PePlan::Import& import : plan_.imports) {
    if (!check("the slot of an import", import.slot)) return false;
  }
  return check("the security cookie", plan_.cookie) &&
         check("the guard check pointer", plan_.guard_check) &&
         check("the guard dispatch pointer", plan_.guard_dispatch);
}

void PeParser::debug_directory() {
  const pe::Directory& directory = directories_[pe::kDebugDirectory];
  const uint32_t count =
      std::min<uint32_t>(directory.size / static_cast<uint32_t>(sizeof(pe::DebugEntry)), 16);
  for (uint32_t i = 0; i < count; ++i) {
    pe::DebugEntry entry;
    uint32_t signature = 0;
    if (!read_image(uint64_t{directory.address} + i * sizeof(entry), &entry)) return;
    if (entry.type != pe::kDebugCodeView || !read_image(entry.address, &signature) ||
        signature != pe::kCodeViewPdb70) {
      continue;
    }
    const auto path = text_at(uint64_t{entry.address} + pe::kCodeViewPathOffset, 1024);
    if (!path.has_value()) return;
    plan_.pdb = printable(path->substr(path->find_last_of("/\\") + 1));
    return;
  }
}

void PeParser::symbols() {
  const uint32_t count = file_header_.symbol_count;
  const uint64_t table = file_header_.symbol_table;
  if (table == 0 || count == 0 || count > kSymbolsMax ||
      !range_within(table, uint64_t{count} * pe::kCoffSymbolBytes, file_.size())) {
    return;
  }
  const uint64_t strings = table + uint64_t{count} * pe::kCoffSymbolBytes;
  for (uint32_t i = 0; i < count; ++i) {
    const std::byte* record = file_.data() + table + uint64_t{i} * pe::kCoffSymbolBytes;
    uint32_t words[2], value = 0;
    int16_t section = 0;
    std::memcpy(words, record, sizeof(words));
    std::memcpy(&value, record + 8, sizeof(value));
    std::memcpy(&section, record + 12, sizeof(section));
    const auto kind = static_cast<uint8_t>(record[16]);
    i += static_cast<uint8_t>(record[17]);  // auxiliary records
    if (section <= 0 || static_cast<size_t>(section) > plan_.sections.size()) continue;
    if (kind != pe::kCoffExternal && kind != pe::kCoffStatic && kind != pe::kCoffLabel) continue;
    const PePlan::Section& home = plan_.sections[static_cast<size_t>(section) - 1];
    if (value >= home.memory_size) continue;
    // Short names lie in the record, long ones behind the table.
    const char* name = reinterpret_cast<const char*>(record);
    size_t room = 8;
    if (words[0] == 0) {
      const uint64_t offset = strings + words[1];
      if (offset >= file_.size()) continue;
      name = reinterpret_cast<const char*>(file_.data() + offset);
      room = std::min<uint64_t>(file_.size() - offset, kSymbolNameBytesMax);
    }
    const size_t length = strnlen(name, room);
    if (length == 0 || name[0] == '.') continue;  // sections and compiler labels
    if (plan_.symbol_names.size() + length > kSymbolTextBytesMax) break;
    plan_.symbols.push_back({.address = home.address + value,
                             .name_offset = static_cast<uint32_t>(plan_.symbol_names.size()),
                             .name_length = static_cast<uint32_t>(length)});
    plan_.symbol_names.append(name, length);
  }
  std::ranges::sort(plan_.symbols, [](const PePlan::Symbol& a, const PePlan::Symbol& b) {
    return a.address != b.address ? a.address < b.address : a.name_offset < b.name_offset;
  });
}

std::string PePlan::symbol(uint64_t address) const {
  const auto after = std::ranges::upper_bound(symbols, address, {}, &Symbol::address);
  if (address >= size || after == symbols.begin()) return "";
  const Symbol& found = *std::prev(after);
  // A symbol of another section says nothing about this address.
  const auto section_at = [&](uint64_t where) {
    return std::ranges::upper_bound(sections, where, {}, &Section::address);
  };
  if (section_at(found.address) != section_at(address)) return "";
  return fmt::format(
      "{}+{:#x}",
      readable_name(std::string_view(symbol_names).substr(found.name_offset, found.name_length)),
      address - found.address);
}

}  // namespace dxgkit::loader
