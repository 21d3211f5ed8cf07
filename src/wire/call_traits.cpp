#include "wire/call_traits.h"

#include <d3dkmthk.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "arguments/table.h"

namespace dxgkit::wire {
namespace {

struct Row {
  std::string_view function;
  CallTraits traits;
};

constexpr std::array kRows = {
    Row{"D3DKMTEscape", {.submits = true}},
    Row{"D3DKMTInvalidateCache", {.waits = true}},
    Row{"D3DKMTPresent",
        {.submits = true,
         .queues = true,
         .broadcasts = offsetof(D3DKMT_PRESENT, BroadcastContextCount)}},
    Row{"D3DKMTPresentMultiPlaneOverlay",
        {.submits = true,
         .queues = true,
         .broadcasts = offsetof(D3DKMT_PRESENT_MULTIPLANE_OVERLAY, BroadcastContextCount)}},
    Row{"D3DKMTPresentMultiPlaneOverlay2",
        {.submits = true,
         .queues = true,
         .broadcasts = offsetof(D3DKMT_PRESENT_MULTIPLANE_OVERLAY2, BroadcastContextCount)}},
    Row{"D3DKMTPresentMultiPlaneOverlay3", {.submits = true, .queues = true}},
    Row{"D3DKMTRender",
        {.submits = true,
         .queues = true,
         .broadcasts = offsetof(D3DKMT_RENDER, BroadcastContextCount),
         .answers_early = true}},
    Row{"D3DKMTSignalSynchronizationObject", {.submits = true, .queues = true}},
    Row{"D3DKMTSignalSynchronizationObject2",
        {.submits = true,
         .queues = true,
         .broadcasts = offsetof(D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2, BroadcastContextCount)}},
    Row{"D3DKMTSignalSynchronizationObjectFromCpu", {.submits = true}},
    Row{"D3DKMTSignalSynchronizationObjectFromGpu",
        {.submits = true, .queues = true, .answers_early = true}},
    Row{"D3DKMTSignalSynchronizationObjectFromGpu2",
        {.submits = true,
         .queues = true,
         .broadcasts = offsetof(D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2, BroadcastContextCount),
         .answers_early = true}},
    Row{"D3DKMTSubmitCommand",
        {.submits = true,
         .queues = true,
         .broadcasts = offsetof(D3DKMT_SUBMITCOMMAND, BroadcastContextCount),
         .answers_early = true}},
    Row{"D3DKMTSubmitCommandToHwQueue", {.submits = true, .queues = true, .answers_early = true}},
    Row{"D3DKMTSubmitSignalSyncObjectsToHwQueue",
        {.submits = true,
         .queues = true,
         .broadcasts = offsetof(D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE, BroadcastHwQueueCount)}},
    Row{"D3DKMTSubmitWaitForSyncObjectsToHwQueue", {.queues = true}},
    Row{"D3DKMTWaitForIdle", {.waits = true}},
    Row{"D3DKMTWaitForSynchronizationObject", {.queues = true}},
    Row{"D3DKMTWaitForSynchronizationObject2", {.queues = true}},
    Row{"D3DKMTWaitForSynchronizationObjectFromCpu", {.waits = true}},
    Row{"D3DKMTWaitForSynchronizationObjectFromGpu", {.queues = true, .answers_early = true}},
};

std::vector<CallTraits> by_number() {
  std::vector<CallTraits> all(arguments::functions().size());
  for (const Row& row : kRows) all.at(arguments::number_of(row.function)) = row.traits;
  return all;
}

}  // namespace

const CallTraits& traits_of(uint32_t function) {
  static const std::vector<CallTraits> all = by_number();
  return all.at(function);
}

}  // namespace dxgkit::wire
