// Commitment of processes: what offers would give back, and trimming it.
#include "dxgk/memory/commitment.h"
#include "thunks/call.h"
#include "thunks/process_argument.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::Commitment;
using dxgk::Process;
using dxgk::Ref;

/// Calls `visit` for the memory of each adapter that runs, with the adapter held.
template <typename Visit>
void for_each_memory(Process& caller, Visit visit) {
  for (const Ref<Adapter>& adapter : caller.system().impl().running()) {
    const dxgk::GatePass pass(adapter->core().gate());
    if (!pass || !adapter->core().running() || !adapter->core().has_memory()) continue;
    if (!visit(adapter->floor())) return;
  }
}

Status offer_info(Process& caller, D3DKMT_QUERYPROCESSOFFERINFO& args) {
  if (args.cbSize != sizeof args) return Status::kInvalidParameter;
  const ProcessArgument whose(caller, args.hProcess, dxgk::process_access::kQueryInformation);
  DXGKIT_RETURN_IF_FAILED(whose.status());
  Process& process = whose.process();
  uint64_t bytes = 0;
  // Read first: what changes meanwhile makes the number old, not the bytes new.
  const uint64_t uniqueness = process.decommit_uniqueness();
  for_each_memory(caller, [&](dxgk::WorkFloor& floor) {
    floor.core.lane().run(
        [&]() DXGKIT_REQUIRES(on_lane) { bytes += Commitment(floor).decommittable(process); });
    return true;
  });
  args.DecommitUniqueness = uniqueness;
  args.DecommittableBytes = bytes;
  return Status::kSuccess;
}

Status trim_commitment(Process& caller, D3DKMT_TRIMPROCESSCOMMITMENT& args) {
  if (args.cbSize != sizeof args || args.Flags.Reserved != 0) return Status::kInvalidParameter;
  const ProcessArgument whose(caller, args.hProcess, dxgk::process_access::kSetInformation);
  DXGKIT_RETURN_IF_FAILED(whose.status());
  uint64_t bytes = 0;
  for_each_memory(caller, [&](dxgk::WorkFloor& floor) {
    if (bytes >= args.DecommitRequested) return false;
    const Result<uint64_t> freed =
        Commitment(floor).decommit({.process = &whose.process(),
                                    .bytes = args.DecommitRequested - bytes,
                                    .lazy = args.Flags.Lazy != 0,
                                    .only_repurposed = args.Flags.OnlyRepurposed != 0});
    if (freed.has_value()) bytes += *freed;  // an adapter that fails meanwhile has nothing to give
    return true;
  });
  args.NumBytesDecommitted = bytes;
  return Status::kSuccess;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTQueryProcessOfferInfo(D3DKMT_QUERYPROCESSOFFERINFO* args) {
  return call<D3DKMTQueryProcessOfferInfo>(args, dxgkit::thunks::offer_info);
}
NTSTATUS APIENTRY D3DKMTTrimProcessCommitment(D3DKMT_TRIMPROCESSCOMMITMENT* args) {
  return call<D3DKMTTrimProcessCommitment>(args, dxgkit::thunks::trim_commitment);
}

}  // extern "C"
