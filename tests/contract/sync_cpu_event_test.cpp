// CPU events that only the driver sets: CPU notifications with SignalByKmd.
#include <sys/eventfd.h>

#include <cstring>
#include <map>

#include "tests/contract/sync_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr NTSTATUS kRefused = nt_status(Status::kNotSupported);
constexpr UINT kSignalByKmd = 1U << 8;

/// What the driver of the running test knows of events: table entries are plain functions.
struct DriverEvents {
  std::map<HANDLE, DXGKARG_CREATECPUEVENT> made;  // by the driver's handle
  std::vector<HANDLE> destroyed;
  NTSTATUS answer = 0;
};
DriverEvents* driver_events = nullptr;

NTSTATUS NTAPI create_event(HANDLE, DXGKARG_CREATECPUEVENT* args) {
  if (driver_events->answer != 0) return driver_events->answer;
  args->hKmdCpuEvent = reinterpret_cast<HANDLE>(uintptr_t{0x700} + driver_events->made.size());
  driver_events->made[args->hKmdCpuEvent] = *args;
  return 0;
}
NTSTATUS NTAPI destroy_event(HANDLE, HANDLE event) {
  driver_events->destroyed.push_back(event);
  return 0;
}

void entries(DRIVER_INITIALIZATION_DATA& table) {
  table.DxgkDdiCreateCpuEvent = create_event;
  table.DxgkDdiDestroyCpuEvent = destroy_event;
}

class CpuEvents : public ContractTest {
 protected:
  using Body = std::function<void(Stack&, Client&, DriverEvents&)>;
  static void with_events(const Body& body, uint32_t version = DXGKDDI_INTERFACE_VERSION_WDDM3_0) {
    DriverEvents events;
    driver_events = &events;
    with_client([&](Stack& stack, Client& client) { body(stack, client, events); },
                [&](ScriptedMiniport& miniport) {
                  miniport.config.version = version;
                  miniport.config.table = entries;
                });
    driver_events = nullptr;
  }
  static NTSTATUS create(Client& client, int event, D3DKMT_HANDLE* out, UINT flags = kSignalByKmd,
                         D3DDDI_SYNCHRONIZATIONOBJECT_TYPE type = D3DDDI_CPU_NOTIFICATION) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
    args.hDevice = client.device;
    args.Info.Type = type;
    args.Info.Flags.Value = flags;
    if (type == D3DDDI_CPU_NOTIFICATION)
      args.Info.CPUNotification.Event = reinterpret_cast<HANDLE>(static_cast<intptr_t>(event));
    const NTSTATUS status = client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); });
    *out = args.hSyncObject;
    return status;
  }
  /// Runs `body` as the driver, inside DxgkDdiEscape.
  static void in_driver(Stack& stack, Client& client, const std::function<void()>& body) {
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      body();
      return NTSTATUS{0};
    };
    D3DKMT_ESCAPE args{};
    args.hAdapter = client.adapter;
    args.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    uint32_t data = 0;
    args.pPrivateDriverData = &data;
    args.PrivateDriverDataSize = sizeof data;
    EXPECT_EQ(client.call([&] { return D3DKMTEscape(&args); }), 0);
    stack.miniport.hooks.escape = nullptr;
  }
  static NTSTATUS signal(Stack& stack, HANDLE event, HANDLE process = nullptr, UINT flags = 1) {
    DXGKARGCB_SIGNALEVENT args{};
    args.hDxgkProcess = process;
    args.hEvent = event;
    args.Flags = flags;
    return stack.miniport.callbacks().DxgkCbSignalEvent(&args);
  }
  static uint64_t count(int event) {
    eventfd_t value = 0;
    return eventfd_read(event, &value) == 0 ? value : 0;
  }
};

TEST_F(CpuEvents, TheDriverSetsTheEventUntilTheObjectIsDestroyed) {
  DXGKIT_COVERS("SYNC-24", "SYNC-42");
  with_events([](Stack& stack, Client& client, DriverEvents& events) {
    const int event = eventfd(0, EFD_NONBLOCK);
    D3DKMT_HANDLE object = 0;
    ASSERT_EQ(create(client, event, &object), 0);
    ASSERT_EQ(events.made.size(), 1U);
    const auto& [handle, made] = *events.made.begin();
    EXPECT_NE(made.hKmdDevice, nullptr);
    EXPECT_NE(made.hDxgCpuEvent, nullptr);
    EXPECT_EQ(made.Flags.Value, 0U);
    in_driver(stack, client, [&] { EXPECT_EQ(signal(stack, made.hDxgCpuEvent), 0); });
    EXPECT_EQ(count(event), 1U);
    EXPECT_EQ(destroy_sync(client, object), 0);
    EXPECT_EQ(events.destroyed, std::vector<HANDLE>{handle});
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    in_driver(stack, client, [&] { EXPECT_EQ(signal(stack, made.hDxgCpuEvent), kInvalid); });
    EXPECT_EQ(count(event), 0U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"SYNC-42"}) << "after its destruction";
    close(event);
  });
}

TEST_F(CpuEvents, QueuesAndThreadsOfClientsLeaveItAlone) {
  DXGKIT_COVERS("SYNC-24", "THUNK-05");
  with_events([](Stack& stack, Client& client, DriverEvents&) {
    const int event = eventfd(0, EFD_NONBLOCK);
    D3DKMT_HANDLE object = 0;
    ASSERT_EQ(create(client, event, &object), 0);
    ContextBuffers context = client.make_context();
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.signal_gpu(context, object, 1), kInvalid);
    EXPECT_EQ(client.wait_gpu(context, object, 1), kInvalid);
    EXPECT_EQ(client.signal_cpu(object, 1), kInvalid);
    EXPECT_EQ(client.wait_cpu(object, 1), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(count(event), 0U);
    close(event);
  });
}

TEST_F(CpuEvents, OnlyUnsharedCpuNotificationsAreTheDrivers) {
  DXGKIT_COVERS("SYNC-24", "THUNK-05");
  with_events([](Stack& stack, Client& client, DriverEvents& events) {
    const int event = eventfd(0, EFD_NONBLOCK);
    const Digest before = digest(stack, {&client});
    D3DKMT_HANDLE object = 0;
    for (const auto type :
         {D3DDDI_SYNCHRONIZATION_MUTEX, D3DDDI_SEMAPHORE, D3DDDI_FENCE, D3DDDI_MONITORED_FENCE})
      EXPECT_EQ(create(client, event, &object, kSignalByKmd, type), kInvalid) << type;
    EXPECT_EQ(create(client, event, &object, kSignalByKmd | sync_flag::kShared), kInvalid);
    EXPECT_EQ(object, 0U);
    EXPECT_TRUE(events.made.empty());
    EXPECT_EQ(digest(stack, {&client}), before);
    events.answer = nt_status(Status::kNoMemory);
    EXPECT_EQ(create(client, event, &object), nt_status(Status::kNoMemory)) << "the driver's";
    EXPECT_EQ(object, 0U);
    EXPECT_TRUE(events.destroyed.empty());
    close(event);
  });
  with_events(
      [](Stack&, Client& client, DriverEvents&) {
        const int event = eventfd(0, EFD_NONBLOCK);
        D3DKMT_HANDLE object = 0;
        EXPECT_EQ(create(client, event, &object), kRefused) << "an entry of WDDM 3.0";
        close(event);
      },
      DXGKDDI_INTERFACE_VERSION_WDDM2_9);
}

TEST_F(CpuEvents, AWrongSignalIsTheDriversMistake) {
  DXGKIT_COVERS("SYNC-42");
  with_events([](Stack& stack, Client& client, DriverEvents& events) {
    const int event = eventfd(0, EFD_NONBLOCK);
    D3DKMT_HANDLE object = 0;
    ASSERT_EQ(create(client, event, &object), 0);
    const HANDLE known = events.made.begin()->second.hDxgCpuEvent;
    in_driver(stack, client, [&] {
      EXPECT_EQ(signal(stack, nullptr), kInvalid);
      EXPECT_EQ(signal(stack, events.made.begin()->first), kInvalid) << "its own handle";
      EXPECT_EQ(signal(stack, known, known), kInvalid) << "hDxgkProcess";
      EXPECT_EQ(signal(stack, known, nullptr, 3), kInvalid) << "a reserved flag";
      EXPECT_EQ(stack.findings.count("SYNC-42"), 4U);
      EXPECT_EQ(signal(stack, known, nullptr, 0), kRefused) << "an event of a process";
      EXPECT_EQ(stack.miniport.callbacks().DxgkCbSignalEvent(nullptr), kInvalid);
    });
    EXPECT_EQ(stack.findings.count("SYNC-42"), 4U);
    EXPECT_EQ(count(event), 0U);
    close(event);
  });
}

TEST_F(CpuEvents, AKnownEscapeTellsTheDriverWhatTheEventIsFor) {
  DXGKIT_COVERS("SYNC-43", "THUNK-05");
  with_events([](Stack& stack, Client& client, DriverEvents& events) {
    Client other(stack, "other");
    const int event = eventfd(0, EFD_NONBLOCK);
    D3DKMT_HANDLE object = 0, plain = 0;
    ASSERT_EQ(create(client, event, &object), 0);
    ASSERT_EQ(create(client, event, &plain, 0), 0);
    D3DDDI_DRIVERESCAPE_CPUEVENTUSAGE seen{};
    size_t calls = 0;
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE* args) {
      ++calls;
      EXPECT_EQ(args->PrivateDriverDataSize, sizeof seen);
      std::memcpy(&seen, args->pPrivateDriverData, sizeof seen);
      return NTSTATUS{0};
    };
    const auto escape = [&](Client& from, D3DKMT_HANDLE which, int type = 2,
                            UINT bytes = sizeof seen) {
      D3DDDI_DRIVERESCAPE_CPUEVENTUSAGE usage{};
      usage.EscapeType = static_cast<D3DDDI_DRIVERESCAPETYPE>(type);
      usage.hSyncObject = which;
      usage.hKmdCpuEvent = 0xBAD;
      usage.Usage[0] = 7;
      D3DKMT_ESCAPE args{};
      args.hAdapter = from.adapter;
      args.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
      args.Flags.Value = 1U << 6;  // DriverKnownEscape
      args.pPrivateDriverData = &usage;
      args.PrivateDriverDataSize = bytes;
      return from.call([&] { return D3DKMTEscape(&args); });
    };
    EXPECT_EQ(escape(client, object), 0);
    EXPECT_EQ(seen.hKmdCpuEvent, reinterpret_cast<uintptr_t>(events.made.begin()->first));
    EXPECT_EQ(seen.Usage[0], 7U);
    const Digest before = digest(stack, {&client, &other});
    EXPECT_EQ(escape(client, plain), kInvalid) << "not the driver's";
    EXPECT_EQ(escape(client, client.device), kInvalid);
    EXPECT_EQ(escape(other, object), kInvalid) << "another process's handle";
    EXPECT_EQ(escape(client, object, 2, sizeof seen - 4), kInvalid);
    EXPECT_EQ(escape(client, object, 2, 2), kInvalid);
    EXPECT_EQ(escape(client, object, 0), kRefused);
    EXPECT_EQ(calls, 1U);
    EXPECT_EQ(digest(stack, {&client, &other}), before);
    stack.miniport.hooks.escape = nullptr;
    close(event);
  });
}

// The driver gets all its events back: with a device, and when the adapter stops first.
TEST_F(CpuEvents, EventsEndWithTheirDeviceAndWithTheAdapter) {
  DXGKIT_COVERS("SYNC-24");
  for (const bool stop_first : {false, true}) {
    SCOPED_TRACE(stop_first);
    with_events([&](Stack& stack, Client& client, DriverEvents& events) {
      const int event = eventfd(0, EFD_NONBLOCK);
      D3DKMT_HANDLE objects[2] = {};
      for (D3DKMT_HANDLE& object : objects) ASSERT_EQ(create(client, event, &object), 0);
      if (stop_first) {
        EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess);
      } else {
        EXPECT_EQ(client.destroy_device(client.device), 0);
      }
      EXPECT_EQ(events.destroyed.size(), 2U);
      client.end();
      EXPECT_EQ(events.destroyed.size(), 2U) << "once";
      close(event);
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
