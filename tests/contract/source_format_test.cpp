// Private formats of sources, multisampling methods, exclusive owners; data of the runtime.
#include "dxgk/core/process.h"
#include "dxgk/memory/allocation.h"
#include "tests/contract/flip_fixture.h"
#include "tests/contract/umd_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr NTSTATUS kNotOwner = nt_status(Status::kGraphicsNotExclusiveModeOwner);

class SourceFormatTest : public FlipTest {
 protected:
  static inline std::vector<DXGKARG_SETDISPLAYPRIVATEDRIVERFORMAT> calls;
  static inline NTSTATUS answer = 0;
  static NTSTATUS NTAPI set_format(const HANDLE, DXGKARG_SETDISPLAYPRIVATEDRIVERFORMAT* args) {
    EXPECT_EQ(nt::CallFrame::current().irql(), nt::kPassiveLevel);
    calls.push_back(*args);
    return answer;
  }
  static NTSTATUS set(Client& client, UINT source, UINT attribute, D3DKMT_HANDLE device) {
    const D3DKMT_SETDISPLAYPRIVATEDRIVERFORMAT args{
        .hDevice = device, .VidPnSourceId = source, .PrivateDriverFormatAttribute = attribute};
    NTSTATUS status = 0;
    client.stack.blocking(
        [&] { status = client.call([&] { return D3DKMTSetDisplayPrivateDriverFormat(&args); }); });
    return status;
  }
  void SetUp() override {
    calls.clear();
    answer = 0;
  }
};

TEST_F(SourceFormatTest, AnExclusiveOwnerChangesThePrivateFormat) {
  DXGKIT_COVERS("OPT-13", "OPT-14");
  flipping(
      [](Stack& stack, FlipDriver&, FlipClient& client) {
        EXPECT_EQ(set(client, 0, 7, client.device), 0);
        ASSERT_EQ(calls.size(), 1U);
        EXPECT_EQ(calls[0].VidPnSourceId, 0U);
        EXPECT_EQ(calls[0].PrivateDriverFormatAttribute, 7U);
        EXPECT_EQ(calls[0].PrimaryAllocation,
                  (*client.process->handles().find<dxgk::OpenedAllocation>(client.primaries[0]))
                      ->driver_allocation);
        UserDriver user(client);
        const D3DDDICB_SETDISPLAYPRIVATEDRIVERFORMAT format{.VidPnSourceId = 0,
                                                            .PrivateDriverFormatAttribute = 8};
        EXPECT_EQ(user.waiting(user.table().pfnSetDisplayPrivateDriverFormatCb, &format), S_OK);
        EXPECT_EQ(calls.back().PrivateDriverFormatAttribute, 8U);

        const Digest before = digest(stack, {&client});
        const D3DKMT_HANDLE other = client.device;
        EXPECT_EQ(set(client, 1, 7, other), kInvalid) << "no such source";
        EXPECT_EQ(set(client, 0, 7, 0), kInvalid);
        EXPECT_EQ(digest(stack, {&client}), before);
        const D3DKMT_HANDLE second = client.make_device();
        EXPECT_EQ(set(client, 0, 7, second), kNotOwner);
        EXPECT_EQ(calls.size(), 2U);

        answer = nt_status(Status::kUnsuccessful);
        EXPECT_EQ(set(client, 0, 9, client.device), answer);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        answer = kInvalid;
        EXPECT_EQ(set(client, 0, 9, client.device), nt_status(Status::kUnsuccessful));
        EXPECT_EQ(stack.only_finding().rule, "OPT-14");
        EXPECT_EQ(client.disown(), 0);
        EXPECT_EQ(set(client, 0, 7, client.device), kNotOwner);
        EXPECT_EQ(calls.size(), 4U);
      },
      [](FlipDriver& driver) {
        driver.more_table = [](DRIVER_INITIALIZATION_DATA& table) {
          table.DxgkDdiSetDisplayPrivateDriverFormat = set_format;
        };
      });
  flipping([](Stack& stack, FlipDriver&, FlipClient& client) {
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(set(client, 0, 7, client.device), nt_status(Status::kNotSupported));
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(SourceFormatTest, AnybodyIsToldWhetherSomebodyOwnsASource) {
  DXGKIT_COVERS("OPT-22");
  flipping([](Stack& stack, FlipDriver&, FlipClient& client) {
    Client other(stack, "other", /*with_device=*/false);
    const auto ask = [&] {
      BOOLEAN exclusive = 0x55;
      other.as_client([&] { exclusive = D3DKMTCheckExclusiveOwnership(); });
      return exclusive;
    };
    EXPECT_EQ(ask(), TRUE);
    EXPECT_EQ(client.disown(), 0);
    EXPECT_EQ(ask(), FALSE);
    EXPECT_EQ(client.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE), 0);
    EXPECT_EQ(ask(), TRUE);
    EXPECT_EQ(client.disown(), 0);
    EXPECT_EQ(ask(), FALSE);
    EXPECT_EQ(D3DKMTCheckExclusiveOwnership(), FALSE) << "a thread of no process";
  });
}

TEST_F(SourceFormatTest, MultisamplingMethodsAreWhatTheDriverAssigned) {
  DXGKIT_COVERS("OPT-21");
  bare([](Stack& stack) {
    FlipDriver driver(stack);
    driver.display.hooks["DxgkDdiEnumVidPnCofuncModality"] = [&] {
      const D3DKMDT_HVIDPN vidpn = driver.display.calls().enumerations.back().hConstrainingVidPn;
      const DXGK_VIDPN_INTERFACE* table = nullptr;
      ASSERT_EQ(stack.miniport.callbacks().DxgkCbQueryVidPnInterface(
                    vidpn, DXGK_VIDPN_INTERFACE_VERSION_V1, &table),
                0);
      const D3DDDI_MULTISAMPLINGMETHOD methods[] = {{1, 3}, {4, 2}};
      ASSERT_EQ(table->pfnAssignMultisamplingMethodSet(vidpn, 0, 2, methods), 0);
    };
    ASSERT_EQ(stack.start(), Status::kSuccess);
    FlipClient client(stack, driver);
    D3DKMT_GETMULTISAMPLEMETHODLIST args{};
    args.hAdapter = client.adapter;
    args.Width = kWidth;
    args.Height = kHeight;
    args.Format = D3DDDIFMT_A8R8G8B8;
    const auto ask = [&] {
      return client.call([&] { return D3DKMTGetMultisampleMethodList(&args); });
    };
    EXPECT_EQ(ask(), 0);
    EXPECT_EQ(args.MethodCount, 2U);
    D3DKMT_MULTISAMPLEMETHOD methods[3] = {};
    args.pMethodList = methods;
    args.MethodCount = 1;
    EXPECT_EQ(ask(), kInvalid) << "no room";
    EXPECT_EQ(methods[0].NumSamples, 0U);
    args.MethodCount = 3;
    EXPECT_EQ(ask(), 0);
    EXPECT_EQ(args.MethodCount, 2U);
    EXPECT_EQ(methods[0].NumSamples, 1U);
    EXPECT_EQ(methods[0].NumQualityLevels, 3U);
    EXPECT_EQ(methods[1].NumSamples, 4U);
    EXPECT_EQ(methods[1].NumQualityLevels, 2U);
    for (const D3DKMT_MULTISAMPLEMETHOD& method : methods) EXPECT_EQ(method.Reserved, 0U);
    args.MethodCount = 2;
    EXPECT_EQ(ask(), 0) << "as much room as there are methods";
    EXPECT_EQ(args.MethodCount, 2U);
    UserDriver user(client);
    D3DDDI_MULTISAMPLINGMETHOD known[2] = {};
    D3DDDICB_GETMULTISAMPLEMETHODLIST asked{};
    asked.Width = kWidth;
    asked.Height = kHeight;
    asked.Format = D3DDDIFMT_A8R8G8B8;
    const auto& callbacks = user.adapter.callbacks();
    EXPECT_EQ(user.ask(callbacks.pfnGetMultisampleMethodListCb, &asked), S_OK);
    EXPECT_EQ(asked.MethodCount, 2U);
    asked.pMethodList = known;
    EXPECT_EQ(user.ask(callbacks.pfnGetMultisampleMethodListCb, &asked), S_OK);
    EXPECT_EQ(known[1].NumSamples, 4U);
    EXPECT_EQ(known[1].NumQualityLevels, 2U);
    asked.MethodCount = 1;
    EXPECT_EQ(user.ask(callbacks.pfnGetMultisampleMethodListCb, &asked), E_INVALIDARG);
    args.Width = kWidth * 2;
    EXPECT_EQ(ask(), 0);
    EXPECT_EQ(args.MethodCount, 0U) << "none of the source's surfaces";
    args.Width = kWidth;
    args.Height = kHeight * 2;
    EXPECT_EQ(ask(), 0);
    EXPECT_EQ(args.MethodCount, 0U) << "nor of this height";
    args.Height = kHeight;
    args.Format = D3DDDIFMT_R5G6B5;
    EXPECT_EQ(ask(), 0);
    EXPECT_EQ(args.MethodCount, 0U) << "nor of this format";
    args.Format = D3DDDIFMT_A8R8G8B8;
    const Digest before = digest(stack, {&client});
    args.MethodCount = 3;
    args.VidPnSourceId = 1;
    EXPECT_EQ(ask(), kInvalid);
    args.VidPnSourceId = 0;
    args.pMethodList = reinterpret_cast<D3DKMT_MULTISAMPLEMETHOD*>(0x10000);
    EXPECT_EQ(ask(), kInvalid);
    args.hAdapter = client.device;
    EXPECT_EQ(ask(), kInvalid);
    EXPECT_EQ(args.MethodCount, 3U);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(SourceFormatTest, TheRuntimesDataOfASharedResourceIsThereForAll) {
  DXGKIT_COVERS("OPT-23");
  with_client([](Stack& stack, Client& maker) {
    ScriptedAllocation description;
    D3DDDI_ALLOCATIONINFO info{};
    info.pPrivateDriverData = &description;
    info.PrivateDriverDataSize = sizeof description;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = maker.device;
    create.pPrivateRuntimeData = "runs";
    create.PrivateRuntimeDataSize = 4;
    create.NumAllocations = 1;
    create.pAllocationInfo = &info;
    create.Flags.CreateResource = 1;
    create.Flags.CreateShared = 1;
    ASSERT_EQ(maker.call([&] { return D3DKMTCreateAllocation(&create); }), 0);

    Client reader(stack, "reader", /*with_device=*/false);
    std::array<char, 6> data{};
    D3DKMT_GETRUNTIMEDATA args{};
    args.hAdapter = reader.adapter;
    args.hGlobalShare = create.hGlobalShare;
    args.pRuntimeData = data.data();
    args.RuntimeDataSize = data.size();
    const auto ask = [&] { return reader.call([&] { return D3DKMTGetRuntimeData(&args); }); };
    EXPECT_EQ(ask(), 0);
    EXPECT_EQ(std::string(data.data(), 5), std::string("runs\0", 5));
    data = {};
    const Digest before = digest(stack, {&maker, &reader});
    args.RuntimeDataSize = 3;
    EXPECT_EQ(ask(), nt_status(Status::kBufferTooSmall));
    args.RuntimeDataSize = 4;
    args.hGlobalShare = maker.device;
    EXPECT_EQ(ask(), kInvalid);
    args.hGlobalShare = create.hGlobalShare;
    args.hAdapter = 0;
    EXPECT_EQ(ask(), kInvalid);
    args.hAdapter = reader.adapter;
    args.pRuntimeData = reinterpret_cast<void*>(0x10000);
    EXPECT_EQ(ask(), kInvalid);
    EXPECT_EQ(data[0], 0);
    EXPECT_EQ(digest(stack, {&maker, &reader}), before);
  });
}

}  // namespace
}  // namespace dxgkit::contract
