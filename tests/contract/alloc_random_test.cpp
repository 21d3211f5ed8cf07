// Two processes do everything allocations allow, in random order, on a driver that pages: statuses
// as a plain model expects them, content where the CPU left it, nothing left behind.
#include <algorithm>
#include <cstring>
#include <random>

#include "dxgk/adapter/adapter.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

constexpr UINT kDonotWait = 1U << 2, kDiscard = 1U << 7;

/// What the world should know of one opening.
struct Model {
  size_t client = 0;
  D3DKMT_HANDLE resource = 0, handle = 0, current = 0;  // current: the instance in use
  D3DKMT_HANDLE global = 0;                             // of a shared one
  uint32_t segments = 0;
  uint32_t locks = 0;
  bool offered = false;
  std::shared_ptr<uint8_t> tag;  // what the CPU wrote last; shared by all openings
};

class World {
 public:
  World(Stack& stack, uint64_t seed) : stack_(stack), random_(seed) {
    for (const char* name : {"one", "two"}) {
      clients_.push_back(std::make_unique<Client>(stack, name));
      contexts_.push_back(clients_.back()->make_context());
    }
  }
  void step() {
    switch (pick(9)) {
      case 0:
      case 1:
        create();
        break;
      case 2:
        open();
        break;
      case 3:
      case 4:
        render();
        break;
      case 5:
        lock();
        break;
      case 6:
        offer_or_reclaim();
        break;
      case 7:
        if (pick(3) == 0) destroy();
        break;
      default:
        if (pick(2) == 0) stack_.drive();
        break;
    }
    stack_.settle();
    stack_.adapter().core().lane().run(
        [&] { EXPECT_TRUE(stack_.adapter().core().memory().validate()); });
  }
  void end() {
    // Half of the time the first process dies with work queued, the other at leisure.
    for (auto& client : clients_) client->end();
  }

 private:
  uint32_t pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  Model* any() {
    return models_.empty() ? nullptr : &models_[pick(static_cast<uint32_t>(models_.size()))];
  }
  Client& of(const Model& model) { return *clients_[model.client]; }

  void create() {
    if (models_.size() > 24) return;
    static constexpr uint32_t kSets[] = {kVisible, kHidden | kAperture, kAperture,
                                         kVisible | kAperture};
    Model model;
    model.client = pick(2);
    model.segments = kSets[pick(4)];
    model.tag = std::make_shared<uint8_t>(uint8_t{0});
    ScriptedAllocation data;
    data.size = kPageBytes * (1 + pick(16));
    data.flags = 1;
    data.supported_read = data.supported_write = model.segments;
    D3DDDI_ALLOCATIONINFO info{};
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    D3DKMT_CREATEALLOCATION args{};
    args.hDevice = of(model).device;
    args.NumAllocations = 1;
    args.pAllocationInfo = &info;
    const bool shared = pick(3) == 0;
    args.Flags.CreateResource = args.Flags.CreateShared = shared ? 1 : 0;
    ASSERT_EQ(of(model).call([&] { return D3DKMTCreateAllocation(&args); }), 0);
    model.resource = args.hResource;
    model.global = args.hGlobalShare;
    model.handle = model.current = info.hAllocation;
    models_.push_back(model);
  }

  void open() {
    const Model* model = any();
    if (model == nullptr || model->global == 0 || models_.size() > 24) return;
    Model opened = *model;
    opened.client = pick(2);
    opened.locks = 0;
    std::byte total[sizeof(ScriptedAllocation)];
    D3DDDI_OPENALLOCATIONINFO info{};
    D3DKMT_OPENRESOURCE args{};
    args.hDevice = of(opened).device;
    args.hGlobalShare = model->global;
    args.NumAllocations = 1;
    args.pOpenAllocationInfo = &info;
    args.pTotalPrivateDriverDataBuffer = total;
    args.TotalPrivateDriverDataBufferSize = sizeof total;
    ASSERT_EQ(of(opened).call([&] { return D3DKMTOpenResource(&args); }), 0);
    opened.resource = args.hResource;
    opened.handle = opened.current = info.hAllocation;
    models_.push_back(opened);
  }

  void render() {
    const Model* model = any();
    if (model == nullptr) return;
    const NTSTATUS status = of(*model).render(contexts_[model->client], work_on({model->current}));
    EXPECT_EQ(status, model->offered ? kInvalid : 0);
  }

  void lock() {
    Model* model = any();
    if (model == nullptr) return;
    Client& client = of(*model);
    if (model->locks != 0 && pick(2) == 0) {
      EXPECT_EQ(client.unlock(model->current), 0);
      --model->locks;
      return;
    }
    if (pick(2) == 0) {  // the old one: it may rename, and it may find the GPU at work
      D3DKMT_LOCK args{};
      args.hDevice = client.device;
      args.hAllocation = model->current;
      args.Flags.Value = pick(2) == 0 ? kDonotWait : kDonotWait | kDiscard;
      NTSTATUS status = 0;
      stack_.blocking([&] { status = client.call([&] { return D3DKMTLock(&args); }); });
      if (model->offered) {
        EXPECT_EQ(status, kInvalid);
      }
      if (status != 0) return;
      if (args.hAllocation != model->current) {
        EXPECT_EQ(model->global, 0U) << "shared content is not renamed";
        EXPECT_EQ(model->locks, 0U);
        model->current = args.hAllocation;
      } else if (model->segments == kAperture && *model->tag != 0 && !renamed(*model)) {
        EXPECT_EQ(*static_cast<uint8_t*>(args.pData), *model->tag);
      }
      fill(*model, args.pData);
      return;
    }
    void* address = nullptr;
    const NTSTATUS status = client.lock(model->current, &address);
    if (model->offered) {
      EXPECT_EQ(status, kInvalid);
    }
    if (status != 0) return;
    if (model->segments == kAperture && *model->tag != 0 && !renamed(*model)) {
      EXPECT_EQ(*static_cast<uint8_t*>(address), *model->tag) << "nothing moves it";
    }
    fill(*model, address);
  }
  static bool renamed(const Model& model) { return model.current != model.handle; }
  void fill(Model& model, void* address) {
    ++model.locks;
    const auto value = static_cast<uint8_t>(1 + pick(255));
    if (!renamed(model)) *model.tag = value;
    std::memset(address, value, kPageBytes);
  }

  void offer_or_reclaim() {
    Model* model = any();
    if (model == nullptr) return;
    Client& client = of(*model);
    if (model->offered) {
      BOOL lost = 77;
      D3DKMT_RECLAIMALLOCATIONS args{};
      args.hDevice = client.device;
      args.HandleList = &model->current;
      args.NumAllocations = 1;
      args.pDiscarded = &lost;
      EXPECT_EQ(client.call([&] { return D3DKMTReclaimAllocations(&args); }), 0);
      EXPECT_LE(lost, 1);
      EXPECT_FALSE(lost != 0 && model->segments == kAperture) << "its pages are its content";
      model->offered = false;
      return;
    }
    D3DKMT_OFFERALLOCATIONS args{};
    args.hDevice = client.device;
    args.HandleList = &model->current;
    args.NumAllocations = 1;
    args.Priority = static_cast<D3DKMT_OFFER_PRIORITY>(1 + pick(4));
    const bool may = model->locks == 0 && model->global == 0;
    EXPECT_EQ(client.call([&] { return D3DKMTOfferAllocations(&args); }), may ? 0 : kInvalid);
    model->offered = may;
  }

  void destroy() {
    Model* model = any();
    if (model == nullptr) return;
    Client& client = of(*model);
    D3DKMT_DESTROYALLOCATION2 args{};
    args.hDevice = client.device;
    args.hResource = model->resource;
    if (model->resource == 0) {
      args.phAllocationList = &model->handle;
      args.AllocationCount = 1;
    }
    EXPECT_EQ(client.call([&] { return D3DKMTDestroyAllocation2(&args); }), 0);
    const D3DKMT_HANDLE global = model->global;
    models_.erase(models_.begin() + (model - models_.data()));
    const bool last =
        std::ranges::none_of(models_, [&](const Model& one) { return one.global == global; });
    // Work on what the CPU holds back may be queued still; it keeps everything it uses.
    const bool locked =
        std::ranges::any_of(models_, [](const Model& one) { return one.locks != 0; });
    if (global == 0 || !last || locked) return;
    stack_.drive();  // what is queued for it ends, and with it the name
    D3DKMT_QUERYRESOURCEINFO query{};
    query.hDevice = client.device;
    query.hGlobalShare = global;
    EXPECT_EQ(client.call([&] { return D3DKMTQueryResourceInfo(&query); }), kInvalid);
  }

  Stack& stack_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<ContextBuffers> contexts_;
  std::vector<Model> models_;
};

class AllocRandom : public ContractTest, public ::testing::WithParamInterface<uint64_t> {};
TEST_P(AllocRandom, StatusesContentAndMemoryAddUp) {
  DXGKIT_COVERS("ALLOC-04", "ALLOC-25", "ALLOC-26", "ALLOC-39", "ALLOC-44", "ALLOC-46");
  running(
      [](Stack& stack) {
        World world(stack, GetParam());
        for (int i = 0; i < 250 && !HasFailure(); ++i) world.step();
        world.end();
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.segments[0].size = 256 * kKibibyte;
        miniport.config.segments[1].size = 192 * kKibibyte;
        miniport.config.segments[2].size = 512 * kKibibyte;
      },
      GetParam());
}
INSTANTIATE_TEST_SUITE_P(Seeds, AllocRandom, ::testing::Range<uint64_t>(1, 41));

}  // namespace
}  // namespace dxgkit::contract
