// Runs the software GPU's driver in this process, and is its client: the GPU fills an allocation,
// and a fence says when that is done.
#include <d3dkmthk.h>
#include <dxgkit/softgpu_umd.h>
#include <dxgkit/stack.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace {

void must(NTSTATUS status, const char* what) {
  if (status < 0) throw std::runtime_error(what);
}

void use_the_gpu(dxgkit::AdapterId id) {
  D3DKMT_OPENADAPTERFROMLUID adapter{.AdapterLuid = {.LowPart = id.low, .HighPart = id.high}};
  must(D3DKMTOpenAdapterFromLuid(&adapter), "open the adapter");
  D3DKMT_CREATEDEVICE device{};
  device.hAdapter = adapter.hAdapter;
  must(D3DKMTCreateDevice(&device), "make a device");
  D3DKMT_CREATECONTEXT context{.hDevice = device.hDevice};
  must(D3DKMTCreateContext(&context), "make a context");

  SgpuUmdAllocation wanted{.magic = SGPU_UMD_ALLOCATION_MAGIC, .version = SGPU_UMD_VERSION};
  wanted.placement = SGPU_UMD_PLACE_STAGING;
  wanted.size_bytes = 4096;
  D3DDDI_ALLOCATIONINFO info{};
  info.pPrivateDriverData = &wanted;
  info.PrivateDriverDataSize = sizeof(wanted);
  D3DKMT_CREATEALLOCATION allocation{.hDevice = device.hDevice};
  allocation.NumAllocations = 1;
  allocation.pAllocationInfo = &info;
  must(D3DKMTCreateAllocation(&allocation), "make an allocation");

  struct {
    SgpuUmdBufferHeader header{SGPU_UMD_BUFFER_MAGIC, SGPU_UMD_VERSION, sizeof(*this), 0};
    SgpuUmdFill fill{{SGPU_UMD_OP_FILL, sizeof(SgpuUmdFill)}, {0, 0}, 4096, 0x600DF00D, 0};
  } commands;
  std::memcpy(context.pCommandBuffer, &commands, sizeof(commands));
  context.pAllocationList[0] = {.hAllocation = info.hAllocation};
  context.pAllocationList[0].WriteOperation = 1;
  D3DKMT_RENDER render{.hContext = context.hContext};
  render.CommandLength = sizeof(commands);
  render.AllocationCount = 1;
  must(D3DKMTRender(&render), "submit");

  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence{.hDevice = device.hDevice};
  fence.Info.Type = D3DDDI_MONITORED_FENCE;
  must(D3DKMTCreateSynchronizationObject2(&fence), "make a fence");
  const UINT64 value = 1;
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal{.hContext = context.hContext};
  signal.ObjectCount = 1;
  signal.ObjectHandleArray = &fence.hSyncObject;
  signal.MonitoredFenceValueArray = &value;
  must(D3DKMTSignalSynchronizationObjectFromGpu(&signal), "queue a signal behind the packet");
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{.hDevice = device.hDevice};
  wait.ObjectCount = 1;
  wait.ObjectHandleArray = &fence.hSyncObject;
  wait.FenceValueArray = &value;
  must(D3DKMTWaitForSynchronizationObjectFromCpu(&wait), "wait for it");
  std::printf(
      "the packet's fence is signalled: 0x%llx\n",
      *static_cast<unsigned long long*>(fence.Info.MonitoredFence.FenceValueCPUVirtualAddress));
}

}  // namespace

int main() {
  const auto outcome = dxgkit::Stack::run({}, [](dxgkit::Stack& stack) {
    const auto driver = stack.load(dxgkit::bundled_driver("softgpu").value());
    const auto adapter = stack.start(**driver);
    const auto client = stack.make_client("embed");
    const dxgkit::ClientProcess::Attach attach(*client);
    use_the_gpu(adapter.value());
  });
  for (const dxgkit::Finding& finding : outcome->findings) std::puts(finding.text.c_str());
  return outcome.has_value() && outcome->findings.empty() ? 0 : 1;
}
