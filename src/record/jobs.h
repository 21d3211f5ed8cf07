// The work in a recording: each submission with the allocations that it names, what was in them
// before, and what the program saw in them afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/file.h"

namespace dxgkit::record {

/// An allocation that the program has made alone: no primary, and of no resource with data.
struct JobAllocation {
  std::vector<std::byte> asked, made;  // private data, from the program and as the driver left it
  /// Bytes, as the driver's private data says where the recording tells its place; else the whole
  /// pages of a lock; else 0.
  uint64_t size_bytes = 0;
  bool locked = false;
};

/// A place in the private data of allocations where their size stands, as those say whose size a
/// lock has shown. At least two sizes agree, and none says otherwise.
struct SizeField {
  size_t offset = 0;
  size_t width = 8;       // bytes
  size_t data_bytes = 0;  // of private data of this kind
};

/// One element of an allocation list.
inline constexpr uint32_t kNoJobAllocation = UINT32_MAX;
struct JobUse {
  uint32_t allocation = kNoJobAllocation;  // an index in Job::allocations
  bool write = false;
};

/// One D3DKMTRender. An allocation is in it once, however often the list names it.
struct Job {
  struct Memory {
    size_t allocation = 0;  // an index in Work::allocations
    bool written = false;   // by the GPU
    /// What was in it when the work was submitted; zeros in one that is new. Only of allocations
    /// that the program has locked at some time. nullopt: it had not looked since the GPU wrote.
    std::optional<std::vector<std::byte>> before;
    /// What the program saw in it after the work, and before anything else wrote there. nullopt: it
    /// did not look, or what it saw may depend on memory that it did not look at.
    std::optional<std::vector<std::byte>> after;
  };
  size_t call = 0;  // from 1
  uint32_t node = 0;
  std::vector<std::byte> context;  // private data of the context
  std::vector<Memory> allocations;
  std::vector<std::byte> commands;
  std::vector<JobUse> uses;
  std::vector<std::byte> patches;  // D3DDDI_PATCHLOCATIONLIST
};

struct Work {
  std::optional<std::vector<std::byte>> adapter;  // sent with KMTQAITYPE_UMDRIVERPRIVATE
  std::vector<JobAllocation> allocations;
  std::vector<Job> jobs;
  std::vector<std::vector<std::byte>> escapes;  // sent with DRIVERPRIVATE without flags; no twins
  std::optional<SizeField> asked_size;          // in JobAllocation::asked
};

/// @param content_bytes_max  of `before` and `after` of all jobs; jobs for which there is no room
///                           are left out, and so is the second of two that are alike.
Work work_of(const Recording& recording, uint64_t content_bytes_max = uint64_t{256} << 20);

}  // namespace dxgkit::record
