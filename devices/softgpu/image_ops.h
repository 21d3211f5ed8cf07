// The engine's arithmetic on pixels: fast, on plain pointers that are checked before. manual.md has
// the definitions, and reference.h implements the same slowly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "devices/softgpu/softgpu_hw.h"

namespace dxgkit::softgpu {

/// Produces the output rows of one CONVOLVE, from the top.
class Convolver {
 public:
  /// @param command  fields already in their legal ranges.
  /// @param source   the source rectangle, top left; must stay readable.
  Convolver(const SgpuConvolve& command, const std::byte* source);
  /// Writes the next row, output_width * 4 bytes.
  void next_row(std::byte* out);

 private:
  struct TapPair {  // two taps of one kernel row, weights w0 | w1 << 16
    uint32_t row = 0;
    uint32_t offset0 = 0;  // elements from the start of the padded row
    uint32_t offset1 = 0;
    int32_t weights = 0;
  };
  static std::vector<TapPair> pair_taps(const SgpuConvolve& command, const SgpuI16* kernel);
  void load_row(uint32_t padded_row);
  void accumulate(const std::vector<TapPair>& taps, uint32_t first, uint32_t count,
                  int32_t* sums) const;

  const SgpuConvolve& command_;
  const std::byte* source_;
  std::vector<TapPair> taps_;
  std::vector<TapPair> taps2_;
  uint32_t padded_elements_;  // of one row: output plus kernel overhang, four per pixel
  std::vector<std::vector<int16_t>> rows_;  // ring of kernel_height padded rows
  // The row for each kernel row, for the current output row.
  std::vector<const int16_t*> row_of_;
  uint32_t next_load_ = 0;
  uint32_t row_ = 0;
};

/// One output row of DOWNSCALE from two source rows (the same one twice at an odd bottom edge).
void downscale_row(const std::byte* upper, const std::byte* lower, uint32_t source_width,
                   std::byte* out);

inline constexpr uint64_t kFnvOffset = 0xCBF2'9CE4'8422'2325;
inline constexpr uint64_t kFnvPrime = 0x100'0000'01B3;
uint64_t fnv1a64(uint64_t state, const std::byte* bytes, uint64_t count);
uint64_t sum_bytes(const std::byte* bytes, uint64_t count);

}  // namespace dxgkit::softgpu
