#include "port/ddi/submission.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <span>

#include "nt/paged.h"
#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/lists.h"
#include "port/ddi/unwritten.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kPatch{"DxgkDdiPatch", nt::kPassiveLevel, DdiClass::kScheduler};
constexpr DdiInfo kSubmitCommand{"DxgkDdiSubmitCommand", nt::kDispatchLevel, DdiClass::kScheduler};
constexpr DdiInfo kPreemptCommand{"DxgkDdiPreemptCommand", nt::kDispatchLevel,
                                  DdiClass::kScheduler};
constexpr DdiInfo kPreemptCommandLow{"DxgkDdiPreemptCommand", nt::kPassiveLevel,
                                     DdiClass::kScheduler};
constexpr DdiInfo kCancelCommand{"DxgkDdiCancelCommand", nt::kPassiveLevel, DdiClass::kScheduler};
constexpr DdiInfo kQueryCurrentFence{"DxgkDdiQueryCurrentFence", nt::kPassiveLevel,
                                     DdiClass::kLevelZero};

/// A sum that any change of one word changes, in eight lanes at once: fast enough to watch the
/// whole buffer in tests. Each step is x -> (x ^ word) * 129, which loses nothing.
uint64_t checksum(const std::byte* data, size_t bytes) {
  using Lanes = uint64_t __attribute__((vector_size(64)));
  constexpr uint64_t kStart = 0xCBF29CE484222325, kPrime = 0x100000001B3;
  Lanes lanes = {kStart, 2, 3, 4, 5, 6, 7, 8};
  for (; bytes >= sizeof(lanes); bytes -= sizeof(lanes), data += sizeof(lanes)) {
    Lanes words;
    std::memcpy(&words, data, sizeof(words));
    lanes ^= words;
    lanes += lanes << 7;
  }
  uint64_t hash = kStart;
  for (size_t i = 0; i < sizeof(lanes) / sizeof(hash); ++i) hash = (hash ^ lanes[i]) * kPrime;
  for (; bytes > 0; --bytes, ++data) hash = (hash ^ static_cast<uint64_t>(*data)) * kPrime;
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

/// Returns true, and reports it (FIELD-02), if `found` is the CPU's address of the allocation and
/// not the engine's.
bool report_cpu_address(PortCore& core, uint32_t index, const PatchLocation& patch,
                        const AllocationListEntry& entry, uint64_t found) {
  const uint32_t id = entry.segment();
  if (id > core.segments.size()) return false;
  const SegmentInfo& segment = core.segments[id - 1];
  if (segment.cpu_translated_address == 0 || segment.cpu_translated_address == segment.base_address)
    return false;
  const uint64_t offset = entry.physical_address - segment.base_address + patch.allocation_offset;
  if (found != segment.cpu_translated_address + offset) return false;
  core.findings.report(
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

/// What an element should have written, and what is there.
struct PatchedWord {
  uint64_t expected = 0, found = 0;
  bool is_right() const { return found == expected; }
};

/// Nothing for an element that needs no look: 32 and 64 bit words are recognised; an element whose
/// entry is empty unbinds a slot.
std::optional<PatchedWord> patched_word(const PatchArgs& arguments, const PatchLocation& patch) {
  if (patch.allocation_index >= arguments.allocation_count) return {};
  const AllocationListEntry& entry = arguments.allocations[patch.allocation_index];
  if (entry.device_handle == nullptr || entry.segment() == 0) return {};
  if (patch.patch_offset < arguments.slice.start ||
      !range_within(patch.patch_offset, 4, arguments.slice.end))
    return {};
  PatchedWord word{.expected = entry.physical_address + patch.allocation_offset};
  const bool wide =
      word.expected >> 32 != 0 && range_within(patch.patch_offset, 8, arguments.slice.end);
  std::memcpy(&word.found, arguments.buffer.cpu + patch.patch_offset, wide ? 8 : 4);
  if (!wide) word.expected &= UINT32_MAX;
  return word;
}

/// A driver with page tables or object numbers of its own writes words that have nothing to do with
/// addresses of segments. A wrong address can be told from them: it is nothing at all, a part of
/// the sum, or lies where the engine or the CPU sees segments.
bool looks_like_an_address(const PortCore& core, const PatchLocation& patch,
                           const AllocationListEntry& entry, uint64_t found) {
  const uint64_t sum = entry.physical_address + patch.allocation_offset;
  if (found == 0 || found == entry.physical_address || found == (sum & UINT32_MAX)) return true;
  if (patch.allocation_offset != 0 && found == patch.allocation_offset) return true;
  for (const SegmentInfo& segment : core.segments) {
    if (segment.base_address != 0 && found - segment.base_address < segment.size) return true;
    if (segment.cpu_translated_address != 0 &&
        found - segment.cpu_translated_address < segment.size)
      return true;
  }
  const uint32_t id = entry.segment();
  return id <= core.segments.size() && found == sum - core.segments[id - 1].base_address;
}

/// Once for an adapter: nobody can tell such a driver from one that never patches.
void report_own_words(PortCore& core, uint32_t index, const PatchLocation& patch,
                      const PatchedWord& word) {
  if (core.has_own_words) return;
  core.has_own_words = true;
  core.findings.report(
      {.rule = "PATCH-27",
       .severity = verifier::Severity::kWarning,
       .ddi = kPatch.name,
       .actual = fmt::format("Patch element {}: the word at offset {:#x} is {:#x}, and none before "
                             "it was the address of its allocation.",
                             index, patch.patch_offset, word.found),
       .expected = fmt::format("{:#x}: PhysicalAddress + AllocationOffset, unless the driver "
                               "translates addresses itself.",
                               word.expected),
       .fix = "Write the address at PatchOffset in DxgkDdiPatch. If the words are numbers or "
              "addresses of the driver's own, nothing is wrong.",
       .confidence = verifier::Confidence::kInferred});
}

/// PATCH-27: each element of the range got its allocation's address, if the driver writes such
/// addresses at all.
void check_patched_words(PortCore& core, const PatchArgs& arguments) {
  const std::span patches(arguments.patches + arguments.patch_start, arguments.patch_length);
  bool any_wrong = false;
  for (const PatchLocation& patch : patches) {
    const std::optional<PatchedWord> word = patched_word(arguments, patch);
    if (!word.has_value()) continue;
    core.patches_addresses |= word->is_right();
    any_wrong |= !word->is_right();
  }
  if (!any_wrong) return;
  for (uint32_t i = 0; i < patches.size(); ++i) {
    const PatchLocation& patch = patches[i];
    const PatchedWord word = patched_word(arguments, patch).value_or(PatchedWord{});
    if (word.is_right()) continue;
    const AllocationListEntry& entry = arguments.allocations[patch.allocation_index];
    if (report_cpu_address(core, arguments.patch_start + i, patch, entry, word.found)) return;
    if (!core.patches_addresses && !looks_like_an_address(core, patch, entry, word.found)) {
      report_own_words(core, arguments.patch_start + i, patch, word);
      continue;
    }
    (void)core.violation(
        "PATCH-27", kPatch.name,
        fmt::format("Patch element {}: the word at offset {:#x} is {:#x}.",
                    arguments.patch_start + i, patch.patch_offset, word.found),
        fmt::format(
            "{:#x}: PhysicalAddress {:#x} of allocation list entry {} + AllocationOffset {:#x}.",
            word.expected, entry.physical_address, patch.allocation_index, patch.allocation_offset),
        "Write PhysicalAddress + AllocationOffset at PatchOffset, for each element of the "
        "submission's range.",
        Status::kSuccess);
    return;  // one is enough to act on; the rest would repeat it
  }
}

Status call_cancel(PortCore& core, const DXGKARG_CANCELCOMMAND& arguments, uint32_t fence) {
  DdiCall call(core, kCancelCommand, fence);
  const Status status = call(core.ddi.DxgkDdiCancelCommand, core.context, &arguments);
  if (status == Status::kSuccess || !call.completed()) return status;
  core.fatal("CANCEL-18", kCancelCommand.name, 0x119, 0x9,
             fmt::format("It returned {}.", hex(status)), "STATUS_SUCCESS.",
             "Freeing what the driver kept for a packet cannot fail.");
  return is_success(status) ? Status::kUnsuccessful : status;
}

constexpr DdiInfo kSubmitCommandVirtual{"DxgkDdiSubmitCommandVirtual", nt::kDispatchLevel,
                                        DdiClass::kScheduler};

/// The members that DXGKARG_SUBMITCOMMAND and its virtual form share: fence, node, flags, flips.
template <typename Args, typename Arguments>
void fill_submission(const PortCore& core, const Args& args, Arguments* out) {
  Arguments& arguments = *out;
  arguments.SubmissionFenceId = args.fence.value;
  arguments.Flags.Paging = args.flags.paging ? 1 : 0;
  arguments.Flags.Present = args.flags.present ? 1 : 0;
  arguments.Flags.RedirectedPresent = args.flags.redirected_present ? 1 : 0;
  arguments.Flags.NullRendering = args.flags.null_rendering ? 1 : 0;
  arguments.Flags.Flip = args.flags.flip ? 1 : 0;
  arguments.Flags.FlipWithNoWait = args.flags.flip_with_no_wait ? 1 : 0;
  if (core.version >= kInterfaceWin8) {
    arguments.Flags.ContextSwitch = args.flags.context_switch ? 1 : 0;
    arguments.NodeOrdinal = args.node.value;
  }
  if (core.version >= kInterfaceWddm20)
    arguments.Flags.Resubmission = args.flags.resubmission ? 1 : 0;  // SUB-25
  // Members without meaning in this submission hold a value no driver can mistake for one (SUB-15,
  // SUB-16).
  const bool flips = args.flags.flip || args.flags.flip_with_no_wait;
  arguments.VidPnSourceId = flips ? args.vidpn_source : D3DDDI_ID_UNINITIALIZED;
  arguments.FlipInterval =
      static_cast<D3DDDI_FLIPINTERVAL_TYPE>(args.flags.flip ? args.flip_interval : 0);
}

/// The part of a DMA buffer for a call. DXGKARG_PATCH and DXGKARG_CANCELCOMMAND both describe it
/// so.
template <typename Arguments>
void fill_part(const PortCore& core, const PatchArgs& args, Arguments* arguments) {
  arguments->pDmaBuffer = args.buffer.cpu;
  arguments->DmaBufferSize = args.buffer.size_bytes;
  arguments->DmaBufferSubmissionStartOffset = args.slice.start;
  arguments->DmaBufferSubmissionEndOffset = args.slice.end;
  arguments->pDmaBufferPrivateData =
      args.buffer.private_size_bytes == 0 ? core.guard_page : args.buffer.private_data;
  arguments->DmaBufferPrivateDataSize = args.buffer.private_size_bytes;
  arguments->DmaBufferPrivateDataSubmissionStartOffset = args.slice.private_start;
  arguments->DmaBufferPrivateDataSubmissionEndOffset = args.slice.private_end;
  arguments->pAllocationList = to_abi(args.allocations);
  arguments->AllocationListSize = args.allocation_count;
  arguments->pPatchLocationList = to_abi(args.patches);
  arguments->PatchLocationListSize = args.patch_count;
  arguments->PatchLocationListSubmissionStart = args.patch_start;
  arguments->PatchLocationListSubmissionLength = args.patch_length;
}

}  // namespace

bool SubmissionPort::has_patch() const { return core_.ddi.DxgkDdiPatch != nullptr; }

bool SubmissionPort::has_cancel() const { return core_.ddi.DxgkDdiCancelCommand != nullptr; }

Status SubmissionPort::patch(const PatchArgs& args) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiPatch == nullptr) return Status::kNotSupported;
  DXGKARG_PATCH arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = args.context;  // same place as hDevice; the caller knows which one the
                                      // driver uses (PATCH-02, PATCH-03)
  arguments.DmaBufferSegmentId = args.buffer.segment.value;
  arguments.DmaBufferPhysicalAddress.QuadPart = static_cast<LONGLONG>(args.buffer.physical_address);
  fill_part(core_, args, &arguments);
  arguments.SubmissionFenceId = args.fence.value;
  arguments.Flags.Paging = args.flags.paging ? 1 : 0;
  arguments.Flags.Present = args.flags.present ? 1 : 0;
  arguments.Flags.RedirectedPresent = args.flags.redirected_present ? 1 : 0;
  arguments.Flags.NullRendering = args.flags.null_rendering ? 1 : 0;

  const bool check = core_.reference_checks && args.buffer.cpu != nullptr;
  const Outside before = check ? outside_of(args) : Outside{};
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->work.patched(args, core_.segments);
  DdiCall call(core_, kPatch, args.fence.value);
  const Status status = call(core_.ddi.DxgkDdiPatch, core_.context, &arguments);
  if (status != Status::kSuccess) [[unlikely]] {
    if (call.completed()) {
      core_.fatal("PATCH-31", kPatch.name, 0x119, 0x3, fmt::format("It returned {}.", hex(status)),
                  "STATUS_SUCCESS; there is no way back.",
                  "Validate in DxgkDdiRender; patching only writes addresses.");
    }
    return is_success(status) ? Status::kUnsuccessful : status;
  }
  if (check) [[unlikely]] {
    const Outside after = outside_of(args);
    if (after.before != before.before || after.after != before.after) {
      (void)core_.violation("PATCH-13", kPatch.name,
                            fmt::format("Bytes {} the submission [{:#x}, {:#x}) changed.",
                                        after.before != before.before ? "before" : "behind",
                                        args.slice.start, args.slice.end),
                            "Patching writes inside the submission's part of the DMA buffer only.",
                            "Process only the patch elements of the submission: start at "
                            "PatchLocationListSubmissionStart.",
                            Status::kSuccess);
    }
    check_patched_words(core_, args);
  }
  return status;
}

Status SubmissionPort::submit(const SubmitArgs& args) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiSubmitCommand == nullptr) return Status::kNotSupported;
  DXGKARG_SUBMITCOMMAND arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = args.context;
  arguments.DmaBufferSegmentId = args.buffer.segment.value;
  arguments.DmaBufferPhysicalAddress.QuadPart = static_cast<LONGLONG>(args.buffer.physical_address);
  arguments.DmaBufferSize = args.buffer.size_bytes;
  arguments.DmaBufferSubmissionStartOffset = args.slice.start;
  arguments.DmaBufferSubmissionEndOffset = args.slice.end;
  arguments.pDmaBufferPrivateData =
      args.buffer.private_size_bytes == 0 ? core_.guard_page : args.buffer.private_data;
  arguments.DmaBufferPrivateDataSize = args.buffer.private_size_bytes;
  arguments.DmaBufferPrivateDataSubmissionStartOffset = args.slice.private_start;
  arguments.DmaBufferPrivateDataSubmissionEndOffset = args.slice.private_end;
  fill_submission(core_, args, &arguments);

  nt::at_level(core_.kernel, nt::kDispatchLevel);  // IRQL-13
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->work.submitted(args);
  DdiCall call(core_, kSubmitCommand, args.fence.value, static_cast<uint16_t>(args.node.value));
  const Status status = call(core_.ddi.DxgkDdiSubmitCommand, core_.context, &arguments);
  if (status != Status::kSuccess) [[unlikely]] {
    if (call.completed()) {
      core_.fatal("SUB-27", kSubmitCommand.name, 0x119, 0x2,
                  fmt::format("It returned {}.", hex(status)),
                  "STATUS_SUCCESS; the packet is on its way.",
                  "Check everything that can fail before, in DxgkDdiRender.");
    }
    return is_success(status) ? Status::kUnsuccessful : status;
  }
  return status;
}

Status SubmissionPort::submit_virtual(const SubmitVirtualArgs& args) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.version < kInterfaceWddm20 || core_.ddi.DxgkDdiSubmitCommandVirtual == nullptr)
    return Status::kNotSupported;
  DXGKARG_SUBMITCOMMANDVIRTUAL arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = args.context;
  arguments.DmaBufferVirtualAddress = args.buffer_va;
  arguments.DmaBufferSize = args.buffer_bytes;
  arguments.pDmaBufferPrivateData = args.private_bytes == 0 ? core_.guard_page : args.private_data;
  arguments.DmaBufferPrivateDataSize = args.private_bytes;
  arguments.DmaBufferUmdPrivateDataSize = args.user_private_bytes;
  fill_submission(core_, args, &arguments);

  nt::at_level(core_.kernel, nt::kDispatchLevel);  // IRQL-13
  DdiCall call(core_, kSubmitCommandVirtual, args.fence.value,
               static_cast<uint16_t>(args.node.value));
  const Status status = call(core_.ddi.DxgkDdiSubmitCommandVirtual, core_.context,
                             static_cast<const DXGKARG_SUBMITCOMMANDVIRTUAL*>(&arguments));
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->work.submitted(args, status == Status::kInvalidParameter);
  if (status == Status::kSuccess || !call.completed()) return status;
  if (status == Status::kInvalidParameter && !args.flags.paging) return status;  // SUB-29
  core_.fatal(
      "SUB-28", kSubmitCommandVirtual.name, 0x119, 0x2,
      fmt::format("It returned {}{}.", hex(status),
                  args.flags.paging ? " for a paging buffer" : ""),
      "STATUS_SUCCESS, or STATUS_INVALID_PARAMETER for a malformed buffer or malformed "
      "private data of an application.",
      "Check the buffer first and refuse it with STATUS_INVALID_PARAMETER; nothing else may "
      "fail here.");
  return Status::kUnsuccessful;
}

Status SubmissionPort::preempt(NodeOrdinal node, SubmissionFenceId fence, bool idle) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiPreemptCommand == nullptr) return Status::kNotSupported;
  DXGKARG_PREEMPTCOMMAND arguments{};
  arguments.PreemptionFenceId = fence.value;
  arguments.NodeOrdinal = node.value;
  if (!core_.low_irql_preempt) nt::at_level(core_.kernel, nt::kDispatchLevel);  // IRQL-13
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->work.preempt(node, idle);
  DdiCall call(core_, core_.low_irql_preempt ? kPreemptCommandLow : kPreemptCommand, fence.value,
               static_cast<uint16_t>(node.value));
  core_.interrupts.begin_preempt();
  const Status status = call(core_.ddi.DxgkDdiPreemptCommand, core_.context, &arguments);
  core_.interrupts.end_preempt();
  if (status != Status::kSuccess) {
    if (call.completed()) {
      core_.fatal("PREEMPT-11", kPreemptCommand.name, 0x119, 0x2,
                  fmt::format("It returned {}.", hex(status)),
                  "STATUS_SUCCESS; the answer is a DMA_PREEMPTED interrupt.",
                  "Report the preemption through DxgkCbNotifyInterrupt.");
    }
    return is_success(status) ? Status::kUnsuccessful : status;
  }
  if (idle && core_.interrupts.last_preempted(node) != fence.value) {
    return core_.violation(
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

Status SubmissionPort::cancel(const SubmitVirtualArgs& args) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiCancelCommand == nullptr) return Status::kNotSupported;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->work.cancelled_virtual(args.flags);
  DXGKARG_CANCELCOMMAND arguments{};
  arguments.hContext = args.context;
  arguments.DmaBufferSize = args.buffer_bytes;
  arguments.DmaBufferSubmissionEndOffset = args.buffer_bytes;
  arguments.pDmaBufferPrivateData = args.private_bytes == 0 ? core_.guard_page : args.private_data;
  arguments.DmaBufferPrivateDataSize = args.private_bytes;
  arguments.DmaBufferPrivateDataSubmissionEndOffset = args.private_bytes;
  arguments.DmaBufferVirtualAddress = args.buffer_va;
  arguments.DmaBufferUmdPrivateDataSize = args.user_private_bytes;
  return call_cancel(core_, arguments, args.fence.value);
}

Status SubmissionPort::cancel(const PatchArgs& args) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiCancelCommand == nullptr) return Status::kNotSupported;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->work.cancelled(args);
  DXGKARG_CANCELCOMMAND arguments{};
  arguments.hContext = args.context;
  fill_part(core_, args, &arguments);
  return call_cancel(core_, arguments, args.fence.value);
}

Result<uint32_t> SubmissionPort::query_current_fence(NodeOrdinal node) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (core_.ddi.DxgkDdiQueryCurrentFence == nullptr) return Error(Status::kNotSupported);
  DXGKARG_QUERYCURRENTFENCE arguments{};
  arguments.NodeOrdinal = node.value;
  fill_output(core_, &arguments.CurrentFence);
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kQueryCurrentFence, 0, static_cast<uint16_t>(node.value));
    status = call(core_.ddi.DxgkDdiQueryCurrentFence, core_.context, &arguments);
  }
  if (!is_success(status)) return Error(status);
  report_unwritten(core_, kQueryCurrentFence.name, "DXGKARG_QUERYCURRENTFENCE", "CurrentFence",
                   &arguments.CurrentFence);
  return arguments.CurrentFence;
}

}  // namespace dxgkit::port
