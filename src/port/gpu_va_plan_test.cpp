// Plans of src/gpuva carried out through the door on a driver's MMU: what its tables then say, and
// what its engine then reads, is what was mapped. For every kind of MMU.
#include <cstring>
#include <map>
#include <random>

#include "gpuva/address_space.h"
#include "gpuva/page_tables.h"
#include "port/gpu_va_world_test.h"

namespace dxgkit::port {
namespace {

using gpuva::PageSpan;
using gpuva::Step;
using testing::GpuCommand;
using Kind = PagingOperation::Kind;

constexpr uint64_t kAllocationPages = 700;  // more than a leaf covers
constexpr uint32_t kAllocations = 4;

gpuva::Geometry geometry_of(const GpuMmuCaps& caps) {
  gpuva::Geometry geometry;
  geometry.level_count = caps.level_count;
  geometry.va_bits = caps.va_bits;
  for (size_t i = 0; i < caps.levels.size(); ++i) {
    geometry.levels[i] = {.index_bits = caps.levels[i].index_bits,
                          .segment = SegmentId{caps.levels[i].segment},
                          .paging_process_segment = kSystemMemory,
                          .table_bytes = caps.levels[i].table_bytes,
                          .alignment_bytes = caps.levels[i].table_alignment_bytes};
  }
  geometry.update_mode = caps.update_mode == PageTableUpdateMode::kCpuVirtual
                             ? gpuva::UpdateMode::kCpuVirtual
                             : gpuva::UpdateMode::kGpuPhysical;
  geometry.read_only = geometry.no_execute = geometry.zero = true;
  return geometry;
}

/// One process as a kernel would keep it.
class MappedProcess : public gpuva::PieceSource {
 public:
  explicit MappedProcess(GpuVaWorld& world)
      : world_(world),
        tables_(geometry_of(world.mmu)),
        space_(
            {.end = uint64_t{1} << world.mmu.va_bits, .first = tables_.geometry().leaf_bytes()}) {
    context_ = world.make_context(0x40, {});
    process_ = world.gpu.last_process();
    // Every page of memory says where it is.
    for (uint64_t page = 0; page < kAllocations * kAllocationPages; ++page) {
      const uint64_t offset = place_of(AllocationId{1}, 0) + page * kPageBytes;
      std::memcpy(world.gpu.memory({kHidden, offset}, 8), &offset, 8);
    }
    buffer_va_ = map({.allocation = AllocationId{1},
                      .size_pages = 1,
                      .allocation_pages = kAllocationPages,
                      .protection = {.write = true, .execute = true}});
  }
  ~MappedProcess() override {
    gpuva::Plan plan;
    tables_.destroy(&plan);
    execute(plan);
    EXPECT_TRUE(memory_.empty()) << "tables nobody freed";
  }

  static uint64_t place_of(AllocationId allocation, uint64_t page) {
    return (uint64_t{16} << 20) + ((allocation.value - 1) * kAllocationPages + page) * kPageBytes;
  }
  void pieces_in(PageSpan window, std::vector<gpuva::Piece>* pieces) const override {
    space_.for_each_in(window, [&](const gpuva::Mapping& mapping) {
      gpuva::Piece piece;
      piece.span = mapping.span;
      piece.driver_protection = mapping.driver_protection;
      piece.source.kind =
          mapping.protection.zero ? gpuva::PteSource::Kind::kZero : gpuva::PteSource::Kind::kRun;
      if (mapping.protection.no_access) piece.source.kind = gpuva::PteSource::Kind::kInvalid;
      if (piece.source.kind == gpuva::PteSource::Kind::kRun) {
        piece.source.segment = kHidden;
        piece.source.first_page =
            place_of(mapping.allocation, mapping.allocation_page(0)) / kPageBytes;
        piece.source.read_only = !mapping.protection.write;
        piece.source.no_execute = !mapping.protection.execute;
      }
      pieces->push_back(piece);
    });
  }

  /// The address; 0: refused.
  uint64_t map(const gpuva::MapRequest& request) {
    const Result<gpuva::MapOperation> claimed = space_.claim(request, ++sequence_);
    if (!claimed.has_value()) return 0;
    gpuva::PageSpans changed;
    space_.apply(*claimed, &changed);
    update(changed);
    return claimed->mapping.span.address();
  }
  bool free(uint64_t base, uint64_t size) {
    gpuva::PageSpans changed;
    if (!is_success(space_.free(base, size, ++sequence_, &changed))) return false;
    update(changed);
    return true;
  }

  /// The driver's tables say exactly what is mapped.
  void check() {
    const testing::GpuTables all = world_.gpu.tables_of(process_);
    size_t expected = 0;
    space_.for_each_in({0, space_.end() / kPageBytes}, [&](const gpuva::Mapping& mapping) {
      if (mapping.protection.no_access) return;
      for (uint64_t i = 0; i < mapping.span.pages; ++i) {
        const auto page = all.pages.find(mapping.span.address() + i * kPageBytes);
        ASSERT_NE(page, all.pages.end()) << std::hex << mapping.span.address() + i * kPageBytes;
        ++expected;
        ASSERT_EQ(page->second.zero, mapping.protection.zero);
        ASSERT_EQ(page->second.driver_protection, mapping.driver_protection);
        if (mapping.protection.zero) continue;
        ASSERT_EQ(page->second.place,
                  (GpuPhysicalAddress{kHidden,
                                      place_of(mapping.allocation, mapping.allocation_page(i))}));
        ASSERT_EQ(page->second.writable, mapping.protection.write);
        ASSERT_EQ(page->second.executable, mapping.protection.execute);
      }
    });
    EXPECT_EQ(all.pages.size(), expected) << "and nothing else translates";
    size_t tables = 0;
    for (const auto& [level, list] : all.tables) tables += list.size();
    EXPECT_EQ(tables, tables_.table_count());
    EXPECT_EQ(memory_.size(), tables_.table_count());
  }
  /// The engine's translation of an address, with its cached entries.
  std::optional<uint64_t> engine_reads(uint64_t va) {
    const std::vector<std::byte> bytes = testing::gpu_commands({GpuCommand::read(va)});
    EXPECT_TRUE(world_.gpu.write(process_, buffer_va_ + 64, bytes));
    const size_t before = world_.gpu.reads().size();
    world_.submit_user(context_, buffer_va_ + 64, static_cast<uint32_t>(bytes.size()));
    const auto reads = world_.gpu.reads();
    return reads.size() == before ? std::nullopt : std::optional(reads.back().value);
  }
  const gpuva::AddressSpace& space() const { return space_; }
  uint64_t buffer_va() const { return buffer_va_; }

 private:
  struct Memory {
    GpuPhysicalAddress address;
    uint64_t bytes = 0;
  };

  void update(const gpuva::PageSpans& changed) {
    gpuva::PageTables::Draft draft = tables_.draft(changed, *this);
    std::vector<gpuva::TableGrant> grants;
    for (const gpuva::TableNeed& need : draft.needs()) grants.push_back(grant(need));
    gpuva::Plan plan;
    tables_.commit(std::move(draft), grants, &plan);
    execute(plan);
  }

  gpuva::TableGrant grant(const gpuva::TableNeed& need) {
    uint64_t bytes = need.bytes;
    uint64_t entries = need.entries;
    if (need.grows_root) {
      bytes = *world_.port().gpu_va().get_root_page_table_size(static_cast<uint32_t>(need.entries));
      entries = bytes / sizeof(testing::TableEntry);
    }
    const gpuva::TableId id{++next_table_};
    Memory memory;
    memory.bytes = bytes;
    memory.address.segment = tables_.geometry().levels[need.level].segment;
    if (memory.address.segment == kSystemMemory) {
      const auto pages = world_.world.machine.allocate_contiguous(bytes / kPageBytes);
      EXPECT_TRUE(pages.has_value());
      memory.address.offset = pages->value * kPageBytes;
    } else {
      memory.address.offset = table_bytes_;
      table_bytes_ += bytes;
    }
    std::memset(world_.gpu.memory(memory.address, bytes), 0xFF, bytes);  // every entry "valid"
    memory_[id.value] = memory;
    return {id, entries};
  }

  void execute(const gpuva::Plan& plan) {
    for (const Step& step : plan.steps) {
      PagingOperation operation;
      operation.kind = Kind::kUpdatePageTable;
      std::vector<gpuva::Pte> entries;
      switch (step.kind) {
        case Step::Kind::kInvalidate:
        case Step::Kind::kWriteEntries:
          entries.resize(step.repeat ? 1 : step.count);
          gpuva::fill_step(step, 0, entries, tables_.geometry().leaf_pages());
          break;
        case Step::Kind::kWriteDirectory:
          for (uint64_t i = 0; i < step.count; ++i) {
            const gpuva::TableId child = plan.children[step.first_child + i].table;
            if (child == gpuva::kNoTable) {
              entries.emplace_back();
              continue;
            }
            const GpuPhysicalAddress& at = memory_.at(child.value).address;
            entries.push_back(gpuva::directory_pte(at.segment, at.offset / kPageBytes, false));
          }
          break;
        case Step::Kind::kSetRoot: {
          const GpuPhysicalAddress root = step.table == gpuva::kNoTable
                                              ? GpuPhysicalAddress{}
                                              : memory_.at(step.table.value).address;
          EXPECT_EQ(world_.port().gpu_va().set_root_page_table(
                        context_, {root, static_cast<uint32_t>(step.count)}),
                    Status::kSuccess);
          continue;
        }
        case Step::Kind::kFlush: {
          const std::optional<RootPageTable> root = world_.gpu.root_of(process_);
          operation.kind = Kind::kFlushTlb;
          operation.flush = {.root = root->address,
                             .process = process_,
                             .start = step.span.address(),
                             .end = step.span.end_address()};
          world_.run(operation);
          continue;
        }
        case Step::Kind::kFree: {
          const Memory memory = memory_.at(step.table.value);
          std::memset(world_.gpu.memory(memory.address, memory.bytes), 0xFF, memory.bytes);
          if (memory.address.segment == kSystemMemory) {
            world_.world.machine.free_contiguous(bus::PageFrame{memory.address.offset / kPageBytes},
                                                 memory.bytes / kPageBytes);
          }
          memory_.erase(step.table.value);
          continue;
        }
      }
      PageTableUpdate& update = operation.page_table;
      const Memory& memory = memory_.at(step.table.value);
      update.level = step.level;
      update.mode = world_.mmu.update_mode;
      update.table_physical = memory.address;
      update.table_cpu = world_.gpu.memory(memory.address, memory.bytes);
      update.entries = entries.data();
      update.start_index = static_cast<uint32_t>(step.start_index);
      update.count = static_cast<uint32_t>(step.count);
      update.repeat = step.repeat;
      update.initial_update = step.initial;
      update.driver_protection = step.driver_protection;
      update.process = process_;
      update.first_va = step.span.address();
      if (update.mode == PageTableUpdateMode::kCpuVirtual) {
        EXPECT_EQ(world_.build(operation, 0).status, Status::kSuccess);
      } else {
        world_.run(operation);
      }
    }
  }

  GpuVaWorld& world_;
  gpuva::PageTables tables_;
  gpuva::AddressSpace space_;
  void* context_ = nullptr;
  void* process_ = nullptr;
  std::map<uint64_t, Memory> memory_;  // by table
  uint64_t next_table_ = 0, table_bytes_ = uint64_t{64} << 20, sequence_ = 0, buffer_va_ = 0;
};

/// Maps and frees at random; after each call tables and engine are compared with what is mapped.
void run_at_random(GpuVaWorld& world, uint32_t seed, int calls) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  MappedProcess process(world);
  ASSERT_NE(process.buffer_va(), 0U);
  std::vector<std::pair<uint64_t, uint64_t>> mine;  // base, bytes
  size_t read_something = 0;
  for (int call = 0; call < calls; ++call) {
    SCOPED_TRACE(call);
    const uint64_t choice = below(10);
    if (choice < 7 || mine.empty()) {
      gpuva::MapRequest request;
      request.allocation = AllocationId{1 + below(kAllocations)};
      request.allocation_pages = kAllocationPages;
      request.offset_pages = below(kAllocationPages);
      request.size_pages = 1 + below(kAllocationPages - request.offset_pages);
      request.protection = {.write = below(4) != 0, .execute = below(2) != 0};
      request.driver_protection = below(3);
      if (choice == 0) {
        request.allocation = gpuva::kNoAllocation;
        request.offset_pages = request.allocation_pages = 0;
        request.protection = {.zero = true};
      } else if (choice < 4 && !mine.empty()) {  // over a part of an older one
        const auto& [base, bytes] = mine[below(mine.size())];
        const uint64_t first = below(bytes / kPageBytes);
        request.base = base + first * kPageBytes;
        request.size_pages = std::min(request.size_pages, bytes / kPageBytes - first);
      } else if (choice == 4) {  // far away: other tables, a larger root
        request.minimum = below((uint64_t{1} << world.mmu.va_bits) / (4 << 20)) * (4 << 20);
      }
      const uint64_t base = process.map(request);
      if (base != 0 && request.base == 0) mine.emplace_back(base, request.size_pages * kPageBytes);
    } else {
      const size_t which = below(mine.size());
      EXPECT_TRUE(process.free(mine[which].first, mine[which].second));
      mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(which));
    }
    process.check();
    if (mine.empty()) continue;
    // Anywhere in what was mapped at some time: old translations would show.
    const auto& [base, bytes] = mine[below(mine.size())];
    const uint64_t va = base + below(bytes / kPageBytes) * kPageBytes;
    const std::optional<gpuva::Mapping> mapping = process.space().lookup(va);
    ASSERT_TRUE(mapping.has_value());
    const uint64_t page = va / kPageBytes - mapping->span.first_page;
    const uint64_t expected =
        mapping->protection.zero
            ? 0
            : MappedProcess::place_of(mapping->allocation, mapping->allocation_page(page));
    EXPECT_EQ(process.engine_reads(va), expected);
    ++read_something;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(read_something, static_cast<size_t>(calls) / 2);
  EXPECT_TRUE(world.world.findings.all().empty()) << world.world.findings_text();
}

TEST(GpuVaPlan, TheProcessorWritesTwoLevels) {
  DXGKIT_COVERS("VA-04", "VA-30");
  in_world(GpuVaConfig::cpu_virtual_two_level(),
           [](GpuVaWorld& world) { run_at_random(world, 1, 150); });
}

TEST(GpuVaPlan, TheEngineWritesFourLevels) {
  DXGKIT_COVERS("VA-04", "VA-30");
  in_world(GpuVaConfig::gpu_physical_four_level(),
           [](GpuVaWorld& world) { run_at_random(world, 2, 150); });
}

TEST(GpuVaPlan, ARootGrows) {
  in_world(GpuVaConfig::two_level(PageTableUpdateMode::kGpuPhysical, kHidden.value),
           [](GpuVaWorld& world) {
             run_at_random(world, 3, 150);
             std::vector<UINT> sizes;
             for (const auto& root : world.gpu.calls().roots) sizes.push_back(root.NumEntries);
             EXPECT_GT(std::ranges::count_if(sizes, [](UINT size) { return size > 512; }), 0);
           });
}

}  // namespace
}  // namespace dxgkit::port
