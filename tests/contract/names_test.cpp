// Adapters, screens and shared objects by name; who owns screens, and what they show.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <set>

#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "tests/contract/flip_fixture.h"
#include "tests/contract/two_adapters.h"
#include "thunks/client.h"

namespace dxgkit::contract {
namespace {

constexpr NTSTATUS kRefused = nt_status(Status::kNotSupported);
constexpr NTSTATUS kTooSmall = nt_status(Status::kBufferTooSmall);
constexpr NTSTATUS kCollision = static_cast<NTSTATUS>(0xC0000035);
constexpr NTSTATUS kMismatch = static_cast<NTSTATUS>(0xC0000024);

HANDLE own_process() { return reinterpret_cast<HANDLE>(static_cast<intptr_t>(-1)); }

using Names = ContractTest;

/// A full driver with two sources on two outputs.
void with_screens(const std::function<void(Stack&, FlipDriver&, FlipClient&)>& body) {
  runtime::make_sim_runtime(1)->run_main([&] {
    Stack stack;
    FlipDriver driver(stack, 2);
    stack.miniport.config.children = 2;
    driver.display.config.children = {{.uid = kTarget}, {.uid = 2}};
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver, 0, false);
      body(stack, driver, client);
    }
    stack.miniport.hooks = {};
  });
}

NTSTATUS close_adapter(Client& client, D3DKMT_HANDLE adapter) {
  D3DKMT_CLOSEADAPTER args{adapter};
  return client.call([&] { return D3DKMTCloseAdapter(&args); });
}

D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME gdi(std::u16string_view name) {
  D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME args{};
  std::ranges::copy(name, args.DeviceName);
  return args;
}

TEST_F(Names, AScreenIsFoundByItsName) {
  DXGKIT_COVERS("THUNK-45", "THUNK-05");
  with_screens([](Stack& stack, FlipDriver&, FlipClient& client) {
    EXPECT_EQ(thunks::screen_name(*stack.system, stack.luid, 0), u"\\\\.\\DISPLAY1");
    EXPECT_EQ(thunks::screen_name(*stack.system, stack.luid, 1), u"\\\\.\\DISPLAY2");
    EXPECT_EQ(thunks::screen_name(*stack.system, stack.luid, 2), u"");
    for (UINT source = 0; source < 2; ++source) {
      auto args = gdi(thunks::screen_name(*stack.system, stack.luid, source));
      EXPECT_EQ(client.call([&] { return D3DKMTOpenAdapterFromGdiDisplayName(&args); }), 0);
      EXPECT_EQ(args.AdapterLuid.LowPart, stack.luid.low);
      EXPECT_EQ(args.VidPnSourceId, source);
      EXPECT_EQ(close_adapter(client, args.hAdapter), 0);
    }
    const Digest before = digest(stack, {&client});
    for (const char16_t* name :
         {u"", u"DISPLAY1", u"\\\\.\\DISPLAY", u"\\\\.\\DISPLAY0", u"\\\\.\\DISPLAY3",
          u"\\\\.\\DISPLAY01", u"\\\\.\\DISPLAY1 ", u"\\\\.\\DISPLAY4294967297"}) {
      auto args = gdi(name);
      EXPECT_EQ(client.call([&] { return D3DKMTOpenAdapterFromGdiDisplayName(&args); }), kInvalid);
      EXPECT_EQ(args.hAdapter, 0U);
    }
    D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME endless{};
    std::ranges::fill(endless.DeviceName, u'A');
    EXPECT_EQ(client.call([&] { return D3DKMTOpenAdapterFromGdiDisplayName(&endless); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(Names, AContextOfAScreenNamesIt) {
  DXGKIT_COVERS("THUNK-45", "THUNK-05");
  with_screens([](Stack& stack, FlipDriver&, FlipClient& client) {
    const uint64_t context = thunks::make_screen_context(*stack.system, stack.luid, 1);
    ASSERT_NE(context, 0U);
    EXPECT_EQ(thunks::make_screen_context(*stack.system, stack.luid, 2), 0U);
    D3DKMT_OPENADAPTERFROMHDC args{};
    const auto open = [&](uint64_t number) {
      args = {};
      args.hDc = std::bit_cast<HDC>(number);
      return client.call([&] { return D3DKMTOpenAdapterFromHdc(&args); });
    };
    EXPECT_EQ(open(context), 0);
    EXPECT_EQ(args.VidPnSourceId, 1U);
    EXPECT_EQ(args.AdapterLuid.LowPart, stack.luid.low);
    EXPECT_EQ(close_adapter(client, args.hAdapter), 0);
    EXPECT_EQ(open(0), kInvalid);
    EXPECT_EQ(open(context + 1), kInvalid);
    EXPECT_TRUE(thunks::delete_screen_context(*stack.system, context));
    EXPECT_FALSE(thunks::delete_screen_context(*stack.system, context));
    EXPECT_EQ(open(context), kInvalid);
    EXPECT_EQ(args.hAdapter, 0U);
  });
}

TEST_F(Names, AnAdapterIsFoundByItsPath) {
  DXGKIT_COVERS("THUNK-45", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const SecondAdapter second(stack);
    const std::u16string path = thunks::device_interface_path(*stack.system, second.luid);
    EXPECT_NE(path, thunks::device_interface_path(*stack.system, stack.luid));
    std::u16string other = path;
    for (char16_t& unit : other) {
      if (unit >= u'a' && unit <= u'z') unit = static_cast<char16_t>(unit - 32);
    }
    for (const std::u16string& name : {path, other}) {
      D3DKMT_OPENADAPTERFROMDEVICENAME args{};
      args.pDeviceName = name.c_str();
      EXPECT_EQ(client.call([&] { return D3DKMTOpenAdapterFromDeviceName(&args); }), 0);
      EXPECT_EQ(args.AdapterLuid.LowPart, second.luid.low);
      EXPECT_EQ(close_adapter(client, args.hAdapter), 0);
    }
    const Digest before = digest(stack, {&client});
    const std::u16string endless(400, u'A');
    for (const char16_t* bad :
         {static_cast<const char16_t*>(nullptr), reinterpret_cast<const char16_t*>(uintptr_t{0x10}),
          u"", path.c_str() + 1, endless.c_str()}) {
      D3DKMT_OPENADAPTERFROMDEVICENAME args{};
      args.pDeviceName = bad;
      EXPECT_EQ(client.call([&] { return D3DKMTOpenAdapterFromDeviceName(&args); }), kInvalid);
      EXPECT_EQ(args.hAdapter, 0U);
    }
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(Names, ListsFollowTheFilter) {
  DXGKIT_COVERS("THUNK-46", "THUNK-09", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const SecondAdapter compute(stack, [](ScriptedMiniport& miniport) {
      miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_6;
      miniport.config.caps = [](DXGK_DRIVERCAPS& caps) {
        caps.WDDMVersion = DXGKDDI_WDDMv1_3;
        caps.MiscCaps.ComputeOnly = 1;
      };
    });
    D3DKMT_ENUMADAPTERS all{};
    EXPECT_EQ(client.call([&] { return D3DKMTEnumAdapters(&all); }), 0);
    ASSERT_EQ(all.NumAdapters, 2U);
    EXPECT_EQ(all.Adapters[1].AdapterLuid.LowPart, compute.luid.low);
    for (ULONG i = 0; i < all.NumAdapters; ++i)
      EXPECT_EQ(close_adapter(client, all.Adapters[i].hAdapter), 0);

    D3DKMT_ADAPTERINFO infos[2] = {};
    D3DKMT_ENUMADAPTERS3 args{};
    const auto list = [&](ULONGLONG filter, ULONG room, D3DKMT_ADAPTERINFO* out) {
      args = {};
      args.Filter.Value = filter;
      args.NumAdapters = room;
      args.pAdapters = out;
      return client.call([&] { return D3DKMTEnumAdapters3(&args); });
    };
    EXPECT_EQ(list(0, 0, nullptr), 0);
    EXPECT_EQ(args.NumAdapters, 1U);
    EXPECT_EQ(list(1, 0, nullptr), 0);
    EXPECT_EQ(args.NumAdapters, 2U) << "IncludeComputeOnly";
    EXPECT_EQ(list(0, 2, infos), 0);
    EXPECT_EQ(args.NumAdapters, 1U);
    EXPECT_EQ(infos[0].AdapterLuid.LowPart, stack.luid.low);
    EXPECT_EQ(close_adapter(client, infos[0].hAdapter), 0);
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(list(1, 1, infos), kTooSmall);
    EXPECT_EQ(list(8, 2, infos), kInvalid) << "a reserved bit";
    EXPECT_EQ(list(1, 2, reinterpret_cast<D3DKMT_ADAPTERINFO*>(uintptr_t{0x10})), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

// What a list says of each adapter, and that it is written whole or not at all.
TEST_F(Names, ListsSayHowManySourcesThereAre) {
  DXGKIT_COVERS("THUNK-46", "THUNK-09", "THUNK-05");
  with_screens([](Stack& stack, FlipDriver&, FlipClient& client) {
    const SecondAdapter other(stack);
    D3DKMT_ENUMADAPTERS all{};
    ASSERT_EQ(client.call([&] { return D3DKMTEnumAdapters(&all); }), 0);
    D3DKMT_ADAPTERINFO infos[2] = {};
    D3DKMT_ENUMADAPTERS3 three{};
    three.NumAdapters = 2;
    three.pAdapters = infos;
    ASSERT_EQ(client.call([&] { return D3DKMTEnumAdapters3(&three); }), 0);
    ASSERT_EQ(all.NumAdapters, 2U);
    ASSERT_EQ(three.NumAdapters, 2U);
    for (const size_t i : {size_t{0}, size_t{1}}) {
      for (const D3DKMT_ADAPTERINFO& info : {all.Adapters[i], infos[i]}) {
        EXPECT_EQ(info.NumOfSources, i == 0 ? 2U : 0U);
        EXPECT_EQ(info.AdapterLuid.LowPart, i == 0 ? stack.luid.low : other.luid.low);
        EXPECT_EQ(close_adapter(client, info.hAdapter), 0);
      }
    }
    // There is room for one that can be written, and none for the other.
    auto* const pages = static_cast<std::byte*>(
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    auto* const list = reinterpret_cast<D3DKMT_ADAPTERINFO*>(pages + 4096 - sizeof infos[0]);
    const Digest before = digest(stack, {&client});
    three.pAdapters = list;
    EXPECT_EQ(client.call([&] { return D3DKMTEnumAdapters3(&three); }), kInvalid);
    D3DKMT_ENUMADAPTERS2 two{2, list};
    EXPECT_EQ(client.call([&] { return D3DKMTEnumAdapters2(&two); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    munmap(pages, 8192);
  });
}

TEST_F(Names, AScreenSaysItsModes) {
  DXGKIT_COVERS("THUNK-47", "THUNK-41", "THUNK-05");
  with_screens([](Stack& stack, FlipDriver&, FlipClient& client) {
    D3DKMT_GETDISPLAYMODELIST args{};
    D3DKMT_DISPLAYMODE modes[3] = {};
    const auto list = [&](UINT source, UINT room, D3DKMT_DISPLAYMODE* out) {
      args = {};
      args.hAdapter = client.adapter;
      args.VidPnSourceId = source;
      args.ModeCount = room;
      args.pModeList = out;
      return client.call([&] { return D3DKMTGetDisplayModeList(&args); });
    };
    EXPECT_EQ(list(0, 0, nullptr), 0);
    EXPECT_EQ(args.ModeCount, 2U);
    EXPECT_EQ(list(0, 3, modes), 0);
    EXPECT_EQ(args.ModeCount, 2U);
    EXPECT_EQ(list(0, 2, modes), 0) << "as many as there are";
    EXPECT_EQ(args.ModeCount, 2U);
    EXPECT_EQ(modes[0].IntegerRefreshRate, 60U);
    EXPECT_EQ(modes[0].ScanLineOrdering, D3DDDI_VSSLO_PROGRESSIVE);
    const std::set<UINT> widths = {modes[0].Width, modes[1].Width};
    EXPECT_EQ(widths, (std::set<UINT>{32, kWidth}));
    EXPECT_EQ(modes[1].IntegerRefreshRate, 60U) << "as the driver offered it for the output";
    EXPECT_EQ(modes[1].ScanLineOrdering, D3DDDI_VSSLO_PROGRESSIVE);
    EXPECT_EQ(modes[2].Width, 0U);
    D3DKMT_QUERYADAPTERINFO query{};
    D3DKMT_CURRENTDISPLAYMODE current{};
    query.hAdapter = client.adapter;
    query.Type = KMTQAITYPE_CURRENTDISPLAYMODE;
    query.pPrivateDriverData = &current;
    query.PrivateDriverDataSize = sizeof current;
    EXPECT_EQ(client.call([&] { return D3DKMTQueryAdapterInfo(&query); }), 0);
    EXPECT_EQ(std::memcmp(&current.DisplayMode, &modes[0], sizeof modes[0]), 0);
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(list(0, 1, modes), kTooSmall);
    EXPECT_EQ(list(2, 3, modes), kInvalid);
    EXPECT_EQ(list(0, 3, reinterpret_cast<D3DKMT_DISPLAYMODE*>(uintptr_t{0x10})), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(Names, AProcessKnowsAndGivesUpItsSources) {
  DXGKIT_COVERS("THUNK-48", "THUNK-05");
  with_screens([](Stack& stack, FlipDriver&, FlipClient& client) {
    D3DKMT_QUERYVIDPNEXCLUSIVEOWNERSHIP owned{};
    const auto ask = [&] {
      owned.hProcess = own_process();
      EXPECT_EQ(client.call([&] { return D3DKMTQueryVidPnExclusiveOwnership(&owned); }), 0);
      return owned.OwnerType;
    };
    EXPECT_EQ(ask(), D3DKMT_VIDPNSOURCEOWNER_UNOWNED);
    EXPECT_EQ(owned.VidPnSourceId, D3DDDI_ID_UNINITIALIZED);
    const D3DKMT_VIDPNSOURCEOWNER_TYPE type = D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE;
    const UINT source = 1;
    D3DKMT_SETVIDPNSOURCEOWNER1 one{};
    one.Version0 = {client.device, &type, &source, 1};
    const auto set = [&](UINT flags) {
      one.Flags.Value = flags;
      NTSTATUS status = 0;
      stack.blocking(
          [&] { status = client.call([&] { return D3DKMTSetVidPnSourceOwner1(&one); }); });
      return status;
    };
    // A source that is emulated is owned, and not exclusively.
    const D3DKMT_VIDPNSOURCEOWNER_TYPE emulated = D3DKMT_VIDPNSOURCEOWNER_EMULATED;
    one.Version0.pType = &emulated;
    EXPECT_EQ(set(0), 0);
    EXPECT_EQ(ask(), D3DKMT_VIDPNSOURCEOWNER_UNOWNED);
    const D3DKMT_VIDPNSOURCEOWNER_TYPE nobody = D3DKMT_VIDPNSOURCEOWNER_UNOWNED;
    one.Version0.pType = &nobody;
    EXPECT_EQ(set(0), 0);
    one.Version0.pType = &type;
    EXPECT_EQ(set(4), kInvalid) << "NT handles";
    EXPECT_EQ(set(8), kInvalid) << "a reserved bit";
    EXPECT_EQ(ask(), D3DKMT_VIDPNSOURCEOWNER_UNOWNED);
    EXPECT_EQ(set(3), 0);
    EXPECT_EQ(ask(), D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE);
    EXPECT_EQ(owned.VidPnSourceId, 1U);
    EXPECT_EQ(owned.AdapterLuid.LowPart, stack.luid.low);
    const auto release = [&](HANDLE process) {
      NTSTATUS status = 0;
      stack.blocking([&] {
        status = client.call([&] { return D3DKMTReleaseProcessVidPnSourceOwners(process); });
      });
      return status;
    };
    EXPECT_EQ(release(nullptr), kInvalid);
    EXPECT_EQ(ask(), D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE);
    EXPECT_EQ(release(own_process()), 0);
    EXPECT_EQ(ask(), D3DKMT_VIDPNSOURCEOWNER_UNOWNED);
    D3DKMT_SETVIDPNSOURCEOWNER2 two{};
    two.Version1 = one;
    two.Version1.Flags.Value = 0;
    const auto set2 = [&](UINT flags, bool handles) {
      const D3DKMT_PTR_TYPE handle = 0;
      two.Version1.Flags.Value = flags;
      two.pVidPnSourceNtHandles = handles ? &handle : nullptr;
      NTSTATUS status = 0;
      stack.blocking(
          [&] { status = client.call([&] { return D3DKMTSetVidPnSourceOwner2(&two); }); });
      return status;
    };
    EXPECT_EQ(set2(4, true), kRefused);
    EXPECT_EQ(set2(0, true), kInvalid);
    EXPECT_EQ(set2(8, false), kInvalid);
    EXPECT_EQ(ask(), D3DKMT_VIDPNSOURCEOWNER_UNOWNED);
    EXPECT_EQ(set2(3, false), 0) << "what changes nothing here";
    EXPECT_EQ(ask(), D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE);
    owned.hWindow = reinterpret_cast<HWND>(uintptr_t{5});
    EXPECT_EQ(client.call([&] { return D3DKMTQueryVidPnExclusiveOwnership(&owned); }), kInvalid);
  });
}

TEST_F(Names, AWindowIsOccludedIfAllItsScreensHaveOwners) {
  DXGKIT_COVERS("THUNK-60", "THUNK-05");
  with_screens([](Stack& stack, FlipDriver&, FlipClient& client) {
    constexpr NTSTATUS kOccluded = static_cast<NTSTATUS>(0xC01E0006);
    dxgk::System& system = *stack.system;
    const dxgk::Screen first{stack.luid, 0}, second{stack.luid, 1};
    const uint64_t on_first = thunks::make_window(system, {first});
    const uint64_t on_both = thunks::make_window(system, {first, second});
    const uint64_t empty = thunks::make_window(system, {});
    EXPECT_EQ(thunks::make_window(system, {first, {stack.luid, 2}}), 0U);
    const auto check = [&](uint64_t window) {
      const D3DKMT_CHECKOCCLUSION args{std::bit_cast<HWND>(window)};
      return client.call([&] { return D3DKMTCheckOcclusion(&args); });
    };
    const auto own = [&](UINT sources) {
      const D3DKMT_VIDPNSOURCEOWNER_TYPE type[] = {D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE,
                                                   D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE};
      const UINT ids[] = {0, 1};
      D3DKMT_SETVIDPNSOURCEOWNER set{};
      set.hDevice = client.device;
      set.pType = sources == 0 ? nullptr : type;
      set.pVidPnSourceId = sources == 0 ? nullptr : ids;
      set.VidPnSourceCount = sources;
      NTSTATUS status = -1;
      stack.blocking(
          [&] { status = client.call([&] { return D3DKMTSetVidPnSourceOwner(&set); }); });
      return status;
    };
    for (const uint64_t window : {on_first, on_both, empty}) EXPECT_EQ(check(window), 0);
    ASSERT_EQ(own(1), 0);
    EXPECT_EQ(check(on_first), kOccluded);
    EXPECT_EQ(check(on_both), 0) << "a part of it is on a screen that nobody owns";
    ASSERT_EQ(own(0), 0);
    ASSERT_EQ(own(2), 0);
    EXPECT_EQ(check(on_both), kOccluded);
    EXPECT_EQ(check(empty), 0);
    ASSERT_EQ(own(0), 0);
    EXPECT_EQ(check(on_both), 0);
    const Digest before = digest(stack, {&client});
    for (const uint64_t number : {uint64_t{0}, uint64_t{5}, empty + 1})
      EXPECT_EQ(check(number), kInvalid);
    EXPECT_TRUE(thunks::delete_window(system, on_first));
    EXPECT_FALSE(thunks::delete_window(system, on_first));
    EXPECT_EQ(check(on_first), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(Names, OutputsAreAskedWhenAClientPolls) {
  DXGKIT_COVERS("THUNK-49", "THUNK-05");
  with_screens([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    D3DKMT_POLLDISPLAYCHILDREN args{};
    args.hAdapter = client.adapter;
    const auto poll = [&] {
      const size_t before = driver.display.calls().count("DxgkDdiQueryChildStatus");
      NTSTATUS status = 0;
      stack.blocking(
          [&] { status = client.call([&] { return D3DKMTPollDisplayChildren(&args); }); });
      EXPECT_EQ(status, 0);
      return driver.display.calls().count("DxgkDdiQueryChildStatus") - before;
    };
    EXPECT_EQ(poll(), 0U) << "they report by themselves";
    args.PollInterruptible = 1;
    EXPECT_EQ(poll(), 2U);
    args.PollAllAdapters = 1;
    args.hAdapter = 0;
    EXPECT_EQ(poll(), 2U);
    args.Reserved = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTPollDisplayChildren(&args); }), kInvalid);
  });
}

// The function is one for drivers before WDDM 1.1, and for adapters with screens.
TEST_F(Names, ANewerDriverIsNotAskedForAnotherVidPn) {
  DXGKIT_COVERS("THUNK-61");
  with_screens([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const auto calls = [&] {
      const auto all = driver.display.calls();
      return all.count("DxgkDdiRecommendFunctionalVidPn") + all.count("DxgkDdiCommitVidPn");
    };
    const Digest before = digest(stack, {&client});
    const size_t asked = calls();
    D3DKMT_INVALIDATEACTIVEVIDPN invalidate{};
    invalidate.hAdapter = client.adapter;
    EXPECT_EQ(client.call([&] { return D3DKMTInvalidateActiveVidPn(&invalidate); }), kRefused);
    EXPECT_EQ(calls(), asked);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
  with_client([](Stack& stack, Client& client) {
    static_cast<void>(stack);
    D3DKMT_INVALIDATEACTIVEVIDPN invalidate{};
    invalidate.hAdapter = client.adapter;
    EXPECT_EQ(client.call([&] { return D3DKMTInvalidateActiveVidPn(&invalidate); }),
              static_cast<NTSTATUS>(0xC01E0002));
  });
}

// --- shared objects

int fd_of(HANDLE handle) { return static_cast<int>(reinterpret_cast<uintptr_t>(handle)); }

D3DKMT_HANDLE shared_fence(Client& client) {
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
  args.hDevice = client.device;
  args.Info.Type = D3DDDI_FENCE;
  args.Info.Flags.Shared = 1;
  args.Info.Flags.NtSecuritySharing = 1;
  EXPECT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); }), 0);
  return args.hSyncObject;
}

/// Object attributes with a name.
struct Attributes {
  explicit Attributes(std::u16string text_in) : text(std::move(text_in)) {
    const auto bytes = static_cast<USHORT>(text.size() * sizeof(char16_t));
    name = {bytes, bytes, text.data()};
    attributes.Length = sizeof attributes;
    attributes.ObjectName = &name;
  }
  std::u16string text;
  UNICODE_STRING name{};
  OBJECT_ATTRIBUTES attributes{};
};

NTSTATUS share(Client& client, D3DKMT_HANDLE object, Attributes& name, HANDLE* out) {
  return client.call(
      [&] { return D3DKMTShareObjects(1, &object, &name.attributes, 0x1000'0000, out); });
}

NTSTATUS open_sync(Client& client, Attributes& name, HANDLE* out, DWORD access = 0x1000'0000) {
  D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME args{access, &name.attributes, nullptr};
  const NTSTATUS status = client.call([&] { return D3DKMTOpenSyncObjectNtHandleFromName(&args); });
  *out = args.hNtHandle;
  return status;
}

NTSTATUS use_sync(Client& client, HANDLE handle) {
  D3DKMT_OPENSYNCOBJECTFROMNTHANDLE args{};
  args.hNtHandle = handle;
  return client.call([&] { return D3DKMTOpenSyncObjectFromNtHandle(&args); });
}

TEST_F(Names, ASharedObjectIsFoundByNameWhileADescriptorIsOpen) {
  DXGKIT_COVERS("THUNK-50", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    Client other(stack, "other");
    Attributes name(u"fence of the game");
    const D3DKMT_HANDLE fence = shared_fence(client);
    HANDLE first = nullptr, second = nullptr;
    EXPECT_EQ(open_sync(other, name, &second), kInvalid) << "nothing has the name";
    ASSERT_EQ(share(client, fence, name, &first), 0);
    ASSERT_EQ(open_sync(other, name, &second), 0);
    EXPECT_NE(fd_of(first), fd_of(second));
    close(fd_of(first));
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy{fence};
    EXPECT_EQ(client.call([&] { return D3DKMTDestroySynchronizationObject(&destroy); }), 0);
    EXPECT_EQ(use_sync(other, second), 0) << "the second descriptor holds it";
    HANDLE third = nullptr;
    EXPECT_EQ(open_sync(client, name, &third), 0) << "and the name";
    HANDLE none = nullptr;
    EXPECT_EQ(open_sync(other, name, &none, 0), 0);
    EXPECT_EQ(use_sync(other, none), nt_status(Status::kAccessDenied)) << "opened without access";
    for (const HANDLE handle : {second, third, none}) close(fd_of(handle));
    const Digest before = digest(stack, {&client, &other});
    EXPECT_EQ(open_sync(other, name, &second), kInvalid) << "the last descriptor is closed";
    EXPECT_EQ(second, nullptr);
    EXPECT_EQ(digest(stack, {&client, &other}), before);
  });
}

TEST_F(Names, OneNameNamesOneObject) {
  DXGKIT_COVERS("THUNK-50", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    Attributes name(u"name"), other_case(u"Name");
    const D3DKMT_HANDLE fence = shared_fence(client), second = shared_fence(client);
    HANDLE handle = nullptr, again = nullptr, other = nullptr;
    ASSERT_EQ(share(client, fence, name, &handle), 0);
    EXPECT_EQ(share(client, fence, name, &again), 0) << "the same object";
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(share(client, second, name, &other), kCollision);
    EXPECT_EQ(other, nullptr);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(share(client, second, other_case, &other), 0);
    close(fd_of(other));
    close(fd_of(handle));
    EXPECT_EQ(share(client, second, name, &other), kCollision) << "one descriptor is left";
    close(fd_of(again));
    EXPECT_EQ(share(client, second, name, &other), 0);
    close(fd_of(other));
  });
}

TEST_F(Names, ANameIsOpenedAsWhatItNames) {
  DXGKIT_COVERS("THUNK-50", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    ScriptedAllocation data;
    D3DDDI_ALLOCATIONINFO2 info{};
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    create.Flags.CreateResource = create.Flags.CreateShared = create.Flags.NtSecuritySharing = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&create); }), 0);
    Attributes resource_name(u"resource"), fence_name(u"fence");
    HANDLE resource = nullptr, fence = nullptr, opened = nullptr;
    ASSERT_EQ(share(client, create.hResource, resource_name, &resource), 0);
    ASSERT_EQ(share(client, shared_fence(client), fence_name, &fence), 0);
    const auto open = [&](OBJECT_ATTRIBUTES* attributes) {
      D3DKMT_OPENNTHANDLEFROMNAME args{0x1000'0000, attributes, nullptr};
      const NTSTATUS status = client.call([&] { return D3DKMTOpenNtHandleFromName(&args); });
      opened = args.hNtHandle;
      return status;
    };
    EXPECT_EQ(open(&resource_name.attributes), 0);
    D3DKMT_GETSHAREDRESOURCEADAPTERLUID luid{};
    luid.hNtHandle = opened;
    EXPECT_EQ(client.call([&] { return D3DKMTGetSharedResourceAdapterLuid(&luid); }), 0);
    EXPECT_EQ(luid.AdapterLuid.LowPart, stack.luid.low);
    close(fd_of(opened));
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(open(&fence_name.attributes), kInvalid);
    EXPECT_EQ(open_sync(client, resource_name, &opened), kInvalid);
    EXPECT_EQ(open(nullptr), kInvalid);
    Attributes empty(u"");
    EXPECT_EQ(open(&empty.attributes), kInvalid);
    Attributes below(u"resource");
    below.attributes.RootDirectory = resource;
    EXPECT_EQ(open(&below.attributes), kInvalid) << "no directory";
    EXPECT_EQ(opened, nullptr);
    EXPECT_EQ(digest(stack, {&client}), before);
    close(fd_of(resource));
    close(fd_of(fence));
  });
}

HANDLE directory(Stack& stack, const char16_t* path,
                 thunks::ObjectDirectoryUse use = thunks::ObjectDirectoryUse::kNameObjects) {
  const int fd = thunks::open_object_directory(*stack.system, path, use);
  EXPECT_GT(fd, 2);
  return reinterpret_cast<HANDLE>(static_cast<uintptr_t>(fd));
}

TEST_F(Names, ADirectoryHasNamesOfItsOwn) {
  DXGKIT_COVERS("THUNK-58", "THUNK-50");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE one = shared_fence(client), two = shared_fence(client),
                        three = shared_fence(client);
    const HANDLE first = directory(stack, u"\\Sessions\\1"), second = directory(stack, u"\\Other");
    Attributes in_first(u"fence"), in_second(u"fence"), nowhere(u"fence");
    in_first.attributes.RootDirectory = first;
    in_second.attributes.RootDirectory = second;
    HANDLE handles[3] = {}, opened = nullptr;
    ASSERT_EQ(share(client, one, in_first, &handles[0]), 0);
    ASSERT_EQ(share(client, two, in_second, &handles[1]), 0) << "no collision";
    ASSERT_EQ(share(client, three, nowhere, &handles[2]), 0);
    close(fd_of(handles[1]));
    EXPECT_EQ(open_sync(client, in_second, &opened), kInvalid) << "that name is gone";
    ASSERT_EQ(open_sync(client, in_first, &opened), 0);
    close(fd_of(opened));
    // Another descriptor of the path, and the path itself, are the same directory.
    Attributes again(u"fence"), path(u"\\Sessions\\1\\fence");
    again.attributes.RootDirectory = directory(stack, u"\\Sessions\\1");
    HANDLE collides = nullptr;
    EXPECT_EQ(share(client, two, again, &collides), kCollision);
    EXPECT_EQ(share(client, two, path, &collides), kCollision);
    EXPECT_EQ(collides, nullptr);
    for (const HANDLE handle : {handles[0], handles[2], first, second}) close(fd_of(handle));
    close(fd_of(again.attributes.RootDirectory));
  });
}

TEST_F(Names, ADirectoryForLookingUpTakesNoNames) {
  DXGKIT_COVERS("THUNK-58", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE fence = shared_fence(client);
    const HANDLE full = directory(stack, u"\\D");
    const HANDLE look = directory(stack, u"\\D", thunks::ObjectDirectoryUse::kLookUp);
    Attributes name(u"fence"), looked(u"fence"), from_root(u"\\fence"), odd(u"fence");
    name.attributes.RootDirectory = from_root.attributes.RootDirectory = full;
    looked.attributes.RootDirectory = look;
    odd.attributes.Attributes = 1;
    const Digest before = digest(stack, {&client});
    HANDLE handle = nullptr, opened = nullptr;
    EXPECT_EQ(share(client, fence, looked, &handle), nt_status(Status::kAccessDenied));
    EXPECT_EQ(share(client, fence, from_root, &handle), kInvalid);
    EXPECT_EQ(share(client, fence, odd, &handle), kInvalid) << "an attribute that there is not";
    EXPECT_EQ(open_sync(client, looked, &opened), kInvalid) << "nothing is there";
    EXPECT_EQ(handle, nullptr);
    EXPECT_EQ(digest(stack, {&client}), before);
    ASSERT_EQ(share(client, fence, name, &handle), 0);
    EXPECT_EQ(open_sync(client, looked, &opened), 0);
    EXPECT_EQ(use_sync(client, look), kMismatch) << "a directory is no object";
    for (const HANDLE one : {handle, opened, full, look}) close(fd_of(one));
  });
}

TEST_F(Names, AttributesSayWhetherCaseMattersAndWhoInherits) {
  DXGKIT_COVERS("THUNK-58", "THUNK-50");
  with_client([](Stack&, Client& client) {
    const D3DKMT_HANDLE fence = shared_fence(client), second = shared_fence(client);
    Attributes name(u"Fence"), exact(u"fENCE"), any_case(u"fENCE");
    any_case.attributes.Attributes = OBJ_CASE_INSENSITIVE | OBJ_INHERIT;
    HANDLE handle = nullptr, opened = nullptr, other = nullptr;
    ASSERT_EQ(share(client, fence, name, &handle), 0);
    EXPECT_EQ(fcntl(fd_of(handle), F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(open_sync(client, exact, &opened), kInvalid);
    EXPECT_EQ(share(client, second, any_case, &other), kCollision);
    EXPECT_EQ(other, nullptr);
    ASSERT_EQ(open_sync(client, any_case, &opened), 0);
    EXPECT_EQ(fcntl(fd_of(opened), F_GETFD), 0);
    for (const HANDLE one : {handle, opened}) close(fd_of(one));
  });
}

}  // namespace
}  // namespace dxgkit::contract
