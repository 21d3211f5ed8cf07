// A user-mode display driver as its author compiles it for Linux, on the public library: only
// public headers here.
#include "dxgkit/umd_runtime.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "dxgkit/client.h"
#include "dxgkit/stack.h"
#include "miniports/softgpu/softgpu_umd.h"

namespace dxgkit {
namespace {

constexpr UINT kVersion = D3D_UMD_INTERFACE_VERSION_WDDM1_3;

/// The driver. It knows what the runtime handed to it, and nothing else of dxgkit.
struct ToyDriver {
  HANDLE adapter = nullptr, device = nullptr;
  const D3DDDI_ADAPTERCALLBACKS* of_adapter = nullptr;
  const D3DDDI_DEVICECALLBACKS* of_device = nullptr;
};
ToyDriver* toy = nullptr;

HRESULT APIENTRY create_device(HANDLE, D3DDDIARG_CREATEDEVICE* args) {
  toy->device = args->hDevice;
  toy->of_device = args->pCallbacks;
  return S_OK;
}

HRESULT APIENTRY open_adapter(D3DDDIARG_OPENADAPTER* args) {
  toy->adapter = args->hAdapter;
  toy->of_adapter = args->pAdapterCallbacks;
  args->pAdapterFuncs->pfnCreateDevice = create_device;
  args->hAdapter = toy;
  args->DriverVersion = kVersion;
  return S_OK;
}

SgpuUmdAllocation buffer_of(uint64_t bytes) {
  SgpuUmdAllocation wanted{};
  wanted.magic = SGPU_UMD_ALLOCATION_MAGIC;
  wanted.version = SGPU_UMD_VERSION;
  wanted.kind = SGPU_UMD_KIND_BUFFER;
  wanted.placement = SGPU_UMD_PLACE_STAGING;
  wanted.size_bytes = bytes;
  return wanted;
}

/// Runs `body` with the driver on a device, as the runtime would.
template <typename Body>
void with_driver(const Body& body) {
  StackOptions options;
  options.mode = Mode::kSimulation;
  options.devices = {"softgpu"};
  bool ran = false;
  const Expected<StackOutcome> outcome = Stack::run(options, [&](Stack& stack) {
    const Expected<std::string> path = bundled_driver("softgpu");
    ASSERT_TRUE(path.has_value());
    const Expected<Driver*> kernel_half = stack.load(*path);
    ASSERT_TRUE(kernel_half.has_value());
    const Expected<AdapterId> id = stack.start(**kernel_half);
    ASSERT_TRUE(id.has_value());
    const auto client = stack.make_client("application");
    const ClientProcess::Attach attach(*client);
    D3DKMT_OPENADAPTERFROMLUID open{};
    open.AdapterLuid.LowPart = id->low;
    open.AdapterLuid.HighPart = id->high;
    ASSERT_EQ(D3DKMTOpenAdapterFromLuid(&open), 0);
    D3DKMT_CREATEDEVICE create{};
    create.hAdapter = open.hAdapter;
    ASSERT_EQ(D3DKMTCreateDevice(&create), 0);

    ToyDriver driver;
    toy = &driver;
    const RuntimeAdapter adapter(open.hAdapter, kVersion);
    D3DDDI_ADAPTERFUNCS functions{};
    D3DDDIARG_OPENADAPTER open_args{};
    open_args.hAdapter = adapter.handle();
    open_args.Version = kVersion;
    open_args.pAdapterCallbacks = &adapter.callbacks();
    open_args.pAdapterFuncs = &functions;
    ASSERT_EQ(open_adapter(&open_args), S_OK);
    RuntimeDevice device(adapter, create.hDevice);
    D3DDDIARG_CREATEDEVICE device_args{};
    device_args.hDevice = device.handle();
    device_args.Version = kVersion;
    device_args.pCallbacks = &device.callbacks();
    ASSERT_EQ(functions.pfnCreateDevice(open_args.hAdapter, &device_args), S_OK);
    body(driver, device);
    toy = nullptr;
    ran = true;
  });
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(ran);
  EXPECT_TRUE(outcome->findings.empty());
}

TEST(UmdRuntime, ADriverReachesTheKernelThroughItsCallbacks) {
  with_driver([](ToyDriver& driver, RuntimeDevice& device) {
    SgpuUmdAdapterInfo info{};
    const D3DDDICB_QUERYADAPTERINFO query{.pPrivateDriverData = &info,
                                          .PrivateDriverDataSize = sizeof info};
    ASSERT_EQ(driver.of_adapter->pfnQueryAdapterInfoCb(driver.adapter, &query), S_OK);
    EXPECT_NE(info.version, 0U);

    const RuntimeResource resource(device, RuntimeResource::Sharing::kShared);
    EXPECT_EQ(resource.kernel_handle(), 0U);
    SgpuUmdAllocation wanted = buffer_of(4096);
    D3DDDI_ALLOCATIONINFO one{};
    one.pPrivateDriverData = &wanted;
    one.PrivateDriverDataSize = sizeof wanted;
    D3DDDICB_ALLOCATE allocate{};
    allocate.hResource = resource.handle();
    allocate.NumAllocations = 1;
    allocate.pAllocationInfo = &one;
    ASSERT_EQ(driver.of_device->pfnAllocateCb(driver.device, &allocate), S_OK);
    EXPECT_EQ(resource.kernel_handle(), allocate.hKMResource);
    EXPECT_NE(resource.global_share(), 0U);

    D3DDDICB_LOCK lock{};
    lock.hAllocation = one.hAllocation;
    ASSERT_EQ(driver.of_device->pfnLockCb(driver.device, &lock), S_OK);
    std::memset(lock.pData, 0x5A, 4096);
    const D3DDDICB_UNLOCK unlock{.NumAllocations = 1, .phAllocations = &one.hAllocation};
    EXPECT_EQ(driver.of_device->pfnUnlockCb(driver.device, &unlock), S_OK);

    const D3DDDICB_DEALLOCATE deallocate{
        .hResource = resource.handle(), .NumAllocations = 0, .HandleList = nullptr};
    EXPECT_EQ(driver.of_device->pfnDeallocateCb(driver.device, &deallocate), S_OK);
    EXPECT_EQ(resource.kernel_handle(), 0U);
    EXPECT_EQ(resource.global_share(), 0U);
  });
}

TEST(UmdRuntime, TablesEndWithTheDriversVersion) {
  with_driver([](ToyDriver& driver, RuntimeDevice&) {
    EXPECT_NE(driver.of_device->pfnOfferAllocationsCb, nullptr);
    EXPECT_EQ(driver.of_device->pfnMakeResidentCb, nullptr);
    EXPECT_EQ(driver.of_adapter->pfnQueryAdapterInfoCb2, nullptr);
  });
}

}  // namespace
}  // namespace dxgkit
