// The form in which drivers are shipped: a PE32+ image for x64 with the native subsystem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/image.h"

namespace dxgkit::loader {

/// The contents of a driver file. Addresses are relative to the image (RVAs). Each address is
/// checked to lie inside the image with all bytes that are read or written there, so mapping needs
/// no further bounds checks. Rule NT-19.
struct PePlan {
  struct Section {
    std::string name;  // at most 8 characters, printable
    uint32_t address = 0, memory_size = 0, file_offset = 0, file_size = 0;  // file <= memory
    bool write = false, execute = false;  // after binding; never both
    bool discardable = false;             // start-up code; it stays mapped here
  };
  struct Import {
    uint32_t library = 0;  // index into libraries
    std::string name;      // empty: by ordinal
    uint16_t ordinal = 0;
    uint32_t slot = 0;  // the 8 bytes of the address go here
  };
  struct Export {
    std::string name;  // empty: by ordinal only
    uint32_t ordinal = 0, address = 0;
  };
  /// A function or label of the COFF symbol table, in rising order of address. Purely informative:
  /// a damaged table is left out and does not refuse the image.
  struct Symbol {
    uint32_t address = 0, name_offset = 0, name_length = 0;  // into symbol_names
  };
  uint64_t preferred_base = 0;
  uint32_t size = 0;          // bytes of address space, a multiple of the page
  uint32_t headers_size = 0;  // of the file, mapped at address 0
  uint32_t entry = 0;         // inside an executable section
  std::vector<Section> sections;
  std::vector<uint32_t> relocations;  // of 8 bytes each
  std::vector<std::string> libraries;
  std::vector<Import> imports;
  std::vector<Export> exports;
  /// Addresses of 8 bytes each, or 0: the stack cookie and the two control-flow-guard pointers.
  uint32_t cookie = 0, guard_check = 0, guard_dispatch = 0;
  /// The exception directory: 12-byte entries, rising, not overlapping, each inside an executable
  /// section. Every unwind info behind it, chained ones included, lies inside the image with all
  /// its codes. README.md lists the guarantees for a reader.
  uint32_t functions = 0, function_count = 0;
  std::vector<Symbol> symbols;
  std::string symbol_names;
  std::string pdb;                 // file name the linker left, for messages; printable
  std::vector<std::string> notes;  // unusual properties that were accepted; full sentences

  /// "adapter_start+0x14" or empty. Microsoft C++ names are shortened to their qualified name.
  std::string symbol(uint64_t address) const;
};

/// Reads a plan out of file bytes. Pure; it never reads outside `file`, whatever the bytes are.
/// Time is linear in the file, below 100 ms for any file. Otherwise kInvalidImageFormat with a
/// one-sentence reason in *message: the field, its value, and the expected value. Rule NT-19.
Result<PePlan> parse_pe(std::span<const std::byte> file, std::string* message);

/// The stack cookie of an image loaded with `seed`: 48 bits, never 0 and never the linker's
/// default.
uint64_t security_cookie(uint64_t seed);
inline constexpr uint64_t kDefaultSecurityCookie = 0x00002B992DDFA232;

/// A mapped driver image.
class PeImage final : public Image {
 public:
  /// Maps, relocates, binds, sets the cookie and protects (no page is ever writable and executable
  /// at once: NT-26). The result has no reference to `file`. Every import is looked up once, in
  /// file order. Functions and variables alike get the address of what they name. Errors as for
  /// load_image.
  static Result<std::unique_ptr<PeImage>> load(std::span<const std::byte> file,
                                               const ImportResolver& resolve, std::string* message,
                                               const LoadOptions& options = {});
  ~PeImage() override;
  PeImage(const PeImage&) = delete;
  PeImage& operator=(const PeImage&) = delete;

  ImageForm form() const override { return ImageForm::kPe; }
  std::byte* base() const override { return base_; }
  uint64_t size() const override { return plan_.size; }
  void* entry() const override { return base_ + plan_.entry; }
  void* find(std::string_view name) const override;
  std::vector<std::string> imports() const override;
  std::span<const RuntimeFunction> functions() const override;
  std::string symbol(uint64_t rva) const override { return plan_.symbol(rva); }
  const PePlan& plan() const { return plan_; }

 private:
  PeImage() = default;
  PePlan plan_;
  std::byte* base_ = nullptr;
};

}  // namespace dxgkit::loader
