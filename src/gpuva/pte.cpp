#include "gpuva/pte.h"

namespace dxgkit::gpuva {

void fill_ptes(const PteSource& source, std::span<Pte> entries, uint64_t extra_flags,
               uint64_t stride) {
  const uint64_t flags = source.valid() ? source.flags() | extra_flags : 0;
  Pte* const out = entries.data();
  const size_t count = entries.size();
  switch (source.kind) {
    case PteSource::Kind::kInvalid:
    case PteSource::Kind::kZero:
      for (size_t i = 0; i < count; ++i) out[i] = {flags, 0};
      return;
    case PteSource::Kind::kRun:
      for (size_t i = 0; i < count; ++i) out[i] = {flags, source.first_page + i * stride};
      return;
    case PteSource::Kind::kFrames:
      for (size_t i = 0; i < count; ++i) out[i] = {flags, source.frames[i]};
      return;
    case PteSource::Kind::kSame:
      for (size_t i = 0; i < count; ++i) out[i] = {flags, source.first_page};
      return;
  }
}

}  // namespace dxgkit::gpuva
