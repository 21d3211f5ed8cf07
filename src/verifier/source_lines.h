// Functions, files and lines of driver code, from the debugging information of its file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/findings.h"

namespace dxgkit::verifier {

/// A function at an instruction. A call that the compiler inlined has one of its own.
struct SourceFrame {
  std::string function;  // "FirstPatch"
  std::string file;      // relative to the working folder if it lies below it
  uint32_t line = 0;     // 0: unknown
  uint32_t begins = 0;   // the line where the function begins; 0: unknown
};

/// The functions at a place, innermost first: what was inlined, and the function that the code
/// belongs to. Empty: the image has no debugging information there, or llvm-symbolizer is missing.
/// Reads DWARF, and the PDB of a .sys where LLVM finds it. The first question about an address
/// starts llvm-symbolizer and takes some 50 ms; the answer is kept. Any thread, not in a signal
/// handler.
std::vector<SourceFrame> source_of(const Place& place);
/// The same for an element of `place.stack`.
std::vector<SourceFrame> source_of_frame(const Place& place, const std::string& frame);

/// "FirstPatch (first.c:120)"; without what is unknown.
std::string to_text(const SourceFrame& frame);

/// True if llvm-symbolizer was asked for and is not there.
bool symbolizer_is_missing();

/// Reads the answer of `llvm-symbolizer --output-style=JSON` to a question about one address. Empty
/// if nothing is known of it, or the answer is not understood.
std::vector<SourceFrame> parse_symbols(std::string_view answer);

}  // namespace dxgkit::verifier
