// A linked file has its addresses as plain numbers all over its DWARF, and no relocations for them.
// So each section is walked, which is the only way to find them. Names of numbers as in the DWARF
// standard, version 5, chapter 7.
#include "loader/dwarf.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <unordered_map>

#include "base/arithmetic.h"

namespace dxgkit::loader {
namespace {

constexpr uint8_t kAddressBytes = 8;
constexpr uint64_t kOpAddr = 0x03;          // DW_OP_addr
constexpr uint64_t kAttributeLocation = 2;  // DW_AT_location
constexpr uint8_t kSetAddress = 2;          // DW_LNE_set_address
constexpr uint8_t kFixedAdvance = 9;        // DW_LNS_fixed_advance_pc, with 2 bytes

enum class Zero { kStays, kMoves };

/// A place in a section. Every access is checked; one outside the section makes it not good, and
/// all later ones too.
class Cursor {
 public:
  Cursor(std::span<std::byte> data, uint64_t distance) : data_(data), distance_(distance) {}

  bool good() const { return good_; }
  bool at_end() const { return !good_ || at_ == data_.size(); }
  uint64_t at() const { return at_; }
  void fail() { good_ = false; }
  void seek(uint64_t at) {
    if (at > data_.size()) good_ = false;
    if (good_) at_ = at;
  }
  void skip(uint64_t bytes) {
    if (!range_within(at_, bytes, data_.size())) good_ = false;
    if (good_) at_ += bytes;
  }
  template <typename T>
  T take() {
    T value = 0;
    if (!good_ || !range_within(at_, sizeof(T), data_.size())) {
      good_ = false;
      return value;
    }
    std::memcpy(&value, data_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  uint64_t uleb() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 70; shift += 7) {
      const auto byte = take<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    good_ = false;
    return value;
  }
  void skip_text() {
    while (good_ && take<uint8_t>() != 0) {
    }
  }
  void move_address(Zero zero = Zero::kStays) {
    const uint64_t from = at_;
    const auto value = take<uint64_t>();
    if (!good_ || (value == 0 && zero == Zero::kStays)) return;
    const uint64_t moved = value + distance_;
    std::memcpy(data_.data() + from, &moved, sizeof(moved));
  }
  /// Compilers put an address first in an expression, if there is one.
  void move_expression(uint64_t bytes) {
    const uint64_t from = at_;
    skip(bytes);
    if (!good_ || bytes < 1 + kAddressBytes) return;
    const uint64_t end = at_;
    seek(from);
    if (take<uint8_t>() == kOpAddr) move_address();
    seek(end);
  }
  /// The part of a section that begins with its length; not good for 64-bit DWARF.
  Cursor unit() {
    const auto bytes = take<uint32_t>();
    const uint64_t from = at_;
    skip(bytes);
    if (!good_ || bytes >= 0xFFFFFFF0) {
      good_ = false;
      return Cursor({}, 0);
    }
    return Cursor(data_.subspan(from, bytes), distance_);
  }

 private:
  std::span<std::byte> data_;
  uint64_t distance_;
  uint64_t at_ = 0;
  bool good_ = true;
};

// --- .debug_info

struct Attribute {
  uint64_t name = 0, form = 0;
};
using Abbreviations = std::unordered_map<uint64_t, std::vector<Attribute>>;

bool read_abbreviations(Cursor at, Abbreviations* out) {
  for (uint64_t code = at.uleb(); at.good() && code != 0; code = at.uleb()) {
    std::vector<Attribute>& attributes = (*out)[code];
    attributes.clear();
    at.uleb();   // tag
    at.skip(1);  // has children
    for (;;) {
      const uint64_t name = at.uleb();
      const uint64_t form = at.uleb();
      if (form == 0x21) at.uleb();  // DW_FORM_implicit_const: the value is here
      if (!at.good()) return false;
      if (name == 0 && form == 0) break;
      attributes.push_back({name, form});
    }
  }
  return at.good();
}

/// Renames the attribute of mangled names. gdb takes a name that it cannot demangle for the name of
/// the function, and Microsoft's ones are such. Without it gdb makes "scope::function" of the
/// entries. The other number has the same length, and debuggers show or skip its text.
bool drop_linkage_names(std::span<std::byte> abbreviations) {
  constexpr uint64_t kLinkageName = 0x6E;
  constexpr std::byte kDescription{0x5A};
  Cursor at(abbreviations, 0);
  while (!at.at_end()) {
    if (at.uleb() == 0) continue;  // the end of a unit's table
    at.uleb();
    at.skip(1);
    for (;;) {
      const uint64_t from = at.at();
      const uint64_t name = at.uleb();
      const uint64_t form = at.uleb();
      if (form == 0x21) at.uleb();
      if (!at.good()) return false;
      if (name == 0 && form == 0) break;
      if (name == kLinkageName) abbreviations[from] = kDescription;
    }
  }
  return at.good();
}

/// Walks over a value and moves the address in it. `Zero`: what an address of 0 is.
void move_value(Cursor& at, Attribute attribute, uint16_t version, Zero zero) {
  switch (attribute.form) {
    case 0x01:  // addr
      return at.move_address(zero);
    case 0x18:  // exprloc
      return at.move_expression(at.uleb());
    case 0x0A: {  // block1
      const uint64_t bytes = at.take<uint8_t>();
      // Before DWARF 4 this was the form of a location, too.
      return attribute.name == kAttributeLocation ? at.move_expression(bytes) : at.skip(bytes);
    }
    case 0x03:  // block2
      return at.skip(at.take<uint16_t>());
    case 0x04:  // block4
      return at.skip(at.take<uint32_t>());
    case 0x09:  // block
      return at.skip(at.uleb());
    case 0x08:  // string
      return at.skip_text();
    case 0x16: {  // indirect
      const uint64_t form = at.uleb();
      if (form == 0x16 || !at.good()) return at.fail();
      return move_value(at, {attribute.name, form}, version, zero);
    }
    case 0x0D:    // sdata
    case 0x0F:    // udata
    case 0x15:    // ref_udata
    case 0x1A:    // strx
    case 0x1B:    // addrx
    case 0x22:    // loclistx
    case 0x23:    // rnglistx
    case 0x1F01:  // GNU_addr_index
    case 0x1F02:  // GNU_str_index
      at.uleb();
      return;
    case 0x19:  // flag_present
    case 0x21:  // implicit_const
      return;
    case 0x0B:  // data1
    case 0x0C:  // flag
    case 0x11:  // ref1
    case 0x25:  // strx1
    case 0x29:  // addrx1
      return at.skip(1);
    case 0x05:  // data2
    case 0x12:  // ref2
    case 0x26:  // strx2
    case 0x2A:  // addrx2
      return at.skip(2);
    case 0x27:  // strx3
    case 0x2B:  // addrx3
      return at.skip(3);
    case 0x06:    // data4
    case 0x0E:    // strp
    case 0x13:    // ref4
    case 0x17:    // sec_offset
    case 0x1C:    // ref_sup4
    case 0x1D:    // strp_sup
    case 0x1F:    // line_strp
    case 0x28:    // strx4
    case 0x2C:    // addrx4
    case 0x1F20:  // GNU_ref_alt
    case 0x1F21:  // GNU_strp_alt
      return at.skip(4);
    case 0x10:  // ref_addr
      return at.skip(version <= 2 ? kAddressBytes : 4);
    case 0x07:  // data8
    case 0x14:  // ref8
    case 0x20:  // ref_sig8
    case 0x24:  // ref_sup8
      return at.skip(8);
    case 0x1E:  // data16
      return at.skip(16);
    default:
      return at.fail();
  }
}

bool move_unit(Cursor unit, std::span<std::byte> abbreviations) {
  const auto version = unit.take<uint16_t>();
  if (version < 2 || version > 5) return false;
  uint32_t offset = 0;
  if (version == 5) {
    const auto type = unit.take<uint8_t>();
    if (unit.take<uint8_t>() != kAddressBytes) return false;
    offset = unit.take<uint32_t>();
    if (type == 4 || type == 5) unit.skip(8);      // skeleton and split: an id
    if (type == 2 || type == 6) unit.skip(8 + 4);  // type: a signature and an offset
  } else {
    offset = unit.take<uint32_t>();
    if (unit.take<uint8_t>() != kAddressBytes) return false;
  }
  Cursor table(abbreviations, 0);
  table.seek(offset);
  Abbreviations known;
  if (!unit.good() || !table.good() || !read_abbreviations(table, &known)) return false;
  // Before DWARF 5 the ranges of a unit are relative to its address. It is 0 if the unit has
  // several, and moves with them.
  Zero zero = version < 5 ? Zero::kMoves : Zero::kStays;
  while (!unit.at_end()) {
    const uint64_t code = unit.uleb();
    if (code == 0) continue;
    const auto attributes = known.find(code);
    if (attributes == known.end()) return false;
    for (const Attribute& attribute : attributes->second) {
      move_value(unit, attribute, version, zero);
      if (!unit.good()) return false;
    }
    zero = Zero::kStays;
  }
  return unit.good();
}

// --- lines, ranges, locations, addresses

bool move_lines(Cursor unit) {
  const auto version = unit.take<uint16_t>();
  if (version < 2 || version > 5) return false;
  if (version == 5) unit.skip(2);  // sizes of addresses and selectors
  const auto header = unit.take<uint32_t>();
  Cursor program = unit;
  program.skip(header);
  unit.skip(version >= 4 ? 5 : 4);  // up to line_range
  const auto opcode_base = unit.take<uint8_t>();
  if (!unit.good() || opcode_base == 0) return false;
  uint8_t operands[256] = {};
  for (uint32_t opcode = 1; opcode < opcode_base; ++opcode) operands[opcode] = unit.take<uint8_t>();
  while (unit.good() && !program.at_end()) {
    const auto opcode = program.take<uint8_t>();
    if (opcode >= opcode_base) continue;
    if (opcode == 0) {
      const uint64_t bytes = program.uleb();
      const uint64_t from = program.at();
      program.skip(bytes);
      if (!program.good() || bytes == 0) return false;
      const uint64_t end = program.at();
      program.seek(from);
      if (program.take<uint8_t>() == kSetAddress && bytes == 1 + kAddressBytes)
        program.move_address();
      program.seek(end);
    } else if (opcode == kFixedAdvance) {
      program.skip(2);
    } else {
      for (uint32_t i = 0; i < operands[opcode]; ++i) program.uleb();
    }
  }
  return unit.good() && program.good();
}

bool move_lists(Cursor unit, bool locations) {
  if (unit.take<uint16_t>() != 5 || unit.take<uint8_t>() != kAddressBytes) return false;
  unit.skip(1);
  unit.skip(uint64_t{unit.take<uint32_t>()} * 4);  // offsets
  while (!unit.at_end()) {
    // The kinds of the two sorts of lists differ from 5 on, where locations have a default.
    auto kind = unit.take<uint8_t>();
    bool expression = locations && kind >= 2 && kind != 6;
    if (locations && kind == 5) {
      unit.move_expression(unit.uleb());
      continue;
    }
    if (locations && kind > 5) --kind;
    switch (kind) {
      case 0:  // end
        expression = false;
        break;
      case 1:  // base_addressx
        unit.uleb();
        break;
      case 2:  // startx_endx
      case 3:  // startx_length
      case 4:  // offset_pair
        unit.uleb();
        unit.uleb();
        break;
      case 5:  // base_address
        unit.move_address();
        break;
      case 6:  // start_end
        unit.move_address();
        unit.move_address();
        break;
      case 7:  // start_length
        unit.move_address();
        unit.uleb();
        break;
      default:
        return false;
    }
    if (expression) unit.move_expression(unit.uleb());
  }
  return unit.good();
}

bool move_address_table(Cursor unit) {
  if (unit.take<uint16_t>() != 5 || unit.take<uint8_t>() != kAddressBytes) return false;
  unit.skip(1);
  while (!unit.at_end()) unit.move_address();
  return unit.good();
}

}  // namespace

bool is_moved_dwarf(std::string_view name) {
  constexpr std::string_view kNames[] = {
      ".debug_abbrev", ".debug_addr",        ".debug_info",  ".debug_line",   ".debug_line_str",
      ".debug_loc",    ".debug_loclists",    ".debug_macro", ".debug_ranges", ".debug_rnglists",
      ".debug_str",    ".debug_str_offsets", ".debug_types"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

bool move_dwarf(DwarfSections& sections, uint64_t distance) {
  const auto section = [&](const char* name) -> std::span<std::byte> {
    const auto found = sections.find(name);
    return found == sections.end() ? std::span<std::byte>() : std::span(found->second);
  };
  const auto each_unit = [&](const char* name, auto&& move) {
    Cursor at(section(name), distance);
    while (!at.at_end()) {
      Cursor unit = at.unit();
      if (!at.good() || !move(unit)) return false;
    }
    return at.good();
  };
  return drop_linkage_names(section(".debug_abbrev")) &&
         each_unit(".debug_info",
                   [&](Cursor unit) { return move_unit(unit, section(".debug_abbrev")); }) &&
         each_unit(".debug_line", move_lines) &&
         each_unit(".debug_rnglists", [](Cursor unit) { return move_lists(unit, false); }) &&
         each_unit(".debug_loclists", [](Cursor unit) { return move_lists(unit, true); }) &&
         each_unit(".debug_addr", move_address_table);
}

}  // namespace dxgkit::loader
