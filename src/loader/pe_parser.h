// Internals of parse_pe.
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

/// One pass over a file. A step that refuses returns false with a message. Steps follow the order
/// of the file's own references, so a step may rely on the checks of earlier ones.
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
  /// Reads the file bytes of an image address. The zeros after the file bytes are not included.
  template <typename T>
  bool read_image(uint64_t address, T* out) const {
    const auto data = data_from(address);
    if (!data.has_value() || data->size() < sizeof(T)) return false;
    std::memcpy(out, data->data(), sizeof(T));
    return true;
  }
  /// The section that contains all of [address, address + size), or null.
  const PePlan::Section* section_of(uint64_t address, uint64_t size) const;
  /// The file bytes from `address` of the image to the end of its section; none if the section has
  /// none.
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
  mutable size_t last_section_ = 0;  // the result of the last section_of
  uint64_t unwind_codes_ = 0;        // read so far
  // One bit per 4 bytes of the image: the starts of chains of good unwind infos, and all bytes that
  // belong to unwind data.
  std::vector<bool> unwound_, unwind_bytes_;
  /// The number of infos in the chain that begins at each good chained info; never iterated.
  std::unordered_map<uint32_t, uint8_t> chain_links_;
};

}  // namespace dxgkit::loader
