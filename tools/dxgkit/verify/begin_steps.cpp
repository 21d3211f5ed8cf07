// Load, start, and the driver's description of itself.
#include <fmt/format.h>

#include <array>

#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {
namespace {

constexpr int kRepeats = 3;

Outcome load(Bench& bench) { return bench.load(); }
Outcome start(Bench& bench) { return bench.start(); }

Outcome ask_again(Bench& bench) {
  for (int i = 0; i < kRepeats; ++i) {
    const Status status = bench.exercise().repeat_queries();
    if (!is_success(status))
      return Outcome::failed(
          fmt::format("a query that succeeded at start answers {}", status_text(status)));
  }
  return Outcome::ok(fmt::format("caps, segments and nodes {} times more", kRepeats));
}

/// UMDRIVERPRIVATE with buffers of unexpected sizes. The driver refuses or answers.
Outcome ask_privately(Bench& bench) {
  Client client(bench, "umd private");
  if (const Answer<void> open = client.open_adapter(); !open) return Outcome::failed(open.error());
  size_t refused = 0;
  constexpr std::array<size_t, 6> kSizes{1, 4, 16, 64, 256, 4096};
  for (const size_t size : kSizes) {
    std::vector<std::byte> data(size);
    for (std::byte& byte : data) byte = static_cast<std::byte>(bench.random());
    if (!client.query_umd_private(data)) ++refused;
    if (!bench.running()) return Outcome::failed(fmt::format("it ended at {} bytes", size));
  }
  return Outcome::ok(fmt::format("{} sizes, {} refused", kSizes.size(), refused));
}

Outcome open_client(Bench& bench) {
  if (const Answer<void> open = bench.open_client(); !open) return Outcome::failed(open.error());
  return Outcome::ok(fmt::format("client {}", bench.plugin()->name()));
}

constexpr Step kSteps[] = {
    {"load", "load the driver and call DriverEntry", Step::Needs::kNothing, load},
    {"start", "start the adapter", Step::Needs::kDriver, start},
    {"queries", "ask caps, segments and nodes again", Step::Needs::kAdapter, ask_again},
    {"private-queries", "ask for private data with odd buffers", Step::Needs::kAdapter,
     ask_privately},
    {"client", "open the client plug-in", Step::Needs::kClient, open_client},
};

}  // namespace

std::span<const Step> begin_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
