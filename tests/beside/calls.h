// The table of the calls: each succeeds when nothing happens beside it.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/contract/hw_fixture.h"
#include "tests/contract/native_fixture.h"
#include "tests/contract/plane_fixture.h"
#include "tests/contract/res_fixture.h"
#include "tests/contract/sync_fixture.h"

namespace dxgkit::beside {

using contract::Client;
using contract::ContextBuffers;
using contract::Stack;

/// The kind of adapter that a call is made on.
enum class Ground { kPatching, kResidency, kQueues, kNative, kScreen, kPlanes };

/// A started adapter, a client with a device, and its call.
struct World {
  Stack* stack = nullptr;
  Client* client = nullptr;
  contract::ListingClient* listing = nullptr;  // kResidency and above it
  contract::HwClient* hw = nullptr;            // kQueues
  contract::VaClient* va = nullptr;            // kQueues, kNative
  contract::FlipClient* screen = nullptr;      // kScreen, kPlanes
  contract::PlaneClient* planes = nullptr;     // kPlanes

  /// The call, to be made once, on a thread of the client's.
  std::function<NTSTATUS()> call = {};
  /// What the call hangs on besides its device goes. Empty: there is none.
  std::function<void()> destroy = {};

  /// Memory of the client's, as long as the world lives.
  template <typename T>
  T* keep(std::vector<T> values) {
    auto list = std::make_shared<std::vector<T>>(std::move(values));
    kept.push_back(list);
    return list->data();
  }
  template <typename Args>
  Args& keep_one(const Args& args) {
    return *keep(std::vector<Args>{args});
  }
  /// The call is this function with these arguments.
  template <typename Function, typename Args>
  void calls(Function* function, const Args& args) {
    Args& given = keep_one(args);
    call = [function, &given] { return function(&given); };
  }
  void destroys_allocation(D3DKMT_HANDLE allocation) {
    destroy = [this, allocation] { static_cast<void>(client->destroy_allocation(allocation)); };
  }
  void destroys_resource(D3DKMT_HANDLE resource) {
    destroy = [this, resource] {
      D3DKMT_DESTROYALLOCATION2 args{};
      args.hDevice = client->device;
      args.hResource = resource;
      static_cast<void>(client->call([&] { return D3DKMTDestroyAllocation2(&args); }));
    };
  }
  void destroys_context(D3DKMT_HANDLE context) {
    destroy = [this, context] { static_cast<void>(client->destroy_context(context)); };
  }
  void destroys_sync(D3DKMT_HANDLE object) {
    destroy = [this, object] { static_cast<void>(contract::destroy_sync(*client, object)); };
  }
  void closes_adapter() {
    destroy = [this] {
      const D3DKMT_CLOSEADAPTER close{client->adapter};
      static_cast<void>(client->call([&] { return D3DKMTCloseAdapter(&close); }));
    };
  }

  std::vector<std::shared_ptr<void>> kept = {};
};

struct Row {
  std::string_view name;
  Ground ground = Ground::kPatching;
  void (*prepare)(World& world) = nullptr;
  /// Objects of the driver that the call keeps beyond its end: for the next call of its kind, in an
  /// NT handle, on the way to the screen.
  size_t leaves = 0;
};

std::vector<Row> rendering_rows();
std::vector<Row> memory_rows();
std::vector<Row> screen_rows();

/// Makes the world of `row` in the simulation, and hands it over with the call prepared.
void with_world(const Row& row, uint64_t seed, const std::function<void(World&)>& body);

}  // namespace dxgkit::beside
