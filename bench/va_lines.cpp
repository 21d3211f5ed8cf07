// va.: GPU virtual addresses: mapping with splits, lookups, and page-table entries.
#include <malloc.h>

#include <map>
#include <optional>

#include "base/check.h"
#include "bench/harness.h"
#include "gpuva/address_space.h"
#include "gpuva/page_tables.h"

namespace dxgkit::bench {
namespace {

using gpuva::Mapping;
using gpuva::PageSpan;

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSpacePages = uint64_t{1} << 36;  // 48 bits
constexpr uint32_t kSteps = 1'000;

double heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

/// Cheap, so that it is not what is measured.
class Chance {
 public:
  explicit Chance(uint64_t seed) : state_(seed) {}
  uint64_t operator()() {
    state_ += 0x9E3779B97F4A7C15ULL;
    uint64_t mixed = (state_ ^ (state_ >> 30)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
    return mixed ^ (mixed >> 31);
  }
  /// From 0 to `limit` - 1.
  uint64_t below(uint64_t limit) {
    return static_cast<uint64_t>((static_cast<Wide>((*this)()) * limit) >> 64);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  uint64_t state_;
};

/// What one would write with the standard library: ranges by where they begin.
class MapOfRanges {
 public:
  void map(const Mapping& mapping) {
    unmap(mapping.span);
    ranges_.emplace(mapping.span.first_page, Range{.end = mapping.span.end_page(),
                                                   .allocation = mapping.allocation.value,
                                                   .offset_pages = mapping.offset_pages,
                                                   .driver_protection = mapping.driver_protection,
                                                   .protection = mapping.protection});
  }
  void unmap(PageSpan span) {
    auto range = ranges_.upper_bound(span.first_page);
    if (range != ranges_.begin() && std::prev(range)->second.end > span.first_page) --range;
    while (range != ranges_.end() && range->first < span.end_page()) {
      const uint64_t begin = range->first;
      const Range old = range->second;
      if (old.end > span.end_page()) {
        Range rest = old;
        rest.offset_pages += span.end_page() - begin;
        ranges_.emplace_hint(std::next(range), span.end_page(), rest);
      }
      if (begin < span.first_page) {
        range->second.end = span.first_page;
        ++range;
      } else {
        range = ranges_.erase(range);
      }
    }
  }
  uint64_t lookup(uint64_t page) const {
    auto range = ranges_.upper_bound(page);
    if (range == ranges_.begin()) return 0;
    --range;
    return page < range->second.end ? range->second.offset_pages + (page - range->first) : 0;
  }
  size_t size() const { return ranges_.size(); }
  size_t outside_heap() const { return 0; }

 private:
  struct Range {
    uint64_t end = 0, allocation = 0, offset_pages = 0, driver_protection = 0;
    gpuva::Protection protection;
  };
  std::map<uint64_t, Range> ranges_;
};

/// Ours: executed operations inside one reservation.
class Ours {
 public:
  Ours() : space_({.end = kSpacePages * kPage, .first = 0}) {
    static_cast<void>(space_.reserve({.base = 0, .size = kSpacePages * kPage}, 1));
  }
  void map(const Mapping& mapping) {
    changed_.clear();
    space_.apply({.mapping = mapping, .sequence = 2}, &changed_);
  }
  void unmap(PageSpan span) {
    changed_.clear();
    space_.apply({.mapping = {.span = span, .protection = {.no_access = true}}, .sequence = 2},
                 &changed_);
  }
  uint64_t lookup(uint64_t page) const {
    const auto found = space_.lookup(page * kPage);
    return found.has_value() ? found->allocation_page(page - found->span.first_page) : 0;
  }
  size_t size() const { return space_.mapped_ranges(); }
  size_t outside_heap() const { return space_.outside_heap(); }

 private:
  gpuva::AddressSpace space_;
  gpuva::PageSpans changed_;
};

/// So many live ranges all over a space of 48 bits: what is mapped lands anywhere, over whatever is
/// there; what is unmapped as well. Sixteen ranges per allocation.
template <typename Index>
class Population {
 public:
  explicit Population(uint32_t count) : count_(count), spacing_(kSpacePages / count) {
    const double before = heap_bytes();
    index_ = std::make_unique<Index>();
    while (index_->size() < count_) step();
    steps(4 * count);
    bytes_each_ = (heap_bytes() + static_cast<double>(index_->outside_heap()) - before) /
                  static_cast<double>(index_->size());
  }
  void steps(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) step();
  }
  void lookups(uint32_t count) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; ++i) sum += index_->lookup(random_.below(kSpacePages));
    keep(sum);
  }
  double bytes_each() const { return bytes_each_; }

 private:
  void step() {
    const uint64_t at = random_.below(kSpacePages - 2 * spacing_);
    if (index_->size() <= count_) {
      const uint64_t allocation = 1 + random_.below(count_ / 16);
      index_->map({.span = {at, 1 + random_.below(spacing_)},
                   .allocation = AllocationId{allocation << 22 | allocation},
                   .offset_pages = random_.below(100'000),
                   .protection = {.write = true}});
    } else {
      index_->unmap({at, 1 + random_.below(2 * spacing_)});
    }
  }
  Chance random_{5};
  uint32_t count_;
  uint64_t spacing_;
  std::unique_ptr<Index> index_;
  double bytes_each_ = 0;
};

template <typename Index>
Side stepping(uint32_t count) {
  const auto ranges = std::make_shared<Population<Index>>(count);
  return {.batch = [ranges] { ranges->steps(kSteps); }, .operations = kSteps};
}

template <typename Index>
Side looking_up(uint32_t count) {
  const auto ranges = std::make_shared<Population<Index>>(count);
  return {.batch = [ranges] { ranges->lookups(kSteps); }, .operations = kSteps};
}

template <typename Index>
Side weighed(uint32_t count) {
  const Population<Index> ranges(count);
  return {.figure = ranges.bytes_each()};
}

Line map_line(uint32_t count) {
  Line line;
  line.what = "execute a map or an unmap anywhere, over what is there / std::map of ranges";
  if (count >= 100'000) {
    line.goal = Goal::kAtMost;
    line.target = 0.3;
  }
  line.ours = stepping<Ours>(count);
  line.reference = stepping<MapOfRanges>(count);
  return line;
}

Line lookup_line(uint32_t count) {
  Line line;
  line.what = "what is mapped at an address / std::map of ranges";
  if (count >= 100'000) {
    line.goal = Goal::kAtMost;
    line.target = 0.12;
  }
  line.ours = looking_up<Ours>(count);
  line.reference = looking_up<MapOfRanges>(count);
  return line;
}

Line growth_line() {
  Line line;
  line.what = "execute a map or an unmap: 1e6 live ranges / 1e5 live ranges";
  line.goal = Goal::kAtMost;
  line.target = 2.2;
  line.ours = stepping<Ours>(1'000'000);
  line.reference = stepping<Ours>(100'000);
  return line;
}

Line bytes_line(uint32_t count) {
  Line line;
  line.what = "heap bytes per live range, the mappings of each allocation listed / std::map";
  line.unit = Unit::kBytes;
  line.goal = Goal::kOursAtMost;
  line.target = 48;
  line.ours = weighed<Ours>(count);
  line.reference = weighed<MapOfRanges>(count);
  return line;
}

// --- whole calls.

/// Addresses chosen, mapped and freed, each range by a call of its own.
class Calls {
 public:
  explicit Calls(uint32_t count) : space_({.end = kSpacePages * kPage, .first = 512 * kPage}) {
    live_.resize(count);
    const double before = heap_bytes();
    for (PageSpan& span : live_) span = obtain();
    steps(count);
    bytes_each_ = (heap_bytes() + static_cast<double>(space_.outside_heap()) - before) / count;
  }
  void steps(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      PageSpan& victim = live_[random_.below(live_.size())];
      changed_.clear();
      const Status freed =
          space_.free(victim.address(), victim.size_bytes(), ++sequence_, &changed_);
      DXGKIT_CHECK(freed == Status::kSuccess);
      victim = obtain();
    }
  }
  double bytes_each() const { return bytes_each_; }

 private:
  PageSpan obtain() {
    const uint64_t allocation = 1 + random_.below(live_.size());
    const auto operation = space_.claim({.allocation = AllocationId{allocation << 22 | allocation},
                                         .size_pages = 1 + random_.below(64),
                                         .allocation_pages = 64},
                                        ++sequence_);
    changed_.clear();
    space_.apply(*operation, &changed_);
    return operation->mapping.span;
  }
  Chance random_{7};
  gpuva::AddressSpace space_;
  std::vector<PageSpan> live_;
  gpuva::PageSpans changed_;
  uint64_t sequence_ = 0;
  double bytes_each_ = 0;
};

Line calls_line(uint32_t count, uint32_t fewer) {
  Line line;
  line.what = "free a range; choose addresses for another and map it: 1e6 ranges / 1e5 ranges";
  const auto make = [](uint32_t ranges) -> Side {
    const auto calls = std::make_shared<Calls>(ranges);
    return {.batch = [calls] { calls->steps(kSteps); }, .operations = kSteps};
  };
  line.goal = Goal::kAtMost;
  line.target = 2.2;
  line.ours = make(count);
  line.reference = make(fewer);
  return line;
}

Line calls_bytes_line(uint32_t count) {
  Line line;
  line.what = "heap bytes per range claimed by a call of its own, one allocation each";
  line.unit = Unit::kBytes;
  line.ours = Side{.figure = Calls(count).bytes_each()};
  return line;
}

// --- entries.

constexpr uint64_t kLeafPages = 512;
constexpr uint64_t kTables = 16'384;  // 128 MiB of entries: more than caches hold

/// Leaf tables in memory, and everything from an executed map to the entries in them.
class Tables : public gpuva::PieceSource {
 public:
  Tables()
      : space_({.end = kSpacePages * kPage, .first = kLeafPages * kPage}),
        tables_(geometry()),
        memory_(kTables * kLeafPages) {
    const auto reserved =
        space_.reserve({.base = base(0), .size = kTables * kLeafPages * kPage}, 1);
    DXGKIT_CHECK(reserved.has_value());
    map({base(0) / kPage, kTables * kLeafPages});
  }
  /// Maps something else over a range, down to the entries.
  void map(PageSpan span) {
    const uint64_t allocation = 1 + random_.below(kTables / 16);
    place_ = random_.below(1'000'000);
    changed_.clear();
    space_.apply({.mapping = {.span = span,
                              .allocation = AllocationId{allocation << 22 | allocation},
                              .offset_pages = place_,
                              .protection = {.write = true}},
                  .sequence = 2},
                 &changed_);
    gpuva::PageTables::Draft draft = tables_.draft(changed_, *this);
    std::vector<gpuva::TableGrant> grants;
    for (const gpuva::TableNeed& need : draft.needs()) {
      // Leaves are numbered by where they are.
      const uint64_t leaf = need.span.first_page / kLeafPages;
      grants.push_back({gpuva::TableId{need.level == 0 ? leaf : 1'000'000 + ++directories_}});
    }
    plan_.clear();
    tables_.commit(std::move(draft), grants, &plan_);
    for (const gpuva::Step& step : plan_.steps) {
      if (step.kind != gpuva::Step::Kind::kWriteEntries) continue;
      gpuva::Pte* const entries =
          memory_.data() + (step.table.value - 1) * kLeafPages + step.start_index;
      gpuva::fill_step(step, 0, {entries, step.count}, kLeafPages);
    }
  }
  void fill_plainly(PageSpan span) {
    const uint64_t place = random_.below(1'000'000);
    gpuva::Pte* const entries = memory_.data() + (span.first_page - base(0) / kPage);
    for (uint64_t i = 0; i < span.pages; ++i) entries[i] = {gpuva::kPteValid, place + i};
    keep(entries);
  }
  PageSpan some(uint64_t pages) {
    return {base(0) / kPage + random_.below(kTables * kLeafPages - pages), pages};
  }
  void pieces_in(PageSpan window, std::vector<gpuva::Piece>* pieces) const override {
    space_.for_each_in(window, [&](const Mapping& mapping) {
      pieces->push_back({.span = mapping.span,
                         .source = {.kind = gpuva::PteSource::Kind::kRun,
                                    .segment = SegmentId{1},
                                    .first_page = mapping.offset_pages},
                         .driver_protection = mapping.driver_protection,
                         .allocation = mapping.allocation,
                         .offset_pages = mapping.offset_pages});
    });
  }

 private:
  static gpuva::Geometry geometry() {
    gpuva::Geometry geometry;
    geometry.level_count = 4;
    geometry.va_bits = 48;
    for (uint32_t level = 0; level < 4; ++level)
      geometry.levels[level] = {.index_bits = 9, .table_bytes = 4096, .alignment_bytes = 4096};
    return geometry;
  }
  static uint64_t base(uint64_t leaf) { return (1 + leaf) * kLeafPages * kPage; }

  Chance random_{9};
  gpuva::AddressSpace space_;
  gpuva::PageTables tables_;
  std::vector<gpuva::Pte> memory_;
  gpuva::PageSpans changed_;
  gpuva::Plan plan_;
  uint64_t place_ = 0;
  uint64_t directories_ = 0;
};

Line fill_line(uint64_t bytes) {
  Line line;
  line.what = "entries of a range mapped over others, from the mapping on / a plain fill loop";
  line.unit = Unit::kGigabytesPerSecond;
  line.goal = Goal::kAtLeast;
  line.target = 0.5;
  const uint64_t pages = bytes / kPage;
  const uint64_t times = std::max<uint64_t>(1, 4096 / pages);
  const auto tables = std::make_shared<Tables>();
  const auto operations = static_cast<double>(times * pages * sizeof(gpuva::Pte));
  line.ours = {.batch =
                   [=] {
                     for (uint64_t i = 0; i < times; ++i) tables->map(tables->some(pages));
                   },
               .operations = operations};
  line.reference = Side{.batch =
                            [=] {
                              for (uint64_t i = 0; i < times; ++i)
                                tables->fill_plainly(tables->some(pages));
                            },
                        .operations = operations};
  return line;
}

}  // namespace

void add_va_lines(std::vector<Maker>& lines) {
  const auto add = [&](const char* name, std::function<Line()> make) {
    lines.push_back({name, std::move(make)});
  };
  add("va.map_unmap_1e3", [] { return map_line(1'000); });
  add("va.map_unmap_1e4", [] { return map_line(10'000); });
  add("va.map_unmap_1e5", [] { return map_line(100'000); });
  add("va.map_unmap_1e6", [] { return map_line(1'000'000); });
  add("va.growth_1e6", [] { return growth_line(); });
  add("va.lookup_1e3", [] { return lookup_line(1'000); });
  add("va.lookup_1e5", [] { return lookup_line(100'000); });
  add("va.lookup_1e6", [] { return lookup_line(1'000'000); });
  add("va.bytes_1e5", [] { return bytes_line(100'000); });
  add("va.bytes_1e6", [] { return bytes_line(1'000'000); });
  add("va.call_growth_1e6", [] { return calls_line(1'000'000, 100'000); });
  add("va.call_bytes_1e6", [] { return calls_bytes_line(1'000'000); });
  add("va.pte_fill_2mib", [] { return fill_line(uint64_t{2} << 20); });
  add("va.pte_fill_64mib", [] { return fill_line(uint64_t{64} << 20); });
}

}  // namespace dxgkit::bench
