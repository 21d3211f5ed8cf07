// Facts from a driver's file, before any of its code runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dxgkit::tool {

/// A function or variable that a file imports.
struct ImageImport {
  std::string library;   // as the file spells it; empty in an ELF twin
  std::string name;      // empty for an import by ordinal
  uint16_t ordinal = 0;  // only if the name is empty
};

/// Facts of one image. Unknown texts are empty, unknown numbers 0.
struct ImageFacts {
  enum class Form { kPe, kElf };
  Form form = Form::kPe;
  std::string machine;     // "x64", "ARM64", ...
  bool runs_here = false;  // the machine is the one this host has
  std::string subsystem;   // "native", "Windows GUI", ...; empty in an ELF twin
  bool native = false;     // made for the kernel; an ELF twin always is
  std::string linked;      // "2026-11-21 11:20:00 UTC", or why there is no date
  std::string pdb;         // path as the linker wrote it
  std::string pdb_id;      // GUID and age, as symbol servers want them
  uint64_t file_bytes = 0, image_bytes = 0;
  uint64_t entry = 0;              // relative to the image; 0: none
  uint32_t exception_entries = 0;  // functions with unwind data
  uint32_t relocations = 0;
  bool relocatable = false;
  bool is_signed = false;
  bool guarded = false;              // asks for control-flow guard
  uint32_t delay_imports = 0;        // libraries it would load late
  std::vector<ImageImport> imports;  // in the order of the file
  /// Unusual properties of the file, each a full sentence. The loader may refuse the file for one
  /// of them.
  std::vector<std::string> oddities;
};

/// Reads the facts. Pure; it never reads outside `file`. The error is one sentence without a path:
/// not a PE or ELF image at all, or headers that end early.
std::expected<ImageFacts, std::string> read_image_facts(std::span<const std::byte> file);

/// Why an image is no driver at all, as a clause: made for another subsystem, or without an entry.
std::optional<std::string> no_driver(const ImageFacts& facts);
/// The clause for an image that is not for this host (runs_here is false).
std::string built_for_another_machine(const ImageFacts& facts);

}  // namespace dxgkit::tool
