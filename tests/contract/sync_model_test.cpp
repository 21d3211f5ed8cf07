// Several processes that share sync objects, against the obvious model.
#include <sys/eventfd.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/contract/sync_fixture.h"

namespace dxgkit::contract {
namespace {

using namespace sync_flag;

constexpr size_t kProcesses = 3;

/// The obvious thing: every wait in one list; after each change all are looked at, the oldest
/// first, until nothing changes.
struct Model {
  enum class Kind { kSemaphore, kFence, kMonitored };
  struct Object {
    Kind kind = Kind::kFence;
    uint64_t value = 0;
    size_t openings = 0;
    bool held = false;  // by a descriptor
  };
  struct Opening {
    uint64_t object = 0;
    bool no_signal = false, no_wait = false;
    void* cpu = nullptr;
  };
  struct Point {
    uint64_t object = 0, value = 0;
    bool latched = false;
  };
  struct Wait {
    int name = 0;
    size_t process = 0;
    bool any = false;
    std::vector<Point> points;
  };
  std::map<uint64_t, Object> objects;
  std::array<std::map<D3DKMT_HANDLE, Opening>, kProcesses> openings;
  std::vector<Wait> waits;
  std::set<int> ended;

  bool satisfied(Wait& wait) {
    for (Point& point : wait.points)
      point.latched = point.latched || objects.at(point.object).value >= point.value;
    return wait.any ? std::ranges::any_of(wait.points, &Point::latched)
                    : std::ranges::all_of(wait.points, &Point::latched);
  }
  /// CPUs have nothing to do with semaphores and old fences but to share them (SYNC-36).
  bool for_cpus(const Opening& opening) const {
    return objects.at(opening.object).kind == Kind::kMonitored;
  }
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < waits.size() && !changed; ++i) {
        if (!satisfied(waits[i])) continue;
        ended.insert(waits[i].name);
        waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(i));
        changed = true;
      }
    }
  }
  NTSTATUS signal(const Opening& opening, uint64_t value, bool rewind) {
    if (!for_cpus(opening)) return kInvalid;
    if (opening.no_signal) return kDenied;
    Object& object = objects.at(opening.object);
    if (!rewind && value < object.value) return kInvalid;
    object.value = value;
    settle();
    return 0;
  }
  void end_if_unused(uint64_t id) {
    const Object& object = objects.at(id);
    if (object.openings != 0 || object.held) return;
    for (size_t i = 0; i < waits.size();) {
      const bool names = std::ranges::any_of(
          waits[i].points, [&](const Point& point) { return point.object == id; });
      if (!names) {
        ++i;
        continue;
      }
      ended.insert(waits[i].name);
      waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(i));
    }
    objects.erase(id);
  }
  void close(size_t process, D3DKMT_HANDLE handle) {
    const uint64_t id = openings[process].at(handle).object;
    openings[process].erase(handle);
    --objects.at(id).openings;
    end_if_unused(id);
  }
  void end(size_t process) {
    std::erase_if(waits, [&](const Wait& wait) {
      if (wait.process != process) return false;
      ended.insert(wait.name);
      return true;
    });
    while (!openings[process].empty()) close(process, openings[process].begin()->first);
  }
};

class SyncModelTest : public ContractTest, public ::testing::WithParamInterface<uint32_t> {};

TEST_P(SyncModelTest, ProcessesThatShareAgreeWithTheModel) {
  DXGKIT_COVERS("SYNC-32", "SYNC-11", "SYNC-21", "SYNC-28");
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  running(
      [](Stack& stack) {
        std::mt19937 random(GetParam());
        const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
        std::array<std::unique_ptr<Client>, kProcesses> clients;
        for (size_t i = 0; i < kProcesses; ++i)
          clients[i] = std::make_unique<Client>(stack, "client");
        Model model;
        std::map<uint64_t, HANDLE> descriptors;     // of monitored fences
        std::map<uint64_t, D3DKMT_HANDLE> globals;  // of the others
        std::map<int, int> events;                  // of waits under way: eventfd
        uint64_t next_object = 1;
        int next_name = 1;
        size_t finished = 0;
        const auto any_opening = [&](size_t process) {
          auto it = model.openings[process].begin();
          std::advance(it, static_cast<std::ptrdiff_t>(below(model.openings[process].size())));
          return it;
        };
        for (int step = 0; step < 400; ++step) {
          SCOPED_TRACE("step " + std::to_string(step));
          const size_t p = below(kProcesses);
          Client& client = *clients[p];
          const size_t what = below(100);
          if (what < 12 && model.objects.size() < 8) {  // create
            D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
            args.hDevice = client.device;
            Model::Object object;
            object.kind = static_cast<Model::Kind>(std::min<size_t>(below(9), 2));
            object.value = below(3);
            args.Info.Flags.Value = kShared;
            if (object.kind == Model::Kind::kSemaphore) {
              args.Info.Type = D3DDDI_SEMAPHORE;
              args.Info.Semaphore.InitialCount = static_cast<UINT>(object.value);
              args.Info.Semaphore.MaxCount = static_cast<UINT>(object.value + 1);
            } else if (object.kind == Model::Kind::kFence) {
              args.Info.Type = D3DDDI_FENCE;
              args.Info.Fence.FenceValue = object.value;
            } else {
              args.Info.Type = D3DDDI_MONITORED_FENCE;
              args.Info.Flags.Value = kNt;
              args.Info.MonitoredFence.InitialFenceValue = object.value;
            }
            ASSERT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); }), 0);
            const uint64_t id = next_object++;
            object.openings = 1;
            Model::Opening opening{.object = id};
            if (object.kind == Model::Kind::kMonitored) {
              opening.cpu = args.Info.MonitoredFence.FenceValueCPUVirtualAddress;
              ASSERT_EQ(share(client, {args.hSyncObject}, &descriptors[id]), 0);
              object.held = true;
            } else {
              globals[id] = args.Info.SharedHandle;
            }
            model.objects[id] = object;
            model.openings[p][args.hSyncObject] = opening;
          } else if (what < 30 && !model.objects.empty()) {  // open
            auto it = model.objects.begin();
            std::advance(it, static_cast<std::ptrdiff_t>(below(model.objects.size())));
            Model::Opening opening{.object = it->first};
            D3DKMT_HANDLE handle = 0;
            if (it->second.kind == Model::Kind::kMonitored) {
              if (!it->second.held) continue;
              const UINT right = below(2) == 0 ? 0U : (below(2) == 0 ? kNoSignal : kNoWait);
              opening.no_signal = right == kNoSignal;
              opening.no_wait = right == kNoWait;
              const MonitoredFence fence = open_fence(client, descriptors.at(it->first), right);
              ASSERT_EQ(fence.status, 0);
              handle = fence.handle;
              opening.cpu = fence.cpu;
            } else {
              D3DKMT_OPENSYNCHRONIZATIONOBJECT args{};
              args.hSharedHandle = globals.at(it->first);
              ASSERT_EQ(client.call([&] { return D3DKMTOpenSynchronizationObject(&args); }), 0);
              handle = args.hSyncObject;
            }
            ++it->second.openings;
            model.openings[p][handle] = opening;
          } else if (what < 38 && !model.openings[p].empty()) {  // close
            const D3DKMT_HANDLE handle = any_opening(p)->first;
            ASSERT_EQ(destroy_sync(client, handle), 0);
            model.close(p, handle);
            EXPECT_EQ(client.signal_cpu(handle, 1), kInvalid);
          } else if (what < 41 && !descriptors.empty()) {  // close a descriptor
            auto it = descriptors.begin();
            std::advance(it, static_cast<std::ptrdiff_t>(below(descriptors.size())));
            ::close(fd_of(it->second));
            // It is noticed at the next call that could tell.
            D3DKMT_OPENSYNCOBJECTFROMNTHANDLE nobody{};
            EXPECT_EQ(client.call([&] { return D3DKMTOpenSyncObjectFromNtHandle(&nobody); }),
                      kBadHandle);
            if (model.objects.contains(it->first)) {
              model.objects.at(it->first).held = false;
              model.end_if_unused(it->first);
            }
            descriptors.erase(it);
          } else if (what < 43) {  // a process ends, another begins
            client.end();
            model.end(p);
            clients[p] = std::make_unique<Client>(stack, "client");
          } else if (what < 75 && !model.openings[p].empty()) {  // signal
            const auto opening = any_opening(p);
            const D3DKMT_HANDLE handle = opening->first;
            const UINT64 value = below(10);
            D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU args{};
            args.hDevice = client.device;
            args.ObjectCount = 1;
            args.ObjectHandleArray = &handle;
            args.FenceValueArray = &value;
            args.Flags.AllowFenceRewind = below(4) == 0 ? 1 : 0;
            const bool rewind = args.Flags.AllowFenceRewind != 0;
            ASSERT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObjectFromCpu(&args); }),
                      model.signal(opening->second, value, rewind));
          } else if (!model.openings[p].empty() && model.waits.size() < 20) {  // wait
            Model::Wait wait{.name = next_name++, .process = p, .any = below(2) == 0, .points = {}};
            std::vector<D3DKMT_HANDLE> handles;
            std::vector<UINT64> values;
            NTSTATUS expected = 0;
            for (size_t n = 1 + below(2); n-- > 0;) {
              const auto opening = any_opening(p);
              handles.push_back(opening->first);
              values.push_back(below(10));
              wait.points.push_back({opening->second.object, values.back()});
              if (expected != 0) continue;
              if (!model.for_cpus(opening->second))
                expected = kInvalid;
              else if (opening->second.no_wait)
                expected = kDenied;
            }
            const int event = eventfd(0, EFD_NONBLOCK);
            D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU args{};
            args.hDevice = client.device;
            args.ObjectCount = static_cast<UINT>(handles.size());
            args.ObjectHandleArray = handles.data();
            args.FenceValueArray = values.data();
            args.hAsyncEvent = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
            args.Flags.WaitAny = wait.any ? 1 : 0;
            ASSERT_EQ(client.call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&args); }),
                      expected);
            if (expected != 0) {
              ::close(event);
            } else {
              events[wait.name] = event;
              model.waits.push_back(wait);
              model.settle();
            }
          }
          stack.settle();
          for (auto it = events.begin(); it != events.end();) {
            uint64_t count = 0;
            const bool set = read(it->second, &count, sizeof count) == sizeof count;
            ASSERT_EQ(set, model.ended.contains(it->first)) << "wait " << it->first;
            if (set) {
              ASSERT_EQ(count, 1U);
              ::close(it->second);
              ++finished;
            }
            it = set ? events.erase(it) : std::next(it);
          }
          for (size_t i = 0; i < kProcesses; ++i) {
            for (const auto& [handle, opening] : model.openings[i]) {
              if (opening.cpu == nullptr) continue;
              ASSERT_EQ(std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(opening.cpu)).load(),
                        model.objects.at(opening.object).value);
            }
          }
        }
        EXPECT_GT(finished, 20U);
        for (const auto& [name, event] : events) ::close(event);
        for (const auto& [id, descriptor] : descriptors) ::close(fd_of(descriptor));
      },
      nullptr, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Seeds, SyncModelTest, ::testing::Range(1U, 7U));

}  // namespace
}  // namespace dxgkit::contract
