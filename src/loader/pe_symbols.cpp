// Symbols, unwind data and DWARF of a PE image.
#include <cstring>

#include "base/arithmetic.h"
#include "loader/pe_format.h"
#include "loader/symbol_file.h"

namespace dxgkit::loader {
namespace {

// --- .debug_frame out of .pdata

/// DWARF's numbers of the registers that Windows numbers 0 to 15.
constexpr uint8_t kDwarfRegister[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr uint8_t kReturnAddress = 16;  // DWARF's number

class FrameWriter {
 public:
  explicit FrameWriter(const std::byte* base) : base_(base) {
    begin();
    put<uint32_t>(0xFFFFFFFF);  // a common entry
    put<uint8_t>(1);            // version
    put<uint8_t>(0);            // no augmentation
    put<uint8_t>(1);            // code is counted in bytes
    put<uint8_t>(0x78);         // data in -8 bytes, as a signed LEB128
    put(kReturnAddress);
    put<uint8_t>(0x0C);  // DW_CFA_def_cfa: rsp + 8
    put<uint8_t>(kDwarfRegister[4]);
    put<uint8_t>(8);
    put<uint8_t>(0x80 | kReturnAddress);  // DW_CFA_offset: at the top
    put<uint8_t>(1);
    end();
  }

  void add(const RuntimeFunction& function) {
    begin();
    put<uint32_t>(0);  // the common entry
    put<uint64_t>(reinterpret_cast<uint64_t>(base_) + function.begin);
    put<uint64_t>(function.end - function.begin);
    depth_ = 8;
    frame_register_ = 0;
    done_ = 0;
    add_codes(function, true);
    end();
  }

  std::vector<std::byte> finish() && { return std::move(out_); }

 private:
  template <typename T>
  T read(uint64_t rva) const {
    T value;
    std::memcpy(&value, base_ + rva, sizeof(value));
    return value;
  }
  template <typename T>
  void put(T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void put_uleb(uint64_t value) {
    for (; value >= 0x80; value >>= 7U) put(static_cast<uint8_t>(value | 0x80U));
    put(static_cast<uint8_t>(value));
  }
  void begin() {
    begun_ = out_.size();
    put<uint32_t>(0);  // the length
  }
  void end() {
    while (out_.size() % 8 != 0) put<uint8_t>(0);  // DW_CFA_nop
    const auto bytes = static_cast<uint32_t>(out_.size() - begun_ - sizeof(uint32_t));
    std::memcpy(out_.data() + begun_, &bytes, sizeof(bytes));
  }

  /// The steps of a prologue, in the order in which it takes them. Those of a chained entry's
  /// parent have been taken before its first instruction. The parser has checked all of them.
  void add_codes(const RuntimeFunction& function, bool own) {
    const auto header = read<pe::UnwindHeader>(function.unwind);
    const uint64_t codes = uint64_t{function.unwind} + sizeof(header);
    if ((header.version_and_flags >> 3U & pe::kUnwindChained) != 0)
      add_codes(read<RuntimeFunction>(codes + (header.code_count + 1U) / 2 * 4), false);
    std::vector<uint32_t> slots;  // where each code begins
    for (uint32_t slot = 0; slot < header.code_count;) {
      slots.push_back(slot);
      slot += slots_of(read<uint8_t>(codes + slot * 2 + 1));
    }
    for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
      const uint64_t at = codes + uint64_t{*slot} * 2;
      const auto operation = static_cast<uint8_t>(read<uint8_t>(at + 1) & 15U);
      if (operation == kEpilog) continue;
      if (own) advance_to(read<uint8_t>(at));
      add_code(operation, static_cast<uint8_t>(read<uint8_t>(at + 1) >> 4U), at + 2, header.frame);
    }
  }
  static uint32_t slots_of(uint8_t code) {
    switch (code & 15U) {
      case kAllocateLarge:
        return code >> 4U == 0 ? 2 : 3;
      case kSave:
      case kSaveVector:
        return 2;
      case kSaveFar:
      case kSaveVectorFar:
        return 3;
      default:
        return 1;
    }
  }
  void advance_to(uint8_t offset) {
    if (offset <= done_) return;
    put<uint8_t>(0x02);  // DW_CFA_advance_loc1
    put(static_cast<uint8_t>(offset - done_));
    done_ = offset;
  }
  void add_code(uint8_t operation, uint8_t info, uint64_t operand, uint8_t frame) {
    switch (operation) {
      case kPush:
        grow(8);
        save(info, depth_);
        return;
      case kAllocateLarge:
        grow(info == 0 ? uint64_t{read<uint16_t>(operand)} * 8 : read<uint32_t>(operand));
        return;
      case kAllocateSmall:
        grow(uint64_t{info} * 8 + 8);
        return;
      case kSetFrame:
        frame_register_ = frame & 15U;
        put<uint8_t>(0x0C);  // DW_CFA_def_cfa
        put(kDwarfRegister[frame_register_]);
        put_uleb(depth_ - (uint64_t{frame} >> 4U) * 16);
        return;
      case kSave:
        save(info, depth_ - uint64_t{read<uint16_t>(operand)} * 8);
        return;
      case kSaveFar:
        save(info, depth_ - read<uint32_t>(operand));
        return;
      default:
        return;  // vectors do not lead to the caller
    }
  }
  void grow(uint64_t bytes) {
    depth_ += bytes;
    if (frame_register_ != 0) return;
    put<uint8_t>(0x0E);  // DW_CFA_def_cfa_offset
    put_uleb(depth_);
  }
  /// `below`: bytes below the address above the return address.
  void save(uint8_t number, uint64_t below) {
    put(static_cast<uint8_t>(0x80U | kDwarfRegister[number]));  // DW_CFA_offset
    put_uleb(below / 8);
  }

  enum Operation : uint8_t {
    kPush = 0,
    kAllocateLarge = 1,
    kAllocateSmall = 2,
    kSetFrame = 3,
    kSave = 4,
    kSaveFar = 5,
    kEpilog = 6,
    kSaveVector = 8,
    kSaveVectorFar = 9,
  };
  const std::byte* base_;
  std::vector<std::byte> out_;
  size_t begun_ = 0;
  uint64_t depth_ = 8;          // from rsp up to above the return address
  uint8_t frame_register_ = 0;  // 0: none
  uint8_t done_ = 0;            // bytes of the prologue
};

std::vector<std::byte> frames_of(const PePlan& plan, const std::byte* base) {
  FrameWriter writer(base);
  for (uint32_t i = 0; i < plan.function_count; ++i) {
    RuntimeFunction function;
    std::memcpy(&function, base + plan.functions + i * sizeof(function), sizeof(function));
    writer.add(function);
  }
  return std::move(writer).finish();
}

// --- sections

/// The name of a section. One of more than 8 characters is "/123", its place among the strings
/// behind the symbol table.
std::string name_of(const pe::SectionHeader& section, const pe::FileHeader& header,
                    std::span<const std::byte> file) {
  const std::string name(section.name, strnlen(section.name, sizeof(section.name)));
  if (!name.starts_with('/')) return name;
  uint64_t at =
      uint64_t{header.symbol_table} + uint64_t{header.symbol_count} * pe::kCoffSymbolBytes;
  uint64_t offset = 0;
  for (const char digit : name.substr(1)) {
    if (digit < '0' || digit > '9') return name;
    offset = offset * 10 + static_cast<uint64_t>(digit - '0');
  }
  at += offset;
  if (at >= file.size()) return name;
  const auto* const text = reinterpret_cast<const char*>(file.data()) + at;
  return {text, strnlen(text, std::min<uint64_t>(file.size() - at, 64))};
}

}  // namespace

SymbolFile symbols_of(const PePlan& plan, std::span<const std::byte> file, const std::byte* base) {
  const auto start = reinterpret_cast<uint64_t>(base);
  SymbolFile symbols;
  // The parser has checked that the headers lie inside the file.
  uint32_t at = 0;
  pe::FileHeader header;
  std::memcpy(&at, file.data() + pe::kDosNewHeader, sizeof(at));
  std::memcpy(&header, file.data() + at + sizeof(pe::kSignature), sizeof(header));
  const uint64_t table =
      uint64_t{at} + sizeof(pe::kSignature) + sizeof(header) + header.optional_header_bytes;
  for (size_t i = 0; i < plan.sections.size(); ++i) {
    const PePlan::Section& section = plan.sections[i];
    pe::SectionHeader raw;
    std::memcpy(&raw, file.data() + table + i * sizeof(raw), sizeof(raw));
    const std::string name = name_of(raw, header, file);
    if (name.starts_with(".debug_")) {
      if (!is_moved_dwarf(name)) continue;
      const auto* const contents = file.data() + section.file_offset;
      const uint32_t bytes =
          raw.virtual_size == 0 ? section.file_size : std::min(raw.virtual_size, section.file_size);
      symbols.dwarf[name].assign(contents, contents + bytes);
    } else {
      symbols.sections.push_back({.name = name,
                                  .address = start + section.address,
                                  .size = section.memory_size,
                                  .write = section.write,
                                  .execute = section.execute});
    }
  }
  for (const PePlan::Symbol& symbol : plan.symbols)
    symbols.symbols.push_back(
        {.name = plan.symbol_names.substr(symbol.name_offset, symbol.name_length),
         .address = start + symbol.address});
  if (!move_dwarf(symbols.dwarf, start - plan.preferred_base)) symbols.dwarf.clear();
  symbols.dwarf[".debug_frame"] = frames_of(plan, base);
  return symbols;
}

}  // namespace dxgkit::loader
