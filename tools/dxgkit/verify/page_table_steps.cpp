// Page tables, judged by what the engine does with them: at the ends of tables and of the space,
// single pages that lead elsewhere, zeros, copies of entries, rights that are not given.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/arithmetic.h"
#include "base/spelling.h"
#include "tools/dxgkit/verify/tenant.h"

namespace dxgkit::tool::verify {
namespace {

/// Below this the kernel finds room for what a step places nowhere.
constexpr uint64_t kLowPages = 8192;
constexpr size_t kTablePlaces = 3;  // that straddle two leaf tables
constexpr size_t kPatterns = 4;     // of pages that are exchanged
constexpr size_t kHeirs = 4;
constexpr size_t kPlans = 16;  // to choose the largest job from

/// What a step has done, and the first thing that was wrong.
struct Tally {
  size_t places = 0, exchanged = 0, zeros = 0, copies = 0, faults = 0, jobs = 0;
  std::string wrong;
  /// Notes the outcome of a run. False: it was wrong.
  bool right(const std::string& said, const std::string& where) {
    ++jobs;
    if (said.empty()) return true;
    if (wrong.empty()) wrong = fmt::format("{}, {}", said, where);
    return false;
  }
};

// A run whose job must come out right; ends the function if it does not.
#define DXGKIT_VERIFY_RUN(tenant, tally, where)                    \
  do {                                                             \
    const Answer<std::string> verify_said = (tenant).run();        \
    if (!verify_said) return std::unexpected(verify_said.error()); \
    if (!(tally).right(*verify_said, where)) return {};            \
  } while (false)

/// First pages for `pages` pages, ascending, so that a root that grows does so again and again:
/// across the end of a table of each level, and at the end of the space.
std::vector<uint64_t> places(Bench& bench, uint64_t pages) {
  const uint64_t space = bench.exercise().gpu_va_pages();
  std::vector<uint64_t> ends;  // of tables
  const std::vector<uint64_t> tables = bench.exercise().gpu_va_facts().table_pages;
  for (size_t level = 0; level < tables.size(); ++level) {
    for (size_t i = 0; i < (level == 0 ? kTablePlaces : 1); ++i) {
      const uint64_t count = space / tables[level];
      if (count >= 2) ends.push_back((1 + bench.random() % (count - 1)) * tables[level]);
    }
  }
  std::ranges::sort(ends);
  std::vector<uint64_t> firsts;
  for (const uint64_t end : ends) {
    const uint64_t before = align_up(pages / 2, 16);
    if (end >= kLowPages + before && end - before + pages <= space) firsts.push_back(end - before);
  }
  firsts.push_back(align_down(space - pages, 16));
  return firsts;
}

Answer<void> run_places(Bench& bench, Tenant& tenant, Tally& tally) {
  for (const uint64_t first : places(bench, tenant.pages())) {
    DXGKIT_VERIFY_TRY(tenant.settle(first));
    DXGKIT_VERIFY_RUN(tenant, tally, fmt::format("at addresses from {:#x}", first * kPageBytes));
    ++tally.places;
    DXGKIT_VERIFY_TRY(tenant.leave());
  }
  return {};
}

/// Which pages of an allocation of `pages` pages lead elsewhere, so many at a time.
std::vector<bool> pattern(Bench& bench, size_t which, uint64_t pages, uint64_t at_a_time = 1) {
  if (at_a_time != 1) {
    const uint64_t groups = align_up(pages, at_a_time) / at_a_time;
    const std::vector<bool> chosen = pattern(bench, which, groups);
    std::vector<bool> all(pages);
    for (uint64_t page = 0; page < pages; ++page) all[page] = chosen[page / at_a_time];
    return all;
  }
  std::vector<bool> chosen(pages);
  for (uint64_t page = 0; page < pages; ++page) {
    switch (which) {
      case 0:  // one in the middle
        chosen[page] = page == pages / 2;
        break;
      case 1:  // all but the first and the last
        chosen[page] = page != 0 && page + 1 != pages;
        break;
      case 2:  // any
        chosen[page] = bench.random() % 3 == 0;
        break;
      default:  // the first and the last
        chosen[page] = page == 0 || page + 1 == pages;
        break;
    }
  }
  return chosen;
}

/// Runs of pages that are chosen.
std::vector<PagePiece> pieces_of(size_t allocation, const std::vector<bool>& chosen) {
  std::vector<PagePiece> pieces;
  for (uint64_t page = 0; page < chosen.size(); ++page) {
    if (!chosen[page]) continue;
    if (page != 0 && chosen[page - 1])
      ++pieces.back().pages;
    else
      pieces.push_back({allocation, page, 1});
  }
  return pieces;
}

/// Brings the chosen pages of `from` to `to`. The old bytes of either must be spoilt still: nobody
/// was to write there. Returns what was wrong, or empty.
std::string gather(std::span<std::byte> to, std::span<std::byte> from,
                   const std::vector<bool>& chosen) {
  for (uint64_t page = 0; page < chosen.size(); ++page) {
    const uint64_t begin = page * kPageBytes;
    const uint64_t bytes = std::min<uint64_t>(kPageBytes, to.size() - begin);
    const std::span<std::byte> own = to.subspan(begin, bytes);
    const std::span<std::byte> other = from.subspan(begin, bytes);
    const std::span<std::byte> untouched = chosen[page] ? own : other;
    if (!std::ranges::all_of(untouched, [](std::byte byte) { return byte == Job::kSpoilt; })) {
      return chosen[page] ? fmt::format("page {} was written where its address led before", page)
                          : fmt::format("page {} was written where its address never led", page);
    }
    if (chosen[page]) std::ranges::copy(other, own.begin());
  }
  return {};
}

/// Some pages of the job's lead to those of an equal job, so many at a time. A process with the
/// same addresses works between.
Answer<void> run_exchanged(Bench& bench, Tenant& tenant, Tenant& neighbour, uint64_t at_a_time,
                           Tally& tally) {
  Client& client = tenant.client();
  const Answer<std::unique_ptr<Job>> twin = tenant.another_job();
  if (!twin) return std::unexpected(twin.error());
  std::vector<D3DKMT_HANDLE> named;
  for (const ClientAllocation& one : (*twin)->allocations()) named.push_back(one.handle);
  DXGKIT_VERIFY_TRY(client.make_resident(tenant.memory_device(), named));
  const uint64_t space = bench.exercise().gpu_va_pages();
  const uint64_t span = space - kLowPages - tenant.pages();
  const uint64_t table = bench.exercise().gpu_va_facts().table_pages.front();
  const uint64_t first =
      align_down(kLowPages + bench.random() % span, std::max(table, Tenant::kGrainPages));
  DXGKIT_VERIFY_TRY(tenant.settle(first));
  DXGKIT_VERIFY_TRY(neighbour.settle(first));
  DXGKIT_VERIFY_RUN(tenant, tally, "at addresses that another process has as well");
  for (size_t which = 0; which < kPatterns; ++which) {
    DXGKIT_VERIFY_RUN(neighbour, tally, "beside a process with the same addresses");
    std::vector<std::vector<bool>> chosen;
    for (size_t i = 0; i < (*twin)->allocations().size(); ++i) {
      chosen.push_back(pattern(bench, which, tenant.pages_of(i), at_a_time));
      // What is in memory that the GPU reads and writes is different in the two.
      constexpr uint32_t kBoth = DXGKIT_CLIENT_CPU_WRITES | DXGKIT_CLIENT_GPU_WRITES;
      if (((*twin)->usage(i) & kBoth) == kBoth) chosen.back().assign(chosen.back().size(), false);
      for (const PagePiece& piece : pieces_of(i, chosen.back())) {
        MapWish wish;
        wish.allocation = named[i];
        DXGKIT_VERIFY_TRY(tenant.map(piece, wish));
        ++tally.exchanged;
      }
    }
    DXGKIT_VERIFY_TRY((*twin)->spoil());
    const Answer<std::string> said = tenant.run_unchecked();
    if (!said) return std::unexpected(said.error());
    std::string wrong = *said;
    for (size_t i = 0; i < chosen.size() && wrong.empty(); ++i) {
      if (!tenant.job().is_result(i)) continue;
      const D3DKMT_HANDLE own = tenant.job().allocations()[i].handle;
      const uint64_t bytes = tenant.job().allocations()[i].size_bytes;
      const Answer<std::byte*> to = client.lock(tenant.memory_device(), own);
      if (!to) return std::unexpected(to.error());
      const Answer<std::byte*> from = client.lock(tenant.memory_device(), named[i]);
      if (!from) return std::unexpected(from.error());
      wrong = gather({*to, bytes}, {*from, bytes}, chosen[i]);
      DXGKIT_VERIFY_TRY(client.unlock(tenant.memory_device(), named[i]));
      DXGKIT_VERIFY_TRY(client.unlock(tenant.memory_device(), own));
      if (!wrong.empty()) wrong = fmt::format("allocation {}: {}", i, wrong);
    }
    if (wrong.empty()) {
      if (const Answer<void> good = tenant.job().check(); !good) wrong = good.error();
    }
    if (!tally.right(wrong, "after some of its addresses had been led to other memory")) return {};
    DXGKIT_VERIFY_TRY(tenant.map_all());
    DXGKIT_VERIFY_RUN(tenant, tally, "after all its addresses had been led back");
  }
  DXGKIT_VERIFY_TRY(client.evict(tenant.memory_device(), named));
  DXGKIT_VERIFY_TRY(tenant.leave());
  return neighbour.leave();
}

/// Where all memory of a table allows it, pages are larger: exchanged as a whole, and then in
/// parts.
Answer<void> run_large(Bench& bench, uint32_t node, Tally& tally) {
  const uint64_t grain = bench.exercise().gpu_va_facts().table_pages.front();
  const uint64_t seed = bench.random();
  Tenant tenant(bench, "large pages", node);
  DXGKIT_VERIFY_TRY(tenant.open(seed, grain));
  Tenant neighbour(bench, "the same large pages", node);
  DXGKIT_VERIFY_TRY(neighbour.open(seed, grain));
  if (3 * kLowPages + tenant.pages() > bench.exercise().gpu_va_pages()) return {};
  for (const uint64_t at_a_time : {Tenant::kGrainPages, uint64_t{1}}) {
    DXGKIT_VERIFY_TRY(run_exchanged(bench, tenant, neighbour, at_a_time, tally));
    if (!tally.wrong.empty()) return {};
  }
  return {};
}

/// One process after the other has the same addresses. A root may lie where an earlier one did,
/// and what the engines remember of that one does not count.
Answer<void> run_heirs(Bench& bench, uint32_t node, Tally& tally) {
  for (size_t heir = 0; heir < kHeirs; ++heir) {
    Tenant tenant(bench, fmt::format("heir {}", heir), node);
    DXGKIT_VERIFY_TRY(tenant.open(bench.random()));
    DXGKIT_VERIFY_TRY(tenant.settle(2 * kLowPages));
    DXGKIT_VERIFY_RUN(tenant, tally, "at addresses of a process that has ended");
  }
  return {};
}

using Results = std::vector<std::vector<std::byte>>;

Answer<Results> results_of(Tenant& tenant) {
  Results results;
  for (size_t i = 0; i < tenant.job().allocations().size(); ++i) {
    if (!tenant.job().is_result(i)) continue;
    const ClientAllocation& one = tenant.job().allocations()[i];
    const Answer<std::byte*> view = tenant.client().lock(tenant.memory_device(), one.handle);
    if (!view) return std::unexpected(view.error());
    results.emplace_back(*view, *view + one.size_bytes);
    DXGKIT_VERIFY_TRY(tenant.client().unlock(tenant.memory_device(), one.handle));
  }
  return results;
}

bool is_input(const Job& job, size_t allocation) {
  return (job.usage(allocation) & DXGKIT_CLIENT_CPU_WRITES) != 0 &&
         (job.usage(allocation) & DXGKIT_CLIENT_GPU_WRITES) == 0;
}

/// Writes zeros over pages of what the job reads.
Answer<void> clear(Tenant& tenant, std::span<const PagePiece> pieces) {
  for (const PagePiece& piece : pieces) {
    const ClientAllocation& one = tenant.job().allocations()[piece.allocation];
    const Answer<std::byte*> view = tenant.client().lock(tenant.memory_device(), one.handle);
    if (!view) return std::unexpected(view.error());
    const uint64_t begin = piece.first * kPageBytes;
    const uint64_t end = std::min(one.size_bytes, begin + piece.pages * kPageBytes);
    std::memset(*view + begin, 0, end - begin);
    DXGKIT_VERIFY_TRY(tenant.client().unlock(tenant.memory_device(), one.handle));
  }
  return {};
}

/// Pages that are mapped as zeros are read as memory is that holds zeros. Results are not checked
/// but compared: nobody knows what they are then.
Answer<void> run_zeros(Bench& bench, uint32_t node, Tally& tally) {
  Tenant tenant(bench, "zeros", node);
  DXGKIT_VERIFY_TRY(tenant.open(bench.random()));
  DXGKIT_VERIFY_TRY(tenant.settle(0));
  Job& job = tenant.job();
  for (const size_t which : {2U, 1U}) {  // patterns
    std::vector<PagePiece> pieces;
    for (size_t i = 0; i < job.allocations().size(); ++i) {
      if (!is_input(job, i)) continue;
      const std::vector<PagePiece> some = pieces_of(i, pattern(bench, which, tenant.pages_of(i)));
      pieces.insert(pieces.end(), some.begin(), some.end());
    }
    if (pieces.empty()) continue;
    DXGKIT_VERIFY_TRY(clear(tenant, pieces));
    Answer<std::string> said = tenant.run_unchecked();
    if (!said) return std::unexpected(said.error());
    if (!said->empty()) return {};  // the job cannot do with zeros
    ++tally.jobs;
    const Answer<Results> expected = results_of(tenant);
    if (!expected) return std::unexpected(expected.error());
    DXGKIT_VERIFY_TRY(job.fill());
    for (const PagePiece& piece : pieces) DXGKIT_VERIFY_TRY(tenant.map(piece, MapWish{}));
    said = tenant.run_unchecked();
    if (!said) return std::unexpected(said.error());
    const Answer<Results> got = results_of(tenant);
    if (!got) return std::unexpected(got.error());
    std::string wrong = *said;
    if (wrong.empty() && *got != *expected)
      wrong = fmt::format("{} mapped as zeros are read as something else",
                          counted(pieces.size(), "piece"));
    if (!tally.right(wrong, "with pages that are mapped as zeros")) return {};
    tally.zeros += pieces.size();
    DXGKIT_VERIFY_TRY(tenant.map_all());
    DXGKIT_VERIFY_RUN(tenant, tally, "after pages of zeros had memory again");
  }
  return {};
}

using Operation = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION;

/// Of a few, the seed with the most memory: more than one leaf table maps, if jobs can be so large.
Answer<uint64_t> large_seed(Bench& bench, uint32_t node) {
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return std::unexpected(code.error());
  uint64_t best = 0, most = 0;
  for (size_t i = 0; i < kPlans; ++i) {
    const uint64_t seed = bench.random();
    const auto wanted = (*code)->plan(seed, node);
    if (!wanted) return std::unexpected(wanted.error());
    uint64_t bytes = 0;
    for (const DxgkitClientAllocation& one : *wanted) bytes += one.size_bytes;
    if (bytes <= most) continue;
    most = bytes;
    best = seed;
  }
  return best;
}

/// One batch maps the allocations, copies the mappings in a few parts to where the job finds them,
/// and takes the first ones away. The kernel has the entries copied from tables of its own, where
/// an allocation of so much memory lies across the end of a table.
Answer<void> run_copied(Bench& bench, uint32_t node, Tally& tally) {
  const Answer<uint64_t> seed = large_seed(bench, node);
  if (!seed) return std::unexpected(seed.error());
  Tenant tenant(bench, "copied mappings", node, Tenant::Memory::kOneDevice);
  DXGKIT_VERIFY_TRY(tenant.open(*seed));
  Client& client = tenant.client();
  const D3DKMT_HANDLE device = tenant.memory_device();
  const uint64_t bytes = tenant.pages() * kPageBytes;
  const Answer<uint64_t> base = client.reserve(device, 2 * bytes);
  if (!base) return std::unexpected(base.error());
  const Answer<D3DKMT_HANDLE> fence = client.create_fence(device);
  if (!fence) return std::unexpected(fence.error());
  std::vector<D3DKMT_HANDLE> named;
  for (const ClientAllocation& one : tenant.job().allocations()) named.push_back(one.handle);
  DXGKIT_VERIFY_TRY(client.make_resident(device, named));
  std::vector<Operation> operations;
  std::vector<uint64_t> found;
  uint64_t offset = 0;
  for (size_t i = 0; i < named.size(); ++i) {
    Operation map{};
    map.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP;
    map.Map.BaseAddress = *base + offset;
    map.Map.SizeInBytes = tenant.pages_of(i) * kPageBytes;
    map.Map.hAllocation = named[i];
    operations.push_back(map);
    found.push_back(*base + bytes + offset);
    offset += align_up(tenant.pages_of(i), 16) * kPageBytes;
  }
  std::vector<uint64_t> cuts{0, 1 + bench.random() % (tenant.pages() - 2), tenant.pages()};
  cuts.insert(cuts.end() - 1, cuts[1] + bench.random() % (tenant.pages() - cuts[1]));
  for (const size_t part : bench.shuffled(3)) {
    if (cuts[part] == cuts[part + 1]) continue;
    Operation copy{};
    copy.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY;
    copy.Copy.SourceAddress = *base + cuts[part] * kPageBytes;
    copy.Copy.DestAddress = *base + bytes + cuts[part] * kPageBytes;
    copy.Copy.SizeInBytes = (cuts[part + 1] - cuts[part]) * kPageBytes;
    operations.push_back(copy);
    ++tally.copies;
  }
  Operation unmap{};
  unmap.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP;
  unmap.Unmap.BaseAddress = *base;
  unmap.Unmap.SizeInBytes = bytes;
  unmap.Unmap.Protection.NoAccess = 1;
  operations.push_back(unmap);
  DXGKIT_VERIFY_TRY(client.update(device, tenant.context().handle, *fence, 0, operations));
  DXGKIT_VERIFY_TRY(client.wait_fence(device, *fence, 1));
  tenant.job().assume_addresses(found);
  DXGKIT_VERIFY_RUN(tenant, tally, "by addresses whose mappings were copied");
  tenant.job().forget_addresses();
  DXGKIT_VERIFY_TRY(client.evict(device, named));
  return client.free_addresses(*base, 2 * bytes);
}

Answer<void> page_tables_of(Bench& bench, uint32_t node, Tally& tally) {
  const uint64_t seed = bench.random();
  Tenant tenant(bench, "page tables", node);
  DXGKIT_VERIFY_TRY(tenant.open(seed));
  if (2 * kLowPages + tenant.pages() > bench.exercise().gpu_va_pages()) return {};
  DXGKIT_VERIFY_TRY(run_places(bench, tenant, tally));
  if (!tally.wrong.empty()) return {};
  {
    Tenant neighbour(bench, "the same page tables", node);
    DXGKIT_VERIFY_TRY(neighbour.open(seed));
    DXGKIT_VERIFY_TRY(run_exchanged(bench, tenant, neighbour, 1, tally));
  }
  if (!tally.wrong.empty()) return {};
  DXGKIT_VERIFY_TRY(run_large(bench, node, tally));
  if (!tally.wrong.empty()) return {};
  DXGKIT_VERIFY_TRY(run_heirs(bench, node, tally));
  if (!tally.wrong.empty()) return {};
  if (bench.exercise().gpu_va_facts().zero) DXGKIT_VERIFY_TRY(run_zeros(bench, node, tally));
  if (!tally.wrong.empty()) return {};
  return run_copied(bench, node, tally);
}

Outcome page_tables(Bench& bench) {
  Tally tally;
  Answer<void> done;
  for (uint32_t node = 0; node < bench.node_count() && done && tally.wrong.empty(); ++node)
    done = page_tables_of(bench, node, tally);
  if (!tally.wrong.empty()) {
    report_result(bench, tally.wrong);
    return Outcome::failed(tally.wrong);
  }
  if (!done) return Outcome::failed(done.error());
  if (tally.jobs == 0) return Outcome::skipped("the address space has no room for two jobs");
  return Outcome::ok(fmt::format("{}: at {}, with {} that led elsewhere, {} of zeros, {} copied",
                                 counted(tally.jobs, "job"), counted(tally.places, "place"),
                                 counted(tally.exchanged, "piece"), tally.zeros, tally.copies));
}

/// Takes a right away, runs into the fault, and gives it back.
Answer<void> without(Tenant& tenant, std::span<const PagePiece> pieces, MapWish wish,
                     const std::string& what, Tally& tally) {
  const bool bare = wish.no_access;
  for (const PagePiece& piece : pieces) {
    if (!bare) wish.allocation = tenant.job().allocations()[piece.allocation].handle;
    DXGKIT_VERIFY_TRY(tenant.map(piece, wish));
  }
  DXGKIT_VERIFY_TRY(tenant.client().wait_paging(tenant.memory_device()));
  std::vector<AddressRange> places;
  for (const PagePiece& piece : pieces) places.push_back(tenant.range(piece));
  const uint32_t access = bare ? DXGKIT_CLIENT_FAULT_ANY : DXGKIT_CLIENT_FAULT_WRITE;
  const Answer<std::string> said = tenant.run_into_fault(access, places);
  if (!said) return std::unexpected(said.error());
  ++tally.faults;
  if (!tally.right(*said, what)) return {};
  DXGKIT_VERIFY_TRY(tenant.map_all());
  return {};
}

Answer<void> protections_of(Bench& bench, uint32_t node, Tally& tally) {
  const dxgk::Exercise::GpuVaFacts facts = bench.exercise().gpu_va_facts();
  Tenant tenant(bench, "protections", node);
  DXGKIT_VERIFY_TRY(tenant.open(bench.random()));
  DXGKIT_VERIFY_TRY(tenant.settle(0));
  DXGKIT_VERIFY_RUN(tenant, tally, "before any right was taken away");
  std::vector<PagePiece> inputs;
  std::vector<PagePiece> results;
  for (size_t i = 0; i < tenant.job().allocations().size(); ++i) {
    const PagePiece whole = tenant.whole(i);
    if (is_input(tenant.job(), i)) inputs.push_back(whole);
    if (tenant.job().is_result(i)) results.push_back(whole);
  }
  if (results.empty()) return {};
  MapWish read_only;
  read_only.read_only = true;
  // Whether or not the entries have the bit: what is only read may be mapped so.
  for (const PagePiece& piece : inputs) {
    read_only.allocation = tenant.job().allocations()[piece.allocation].handle;
    DXGKIT_VERIFY_TRY(tenant.map(piece, read_only));
  }
  DXGKIT_VERIFY_RUN(tenant, tally, "with what it reads mapped read-only");
  DXGKIT_VERIFY_TRY(tenant.map_all());
  if (facts.read_only) {
    DXGKIT_VERIFY_TRY(
        without(tenant, results, read_only, "with its results mapped read-only", tally));
    if (!tally.wrong.empty()) return {};
    DXGKIT_VERIFY_RUN(tenant, tally, "after its results were writable again");
  }
  MapWish no_access;
  no_access.no_access = true;
  DXGKIT_VERIFY_TRY(
      without(tenant, results, no_access, "with its results mapped without access", tally));
  if (!tally.wrong.empty()) return {};
  DXGKIT_VERIFY_RUN(tenant, tally, "after its results were mapped again");
  if (!facts.no_execute) return {};
  const ClientAllocation& commands = tenant.job().commands();
  MapWish data;
  data.allocation = commands.handle;
  data.pages = align_up(commands.size_bytes, kPageBytes) / kPageBytes;
  data.base = tenant.job().commands_address();
  if (const Answer<uint64_t> mapped = tenant.client().map(tenant.memory_device(), data); !mapped)
    return std::unexpected(mapped.error());
  DXGKIT_VERIFY_TRY(tenant.client().wait_paging(tenant.memory_device()));
  const AddressRange place{data.base, data.base + data.pages * kPageBytes};
  const Answer<std::string> said =
      tenant.run_into_fault(DXGKIT_CLIENT_FAULT_FETCH, std::span(&place, 1));
  if (!said) return std::unexpected(said.error());
  ++tally.faults;
  if (!tally.right(*said, "with commands mapped without the right to execute")) return {};
  data.execute = true;
  if (const Answer<uint64_t> mapped = tenant.client().map(tenant.memory_device(), data); !mapped)
    return std::unexpected(mapped.error());
  DXGKIT_VERIFY_TRY(tenant.client().wait_paging(tenant.memory_device()));
  DXGKIT_VERIFY_RUN(tenant, tally, "after its commands were executable again");
  return {};
}

Outcome protections(Bench& bench) {
  bench.expect_warnings("VA-28");
  Tally tally;
  Answer<void> done;
  for (uint32_t node = 0; node < bench.node_count() && done && tally.wrong.empty(); ++node)
    done = protections_of(bench, node, tally);
  if (!tally.wrong.empty()) {
    bench.findings().report(
        {.rule = "VA-47",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiBuildPagingBuffer",
         .actual = fmt::format("A job of the client plug-in: {}.", tally.wrong),
         .expected = "An engine reads what is mapped, writes what is not ReadOnly, and fetches "
                     "commands from what is not NoExecute, as the entries say and "
                     "DXGK_GPUMMUCAPS promises. Anything else is a page fault.",
         .fix = "Copy Valid, ReadOnly and NoExecute of each DXGK_PTE to the hardware's entry, in "
                "each update; flush what changed; or do not claim the right in DXGK_GPUMMUCAPS.",
         .why = "The same work ran before, with all rights.",
         .windows = "Memory that a process may only read is overwritten."});
    return Outcome::failed(tally.wrong);
  }
  if (!done) return Outcome::failed(done.error());
  if (tally.jobs == 0) return Outcome::skipped("the plug-in's jobs have no results");
  return Outcome::ok(fmt::format("{}, {} of them into faults and no further",
                                 counted(tally.jobs, "job"), tally.faults));
}

constexpr Step kSteps[] = {
    {"page-tables", "pages lead elsewhere one by one, to zeros, and at the ends of tables",
     Step::Needs::kVirtualClient, page_tables},
    {"protections", "work that has not the rights it needs", Step::Needs::kVirtualClient,
     protections},
};

}  // namespace

std::span<const Step> page_table_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
