// Render, patch, submit and their kin: the hot path.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "nt/paged.h"
#include "port/adapter_impl.h"
#include "port/write_guard.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kRender{"DxgkDdiRender", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kRenderKm{"DxgkDdiRenderKm", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kPatch{"DxgkDdiPatch", nt::kPassiveLevel, DdiClass::kScheduler};
constexpr DdiInfo kSubmitCommand{"DxgkDdiSubmitCommand", nt::kDispatchLevel, DdiClass::kScheduler};
constexpr DdiInfo kPreemptCommand{"DxgkDdiPreemptCommand", nt::kDispatchLevel,
                                  DdiClass::kScheduler};
constexpr DdiInfo kPreemptCommandLow{"DxgkDdiPreemptCommand", nt::kPassiveLevel,
                                     DdiClass::kScheduler};
constexpr DdiInfo kCancelCommand{"DxgkDdiCancelCommand", nt::kPassiveLevel, DdiClass::kScheduler};
constexpr DdiInfo kQueryCurrentFence{"DxgkDdiQueryCurrentFence", nt::kPassiveLevel,
                                     DdiClass::kLevelZero};

static_assert(sizeof(AllocationListEntry) == sizeof(DXGK_ALLOCATIONLIST));
static_assert(offsetof(AllocationListEntry, bits) == 8 &&
              offsetof(DXGK_ALLOCATIONLIST, PhysicalAddress) == 16);
static_assert(offsetof(AllocationListEntry, physical_address) == 16);
static_assert(sizeof(PatchLocation) == sizeof(D3DDDI_PATCHLOCATIONLIST));
static_assert(offsetof(PatchLocation, allocation_offset) ==
              offsetof(D3DDDI_PATCHLOCATIONLIST, AllocationOffset));
static_assert(offsetof(PatchLocation, patch_offset) ==
              offsetof(D3DDDI_PATCHLOCATIONLIST, PatchOffset));
static_assert(offsetof(PatchLocation, split_offset) ==
              offsetof(D3DDDI_PATCHLOCATIONLIST, SplitOffset));

const DXGK_ALLOCATIONLIST* to_abi(const AllocationListEntry* list) {
  return reinterpret_cast<const DXGK_ALLOCATIONLIST*>(list);
}
const D3DDDI_PATCHLOCATIONLIST* to_abi(const PatchLocation* list) {
  return reinterpret_cast<const D3DDDI_PATCHLOCATIONLIST*>(list);
}

/// FNV-1a over 8-byte words, fast enough to watch the whole buffer in tests.
uint64_t checksum(const std::byte* data, size_t bytes) {
  uint64_t hash = 0xCBF29CE484222325;
  for (; bytes >= 8; bytes -= 8, data += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data, 8);
    hash = (hash ^ word) * 0x100000001B3;
  }
  for (; bytes > 0; --bytes, ++data) hash = (hash ^ static_cast<uint64_t>(*data)) * 0x100000001B3;
  return hash;
}

struct Outside {
  uint64_t before = 0, after = 0;
};

Outside outside_of(const PatchArgs& arguments) {
  return {checksum(arguments.buffer.cpu, arguments.slice.start),
          checksum(arguments.buffer.cpu + arguments.slice.end,
                   arguments.buffer.size_bytes - arguments.slice.end)};
}

/// True, and said (FIELD-02), if `found` is where the CPU sees the allocation and not the engine.
bool report_cpu_address(AdapterPort::Impl& port, uint32_t index, const PatchLocation& patch,
                        const AllocationListEntry& entry, uint64_t found) {
  const uint32_t id = entry.segment();
  if (id > port.segments.size()) return false;
  const SegmentInfo& segment = port.segments[id - 1];
  if (segment.cpu_translated_address == 0 || segment.cpu_translated_address == segment.base_address)
    return false;
  const uint64_t offset = entry.physical_address - segment.base_address + patch.allocation_offset;
  if (found != segment.cpu_translated_address + offset) return false;
  port.findings.report(
      {.rule = "FIELD-02",
       .severity = verifier::Severity::kViolation,
       .ddi = kPatch.name,
       .actual = fmt::format("Patch element {} wrote {:#x} at dword {} of the DMA buffer: the "
                             "address at which the CPU sees segment {} + {:#x}.",
                             index, found, patch.patch_offset / 4, id, offset),
       .expected = fmt::format("{:#x}: the engine decodes segment {} from its base {:#x}.",
                               segment.base_address + offset, id, segment.base_address),
       .fix = "Write PhysicalAddress + AllocationOffset of the allocation list entry. "
              "CpuTranslatedAddress is for CPU access only.",
       .why = "Two address spaces show the same memory; the engine reads its own.",
       .windows = "Nothing is said: the engine faults or reads other memory, and the fence may "
                  "never arrive (TDR).",
       .confidence = verifier::Confidence::kMeasured});
  return true;
}

/// PATCH-27: each element of the range got its allocation's address. 32 and 64 bit words are
/// recognised; an element whose entry is empty unbinds a slot and is skipped.
void check_patched_words(AdapterPort::Impl& port, const PatchArgs& arguments) {
  for (uint32_t i = 0; i < arguments.patch_length; ++i) {
    const PatchLocation& patch = arguments.patches[arguments.patch_start + i];
    if (patch.allocation_index >= arguments.allocation_count) continue;
    const AllocationListEntry& entry = arguments.allocations[patch.allocation_index];
    if (entry.device_handle == nullptr || entry.segment() == 0) continue;
    if (patch.patch_offset < arguments.slice.start ||
        !range_within(patch.patch_offset, 4, arguments.slice.end))
      continue;
    const uint64_t expected = entry.physical_address + patch.allocation_offset;
    uint64_t found = 0;
    const bool wide =
        expected >> 32 != 0 && range_within(patch.patch_offset, 8, arguments.slice.end);
    std::memcpy(&found, arguments.buffer.cpu + patch.patch_offset, wide ? 8 : 4);
    if (found == (wide ? expected : expected & UINT32_MAX)) continue;
    if (report_cpu_address(port, arguments.patch_start + i, patch, entry, found)) return;
    (void)port.violation(
        "PATCH-27", kPatch.name,
        fmt::format("Patch element {}: the word at offset {:#x} is {:#x}.",
                    arguments.patch_start + i, patch.patch_offset, found),
        fmt::format(
            "{:#x}: PhysicalAddress {:#x} of allocation list entry {} + AllocationOffset {:#x}.",
            expected, entry.physical_address, patch.allocation_index, patch.allocation_offset),
        "Write PhysicalAddress + AllocationOffset at PatchOffset, for each element of the "
        "submission's range.",
        Status::kSuccess);
    return;  // one is enough to act on; the rest would repeat it
  }
}

}  // namespace

RenderResult AdapterPort::render(const RenderArgs& args) {
  Impl& port = *impl_;
  RenderResult result;
  const auto entry = args.render_km ? port.ddi.DxgkDdiRenderKm : port.ddi.DxgkDdiRender;
  if (is_dead(port) || entry == nullptr) {
    result.status = is_dead(port) ? Status::kDeviceRemoved : Status::kNotSupported;
    return result;
  }
  const DdiInfo& info = args.render_km ? kRenderKm : kRender;
  DXGKARG_RENDER arguments{};
  arguments.pCommand = args.command;
  arguments.CommandLength = args.command_length;
  arguments.pDmaBuffer = args.buffer.cpu;
  arguments.DmaSize = args.buffer.size_bytes;
  std::byte* const private_data =
      args.buffer.private_size_bytes == 0 ? port.guard_page : args.buffer.private_data;
  arguments.pDmaBufferPrivateData = private_data;
  arguments.DmaBufferPrivateDataSize = args.buffer.private_size_bytes;
  arguments.pAllocationList = const_cast<DXGK_ALLOCATIONLIST*>(to_abi(args.allocations));
  arguments.AllocationListSize = args.allocation_count;
  arguments.pPatchLocationListIn = const_cast<D3DDDI_PATCHLOCATIONLIST*>(to_abi(args.patches_in));
  arguments.PatchLocationListInSize = args.patches_in_count;
  auto* const patches_out = const_cast<D3DDDI_PATCHLOCATIONLIST*>(to_abi(args.patches_out));
  arguments.pPatchLocationListOut = patches_out;
  arguments.PatchLocationListOutSize = args.patches_out_capacity;
  arguments.MultipassOffset = args.multipass_offset;
  arguments.DmaBufferSegmentId = args.buffer.segment.value;
  arguments.DmaBufferPhysicalAddress.QuadPart = static_cast<LONGLONG>(args.buffer.physical_address);
  const DmaBufferView& buffer = args.buffer;
  const bool check = port.reference_checks;
  const WriteGuard behind(check && buffer.guarded ? buffer.cpu + buffer.size_bytes : nullptr);
  const WriteGuard behind_private(
      check && buffer.private_guarded ? buffer.private_data + buffer.private_size_bytes : nullptr);
  Status status = Status::kSuccess;
  {
    DdiCall call(port, info, args.command_length);
    if (port.faults != nullptr) [[unlikely]]
      arguments.DmaSize = port.faults->room(info.name, args.buffer.size_bytes);
    status = call(entry, args.context, &arguments);
    if (!call.completed()) {
      result.status = status;
      return result;
    }
    if (port.faults != nullptr && status == Status::kSuccess) [[unlikely]] {
      if (const uint32_t behind_end = port.faults->overrun(info.name); behind_end != 0)
        arguments.pDmaBuffer = args.buffer.cpu + args.buffer.size_bytes + behind_end;
    }
  }
  const auto wrote_behind = [&](const WriteGuard::Damage& damage, const char* place,
                                const char* size_name, uint32_t size) {
    port.fatal("REND-08", info.name, 0x10E, 0x12,
               fmt::format("It wrote {:#04x} {} bytes behind the end of the {}, whose {} is {}.",
                           damage.value, damage.first, place, size_name, size),
               fmt::format("It writes inside the {} bytes it was given.", size),
               "Check the room that is left before each write, and return "
               "STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER when it does not do.");
    result.status = Status::kUnsuccessful;
    return result;
  };
  if (const auto damage = behind.damage(); damage.has_value()) [[unlikely]]
    return wrote_behind(*damage, "DMA buffer", "DmaSize", buffer.size_bytes);
  if (const auto damage = behind_private.damage(); damage.has_value()) [[unlikely]] {
    return wrote_behind(*damage, "private data", "DmaBufferPrivateDataSize",
                        buffer.private_size_bytes);
  }
  constexpr std::array kDocumented = {Status::kSuccess,
                                      Status::kNoMemory,
                                      Status::kGraphicsInsufficientDmaBuffer,
                                      Status::kPrivilegedInstruction,
                                      Status::kIllegalInstruction,
                                      Status::kInvalidParameter,
                                      Status::kInvalidUserBuffer,
                                      Status::kInvalidHandle,
                                      Status::kGraphicsDriverMismatch,
                                      Status::kGraphicsGpuExceptionOnDevice};
  if (std::ranges::find(kDocumented, status) == kDocumented.end()) [[unlikely]] {
    result.status = port.violation(
        "REND-16", info.name, fmt::format("It returned {}.", hex(status)),
        "One of the ten documented codes; the caller gets STATUS_INVALID_PARAMETER for any other.",
        "Map the failure to a documented code.", Status::kInvalidParameter);
    return result;
  }
  result.status = status;
  result.multipass_offset = arguments.MultipassOffset;
  if (status != Status::kSuccess && status != Status::kGraphicsInsufficientDmaBuffer) return result;
  port.measure_outputs(info,
                       {.dma = {args.buffer.cpu, arguments.pDmaBuffer, args.buffer.size_bytes},
                        .patches = {patches_out, arguments.pPatchLocationListOut,
                                    uint64_t{args.patches_out_capacity} * sizeof(PatchLocation)},
                        .private_data = {private_data, arguments.pDmaBufferPrivateData,
                                         args.buffer.private_size_bytes}},
                       &result);
  return result;
}

void AdapterPort::Impl::measure_outputs(const DdiInfo& info, const BuilderOutputs& outputs,
                                        RenderResult* result) {
  // Distances as unsigned numbers: a pointer below the start becomes a huge one.
  const auto distance = [](const BuilderOutputs::Span& span) {
    return reinterpret_cast<uint64_t>(span.end) - reinterpret_cast<uint64_t>(span.start);
  };
  const uint64_t dma_bytes = distance(outputs.dma);
  const uint64_t patch_bytes = distance(outputs.patches);
  const uint64_t private_bytes = distance(outputs.private_data);
  const char* what = nullptr;
  uint64_t limit = 0, got = 0;
  if (dma_bytes > outputs.dma.room) {
    what = "pDmaBuffer", limit = outputs.dma.room, got = dma_bytes;
  } else if (patch_bytes > outputs.patches.room || patch_bytes % sizeof(PatchLocation) != 0) {
    what = "pPatchLocationListOut", limit = outputs.patches.room, got = patch_bytes;
  } else if (private_bytes > outputs.private_data.room) {
    what = "pDmaBufferPrivateData", limit = outputs.private_data.room, got = private_bytes;
  }
  if (what != nullptr) [[unlikely]] {
    fatal("REND-08", info.name, 0x10E, 0x12,
          fmt::format("{} came back {} bytes from where it was given.", what,
                      static_cast<int64_t>(got)),
          fmt::format("It points past the last byte or element written: 0 to {} bytes "
                      "further, whole elements.",
                      limit),
          "Advance it by what was written and check the size before writing.");
    result->status = Status::kUnsuccessful;
    return;
  }
  result->dma_bytes = static_cast<uint32_t>(dma_bytes);
  result->patch_count = static_cast<uint32_t>(patch_bytes / sizeof(PatchLocation));
  result->private_bytes = static_cast<uint32_t>(private_bytes);
}

Status AdapterPort::patch(const PatchArgs& args) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiPatch == nullptr) return Status::kNotSupported;
  DXGKARG_PATCH arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = args.context;  // same place as hDevice; the caller knows which one the
                                      // driver uses (PATCH-02, PATCH-03)
  arguments.DmaBufferSegmentId = args.buffer.segment.value;
  arguments.DmaBufferPhysicalAddress.QuadPart = static_cast<LONGLONG>(args.buffer.physical_address);
  arguments.pDmaBuffer = args.buffer.cpu;
  arguments.DmaBufferSize = args.buffer.size_bytes;
  arguments.DmaBufferSubmissionStartOffset = args.slice.start;
  arguments.DmaBufferSubmissionEndOffset = args.slice.end;
  arguments.pDmaBufferPrivateData =
      args.buffer.private_size_bytes == 0 ? port.guard_page : args.buffer.private_data;
  arguments.DmaBufferPrivateDataSize = args.buffer.private_size_bytes;
  arguments.DmaBufferPrivateDataSubmissionStartOffset = args.slice.private_start;
  arguments.DmaBufferPrivateDataSubmissionEndOffset = args.slice.private_end;
  arguments.pAllocationList = to_abi(args.allocations);
  arguments.AllocationListSize = args.allocation_count;
  arguments.pPatchLocationList = to_abi(args.patches);
  arguments.PatchLocationListSize = args.patch_count;
  arguments.PatchLocationListSubmissionStart = args.patch_start;
  arguments.PatchLocationListSubmissionLength = args.patch_length;
  arguments.SubmissionFenceId = args.fence.value;
  arguments.Flags.Paging = args.flags.paging ? 1 : 0;
  arguments.Flags.Present = args.flags.present ? 1 : 0;
  arguments.Flags.RedirectedPresent = args.flags.redirected_present ? 1 : 0;
  arguments.Flags.NullRendering = args.flags.null_rendering ? 1 : 0;

  const bool check = port.reference_checks && args.buffer.cpu != nullptr;
  const Outside before = check ? outside_of(args) : Outside{};
  DdiCall call(port, kPatch, args.fence.value);
  const Status status = call(port.ddi.DxgkDdiPatch, port.context, &arguments);
  if (status != Status::kSuccess) [[unlikely]] {
    if (call.completed()) {
      port.fatal("PATCH-31", kPatch.name, 0x119, 0x3, fmt::format("It returned {}.", hex(status)),
                 "STATUS_SUCCESS; there is no way back.",
                 "Validate in DxgkDdiRender; patching only writes addresses.");
    }
    return call.completed() && is_success(status) ? Status::kUnsuccessful : status;
  }
  if (check) [[unlikely]] {
    const Outside after = outside_of(args);
    if (after.before != before.before || after.after != before.after) {
      (void)port.violation("PATCH-13", kPatch.name,
                           fmt::format("Bytes {} the submission [{:#x}, {:#x}) changed.",
                                       after.before != before.before ? "before" : "behind",
                                       args.slice.start, args.slice.end),
                           "Patching writes inside the submission's part of the DMA buffer only.",
                           "Process only the patch elements of the submission: start at "
                           "PatchLocationListSubmissionStart.",
                           Status::kSuccess);
    }
    check_patched_words(port, args);
  }
  return status;
}

Status AdapterPort::submit(const SubmitArgs& args) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiSubmitCommand == nullptr) return Status::kNotSupported;
  DXGKARG_SUBMITCOMMAND arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = args.context;
  arguments.DmaBufferSegmentId = args.buffer.segment.value;
  arguments.DmaBufferPhysicalAddress.QuadPart = static_cast<LONGLONG>(args.buffer.physical_address);
  arguments.DmaBufferSize = args.buffer.size_bytes;
  arguments.DmaBufferSubmissionStartOffset = args.slice.start;
  arguments.DmaBufferSubmissionEndOffset = args.slice.end;
  arguments.pDmaBufferPrivateData =
      args.buffer.private_size_bytes == 0 ? port.guard_page : args.buffer.private_data;
  arguments.DmaBufferPrivateDataSize = args.buffer.private_size_bytes;
  arguments.DmaBufferPrivateDataSubmissionStartOffset = args.slice.private_start;
  arguments.DmaBufferPrivateDataSubmissionEndOffset = args.slice.private_end;
  fill_submission(port, args, &arguments);

  nt::at_level(port.kernel, nt::kDispatchLevel);  // IRQL-13
  DdiCall call(port, kSubmitCommand, args.fence.value, static_cast<uint16_t>(args.node.value));
  const Status status = call(port.ddi.DxgkDdiSubmitCommand, port.context, &arguments);
  if (status != Status::kSuccess) [[unlikely]] {
    if (call.completed()) {
      port.fatal("SUB-27", kSubmitCommand.name, 0x119, 0x2,
                 fmt::format("It returned {}.", hex(status)),
                 "STATUS_SUCCESS; the packet is on its way.",
                 "Check everything that can fail before, in DxgkDdiRender.");
    }
    return call.completed() && is_success(status) ? Status::kUnsuccessful : status;
  }
  return status;
}

Status AdapterPort::preempt(NodeOrdinal node, SubmissionFenceId fence, bool idle) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiPreemptCommand == nullptr) return Status::kNotSupported;
  DXGKARG_PREEMPTCOMMAND arguments{};
  arguments.PreemptionFenceId = fence.value;
  arguments.NodeOrdinal = node.value;
  if (!port.low_irql_preempt) nt::at_level(port.kernel, nt::kDispatchLevel);  // IRQL-13
  DdiCall call(port, port.low_irql_preempt ? kPreemptCommandLow : kPreemptCommand, fence.value,
               static_cast<uint16_t>(node.value));
  port.preempt_thread.store(port.kernel.runtime().thread_number() + 1, std::memory_order_relaxed);
  const Status status = call(port.ddi.DxgkDdiPreemptCommand, port.context, &arguments);
  port.preempt_thread.store(0, std::memory_order_relaxed);
  if (status != Status::kSuccess) {
    if (call.completed()) {
      port.fatal("PREEMPT-11", kPreemptCommand.name, 0x119, 0x2,
                 fmt::format("It returned {}.", hex(status)),
                 "STATUS_SUCCESS; the answer is a DMA_PREEMPTED interrupt.",
                 "Report the preemption through DxgkCbNotifyInterrupt.");
    }
    return call.completed() && is_success(status) ? Status::kUnsuccessful : status;
  }
  if (idle && port.last_preempted[node.value % 64].load() != fence.value) {
    return port.violation(
        "PREEMPT-07", kPreemptCommand.name,
        fmt::format("Node {} had nothing left to report, and preemption {} was not reported when "
                    "it returned.",
                    node.value, fence.value),
        "With no work on the engine the preemption is reported at once, synchronised with the ISR, "
        "not sent to the hardware.",
        "Call DxgkCbNotifyInterrupt with DMA_PREEMPTED in a routine run by "
        "DxgkCbSynchronizeExecution, then DxgkCbQueueDpc.",
        Status::kSuccess);
  }
  return status;
}

namespace {

Status call_cancel(AdapterPort::Impl& port, const DXGKARG_CANCELCOMMAND& arguments,
                   uint32_t fence) {
  DdiCall call(port, kCancelCommand, fence);
  const Status status = call(port.ddi.DxgkDdiCancelCommand, port.context, &arguments);
  if (status == Status::kSuccess || !call.completed()) return status;
  port.fatal("CANCEL-18", kCancelCommand.name, 0x119, 0x9,
             fmt::format("It returned {}.", hex(status)), "STATUS_SUCCESS.",
             "Freeing what the driver kept for a packet cannot fail.");
  return is_success(status) ? Status::kUnsuccessful : status;
}

}  // namespace

Status AdapterPort::cancel(const SubmitVirtualArgs& args) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiCancelCommand == nullptr) return Status::kNotSupported;
  DXGKARG_CANCELCOMMAND arguments{};
  arguments.hContext = args.context;
  arguments.DmaBufferSize = args.buffer_bytes;
  arguments.DmaBufferSubmissionEndOffset = args.buffer_bytes;
  arguments.pDmaBufferPrivateData = args.private_bytes == 0 ? port.guard_page : args.private_data;
  arguments.DmaBufferPrivateDataSize = args.private_bytes;
  arguments.DmaBufferPrivateDataSubmissionEndOffset = args.private_bytes;
  arguments.DmaBufferVirtualAddress = args.buffer_va;
  arguments.DmaBufferUmdPrivateDataSize = args.user_private_bytes;
  return call_cancel(port, arguments, args.fence.value);
}

Status AdapterPort::cancel(const PatchArgs& args) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiCancelCommand == nullptr) return Status::kNotSupported;
  DXGKARG_CANCELCOMMAND arguments{};
  arguments.hContext = args.context;
  arguments.pDmaBuffer = args.buffer.cpu;
  arguments.DmaBufferSize = args.buffer.size_bytes;
  arguments.DmaBufferSubmissionStartOffset = args.slice.start;
  arguments.DmaBufferSubmissionEndOffset = args.slice.end;
  arguments.pDmaBufferPrivateData =
      args.buffer.private_size_bytes == 0 ? port.guard_page : args.buffer.private_data;
  arguments.DmaBufferPrivateDataSize = args.buffer.private_size_bytes;
  arguments.DmaBufferPrivateDataSubmissionStartOffset = args.slice.private_start;
  arguments.DmaBufferPrivateDataSubmissionEndOffset = args.slice.private_end;
  arguments.pAllocationList = to_abi(args.allocations);
  arguments.AllocationListSize = args.allocation_count;
  arguments.pPatchLocationList = to_abi(args.patches);
  arguments.PatchLocationListSize = args.patch_count;
  arguments.PatchLocationListSubmissionStart = args.patch_start;
  arguments.PatchLocationListSubmissionLength = args.patch_length;
  return call_cancel(port, arguments, args.fence.value);
}

Result<uint32_t> AdapterPort::query_current_fence(NodeOrdinal node) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (port.ddi.DxgkDdiQueryCurrentFence == nullptr) return Error(Status::kNotSupported);
  DXGKARG_QUERYCURRENTFENCE arguments{};
  arguments.NodeOrdinal = node.value;
  DdiCall call(port, kQueryCurrentFence, 0, static_cast<uint16_t>(node.value));
  const Status status = call(port.ddi.DxgkDdiQueryCurrentFence, port.context, &arguments);
  if (!is_success(status)) return Error(status);
  return arguments.CurrentFence;
}

}  // namespace dxgkit::port
