// GPU virtual addresses in a recording: the map of a process at a moment, the walk of an address
// through its page tables, and its history. Pure; recordings are hostile.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace dxgkit::tool::va {

/// The content of an address range. Bytes.
struct Range {
  enum class Kind : uint8_t { kReserved, kMapped, kZero };
  uint64_t address = 0, size = 0;
  Kind kind = Kind::kReserved;
  uint64_t allocation = 0, offset = 0;  // kMapped
  uint64_t protection = 0;              // bits 0 write, 1 execute
  int64_t since_ns = 0;
};

/// The place of an allocation.
struct Place {
  uint64_t segment = 0, offset = 0, size = 0;
};

/// One level of a walk.
struct WalkStep {
  uint64_t level = 0;
  bool written = false;  // the entry was written; the members below are valid only then
  uint64_t table_segment = 0, table_offset = 0;
  uint64_t index = 0;            // of the entry in its table
  uint64_t flags = 0, page = 0;  // as the driver got them (DXGK_PTE)
  int64_t since_ns = 0;
  bool valid() const { return written && (flags & 1) != 0; }
  bool zero() const { return (flags & 2) != 0; }
  bool large() const { return (flags >> 10 & 1) != 0; }
  uint64_t segment() const { return flags >> 5 & 31; }
};
struct Walk {
  std::vector<WalkStep> steps;       // from the root down
  bool translates = false;           // the last step's entry is a valid one of a page
  uint64_t segment = 0, offset = 0;  // of the byte itself
  bool zero = false;
};

/// One line of the history of an address.
struct Happening {
  int64_t time_ns = 0;
  std::string what;  // "mapped", "freed", ...
  std::string text;  // one sentence with the values
};

struct Process {
  uint64_t number = 0;
  std::string name;
  uint64_t address_bits = 0, levels = 0;
  uint64_t calls = 0;   // calls that changed its addresses
  uint64_t faults = 0;  // faults of its contexts
};

/// Cost of each query: one pass over the events, with a logarithm of the ranges alive.
class AddressStory {
 public:
  explicit AddressStory(const trace::Recording& recording);

  /// By number. Process 0 is the kernel's own, for paging.
  const std::vector<Process>& processes() const { return processes_; }
  const Process* find(uint64_t number) const;
  /// From the first event to the last.
  int64_t begin_ns() const { return begin_ns_; }
  int64_t end_ns() const { return end_ns_; }

  /// The map after all events up to `at_ns`, by address, without overlaps. Reserved ranges appear
  /// only where nothing is mapped.
  std::vector<Range> map_at(uint64_t process, int64_t at_ns) const;
  /// The same for one page.
  std::optional<Range> range_at(uint64_t process, uint64_t address, int64_t at_ns) const;
  /// The walk by the last entries handed to the driver up to `at_ns`. No steps: there were no
  /// tables.
  Walk walk_at(uint64_t process, uint64_t address, int64_t at_ns) const;
  std::vector<Happening> history_of(uint64_t process, uint64_t address) const;
  /// Nothing if it is in no segment.
  std::optional<Place> place_at(uint64_t allocation, int64_t at_ns) const;

 private:
  /// The number of pages that one entry of a level covers, in bits; nothing for a level that the
  /// process does not have.
  std::optional<uint32_t> entry_bits(uint64_t process, uint64_t level) const;
  /// Calls visit(event) for the events up to `at_ns`.
  template <typename Visit>
  void until(int64_t at_ns, Visit visit) const;

  const trace::Recording& recording_;
  std::vector<Process> processes_;
  std::map<uint64_t, uint64_t> index_bits_;  // by process
  std::map<uint64_t, uint64_t> process_of_;  // by context, from roots
  std::vector<uint64_t> process_of_fault_;   // in the order of the faults; UINT64_MAX: unknown
  int64_t begin_ns_ = 0, end_ns_ = 0;
};

/// "1234", "1234ns", "5us", "2.5ms", "1s": nanoseconds. Nothing for other text.
std::optional<int64_t> parse_time(std::string_view text);
/// Decimal, or hexadecimal behind 0x.
std::optional<uint64_t> parse_address(std::string_view text);

}  // namespace dxgkit::tool::va
