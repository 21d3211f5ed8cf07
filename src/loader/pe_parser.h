// The inside of parse_pe.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/arithmetic.h"
#include "loader/pe_format.h"
#include "loader/pe_image.h"

namespace dxgkit::loader {

/// The text with everything that is not printable ASCII replaced by '?'.
std::string printable(std::string_view text);

/// One pass over a file. Each step returns false with a message when it refuses; the order is that
/// of the file's own references, so a step may rely on what earlier ones checked.
class PeParser {
 public:
  PeParser(std::span<const std::byte> file, std::string* message)
      : file_(file), message_(message) {}
  Result<PePlan> run();

 private:
  bool fail(std::string reason);

  bool headers();
  bool refuse_directories();
  bool sections();
  bool section(uint32_t index, const pe::SectionHeader& header, uint64_t* next);
  bool entry();
  bool relocations();
  bool relocation_block(const pe::RelocationBlock& block, std::span<const std::byte> entries);
  bool imports();
  bool library_imports(const pe::ImportDescriptor& descriptor);
  bool exports();
  bool load_config();
  bool functions();
  bool unwind_chain(const RuntimeFunction& function);
  bool unwind_info(const RuntimeFunction& function, std::optional<RuntimeFunction>* parent);
  void mark(uint32_t address, uint32_t size);
  bool unwind_data_stays();
  void debug_directory();
  void symbols();

  template <typename T>
  bool read_file(uint64_t offset, T* out) const {
    if (!range_within(offset, sizeof(T), file_.size())) return false;
    std::memcpy(out, file_.data() + offset, sizeof(T));
    return true;
  }
  /// Reads what the file holds for an address of the image; the zeros behind are no data.
  template <typename T>
  bool read_image(uint64_t address, T* out) const {
    const auto data = data_from(address);
    if (!data.has_value() || data->size() < sizeof(T)) return false;
    std::memcpy(out, data->data(), sizeof(T));
    return true;
  }
  /// The section that has all of [address, address + size), or null.
  const PePlan::Section* section_of(uint64_t address, uint64_t size) const;
  /// File bytes from `address` of the image to the end of its section; none if it has none.
  std::optional<std::span<const std::byte>> data_from(uint64_t address) const;
  /// A zero-terminated text of at most `limit` bytes.
  std::optional<std::string_view> text_at(uint64_t address, uint32_t limit) const;

  std::span<const std::byte> file_;
  std::string* message_;
  PePlan plan_;
  pe::FileHeader file_header_ = {};
  pe::OptionalHeader optional_ = {};
  std::array<pe::Directory, pe::kDirectoryCount> directories_ = {};
  uint64_t section_table_ = 0;
  mutable size_t last_section_ = 0;  // where section_of found the last address
  uint64_t unwind_codes_ = 0;        // read so far
  // One bit per 4 bytes of the image: where a chain of good unwind infos begins, and what belongs
  // to unwind data at all.
  std::vector<bool> unwound_, unwind_bytes_;
  /// Infos in the chain that begins at each chained info found good; never iterated.
  std::unordered_map<uint32_t, uint8_t> chain_links_;
};

}  // namespace dxgkit::loader
