// Command buffers that are right but for one field, between memory of another process.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/spelling.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/page_fault.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint32_t kVariantsMax = 4096;  // of a plug-in whose numbers never end
constexpr size_t kPlans = 16;            // the smallest of them is made again and again
constexpr size_t kNamedMax = 4;          // of the mistakes that a finding tells of
constexpr std::byte kGuard{0xA6};

/// Allocations of a process that does nothing. They lie around those of another one.
class Guards {
 public:
  explicit Guards(Bench& bench) : bench_(bench), client_(bench, "bystander") {}

  /// Two for each allocation of the job with this seed.
  Answer<void> open(uint64_t seed, uint32_t node) {
    DXGKIT_VERIFY_TRY(client_.open_adapter());
    const Answer<D3DKMT_HANDLE> device = client_.create_device();
    if (!device) return std::unexpected(device.error());
    device_ = *device;
    const Answer<Plugin::Instance*> code = bench_.client_code();
    if (!code) return std::unexpected(code.error());
    const auto wanted = (*code)->plan(seed, node);
    if (!wanted) return std::unexpected(wanted.error());
    for (size_t i = 0; i < 2 * wanted->size(); ++i) {
      const DxgkitClientAllocation& like = (*wanted)[i / 2];
      Answer<std::vector<std::byte>> data = (*code)->pack_allocation(like);
      if (!data) return std::unexpected(data.error());
      guards_.push_back({0, like.size_bytes, std::move(*data)});
    }
    const Answer<D3DKMT_HANDLE> made =
        client_.create_allocations(device_, guards_, /*as_resource=*/false);
    if (!made) return std::unexpected(made.error());
    for (const ClientAllocation& one : guards_) {
      const Answer<std::byte*> view = client_.lock(device_, one.handle);
      if (!view) return std::unexpected(view.error());
      std::memset(*view, static_cast<int>(kGuard), one.size_bytes);
      DXGKIT_VERIFY_TRY(client_.unlock(device_, one.handle));
    }
    return {};
  }

  /// Brings all of it into segments, a guard before and behind each allocation of the job. What is
  /// there already stays where it is.
  Answer<void> surround(Client& owner, const Job& job) {
    around_ = 0;
    for (size_t i = 0; i < job.allocations().size(); ++i) {
      const auto before = bring(client_, guards_[2 * i].handle);
      if (!before) return std::unexpected(before.error());
      const auto place = bring(owner, job.allocations()[i].handle);
      if (!place) return std::unexpected(place.error());
      const auto behind = bring(client_, guards_[2 * i + 1].handle);
      if (!behind) return std::unexpected(behind.error());
      if (before->segment == place->segment && behind->segment == place->segment &&
          before->offset_bytes < place->offset_bytes && place->offset_bytes < behind->offset_bytes)
        ++around_;
    }
    return {};
  }

  /// The number of bytes that have changed since open(). Takes them out of their segments.
  Answer<size_t> changed() {
    size_t count = 0;
    for (const ClientAllocation& one : guards_) {
      // The CPU may not see the segment.
      if (const Status out = bench_.exercise().memory().page_out(client_.process(), one.handle);
          !is_success(out))
        return std::unexpected(
            fmt::format("an allocation could not be evicted: {}", status_text(out)));
      const Answer<std::byte*> view = client_.lock(device_, one.handle);
      if (!view) return std::unexpected(view.error());
      count +=
          one.size_bytes - static_cast<size_t>(std::count(*view, *view + one.size_bytes, kGuard));
      DXGKIT_VERIFY_TRY(client_.unlock(device_, one.handle));
    }
    return count;
  }
  /// Allocations of the job with a guard on either side in the same segment.
  size_t around() const { return around_; }

 private:
  Answer<vidmm::Placement> bring(Client& owner, D3DKMT_HANDLE allocation) {
    const Result<vidmm::Placement> place =
        bench_.exercise().memory().page_in(owner.process(), allocation);
    if (place.has_value()) return *place;
    return std::unexpected(
        fmt::format("an allocation could not be brought in: {}", status_text(place.error())));
  }
  Bench& bench_;
  Client client_;
  D3DKMT_HANDLE device_ = 0;
  std::vector<ClientAllocation> guards_;
  size_t around_ = 0;
};

/// The process that submits. It gets a new device when it has lost one.
struct Offender {
  Offender(Bench& b, uint32_t n) : bench(b), client(b, "overreach"), node(n) {}
  Answer<void> open(uint64_t seed) {
    const Answer<D3DKMT_HANDLE> made = client.create_device();
    if (!made) return std::unexpected(made.error());
    device = *made;
    const Answer<std::vector<std::byte>> data = bench.context_data(node);
    if (!data) return std::unexpected(data.error());
    const Answer<ClientContext> created = client.create_context(device, node, *data);
    if (!created) return std::unexpected(created.error());
    context = *created;
    Answer<std::unique_ptr<Job>> planned = Job::create(bench, client, device, seed, node);
    if (!planned) return std::unexpected(planned.error());
    job = std::move(*planned);
    return {};
  }
  Bench& bench;
  Client client;
  uint32_t node;
  D3DKMT_HANDLE device = 0;
  ClientContext context;
  std::unique_ptr<Job> job;
};

/// What a step has seen, and what of it was wrong.
struct Tally {
  size_t refused = 0, lost = 0, right = 0, around = 0;
  std::vector<std::string> accepted;     // wrong, and nobody minded
  std::vector<std::string> not_refused;  // wrong, and only the engine minded
  std::vector<std::string> denied;       // right, and refused all the same
  std::vector<std::string> harmed;       // memory of the other process has changed
};

/// Once, though the same happens on each node.
void add_once(std::vector<std::string>& all, const std::string& what) {
  if (std::ranges::find(all, what) == all.end()) all.push_back(what);
}

std::string named(const std::vector<std::string>& all) {
  std::string text;
  for (size_t i = 0; i < std::min(all.size(), kNamedMax); ++i)
    text += (i == 0 ? "" : "; ") + all[i];
  if (all.size() > kNamedMax) text += fmt::format("; and {} more", all.size() - kNamedMax);
  return text;
}

/// The seed with the least memory. Its job is made anew for each device that is lost.
Answer<uint64_t> small_seed(Bench& bench, uint32_t node) {
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return std::unexpected(code.error());
  uint64_t best = 0;
  uint64_t least = ~uint64_t{0};
  for (size_t i = 0; i < kPlans; ++i) {
    const uint64_t seed = bench.random();
    const auto wanted = (*code)->plan(seed, node);
    if (!wanted) return std::unexpected(wanted.error());
    uint64_t bytes = 0;
    for (const DxgkitClientAllocation& one : *wanted) bytes += one.size_bytes;
    if (bytes < least) best = seed;
    least = std::min(least, bytes);
  }
  return best;
}

/// @param faulted  the device was lost to a fault of an engine
void judge(const Job::Overreach& made, bool lost, bool faulted, Tally& tally) {
  const bool accepted = is_success(from_ntstatus(made.status));
  const std::string what = made.variant.what;
  if (!accepted) ++tally.refused;
  if (lost) ++tally.lost;
  switch (made.variant.expected) {
    case DXGKIT_CLIENT_RIGHT:
      ++tally.right;
      if (!accepted)
        add_once(tally.denied,
                 fmt::format("{} ({})", what, status_text(from_ntstatus(made.status))));
      else if (lost)
        add_once(tally.denied, what + " (the device was lost)");
      break;
    case DXGKIT_CLIENT_REFUSED:
      // With addresses a packet is refused behind the call, and that costs the device (SUB-29).
      if (accepted && (!lost || faulted)) add_once(lost ? tally.not_refused : tally.accepted, what);
      break;
    default:
      if (accepted && !lost) add_once(tally.accepted, what);
      break;
  }
}

/// All variants on one node. Then a job, which must come out right.
Answer<void> run_node(Bench& bench, uint32_t node, Tally& tally) {
  const Answer<uint64_t> seed = small_seed(bench, node);
  if (!seed) return std::unexpected(seed.error());
  Guards guards(bench);
  DXGKIT_VERIFY_TRY(guards.open(*seed, node));
  Offender offender(bench, node);
  DXGKIT_VERIFY_TRY(offender.client.open_adapter());
  DXGKIT_VERIFY_TRY(offender.open(*seed));
  DXGKIT_VERIFY_TRY(guards.surround(offender.client, *offender.job));
  const size_t before = tally.harmed.size();
  for (uint32_t variant = 0; variant < kVariantsMax; ++variant) {
    const auto made = offender.job->submit_overreach(offender.context, variant);
    if (!made) return std::unexpected(made.error());
    if (!*made) break;
    const std::string what = (*made)->variant.what;
    if (!bench.running()) return std::unexpected("it ended the adapter: " + what);
    const bool accepted = is_success(from_ntstatus((*made)->status));
    const Answer<void> idle = offender.client.wait_idle(offender.device);
    if (!bench.running()) return std::unexpected("it ended the adapter: " + what);
    const bool lost = !idle || !offender.client.active(offender.device);
    const bool faulted =
        lost && (!bench.gpu_addresses() || offender.client.page_faulted(offender.device));
    judge(**made, lost, faulted, tally);
    if (faulted && bench.gpu_addresses())
      judge_fault(bench, offender.client, offender.device, node, DXGKIT_CLIENT_FAULT_WORK, {});
    if (lost) {
      DXGKIT_VERIFY_TRY(offender.client.destroy_device(offender.device));
      DXGKIT_VERIFY_TRY(offender.open(*seed));
    }
    if (!accepted || lost || (*made)->variant.expected == DXGKIT_CLIENT_RIGHT) continue;
    // It ran, so it may have written. The guards are looked at before anything else can.
    const Answer<size_t> changed = guards.changed();
    if (!changed) return std::unexpected(changed.error());
    if (*changed != 0) {
      tally.harmed.push_back(fmt::format("{} ({} bytes)", what, *changed));
      return {};
    }
    DXGKIT_VERIFY_TRY(guards.surround(offender.client, *offender.job));
  }
  tally.around += guards.around();
  const Answer<size_t> changed = guards.changed();
  if (!changed) return std::unexpected(changed.error());
  if (*changed != 0 && tally.harmed.size() == before)
    tally.harmed.push_back(fmt::format("one that did not end well ({} bytes)", *changed));
  // Work goes on. It also ends the step with a submission that is not refused (SUB-29).
  DXGKIT_VERIFY_TRY(offender.job->fill());
  DXGKIT_VERIFY_TRY(offender.job->submit(offender.context));
  DXGKIT_VERIFY_TRY(offender.client.wait_idle(offender.device));
  if (const Answer<void> good = offender.job->check(); !good) {
    report_result(bench, "After buffers with mistakes: " + good.error());
    return std::unexpected(good.error());
  }
  return offender.client.destroy_device(offender.device);
}

void report(Bench& bench, const Tally& tally) {
  const char* const ddi = bench.gpu_addresses() ? "DxgkDdiSubmitCommandVirtual" : "DxgkDdiRender";
  const auto add = [&](const char* rule, std::string actual, const char* expected, const char* fix,
                       const char* windows) {
    bench.findings().report({.rule = rule,
                             .severity = verifier::Severity::kViolation,
                             .ddi = ddi,
                             .actual = std::move(actual),
                             .expected = expected,
                             .fix = fix,
                             .why = "The client plug-in changes one field of a command buffer "
                                    "that is right otherwise.",
                             .windows = windows});
  };
  constexpr const char* kTakesAll = "Any process can read or break what it likes on the GPU.";
  if (!tally.harmed.empty()) {
    add("REND-29",
        fmt::format("Work with one mistake changed memory of another process: {}.",
                    named(tally.harmed)),
        "It is refused, or ends in a fault, and writes to nothing but its own allocations.",
        "Compare offset and size of every operand with the size of its allocation before its "
        "address goes into the DMA buffer; subtract, as sums of user-mode numbers wrap.",
        "Memory of other applications is overwritten.");
  }
  if (!tally.accepted.empty()) {
    add("REND-31",
        fmt::format("It accepted what is wrong in one field, and the work went through: {}.",
                    named(tally.accepted)),
        "The driver refuses the buffer, or the engine faults and the device is lost.",
        "Check this field when the command is translated.", kTakesAll);
  }
  if (!tally.not_refused.empty()) {
    add("REND-31",
        fmt::format("It accepted what is wrong in one field, and the engine faulted: {}.",
                    named(tally.not_refused)),
        "The DDI refuses the buffer, as the driver's user-mode interface says.",
        "Check this field when the command is translated, or before it is submitted.",
        "The engine is reset, and work of other processes waits for it.");
  }
  if (!tally.denied.empty()) {
    add("REND-31",
        fmt::format("It did not let work through that is right: {}.", named(tally.denied)),
        "What the driver's user-mode interface allows is accepted, up to its limits.",
        "Compare the check that refuses it with the limit: the last byte of an allocation and the "
        "largest value of a field are allowed.",
        "Applications fail at sizes that worked on other drivers.");
  }
}

Outcome overreach(Bench& bench) {
  if (!bench.plugin()->knows_overreach())
    return Outcome::skipped("the client plug-in has no record_overreach");
  if (bench.gpu_addresses() && !bench.plugin()->knows_addresses())
    return Outcome::skipped("the client plug-in has no record_virtual");
  bench.expect_warnings("VA-28");
  Tally tally;
  Answer<void> done;
  for (uint32_t node = 0; node < bench.node_count() && done; ++node)
    done = run_node(bench, node, tally);
  report(bench, tally);
  if (!done) return Outcome::failed(done.error());
  const size_t wrong =
      tally.harmed.size() + tally.accepted.size() + tally.not_refused.size() + tally.denied.size();
  if (wrong != 0)
    return Outcome::failed(
        fmt::format("{}, in what is accepted or in what it does", counted(wrong, "mistake")));
  if (tally.right == 0 && tally.refused == 0 && tally.lost == 0)
    return Outcome::skipped("the client plug-in has no variants");
  return Outcome::ok(fmt::format("{} refused, {} lost, {} right ones accepted; guards around {}",
                                 tally.refused, counted(tally.lost, "device"), tally.right,
                                 counted(tally.around, "allocation")));
}

constexpr Step kSteps[] = {
    {"overreach", "command buffers with one field that is wrong", Step::Needs::kClient, overreach},
};

}  // namespace

std::span<const Step> overreach_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
