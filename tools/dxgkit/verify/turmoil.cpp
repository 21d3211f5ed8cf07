#include "tools/dxgkit/verify/turmoil.h"

#include <algorithm>

#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint64_t kMillion = 1'000'000;
/// A DMA buffer that was cut short still has room for one command, and no more than a small job
/// takes.
constexpr uint32_t kLeastRoomBytes = 1024, kMostRoomBytes = 16 * 1024;

}  // namespace

Troubles Troubles::draw(Bench& bench) {
  const auto rate = [&]() -> uint32_t {
    constexpr uint32_t kRates[] = {20'000, 100'000, 300'000};
    const uint64_t number = bench.random();
    return number % 2 == 0 ? 0 : kRates[number / 2 % 3];
  };
  Troubles troubles;
  for (uint32_t* const one :
       {&troubles.late_dpc, &troubles.starved_dpc, &troubles.render_room, &troubles.paging_refused,
        &troubles.allocation_busy, &troubles.lost_interrupt, &troubles.double_interrupt,
        &troubles.late_interrupt})
    *one = rate();
  // It takes long, and a few times show what many do.
  if (troubles.starved_dpc != 0) troubles.starved_dpc = 10'000;
  troubles.naps = static_cast<uint32_t>(bench.random() % 4);
  return troubles;
}

std::string Troubles::text() const {
  struct Named {
    uint32_t rate;
    const char* name;
  };
  const Named all[] = {{late_dpc, "late DPCs"},
                       {starved_dpc, "starved DPCs"},
                       {render_room, "little room in DMA buffers"},
                       {paging_refused, "paging buffers handed back"},
                       {allocation_busy, "busy allocations"},
                       {lost_interrupt, "lost interrupts"},
                       {double_interrupt, "doubled interrupts"},
                       {late_interrupt, "late interrupts"},
                       {naps, "sleep at work"}};
  std::string text;
  for (const Named& one : all) {
    if (one.rate != 0) text += std::string(", ") + one.name;
  }
  return text;
}

uint64_t Turmoil::random() {
  // One step for each number, whoever asks.
  return mixed(numbers_.fetch_add(kMixStep, std::memory_order_relaxed));
}

bool Turmoil::strikes(uint32_t rate) {
  if (rate == 0 || !active_ || random() % kMillion >= rate) return false;
  ++strikes_;
  return true;
}

std::optional<Status> Turmoil::before_ddi(std::string_view ddi) {
  if (ddi != "DxgkDdiDpcRoutine") return std::nullopt;
  // Less than half of the TdrDelay of 2 s that there is where nobody sets another one.
  if (strikes(troubles_.starved_dpc))
    runtime_.consume(static_cast<int64_t>(200 + random() % 700) * runtime::kMillisecond);
  if (strikes(troubles_.late_dpc))
    runtime_.consume(static_cast<int64_t>(1 + random() % 2'000) * runtime::kMicrosecond);
  return std::nullopt;
}

std::optional<Status> Turmoil::before_paging(const port::PagingOperation& operation,
                                             uint32_t buffer_bytes) {
  using Kind = port::PagingOperation::Kind;
  static_cast<void>(scarcity_.before_paging(operation, buffer_bytes));
  // Twice in a row with a fresh buffer would be a driver that makes no progress. Without a buffer
  // the CPU writes page tables.
  if (buffer_bytes != 0 && !refused_ && strikes(troubles_.paging_refused)) {
    refused_ = true;
    return Status::kGraphicsInsufficientDmaBuffer;
  }
  const bool may_be_busy =
      (operation.kind == Kind::kTransfer || operation.kind == Kind::kDiscardContent) &&
      !operation.allocation_is_idle;
  if (may_be_busy && strikes(troubles_.allocation_busy)) return Status::kGraphicsAllocationBusy;
  refused_ = false;  // the driver is called
  return std::nullopt;
}

uint32_t Turmoil::room(std::string_view ddi, uint32_t bytes) {
  if (ddi != "DxgkDdiRender") return scarcity_.room(ddi, bytes);
  if (!strikes(troubles_.render_room)) return bytes;
  const uint32_t least = std::min(kLeastRoomBytes, bytes);
  const uint32_t most = std::min(kMostRoomBytes, bytes);
  return least + static_cast<uint32_t>(random() % (most - least + 1));
}

}  // namespace dxgkit::tool::verify
