#include "dxgk/work/faults.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/interface_versions.h"
#include "dxgk/core/process.h"
#include "dxgk/va/fault_explainer.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/timeout.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

/// Bits of DXGK_PAGE_FAULT_FLAGS.
constexpr uint32_t kPageFaultFenceInvalid = 1U << 1;
constexpr uint32_t kPageFaultFatal = 1U << 4;
constexpr uint32_t kPageFaultAdapterReset = 1U << 2, kPageFaultEngineReset = 1U << 3;
constexpr uint32_t kPageFaultResets = kPageFaultAdapterReset | kPageFaultEngineReset;

}  // namespace

vidsch::FenceReport Faults::handle(const port::InterruptReport& report) {
  const bool page_fault = report.type == port::InterruptReport::Type::kDmaPageFaulted;
  if (page_fault)
    trace::emit(trace::EventKind::kGpuVaFault, report.fence, report.address, report.flags,
                report.page_table_level, static_cast<uint16_t>(report.node));
  if (!page_fault &&
      core_.interface_version() >= kInterfaceWddm20) {  // G-11: the same effect, and said
    core_.findings().report(
        verifier::Finding{.rule = "INT-15",
                          .severity = verifier::Severity::kViolation,
                          .ddi = "DxgkCbNotifyInterrupt",
                          .actual = fmt::format("DMA_FAULTED was reported for fence {} of node {}.",
                                                report.fence, report.node),
                          .expected = "From WDDM 2.0 on this type is reserved for the system.",
                          .fix = "Report DMA_PAGE_FAULTED, or let the packet time out."});
  }
  if (page_fault && (report.flags & kPageFaultFatal) != 0) {
    core_.fail(
        verifier::Finding{.rule = "INT-18",
                          .severity = verifier::Severity::kBugCheck,
                          .ddi = "DxgkCbNotifyInterrupt",
                          .actual = fmt::format("DMA_PAGE_FAULTED has PageFaultFlags 0x{:X}: a "
                                                "fatal hardware error.",
                                                report.flags),
                          .expected = "The hardware goes on after a page fault.",
                          .fix = "Report a fatal error only when no reset can help.",
                          .bugcheck_code = 0x119,
                          .bugcheck_parameter = 0xC});
    return vidsch::FenceReport::kAccepted;
  }
  if (page_fault && (report.flags & kPageFaultFenceInvalid) != 0 &&
      (report.fence != 0 || (report.flags & kPageFaultResets) == 0)) {
    core_.fail(verifier::Finding{
        .rule = "INT-17",
        .severity = verifier::Severity::kBugCheck,
        .ddi = "DxgkCbNotifyInterrupt",
        .actual = fmt::format("DMA_PAGE_FAULTED has PageFaultFlags 0x{:X} and FaultedFenceId {}.",
                              report.flags, report.fence),
        .expected = "With FENCE_INVALID the fence is 0 and a reset is asked for.",
        .fix = "Set ENGINE_RESET_REQUIRED or ADAPTER_RESET_REQUIRED, or name the faulted fence.",
        .bugcheck_code = 0x119,
        .bugcheck_parameter = 0xD});
    return vidsch::FenceReport::kAccepted;
  }
  if (report.node >= core_.scheduler().node_count()) return vidsch::FenceReport::kUnknownNode;
  if (!page_fault || (report.flags & kPageFaultFenceInvalid) == 0) {
    state_ = page_fault ? DeviceState::kErrorDmaPageFault : DeviceState::kErrorDmaFault;
    report_ = page_fault ? &report : nullptr;
    const vidsch::FenceReport outcome = core_.scheduler().faulted(
        NodeOrdinal{report.node}, SubmissionFenceId{report.fence}, core_.runtime().now(), nullptr);
    report_ = nullptr;
    if (outcome != vidsch::FenceReport::kAccepted) return outcome;
  }
  if (page_fault) reset_after_fault(report);
  return vidsch::FenceReport::kAccepted;
}

void Faults::reset_after_fault(const port::InterruptReport& report) {
  const bool adapter = (report.flags & kPageFaultAdapterReset) != 0;
  if (!adapter && (report.flags & kPageFaultEngineReset) == 0) return;
  std::string cause = fmt::format(
      "The driver reported a page fault at {:#x} on node {} with PageFaultFlags {:#x}: {} has to "
      "be reset.",
      report.address, report.node, report.flags, adapter ? "the adapter" : "the engine");
  if (adapter) {
    timeout_.require_adapter_reset(NodeOrdinal{report.node}, std::move(cause));
  } else {
    timeout_.require_engine_reset(NodeOrdinal{report.node}, std::move(cause));
  }
}

void Faults::explain_page_fault(const Packet& packet) {
  if (report_ == nullptr || explainer_ == nullptr) return;
  const port::InterruptReport& report = *report_;
  // A general code, and not that of page faults: no address is to blame.
  if ((report.error_code & 1U) == 0 && report.error_code != 0) return;
  const bool write = (report.flags & port::InterruptReport::kFaultWrite) != 0;
  const bool paging = packet.kind == vidsch::PacketKind::kPaging;
  if (!paging && !packet.context->virtual_addressing()) return;
  const Process* const process = paging ? nullptr : &packet.context->device().process();
  FaultExplainer::Fault fault =
      explainer_->explain(paging ? 0 : process->number(), report.address, write);
  const std::string who = paging
                              ? "The paging process"
                              : fmt::format("Process {} ({})", process->number(), process->name());
  core_.findings().report(
      {.rule = "VA-28",
       .severity = verifier::Severity::kWarning,
       .ddi = "DxgkCbNotifyInterrupt",
       .actual = fmt::format("{} {} 0x{:X}, {}: DMA_PAGE_FAULTED for fence {} of node {}, ended at "
                             "page table level {}.",
                             who, write ? "wrote to" : "read", report.address, fault.reason,
                             report.fence, report.node, report.page_table_level),
       .expected = "GPU work uses addresses that are mapped, with the right to do so, to "
                   "allocations that are resident, behind the fences that say so.",
       .fix = fault.advice,
       .why = fault.story,
       .windows = "The device is removed: D3DKMTGetDeviceState answers ERROR_DMAPAGEFAULT; nothing "
                  "says what was mapped there."});
}

void Faults::blame(const Packet& packet) {
  explain_page_fault(packet);
  if (packet.kind != vidsch::PacketKind::kPaging) {
    Device& device = packet.context->device();
    if (report_ != nullptr && !device.lost()) device.page_fault = *report_;  // INT-19
    device.set_error(state_);  // a device that is lost already stays as it is
    return;
  }
  core_.fail(verifier::Finding{
      .rule = "PAGE-49",
      .severity = verifier::Severity::kBugCheck,
      .ddi = "DxgkCbNotifyInterrupt",
      .actual = fmt::format("The paging packet that covers bytes [{}, {}) of its buffer faulted.",
                            packet.slice.start, packet.slice.end),
      .expected = "Commands built by DxgkDdiBuildPagingBuffer run to completion.",
      .fix =
          "Check the addresses and sizes the paging commands carry, and that the engine may reach "
          "both sides of the transfer.",
      .bugcheck_code = 0x119,
      .bugcheck_parameter = 0x5});
}

}  // namespace dxgkit::dxgk
