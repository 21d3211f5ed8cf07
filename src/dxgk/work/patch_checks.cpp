#include "dxgk/work/patch_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace dxgkit::dxgk {

void PatchChecks::check_references(const DmaBuffer& buffer, const port::RenderResult& result) {
  if (result.patch_count != 0 || result.dma_bytes == 0) return;
  uint32_t used = 0, first = 0;
  for (uint32_t i = buffer.allocation_count; i-- > 0;) {
    if (buffer.allocations[i].device_handle == nullptr) continue;
    ++used;
    first = i;
  }
  if (used == 0) return;
  core_.findings().report(verifier::Finding{
      .rule = "FIELD-01",
      .severity = verifier::Severity::kViolation,
      .ddi = "DxgkDdiRender",
      .actual = fmt::format("A DMA buffer of {} bytes has {} allocations in its allocation list, "
                            "the first at index {}, and no patch location.",
                            result.dma_bytes, used, first),
      .expected = "Each allocation the DMA buffer uses has an element in pPatchLocationListOut.",
      .fix = "Write a patch location per use of an allocation and advance pPatchLocationListOut, "
             "also where the address was written at once because SegmentId was not 0.",
      .why = "Only what the patch-location list references is made resident in the patch model: "
             "these allocations may be anywhere when the packet runs.",
      .windows = "Nothing is said: the packet runs, and faults at an address of its own or works "
                 "on what was evicted.",
      .confidence = verifier::Confidence::kMeasured});
}

void PatchChecks::report_slots_of_none(const DmaBuffer& buffer, const port::RenderResult& result,
                                       const char* ddi) {
  for (uint32_t i = 0; i < result.patch_count; ++i) {
    const uint32_t slot = buffer.patches[i].slot_id & 0xFFFFFFU;
    if (slot == 0) continue;
    core_.findings().report(verifier::Finding{
        .rule = "REND-22",
        .severity = verifier::Severity::kViolation,
        .ddi = ddi,
        .actual =
            fmt::format("Patch element {} has SlotId {}; MaxAllocationListSlotId is 0.", i, slot),
        .expected = "A driver that reports no slots names none: SlotId is 0.",
        .fix = "Report in MaxAllocationListSlotId how many slots the driver uses, or leave SlotId "
               "0.",
        .why = "Without slots the kernel does not follow what stays bound from one part of a "
               "buffer to the next (REND-26)."});
    return;
  }
}

/// All of them at once, without a branch: there are thousands, and hardly ever a bad one. What may
/// not be below zero is collected, and its sign tells. False: a closer look has to tell.
bool PatchChecks::plainly_right(const DmaBuffer& buffer, const port::RenderResult& result,
                                uint32_t slot_limit) {
  const int64_t last_allocation = int64_t{buffer.allocation_count} - 1;
  const int64_t last_byte = int64_t{result.dma_bytes} - 1;
  const int64_t last_slot = int64_t{slot_limit} - 1;
  int64_t signs = 0;
  uint32_t last_split = 0;
  const port::PatchLocation* const end = buffer.patches.data() + result.patch_count;
  for (const port::PatchLocation* patch = buffer.patches.data(); patch != end; ++patch) {
    signs |= last_allocation - patch->allocation_index;
    signs |= last_byte - patch->patch_offset;
    signs |= int64_t{patch->split_offset} - last_split;
    signs |= int64_t{patch->patch_offset} - patch->split_offset;
    signs |= last_slot - (patch->slot_id & 0xFFFFFFU);
    last_split = patch->split_offset;
  }
  return signs >= 0;
}

Status PatchChecks::check_patches(const DmaBuffer& buffer, const port::RenderResult& result,
                                  const char* ddi) {
  const uint32_t slots = core_.caps().max_allocation_list_slot_id;
  // A driver that has none leaves the ids at 0.
  if (plainly_right(buffer, result, std::max(slots, 1U))) return Status::kSuccess;
  const uint32_t slot_limit = slots == 0 ? 1U << 24 : slots;
  if (slots == 0) report_slots_of_none(buffer, result, ddi);
  uint32_t last_split = 0;
  for (uint32_t i = 0; i < result.patch_count; ++i) {
    const port::PatchLocation& patch = buffer.patches[i];
    const char* rule = nullptr;
    std::string actual;
    if (patch.allocation_index >= buffer.allocation_count) {
      rule = "PATCH-27";
      actual = fmt::format("Patch element {} names allocation index {} of {}.", i,
                           patch.allocation_index, buffer.allocation_count);
    } else if (patch.patch_offset >= result.dma_bytes) {
      rule = "PATCH-27";
      actual = fmt::format("Patch element {} patches offset {} of a DMA buffer of {} bytes.", i,
                           patch.patch_offset, result.dma_bytes);
    } else if (patch.split_offset < last_split || patch.split_offset > patch.patch_offset) {
      rule = "REND-22";
      actual = fmt::format("Patch element {} has SplitOffset {} after {}, PatchOffset {}.", i,
                           patch.split_offset, last_split, patch.patch_offset);
    } else if ((patch.slot_id & 0xFFFFFFU) >= slot_limit) {
      rule = "REND-22";
      actual = fmt::format("Patch element {} has SlotId {}; MaxAllocationListSlotId is {}.", i,
                           patch.slot_id & 0xFFFFFFU, slots);
    }
    last_split = patch.split_offset;
    if (rule == nullptr) continue;
    core_.findings().report(
        verifier::Finding{.rule = rule,
                          .severity = verifier::Severity::kViolation,
                          .ddi = ddi,
                          .actual = std::move(actual),
                          .expected = "Elements index the allocation list, patch inside the DMA "
                                      "buffer, are sorted by SplitOffset, and use slots below "
                                      "MaxAllocationListSlotId.",
                          .fix = "Fill D3DDDI_PATCHLOCATIONLIST for every reference in the order "
                                 "it is written; the submission is rejected."});
    return Status::kInvalidParameter;
  }
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
