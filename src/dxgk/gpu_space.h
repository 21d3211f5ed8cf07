// One GPU virtual address space of an adapter, with its page tables.
#pragma once

#include <cstdint>
#include <vector>

#include "gpuva/address_space.h"
#include "gpuva/page_tables.h"

namespace dxgkit::dxgk {

class Context;

/// A process's, shared by its devices (VA-07), or the paging process's. Lane: the adapter's.
struct GpuSpace {
  GpuSpace(const gpuva::Geometry& geometry, uint32_t process_in)
      : process(process_in),
        addresses({.end = uint64_t{1} << geometry.va_bits, .first = geometry.leaf_bytes()}),
        tables(geometry) {}

  const uint32_t process;  // 0: the paging process
  gpuva::AddressSpace addresses;
  gpuva::PageTables tables;
  void* driver_process = nullptr;  // hKmdProcess, once the driver has made it
  std::vector<Context*> contexts;  // those that have its root
  uint64_t sequence = 0;           // of calls that change addresses
  uint64_t version = 0;            // of `tables`
  uint32_t held = 0;               // pieces of work that keep its contexts from the engines
  bool of_paging = false;
  // The root as far as the paging executor's queue has come.
  gpuva::TableId shown_root;
  uint64_t shown_entries = 0;
};

}  // namespace dxgkit::dxgk
