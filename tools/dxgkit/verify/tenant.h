// A process whose job lies in one reservation of GPU virtual addresses, page by page as a step
// wishes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/dxgkit/verify/page_fault.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {

/// Pages of 4 KiB of an allocation.
struct PagePiece {
  size_t allocation = 0;  // of the job
  uint64_t first = 0, pages = 0;
};

/// Inside a reservation any page may be mapped to anything, also over what is mapped there.
class Tenant {
 public:
  /// Whose the job's memory is. Of a device of its own, it can be looked at after work has lost the
  /// other one. Batches of updates need it on one device with their context.
  enum class Memory : uint8_t { kOwnDevice, kOneDevice };
  Tenant(Bench& bench, std::string name, uint32_t node, Memory memory = Memory::kOwnDevice)
      : worker_(bench, std::move(name)), bench_(bench), node_(node), memory_(memory) {}

  /// Creates everything but addresses.
  /// @param grain_pages  each allocation begins at a multiple of it, and is mapped in pieces of
  /// such
  ///        multiples; of a whole leaf table they do not share the size of their pages
  Answer<void> open(uint64_t seed, uint64_t grain_pages = kGrainPages);
  static constexpr uint64_t kGrainPages = 16;  // a reservation is of whole 64 KiB
  /// A job on the same device, of the same seed.
  Answer<std::unique_ptr<Job>> another_job();
  /// Reserves room for the job's allocations, and maps them.
  /// @param base  the first page; 0: anywhere
  Answer<void> settle(uint64_t first_page);
  /// Pages that settle() takes.
  uint64_t pages() const { return pages_; }
  /// In a few pieces each.
  Answer<void> map_all();
  /// Maps a piece of an allocation in its place.
  /// @param wish  which allocation (0: none) and with which rights; the rest is filled in
  Answer<void> map(const PagePiece& piece, MapWish wish);
  /// Gives up the reservation.
  Answer<void> leave();

  /// Runs the job, on memory that was spoilt. What was wrong, or empty.
  Answer<std::string> run();
  /// The same without a look at the results.
  Answer<std::string> run_unchecked();
  /// Work that must cost its device a page fault, and write nothing that the CPU reads. What was
  /// wrong, or empty. There is a new device then. What the driver says of the fault is judged.
  /// @param access  DXGKIT_CLIENT_FAULT_*, what could not be done at `places`
  Answer<std::string> run_into_fault(uint32_t access, std::span<const AddressRange> places);

  Job& job() { return *job_; }
  Client& client() { return worker_.client; }
  D3DKMT_HANDLE memory_device() const { return memory_device_; }
  const ClientContext& context() const { return worker_.contexts[node_]; }
  std::span<const uint64_t> addresses() const { return addresses_; }
  uint64_t base() const { return base_; }
  uint64_t pages_of(size_t allocation) const;
  /// Where a piece of an allocation is mapped.
  AddressRange range(const PagePiece& piece) const {
    const uint64_t begin = addresses_[piece.allocation] + piece.first * kPageBytes;
    return {begin, begin + piece.pages * kPageBytes};
  }
  /// All pages of an allocation.
  PagePiece whole(size_t allocation) const { return {allocation, 0, pages_of(allocation)}; }

 private:
  Worker worker_;
  Bench& bench_;
  const uint32_t node_;
  const Memory memory_;
  uint64_t seed_ = 0;
  bool large_ = false;  // pieces are of whole large pages
  D3DKMT_HANDLE memory_device_ = 0;
  std::unique_ptr<Job> job_;
  std::vector<uint64_t> offsets_;    // of allocations in the reservation, in pages
  std::vector<uint64_t> addresses_;  // of allocations
  uint64_t pages_ = 0, base_ = 0;    // of the reservation; base in bytes, 0: none
};

}  // namespace dxgkit::tool::verify
