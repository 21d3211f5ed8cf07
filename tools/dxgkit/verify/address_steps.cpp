// GPU virtual addresses: reserved, mapped, updated and freed in every order; content through them;
// work at addresses that change under it; faults.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/arithmetic.h"
#include "base/spelling.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/page_fault.h"

namespace dxgkit::tool::verify {
namespace {

constexpr size_t kRanges = 20;
constexpr uint64_t kReservedBytes = uint64_t{4} << 20;
constexpr uint64_t kLargestRangePages = 700;  // more than a table of 512 entries maps
constexpr uint64_t kOwnPages = 37;            // of content of the kernel's
// So many submissions that the last one is not refused. The kernel counts fences of refused
// submissions, and drivers need not know them (SUB-29).
constexpr size_t kHostileTries = 42;
constexpr uint32_t kAperture = 1;  // DXGK_SEGMENTFLAGS.Aperture

/// A process with a device and a context, so that it has page tables.
struct Owner {
  Owner(Bench& b, std::string name) : bench(b), client(b, std::move(name)) {}
  Answer<void> open(uint32_t node = 0) {
    DXGKIT_VERIFY_TRY(client.open_adapter());
    return open_device(node);
  }
  Answer<void> open_device(uint32_t node = 0) {
    const Answer<D3DKMT_HANDLE> made = client.create_device();
    if (!made) return std::unexpected(made.error());
    device = *made;
    const Answer<std::vector<std::byte>> data = bench.context_data(node);
    if (!data) return std::unexpected(data.error());
    const Answer<ClientContext> created = client.create_context(device, node, *data);
    if (!created) return std::unexpected(created.error());
    context = *created;
    return {};
  }
  /// Runs the job. Returns the fault of the result; empty if there is none.
  Answer<std::string> run(Job& job) {
    DXGKIT_VERIFY_TRY(job.submit(context));
    if (const Answer<void> idle = client.wait_idle(device); !idle) {
      if (client.active(device)) return std::unexpected(idle.error());
      return lost_text(client, device);
    }
    const Answer<void> right = job.check();
    return right ? std::string() : right.error();
  }
  Bench& bench;
  Client client;
  D3DKMT_HANDLE device = 0;
  ClientContext context;
};

struct Range {
  uint64_t base = 0, pages = 0;
};

/// Maps ranges of zeros all over the space. nullopt: the driver's entries cannot show zeros.
Answer<std::optional<std::vector<Range>>> map_zeros(Bench& bench, Owner& owner) {
  std::vector<Range> ranges;
  const uint64_t space = bench.exercise().gpu_va_pages();
  for (size_t i = 0; i < kRanges; ++i) {
    MapWish wish;
    wish.pages = 1 + bench.random() % kLargestRangePages;
    // Every second range is wherever there is room; the others are far apart.
    if (i % 2 == 1) wish.minimum = bench.random() % (space / 2) * kPageBytes;
    const Answer<uint64_t> base = owner.client.map(owner.device, wish);
    if (!base && i == 0 && base.error().ends_with("STATUS_NOT_SUPPORTED")) return std::nullopt;
    if (!base) return std::unexpected(base.error());
    ranges.push_back({*base, wish.pages});
  }
  return ranges;
}

/// A range within a reservation, as update operations name it.
D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION unmap_operation(uint64_t base, uint64_t pages) {
  D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION operation{};
  operation.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP;
  operation.Unmap.BaseAddress = base;
  operation.Unmap.SizeInBytes = pages * kPageBytes;
  operation.Unmap.Protection.NoAccess = 1;
  return operation;
}
D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION copy_operation(uint64_t from, uint64_t to,
                                                        uint64_t pages) {
  D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION operation{};
  operation.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY;
  operation.Copy.SourceAddress = from;
  operation.Copy.DestAddress = to;
  operation.Copy.SizeInBytes = pages * kPageBytes;
  return operation;
}

/// Batches on a reservation: made, copied within it, taken away.
Answer<size_t> update_reserved(Owner& owner) {
  const Answer<D3DKMT_HANDLE> fence = owner.client.create_fence(owner.device);
  if (!fence) return std::unexpected(fence.error());
  const Answer<uint64_t> base = owner.client.reserve(owner.device, kReservedBytes);
  if (!base) return std::unexpected(base.error());
  DXGKIT_VERIFY_TRY(owner.client.wait_paging(owner.device));
  constexpr uint64_t kPages = kReservedBytes / kPageBytes;
  std::array operations{
      unmap_operation(*base, kPages / 2), copy_operation(*base, *base + kReservedBytes / 2, 100),
      copy_operation(*base + kPageBytes, *base, 600), unmap_operation(*base + 4 * kPageBytes, 1)};
  uint64_t value = 0;
  for (int i = 0; i < 3; ++i, ++value) {
    DXGKIT_VERIFY_TRY(owner.client.update(owner.device, owner.context.handle, *fence, value,
                                          std::span(operations)));
  }
  DXGKIT_VERIFY_TRY(owner.client.wait_fence(owner.device, *fence, value));
  DXGKIT_VERIFY_TRY(owner.client.free_addresses(*base, kReservedBytes));
  return operations.size() * value;
}

/// Ranges of two processes, freed in every order, half of one process's first, and with their
/// process.
Outcome addresses(Bench& bench) {
  size_t mapped = 0;
  size_t updates = 0;
  bool zeros = true;
  const auto run = [&]() -> Answer<void> {
    Owner staying(bench, "addresses that stay");
    DXGKIT_VERIFY_TRY(staying.open());
    for (const std::vector<size_t>& order : bench.orders(kRanges)) {
      Owner owner(bench, "addresses");
      DXGKIT_VERIFY_TRY(owner.open());
      const Answer<size_t> updated = update_reserved(owner);
      if (!updated) return std::unexpected(updated.error());
      updates += *updated;
      const auto made = map_zeros(bench, owner);
      if (!made) return std::unexpected(made.error());
      zeros = made->has_value();
      if (!zeros) continue;
      const auto others = map_zeros(bench, staying);
      if (!others) return std::unexpected(others.error());
      DXGKIT_VERIFY_TRY(owner.client.wait_paging(owner.device));
      mapped += 2 * kRanges;
      for (const size_t i : order) {
        const Range& range = (**made)[i];
        const uint64_t first = range.pages / 2;  // the rest of it stays, for a while
        if (first != 0)
          DXGKIT_VERIFY_TRY(owner.client.free_addresses(range.base, first * kPageBytes));
        DXGKIT_VERIFY_TRY(owner.client.free_addresses(range.base + first * kPageBytes,
                                                      (range.pages - first) * kPageBytes));
      }
      DXGKIT_VERIFY_TRY(owner.client.destroy_device(owner.device));
    }
    return {};  // the other process ends with its ranges mapped
  };
  if (const Answer<void> done = run(); !done) return Outcome::failed(done.error());
  if (!zeros) {
    return Outcome::ok(fmt::format("{} of reservations; its page tables cannot show zeros",
                                   counted(updates, "update")));
  }
  return Outcome::ok(fmt::format("{} mapped, freed in 3 orders; {} of reservations",
                                 counted(mapped, "range"), counted(updates, "update")));
}

std::string compare_own(std::span<const std::byte> back, std::span<const std::byte> wanted) {
  size_t wrong = 0;
  size_t first = 0;
  for (size_t i = 0; i < back.size(); ++i) {
    const std::byte expected = wanted.empty() ? std::byte{0} : wanted[i];
    if (back[i] != expected && wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  return fmt::format("{} of {} bytes differ, the first at {:#x}: {:#04x}, not {:#04x}", wrong,
                     back.size(), first, static_cast<unsigned>(back[first]),
                     static_cast<unsigned>(wanted.empty() ? std::byte{0} : wanted[first]));
}

/// Transfers and fills between addresses of the paging process, without an allocation.
Outcome own_content(Bench& bench) {
  size_t moved = 0;
  size_t wrong = 0;
  const std::vector<port::SegmentInfo>& segments = bench.exercise().segments();
  for (uint32_t i = 0; i < segments.size(); ++i) {
    if ((segments[i].flags & kAperture) != 0) continue;
    for (const bool fill : {false, true}) {
      if (wrong != 0) break;  // a fill comes back by a transfer
      // One page, some, and more than one window shows at a time.
      for (const uint64_t pages : {uint64_t{1}, kOwnPages, uint64_t{600}}) {
        if (pages * kPageBytes * 2 > segments[i].size) continue;
        const std::vector<std::byte> content = bench.random_bytes(fill ? 0 : pages * kPageBytes);
        const Result<std::vector<std::byte>> back = bench.exercise().memory().through_segment(
            SegmentId{i + 1}, content, pages * kPageBytes);
        if (!back.has_value())
          return Outcome::failed(fmt::format("{} to segment {}: {}", counted(pages, "page"), i + 1,
                                             status_text(back.error())));
        ++moved;
        const std::string difference = compare_own(*back, content);
        if (difference.empty()) continue;
        ++wrong;
        bench.findings().report(
            {.rule = fill ? "PAGE-51" : "PAGE-50",
             .severity = verifier::Severity::kViolation,
             .ddi = "DxgkDdiBuildPagingBuffer",
             .actual = fmt::format(
                 "{} that {} in segment {} came back changed: {}.", counted(pages, "page"),
                 fill ? "were filled with zeros" : "had content", i + 1, difference),
             .expected = fill ? "Zeros." : "The bytes that went in.",
             .fix = "Follow one DXGK_OPERATION_VIRTUAL_TRANSFER or VIRTUAL_FILL: both virtual "
                    "addresses, the size in every pass, the UpdatePageTable before it, and the "
                    "FlushTlb behind that.",
             .why = "Bytes 0xdb are the system pages as they were spoilt while the content was in "
                    "the segment: then the way back moved nothing. Else look at the entries of the "
                    "paging process that the addresses lead through.",
             .windows = "Wrong pictures, long after the mistake and far from it."});
      }
    }
  }
  if (wrong != 0)
    return Outcome::failed(
        fmt::format("content of {} of {} is wrong", wrong, counted(moved, "trip")));
  if (moved == 0) return Outcome::skipped("there is no memory segment");
  return Outcome::ok(fmt::format("{} through memory segments", counted(moved, "trip")));
}

/// PAGE-35: what such bits mean only the driver's user mode knows, so nobody goes there. The
/// mappings that the job has beside it stay as they are.
Answer<void> map_protected(Client& client, D3DKMT_HANDLE device, D3DKMT_HANDLE allocation) {
  for (const uint64_t protection : {uint64_t{1}, ~uint64_t{0} >> 1}) {
    const Answer<uint64_t> address =
        client.map(device, {.allocation = allocation, .pages = 1, .driver_protection = protection});
    if (!address) return std::unexpected(address.error());
    DXGKIT_VERIFY_TRY(client.wait_paging(device));
    DXGKIT_VERIFY_TRY(client.free_addresses(*address, kPageBytes));
  }
  return {};
}

/// The same addresses lead elsewhere from one job to the next.
Outcome mappings(Bench& bench) {
  size_t jobs = 0;
  std::string wrong;
  const auto run = [&]() -> Answer<void> {
    for (uint32_t node = 0; node < bench.node_count(); ++node) {
      Owner owner(bench, "mappings");
      DXGKIT_VERIFY_TRY(owner.open(node));
      const uint64_t seed = bench.random();
      // Two equal jobs: bytes that the second one leaves in the first one's memory show.
      std::array<std::unique_ptr<Job>, 2> both;
      for (std::unique_ptr<Job>& job : both) {
        Answer<std::unique_ptr<Job>> made =
            Job::create(bench, owner.client, owner.device, seed, node);
        if (!made) return std::unexpected(made.error());
        job = std::move(*made);
      }
      const std::vector<uint64_t> place(both[0]->addresses().begin(), both[0]->addresses().end());
      for (size_t round = 0; round < 4; ++round) {
        Job& job = *both[round % 2];
        Job& other = *both[(round + 1) % 2];
        if (round != 0) {
          // Round 2 maps over present mappings; the others after a free.
          DXGKIT_VERIFY_TRY(job.unmap());
          if (round != 2) DXGKIT_VERIFY_TRY(other.unmap());
          DXGKIT_VERIFY_TRY(job.map_at(bench, place));
          if (round == 2) other.forget_addresses();
        }
        DXGKIT_VERIFY_TRY(job.fill());
        DXGKIT_VERIFY_TRY(job.spoil());
        const Answer<std::string> said = owner.run(job);
        if (!said) return std::unexpected(said.error());
        ++jobs;
        if (round == 0) {
          DXGKIT_VERIFY_TRY(
              map_protected(owner.client, owner.device, job.allocations().front().handle));
        }
        if (said->empty()) continue;
        wrong = round == 0 ? *said
                           : fmt::format("{}, after its addresses had led to other memory", *said);
        return {};
      }
      DXGKIT_VERIFY_TRY(owner.client.destroy_device(owner.device));
    }
    return {};
  };
  if (const Answer<void> done = run(); !done) return Outcome::failed(done.error());
  if (!wrong.empty()) {
    report_result(bench, wrong);
    return Outcome::failed(wrong);
  }
  return Outcome::ok(
      fmt::format("{} at addresses that led elsewhere before", counted(jobs, "job")));
}

/// Two processes with the same addresses, in turns.
Outcome same_addresses(Bench& bench) {
  size_t jobs = 0;
  std::string wrong;
  const auto run = [&]() -> Answer<void> {
    for (uint32_t node = 0; node < bench.node_count(); ++node) {
      std::array<std::unique_ptr<Owner>, 2> owners;
      std::array<std::unique_ptr<Job>, 2> both;
      const uint64_t seed = bench.random();
      for (size_t i = 0; i < 2; ++i) {
        owners[i] = std::make_unique<Owner>(bench, fmt::format("same addresses {}", i));
        DXGKIT_VERIFY_TRY(owners[i]->open(node));
        Answer<std::unique_ptr<Job>> made =
            Job::create(bench, owners[i]->client, owners[i]->device, seed, node);
        if (!made) return std::unexpected(made.error());
        both[i] = std::move(*made);
      }
      if (!std::ranges::equal(both[0]->addresses(), both[1]->addresses())) {
        const std::vector<uint64_t> place(both[0]->addresses().begin(), both[0]->addresses().end());
        DXGKIT_VERIFY_TRY(both[1]->unmap());
        DXGKIT_VERIFY_TRY(both[1]->map_at(bench, place));
      }
      for (const size_t i : {0U, 1U, 0U, 1U}) {
        DXGKIT_VERIFY_TRY(both[i]->spoil());
        const Answer<std::string> said = owners[i]->run(*both[i]);
        if (!said) return std::unexpected(said.error());
        ++jobs;
        if (!said->empty() && wrong.empty())
          wrong = fmt::format("{}, in the {} of two processes", *said, i == 0 ? "first" : "second");
        if (!wrong.empty()) return {};
      }
    }
    return {};
  };
  if (const Answer<void> done = run(); !done) return Outcome::failed(done.error());
  if (!wrong.empty()) {
    bench.findings().report(
        {.rule = "SUB-30",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiSubmitCommandVirtual",
         .actual =
             fmt::format("Two processes ran the same commands at the same addresses: {}.", wrong),
         .expected = "Each one's addresses lead to its own memory: the engine has the page tables "
                     "of the context before it fetches its commands.",
         .fix = "Give the engine, with each submission, the root that DxgkDdiSetRootPageTable told "
                "of its context, and do not let it use translations of another root.",
         .why = "A job alone comes out right; these two take turns on one node.",
         .windows = "One application's pictures in another one's windows, or lost devices."});
    return Outcome::failed(wrong);
  }
  return Outcome::ok(fmt::format("{} of two processes in turns", counted(jobs, "job")));
}

/// Everything but execution: the fence is reported, and nothing is written.

/// Submissions that no user-mode driver would make. Each is refused, loses its device, or does no
/// harm.
Outcome hostile(Bench& bench) {
  size_t refused = 0;
  size_t accepted = 0;
  size_t lost = 0;
  bench.expect_warnings("VA-28");
  bench.expect_warnings("TDR-34");  // some commands wait for ever
  const auto run = [&]() -> Answer<void> {
    auto owner = std::make_unique<Owner>(bench, "hostile");
    DXGKIT_VERIFY_TRY(owner->open());
    for (size_t i = 0; i < kHostileTries && bench.running(); ++i) {
      std::vector<std::byte> private_data;
      if (i % 5 == 4) private_data.resize(bench.random() % 65);
      for (std::byte& byte : private_data) byte = static_cast<std::byte>(bench.random());
      uint32_t bytes = static_cast<uint32_t>(1 + bench.random() % 2048);
      if (i % 3 != 0) bytes &= ~7U;
      NTSTATUS status = 0;
      std::unique_ptr<Job> job;
      if (bench.plugin() != nullptr && i % 2 == 1) {
        Answer<std::unique_ptr<Job>> made =
            Job::create(bench, owner->client, owner->device, bench.random(), 0);
        if (!made) return std::unexpected(made.error());
        job = std::move(*made);
        const Answer<NTSTATUS> submitted = job->submit_spoilt(bench, owner->context, i / 2);
        if (!submitted) return std::unexpected(submitted.error());
        status = *submitted;
      } else {
        const uint64_t space = bench.exercise().gpu_va_pages() * kPageBytes;
        uint64_t commands = bench.random() % space;  // nothing is there
        if (i % 3 != 0) commands = align_down(commands, kPageBytes);
        if (i % 4 == 2) {
          MapWish wish;
          wish.pages = 1;
          if (const Answer<uint64_t> zeros = owner->client.map(owner->device, wish)) {
            DXGKIT_VERIFY_TRY(owner->client.wait_paging(owner->device));
            commands = *zeros;
          }
        }
        status = owner->client.try_submit(owner->context.handle, commands, bytes, private_data);
      }
      is_success(from_ntstatus(status)) ? ++accepted : ++refused;
      if (!bench.running()) break;
      const Answer<void> idle = owner->client.wait_idle(owner->device);
      if (!idle || !owner->client.active(owner->device)) {
        ++lost;
        DXGKIT_VERIFY_TRY(owner->client.destroy_device(owner->device));
        DXGKIT_VERIFY_TRY(owner->open_device());
      } else if (job != nullptr) {
        DXGKIT_VERIFY_TRY(job->destroy());
      }
    }
    return {};
  };
  const Answer<void> done = run();
  if (!done && bench.running()) return Outcome::failed(done.error());
  if (!bench.running()) {
    return Outcome::failed(
        fmt::format("a submission of user mode ended the adapter, after {} refused and {} accepted",
                    refused, accepted));
  }
  return Outcome::ok(
      fmt::format("{} refused, {} accepted, {} lost", refused, accepted, counted(lost, "device")));
}

/// Work at freed addresses costs its own device, and no other one.
Outcome faults(Bench& bench) {
  size_t jobs = 0;
  std::string wrong;
  bench.expect_warnings("VA-28");
  const auto run = [&]() -> Answer<void> {
    for (uint32_t node = 0; node < bench.node_count(); ++node) {
      Owner bystander(bench, "bystander");
      DXGKIT_VERIFY_TRY(bystander.open(node));
      const uint64_t seed = bench.random();
      Answer<std::unique_ptr<Job>> theirs =
          Job::create(bench, bystander.client, bystander.device, seed, node);
      if (!theirs) return std::unexpected(theirs.error());
      Owner guilty(bench, "guilty");
      DXGKIT_VERIFY_TRY(guilty.open(node));
      Answer<std::unique_ptr<Job>> job =
          Job::create(bench, guilty.client, guilty.device, seed, node);
      if (!job) return std::unexpected(job.error());
      // Right before: engines have seen the addresses.
      Answer<std::string> said = guilty.run(**job);
      if (!said) return std::unexpected(said.error());
      if (!said->empty()) return std::unexpected(*said);
      const std::vector<uint64_t> place((*job)->addresses().begin(), (*job)->addresses().end());
      DXGKIT_VERIFY_TRY((*job)->spoil());
      DXGKIT_VERIFY_TRY((*job)->unmap());
      (*job)->assume_addresses(place);
      // The engine may be faster than the calls after the submission.
      const Answer<void> sent = (*job)->submit(guilty.context);
      if (!sent && guilty.client.active(guilty.device)) return sent;
      static_cast<void>(guilty.client.wait_idle(guilty.device));
      ++jobs;
      if (guilty.client.active(guilty.device)) {
        wrong = (*job)->check() ? "the job went through, and wrote memory by freed addresses"
                                : "no page fault was reported";
        return {};
      }
      if (!guilty.client.page_faulted(guilty.device)) {
        return std::unexpected(
            "the device is lost, but not to a page fault: DMA_FAULTED was reported?");
      }
      std::vector<AddressRange> gone;
      for (size_t i = 0; i < place.size(); ++i) {
        const uint64_t bytes = align_up((*job)->allocations()[i].size_bytes, kPageBytes);
        gone.push_back({place[i], place[i] + bytes});
      }
      judge_fault(bench, guilty.client, guilty.device, node, DXGKIT_CLIENT_FAULT_ANY, gone);
      said = bystander.run(**theirs);
      if (!said) return std::unexpected(said.error());
      if (!said->empty()) return std::unexpected("beside it: " + *said);
    }
    return {};
  };
  if (const Answer<void> done = run(); !done) return Outcome::failed(done.error());
  if (!wrong.empty()) {
    bench.findings().report(
        {.rule = "VA-47",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiBuildPagingBuffer",
         .actual = fmt::format("Work used addresses after D3DKMTFreeGpuVirtualAddress: {}.", wrong),
         .expected = "The invalid entries that DXGK_OPERATION_UPDATE_PAGE_TABLE wrote, and the "
                     "DXGK_OPERATION_FLUSH_TLB behind it, are in force before the memory is "
                     "anybody else's; the engine faults and the driver reports it.",
         .fix = "Clear the valid bit for entries with Valid = 0, and flush what the operation "
                "names: its root, its range, all of it for 0 and 0.",
         .why = "The same work at the same addresses ran before they were freed.",
         .windows = "Memory of other applications is overwritten."});
    return Outcome::failed(wrong);
  }
  return Outcome::ok(
      fmt::format("{} at freed addresses lost their devices only", counted(jobs, "job")));
}

constexpr Step kSteps[] = {
    {"addresses", "virtual addresses are mapped, updated and freed", Step::Needs::kVirtual,
     addresses},
    {"own-content", "the kernel's own content goes through segments", Step::Needs::kVirtual,
     own_content},
    {"mappings", "addresses lead elsewhere from job to job", Step::Needs::kVirtualClient, mappings},
    {"same-addresses", "two processes use the same addresses", Step::Needs::kVirtualClient,
     same_addresses},
    {"page-faults", "work at freed addresses", Step::Needs::kVirtualClient, faults},
    {"hostile-submit", "submissions of no meaning", Step::Needs::kVirtual, hostile},
};

}  // namespace

std::span<const Step> address_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
