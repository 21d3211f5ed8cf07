#include "tools/dxgkit/verify/screen_owner.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "dxgk/display_exercise.h"
#include "thunks/client.h"

namespace dxgkit::tool::verify {

DxgkitClientAllocation ScreenOwner::wanted() const {
  const dxgk::DisplayMode& mode = *source_.mode;
  return {.size_bytes = uint64_t{mode.width} * mode.height * dxgk::kPixelBytes,
          .width = mode.width,
          .height = mode.height,
          .usage = DXGKIT_CLIENT_GPU_WRITES,
          .reserved = 0};
}

Answer<ScreenOwner::Surface> ScreenOwner::make(const Wish& wish) {
  const Answer<Plugin::Instance*> code = bench_.client_code();
  if (!code) return std::unexpected(code.error());
  Answer<std::vector<std::byte>> data = (*code)->pack_allocation(wanted());
  if (!data) return Surface{};
  D3DDDI_ALLOCATIONINFO2 info{};
  info.pPrivateDriverData = data->data();
  info.PrivateDriverDataSize = static_cast<UINT>(data->size());
  info.Flags.Primary = wish.primary ? 1 : 0;
  info.VidPnSourceId = wish.primary ? source_.id : 0;
  Surface surface;
  {
    bench_.came_back();
    const thunks::ClientScope scope(bench_.system(), worker_.client.process());
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = worker_.device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    create.Flags.CreateResource = wish.as_resource ? 1 : 0;
    if (!is_success(from_ntstatus(D3DKMTCreateAllocation2(&create)))) return Surface{};
    surface = {info.hAllocation, create.hResource};
  }
  if (bench_.explicit_residency())
    DXGKIT_VERIFY_TRY(worker_.client.make_resident(worker_.device, {&surface.allocation, 1}));
  dxgk::Process& process = worker_.client.process();
  dxgk::MemoryExercise memory = bench_.exercise().memory();
  const auto bring_in = [&]() -> Answer<void> {
    const Result<vidmm::Placement> place = memory.page_in(process, surface.allocation);
    if (place.has_value()) return {};
    return std::unexpected("a surface could not be brought in: " + status_text(place.error()));
  };
  DXGKIT_VERIFY_TRY(bring_in());
  Status filled = memory.fill(process, surface.allocation, wish.color);
  if (filled == Status::kInvalidParameter) {
    // An aperture shows system memory, which no driver is asked to fill.
    if (!memory.fill_backing(process, surface.allocation, wish.color)) return Surface{};
    filled = Status::kSuccess;
  }
  if (!is_success(filled)) return std::unexpected("a surface is filled: " + status_text(filled));
  if (wish.content.empty()) return surface;
  if (const Status out = memory.page_out(process, surface.allocation); !is_success(out))
    return std::unexpected("a surface could not be evicted: " + status_text(out));
  if (!memory.write_backing(process, surface.allocation, wish.content)) return Surface{};
  DXGKIT_VERIFY_TRY(bring_in());
  return surface;
}

Answer<void> ScreenOwner::write(D3DKMT_HANDLE surface, std::span<const std::byte> content) {
  const Answer<std::byte*> view = worker_.client.lock(worker_.device, surface);
  if (!view) return std::unexpected(view.error());
  std::ranges::copy(content, *view);
  return worker_.client.unlock(worker_.device, surface);
}

Answer<bool> ScreenOwner::update(D3DKMT_HANDLE surface, uint32_t variant, DxgkitClientShow* show) {
  const Answer<Plugin::Instance*> code = bench_.client_code();
  if (!code) return std::unexpected(code.error());
  ClientContext& context = worker_.contexts.front();
  const DxgkitClientHandle handle{
      .wanted = wanted(), .private_data = nullptr, .private_bytes = 0, .reserved = 0};
  std::vector<DxgkitClientUse> uses(context.list_size);
  std::vector<DxgkitClientPatch> patches(context.patches_size);
  DxgkitClientJob job{};
  job.allocation_count = 1;
  job.allocations = &handle;
  job.commands = context.commands;
  job.command_bytes_max = context.command_bytes;
  job.uses = uses.data();
  job.use_count_max = context.list_size;
  job.patches = patches.data();
  job.patch_count_max = context.patches_size;
  const Answer<bool> recorded = (*code)->record_show(job, variant, *show);
  if (!recorded || !*recorded) return recorded;
  for (uint32_t i = 0; i < job.use_count; ++i) {
    context.list[i] = {};
    if (uses[i].allocation == 0) context.list[i].hAllocation = surface;
    context.list[i].WriteOperation = uses[i].write != 0;
  }
  if (job.patch_count != 0)
    std::memcpy(context.patches, patches.data(), job.patch_count * sizeof(patches[0]));
  const Status status = from_ntstatus(
      worker_.client.try_render(context, job.command_bytes, job.use_count, job.patch_count));
  if (!is_success(status)) {
    if (bench_.running() && worker_.client.active(worker_.device)) report_refusal(bench_, status);
    return std::unexpected("D3DKMTRender: " + status_text(status));
  }
  DXGKIT_VERIFY_TRY(settle());
  return true;
}

Answer<void> ScreenOwner::show(D3DKMT_HANDLE primary) {
  bench_.came_back();
  const thunks::ClientScope scope(bench_.system(), worker_.client.process());
  const D3DKMT_VIDPNSOURCEOWNER_TYPE type = D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE;
  const D3DDDI_VIDEO_PRESENT_SOURCE_ID source = source_.id;
  D3DKMT_SETVIDPNSOURCEOWNER own{};
  own.hDevice = worker_.device;
  own.pType = &type;
  own.pVidPnSourceId = &source;
  own.VidPnSourceCount = 1;
  DXGKIT_VERIFY_TRY(check_answer("D3DKMTSetVidPnSourceOwner", D3DKMTSetVidPnSourceOwner(&own)));
  D3DKMT_SETDISPLAYMODE set{};
  set.hDevice = worker_.device;
  set.hPrimaryAllocation = primary;
  return check_answer("D3DKMTSetDisplayMode", D3DKMTSetDisplayMode(&set));
}

NTSTATUS ScreenOwner::present(D3DKMT_PRESENT arguments) {
  bench_.came_back();
  const thunks::ClientScope scope(bench_.system(), worker_.client.process());
  arguments.hContext = worker_.contexts.front().handle;
  arguments.VidPnSourceId = source_.id;
  return D3DKMTPresent(&arguments);
}

NTSTATUS ScreenOwner::present(D3DKMT_PRESENT_MULTIPLANE_OVERLAY arguments) {
  bench_.came_back();
  const thunks::ClientScope scope(bench_.system(), worker_.client.process());
  arguments.hContext = worker_.contexts.front().handle;
  arguments.VidPnSourceId = source_.id;
  return D3DKMTPresentMultiPlaneOverlay(&arguments);
}

NTSTATUS ScreenOwner::check(D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT2* arguments) {
  bench_.came_back();
  const thunks::ClientScope scope(bench_.system(), worker_.client.process());
  arguments->hAdapter = worker_.client.adapter();
  arguments->hDevice = worker_.device;
  return D3DKMTCheckMultiPlaneOverlaySupport2(arguments);
}

}  // namespace dxgkit::tool::verify
