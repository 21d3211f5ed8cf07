// The tiles of the main job's picture: pure arithmetic, no GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "base/arithmetic.h"
#include "devices/softgpu/reference.h"
#include "tools/dxgkit/picture.h"

namespace dxgkit::tool {

/// Pixels; x and y inside the whole picture.
struct Rect {
  uint32_t x = 0, y = 0, width = 0, height = 0;
  bool operator==(const Rect&) const = default;
};

/// One tile of the picture on its way through the passes. Each pass needs a border of neighbours (a
/// halo). The halo is cut off at the picture's edge, where the filters repeat the edge instead. So
/// every pass of every tile gives the bytes that the whole picture would give.
///
///     source  ⊇  blurred  ⊇  edges          all in pixels of the source picture
///      (2 more)    (1 more)    (the tile)
struct Tile {
  Rect source;   // the pixels to upload
  Rect blurred;  // the output of the blur
  Rect edges;    // the output of the edge filter; x and y even
  Rect result;   // the tile in the picture of half the size
};

/// The bytes of a surface of this size, with the pitch that the softgpu miniport chooses: a
/// multiple of 64, whole pages.
uint64_t surface_bytes(uint32_t width, uint32_t height, uint64_t page_bytes = kPageBytes);

struct Plan {
  uint32_t width = 0, height = 0;  // of the source picture
  uint32_t tile_side = 0;          // edges of a full tile, even
  std::vector<Tile> tiles;         // row by row; the last of a row or column may be smaller
  uint64_t working_set_bytes = 0;  // all surfaces of all tiles in video memory
  uint64_t vram_least_bytes = 0;   // what the hungriest single submission needs at once
};

/// @param width, height  1..kPictureSideMax
/// @param tile_side      even, at least 2; 0 lets the plan choose: 512 for large pictures, 64 for
/// small ones
/// @param page_bytes     what allocations in video memory are rounded up to, a power of two
Plan make_plan(uint32_t width, uint32_t height, uint32_t tile_side = 0,
               uint64_t page_bytes = kPageBytes);

/// The filters of the passes, the same for the GPU and the reference.
softgpu::reference::Filter blur_filter();
softgpu::reference::Filter edge_filter();
inline constexpr uint32_t kBlurHalo = 2, kEdgeHalo = 1;

/// The passes on the whole picture at once, on the CPU: the tiles together must give the same.
Picture reference_result(const Picture& source);
/// The checksum that the GPU computes for a tile's part of `result`.
uint64_t reference_checksum(const Picture& result, const Rect& part);

}  // namespace dxgkit::tool
