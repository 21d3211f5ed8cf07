// A process has room for a fixed number of handles. What finds none for one of its handles is
// refused, and takes back what it had made until then.
#include <functional>
#include <string>
#include <vector>

#include "dxgk/core/handle_table.h"
#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

using FullHandlesTest = ContractTest;

/// Takes all handles of a client's process, and gives some back.
class Handles {
 public:
  /// `any`: an object that the handles lead to.
  Handles(Client& client, dxgk::Ref<dxgk::Device> any)
      : table_(client.process->handles()), any_(std::move(any)) {}
  ~Handles() { leave(UINT32_MAX); }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  void take_all() {
    for (;;) {
      const Result<dxgk::Handle> taken = table_.insert_hidden(any_);
      if (!taken.has_value()) break;
      taken_.push_back(*taken);
    }
  }
  /// Gives back so many, or all there are.
  void leave(size_t count) {
    for (; count > 0 && !taken_.empty(); --count) {
      table_.erase(taken_.back());
      taken_.pop_back();
    }
  }

 private:
  dxgk::HandleTable& table_;
  dxgk::Ref<dxgk::Device> any_;
  std::vector<dxgk::Handle> taken_;
};

/// Something with handles that a client can make, and how it ends it.
struct Made {
  const char* name;
  std::function<NTSTATUS(D3DKMT_HANDLE*)> create;
  std::function<NTSTATUS(D3DKMT_HANDLE)> destroy;
};

/// With no handle left, then one, and so on, until there are enough.
void expect_all_or_nothing(Stack& stack, Client& client, const dxgk::Ref<dxgk::Device>& any,
                           const std::vector<Made>& rows) {
  for (const Made& row : rows) {
    SCOPED_TRACE(row.name);
    Handles handles(client, any);
    handles.take_all();
    for (size_t left = 0;; ++left) {
      ASSERT_LT(left, 8U) << "it has not as many handles as that";
      const Digest before = digest(stack, {&client});
      D3DKMT_HANDLE made = 0;
      const NTSTATUS status = row.create(&made);
      if (status == 0) {
        EXPECT_GT(left, 0U);
        EXPECT_EQ(row.destroy(made), 0);
        break;
      }
      EXPECT_EQ(status, nt_status(Status::kNoMemory));
      EXPECT_EQ(made, 0U);
      stack.drive();
      Digest after = digest(stack, {&client});
      after.driver_calls = before.driver_calls;  // it may be asked, and asked to take it back
      EXPECT_EQ(after, before);
      handles.leave(1);
    }
    stack.drive();
  }
}

dxgk::Ref<dxgk::Device> device_of(Client& client) {
  return std::move(*client.process->handles().find<dxgk::Device>(client.device));
}

Made device_for(Client& client) {
  return {"a device",
          [&](D3DKMT_HANDLE* made) {
            D3DKMT_CREATEDEVICE args{};
            args.hAdapter = client.adapter;
            const NTSTATUS status = client.call([&] { return D3DKMTCreateDevice(&args); });
            *made = args.hDevice;
            return status;
          },
          [&](D3DKMT_HANDLE made) { return client.destroy_device(made); }};
}

TEST_F(FullHandlesTest, WhatFindsNoHandleIsRefusedAndLeavesNothing) {
  DXGKIT_COVERS("THUNK-05");
  with_client([](Stack& stack, Client& client) {
    std::vector<Made> rows{
        device_for(client),
        {"an adapter",
         [&](D3DKMT_HANDLE* made) {
           D3DKMT_OPENADAPTERFROMLUID args{};
           args.AdapterLuid.LowPart = stack.luid.low;
           args.AdapterLuid.HighPart = stack.luid.high;
           const NTSTATUS status = client.call([&] { return D3DKMTOpenAdapterFromLuid(&args); });
           *made = args.hAdapter;
           return status;
         },
         [&](D3DKMT_HANDLE made) {
           const D3DKMT_CLOSEADAPTER args{.hAdapter = made};
           return client.call([&] { return D3DKMTCloseAdapter(&args); });
         }},
        {"a context",
         [&](D3DKMT_HANDLE* made) {
           ContextBuffers context;
           const NTSTATUS status = client.create_context(&context);
           *made = context.handle;
           return status;
         },
         [&](D3DKMT_HANDLE made) { return client.destroy_context(made); }},
        {"an allocation", [&](D3DKMT_HANDLE* made) { return client.create_allocation({}, made); },
         [&](D3DKMT_HANDLE made) { return client.destroy_allocation(made); }},
    };
    for (const bool mutex : {false, true}) {
      rows.push_back({mutex ? "a mutex" : "a semaphore",
                      [&, mutex](D3DKMT_HANDLE* made) {
                        D3DKMT_CREATESYNCHRONIZATIONOBJECT args{};
                        args.hDevice = client.device;
                        args.Info.Type = mutex ? D3DDDI_SYNCHRONIZATION_MUTEX : D3DDDI_SEMAPHORE;
                        if (!mutex) args.Info.Semaphore.MaxCount = 2;
                        const NTSTATUS status =
                            client.call([&] { return D3DKMTCreateSynchronizationObject(&args); });
                        *made = args.hSyncObject;
                        return status;
                      },
                      [&](D3DKMT_HANDLE made) {
                        const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT args{.hSyncObject = made};
                        return client.call(
                            [&] { return D3DKMTDestroySynchronizationObject(&args); });
                      }});
    }
    expect_all_or_nothing(stack, client, device_of(client), rows);
  });
}

TEST_F(FullHandlesTest, SoDoProcessesAndPagingQueues) {
  DXGKIT_COVERS("THUNK-05", "THUNK-30");
  running(
      [](Stack& stack) {
        ListingClient client(stack);
        // The driver has an object for each process with a device: it goes with the device.
        Client other(stack, "other", false);
        expect_all_or_nothing(stack, other, device_of(client), {device_for(other)});
        expect_all_or_nothing(stack, client, device_of(client),
                              {{"a paging queue",
                                [&](D3DKMT_HANDLE* made) {
                                  Queue queue;
                                  const NTSTATUS status = client.create_queue(&queue);
                                  *made = queue.handle;
                                  return status;
                                },
                                [&](D3DKMT_HANDLE made) { return client.destroy_queue(made); }}});
        stack.miniport.hooks = {};
      },
      explicit_residency);
}

}  // namespace
}  // namespace dxgkit::contract
