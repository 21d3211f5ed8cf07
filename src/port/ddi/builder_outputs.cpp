#include "port/ddi/builder_outputs.h"

#include <fmt/format.h>

#include "port/core/port_core.h"

namespace dxgkit::port {

void measure_outputs(PortCore& core, const DdiInfo& info, const BuilderOutputs& outputs,
                     RenderResult* result) {
  // Distances as unsigned numbers: a pointer below the start becomes a huge one.
  const auto distance = [](const BuilderOutputs::Span& span) {
    return reinterpret_cast<uint64_t>(span.end) - reinterpret_cast<uint64_t>(span.start);
  };
  const uint64_t dma_bytes = distance(outputs.dma);
  const uint64_t patch_bytes = distance(outputs.patches);
  const uint64_t private_bytes = distance(outputs.private_data);
  const char* what = nullptr;
  uint64_t limit = 0, got = 0;
  if (dma_bytes > outputs.dma.room) {
    what = "pDmaBuffer", limit = outputs.dma.room, got = dma_bytes;
  } else if (patch_bytes > outputs.patches.room || patch_bytes % sizeof(PatchLocation) != 0) {
    what = "pPatchLocationListOut", limit = outputs.patches.room, got = patch_bytes;
  } else if (private_bytes > outputs.private_data.room) {
    what = "pDmaBufferPrivateData", limit = outputs.private_data.room, got = private_bytes;
  }
  if (what != nullptr) [[unlikely]] {
    core.fatal("REND-08", info.name, 0x10E, 0x12,
               fmt::format("{} came back {} bytes from where it was given.", what,
                           static_cast<int64_t>(got)),
               fmt::format("It points past the last byte or element written: 0 to {} bytes "
                           "further, whole elements.",
                           limit),
               "Advance it by what was written and check the size before writing.");
    result->status = Status::kUnsuccessful;
    return;
  }
  result->dma_bytes = static_cast<uint32_t>(dma_bytes);
  result->patch_count = static_cast<uint32_t>(patch_bytes / sizeof(PatchLocation));
  result->private_bytes = static_cast<uint32_t>(private_bytes);
}

}  // namespace dxgkit::port
