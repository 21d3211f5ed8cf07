// Protected sessions: what the driver makes, what its status does, who keeps them.
#include "dxgk/sync/protected_session.h"

#include <functional>
#include <memory>

#include "tests/contract/sync_fixture.h"

namespace dxgkit::contract {
namespace {

/// The two entries of the scripted driver, and what they were called with.
class SessionDriver {
 public:
  explicit SessionDriver(ScriptedMiniport& miniport) {
    current = this;
    miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_3;
    miniport.config.table = [this](DRIVER_INITIALIZATION_DATA& table) {
      if (!has_entries) return;
      table.DxgkDdiCreateProtectedSession = create;
      table.DxgkDdiDestroyProtectedSession = destroy;
    };
  }
  ~SessionDriver() { current = nullptr; }

  bool has_entries = true;
  NTSTATUS answer = STATUS_SUCCESS, destroy_answer = STATUS_SUCCESS;
  std::vector<HANDLE> created, destroyed;  // by the kernel's name; by the driver's
  std::vector<nt::Irql> irqls;

  static HANDLE name_of(HANDLE kernels) {
    return reinterpret_cast<HANDLE>(reinterpret_cast<uintptr_t>(kernels) + 0x9000);
  }

 private:
  static inline SessionDriver* current = nullptr;
  static NTSTATUS NTAPI create(const HANDLE, DXGKARG_CREATEPROTECTEDSESSION* args) {
    current->irqls.push_back(nt::CallFrame::current().irql());
    current->created.push_back(args->hProtectedSession);
    if (args->PrivateDriverDataSize != 0) static_cast<char*>(args->pPrivateDriverData)[0] = 'D';
    args->hProtectedSession = name_of(args->hProtectedSession);
    return current->answer;
  }
  static NTSTATUS NTAPI destroy(const HANDLE, const HANDLE session) {
    current->irqls.push_back(nt::CallFrame::current().irql());
    current->destroyed.push_back(session);
    return current->destroy_answer;
  }
};

class SessionTest : public ContractTest {
 protected:
  using Body = std::function<void(Stack&, SessionDriver&, Client&)>;
  static void with_sessions(const Body& body, bool has_entries = true) {
    std::unique_ptr<SessionDriver> driver;
    with_client([&](Stack& stack, Client& client) { body(stack, *driver, client); },
                [&](ScriptedMiniport& miniport) {
                  driver = std::make_unique<SessionDriver>(miniport);
                  driver->has_entries = has_entries;
                });
  }
};

struct Creation {
  explicit Creation(Client& client, D3DKMT_HANDLE fence) {
    args.hDevice = client.device;
    args.hSyncObject = fence;
    args.pPrivateDriverData = data;
    args.PrivateDriverDataSize = sizeof data;
    args.pPrivateRuntimeData = runtime;
    args.PrivateRuntimeDataSize = sizeof runtime;
  }
  NTSTATUS make(Client& client) {
    return client.call([&] { return D3DKMTCreateProtectedSession(&args); });
  }
  char data[4] = {'d', 'a', 't', 'a'};
  char runtime[2] = {'r', 't'};
  D3DKMT_CREATEPROTECTEDSESSION args{};
};

D3DKMT_HANDLE make_session(Client& client, const MonitoredFence& fence) {
  Creation creation(client, fence.handle);
  EXPECT_EQ(creation.make(client), 0);
  return creation.args.hHandle;
}

NTSTATUS destroy(Client& client, D3DKMT_HANDLE session) {
  D3DKMT_DESTROYPROTECTEDSESSION args{session};
  return client.call([&] { return D3DKMTDestroyProtectedSession(&args); });
}

D3DKMT_PROTECTED_SESSION_STATUS status_of(Client& client, D3DKMT_HANDLE session) {
  D3DKMT_QUERYPROTECTEDSESSIONSTATUS args{};
  args.hHandle = session;
  EXPECT_EQ(client.call([&] { return D3DKMTQueryProtectedSessionStatus(&args); }), 0);
  return args.Status;
}
constexpr auto kOk = D3DKMT_PROTECTED_SESSION_STATUS_OK;
constexpr auto kGone = D3DKMT_PROTECTED_SESSION_STATUS_INVALID;

/// The driver tells the status of a session, inside DxgkDdiEscape.
NTSTATUS tell(Stack& stack, Client& client, HANDLE session, uint32_t status) {
  NTSTATUS answer = -1;
  stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
    DXGKARGCB_PROTECTEDSESSIONSTATUS args{};
    args.hProtectedSession = session;
    args.Status = static_cast<DXGK_PROTECTED_SESSION_STATUS>(status);
    answer = stack.miniport.callbacks().DxgkCbSetProtectedSessionStatus(&args);
    return NTSTATUS{0};
  };
  D3DKMT_ESCAPE escape{};
  escape.hAdapter = client.adapter;
  escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
  EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
  stack.miniport.hooks.escape = {};
  stack.settle();
  return answer;
}

NTSTATUS open(Client& client, HANDLE handle, D3DKMT_HANDLE* out) {
  D3DKMT_OPENPROTECTEDSESSIONFROMNTHANDLE args{};
  args.hNtHandle = handle;
  const NTSTATUS status =
      client.call([&] { return D3DKMTOpenProtectedSessionFromNtHandle(&args); });
  *out = args.hHandle;
  return status;
}

int fd_of(HANDLE handle) { return static_cast<int>(reinterpret_cast<uintptr_t>(handle)); }

TEST_F(SessionTest, ASessionIsTheDriversUntilTheLastOneWhoHasItLetsGo) {
  DXGKIT_COVERS("OPT-07", "OPT-08");
  with_sessions([](Stack& stack, SessionDriver& driver, Client& maker) {
    const MonitoredFence fence = create_fence(maker, 0);
    const D3DKMT_HANDLE session = make_session(maker, fence);
    ASSERT_EQ(driver.created.size(), 1U);
    EXPECT_EQ(status_of(maker, session), kOk);
    HANDLE shared = nullptr;
    ASSERT_EQ(share(maker, {session}, &shared), 0);

    Client user(stack, "user");
    D3DKMT_QUERYPROTECTEDSESSIONINFOFROMNTHANDLE info{};
    info.hNtHandle = shared;
    const auto ask = [&] {
      return user.call([&] { return D3DKMTQueryProtectedSessionInfoFromNtHandle(&info); });
    };
    EXPECT_EQ(ask(), 0);
    EXPECT_EQ(info.PrivateDriverDataSize, 4U);
    EXPECT_EQ(info.PrivateRuntimeDataSize, 2U);
    char data[8] = {}, runtime[8] = {};
    info.pPrivateDriverData = data;
    info.pPrivateRuntimeData = runtime;
    info.PrivateDriverDataSize = 3;
    EXPECT_EQ(ask(), nt_status(Status::kBufferTooSmall));
    EXPECT_EQ(info.PrivateDriverDataSize, 3U);
    EXPECT_EQ(data[0], 0);
    info.PrivateDriverDataSize = sizeof data;
    info.PrivateRuntimeDataSize = sizeof runtime;
    EXPECT_EQ(ask(), 0);
    EXPECT_EQ(std::string(data), "Data") << "as the driver left it";
    EXPECT_EQ(std::string(runtime), "rt");
    EXPECT_EQ(info.PrivateRuntimeDataSize, 2U);

    D3DKMT_HANDLE opened = 0;
    ASSERT_EQ(open(user, shared, &opened), 0);
    EXPECT_EQ(status_of(user, opened), kOk);
    EXPECT_EQ(destroy(maker, session), 0);
    EXPECT_EQ(destroy(maker, session), kInvalid);
    EXPECT_EQ(destroy(user, opened), 0);
    EXPECT_EQ(driver.destroyed.size(), 0U) << "the descriptor holds it";
    close(fd_of(shared));
    ASSERT_EQ(open(user, shared, &opened), kBadHandle);
    EXPECT_EQ(driver.destroyed, std::vector<HANDLE>{SessionDriver::name_of(driver.created[0])});
    for (const nt::Irql irql : driver.irqls) EXPECT_EQ(irql, nt::kPassiveLevel);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(SessionTest, AChangeOfItsStatusCountsTheFence) {
  DXGKIT_COVERS("OPT-09", "OPT-11");
  with_sessions([](Stack& stack, SessionDriver& driver, Client& client) {
    const MonitoredFence fence = create_fence(client, 0, 5);
    const D3DKMT_HANDLE session = make_session(client, fence);
    const HANDLE name = driver.created[0];
    EXPECT_EQ(tell(stack, client, name, DXGK_PROTECTED_SESSION_STATUS_OK), 0);
    EXPECT_EQ(fence.value(), 5U) << "nothing new";
    EXPECT_EQ(tell(stack, client, name, DXGK_PROTECTED_SESSION_STATUS_INVALID), 0);
    EXPECT_EQ(fence.value(), 6U);
    EXPECT_EQ(status_of(client, session), kGone);
    EXPECT_EQ(tell(stack, client, name, DXGK_PROTECTED_SESSION_STATUS_OK), 0);
    EXPECT_EQ(fence.value(), 7U);
    EXPECT_EQ(status_of(client, session), kOk);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});

    EXPECT_EQ(tell(stack, client, name, 2), kInvalid) << "no such status";
    EXPECT_EQ(tell(stack, client, SessionDriver::name_of(name), 1), kInvalid)
        << "the driver's own name";
    EXPECT_EQ(destroy(client, session), 0);
    EXPECT_EQ(tell(stack, client, name, 1), kInvalid) << "it is gone";
    EXPECT_EQ(fence.value(), 7U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"OPT-11"});
  });
}

TEST_F(SessionTest, WrongArgumentsAreRefusedAndNothingChanges) {
  DXGKIT_COVERS("OPT-07", "THUNK-01", "THUNK-04", "THUNK-05");
  with_sessions([](Stack& stack, SessionDriver& driver, Client& client) {
    const MonitoredFence fence = create_fence(client, 0);
    const D3DKMT_HANDLE mutex = client.make_sync(D3DDDI_SYNCHRONIZATION_MUTEX);
    const D3DKMT_HANDLE session = make_session(client, fence);
    D3DKMT_CREATEPAGINGQUEUE paging{};
    paging.hDevice = client.device;
    ASSERT_EQ(client.call([&] { return D3DKMTCreatePagingQueue(&paging); }), 0);
    Client other(stack, "other");
    for (int i = 0; i < 3; ++i) static_cast<void>(other.make_device());
    const D3DKMT_HANDLE foreign = other.make_device();
    const Digest before = digest(stack, {&client, &other});
    const auto refused = [&](const char* what,
                             const std::function<void(D3DKMT_CREATEPROTECTEDSESSION&)>& change) {
      SCOPED_TRACE(what);
      Creation creation(client, fence.handle);
      creation.args.hHandle = 0x77;
      change(creation.args);
      EXPECT_EQ(creation.make(client), kInvalid);
      EXPECT_EQ(creation.args.hHandle, 0x77U);
    };
    refused("no device", [](auto& args) { args.hDevice = 0; });
    refused("another process's device", [&](auto& args) { args.hDevice = foreign; });
    refused("no fence", [](auto& args) { args.hSyncObject = 0; });
    refused("a mutex", [&](auto& args) { args.hSyncObject = mutex; });
    refused("a paging queue's fence", [&](auto& args) { args.hSyncObject = paging.hSyncObject; });
    refused("a device for a fence", [&](auto& args) { args.hSyncObject = client.device; });
    refused("too much data", [](auto& args) { args.PrivateDriverDataSize = (1U << 20) + 1; });
    refused("data that is not there",
            [](auto& args) { args.pPrivateRuntimeData = reinterpret_cast<void*>(0x10000); });
    EXPECT_EQ(client.call([] { return D3DKMTCreateProtectedSession(nullptr); }), kInvalid);
    EXPECT_EQ(destroy(client, client.device), kInvalid);
    EXPECT_EQ(destroy(other, session), kInvalid);
    D3DKMT_QUERYPROTECTEDSESSIONSTATUS status{.hHandle = fence.handle, .Status = kGone};
    EXPECT_EQ(client.call([&] { return D3DKMTQueryProtectedSessionStatus(&status); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client, &other}), before);
    EXPECT_EQ(driver.created.size(), 1U);

    // Descriptors of something else, and of nothing.
    D3DKMT_HANDLE opened = 0x77;
    EXPECT_EQ(open(client, nullptr, &opened), kBadHandle);
    const MonitoredFence nt = create_fence(client, sync_flag::kNt);
    HANDLE shared = nullptr;
    ASSERT_EQ(share(client, {nt.handle}, &shared), 0);
    EXPECT_EQ(open(client, shared, &opened), kTypeMismatch);
    D3DKMT_QUERYPROTECTEDSESSIONINFOFROMNTHANDLE info{};
    info.hNtHandle = shared;
    EXPECT_EQ(client.call([&] { return D3DKMTQueryProtectedSessionInfoFromNtHandle(&info); }),
              kTypeMismatch);
    close(fd_of(shared));
    // A session is no sync object.
    ASSERT_EQ(share(client, {session}, &shared), 0);
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE sync{};
    sync.hNtHandle = shared;
    EXPECT_EQ(client.call([&] { return D3DKMTOpenSyncObjectFromNtHandle(&sync); }), kTypeMismatch);
    close(fd_of(shared));
  });
  with_sessions(
      [](Stack& stack, SessionDriver&, Client& client) {
        const MonitoredFence fence = create_fence(client, 0);
        const Digest before = digest(stack, {&client});
        Creation creation(client, fence.handle);
        EXPECT_EQ(creation.make(client), nt_status(Status::kNotSupported));
        EXPECT_EQ(digest(stack, {&client}), before);
      },
      /*has_entries=*/false);
}

TEST_F(SessionTest, ARefusalOfTheDriverLeavesNothing) {
  DXGKIT_COVERS("OPT-07");
  with_sessions([](Stack& stack, SessionDriver& driver, Client& client) {
    const MonitoredFence fence = create_fence(client, 0);
    const size_t handles = client.handles();
    driver.answer = nt_status(Status::kInsufficientResources);
    Creation creation(client, fence.handle);
    EXPECT_EQ(creation.make(client), driver.answer);
    EXPECT_EQ(client.handles(), handles);
    EXPECT_EQ(driver.destroyed.size(), 0U);
    EXPECT_EQ(tell(stack, client, driver.created[0], 1), kInvalid);
    EXPECT_EQ(stack.only_finding().rule, "OPT-11");
  });
}

TEST_F(SessionTest, ASessionEndsWithItsDeviceItsProcessAndItsAdapter) {
  DXGKIT_COVERS("OPT-08", "OPT-10");
  with_sessions([](Stack& stack, SessionDriver& driver, Client& client) {
    make_session(client, create_fence(client, 0));
    const D3DKMT_HANDLE second = client.make_device();
    stack.blocking([&] { EXPECT_EQ(client.destroy_device(second), 0); });
    EXPECT_EQ(driver.destroyed.size(), 0U) << "another device";
    driver.destroy_answer = nt_status(Status::kUnsuccessful);
    stack.blocking([&] { EXPECT_EQ(client.destroy_device(client.device), 0); });
    EXPECT_EQ(driver.destroyed.size(), 1U);
    EXPECT_EQ(stack.only_finding().rule, "OPT-10");
  });
  with_sessions([](Stack& stack, SessionDriver& driver, Client& client) {
    const D3DKMT_HANDLE session = make_session(client, create_fence(client, 0));
    HANDLE shared = nullptr;
    ASSERT_EQ(share(client, {session}, &shared), 0);
    Client user(stack, "user", /*with_device=*/false);
    D3DKMT_HANDLE opened = 0;
    ASSERT_EQ(open(user, shared, &opened), 0);
    close(fd_of(shared));
    stack.blocking([&] { client.end(); });
    EXPECT_EQ(driver.destroyed.size(), 0U) << "the other process has it";
    EXPECT_EQ(status_of(user, opened), kOk);
    stack.blocking([&] { user.end(); });
    EXPECT_EQ(driver.destroyed.size(), 1U);
  });
  with_sessions([](Stack& stack, SessionDriver& driver, Client& client) {
    const D3DKMT_HANDLE session = make_session(client, create_fence(client, 0));
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    EXPECT_EQ(driver.destroyed.size(), 1U);
    EXPECT_EQ(status_of(client, session), kGone);
    EXPECT_EQ(destroy(client, session), 0);
    EXPECT_EQ(driver.destroyed.size(), 1U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
