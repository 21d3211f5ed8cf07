// Contexts with virtual addressing: creation and submission.
#include <algorithm>

#include "dxgk/adapter/adapter.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::Context;
using dxgk::Device;
using dxgk::OpenedAllocation;
using dxgk::Process;
using dxgk::Ref;

Status create_context(Process& process, D3DKMT_CREATECONTEXTVIRTUAL& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  if (device->floor().gpu_va == nullptr) return Status::kInvalidParameter;  // VA-01
  std::vector<std::byte> private_data;
  DXGKIT_RETURN_IF_FAILED(
      capture<&D3DKMT_CREATECONTEXTVIRTUAL::pPrivateDriverData>(args, &private_data));
  dxgk::ContextCreation creation;
  creation.node = NodeOrdinal{args.NodeOrdinal};
  creation.engine_affinity = args.EngineAffinity;
  creation.private_data = private_data;
  creation.null_rendering = args.Flags.NullRendering != 0;
  creation.virtual_addressing = true;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context, Context::create(*device, creation));
  args.hContext = context->handle;
  return Status::kSuccess;
}

/// SUB-34: the driver checks the private data once, before anything is queued.
Status validate(Adapter& adapter, std::span<const Ref<Context>> contexts,
                const dxgk::VirtualSubmission& submission, std::span<std::byte> private_data) {
  if (private_data.empty()) return Status::kSuccess;
  std::vector<void*> handles;
  for (const Ref<Context>& context : contexts) handles.push_back(context->driver_handle());
  port::ValidateSubmitArgs args;
  args.buffer_va = submission.commands;
  args.buffer_bytes = submission.bytes;
  args.contexts = handles;
  args.private_data = private_data.data();
  args.private_bytes = args.user_private_bytes = static_cast<uint32_t>(private_data.size());
  const Status status = adapter.core().port().rendering().validate_submit(args);
  return status == Status::kNotSupported ? Status::kSuccess : status;
}

Status submit(Process& process, const D3DKMT_SUBMITCOMMAND& args) {
  if (args.BroadcastContextCount == 0 ||
      args.BroadcastContextCount > std::size(args.BroadcastContext) ||
      args.NumPrimaries > std::size(args.WrittenPrimaries))
    return Status::kInvalidParameter;  // SUB-35, SUB-36
  std::vector<Ref<Context>> contexts(args.BroadcastContextCount);
  for (UINT i = 0; i < args.BroadcastContextCount; ++i) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(contexts[i],
                                   process.handles().find<Context>(args.BroadcastContext[i]));
  }
  Adapter& adapter = contexts.front()->device().adapter();
  DXGKIT_ENTER(adapter);
  if (contexts.front()->device().lost()) return Status::kDeviceRemoved;
  if (args.Flags.Reserved != 0) return Status::kInvalidParameter;  // THUNK-03
  if (args.NumHistoryBuffers != 0) return Status::kNotSupported;
  if (args.Flags.PresentRedirected != 0) return Status::kNotSupported;
  std::vector<std::byte> private_data;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_SUBMITCOMMAND::pPrivateDriverData>(args, &private_data));
  std::vector<Ref<OpenedAllocation>> primaries(args.NumPrimaries);
  for (UINT i = 0; i < args.NumPrimaries; ++i) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(
        primaries[i], process.handles().find<OpenedAllocation>(args.WrittenPrimaries[i]));
    if (&primaries[i]->device->floor() != &adapter.floor()) return Status::kInvalidParameter;
  }
  dxgk::VirtualSubmission submission;
  submission.commands = args.Commands;  // THUNK-18: the GPU finds out
  submission.bytes = args.CommandLength;
  submission.private_data = private_data;
  submission.null_rendering = args.Flags.NullRendering != 0;
  submission.written_primaries = primaries;
  for (const Ref<Context>& context : contexts) {
    if (&context->device().adapter() != &adapter) return Status::kInvalidParameter;
    DXGKIT_RETURN_IF_FAILED(context->virtual_submissions().check(submission));
  }
  DXGKIT_RETURN_IF_FAILED(validate(adapter, contexts, submission, private_data));
  for (const Ref<Context>& context : contexts)
    DXGKIT_RETURN_IF_FAILED(context->virtual_submissions().submit(submission));
  return Status::kSuccess;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCreateContextVirtual(D3DKMT_CREATECONTEXTVIRTUAL* args) {
  return call<D3DKMTCreateContextVirtual>(args, dxgkit::thunks::create_context);
}
NTSTATUS APIENTRY D3DKMTSubmitCommand(const D3DKMT_SUBMITCOMMAND* args) {
  return call<D3DKMTSubmitCommand>(args, dxgkit::thunks::submit);
}

}  // extern "C"
