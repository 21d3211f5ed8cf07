// segment., alloc.: what it costs to keep track of a segment's address space and of allocations.
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "base/check.h"
#include "bench/client.h"
#include "bench/harness.h"
#include "bench/null_gpu.h"
#include "vidmm/memory_manager.h"
#include "vidmm/range_index.h"

namespace dxgkit::bench {
namespace {

// --- segment.

constexpr uint64_t kPage = 4096;
constexpr uint32_t kSteps = 1'000;
constexpr uint32_t kFew = 100'000;
constexpr uint32_t kMany = 1'000'000;

/// What the process has from malloc.
double heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

/// Whole pages from 64 KiB to 64 MiB, as many in each octave.
class Sizes {
 public:
  uint64_t next() {
    const double octaves = 10.0 * static_cast<double>(chance_()) / 2147483647.0;
    return static_cast<uint64_t>(16.0 * std::exp2(octaves)) * kPage;
  }
  size_t pick(size_t count) { return chance_() % count; }
  /// 4/3 of what `count` of them need on average.
  static uint64_t room(uint64_t count) {
    const double mean = 16.0 * 1023.0 / std::log(1024.0);
    return static_cast<uint64_t>(static_cast<double>(count) * mean * 4.0 / 3.0) * kPage;
  }

 private:
  std::minstd_rand chance_{11};
};

/// What one would write with the standard library: all ranges by address, the free ones by size as
/// well, each knowing its place among the others; best fit.
class MapAndSet {
 public:
  explicit MapAndSet(uint64_t size) { set_free(ranges_.emplace(0, Range{.size = size}).first); }
  uint64_t place(uint64_t size) {
    const auto hole = holes_.lower_bound({size, 0, {}});
    DXGKIT_CHECK(hole != holes_.end());
    const auto range = hole->range;
    const uint64_t rest = range->second.size - size;
    auto spare = holes_.extract(hole);
    range->second.size = size;
    range->second.used = true;
    if (rest > 0) {
      const auto next = std::next(range);
      set_free(ranges_.emplace_hint(next, range->first + size, Range{.size = rest}),
               std::move(spare));
    }
    return range->first;
  }
  void release(uint64_t offset) {
    auto range = ranges_.find(offset);
    DXGKIT_CHECK(range != ranges_.end() && range->second.used);
    range->second.used = false;
    Holes::node_type spare;
    if (const auto next = std::next(range); next != ranges_.end() && !next->second.used) {
      range->second.size += next->second.size;
      spare = holes_.extract(next->second.hole);
      ranges_.erase(next);
    }
    if (range != ranges_.begin()) {
      if (const auto previous = std::prev(range); !previous->second.used) {
        previous->second.size += range->second.size;
        spare = holes_.extract(previous->second.hole);
        ranges_.erase(range);
        range = previous;
      }
    }
    set_free(range, std::move(spare));
  }

 private:
  struct Range;
  using Ranges = std::map<uint64_t, Range>;
  struct Hole {
    uint64_t size, offset;
    Ranges::iterator range;
    bool operator<(const Hole& other) const {
      return size != other.size ? size < other.size : offset < other.offset;
    }
  };
  using Holes = std::set<Hole>;
  struct Range {
    uint64_t size = 0;
    bool used = false;
    Holes::iterator hole = {};  // of a free one
  };
  void set_free(Ranges::iterator range, Holes::node_type spare = {}) {
    const Hole hole{range->second.size, range->first, range};
    if (spare.empty()) {
      range->second.hole = holes_.insert(hole).first;
      return;
    }
    spare.value() = hole;
    range->second.hole = holes_.insert(std::move(spare)).position;
  }
  Ranges ranges_;
  Holes holes_;
};

/// The same for ours, by offset as well: lowest fit.
class Ours {
 public:
  explicit Ours(uint64_t size) : size_(size), ranges_(size) {}
  uint64_t place(uint64_t size) {
    const auto offset = ranges_.find(size, kPage, vidmm::SearchFrom::kBottom, 0, size_);
    DXGKIT_CHECK(offset.has_value());
    ranges_.place(*offset, size, 1);
    return *offset;
  }
  void release(uint64_t offset) { ranges_.release(ranges_.at(offset)); }

 private:
  uint64_t size_;
  vidmm::RangeIndex ranges_;
};

/// So many live ranges, in the state that comes about when ranges come and go at random.
template <typename Index>
class Population {
 public:
  explicit Population(uint32_t count) : live_(count) {
    const double before = heap_bytes();
    index_ = std::make_unique<Index>(Sizes::room(count));
    for (uint64_t& offset : live_) offset = index_->place(sizes_.next());
    steps(2 * count);
    bytes_each_ = (heap_bytes() - before) / count;
  }
  void steps(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      uint64_t& victim = live_[sizes_.pick(live_.size())];
      index_->release(victim);
      victim = index_->place(sizes_.next());
    }
  }
  double bytes_each() const { return bytes_each_; }

 private:
  Sizes sizes_;
  std::vector<uint64_t> live_;
  std::unique_ptr<Index> index_;
  double bytes_each_ = 0;
};

template <typename Index>
Side stepping(uint32_t count) {
  const auto ranges = std::make_shared<Population<Index>>(count);
  return {.batch = [ranges] { ranges->steps(kSteps); }, .operations = kSteps};
}

template <typename Index>
Side weighed(uint32_t count) {
  const Population<Index> ranges(count);
  return {.figure = ranges.bytes_each()};
}

Line time_line(uint32_t count) {
  Line line;
  line.what =
      "find a range by address and release it, place another: lowest fit / map + set, best fit";
  line.goal = Goal::kAtMost;
  line.target = 0.3;
  line.ours = stepping<Ours>(count);
  line.reference = stepping<MapAndSet>(count);
  return line;
}

Line growth_line() {
  Line line;
  line.what = "the same: 1e6 live ranges / 1e5 live ranges";
  line.goal = Goal::kAtMost;
  line.target = 2.2;
  line.ours = stepping<Ours>(kMany);
  line.reference = stepping<Ours>(kFew);
  return line;
}

Line bytes_line(uint32_t count) {
  Line line;
  line.what = "heap bytes per live range, free ranges and spare room included: ours / map + set";
  line.unit = Unit::kBytes;
  line.goal = Goal::kOursAtMost;
  line.target = 64;
  line.ours = weighed<Ours>(count);
  line.reference = weighed<MapAndSet>(count);
  return line;
}

// --- alloc.

/// Allocations of one page each, by D3DKMT calls to the null driver, which keeps nothing of them.
class Crowd {
 public:
  explicit Crowd(runtime::Runtime& os) : os_(os), gpu_(os), world_(os, uint64_t{5} << 30) {
    static_cast<void>(world_.start({.name = "null", .path = {}, .entry = NullGpu::driver_entry()},
                                   gpu_.function()));
  }
  ~Crowd() { world_.stop(); }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  void grow_to(uint32_t count) {
    for (; count_ < count && world_.error().empty(); ++count_) {
      if (live_.size() == kOfOneClient) {
        world_.next_client();
        live_.clear();
      }
      create();
    }
  }
  /// Replaces every one of the present client. From then on the pages of those that come have been
  /// zeroed before, so that the host does not have to find memory for them first.
  void replace_all() {
    for (size_t left = live_.size(); left > 0 && world_.error().empty(); --left) replace_one();
  }
  /// Nanoseconds for one to go and another to come.
  double turnover() {
    constexpr uint32_t kBatches = 400;
    constexpr uint32_t kTurns = 25;
    std::vector<double> samples;
    for (uint32_t batch = 0; batch < kBatches && world_.error().empty(); ++batch) {
      const runtime::TimeNs begin = os_.now();
      for (uint32_t i = 0; i < kTurns; ++i) replace_one();
      samples.push_back(static_cast<double>(os_.now() - begin) / kTurns);
    }
    std::ranges::sort(samples);
    return samples.empty() ? 0 : samples[samples.size() / 2];
  }
  const std::string& error() const { return world_.error(); }

 private:
  static constexpr size_t kOfOneClient = 250'000;  // a process has 2^18 handles
  void replace_one() {
    world_.destroy_allocation(live_.front());
    live_.pop_front();
    create();
  }
  void create() {
    uint64_t bytes = kPage;
    live_.push_back(world_.create_allocation(&bytes, sizeof(bytes)));
  }
  runtime::Runtime& os_;
  NullGpu gpu_;
  World world_;
  std::deque<D3DKMT_HANDLE> live_;  // of the present client
  uint32_t count_ = 0;
};

Line growth_of_allocations(runtime::Runtime& os) {
  Line line;
  line.what = "D3DKMT destroy and create of one allocation: 1e6 alive / 1e3 alive";
  line.goal = Goal::kAtMost;
  line.target = 1.5;
  Crowd crowd(os);
  crowd.grow_to(1'000);
  crowd.replace_all();
  crowd.turnover();
  line.reference = Side{.figure = crowd.turnover()};
  crowd.grow_to(kMany);
  crowd.replace_all();
  crowd.turnover();
  line.ours.figure = crowd.turnover();
  line.unavailable = crowd.error();
  return line;
}

Line bytes_of_allocations(runtime::Runtime& os) {
  Line line;
  line.what = "heap bytes of the kernel per allocation of one page, 1e6 alive, none resident";
  line.unit = Unit::kBytes;
  line.goal = Goal::kOursAtMost;
  line.target = 400;
  Crowd crowd(os);
  crowd.grow_to(1'000);
  const double before = heap_bytes();
  crowd.grow_to(kMany);
  line.ours.figure = (heap_bytes() - before) / (kMany - 1'000);
  line.unavailable = crowd.error();
  return line;
}

/// The memory manager's share, all of them resident.
Line bytes_of_residents() {
  Line line;
  line.what = "heap bytes of vidmm alone per allocation, 1e6 alive and resident";
  line.unit = Unit::kBytes;
  vidmm::SegmentDesc segment{.id = SegmentId{1}, .bank_end_offsets = {}};
  segment.size_bytes = segment.commit_limit_bytes = 2 * uint64_t{kMany} * kPage;
  vidmm::MemoryManager memory(std::span(&segment, 1));
  vidmm::AllocationDesc desc{.size_bytes = kPage, .alignment_bytes = kPage};
  desc.supported_read = desc.supported_write = vidmm::segment_bit(segment.id);
  const double before = heap_bytes();
  for (uint64_t id = 1; id <= kMany; ++id) {
    DXGKIT_CHECK(is_success(memory.create(AllocationId{id}, desc)));
    const vidmm::Use use{AllocationId{id}, true};
    const auto plan = memory.make_resident(std::span(&use, 1));
    DXGKIT_CHECK(plan.has_value());
    for (const vidmm::PagingOp& op : plan->operations) memory.operation_done(op);
    memory.release(std::span(&use, 1));
  }
  line.ours.figure = (heap_bytes() - before) / kMany;
  return line;
}

}  // namespace

void add_memory_lines(runtime::Runtime& os, std::vector<Maker>& lines) {
  lines.push_back({"segment.place_release_1e5", [] { return time_line(kFew); }});
  lines.push_back({"segment.place_release_1e6", [] { return time_line(kMany); }});
  lines.push_back({"segment.growth_1e6", [] { return growth_line(); }});
  lines.push_back({"segment.bytes_1e5", [] { return bytes_line(kFew); }});
  lines.push_back({"segment.bytes_1e6", [] { return bytes_line(kMany); }});
  lines.push_back({"alloc.bytes_each_1e6", [&os] { return bytes_of_allocations(os); }});
  lines.push_back({"alloc.vidmm_bytes_each_1e6", [] { return bytes_of_residents(); }});
  lines.push_back({"alloc.create_destroy_growth", [&os] { return growth_of_allocations(os); }});
}

}  // namespace dxgkit::bench
