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
#include "loader/image.h"

namespace dxgkit::loader {

/// The contents of a shared object. Offsets and addresses are relative to the image. All of them
/// are checked to lie inside it, so mapping needs no further bounds checks.
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
  /// A function of the file's own symbol table, which has the static ones too. Purely informative:
  /// a table that is missing or malformed has none.
  struct Function {
    std::string name;
    uint64_t address = 0, size = 0;
  };
  uint64_t size = 0;  // bytes of address space, a multiple of the page
  std::vector<Segment> segments;
  std::vector<Relocation> relocations;
  std::vector<Symbol> symbols;
  std::vector<Function> functions;     // in rising order of address
  std::vector<uint64_t> initializers;  // addresses of DT_INIT_ARRAY entries' slots
  uint64_t relro_address = 0, relro_size = 0;

  const Symbol* find_defined(std::string_view name) const;
};

/// Reads a plan out of file bytes. Pure; never reads outside `file`, whatever it holds.
/// kInvalidImageFormat with a one-sentence reason in *message otherwise.
Result<ElfPlan> parse_elf(std::span<const std::byte> file, std::string* message);

/// A mapped driver image.
class ElfImage final : public Image {
 public:
  /// Maps, relocates, binds and protects (no page is ever writable and executable at once). The
  /// result has no reference to `file`. Imports are looked up with `resolve` only, never in the
  /// host process.
  static Result<std::unique_ptr<ElfImage>> load(std::span<const std::byte> file,
                                                const ImportResolver& resolve,
                                                std::string* message);
  ~ElfImage() override;
  ElfImage(const ElfImage&) = delete;
  ElfImage& operator=(const ElfImage&) = delete;

  ImageForm form() const override { return ImageForm::kElf; }
  std::byte* base() const override { return base_; }
  uint64_t size() const override { return plan_.size; }
  void* entry() const override { return find("DriverEntry"); }
  void* find(std::string_view name) const override;
  std::vector<std::string> imports() const override;
  std::span<const RuntimeFunction> functions() const override { return {}; }
  std::string symbol(uint64_t rva) const override;

 private:
  ElfImage() = default;
  ElfPlan plan_;
  std::byte* base_ = nullptr;
};

}  // namespace dxgkit::loader
