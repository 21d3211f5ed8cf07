// D3DKMTPresent flag by flag and edge by edge: every bit on top of each kind of present, and every
// side of a rectangle against the destination's and the screen's.
#include <fmt/format.h>

#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

const RECT kAll{0, 0, kWidth, kHeight};

D3DKMT_PRESENT copy_of(const FlipClient& client, D3DKMT_HANDLE source,
                       const std::vector<RECT>& parts) {
  D3DKMT_PRESENT args{};
  args.hContext = client.context.handle;
  args.Flags.Blt = 1;
  args.hSource = source;
  args.SubRectCnt = static_cast<UINT>(parts.size());
  args.pSrcSubRects = parts.data();
  return args;
}

/// The bits that a present of this kind may have beside its own.
template <typename Set>
UINT bits(const Set& set) {
  D3DKMT_PRESENTFLAGS flags{};
  set(flags);
  return flags.Value;
}

TEST_F(FlipTest, EachFlagBelongsToItsKindsOfPresent) {
  DXGKIT_COVERS("DISP-14", "DISP-15", "REND-19");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const std::vector<RECT> parts = {kAll};
    D3DKMT_PRESENT copy = copy_of(client, client.make_allocation(), parts);
    copy.SrcRect = copy.DstRect = kAll;
    D3DKMT_PRESENT fill = copy;
    fill.Flags.Value = bits([](auto& f) { f.ColorFill = 1; });
    fill.hSource = 0;
    struct Kind {
      const char* what;
      D3DKMT_PRESENT args;
      UINT allowed;
    };
    // What any of them may carry, because it changes nothing here.
    const UINT all = bits([](auto& f) {
      f.LinearToSrgb = f.PresentCountValid = f.PresentRegionsValid = 1;
      f.ProtectedContentBlankedOut = f.DurationValid = 1;
    });
    const Kind kinds[] = {
        {"flip", client.flip_of(client.primaries[1]),
         all | bits([](auto& f) { f.FlipDoNotWait = 1; })},
        {"copy", copy, all | bits([](auto& f) {
                         f.SrcRectValid = f.DstRectValid = f.SrcColorKey = f.DstColorKey = 1;
                         f.Rotate = f.RestrictVidPnSource = 1;
                       })},
        {"fill", fill,
         all | bits([](auto& f) { f.DstRectValid = f.Rotate = f.RestrictVidPnSource = 1; })},
    };
    const UINT same = bits([](auto& f) { f.SrcColorKey = f.DstColorKey = f.LinearToSrgb = 1; });
    size_t shown = 1;
    for (const Kind& kind : kinds) {
      for (UINT bit = 0; bit < 32; ++bit) {
        const UINT flag = 1U << bit;
        if ((kind.args.Flags.Value & flag) != 0) continue;
        SCOPED_TRACE(fmt::format("{}, flag {:#x}", kind.what, flag));
        D3DKMT_PRESENT args = kind.args;
        args.Flags.Value |= flag;
        const bool allowed = (kind.allowed & flag) != 0;
        if (args.Flags.Flip != 0) args.hSource = client.primaries[1 + shown % 2];
        const size_t presents = driver.presents.size();
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(client.present(args), allowed ? 0 : kInvalid);
        if (!allowed) {
          EXPECT_EQ(digest(stack, {&client}), before);
          EXPECT_EQ(driver.presents.size(), presents);
          continue;
        }
        ASSERT_EQ(driver.presents.size(), presents + 1);
        const DXGK_PRESENTFLAGS& told = driver.presents.back().args.Flags;
        EXPECT_EQ(told.Blt, kind.args.Flags.Blt);
        EXPECT_EQ(told.ColorFill, kind.args.Flags.ColorFill);
        EXPECT_EQ(told.Flip, kind.args.Flags.Flip);
        EXPECT_EQ(told.SrcColorKey, args.Flags.SrcColorKey);
        EXPECT_EQ(told.DstColorKey, args.Flags.DstColorKey);
        EXPECT_EQ(told.Rotate, args.Flags.Rotate);
        EXPECT_EQ(told.LinearToSrgb, args.Flags.LinearToSrgb);
        EXPECT_EQ((flag & same) != 0 || args.Flags.Rotate != 0,
                  (told.SrcColorKey | told.DstColorKey | told.LinearToSrgb | told.Rotate) != 0);
        stack.drive();
        if (args.Flags.Flip != 0) {
          stack.settle();
          driver.vsync();
          ++shown;
        }
      }
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(FlipTest, PartsAreCutAtEachSideOfTheDestinationAndTheScreen) {
  DXGKIT_COVERS("REND-18");
  struct Row {
    const char* what;
    RECT destination, part;
    std::optional<RECT> seen;
  };
  constexpr RECT kInner{8, 10, 40, 44}, kOuter{-9, -8, 90, 91};
  const Row rows[] = {
      {"inside", kInner, {9, 11, 39, 43}, RECT{9, 11, 39, 43}},
      {"as large", kInner, kInner, kInner},
      {"left", kInner, {7, 11, 39, 43}, RECT{8, 11, 39, 43}},
      {"above", kInner, {9, 9, 39, 43}, RECT{9, 10, 39, 43}},
      {"right", kInner, {9, 11, 41, 43}, RECT{9, 11, 40, 43}},
      {"below", kInner, {9, 11, 39, 45}, RECT{9, 11, 39, 44}},
      {"a column at the left", kInner, {2, 11, 9, 12}, RECT{8, 11, 9, 12}},
      {"no column at the left", kInner, {2, 11, 8, 12}, std::nullopt},
      {"no column at the right", kInner, {40, 11, 44, 12}, std::nullopt},
      {"no line above", kInner, {9, 2, 12, 10}, std::nullopt},
      {"no line below", kInner, {9, 44, 12, 48}, std::nullopt},
      {"left of the screen", kOuter, {-5, 3, 6, 9}, RECT{0, 3, 6, 9}},
      {"above the screen", kOuter, {3, -5, 9, 6}, RECT{3, 0, 9, 6}},
      {"right of the screen", kOuter, {60, 3, 70, 9}, RECT{60, 3, 64, 9}},
      {"below the screen", kOuter, {3, 60, 9, 70}, RECT{3, 60, 9, 64}},
      {"beside the screen", kOuter, {64, 3, 70, 9}, std::nullopt},
  };
  flipping([&](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const D3DKMT_HANDLE texture = client.make_allocation();
    for (const Row& row : rows) {
      for (const bool fill : {false, true}) {
        SCOPED_TRACE(fmt::format("{}{}", row.what, fill ? ", filled" : ""));
        // The part in question is the second; the first is there in any case.
        const std::vector<RECT> parts = {{20, 20, 21, 21}, row.part};
        D3DKMT_PRESENT args = copy_of(client, texture, parts);
        if (fill) {
          args.Flags.Value = bits([](auto& f) { f.ColorFill = 1; });
          args.hSource = 0;
        }
        args.Flags.DstRectValid = 1;
        args.DstRect = row.destination;
        driver.presents.clear();
        ASSERT_EQ(client.present(args), 0);
        stack.drive();
        ASSERT_EQ(driver.presents.size(), 1U);
        const PresentCall& call = driver.presents[0];
        EXPECT_EQ(std::memcmp(&call.args.DstRect, &row.destination, sizeof(RECT)), 0);
        EXPECT_EQ(std::memcmp(&call.args.SrcRect, &row.destination, sizeof(RECT)), 0)
            << "the source's is the destination's, if it is not said";
        ASSERT_EQ(call.sub_rects.size(), row.seen.has_value() ? 2U : 1U);
        if (row.seen.has_value()) {
          EXPECT_EQ(std::memcmp(&call.sub_rects[1], &*row.seen, sizeof(RECT)), 0);
        }
        if (row.seen.has_value()) continue;
        // With nothing else there is nothing to do.
        const std::vector<RECT> only = {row.part};
        args.pSrcSubRects = only.data();
        args.SubRectCnt = 1;
        EXPECT_EQ(client.present(args), 0);
        EXPECT_EQ(driver.presents.size(), 1U);
      }
    }
    // Without rectangles of its own a copy is of the whole screen; as many parts as may be.
    std::vector<RECT> many(4096, RECT{1, 2, 3, 4});
    D3DKMT_PRESENT args = copy_of(client, texture, many);
    driver.presents.clear();
    EXPECT_EQ(client.present(args), 0);
    stack.drive();
    ASSERT_EQ(driver.presents.size(), 1U);
    EXPECT_EQ(driver.presents[0].sub_rects.size(), 4096U);
    EXPECT_EQ(std::memcmp(&driver.presents[0].args.DstRect, &kAll, sizeof(RECT)), 0);
    EXPECT_EQ(std::memcmp(&driver.presents[0].args.SrcRect, &kAll, sizeof(RECT)), 0);
    const Digest before = digest(stack, {&client});
    many.push_back(many[0]);
    EXPECT_EQ(client.present(copy_of(client, texture, many)), kInvalid);
    // A wrong part behind a right one.
    for (const RECT& bad : {RECT{5, 5, 5, 9}, RECT{5, 5, 9, 5}, RECT{9, 5, 5, 9}}) {
      const std::vector<RECT> parts = {kAll, bad};
      EXPECT_EQ(client.present(copy_of(client, texture, parts)), kInvalid);
    }
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(FlipTest, AHandleOfAnotherKindOrDeviceIsRefusedWhereverItStands) {
  DXGKIT_COVERS("DISP-14", "DISP-16", "THUNK-05");
  flipping([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const std::vector<RECT> parts = {kAll};
    const D3DKMT_HANDLE texture = client.make_allocation();
    D3DKMT_PRESENT copy = copy_of(client, texture, parts);
    copy.Flags.SrcRectValid = 1;
    copy.SrcRect = kAll;
    copy.hDestination = client.primaries[2];
    const D3DKMT_PRESENT flip = client.flip_of(client.primaries[1]);
    const ContextBuffers second = client.make_context();
    const D3DKMT_HANDLE elsewhere = client.make_device();
    ContextBuffers foreign;
    ASSERT_EQ(client.create_context(&foreign, 0, elsewhere), 0);
    D3DKMT_HANDLE theirs = 0;
    ASSERT_EQ(client.create_allocation({}, &theirs, elsewhere), 0);
    using Spoil = std::function<void(D3DKMT_PRESENT&)>;
    const auto broadcast = [](std::vector<D3DKMT_HANDLE> handles) -> Spoil {
      return [handles](D3DKMT_PRESENT& a) {
        a.BroadcastContextCount = static_cast<ULONG>(handles.size());
        std::copy(handles.begin(), handles.end(), a.BroadcastContext);
      };
    };
    struct Row {
      const char* what;
      const D3DKMT_PRESENT& good;
      Spoil spoil;
    };
    const std::vector<Row> rows = {
        {"a device is no context", flip, [&](auto& a) { a.hContext = client.device; }},
        {"a context is no surface", flip, [&](auto& a) { a.hSource = client.context.handle; }},
        {"a second context that is none", flip, broadcast({second.handle, texture})},
        {"a second context of another device", flip, broadcast({second.handle, foreign.handle})},
        {"the first again", flip, broadcast({second.handle, client.context.handle})},
        {"copies go to one context", copy, broadcast({second.handle})},
        {"no surface to copy to", copy, [&](auto& a) { a.hDestination = client.device; }},
        {"another device's to copy to", copy, [&](auto& a) { a.hDestination = theirs; }},
        {"another device's to copy from", copy, [&](auto& a) { a.hSource = theirs; }},
        {"private data beyond memory", copy,
         [&](auto& a) {
           a.PrivateDriverDataSize = 4;
           a.pPrivateDriverData = nullptr;
         }},
        {"an interval that there is none of", flip,
         [&](auto& a) { a.FlipInterval = static_cast<D3DDDI_FLIPINTERVAL_TYPE>(5); }},
        {"a flip has no destination", flip, [&](auto& a) { a.hDestination = client.primaries[2]; }},
        {"a flip has no parts", flip,
         [&](auto& a) {
           a.SubRectCnt = 1;
           a.pSrcSubRects = parts.data();
         }},
        {"a copy onto itself", copy, [&](auto& a) { a.hSource = client.primaries[2]; }},
    };
    driver.presents.clear();
    for (const Row& row : rows) {
      SCOPED_TRACE(row.what);
      D3DKMT_PRESENT args = row.good;
      row.spoil(args);
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(client.present(args), kInvalid);
      EXPECT_EQ(digest(stack, {&client}), before);
      EXPECT_TRUE(driver.presents.empty());
    }
    // One of the two surfaces is a primary, whichever it is.
    ASSERT_EQ(client.present(copy), 0);
    stack.drive();
    D3DKMT_PRESENT back = copy;
    std::swap(back.hSource, back.hDestination);
    ASSERT_EQ(client.present(back), 0);
    stack.drive();
    ASSERT_EQ(driver.presents.size(), 2U);
    EXPECT_EQ(driver.presents[0].allocations[1].device_handle,
              driver.presents[1].allocations[2].device_handle);
    EXPECT_EQ(driver.presents[0].allocations[2].device_handle,
              driver.presents[1].allocations[1].device_handle);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(FlipTest, EachLimitIsItsOwn) {
  DXGKIT_COVERS("SCHED-16");
  flipping([](Stack& stack, FlipDriver&, FlipClient& client) {
    const auto get = [&] {
      D3DKMT_SETQUEUEDLIMIT args{};
      args.hDevice = client.device;
      args.Type = D3DKMT_GET_QUEUEDLIMIT_PRESENT;
      args.QueuedPresentLimit = args.QueuedPendingFlipLimit = 99;
      EXPECT_EQ(client.call([&] { return D3DKMTSetQueuedLimit(&args); }), 0);
      return std::pair(args.QueuedPresentLimit, args.QueuedPendingFlipLimit);
    };
    const auto first = get();
    EXPECT_NE(first.first, 0U);
    EXPECT_NE(first.second, 0U);
    ASSERT_EQ(client.limit(5, 7), 0);
    EXPECT_EQ(get(), std::pair(5U, 7U));
    ASSERT_EQ(client.limit(0, 6), 0);
    EXPECT_EQ(get(), std::pair(first.first, 6U));
    ASSERT_EQ(client.limit(5, 0), 0);
    EXPECT_EQ(get(), std::pair(5U, first.second));
    for (const int type : {0, 3, -1}) {
      D3DKMT_SETQUEUEDLIMIT args{};
      args.hDevice = client.device;
      args.Type = static_cast<D3DKMT_QUEUEDLIMIT_TYPE>(type);
      args.QueuedPresentLimit = args.QueuedPendingFlipLimit = 1;
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(client.call([&] { return D3DKMTSetQueuedLimit(&args); }), kInvalid) << type;
      EXPECT_EQ(digest(stack, {&client}), before);
    }
    EXPECT_EQ(get(), std::pair(5U, first.second));
  });
}

// Who asks about a source says an adapter's handle and one of its sources.
TEST_F(FlipTest, QuestionsAboutASourceNameOneThatThereIs) {
  DXGKIT_COVERS("DISP-18", "THUNK-05");
  flipping([](Stack& stack, FlipDriver&, FlipClient& client) {
    const auto each = [&](D3DKMT_HANDLE adapter, UINT source, D3DKMT_HANDLE device) {
      D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP check{};
      check.hAdapter = adapter;
      check.VidPnSourceId = source;
      EXPECT_EQ(client.call([&] { return D3DKMTCheckVidPnExclusiveOwnership(&check); }), kInvalid);
      D3DKMT_GETSCANLINE line{};
      line.hAdapter = adapter;
      line.VidPnSourceId = source;
      line.ScanLine = 77;
      EXPECT_EQ(client.call([&] { return D3DKMTGetScanLine(&line); }), kInvalid);
      EXPECT_EQ(line.ScanLine, 77U);
      D3DKMT_WAITFORVERTICALBLANKEVENT wait{};
      wait.hAdapter = adapter;
      wait.hDevice = device;
      wait.VidPnSourceId = source;
      EXPECT_EQ(client.call([&] { return D3DKMTWaitForVerticalBlankEvent(&wait); }), kInvalid);
    };
    const Digest before = digest(stack, {&client});
    each(client.adapter, 1, 0);
    each(client.adapter, ~0U, client.device);
    each(client.device, 0, 0);
    each(0, 0, 0);
    D3DKMT_WAITFORVERTICALBLANKEVENT wait{};
    wait.hAdapter = client.adapter;
    wait.hDevice = client.context.handle;
    EXPECT_EQ(client.call([&] { return D3DKMTWaitForVerticalBlankEvent(&wait); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    D3DKMT_GETSCANLINE line{};
    line.hAdapter = client.adapter;
    line.InVerticalBlank = TRUE;
    EXPECT_EQ(client.call([&] { return D3DKMTGetScanLine(&line); }), 0);
    EXPECT_EQ(line.ScanLine, 40U + kTarget);
    EXPECT_EQ(line.InVerticalBlank, FALSE);
    // A device in error does not wait.
    D3DKMT_MARKDEVICEASERROR mark{};
    mark.hDevice = client.device;
    mark.Reason = D3DKMT_DEVICE_ERROR_REASON_GENERIC;
    ASSERT_EQ(client.call([&] { return D3DKMTMarkDeviceAsError(&mark); }), 0);
    wait.hDevice = client.device;
    EXPECT_EQ(client.call([&] { return D3DKMTWaitForVerticalBlankEvent(&wait); }),
              nt_status(Status::kDeviceRemoved));
  });
}

// What a client's driver has for the kernel's goes along from WDDM 2.0 on, with each kind of
// present.
TEST_F(FlipTest, PrivateDataReachesTheDriver) {
  DXGKIT_COVERS("REND-17");
  bare([](Stack& stack) {
    stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
    FlipDriver driver(stack);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver);
      const std::vector<RECT> parts = {kAll};
      char words[] = "for the driver";
      std::string seen;
      driver.on_present = [&](DXGKARG_PRESENT* args) {
        seen.assign(static_cast<const char*>(args->pPrivateDriverData),
                    args->PrivateDriverDataSize);
        return FlipDriver::write_part(args, 32);
      };
      const D3DKMT_HANDLE texture = client.make_allocation();
      client.list({texture});
      D3DKMT_PRESENT copy = copy_of(client, texture, parts);
      copy.pPrivateDriverData = words;
      copy.PrivateDriverDataSize = sizeof words;
      ASSERT_EQ(client.present(copy), 0);
      stack.drive();
      EXPECT_EQ(seen, std::string(words, sizeof words));
      D3DKMT_PRESENT flip = client.flip_of(client.primaries[1]);
      flip.pPrivateDriverData = words + 4;
      flip.PrivateDriverDataSize = 3;
      ASSERT_EQ(client.present(flip), 0);
      stack.settle();
      EXPECT_EQ(seen, "the");
      driver.vsync();
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    }
  });
}

// Lists of owners: as many sources as there can be, each with a kind.
TEST_F(FlipTest, OwnersAreNamedInPairs) {
  DXGKIT_COVERS("DISP-18", "THUNK-05");
  flipping([](Stack& stack, FlipDriver&, FlipClient& client) {
    ASSERT_EQ(client.disown(), 0);
    const auto set = [&](UINT count, const D3DKMT_VIDPNSOURCEOWNER_TYPE* types, const UINT* sources,
                         D3DKMT_HANDLE device) {
      D3DKMT_SETVIDPNSOURCEOWNER args{};
      args.hDevice = device;
      args.pType = types;
      args.pVidPnSourceId = sources;
      args.VidPnSourceCount = count;
      NTSTATUS status = 0;
      stack.blocking(
          [&] { status = client.call([&] { return D3DKMTSetVidPnSourceOwner(&args); }); });
      return status;
    };
    std::vector<D3DKMT_VIDPNSOURCEOWNER_TYPE> types(17, D3DKMT_VIDPNSOURCEOWNER_UNOWNED);
    const std::vector<UINT> sources(17, 0);
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(set(17, types.data(), sources.data(), client.device), kInvalid);
    EXPECT_EQ(set(1, nullptr, sources.data(), client.device), kInvalid);
    EXPECT_EQ(set(1, types.data(), nullptr, client.device), kInvalid);
    EXPECT_EQ(set(1, types.data(), sources.data(), client.adapter), kInvalid);
    types[1] = static_cast<D3DKMT_VIDPNSOURCEOWNER_TYPE>(5);
    EXPECT_EQ(set(2, types.data(), sources.data(), client.device), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    types[0] = D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE;
    EXPECT_EQ(set(1, types.data(), sources.data(), client.device), 0);
    D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP check{};
    check.hAdapter = client.adapter;
    EXPECT_EQ(client.call([&] { return D3DKMTCheckVidPnExclusiveOwnership(&check); }),
              STATUS_GRAPHICS_PRESENT_OCCLUDED);
  });
}

}  // namespace
}  // namespace dxgkit::contract
