#include "tests/sweep/fault.h"

#include <algorithm>

namespace dxgkit::sweep {

Status documented_failure(std::string_view ddi) {
  struct Row {
    std::string_view ddi;
    Status status;
  };
  // Every other DDI names STATUS_NO_MEMORY, or no failure at all.
  static constexpr std::array kRows = {
      Row{"DxgkDdiBuildPagingBuffer", Status::kGraphicsInsufficientDmaBuffer},
      Row{"DxgkDdiSubmitCommandVirtual", Status::kInvalidParameter},
      Row{"DxgkDdiQueryAdapterInfo", Status::kNotSupported},
      Row{"DxgkDdiCreateAllocation", Status::kGraphicsDriverMismatch},
      Row{"DxgkDdiEscape", Status::kInvalidParameter},
      Row{"DxgkDdiAcquireSwizzlingRange", Status::kGraphicsUnswizzlingApertureUnavailable},
      Row{"DxgkDdiValidateSubmitCommand", Status::kInvalidParameter},
  };
  const auto* const row = std::ranges::find(kRows, ddi, &Row::ddi);
  return row == kRows.end() ? Status::kNoMemory : row->status;
}

bool keeps_an_object(std::string_view ddi) {
  ddi.remove_prefix(std::string_view("DxgkDdi").size());
  return ddi.starts_with("Destroy") || ddi.starts_with("Close") || ddi.starts_with("Stop") ||
         ddi.starts_with("Remove");
}

std::optional<Status> Striker::before_ddi(std::string_view ddi) {
  if (paused) return std::nullopt;
  const size_t at = ddis_.size();
  ddis_.push_back({std::string(ddi), client_lives, ddi != "DxgkDdiDpcRoutine"});
  if (!strike_.has_value() || strike_->kind == FaultKind::kCallback || strike_->at != at)
    return std::nullopt;
  struck_ = ddi;
  if (strike_->kind == FaultKind::kFails) return documented_failure(ddi);
  if (strike_->kind == FaultKind::kBreaks) return Status::kUnsuccessful;
  on_strike();
  return std::nullopt;
}

std::optional<Status> Striker::before_paging(const port::PagingOperation&, uint32_t) {
  return before_ddi("DxgkDdiBuildPagingBuffer");
}

std::optional<Status> Striker::before_callback(std::string_view callback) {
  if (paused) return std::nullopt;
  const size_t at = callbacks_.size();
  callbacks_.push_back({std::string(callback), client_lives});
  if (!strike_.has_value() || strike_->kind != FaultKind::kCallback || strike_->at != at)
    return std::nullopt;
  struck_ = callback;
  return Status::kNoMemory;
}

}  // namespace dxgkit::sweep
