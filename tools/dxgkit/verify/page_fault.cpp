#include "tools/dxgkit/verify/page_fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/arithmetic.h"
#include "thunks/client.h"

namespace dxgkit::tool::verify {
namespace {

/// An engine may know no more of an address than its page, and pages may be as large as this.
constexpr uint64_t kLargestPageBytes = uint64_t{64} << 10;
constexpr uint32_t kIsDeviceSpecific = 1;  // bit of DXGK_FAULT_ERROR_CODE; else the rest is general
constexpr uint64_t kUnknownAddress = 0;    // D3DGPU_NULL

/// By what every driver must say.
std::string compare(const DxgkitClientFault& fault, std::span<const AddressRange> places) {
  const bool inside = std::ranges::any_of(places, [&](const AddressRange& place) {
    return fault.address >= align_down(place.begin, kLargestPageBytes) && fault.address < place.end;
  });
  if (fault.access == DXGKIT_CLIENT_FAULT_WORK) return {};  // the plug-in knows more
  if (fault.address != kUnknownAddress && !inside) {
    return fmt::format("FaultedVirtualAddress is {:#x}, and only {:#x} to {:#x}{} could fault",
                       fault.address, places.front().begin, places.front().end,
                       places.size() == 1 ? "" : " and the like");
  }
  if ((fault.error_code & kIsDeviceSpecific) == 0 && fault.error_code != 0) {
    return fmt::format("FaultErrorCode has general code {}, which is not that of page faults",
                       fault.error_code >> 1);
  }
  const bool write = (fault.flags & DXGK_PAGE_FAULT_WRITE) != 0;
  if (write && fault.access == DXGKIT_CLIENT_FAULT_FETCH)
    return "PageFaultFlags says that it was a write, and commands are only read";
  return {};
}

std::string by_plugin(Bench& bench, const DxgkitClientFault& fault) {
  if (bench.plugin() == nullptr || !bench.plugin()->judges()) return {};
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return code.error();
  DxgkitClientAnswer answer{};
  answer.kind = DXGKIT_CLIENT_DATA_FAULT;
  answer.bytes = sizeof(fault);
  answer.sent = answer.returned = &fault;
  const std::string wrong = (*code)->judge(answer);
  if (wrong.empty()) return {};
  return fmt::format("client {} says: {}", bench.plugin()->name(), wrong);
}

}  // namespace

void judge_fault(Bench& bench, Client& client, D3DKMT_HANDLE device, uint32_t node, uint32_t access,
                 std::span<const AddressRange> places) {
  D3DKMT_GETDEVICESTATE state{};
  {
    bench.came_back();
    const thunks::ClientScope scope(bench.system(), client.process());
    state.hDevice = device;
    state.StateType = D3DKMT_DEVICESTATE_PAGE_FAULT;
    if (!check_answer("D3DKMTGetDeviceState", D3DKMTGetDeviceState(&state))) return;
  }
  const D3DKMT_DEVICEPAGEFAULT_STATE& said = state.PageFaultState;
  const DxgkitClientFault fault = {.node = node,
                                   .access = access,
                                   .address = said.FaultedVirtualAddress,
                                   .flags = static_cast<uint32_t>(said.PageFaultFlags),
                                   .error_code = std::bit_cast<uint32_t>(said.FaultErrorCode),
                                   .stage = static_cast<uint32_t>(said.FaultedPipelineStage),
                                   .bind_table_entry = said.FaultedBindTableEntry,
                                   .primitive = said.FaultedPrimitiveAPISequenceNumber};
  std::string wrong = compare(fault, places);
  if (wrong.empty()) wrong = by_plugin(bench, fault);
  if (wrong.empty()) return;
  bench.findings().report(
      {.rule = "INT-25",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkCbNotifyInterrupt",
       .actual = fmt::format("DMA_PAGE_FAULTED of node {}: {}.", node, wrong),
       .expected = "The address that the engine stopped at, or 0 (D3DGPU_NULL) if it does not say; "
                   "WRITE for a write and for nothing else; DXGK_GENERAL_ERROR_PAGE_FAULT, or a "
                   "code of the device.",
       .fix = "Read what the engine says of the fault before it is reset, and clear the report "
              "first, so that nothing of another one is left in it.",
       .why = "The step took rights away, or freed addresses, and knows what could fault.",
       .windows = "Debuggers and device-removed reports (DRED) blame another resource."});
}

}  // namespace dxgkit::tool::verify
