// Paging of large allocations in parts: transfers of a few pages each, paging buffers that others
// have half filled, operations that need several passes. Content is compared byte by byte.
#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.h"
#include "base/spelling.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/pattern.h"
#include "tools/dxgkit/verify/scarcity.h"

namespace dxgkit::tool::verify {
namespace {

/// Sizes that end inside a page, and one that needs more commands than a paging buffer holds.
constexpr uint64_t kSizes[] = {kPageBytes, 6 * kPageBytes + 40, 37 * kPageBytes + 4,
                               (uint64_t{4} << 20) + kPageBytes + 12};
constexpr size_t kTogether = 3;  // allocations that come in at once
constexpr uint64_t kChunkPages[] = {1, 3, 64, 1 << 14};

struct Piece {
  ClientAllocation allocation;
  uint64_t seed = 0;
  bool filled = false;  // never written by the CPU: it comes in as zeros
};

/// The kinds of plain memory that the plug-in's jobs use, in each size.
Answer<std::vector<Piece>> pieces(Bench& bench) {
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return std::unexpected(code.error());
  std::vector<uint32_t> usages;
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    const Answer<std::vector<DxgkitClientAllocation>> wanted = (*code)->plan(bench.random(), node);
    if (!wanted) return std::unexpected(wanted.error());
    for (const DxgkitClientAllocation& one : *wanted) {
      const bool plain = one.width == 0 && one.height == 0;
      if (plain && std::ranges::find(usages, one.usage) == usages.end())
        usages.push_back(one.usage);
    }
  }
  std::vector<Piece> made;
  for (const uint32_t usage : usages) {
    for (const uint64_t size : kSizes) {
      DxgkitClientAllocation wanted{};
      wanted.size_bytes = size;
      wanted.usage = usage;
      const Answer<std::vector<std::byte>> data = (*code)->pack_allocation(wanted);
      if (!data) continue;  // the driver's user mode makes no such size
      for (const bool filled : {false, true})
        made.push_back({{0, size, *data}, bench.random(), filled});
    }
  }
  return made;
}

/// Together, so that one finds a paging buffer that another has begun; one by one if there is no
/// room for all at once.
Answer<void> bring_in(Bench& bench, Client& client, std::span<const D3DKMT_HANDLE> handles,
                      size_t* moved) {
  dxgk::MemoryExercise memory = bench.exercise().memory();
  if (handles.empty()) return {};
  if (!memory.page_in(client.process(), handles).has_value()) {
    for (const D3DKMT_HANDLE handle : handles) {
      const Result<vidmm::Placement> place = memory.page_in(client.process(), handle);
      if (!place.has_value())
        return std::unexpected("an allocation could not be brought in: " +
                               status_text(place.error()));
    }
  }
  for (const D3DKMT_HANDLE handle : handles) {
    if (memory.scribble_backing(client.process(), handle, std::byte{0xDB})) ++*moved;
  }
  return {};
}

/// Everything goes to its segment in one order and comes back in another.
Answer<void> trip(Bench& bench, uint64_t chunk_bytes, size_t* moved, size_t* wrong) {
  Client client(bench, "transfers");
  DXGKIT_VERIFY_TRY(client.open_adapter());
  const Answer<D3DKMT_HANDLE> device = client.create_device();
  if (!device) return std::unexpected(device.error());
  Answer<std::vector<Piece>> all = pieces(bench);
  if (!all) return std::unexpected(all.error());
  uint64_t room = 0;  // of the largest segment
  for (const port::SegmentInfo& segment : bench.exercise().segments())
    room = std::max(room, segment.size);
  std::erase_if(*all, [&](const Piece& piece) { return piece.allocation.size_bytes > room / 2; });
  // A driver may have sizes that it does not make.
  std::erase_if(*all, [&](Piece& piece) {
    return !is_success(from_ntstatus(client.try_create_allocation(*device, piece.allocation)));
  });
  for (Piece& piece : *all) {
    if (piece.filled) continue;
    const Answer<std::byte*> view = client.lock(*device, piece.allocation.handle);
    if (!view) return std::unexpected(view.error());
    write_pattern({*view, piece.allocation.size_bytes}, piece.seed);
    DXGKIT_VERIFY_TRY(client.unlock(*device, piece.allocation.handle));
  }
  std::vector<D3DKMT_HANDLE> coming;
  for (const size_t i : bench.shuffled(all->size())) {
    coming.push_back((*all)[i].allocation.handle);
    if (coming.size() < kTogether) continue;
    DXGKIT_VERIFY_TRY(bring_in(bench, client, coming, moved));
    coming.clear();
  }
  DXGKIT_VERIFY_TRY(bring_in(bench, client, coming, moved));
  for (const size_t i : bench.shuffled(all->size())) {
    const Piece& piece = (*all)[i];
    const D3DKMT_HANDLE handle = piece.allocation.handle;
    if (const Status out = bench.exercise().memory().page_out(client.process(), handle);
        !is_success(out))
      return std::unexpected("an allocation could not be evicted: " + status_text(out));
    const Answer<std::byte*> view = client.lock(*device, handle);
    if (!view) return std::unexpected(view.error());
    const std::string difference = compare_bytes(
        {*view, piece.allocation.size_bytes},
        [&](size_t at) { return piece.filled ? std::byte{0} : pattern_byte(piece.seed, at); });
    DXGKIT_VERIFY_TRY(client.unlock(*device, handle));
    if (difference.empty()) continue;
    ++*wrong;
    const std::string parts = fmt::format("in transfers of at most {} KiB", chunk_bytes >> 10);
    if (piece.filled) {
      report_content(bench, "PAGE-51",
                     fmt::format("A new allocation of {} bytes is not zero, brought back {}: {}.",
                                 piece.allocation.size_bytes, parts, difference),
                     "Zeros: the pattern of the fill.",
                     "Follow one fill through several passes: what MultipassOffset says is done, "
                     "FillSize, and the segment address of the next pass.",
                     "Memory that is not filled shows one process what another one left there.");
    } else {
      report_content(
          bench, "PAGE-50",
          fmt::format("An allocation of {} bytes has changed on its way to a segment and back {}: "
                      "{}.",
                      piece.allocation.size_bytes, parts, difference),
          "The bytes that went in.",
          "Follow one transfer in parts through DxgkDdiBuildPagingBuffer: TransferOffset and "
          "MdlOffset of each part, and what MultipassOffset says is done when the paging buffer "
          "is full.",
          "The kernel moves large allocations in parts (TransferOffset), and the room in a paging "
          "buffer is what other operations have left.");
    }
  }
  return client.destroy_device(*device);
}

Outcome transfers(Bench& bench) {
  size_t moved = 0;
  size_t wrong = 0;
  uint64_t cuts = 0;
  Answer<void> done;
  if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
  for (const uint64_t pages : kChunkPages) {
    Scarcity scarcity(/*segment_bytes=*/0, bench.random());
    const Bench::StartChanges changes{
        .faults = &scarcity, .verifier = {}, .transfer_chunk_bytes = pages * kPageBytes};
    if (const Outcome started = bench.start(changes); started.kind != Outcome::Kind::kOk)
      return started;
    done = trip(bench, pages * kPageBytes, &moved, &wrong);
    cuts += scarcity.cuts();
    const bool running = bench.running();
    const Outcome stopped = bench.stop();  // before the injector goes
    if (!running) {
      return Outcome::failed(
          fmt::format("the adapter stopped in transfers of at most {}", counted(pages, "page")));
    }
    if (stopped.kind != Outcome::Kind::kOk) return stopped;
    if (!done || wrong != 0) break;
  }
  if (const Outcome started = bench.start(); started.kind != Outcome::Kind::kOk) return started;
  if (!done) return Outcome::failed(done.error());
  if (wrong != 0)
    return Outcome::failed(fmt::format("content of {} is wrong", counted(wrong, "allocation")));
  if (moved == 0)
    return Outcome::skipped("none of the client's plain allocations goes to a memory segment");
  return Outcome::ok(
      fmt::format("{} in parts, {} paging buffers cut short", counted(moved, "trip"), cuts));
}

constexpr Step kSteps[] = {
    {"transfers", "large allocations move in parts", Step::Needs::kClient, transfers},
};

}  // namespace

std::span<const Step> transfer_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
