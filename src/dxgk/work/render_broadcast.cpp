// One Render for several contexts (D3DKMT_RENDER.BroadcastContext).
#include <algorithm>
#include <cstring>

#include "dxgk/core/adapter_core.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/render_stream.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

/// The handles in the list are the device's, and what the driver built for one context must fit the
/// buffers of the others.
Status RenderStream::check_broadcast(const RenderRequest& request) const {
  for (const Ref<Context>& other : request.broadcast) {
    if (other.get() == &context_ || other->virtual_addressing()) return Status::kInvalidParameter;
    const auto same = [&](const Ref<Context>& each) { return each.get() == other.get(); };
    if (std::ranges::count_if(request.broadcast, same) != 1) return Status::kInvalidParameter;
    if (&other->device() != &context_.device()) return Status::kInvalidParameter;
    if (other->info().dma_buffer_bytes < context_.info().dma_buffer_bytes)
      return Status::kInvalidParameter;
    if (other->info().dma_private_bytes < context_.info().dma_private_bytes)
      return Status::kInvalidParameter;
  }
  return Status::kSuccess;
}

Result<DmaBuffer*> RenderStream::copy_pass(const DmaBuffer& from,
                                           const port::RenderResult& result) {
  if (context_.closed()) return Error(Status::kDeviceRemoved);  // destroyed meanwhile
  DXGKIT_ASSIGN_OR_RETURN(DmaBuffer * buffer, pool_->acquire());
  buffer->users = 1;
  std::memcpy(buffer->view.cpu, from.view.cpu, result.dma_bytes);
  std::copy_n(from.view.private_data, from.view.private_size_bytes, buffer->view.private_data);
  if (buffer->memory.value != 0)
    context_.device().floor().core.memory().mark_cpu_written(buffer->memory);
  if (buffer->allocations.size() < from.allocation_count) {
    buffer->allocations.resize(from.allocation_count);
  }
  std::copy_n(from.allocations.begin(), from.allocation_count, buffer->allocations.begin());
  buffer->allocation_count = from.allocation_count;
  if (buffer->patches.size() < from.patch_count) buffer->patches.resize(from.patch_count);
  std::copy_n(from.patches.begin(), from.patch_count, buffer->patches.begin());
  buffer->patch_count = from.patch_count;
  buffer->references = from.references;
  buffer->places_as_of = from.places_as_of;
  for (OpenedAllocation* const reference : buffer->references) {
    if (reference != nullptr) ++reference->uses;
  }
  buffer->written = from.written;
  for (OpenedAllocation* const one : buffer->written) ++one->writes;
  return buffer;
}

/// On this context and those it broadcasts to, or on none.
Status RenderStream::queue_everywhere(DmaBuffer& buffer, const port::RenderResult& result,
                                      const RenderRequest& request) {
  std::vector<DmaBuffer*> copies;
  Status status = Status::kSuccess;
  for (const Ref<Context>& other : request.broadcast) {
    const Result<DmaBuffer*> copy = other->rendering().copy_pass(buffer, result);
    if (!copy.has_value()) {
      status = copy.error();
      break;
    }
    copies.push_back(*copy);
  }
  if (is_success(status)) {
    const uint32_t broadcast = copies.empty() ? 0 : result.dma_bytes;
    buffer.broadcast_bytes = broadcast;
    queue_pass(buffer, result, request);
    for (size_t i = 0; i < copies.size(); ++i) {
      copies[i]->broadcast_bytes = broadcast;
      request.broadcast[i]->rendering().queue_pass(*copies[i], result, request);
    }
  }
  for (DmaBuffer* copy : copies) DmaBufferPool::drop_user(*copy);
  return status;
}

}  // namespace dxgkit::dxgk
