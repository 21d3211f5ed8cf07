// One GPU virtual address space of an adapter, with its page tables.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "dxgk/va/unmapped_ranges.h"
#include "gpuva/address_space.h"
#include "gpuva/page_tables.h"

namespace dxgkit::dxgk {

class SpaceUser;

/// A process's, shared by its devices (VA-07), its second one, or the paging process's. Lane: the
/// adapter's.
struct GpuSpace {
  GpuSpace(const gpuva::Geometry& geometry, uint32_t process_in)
      : process(process_in),
        addresses({.end = uint64_t{1} << geometry.va_bits, .first = geometry.leaf_bytes()}),
        tables(geometry) {}

  /// All spans that are mapped, in order.
  gpuva::PageSpans everything_mapped() const {
    gpuva::PageSpans spans;
    addresses.for_each_in({0, tables.geometry().space_pages()},
                          [&](const gpuva::Mapping& mapping) { spans.push_back(mapping.span); });
    return spans;
  }

  const uint32_t process;  // 0: the paging process
  gpuva::AddressSpace addresses;
  gpuva::PageTables tables;
  void* driver_process = nullptr;    // hKmdProcess, once the driver has made it
  std::vector<SpaceUser*> contexts;  // those that have its root
  uint64_t sequence = 0;             // of calls that change addresses
  uint64_t version = 0;              // of `tables`
  uint32_t held = 0;                 // pieces of work that keep its contexts from the engines
  uint32_t planning = 0;             // plans being made: its tables stay
  // The tables gave way to others: there are none, plans come to nothing, and whoever runs next has
  // all of them written again first.
  bool evicted = false;
  uint64_t restoring = 0;  // times they were planned again and are not written yet
  /// Shared by whatever may still write its tables.
  std::shared_ptr<int> busy = std::make_shared<int>();
  bool of_paging = false;
  bool ended = false;  // with its process: the tables are on their way out, and not made again
  // A process's second space (VA-34): no client's addresses, and in no trace.
  bool kernel_only = false;
  std::map<uint64_t, gpuva::Piece> fixed;  // what is shown there beside mappings, by first page
  std::vector<void*> kernel_contexts;      // the driver's handles of contexts that have its root
  /// Pages whose entries are invalid for want of memory for tables, whatever is mapped there: the
  /// next plan makes up for them.
  gpuva::PageSpans owed;
  UnmappedRanges unmapped;
  // The root as far as the paging executor's queue has come.
  gpuva::TableId shown_root;
  uint64_t shown_entries = 0;
};

}  // namespace dxgkit::dxgk
