#include "gpuva/pte.h"

namespace dxgkit::gpuva {

void fill_ptes(const PteSource& source, std::span<Pte> entries, uint64_t extra_flags,
               uint64_t stride) {
  const uint64_t flags = source.valid() ? source.flags() | extra_flags : 0;
  Pte* const out = entries.data();
  const uint64_t first = source.first_page;
  const size_t count = entries.size();
  switch (source.kind) {
    case PteSource::Kind::kInvalid:
    case PteSource::Kind::kZero:
      for (size_t i = 0; i < count; ++i) out[i] = {flags, 0};
      return;
    case PteSource::Kind::kRun:
      if (stride == 1) {
        for (size_t i = 0; i < count; ++i) out[i] = {flags, first + i};
        return;
      }
      for (size_t i = 0; i < count; ++i) out[i] = {flags, first + i * stride};
      return;
    case PteSource::Kind::kFrames: {
      const uint64_t* const frames = source.frames;
      for (size_t i = 0; i < count; ++i) out[i] = {flags, frames[i]};
      return;
    }
    case PteSource::Kind::kSame:
      for (size_t i = 0; i < count; ++i) out[i] = {flags, first};
      return;
  }
}

}  // namespace dxgkit::gpuva
