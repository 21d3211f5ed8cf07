// A client of the virtio GPU's driver that draws 3D, for tests: D3DKMT calls, and commands as user
// mode records them.
#pragma once

#include <d3dkmthk.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "base/status.h"
#include "devices/virtiogpu/virtiogpu_hw.h"
#include "dxgk/system.h"
#include "miniports/virtiogpu/virtiogpu_umd.h"
#include "tests/screen/resident_list.h"

namespace dxgkit {

inline constexpr NTSTATUS status_of(Status status) { return static_cast<NTSTATUS>(status); }
inline constexpr uint32_t kWidth = 61, kHeight = 37;         // rows that are no whole pages
inline constexpr uint32_t kTarget2D = 2, kRenderTarget = 2;  // of virgl

using Pixels = std::vector<uint32_t>;

/// Commands of user mode, as they are in a command buffer.
class Commands {
 public:
  Commands& submit(const std::vector<uint32_t>& words) {
    add(VgpuUmdHeader{VGPU_UMD_SUBMIT,
                      static_cast<uint32_t>(sizeof(VgpuUmdHeader) + words.size() * 4)});
    const auto bytes = std::as_bytes(std::span(words));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Commands& discard(uint32_t allocation) {
    return add(VgpuUmdDiscard{{VGPU_UMD_DISCARD, sizeof(VgpuUmdDiscard)}, allocation, 0});
  }
  Commands& to_host(uint32_t allocation, uint32_t width = kWidth, uint32_t height = kHeight) {
    return add(transfer(VGPU_UMD_TRANSFER_TO_HOST_3D, allocation, width, height));
  }
  Commands& from_host(uint32_t allocation, uint32_t width = kWidth, uint32_t height = kHeight) {
    return add(transfer(VGPU_UMD_TRANSFER_FROM_HOST_3D, allocation, width, height));
  }
  template <typename Command>
  Commands& add(const Command& command) {
    const auto bytes = std::as_bytes(std::span(&command, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  static VgpuUmdTransfer3d transfer(uint32_t type, uint32_t allocation, uint32_t width,
                                    uint32_t height) {
    VgpuUmdTransfer3d command{};
    command.header = {type, sizeof command};
    command.allocation = allocation;
    command.width = width;
    command.height = height;
    command.depth = 1;
    return command;
  }

 private:
  std::vector<std::byte> bytes_;
};

struct Picture {
  D3DKMT_HANDLE handle = 0;
  uint32_t resource = 0;  // the device's id
};

inline VgpuUmdResource description(uint32_t width = kWidth, uint32_t height = kHeight) {
  VgpuUmdResource data{};
  data.magic = VGPU_UMD_RESOURCE_MAGIC;
  data.version = VGPU_UMD_VERSION;
  data.target = kTarget2D;
  data.format = VGPU_B8G8R8A8;
  data.bind = kRenderTarget;
  data.width = width;
  data.height = height;
  data.depth = data.array_size = 1;
  data.size_bytes = uint64_t{width} * height * 4;
  return data;
}

inline VgpuUmdContext context_data() {
  VgpuUmdContext data{};
  data.magic = VGPU_UMD_CONTEXT_MAGIC;
  data.version = VGPU_UMD_VERSION;
  data.capset_id = VGPU_CAPSET_VIRGL2;
  std::memcpy(data.name, "test", 4);
  return data;
}

/// A device with a context. What it does is done in the name of the process of the scope.
class RenderClient {
 public:
  explicit RenderClient(dxgk::Luid adapter) {
    D3DKMT_OPENADAPTERFROMLUID open{};
    open.AdapterLuid = {adapter.low, adapter.high};
    EXPECT_EQ(D3DKMTOpenAdapterFromLuid(&open), 0);
    adapter_ = open.hAdapter;
    D3DKMT_CREATEDEVICE device{};
    device.hAdapter = adapter_;
    EXPECT_EQ(D3DKMTCreateDevice(&device), 0);
    device_ = device.hDevice;
    VgpuUmdContext data = context_data();
    EXPECT_EQ(create_context(&data, sizeof data, &context_), 0);
    has_list_ = (info().flags & VGPU_UMD_EXPLICIT_RESIDENCY) != 0;
    if (has_list_) resident_.open(device_);
  }
  ~RenderClient() {
    for (const Picture& picture : pictures_) destroy(picture);
    resident_.close();
    destroy_context(context_.hContext);
    D3DKMT_DESTROYDEVICE device{};
    device.hDevice = device_;
    EXPECT_EQ(D3DKMTDestroyDevice(&device), 0);
    D3DKMT_CLOSEADAPTER adapter{};
    adapter.hAdapter = adapter_;
    EXPECT_EQ(D3DKMTCloseAdapter(&adapter), 0);
  }

  NTSTATUS create_context(void* data, uint32_t bytes, D3DKMT_CREATECONTEXT* context) {
    *context = {};
    context->hDevice = device_;
    context->pPrivateDriverData = data;
    context->PrivateDriverDataSize = bytes;
    return D3DKMTCreateContext(context);
  }
  static void destroy_context(D3DKMT_HANDLE context) {
    D3DKMT_DESTROYCONTEXT destroy{};
    destroy.hContext = context;
    EXPECT_EQ(D3DKMTDestroyContext(&destroy), 0);
  }

  NTSTATUS create(void* data, uint32_t bytes, D3DKMT_HANDLE* handle) {
    D3DDDI_ALLOCATIONINFO2 info{};
    info.pPrivateDriverData = data;
    info.PrivateDriverDataSize = bytes;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = device_;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    const NTSTATUS status = D3DKMTCreateAllocation2(&create);
    *handle = info.hAllocation;
    return status;
  }
  Picture make(uint32_t width = kWidth, uint32_t height = kHeight) {
    VgpuUmdResource data = description(width, height);
    Picture picture;
    EXPECT_EQ(create(&data, sizeof data, &picture.handle), 0);
    picture.resource = data.resource;
    EXPECT_NE(picture.resource, 0U);
    pictures_.push_back(picture);
    return picture;
  }
  void destroy(const Picture& picture) {
    D3DKMT_DESTROYALLOCATION2 args{};
    args.hDevice = device_;
    args.phAllocationList = &picture.handle;
    args.AllocationCount = 1;
    EXPECT_EQ(D3DKMTDestroyAllocation2(&args), 0);
  }

  NTSTATUS render(const Commands& commands, const std::vector<Picture>& list,
                  D3DKMT_CREATECONTEXT* context, bool write = true) {
    if (commands.bytes().size() > context->CommandBufferSize) return -1;
    std::memcpy(context->pCommandBuffer, commands.bytes().data(), commands.bytes().size());
    for (size_t i = 0; i < list.size(); ++i) {
      context->pAllocationList[i] = {};
      context->pAllocationList[i].hAllocation = list[i].handle;
      context->pAllocationList[i].WriteOperation = write ? 1 : 0;
    }
    std::vector<D3DKMT_HANDLE> named;
    for (const Picture& picture : list) named.push_back(picture.handle);
    if (const NTSTATUS listed = resident_.add(named); listed != 0) return listed;
    D3DKMT_RENDER render{};
    render.hContext = context->hContext;
    render.CommandLength = static_cast<UINT>(commands.bytes().size());
    render.AllocationCount = static_cast<UINT>(list.size());
    const NTSTATUS status = D3DKMTRender(&render);
    if (status == 0) resident_.let_go(named);
    if (status != 0) return status;
    context->pCommandBuffer = render.pNewCommandBuffer;
    context->CommandBufferSize = render.NewCommandBufferSize;
    context->pAllocationList = render.pNewAllocationList;
    context->pPatchLocationList = render.pNewPatchLocationList;
    return status;
  }
  NTSTATUS render(const Commands& commands, const std::vector<Picture>& list) {
    return render(commands, list, &context_);
  }

  /// Waits for what uses the memory, then reads or writes it.
  NTSTATUS touch(const Picture& picture, const std::function<void(uint32_t*)>& with) {
    D3DKMT_LOCK lock{};
    lock.hDevice = device_;
    lock.hAllocation = picture.handle;
    const NTSTATUS status = D3DKMTLock(&lock);
    if (status != 0) return status;
    with(static_cast<uint32_t*>(lock.pData));
    D3DKMT_UNLOCK unlock{};
    unlock.hDevice = device_;
    unlock.NumAllocations = 1;
    unlock.phAllocations = &picture.handle;
    return D3DKMTUnlock(&unlock);
  }
  /// The pixels that the memory has.
  Pixels look(const Picture& picture, uint32_t count = kWidth * kHeight) {
    Pixels pixels(count);
    EXPECT_EQ(touch(picture, [&](uint32_t* at) { std::memcpy(pixels.data(), at, count * 4); }), 0);
    return pixels;
  }
  /// The pixels that the device has.
  Pixels fetch(const Picture& picture) {
    EXPECT_EQ(render(Commands().from_host(0), {picture}), 0);
    return look(picture);
  }

  D3DKMT_DEVICEEXECUTION_STATE state() const {
    D3DKMT_GETDEVICESTATE get{};
    get.hDevice = device_;
    get.StateType = D3DKMT_DEVICESTATE_EXECUTION;
    EXPECT_EQ(D3DKMTGetDeviceState(&get), 0);
    return get.ExecutionState;
  }
  /// The state of a device whose work the hardware did not like.
  D3DKMT_DEVICEEXECUTION_STATE fault_state() const {
    return has_list_ ? D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT
                     : D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT;
  }
  /// Waits until all work of the device is over.
  NTSTATUS wait() const {
    D3DKMT_WAITFORIDLE wait{};
    wait.hDevice = device_;
    return D3DKMTWaitForIdle(&wait);
  }
  NTSTATUS escape(void* data, uint32_t bytes) const {
    D3DKMT_ESCAPE escape{};
    escape.hAdapter = adapter_;
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    escape.pPrivateDriverData = data;
    escape.PrivateDriverDataSize = bytes;
    return D3DKMTEscape(&escape);
  }
  VgpuUmdAdapterInfo info() const {
    VgpuUmdAdapterInfo info{};
    D3DKMT_QUERYADAPTERINFO query{};
    query.hAdapter = adapter_;
    query.Type = KMTQAITYPE_UMDRIVERPRIVATE;
    query.pPrivateDriverData = &info;
    query.PrivateDriverDataSize = sizeof info;
    EXPECT_EQ(D3DKMTQueryAdapterInfo(&query), 0);
    return info;
  }
  D3DKMT_CREATECONTEXT& context() { return context_; }
  D3DKMT_HANDLE device() const { return device_; }

 private:
  D3DKMT_HANDLE adapter_ = 0, device_ = 0;
  D3DKMT_CREATECONTEXT context_{};
  ResidentList resident_;
  bool has_list_ = false;
  std::vector<Picture> pictures_;
};

}  // namespace dxgkit
