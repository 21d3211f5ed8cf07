// Allocations and paging: made and destroyed in every order, moved, and their bytes compared.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"
#include "base/spelling.h"
#include "dxgk/core/segment_flags.h"
#include "tools/dxgkit/verify/balance.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/pattern.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint64_t kPartBytes = 2 * kPageBytes;  // of an aperture
constexpr size_t kCopies = 3;                    // of each allocation of a job
constexpr size_t kHostileTries = 40;
constexpr size_t kPressureBytesMax = size_t{192} << 20;

/// An allocation without special needs, as a plug-in's job uses it.
struct Recipe {
  std::string name;
  uint64_t size_bytes = 0;
  std::vector<std::byte> private_data;
};

Answer<std::vector<Recipe>> recipes(Bench& bench) {
  std::vector<Recipe> made;
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return std::unexpected(code.error());
  const Answer<std::vector<DxgkitClientAllocation>> wanted = (*code)->plan(bench.random(), 0);
  if (!wanted) return std::unexpected(wanted.error());
  for (size_t i = 0; i < wanted->size(); ++i) {
    Answer<std::vector<std::byte>> data = (*code)->pack_allocation((*wanted)[i]);
    if (!data) return std::unexpected(data.error());
    made.push_back({fmt::format("allocation {} of the client's job", i), (*wanted)[i].size_bytes,
                    std::move(*data)});
  }
  return made;
}

std::vector<ClientAllocation> several(const std::vector<Recipe>& from, size_t copies) {
  std::vector<ClientAllocation> out;
  for (size_t i = 0; i < copies; ++i) {
    for (const Recipe& recipe : from) out.push_back({0, recipe.size_bytes, recipe.private_data});
  }
  return out;
}

/// A client with a device, for the length of a step.
struct Owner {
  explicit Owner(Bench& bench) : client(bench, "memory") {}
  Answer<void> open() {
    DXGKIT_VERIFY_TRY(client.open_adapter());
    const Answer<D3DKMT_HANDLE> made = client.create_device();
    if (!made) return std::unexpected(made.error());
    device = *made;
    return {};
  }
  Client client;
  D3DKMT_HANDLE device = 0;
};

/// Nothing else is in memory, and no request of the driver fails.
void report_refusal(Bench& bench, const std::string& error) {
  if (!bench.running()) return;
  if (bench.findings().count("ALLOC-63") != 0) return;  // they were made, and are too small
  bench.findings().report(
      {.rule = "LIFE-25",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiCreateAllocation",
       .actual = fmt::format("Allocations as client {} describes them cannot be made: {}.",
                             bench.plugin()->name(), error),
       .expected = "Private data that the driver's interface with user mode defines is taken.",
       .fix = "Find the check that refuses it, or what the driver could not get.",
       .windows = "Applications fail.",
       .confidence = verifier::Confidence::kInferred});
}

Outcome orders(Bench& bench) {
  const Answer<std::vector<Recipe>> from = recipes(bench);
  if (!from) return Outcome::failed(from.error());
  size_t count = 0;
  const auto run = [&]() -> Answer<void> {
    Owner owner(bench);
    DXGKIT_VERIFY_TRY(owner.open());
    const size_t each = from->size() * kCopies;
    Balance balance(bench);
    for (const std::vector<size_t>& order : bench.orders(each)) {
      // Made by one call for all, and by one call for each; destroyed one by one.
      std::vector<ClientAllocation> made = several(*from, kCopies);
      const Answer<D3DKMT_HANDLE> all =
          owner.client.create_allocations(owner.device, made, /*as_resource=*/false);
      if (!all) {
        report_refusal(bench, all.error());
        return std::unexpected(all.error());
      }
      for (const size_t i : order) {
        const D3DKMT_HANDLE handle = made[i].handle;
        DXGKIT_VERIFY_TRY(owner.client.destroy_allocations(owner.device, {&handle, 1}));
      }
      count += each;
      balance.end_round();
    }
    balance.report("allocations");
    for (const bool by_resource : {true, false}) {
      std::vector<ClientAllocation> made = several(*from, 1);
      const Answer<D3DKMT_HANDLE> resource =
          owner.client.create_allocations(owner.device, made, /*as_resource=*/true);
      if (!resource) return std::unexpected(resource.error());
      count += made.size();
      if (by_resource) DXGKIT_VERIFY_TRY(owner.client.destroy_resource(owner.device, *resource));
    }
    // The last resource is destroyed with the device.
    return owner.client.destroy_device(owner.device);
  };
  const Answer<void> done = run();
  if (!done) return Outcome::failed(done.error());
  return Outcome::ok(
      fmt::format("{}, by handle, by resource, with their device", counted(count, "allocation")));
}

/// Private data is user-mode input: the driver refuses data that it does not understand.
Outcome hostile(Bench& bench) {
  size_t refused = 0;
  size_t accepted = 0;
  std::vector<Recipe> valid;
  if (bench.plugin() != nullptr) {
    Answer<std::vector<Recipe>> from = recipes(bench);
    if (!from) return Outcome::failed(from.error());
    valid = std::move(*from);
  }
  const auto run = [&]() -> Answer<void> {
    Owner owner(bench);
    DXGKIT_VERIFY_TRY(owner.open());
    constexpr size_t kSizes[] = {0, 1, 7, 16, 40, 64, 256, 4096};
    for (size_t i = 0; i < kHostileTries && bench.running(); ++i) {
      ClientAllocation one;
      if (!valid.empty() && i % 2 == 1) {
        // A valid description, cut short or with a few bytes changed.
        one.private_data = valid[i / 2 % valid.size()].private_data;
        if (i % 4 == 1) {
          one.private_data.resize(bench.random() % (one.private_data.size() + 1));
        } else {
          for (int change = 0; change < 3 && !one.private_data.empty(); ++change)
            one.private_data[bench.random() % one.private_data.size()] =
                static_cast<std::byte>(bench.random());
        }
      } else {
        one.private_data.resize(kSizes[i / 2 % std::size(kSizes)]);
        for (std::byte& byte : one.private_data) byte = static_cast<std::byte>(bench.random());
      }
      const NTSTATUS status = owner.client.try_create_allocation(owner.device, one);
      if (!is_success(from_ntstatus(status))) {
        ++refused;
        continue;
      }
      ++accepted;
      DXGKIT_VERIFY_TRY(owner.client.destroy_allocations(owner.device, {&one.handle, 1}));
    }
    return owner.client.destroy_device(owner.device);
  };
  const Answer<void> done = run();
  if (!bench.running()) {
    return Outcome::failed(
        fmt::format("private data of user mode ended the adapter, after {} refused and {} accepted",
                    refused, accepted));
  }
  if (!done) return Outcome::failed(done.error());
  return Outcome::ok(fmt::format("{} refused, {} accepted", refused, accepted));
}

/// Writes a pattern, pages it in, pages it out, and compares; the backing pages are spoilt in
/// between.
Outcome round_trip(Bench& bench) {
  const Answer<std::vector<Recipe>> from = recipes(bench);
  if (!from) return Outcome::failed(from.error());
  size_t moved = 0;
  size_t mapped = 0;
  size_t wrong = 0;
  size_t again = 0;
  const auto run = [&]() -> Answer<void> {
    Owner owner(bench);
    DXGKIT_VERIFY_TRY(owner.open());
    for (const Recipe& recipe : *from) {
      std::vector<ClientAllocation> made{{0, recipe.size_bytes, recipe.private_data}};
      const Answer<D3DKMT_HANDLE> all =
          owner.client.create_allocations(owner.device, made, /*as_resource=*/false);
      if (!all) return std::unexpected(all.error());
      const D3DKMT_HANDLE handle = made.front().handle;
      const uint64_t seed = bench.random();
      // Twice: the second time the content has been in a segment before.
      for (int round = 0; round < 2; ++round) {
        const Answer<std::byte*> view = owner.client.lock(owner.device, handle);
        if (!view) return std::unexpected(view.error());
        if (round == 0) write_pattern({*view, recipe.size_bytes}, seed);
        DXGKIT_VERIFY_TRY(owner.client.unlock(owner.device, handle));
        // In the second round each way is built twice, if the driver maps the pages.
        const auto lacking = [&](const auto& way) {
          if (round == 1) bench.shortage().deny_memory(1, Shortage::During::kPaging);
          auto answer = way();
          if (!bench.shortage().stop().routine.empty()) ++again;
          return answer;
        };
        const Result<vidmm::Placement> place = lacking(
            [&] { return bench.exercise().memory().page_in(owner.client.process(), handle); });
        if (!place.has_value()) {
          return std::unexpected(fmt::format("{} could not be brought in: {}", recipe.name,
                                             status_text(place.error())));
        }
        const bool spoilt = bench.exercise().memory().scribble_backing(owner.client.process(),
                                                                       handle, std::byte{0xDB});
        spoilt ? ++moved : ++mapped;
        if (const Status out = lacking(
                [&] { return bench.exercise().memory().page_out(owner.client.process(), handle); });
            !is_success(out))
          return std::unexpected(
              fmt::format("{} could not be evicted: {}", recipe.name, status_text(out)));
        const Answer<std::byte*> back = owner.client.lock(owner.device, handle);
        if (!back) return std::unexpected(back.error());
        const std::string difference = compare_bytes(
            {*back, recipe.size_bytes}, [&](size_t at) { return pattern_byte(seed, at); });
        if (!difference.empty()) {
          ++wrong;
          report_content(
              bench, "PAGE-50",
              fmt::format("After a trip to segment {} and back {} of {} has changed: {}.",
                          place->segment.value, recipe.name, recipe.size_bytes, difference),
              "The bytes that went in.",
              "Follow one transfer through DxgkDdiBuildPagingBuffer: the MDL and its offset, the "
              "segment address, the size in every pass, and that the commands really run.",
              "Bytes 0xdb are the backing pages as they were spoilt while the content was in the "
              "segment: the transfer back moved nothing.");
        }
        DXGKIT_VERIFY_TRY(owner.client.unlock(owner.device, handle));
      }
      DXGKIT_VERIFY_TRY(owner.client.destroy_allocations(owner.device, {&handle, 1}));
    }
    return owner.client.destroy_device(owner.device);
  };
  const Answer<void> done = run();
  if (!done) return Outcome::failed(done.error());
  if (wrong != 0)
    return Outcome::failed(
        fmt::format("content of {} of {} is wrong", wrong, counted(moved + mapped, "trip")));
  return Outcome::ok(
      fmt::format("{} through memory segments, {} through apertures; {} of pages failed once",
                  counted(moved, "trip"), mapped, counted(again, "mapping")));
}

/// FillPattern has four bytes, none of them like another. False: reported.
Answer<bool> fill_with_pattern(Bench& bench, Client& client, D3DKMT_HANDLE device,
                               D3DKMT_HANDLE handle, uint64_t size_bytes) {
  constexpr uint32_t kPattern = 0xC0A51B7E;
  const Result<vidmm::Placement> place =
      bench.exercise().memory().page_in(client.process(), handle);
  if (!place.has_value())
    return std::unexpected("an allocation could not be brought in: " + status_text(place.error()));
  const Status filled = bench.exercise().memory().fill(client.process(), handle, kPattern);
  if (filled == Status::kInvalidParameter) return true;
  if (!is_success(filled)) return std::unexpected("a fill: " + status_text(filled));
  static_cast<void>(
      bench.exercise().memory().scribble_backing(client.process(), handle, std::byte{0xDB}));
  if (const Status out = bench.exercise().memory().page_out(client.process(), handle);
      !is_success(out))
    return std::unexpected("an allocation could not be evicted: " + status_text(out));
  const Answer<std::byte*> back = client.lock(device, handle);
  if (!back) return std::unexpected(back.error());
  const std::string difference = compare_bytes({*back, size_bytes}, [](size_t at) {
    return static_cast<std::byte>(kPattern >> (at % sizeof(kPattern) * 8));
  });
  DXGKIT_VERIFY_TRY(client.unlock(device, handle));
  if (difference.empty()) return true;
  report_content(bench, "PAGE-51",
                 fmt::format("An allocation of {} bytes in segment {} was filled with {:#x}: {}.",
                             size_bytes, place->segment.value, kPattern, difference),
                 "The pattern again and again, its lowest byte first.",
                 "Follow one fill through DxgkDdiBuildPagingBuffer: all four bytes of FillPattern, "
                 "FillSize, the segment address, in every pass.",
                 "The pattern is whatever the kernel says; zeros are only the most frequent.");
  return false;
}

/// A new allocation comes into a memory segment without content: the driver fills it.
Outcome fills(Bench& bench) {
  const Answer<std::vector<Recipe>> from = recipes(bench);
  if (!from) return Outcome::failed(from.error());
  size_t filled = 0;
  size_t wrong = 0;
  const auto run = [&]() -> Answer<void> {
    Owner owner(bench);
    DXGKIT_VERIFY_TRY(owner.open());
    // Leaves other content in the segments first, so that a fill without effect shows.
    for (const bool dirty : {true, false}) {
      for (const Recipe& recipe : *from) {
        std::vector<ClientAllocation> made{{0, recipe.size_bytes, recipe.private_data}};
        const Answer<D3DKMT_HANDLE> all =
            owner.client.create_allocations(owner.device, made, /*as_resource=*/false);
        if (!all) return std::unexpected(all.error());
        const D3DKMT_HANDLE handle = made.front().handle;
        if (dirty) {
          const Answer<std::byte*> view = owner.client.lock(owner.device, handle);
          if (!view) return std::unexpected(view.error());
          write_pattern({*view, recipe.size_bytes}, bench.random());
          DXGKIT_VERIFY_TRY(owner.client.unlock(owner.device, handle));
        }
        const Result<vidmm::Placement> place =
            bench.exercise().memory().page_in(owner.client.process(), handle);
        if (!place.has_value()) {
          return std::unexpected(fmt::format("{} could not be brought in: {}", recipe.name,
                                             status_text(place.error())));
        }
        const bool memory = bench.exercise().memory().scribble_backing(owner.client.process(),
                                                                       handle, std::byte{0xDB});
        if (!dirty && memory) {
          ++filled;
          if (const Status out = bench.exercise().memory().page_out(owner.client.process(), handle);
              !is_success(out))
            return std::unexpected(
                fmt::format("{} could not be evicted: {}", recipe.name, status_text(out)));
          const Answer<std::byte*> back = owner.client.lock(owner.device, handle);
          if (!back) return std::unexpected(back.error());
          const std::string difference =
              compare_bytes({*back, recipe.size_bytes}, [](size_t) { return std::byte{0}; });
          if (!difference.empty()) {
            ++wrong;
            report_content(
                bench, "PAGE-51",
                fmt::format("A new allocation of {} bytes in segment {} is not zero: {}.",
                            recipe.size_bytes, place->segment.value, difference),
                "Zeros: the pattern of the fill.",
                "Follow one fill through DxgkDdiBuildPagingBuffer: FillPattern, FillSize, the "
                "segment address, in every pass.",
                "Memory that is not filled shows one process what another one left there.");
          }
          DXGKIT_VERIFY_TRY(owner.client.unlock(owner.device, handle));
          const Answer<bool> right =
              fill_with_pattern(bench, owner.client, owner.device, handle, recipe.size_bytes);
          if (!right) return std::unexpected(right.error());
          ++filled;
          if (!*right) ++wrong;
        }
        DXGKIT_VERIFY_TRY(owner.client.destroy_allocations(owner.device, {&handle, 1}));
      }
    }
    return owner.client.destroy_device(owner.device);
  };
  const Answer<void> done = run();
  if (!done) return Outcome::failed(done.error());
  if (wrong != 0) return Outcome::failed(fmt::format("{} of {} fills are wrong", wrong, filled));
  if (filled == 0)
    return Outcome::skipped("none of the client's allocations goes to a memory segment");
  return Outcome::ok(fmt::format("{} checked", counted(filled, "fill")));
}

/// The largest memory segment in bytes; 0: there are apertures only.
uint64_t memory_room(Bench& bench) {
  uint64_t room = 0;
  for (const port::SegmentInfo& segment : bench.exercise().segments()) {
    constexpr uint32_t kAperture = 1;
    if ((segment.flags & kAperture) == 0) room = std::max(room, segment.size);
  }
  return room;
}

/// More than fits, each allocation with bytes of its own: eviction by pressure.
Outcome pressure(Bench& bench) {
  const Answer<std::vector<Recipe>> from = recipes(bench);
  if (!from) return Outcome::failed(from.error());
  const uint64_t room = memory_room(bench);
  if (room == 0) return Outcome::skipped("there is no memory segment");
  if (room > kPressureBytesMax)
    return Outcome::skipped(fmt::format("a segment of {} MiB takes too long to fill", room >> 20));
  // The largest allocations, until they need a quarter more memory than there is.
  const auto largest = std::ranges::max_element(*from, {}, &Recipe::size_bytes);
  const size_t count = (room + room / 4) / largest->size_bytes + 1;
  if (count > 4096) return Outcome::skipped("the client's allocations are too small for that");
  size_t wrong = 0;
  const auto run = [&]() -> Answer<void> {
    Owner owner(bench);
    DXGKIT_VERIFY_TRY(owner.open());
    std::vector<ClientAllocation> made;
    for (size_t i = 0; i < count; ++i) {
      std::vector<ClientAllocation> one{{0, largest->size_bytes, largest->private_data}};
      const Answer<D3DKMT_HANDLE> all =
          owner.client.create_allocations(owner.device, one, /*as_resource=*/false);
      if (!all) return std::unexpected(all.error());
      made.push_back(std::move(one.front()));
    }
    const uint64_t seed = bench.random();
    constexpr size_t kStride = 512;  // enough to tell pages apart
    const auto mark = [&](std::span<std::byte> view, size_t i) {
      for (size_t at = 0; at < view.size(); at += kStride) view[at] = pattern_byte(seed + i, at);
    };
    for (size_t i = 0; i < count; ++i) {
      const Answer<std::byte*> view = owner.client.lock(owner.device, made[i].handle);
      if (!view) return std::unexpected(view.error());
      mark({*view, made[i].size_bytes}, i);
      DXGKIT_VERIFY_TRY(owner.client.unlock(owner.device, made[i].handle));
    }
    for (int round = 0; round < 2; ++round) {
      for (const size_t i : bench.shuffled(count)) {
        const Result<vidmm::Placement> place =
            bench.exercise().memory().page_in(owner.client.process(), made[i].handle);
        if (!place.has_value())
          return std::unexpected(fmt::format("allocation {} of {} could not be brought in: {}", i,
                                             count, status_text(place.error())));
        static_cast<void>(bench.exercise().memory().scribble_backing(
            owner.client.process(), made[i].handle, std::byte{0xDB}));
      }
    }
    for (size_t i = 0; i < count; ++i) {
      if (const Status out =
              bench.exercise().memory().page_out(owner.client.process(), made[i].handle);
          !is_success(out))
        return std::unexpected(
            fmt::format("allocation {} could not be evicted: {}", i, status_text(out)));
      const Answer<std::byte*> view = owner.client.lock(owner.device, made[i].handle);
      if (!view) return std::unexpected(view.error());
      for (size_t at = 0; at < made[i].size_bytes; at += kStride) {
        if ((*view)[at] == pattern_byte(seed + i, at)) continue;
        ++wrong;
        report_content(bench, "PAGE-50",
                       fmt::format("Under memory pressure byte {:#x} of allocation {} of {} is "
                                   "{:#04x}, not {:#04x}.",
                                   at, i, count, static_cast<unsigned>((*view)[at]),
                                   static_cast<unsigned>(pattern_byte(seed + i, at))),
                       "The byte its owner wrote.",
                       "Look for paging operations that share a paging buffer: an operation that "
                       "does not advance pDmaBuffer is overwritten by the next one.",
                       "Many transfers share one paging buffer here, as on a busy desktop.");
        break;
      }
      DXGKIT_VERIFY_TRY(owner.client.unlock(owner.device, made[i].handle));
    }
    return owner.client.destroy_device(owner.device);
  };
  const Answer<void> done = run();
  if (!done) return Outcome::failed(done.error());
  if (wrong != 0)
    return Outcome::failed(
        fmt::format("content of {} of {} is wrong", wrong, counted(count, "allocation")));
  return Outcome::ok(fmt::format("{} of {} KiB in {} MiB", counted(count, "allocation"),
                                 largest->size_bytes >> 10, room >> 20));
}

/// Allocations that are in segments while their device, or their process, is destroyed.
Outcome discards(Bench& bench) {
  const Answer<std::vector<Recipe>> from = recipes(bench);
  if (!from) return Outcome::failed(from.error());
  const auto run = [&](bool with_process) -> Answer<void> {
    Owner owner(bench);
    DXGKIT_VERIFY_TRY(owner.open());
    std::vector<ClientAllocation> made = several(*from, 2);
    const Answer<D3DKMT_HANDLE> all =
        owner.client.create_allocations(owner.device, made, /*as_resource=*/true);
    if (!all) return std::unexpected(all.error());
    for (const ClientAllocation& one : made) {
      const Result<vidmm::Placement> place =
          bench.exercise().memory().page_in(owner.client.process(), one.handle);
      if (!place.has_value())
        return std::unexpected(
            fmt::format("an allocation could not be brought in: {}", status_text(place.error())));
    }
    if (with_process) return {};
    return owner.client.destroy_device(owner.device);
  };
  for (const bool with_process : {false, true}) {
    if (const Answer<void> done = run(with_process); !done) return Outcome::failed(done.error());
  }
  return Outcome::ok("resident allocations go with their device and with their process");
}

/// Whether the driver may be asked to read and write a few bytes of a memory segment: what systems
/// with an aperture do to have writes arrive.
bool is_touched(Bench& bench) {
  return bench.interface_version() < kInterfaceWddm20 &&
         std::ranges::any_of(bench.exercise().segments(), [](const port::SegmentInfo& segment) {
           return (segment.flags & (dxgk::kSegmentAperture | dxgk::kSegmentAgp)) != 0;
         });
}

/// Reads and writes a few bytes at `offset`, where `expected` is (PAGE-25). The written ones may
/// become anything: those of `expected` are what they are then.
Status touch(Bench& bench, SegmentId segment, uint64_t offset, std::span<std::byte> expected) {
  constexpr uint64_t kRead = 100, kWritten = 12, kWrittenMax = 8;
  dxgk::MemoryExercise memory = bench.exercise().memory();
  if (const Status status = memory.touch(segment, offset + kRead, false); !is_success(status))
    return status;
  if (const Status status = memory.touch(segment, offset + kWritten, true); !is_success(status))
    return status;
  const Result<std::vector<std::byte>> now = memory.read_plain(segment, offset, kPageBytes);
  if (!now.has_value()) return now.error();
  std::ranges::copy(std::span(*now).subspan(kWritten, kWrittenMax), expected.begin() + kWritten);
  return Status::kSuccess;
}

/// Copies of the kernel's own, of no allocation (PAGE-21): some pages into the middle of others,
/// which must stay as they are. No user mode is needed for it.
Outcome plain_copies(Bench& bench) {
  if (bench.gpu_addresses())
    return Outcome::skipped("content moves by virtual address here; see own-content");
  size_t copies = 0;
  const bool touches = is_touched(bench);
  const std::vector<port::SegmentInfo>& segments = bench.exercise().segments();
  for (uint32_t i = 0; i < segments.size(); ++i) {
    const SegmentId segment{i + 1};
    for (const uint64_t pages : {uint64_t{1}, uint64_t{3}, uint64_t{40}}) {
      const uint64_t around = (pages + 2) * kPageBytes;
      if (around > segments[i].size) continue;
      const uint64_t places = (segments[i].size - around) / kPageBytes + 1;
      // At the ends, and anywhere.
      for (const uint64_t place : {uint64_t{0}, places - 1, bench.random() % places}) {
        const uint64_t offset = place * kPageBytes;
        std::vector<std::byte> expected = bench.random_bytes(around);
        const Status first = bench.exercise().memory().write_plain(segment, offset, expected);
        // An aperture segment, or somebody's place.
        if (first == Status::kInvalidParameter) continue;
        if (!is_success(first)) return Outcome::failed(status_text(first));
        const std::vector<std::byte> inner = bench.random_bytes(pages * kPageBytes);
        const Status second =
            bench.exercise().memory().write_plain(segment, offset + kPageBytes, inner);
        if (!is_success(second)) return Outcome::failed(status_text(second));
        std::ranges::copy(inner, expected.begin() + kPageBytes);
        if (pages == 1 && touches) {
          const Status touched = touch(bench, segment, offset, expected);
          if (!is_success(touched)) return Outcome::failed(status_text(touched));
        }
        Result<std::vector<std::byte>> back =
            bench.exercise().memory().read_plain(segment, offset, around);
        if (!back.has_value()) return Outcome::failed(status_text(back.error()));
        copies += 3;
        auto wrong = std::ranges::mismatch(*back, expected);
        // And on to another place of the segment, as when it is tidied up.
        const uint64_t to = offset >= around ? offset - around : offset + around;
        if (wrong.in1 == back->end() &&
            is_success(bench.exercise().memory().move_plain(segment, offset, to, around))) {
          Result<std::vector<std::byte>> there =
              bench.exercise().memory().read_plain(segment, to, around);
          if (!there.has_value()) return Outcome::failed(status_text(there.error()));
          copies += 2;
          *back = std::move(*there);
          wrong = std::ranges::mismatch(*back, expected);
        }
        if (wrong.in1 == back->end()) continue;
        const auto at = static_cast<uint64_t>(wrong.in1 - back->begin());
        bench.findings().report(
            {.rule = "PAGE-50",
             .severity = verifier::Severity::kViolation,
             .ddi = "DxgkDdiBuildPagingBuffer",
             .actual = fmt::format(
                 "{} pages were copied to segment {} + {:#x}, amid others{}. Byte {:#x} of them "
                 "came back as {:#04x}, not {:#04x}.",
                 pages, segment.value, offset + kPageBytes,
                 pages == 1 && touches
                     ? ", of which a few bytes were read (ReadPhysical) and up to "
                       "8 written (WritePhysical)"
                     : "",
                 offset + at, std::to_integer<unsigned>(*wrong.in1),
                 std::to_integer<unsigned>(*wrong.in2)),
             .expected = "The bytes that went in, and the pages before and behind as they were.",
             .fix = "Follow one DXGK_OPERATION_TRANSFER whose hAllocation is NULL: both sides, the "
                    "size in every pass, and the pages of the MDL one by one.",
             .why = "A transfer of no allocation is a plain copy of bytes (PAGE-21).",
             .windows = "Wrong content, long after the mistake and far from it."});
        return Outcome::failed("a plain copy came back changed");
      }
    }
  }
  if (copies == 0) return Outcome::skipped("no memory segment has room for it");
  return Outcome::ok(
      fmt::format("{} of pages of no allocation", counted(copies, "copy", "copies")));
}

/// What a client has in an aperture segment, as the engines see it.
struct Shown {
  D3DKMT_HANDLE handle = 0;
  vidmm::Placement place;
  uint64_t size_bytes = 0;  // whole pages
  uint64_t seed = 0;        // of the pattern in its pages
  bool mapped = true;
};

/// Copies a place out of the aperture, in copies that no kernel would cut.
Result<std::vector<std::byte>> look_at(Bench& bench, const Shown& one) {
  std::vector<std::byte> seen;
  for (uint64_t at = 0; at < one.size_bytes; at += kPartBytes) {
    const Result<std::vector<std::byte>> part = bench.exercise().memory().read_aperture(
        one.place.segment, one.place.offset_bytes + at, std::min(kPartBytes, one.size_bytes - at));
    if (!part.has_value()) return part;
    seen.insert(seen.end(), part->begin(), part->end());
  }
  return seen;
}

/// PAGE-29: copies each place out of the aperture. What is wrong there; empty: nothing.
Answer<std::string> look_through(Bench& bench, const std::vector<Shown>& all,
                                 std::span<const std::byte> dummy, bool in_parts) {
  for (const Shown& one : all) {
    const Result<std::vector<std::byte>> seen =
        in_parts ? look_at(bench, one)
                 : bench.exercise().memory().read_aperture(one.place.segment,
                                                           one.place.offset_bytes, one.size_bytes);
    if (!seen.has_value()) {
      return std::unexpected(
          fmt::format("an aperture could not be read: {}", status_text(seen.error())));
    }
    for (uint64_t page = 0; page < one.size_bytes / kPageBytes; ++page) {
      const std::string difference =
          compare_bytes({seen->data() + page * kPageBytes, kPageBytes}, [&](size_t at) {
            return one.mapped ? pattern_byte(one.seed, page * kPageBytes + at) : dummy[at];
          });
      if (difference.empty()) continue;
      return fmt::format("Page {} of {} at {:#x} of segment {}, which is {}, shows other bytes: {}",
                         page, one.size_bytes / kPageBytes, one.place.offset_bytes,
                         one.place.segment.value, one.mapped ? "mapped" : "unmapped", difference);
    }
  }
  return std::string();
}

/// What came of a look at all places.
struct Look {
  size_t places = 0;
  std::string wrong;  // empty: nothing
};

/// The client's allocations are mapped and unmapped one by one, and looked at each time.
/// `in_parts`: the kernel maps them in parts, and they are looked at before and after all of it.
Answer<void> map_and_unmap(Bench& bench, bool in_parts, Look* look) {
  const Answer<std::vector<Recipe>> from = recipes(bench);
  if (!from) return std::unexpected(from.error());
  Owner owner(bench);
  DXGKIT_VERIFY_TRY(owner.open());
  std::vector<ClientAllocation> made = several(*from, kCopies);
  DXGKIT_VERIFY_TRY(owner.client.create_allocations(owner.device, made, /*as_resource=*/false));
  std::vector<Shown> shown;
  for (const ClientAllocation& allocation : made) {
    const Result<vidmm::Placement> place =
        bench.exercise().memory().page_in(owner.client.process(), allocation.handle);
    if (!place.has_value())
      return std::unexpected("an allocation could not be brought in: " +
                             status_text(place.error()));
    const Shown one{allocation.handle, *place, align_up(allocation.size_bytes, kPageBytes),
                    bench.random()};
    if (!bench.exercise()
             .memory()
             .read_aperture(place->segment, place->offset_bytes, kPageBytes)
             .has_value())
      continue;  // it is in memory
    // The CPU sees the pages themselves, also while the aperture shows them.
    const Answer<std::byte*> view = owner.client.lock(owner.device, one.handle);
    if (!view) continue;  // no memory of the CPU's
    write_pattern({*view, one.size_bytes}, one.seed);
    DXGKIT_VERIFY_TRY(owner.client.unlock(owner.device, one.handle));
    shown.push_back(one);
  }
  const std::vector<std::byte> dummy = bench.random_bytes(kPageBytes);
  bench.exercise().memory().fill_dummy_page(dummy);
  bool looked = false;
  for (const size_t i : bench.shuffled(shown.size())) {
    if (!in_parts || !looked) {
      const Answer<std::string> before = look_through(bench, shown, dummy, in_parts);
      if (!before) return std::unexpected(before.error());
      look->places += shown.size();
      look->wrong = *before;
      if (!look->wrong.empty()) return {};
      looked = true;
    }
    if (const Status out =
            bench.exercise().memory().page_out(owner.client.process(), shown[i].handle);
        !is_success(out))
      return std::unexpected("an allocation could not be evicted: " + status_text(out));
    shown[i].mapped = false;
  }
  const Answer<std::string> after = look_through(bench, shown, dummy, in_parts);
  if (!after) return std::unexpected(after.error());
  look->places += shown.size();
  look->wrong = *after;
  return owner.client.destroy_device(owner.device);
}

Outcome unmapped_pages(Bench& bench) {
  // The step looks by transfers, which no kernel asks for where content never moves.
  if (memory_room(bench) == 0)
    return Outcome::skipped("content never moves: there is no memory segment");
  if (bench.gpu_addresses())
    return Outcome::skipped("content moves by virtual address here; see own-content");
  Look look;
  if (const Answer<void> done = map_and_unmap(bench, /*in_parts=*/false, &look); !done)
    return Outcome::failed(done.error());
  if (look.places == 0)
    return Outcome::skipped("none of the client's allocations goes to an aperture segment");
  // Once more in parts, each of which starts behind the first page of its allocation but one.
  if (look.wrong.empty()) {
    if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
    const Bench::StartChanges parts{.verifier = {}, .transfer_chunk_bytes = kPartBytes};
    if (const Outcome started = bench.start(parts); started.kind != Outcome::Kind::kOk)
      return started;
    const Answer<void> done = map_and_unmap(bench, /*in_parts=*/true, &look);
    if (!look.wrong.empty())
      look.wrong += fmt::format(", with mappings of at most {} KiB", kPartBytes >> 10);
    if (!bench.running()) return Outcome::failed("the adapter stopped");
    if (const Outcome stopped = bench.stop(); stopped.kind != Outcome::Kind::kOk) return stopped;
    if (const Outcome started = bench.start(); started.kind != Outcome::Kind::kOk) return started;
    if (!done) return Outcome::failed(done.error());
  }
  if (look.wrong.empty())
    return Outcome::ok(fmt::format("{} looked at, results right", counted(look.places, "place")));
  bench.findings().report(
      {.rule = "PAGE-29",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiBuildPagingBuffer",
       .actual = look.wrong + ".",
       .expected = "What is mapped shows its own pages, and each page that was unmapped shows the "
                   "DummyPage of that operation.",
       .fix = "Follow one DXGK_OPERATION_MAP_APERTURE_SEGMENT: OffsetInPages, NumberOfPages, and "
              "MdlOffset, which is not 0 for a later part of an allocation. Then follow one "
              "DXGK_OPERATION_UNMAP_APERTURE_SEGMENT: the same, and the address of DummyPage in "
              "each entry of the range.",
       .why = "The engine copied the pages out through the aperture; nobody else had work.",
       .windows = "The GPU reads and writes memory that belongs to somebody else."});
  return Outcome::failed("an aperture shows pages that it should not");
}

constexpr Step kSteps[] = {
    {"allocations", "allocations are made and destroyed in every order", Step::Needs::kClient,
     orders},
    {"hostile-allocations", "allocations with private data of no meaning", Step::Needs::kRender,
     hostile},
    {"paging", "content goes to a segment and comes back", Step::Needs::kClient, round_trip},
    {"plain-copies", "pages of no allocation are copied", Step::Needs::kRender, plain_copies},
    {"unmapped-pages", "aperture segments are looked through", Step::Needs::kClient,
     unmapped_pages},
    {"fills", "new memory is filled", Step::Needs::kClient, fills},
    {"discards", "resident allocations are destroyed", Step::Needs::kClient, discards},
    {"pressure", "more is used than fits", Step::Needs::kClient, pressure},
};

}  // namespace

std::span<const Step> memory_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
