#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {

Answer<void> Worker::open() {
  DXGKIT_VERIFY_TRY(client.open_adapter());
  return open_device();
}

Answer<void> Worker::open_device() {
  const Answer<D3DKMT_HANDLE> made = client.create_device();
  if (!made) return std::unexpected(made.error());
  device = *made;
  contexts.clear();
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    const Answer<ClientContext> context = add_context(node);
    if (!context) return std::unexpected(context.error());
    contexts.push_back(*context);
  }
  return {};
}

Answer<ClientContext> Worker::add_context(uint32_t node) {
  const Answer<std::vector<std::byte>> data = bench.context_data(node);
  if (!data) return std::unexpected(data.error());
  return client.create_context(device, node, *data);
}

Answer<bool> Worker::idle(std::string* wrong) {
  const Answer<void> done = client.wait_idle(device);
  if (done) return true;
  if (client.active(device)) return std::unexpected(done.error());
  if (wrong->empty()) *wrong = lost_text(client, device);
  return false;
}

bool is_late(Bench& bench, runtime::TimeNs since) {
  if (bench.mutated()) return false;  // its interrupts may be those that get lost
  const int64_t delay_ns = bench.exercise().timeout_policy().delay_ns;
  return bench.simulated() && delay_ns > 0 && bench.runtime().now() - since >= delay_ns;
}

Answer<NodeJobs> run_on_each_node(Bench& bench, const std::string& name) {
  NodeJobs jobs;
  Worker worker(bench, name);
  DXGKIT_VERIFY_TRY(worker.open());
  for (; jobs.node < bench.node_count(); ++jobs.node) {
    const Answer<std::unique_ptr<Job>> job =
        Job::create(bench, worker.client, worker.device, bench.random(), jobs.node);
    if (!job) return std::unexpected(job.error());
    const runtime::TimeNs sent = bench.runtime().now();
    DXGKIT_VERIFY_TRY((*job)->submit(worker.contexts[jobs.node]));
    const Answer<bool> kept = worker.idle(&jobs.wrong);
    if (!kept) return std::unexpected(kept.error());
    jobs.late = jobs.late || is_late(bench, sent);
    jobs.lost = !*kept;
    if (jobs.lost) return jobs;
    if (const Answer<void> right = (*job)->check(); !right) {
      jobs.wrong = right.error();
      return jobs;
    }
    DXGKIT_VERIFY_TRY((*job)->destroy());
  }
  DXGKIT_VERIFY_TRY(worker.client.destroy_device(worker.device));
  return jobs;
}

Answer<void> raise_fences(Bench& bench, const std::string& name, int quarters) {
  if (bench.plugin() == nullptr || bench.display_only()) return {};
  constexpr uint32_t kFencesBefore = 8;
  for (int quarter = 0; quarter < quarters; ++quarter) {
    bench.exercise().skip_fences(kFencesBefore);
    const Answer<NodeJobs> jobs = run_on_each_node(bench, name);
    if (!jobs) return std::unexpected(jobs.error());
    if (jobs->wrong.empty()) continue;
    report_result(bench, jobs->wrong);
    return std::unexpected(jobs->wrong);
  }
  return {};
}

Answer<void> work_across(Bench& bench, const std::function<Status()>& between) {
  if (!bench.has_work()) {
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
    static_cast<void>(bench.exercise().memory().page_in(client.process(), one.handle));
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

}  // namespace dxgkit::tool::verify
