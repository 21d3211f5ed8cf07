// Clients of DXCore on Linux have characters of four bytes (wchar_t) where the kernel, as Windows,
// has two.
#pragma once

#include <d3dkmthk.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dxgkit::dxcore {

/// UTF-16 to UTF-32 until one of them ends; halves of pairs that stand alone stay as they are.
/// Returns the number of characters written; the rest of `to` becomes 0.
size_t widen(std::span<const char16_t> from, std::span<char32_t> to);
/// UTF-32 to UTF-16. False: a character is none, or `to` is too short for what stands before the
/// zeros at the end.
bool narrow(std::span<const char32_t> from, std::span<char16_t> to);

/// The private data of a D3DKMTQueryAdapterInfo in both widths.
class WideQuery {
 public:
  /// Whether data of this type and size has characters of four bytes. Sizes of the structures with
  /// two bytes are not wide, so clients that are compiled for Windows' width are served, too. Only
  /// KMTQAITYPE_QUERYREGISTRY has no size of its own: it is wide as soon as a wide one fits.
  static bool is_wide(KMTQUERYADAPTERINFOTYPE type, size_t bytes);

  /// @param wide  as the client has it; is_wide() is true.
  WideQuery(KMTQUERYADAPTERINFOTYPE type, std::span<const std::byte> wide);
  /// False: a text is no text. Nothing may be asked then.
  bool valid() const { return valid_; }
  /// What the kernel is asked with.
  std::span<std::byte> kernel_data() { return narrow_; }
  /// What the kernel has answered, for the client: as many bytes as it gave.
  std::vector<std::byte> answer() const;

 private:
  struct Part {
    size_t bytes, characters;  // bytes that are the same in both, and characters behind them
  };
  void add_registry_parts(std::span<const std::byte> wide);

  const size_t wide_bytes_;
  const bool registry_;
  std::vector<Part> parts_;
  std::vector<std::byte> narrow_;
  bool valid_ = true;
};

}  // namespace dxgkit::dxcore
