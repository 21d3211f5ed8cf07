// The ELF form of a driver: a shared object with the Win64 ABI inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace dxgkit::loader {

/// What a shared object asks for and offers. Offsets and addresses are relative to the image;
/// everything is checked to lie inside it, so mapping needs no further bounds checks.
struct ElfPlan {
  struct Segment {
    uint64_t address =
        0;  // page aligned down; the offset within the page is kept in file_offset too
    uint64_t memory_size = 0, file_offset = 0, file_size = 0;
    bool write = false, execute = false;
  };
  struct Relocation {
    enum class Kind { kRelative, kAbsolute64, kSymbol64 } kind = Kind::kRelative;
    uint64_t address = 0;  // where 8 bytes are written
    uint32_t symbol = 0;   // index into symbols, unless kRelative
    int64_t addend = 0;
  };
  struct Symbol {
    std::string name;
    bool defined = false;
    bool weak = false;
    bool variable = false;
    uint64_t address = 0, size = 0;  // if defined
  };
  uint64_t size = 0;  // bytes of address space, a multiple of the page
  std::vector<Segment> segments;
  std::vector<Relocation> relocations;
  std::vector<Symbol> symbols;
  std::vector<uint64_t> initializers;  // addresses of DT_INIT_ARRAY entries' slots
  uint64_t relro_address = 0, relro_size = 0;

  const Symbol* find_defined(std::string_view name) const;
};

/// Reads a plan out of file bytes. Pure; never reads outside `file`, whatever it holds.
/// kInvalidImageFormat with a one-sentence reason in *message otherwise.
Result<ElfPlan> parse_elf(std::span<const std::byte> file, std::string* message);

/// A mapped driver image.
class ElfImage {
 public:
  struct Import {
    const void* address = nullptr;  // null: there is none of that name
    uint32_t data_bytes = 0;        // size of a variable; 0: a function
  };
  using Resolver = std::function<Import(std::string_view name)>;
  /// Maps, relocates, binds and protects (no page is ever writable and executable at once). The
  /// result has no reference to `file`. Imports are looked up with `resolve` only, never in the
  /// host process.
  static Result<std::unique_ptr<ElfImage>> load(std::span<const std::byte> file,
                                                const Resolver& resolve, std::string* message);
  ~ElfImage();
  ElfImage(const ElfImage&) = delete;
  ElfImage& operator=(const ElfImage&) = delete;

  /// Address of an exported symbol, or null.
  void* find(std::string_view name) const;
  std::byte* base() const { return base_; }
  uint64_t size() const { return plan_.size; }
  /// Names that were looked up, in the order of the symbol table.
  std::vector<std::string> imports() const;

 private:
  ElfImage() = default;
  ElfPlan plan_;
  std::byte* base_ = nullptr;
};

/// Reads a file; kObjectNameNotFound or kInvalidImageFormat (too big) with a message.
Result<std::vector<std::byte>> read_image_file(const std::string& path, std::string* message);

}  // namespace dxgkit::loader
