// Reset, power, stop, start again, unload.
#include <fmt/format.h>

#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {
namespace {

constexpr const char* kOnScreen = "a primary is on the screen and cannot be evicted";

/// A job whose allocations must survive `between`. It runs afterwards and must be right.
Answer<void> across(Bench& bench, const std::function<Status()>& between) {
  if (bench.plugin() == nullptr) {
    const Status status = between();
    if (is_success(status)) return {};
    return std::unexpected(status_text(status));
  }
  Client client(bench, "across");
  DXGKIT_VERIFY_TRY(client.open_adapter());
  const Answer<D3DKMT_HANDLE> device = client.create_device();
  if (!device) return std::unexpected(device.error());
  const uint64_t seed = bench.random();
  const Answer<std::unique_ptr<Job>> job = Job::create(bench, client, *device, seed, 0);
  if (!job) return std::unexpected(job.error());
  for (const ClientAllocation& one : (*job)->allocations())
    static_cast<void>(bench.exercise().page_in(client.process(), one.handle));
  if (const Status status = between(); !is_success(status))
    return std::unexpected(status_text(status));
  // The allocations filled before must keep their content, or the job comes out wrong.
  const Answer<std::vector<std::byte>> data = bench.context_data(0);
  if (!data) return std::unexpected(data.error());
  Answer<ClientContext> context = client.create_context(*device, 0, *data);
  if (!context) return std::unexpected(context.error());
  DXGKIT_VERIFY_TRY((*job)->submit(*context));
  const Answer<void> idle = client.wait_idle(*device);
  if (!idle && client.active(*device)) return idle;
  std::string wrong = idle ? std::string() : lost_text(client, *device);
  if (const Answer<void> right = idle ? (*job)->check() : Answer<void>(); !right)
    wrong = right.error();
  if (!wrong.empty()) {
    report_result(bench, wrong);
    return std::unexpected(wrong);
  }
  return client.destroy_device(*device);
}

const char* content_note(Bench& bench) {
  return bench.plugin() == nullptr ? "" : ", content kept, work runs";
}

Outcome fences(Bench& bench) {
  const Result<uint32_t> answered = bench.exercise().query_fences();
  if (!answered.has_value()) return Outcome::failed(status_text(answered.error()));
  return Outcome::ok(fmt::format("{} idle nodes asked", *answered));
}

Outcome reset(Bench& bench) {
  bool busy = false;
  const Answer<void> done = across(bench, [&] {
    const Status status = bench.exercise().reset();
    busy = status == Status::kGraphicsAllocationBusy;
    return busy ? Status::kSuccess : status;
  });
  if (busy) return Outcome::skipped(kOnScreen);
  if (!done) return Outcome::failed(done.error());
  return Outcome::ok(fmt::format("an idle adapter was reset{}", content_note(bench)));
}

Outcome power(Bench& bench) {
  for (int i = 0; i < 2; ++i) {
    bool busy = false;
    const Answer<void> done = across(bench, [&] {
      const Status status = bench.exercise().power_cycle();
      busy = status == Status::kGraphicsAllocationBusy;
      return busy ? Status::kSuccess : status;
    });
    if (busy) return Outcome::skipped(kOnScreen);
    if (!done) return Outcome::failed(done.error());
  }
  return Outcome::ok(fmt::format("D3 and back, twice{}", content_note(bench)));
}

Outcome restart(Bench& bench) {
  // A client that keeps its objects while the adapter stops.
  auto client = std::make_unique<Client>(bench, "survivor");
  Answer<D3DKMT_HANDLE> device = std::unexpected(std::string());
  if (!bench.display_only() && client->open_adapter()) device = client->create_device();
  const Outcome stopped = bench.stop();
  if (stopped.kind != Outcome::Kind::kOk) return stopped;
  if (device && client->active(*device))
    return Outcome::failed("a device of a stopped adapter is still active");
  client.reset();
  const Outcome started = bench.start();
  if (started.kind != Outcome::Kind::kOk) return started;
  if (bench.display_only()) return Outcome::ok("stopped, removed, added and started again");
  const Answer<void> works = across(bench, [] { return Status::kSuccess; });
  if (!works) return Outcome::failed("after the second start: " + works.error());
  return Outcome::ok("stopped with a client on it, removed, added and started again");
}

Outcome stop(Bench& bench) { return bench.stop(); }
Outcome unload(Bench& bench) { return bench.unload(); }

constexpr Step kSteps[] = {
    {"fences", "idle nodes are asked for their fence", Step::Needs::kRender, fences},
    {"reset", "an idle adapter is reset as after a timeout", Step::Needs::kRender, reset},
    {"power", "the adapter sleeps and wakes", Step::Needs::kRender, power},
    {"restart", "the adapter is stopped and started again", Step::Needs::kAdapter, restart},
    {"stop", "the adapter is stopped and removed", Step::Needs::kDriver, stop},
    {"unload", "the driver is unloaded; what it still holds is a finding", Step::Needs::kDriver,
     unload},
};

}  // namespace

std::span<const Step> end_steps() { return kSteps; }

std::vector<Step> all_steps() {
  std::vector<Step> all;
  for (const std::span<const Step> group :
       {begin_steps(), object_steps(), memory_steps(), failure_steps(), work_steps(),
        timeout_steps(), private_data_steps(), overreach_steps(), address_steps(),
        page_table_steps(), render_pass_steps(), transfer_steps(), world_steps(), display_steps(),
        end_steps()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace dxgkit::tool::verify
