#include "dxgk/va/gpu_va_trace.h"

namespace dxgkit::dxgk::gpu_va_trace {
namespace {

using trace::emit;
using trace::EventKind;

uint64_t bits_of(const gpuva::Protection& protection) {
  return (protection.write ? 1U : 0U) | (protection.execute ? 2U : 0U) |
         (protection.zero ? 4U : 0U) | (protection.no_access ? 8U : 0U);
}

}  // namespace

void record_space(const GpuSpace& space) {
  const gpuva::Geometry& geometry = space.tables.geometry();
  uint64_t index_bits = 0;
  for (uint32_t level = 0; level < geometry.level_count; ++level)
    index_bits |= uint64_t{geometry.levels[level].index_bits} << (8 * level);
  emit(EventKind::kGpuVaSpace, space.process, geometry.va_bits, geometry.level_count, index_bits);
}

void record_changed(const GpuSpace& space, const gpuva::PageSpans& changed) {
  for (const gpuva::PageSpan& span : changed) {
    uint64_t next = span.first_page;
    const auto hole_until = [&](uint64_t page) {
      if (page <= next) return;
      const gpuva::PageSpan hole{next, page - next};
      emit(EventKind::kGpuVaUnmapped, space.process, hole.address(), hole.size_bytes());
    };
    space.addresses.for_each_in(span, [&](const gpuva::Mapping& mapping) {
      if (mapping.leaves_nothing()) return;
      hole_until(mapping.span.first_page);
      next = mapping.span.end_page();
      gpuva::for_each_stretch(mapping, [&](gpuva::PageSpan stretch, uint64_t page) {
        emit(EventKind::kGpuVaMapped, space.process, stretch.address(), stretch.size_bytes(),
             mapping.allocation.value);
        emit(EventKind::kGpuVaView, space.process, page * kPageBytes, bits_of(mapping.protection),
             mapping.driver_protection);
      });
    });
    hole_until(span.end_page());
  }
}

void record_entries(const GpuSpace& space, const port::PageTableUpdate& update) {
  emit(EventKind::kPageTableWrite, space.process, update.level, update.table_physical.offset,
       update.table_physical.segment.value);
  const uint64_t entry_bytes = kPageBytes << space.tables.geometry().entry_shift(update.level);
  const auto run = [&](uint64_t first, uint64_t count, uint64_t pages_apart) {
    const port::PageTableEntry& entry = update.entries[first];
    emit(EventKind::kPageTableEntries, update.first_va + first * entry_bytes, count, entry.page,
         (entry.flags & UINT32_MAX) | pages_apart << 32);
  };
  if (update.repeat) return run(0, update.count, 0);
  for (uint64_t first = 0; first < update.count;) {
    // As long as flags stay and pages go on as they begin.
    const port::PageTableEntry* const entries = update.entries + first;
    const uint64_t left = update.count - first;
    uint64_t count = 1, apart = 0;
    if (left > 1 && entries[1].page >= entries[0].page) {
      apart = entries[1].page - entries[0].page;
      if (apart <= UINT32_MAX) {
        while (count < left && entries[count].flags == entries[0].flags &&
               entries[count].page == entries[0].page + count * apart) {
          ++count;
        }
      }
    }
    run(first, count, count == 1 ? 0 : apart);
    first += count;
  }
}

}  // namespace dxgkit::dxgk::gpu_va_trace
