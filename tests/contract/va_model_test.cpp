// Random calls of several clients against a page-by-page model: after each of them every page of
// every process leads where the model says, read through the tables in the driver's memory.
#include <map>
#include <optional>
#include <random>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr uint64_t k64 = 64 * kKibibyte;

/// What one process should see.
struct Model {
  struct Page {
    D3DKMT_HANDLE allocation = 0;  // 0: zero
    uint64_t page = 0;
    bool writable = false;
    bool operator==(const Page&) const = default;
  };
  std::map<uint64_t, Page> mapped;          // by page number
  std::map<uint64_t, uint64_t> owned;       // base to size, of what calls gave
  std::map<D3DKMT_HANDLE, uint64_t> sizes;  // allocations, in pages
  std::map<D3DKMT_HANDLE, bool> listed;
};

class Walkers {
 public:
  Walkers(GpuVaStack& stack, uint64_t seed) : stack_(stack), random_(seed) {
    for (const char* name : {"a", "b"}) {
      clients_.push_back(std::make_unique<VaClient>(stack, name));
      models_.emplace_back();
    }
  }

  void step() {
    const size_t who = pick(clients_.size());
    VaClient& client = *clients_[who];
    Model& model = models_[who];
    switch (pick(9)) {
      case 0:
        if (model.sizes.size() < 6) make(client, model);
        break;
      case 1:
        if (pick(3) == 0) destroy(client, model);
        break;
      case 2:
      case 3:
        map_anywhere(client, model);
        break;
      case 4:
        map_over(client, model);
        break;
      case 5:
        free(client, model);
        break;
      case 6:
        reserve(client, model);
        break;
      case 7:
        list(client, model);
        break;
      case 8:
        evict(client, model);
        break;
    }
    // Sometimes several calls are on their way together.
    if (pick(3) == 0) stack_.drive();
  }

  void check() {
    stack_.drive();
    for (size_t who = 0; who < clients_.size(); ++who) {
      const VaClient& client = *clients_[who];
      const Model& model = models_[who];
      for (const auto& [page, expected] : model.mapped) {
        const auto walk = client.walk(page * kPage);
        if (expected.allocation == 0) {
          ASSERT_TRUE(walk.valid && walk.zero) << walk.why;
          continue;
        }
        const vidmm::Placement place = placement(client, expected.allocation);
        ASSERT_EQ(walk.valid, place.segment != kSystemMemory) << std::hex << page << walk.why;
        if (!walk.valid) continue;
        ASSERT_EQ(walk.place.segment, place.segment);
        ASSERT_EQ(walk.place.offset, place.offset_bytes + expected.page * kPage);
        ASSERT_EQ(walk.writable, expected.writable);
      }
      // And nothing else: the neighbours of what is mapped do not translate.
      for (const auto& [base, size] : model.owned) {
        for (const uint64_t page : {base / kPage - 1, (base + size) / kPage}) {
          if (!model.mapped.contains(page)) {
            ASSERT_FALSE(client.walk(page * kPage).valid);
          }
        }
        for (uint64_t page = base / kPage; page < (base + size) / kPage; ++page) {
          if (!model.mapped.contains(page)) {
            ASSERT_FALSE(client.walk(page * kPage).valid);
          }
        }
      }
    }
    ASSERT_TRUE(stack_.gpu.faults().empty());
    ASSERT_EQ(stack_.rules(), std::vector<std::string>{});
  }

 private:
  uint64_t pick(uint64_t below) {
    return std::uniform_int_distribution<uint64_t>(0, below - 1)(random_);
  }
  vidmm::Placement placement(const VaClient& client, D3DKMT_HANDLE handle) const {
    const auto opened = client.process->handles().find<dxgk::OpenedAllocation>(handle);
    return stack_.adapter().core().memory().placement((*opened)->allocation->id);
  }
  D3DKMT_HANDLE some_allocation(const Model& model) {
    if (model.sizes.empty()) return 0;
    return std::next(model.sizes.begin(), static_cast<std::ptrdiff_t>(pick(model.sizes.size())))
        ->first;
  }
  void make(VaClient& client, Model& model) {
    const uint64_t pages = 1 + pick(80);
    model.sizes[client.make_allocation(pages * kPage, kMemorySet)] = pages;
  }
  void destroy(VaClient& client, Model& model) {
    const D3DKMT_HANDLE handle = some_allocation(model);
    if (handle == 0) return;
    ASSERT_EQ(client.destroy_allocation(handle), 0);
    model.sizes.erase(handle);
    model.listed.erase(handle);
    std::erase_if(model.mapped, [&](const auto& one) { return one.second.allocation == handle; });
  }
  void note(Model& model, const D3DDDI_MAPGPUVIRTUALADDRESS& args) {
    for (uint64_t i = 0; i < args.SizeInPages; ++i) {
      model.mapped[args.VirtualAddress / kPage + i] = {args.hAllocation, args.OffsetInPages + i,
                                                       (args.Protection.Value & kWrite) != 0};
    }
  }
  D3DDDI_MAPGPUVIRTUALADDRESS wish(VaClient& client, const Model& model, uint64_t most) {
    const D3DKMT_HANDLE handle = some_allocation(model);
    const uint64_t size = model.sizes.at(handle);
    const uint64_t offset = pick(size);
    auto args = client.map_args(handle, 1 + pick(std::min(size - offset, most)));
    args.OffsetInPages = offset;
    args.Protection = protection(pick(2) == 0 ? 0 : kWrite);
    return args;
  }
  void call(VaClient& client, Model& model, D3DDDI_MAPGPUVIRTUALADDRESS args, bool takes) {
    const NTSTATUS status = client.map(args);
    ASSERT_TRUE(status == 0 || status == kPendingStatus) << std::hex << status;
    if (takes) {
      ASSERT_TRUE(model.owned.emplace(args.VirtualAddress, args.SizeInPages * kPage).second);
    }
    note(model, args);
  }
  void map_anywhere(VaClient& client, Model& model) {
    if (model.sizes.empty()) return;
    call(client, model, wish(client, model, 1000), true);
  }
  void map_over(VaClient& client, Model& model) {
    if (model.sizes.empty() || model.owned.empty()) return;
    const auto [base, size] = some_range(model);
    const uint64_t first = pick(size / kPage);
    auto args = wish(client, model, size / kPage - first);
    args.BaseAddress = base + first * kPage;
    call(client, model, args, false);
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
  }
  std::pair<uint64_t, uint64_t> some_range(const Model& model) {
    return *std::next(model.owned.begin(), static_cast<std::ptrdiff_t>(pick(model.owned.size())));
  }
  void free(VaClient& client, Model& model) {
    if (model.owned.empty()) return;
    const auto [base, size] = some_range(model);
    ASSERT_EQ(client.free_va(base, size), 0);
    model.owned.erase(base);
    for (uint64_t page = base / kPage; page < (base + size) / kPage; ++page)
      model.mapped.erase(page);
  }
  void reserve(VaClient& client, Model& model) {
    const uint64_t size = k64 * (1 + pick(4));
    const bool zero = pick(3) == 0;
    const uint64_t base = client.make_reservation(
        size, 0,
        zero ? D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO : D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS);
    ASSERT_TRUE(model.owned.emplace(base, size).second);
    if (!zero) return;
    for (uint64_t page = base / kPage; page < (base + size) / kPage; ++page)
      model.mapped[page] = {};
  }
  void list(VaClient& client, Model& model) {
    const D3DKMT_HANDLE handle = some_allocation(model);
    if (handle == 0 || model.listed[handle]) return;
    const NTSTATUS status = client.make_resident({handle}, cant_trim());
    if (status == 0 || status == kPendingStatus) model.listed[handle] = true;
  }
  void evict(VaClient& client, Model& model) {
    const D3DKMT_HANDLE handle = some_allocation(model);
    if (handle == 0 || !model.listed[handle]) return;
    ASSERT_EQ(client.evict({handle}), 0);
    model.listed[handle] = false;
  }

  GpuVaStack& stack_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<VaClient>> clients_;
  std::vector<Model> models_;
};

class VaModelTest : public GpuVaTest, public ::testing::WithParamInterface<uint64_t> {};

TEST_P(VaModelTest, EveryPageLeadsWhereItShould) {
  DXGKIT_COVERS("VA-04", "VA-07", "VA-29", "VA-30", "VA-31", "VA-42");
  using port::PageTableUpdateMode;
  auto all = kinds();
  all.emplace_back("growing root", GpuVaConfig::two_level(PageTableUpdateMode::kGpuPhysical, 2));
  all.emplace_back("GPU virtual", GpuVaConfig::two_level(PageTableUpdateMode::kGpuVirtual, 2));
  for (auto& [name, config] : all) {
    SCOPED_TRACE(name);
    running(
        config,
        [](GpuVaStack& stack) {
          Walkers walkers(stack, GetParam());
          for (int i = 0; i < 150; ++i) {
            SCOPED_TRACE(i);
            walkers.step();
            if (HasFatalFailure()) return;
            if (i % 5 == 0) walkers.check();
            if (HasFatalFailure()) return;
          }
          walkers.check();
        },
        [](GpuVaStack& stack) {
          // Little memory: what is listed makes others leave.
          stack.miniport.config.segments[0].size = kMemoryUnits * kUnit;
        },
        GetParam());
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, VaModelTest, ::testing::Range<uint64_t>(1, 13));

}  // namespace
}  // namespace dxgkit::contract
