// Random lists, evictions and work of several processes, against a model that only counts.
#include <map>
#include <random>

#include "dxgk/adapter/adapter.h"
#include "dxgk/memory/residency.h"
#include "dxgk/work/device.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr uint64_t kAll = kMemoryUnits * kUnit;

struct Modelled {
  uint64_t bytes = 0;
  uint32_t count = 0;  // MakeResident minus Evict
};

struct ModelClient {
  ModelClient(Stack& stack, const char* name) : client(stack, name) {
    for (int i = 0; i < 2; ++i) contexts.push_back(client.make_context());
    second = client.make_queue(1);
  }
  uint64_t usage() const {
    uint64_t sum = 0;
    for (const auto& [handle, one] : allocations) sum += one.count == 0 ? 0 : one.bytes;
    return sum;
  }

  ListingClient client;
  Queue second;
  std::vector<ContextBuffers> contexts;
  std::map<D3DKMT_HANDLE, Modelled> allocations;  // by handle
  std::map<D3DKMT_HANDLE, uint64_t> last_fence;   // by queue
};

class Model {
 public:
  Model(Stack& stack, uint64_t seed) : stack_(stack), random_(seed) {
    for (const char* name : {"a", "b", "c"})
      clients_.push_back(std::make_unique<ModelClient>(stack, name));
    stack.miniport.hooks.patch = [&stack](const DXGKARG_PATCH* args) {
      for (UINT i = 0; i < args->PatchLocationListSubmissionLength; ++i) {
        const auto& patch = args->pPatchLocationList[args->PatchLocationListSubmissionStart + i];
        EXPECT_NE(args->pAllocationList[patch.AllocationIndex].SegmentId, 0U)
            << "what is named is there, evicted since or not (RES-16)";
      }
      return stack.miniport.default_patch(args);
    };
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      step();
      check();
    }
    finish();
  }

 private:
  uint64_t pick(uint64_t below) { return random_() % below; }
  uint64_t used_by_all() const {
    uint64_t sum = 0;
    for (const auto& one : clients_) sum += one->usage();
    return sum;
  }
  std::vector<D3DKMT_HANDLE> some(const ModelClient& who, bool listed) {
    std::vector<D3DKMT_HANDLE> known;
    for (const auto& [handle, one] : who.allocations) {
      if (!listed || one.count != 0) known.push_back(handle);
    }
    std::vector<D3DKMT_HANDLE> list;
    for (uint64_t n = known.empty() ? 0 : 1 + pick(4); n > 0; --n)
      list.push_back(known[pick(known.size())]);
    return list;
  }

  void step() {
    ModelClient& who = *clients_[pick(clients_.size())];
    switch (pick(8)) {
      case 0:
        if (who.allocations.size() < 8) create(who);
        break;
      case 1:
      case 2:
        make_resident(who);
        break;
      case 3:
        evict(who);
        break;
      case 4:
        render(who);
        break;
      case 5:
        if (pick(4) == 0 && !who.allocations.empty()) destroy(who);
        break;
      default:
        static_cast<void>(stack_.miniport.complete_next(static_cast<uint32_t>(pick(2))));
        stack_.settle();
        break;
    }
  }

  void create(ModelClient& who) {
    const uint64_t units = 1 + pick(6);
    who.allocations[who.client.make(units)].bytes = units * kUnit;
  }

  void destroy(ModelClient& who) {
    auto gone = who.allocations.begin();
    std::advance(gone, static_cast<std::ptrdiff_t>(pick(who.allocations.size())));
    ASSERT_EQ(who.client.destroy_allocation(gone->first), 0);
    who.allocations.erase(gone);
  }

  void make_resident(ModelClient& who) {
    const std::vector<D3DKMT_HANDLE> list = some(who, false);
    if (list.empty()) return;
    const bool further = pick(2) != 0;
    const D3DKMT_HANDLE queue = pick(3) == 0 ? who.second.handle : who.client.queue.handle;
    std::map<D3DKMT_HANDLE, Modelled> after = who.allocations;
    uint64_t more = 0;
    for (const D3DKMT_HANDLE one : list) {
      if (after[one].count++ == 0) more += after[one].bytes;
    }
    const uint64_t own = who.usage() + more, all = used_by_all() + more;
    NTSTATUS status = 0;
    const D3DDDI_MAKERESIDENT args =
        who.client.make_resident(list, &status, further ? cant_trim() : kNoFlags, queue);
    // What fits beside everybody is always granted (RES-18); what does not fit alone never is
    // (RES-05); between the two the budget decides, unless the client has nothing left to trim.
    if (all <= kAll || (further && own <= kAll)) {
      EXPECT_TRUE(status == 0 || status == nt_status(Status::kPending)) << status;
    }
    if (own > kAll) {
      EXPECT_EQ(status, nt_status(Status::kNoMemory));
    }
    if (status != 0 && status != nt_status(Status::kPending)) {
      EXPECT_EQ(status, nt_status(Status::kNoMemory));
      EXPECT_GT(args.NumBytesToTrim, 0U);
      EXPECT_EQ(args.NumAllocations, 0U);
      return;
    }
    EXPECT_EQ(args.NumAllocations, list.size());
    if (status == nt_status(Status::kPending)) {
      EXPECT_GT(args.PagingFenceValue, who.last_fence[queue]);
      who.last_fence[queue] = args.PagingFenceValue;
    } else {
      EXPECT_EQ(args.PagingFenceValue, 0U);
    }
    who.allocations = std::move(after);
  }

  void evict(ModelClient& who) {
    const std::vector<D3DKMT_HANDLE> list = some(who, pick(5) != 0);
    if (list.empty()) return;
    std::map<D3DKMT_HANDLE, Modelled> after = who.allocations;
    bool right = true;
    for (const D3DKMT_HANDLE one : list) {
      right = right && after[one].count != 0;
      --after[one].count;
    }
    const UINT flags = static_cast<UINT>(pick(2));  // never NotWrittenTo: it would be a lie
    EXPECT_EQ(who.client.evict(list, flags), right ? 0 : nt_status(Status::kInvalidParameter));
    if (right) who.allocations = std::move(after);
  }

  void render(ModelClient& who) {
    Work work;
    uint32_t index = 0;
    for (const D3DKMT_HANDLE one : some(who, true)) {
      work.allocations.push_back({one, true});
      work.patches.push_back(patch_at(index, 16 * index));
      ++index;
    }
    ASSERT_EQ(who.client.render(who.contexts[pick(2)], work), 0);
    ++rendered_;
  }

  /// After each step, with everything the step started done.
  void check() {
    stack_.settle();
    dxgk::Adapter& adapter = stack_.adapter();
    for (const auto& who : clients_)
      EXPECT_EQ(who->client.memory().CurrentUsage, who->usage()) << "what is counted is charged";
    adapter.core().lane().run([&] {
      EXPECT_TRUE(adapter.core().memory().validate());
      EXPECT_TRUE(adapter.core().scheduler().validate());
      for (dxgk::Device* device : adapter.floor().devices) {
        EXPECT_FALSE(device->lost());
        const dxgk::DeviceResidency& residency = *device->memory().residency;
        // RES-02, RES-21: work of this device is on its way to hardware or there.
        EXPECT_TRUE(residency.in_flight == 0 || residency.set.held());
        uint64_t bytes = 0;
        for (size_t i = 0; i < residency.set.size(); ++i) {
          const AllocationId id = residency.set.at(i);
          if (!residency.set.held()) break;
          EXPECT_GT(adapter.core().memory().pin_count(id), 0U);
          EXPECT_NE(adapter.core().memory().placement(id).segment, kSystemMemory);
          bytes += adapter.core().memory().description(id).size_bytes;
        }
        EXPECT_LE(bytes, kAll);
      }
    });
  }

  void finish() {
    stack_.drive();
    for (const auto& who : clients_) {
      EXPECT_EQ(who->client.wait_for_idle(), 0);
      EXPECT_EQ(who->client.queue.value(), who->last_fence[who->client.queue.handle]);
      EXPECT_EQ(who->second.value(), who->last_fence[who->second.handle]);
    }
    EXPECT_EQ(stack_.statistics().packets_faulted, 0U);
    EXPECT_EQ(stack_.statistics().packets_cancelled, 0U);
    EXPECT_EQ(stack_.rules(), std::vector<std::string>{});
    const uint64_t completed =
        stack_.statistics().packets_completed - stack_.statistics().paging_packets;
    EXPECT_EQ(completed, rendered_) << "nobody was forgotten";
  }

  Stack& stack_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<ModelClient>> clients_;
  uint64_t rendered_ = 0;
};

class ResModelTest : public ContractTest, public ::testing::WithParamInterface<uint64_t> {};

TEST_P(ResModelTest, RandomProcessesGetWhatTheModelSays) {
  DXGKIT_COVERS("RES-01", "RES-02", "RES-03", "RES-05", "RES-09", "RES-13", "RES-16", "RES-18",
                "RES-20", "RES-21", "PAGE-44");
  running(
      [](Stack& stack) {
        Model model(stack, GetParam());
        model.run(400);
        stack.miniport.hooks = {};
      },
      explicit_residency, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Seeds, ResModelTest, ::testing::Range<uint64_t>(1, 25));

}  // namespace
}  // namespace dxgkit::contract
