// Calls on adapters with a screen: owners, modes, presents, flips, planes.
#include "tests/beside/calls.h"

namespace dxgkit::beside {
namespace {

using namespace contract;

void own(World& world, D3DKMT_VIDPNSOURCEOWNER_TYPE type) {
  D3DKMT_SETVIDPNSOURCEOWNER args{};
  args.hDevice = world.client->device;
  args.pType = world.keep(std::vector<D3DKMT_VIDPNSOURCEOWNER_TYPE>{type});
  args.pVidPnSourceId = world.keep(std::vector<D3DDDI_VIDEO_PRESENT_SOURCE_ID>{0});
  args.VidPnSourceCount = 1;
  world.calls(D3DKMTSetVidPnSourceOwner, args);
}

const Row kRows[] = {
    {"D3DKMTSetVidPnSourceOwner", Ground::kScreen,
     [](World& world) {
       EXPECT_EQ(world.screen->disown(), 0);
       own(world, D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE);
     }},
    {"D3DKMTSetVidPnSourceOwner to none", Ground::kScreen,
     [](World& world) {
       D3DKMT_SETVIDPNSOURCEOWNER args{};
       args.hDevice = world.client->device;
       world.calls(D3DKMTSetVidPnSourceOwner, args);
     }},
    {"D3DKMTSetDisplayMode", Ground::kScreen,
     [](World& world) {
       D3DKMT_SETDISPLAYMODE args{};
       args.hDevice = world.client->device;
       args.hPrimaryAllocation = world.screen->make_primary(32);
       world.calls(D3DKMTSetDisplayMode, args);
       world.destroys_allocation(args.hPrimaryAllocation);
     }},
    {"D3DKMTCreateAllocation of a primary", Ground::kScreen,
     [](World& world) {
       ScriptedAllocation data{.size = uint64_t{kWidth} * kHeight * 4,
                               .supported_read = 1,
                               .supported_write = 1,
                               .flags = 1};
       D3DDDI_ALLOCATIONINFO info{};
       info.pPrivateDriverData = &world.keep_one(data);
       info.PrivateDriverDataSize = sizeof data;
       info.Flags.Primary = 1;
       D3DKMT_CREATEALLOCATION args{};
       args.hDevice = world.client->device;
       args.NumAllocations = 1;
       args.pAllocationInfo = &world.keep_one(info);
       world.calls(D3DKMTCreateAllocation, args);
     }},
    {"D3DKMTPresent of a flip", Ground::kScreen,
     [](World& world) {
       world.calls(D3DKMTPresent, world.screen->flip_of(world.screen->primaries[1]));
       world.destroys_allocation(world.screen->primaries[1]);
     },
     /*leaves=*/2},
    {"D3DKMTPresent of a blt", Ground::kScreen,
     [](World& world) {
       D3DKMT_PRESENT args{};
       args.hContext = world.screen->context.handle;
       args.hSource = world.client->make_allocation();
       args.Flags.Blt = 1;
       args.SubRectCnt = 1;
       args.pSrcSubRects = world.keep(std::vector<RECT>{{0, 0, 32, 32}});
       world.calls(D3DKMTPresent, args);
       world.destroys_allocation(args.hSource);
     }},
    {"D3DKMTPresent of a blt to a destination", Ground::kScreen,
     [](World& world) {
       D3DKMT_PRESENT args{};
       args.hContext = world.screen->context.handle;
       args.hSource = world.client->make_allocation();
       args.hDestination = world.screen->primaries[2];
       args.Flags.Blt = args.Flags.SrcRectValid = 1;
       args.SrcRect = {0, 0, 32, 32};
       args.SubRectCnt = 1;
       args.pSrcSubRects = world.keep(std::vector<RECT>{{0, 0, 32, 32}});
       world.calls(D3DKMTPresent, args);
       world.destroys_allocation(args.hDestination);
     }},
    {"D3DKMTSetQueuedLimit", Ground::kScreen,
     [](World& world) {
       D3DKMT_SETQUEUEDLIMIT args{};
       args.hDevice = world.client->device;
       args.Type = D3DKMT_SET_QUEUEDLIMIT_PRESENT;
       args.QueuedPresentLimit = 3;
       args.QueuedPendingFlipLimit = 2;
       world.calls(D3DKMTSetQueuedLimit, args);
     }},
    {"D3DKMTGetScanLine", Ground::kScreen,
     [](World& world) {
       D3DKMT_GETSCANLINE args{};
       args.hAdapter = world.client->adapter;
       world.calls(D3DKMTGetScanLine, args);
       world.closes_adapter();
     }},
    {"D3DKMTGetSharedPrimaryHandle", Ground::kScreen,
     [](World& world) {
       D3DKMT_GETSHAREDPRIMARYHANDLE args{};
       args.hAdapter = world.client->adapter;
       world.calls(D3DKMTGetSharedPrimaryHandle, args);
       world.closes_adapter();
     }},
    {"D3DKMTCheckVidPnExclusiveOwnership", Ground::kScreen,
     [](World& world) {
       EXPECT_EQ(world.screen->disown(), 0);
       world.calls(D3DKMTCheckVidPnExclusiveOwnership,
                   D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP{world.client->adapter, 0});
       world.closes_adapter();
     }},
    {"D3DKMTPresentMultiPlaneOverlay3", Ground::kPlanes,
     [](World& world) {
       auto args = std::make_shared<PlaneClient::Args>();
       world.planes->fill({{.layer = 0, .allocation = world.screen->primaries[1]}}, args.get());
       world.call = [args] { return D3DKMTPresentMultiPlaneOverlay3(&args->args); };
       world.destroys_allocation(world.screen->primaries[1]);
     },
     /*leaves=*/2},
    {"D3DKMTPresentMultiPlaneOverlay3 of a destroyed context", Ground::kPlanes,
     [](World& world) {
       auto args = std::make_shared<PlaneClient::Args>();
       world.planes->fill({{.layer = 0, .allocation = world.screen->primaries[1]}}, args.get());
       world.call = [args] { return D3DKMTPresentMultiPlaneOverlay3(&args->args); };
       world.destroys_context(world.screen->context.handle);
     }},
    {"D3DKMTGetMultiPlaneOverlayCaps", Ground::kPlanes,
     [](World& world) {
       D3DKMT_GET_MULTIPLANE_OVERLAY_CAPS args{};
       args.hAdapter = world.client->adapter;
       world.calls(D3DKMTGetMultiPlaneOverlayCaps, args);
       world.closes_adapter();
     }},
};

}  // namespace

std::vector<Row> screen_rows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace dxgkit::beside
