#include "dxgk/work/system_objects.h"

#include "dxgk/memory/paging_buffers.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/submission.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

Status SystemObjects::make(AddressSpaces* spaces) {
  if (spaces) spaces->process_begins(0);
  if (core_.facts().told_of_processes()) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(process_,
                                   core_.port().objects().create_process(0, /*system=*/true));
    has_process_ = true;
  }
  const Result<port::DeviceInfo> device =
      core_.port().objects().create_device(0, /*system=*/true, process_);
  if (!device.has_value()) return device.error();
  device_ = device->handle;
  has_device_ = true;
  context_ = device_;
  if (core_.caps().multi_engine_aware) {
    const Result<port::ContextInfo> context =
        core_.port().objects().create_context(device_, 0, NodeOrdinal{core_.caps().paging_node}, 1,
                                              /*system=*/true, {}, spaces != nullptr);
    if (!context.has_value()) return context.error();
    context_ = context->handle;
    has_context_ = true;
  }
  return Status::kSuccess;
}

Status SystemObjects::start_paging(const Parts& parts) {
  const Result<bus::PageFrame> dummy = core_.machine().allocate_contiguous(1);
  if (!dummy.has_value()) return dummy.error();
  dummy_page_ = *dummy;
  has_dummy_page_ = true;
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    paging_context_ = core_.new_context_id();
    parts.submission.set_paging_context(paging_context_);
    trace::emit_name(trace::ObjectClass::kContext, paging_context_.value, "paging");
    status = core_.scheduler().create_context(
        paging_context_,
        {.node = NodeOrdinal{core_.caps().paging_node}, .priority = 0, .is_system = true});
    if (!is_success(status)) return;
    PagingExecutor::Config config;
    config.buffer_bytes = core_.segment_infos().paging_buffer_bytes;
    config.private_bytes = core_.segment_infos().paging_private_bytes;
    config.dummy_page = dummy_page_.value * kPageBytes;
    config.system_context = context_;
    config.virtual_addresses = parts.gpu_va != nullptr;
    config.transfer_chunk_bytes = core_.options().transfer_chunk_bytes;
    status = parts.paging.configure(config);
  });
  DXGKIT_RETURN_IF_FAILED(status);
  // Their buffers have addresses of their own.
  if (parts.gpu_va) return parts.gpu_va->start(process_, context_, dummy_page_);
  return core_.segment_infos().paging_buffer_segment == 0 ? Status::kSuccess
                                                          : parts.paging_buffers.map();
}

void SystemObjects::destroy() {
  if (has_context_) static_cast<void>(core_.port().objects().destroy_context(context_));
  if (has_device_) static_cast<void>(core_.port().objects().destroy_device(device_));
  if (has_process_) static_cast<void>(core_.port().objects().destroy_process(process_));
  has_context_ = has_device_ = has_process_ = false;
}

void SystemObjects::free_dummy_page() {
  if (has_dummy_page_) core_.machine().free_contiguous(dummy_page_, 1);
  has_dummy_page_ = false;
}

}  // namespace dxgkit::dxgk
