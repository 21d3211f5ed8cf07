#include "tools/dxgkit/verify/crew.h"

#include <algorithm>
#include <utility>

namespace dxgkit::tool::verify {
namespace {

/// The jobs of a client on the node; the contexts there take turns.
constexpr size_t kJobsOnNode = 3;
constexpr size_t kContextsOnNode = 2;
constexpr int32_t kLowPriority = -7;

}  // namespace

Crew::Crew(Bench& bench, uint32_t node)
    : bench_(bench), node_(node), members_{Member{bench, "client A"}, Member{bench, "client B"}} {}

Answer<void> Crew::prepare(Member& member) {
  Worker& worker = member.worker;
  DXGKIT_VERIFY_TRY(worker.open());
  member.contexts.push_back(worker.contexts[node_]);
  while (member.contexts.size() < kContextsOnNode) {
    const Answer<ClientContext> more = worker.add_context(node_);
    if (!more) return std::unexpected(more.error());
    member.contexts.push_back(*more);
  }
  for (uint32_t node = 0; node < bench_.node_count(); ++node) {
    if (node != node_) member.contexts.push_back(worker.contexts[node]);
  }
  const auto add = [&](uint32_t node) -> Answer<void> {
    Answer<std::unique_ptr<Job>> job =
        Job::create(bench_, worker.client, worker.device, bench_.random(), node);
    if (!job) return std::unexpected(job.error());
    member.jobs.push_back(std::move(*job));
    return {};
  };
  for (size_t i = 0; i < kJobsOnNode; ++i) DXGKIT_VERIFY_TRY(add(node_));
  for (uint32_t node = 0; node < bench_.node_count(); ++node) {
    if (node != node_) DXGKIT_VERIFY_TRY(add(node));
  }
  return worker.client.wait_idle(worker.device);
}

Answer<void> Crew::prepare(const Wishes& wishes) {
  busy_ns_ = beside_ns_ = wishes.busy_ns;
  urgent_ = wishes.urgent;
  for (Member& member : members_) DXGKIT_VERIFY_TRY(prepare(member));
  if (wishes.urgent) {
    Member& first = members_.front();
    for (size_t i = 0; i < kContextsOnNode; ++i) {
      DXGKIT_VERIFY_TRY(first.worker.client.set_priority(first.contexts[i].handle, kLowPriority));
    }
  }
  if (wishes.evicted) {
    static_cast<void>(bench_.exercise().evict_all());
    return {};
  }
  // Once for nothing: what is made when something is used first, page tables above all, is there
  // then, and is not what fails.
  DXGKIT_VERIFY_TRY(work());
  if (wishes.later_ns != 0) busy_ns_ = beside_ns_ = wishes.later_ns;
  if (wishes.beside_ns != 0) beside_ns_ = wishes.beside_ns;
  for (Member& member : members_) {
    if (member.lost) return std::unexpected(member.worker.name + " lost its device to work alone");
    for (const std::unique_ptr<Job>& job : member.jobs) {
      DXGKIT_VERIFY_TRY(job->fill());
      for (const ClientAllocation& one : job->allocations()) {
        static_cast<void>(
            bench_.exercise().memory().page_in(member.worker.client.process(), one.handle));
      }
    }
  }
  return {};
}

Answer<void> Crew::submit(Member& member, size_t job) {
  const size_t context =
      job < kJobsOnNode ? job % kContextsOnNode : job - kJobsOnNode + kContextsOnNode;
  const Answer<void> done =
      member.jobs[job]->submit(member.contexts[context], job < kJobsOnNode ? busy_ns_ : beside_ns_);
  if (done || member.worker.client.active(member.worker.device)) return done;
  member.lost = true;  // to what was submitted before
  return {};
}

Answer<void> Crew::work() {
  const size_t each = members_.front().jobs.size();
  std::vector<size_t> order = bench_.shuffled(members_.size() * each);
  if (urgent_) std::ranges::stable_partition(order, [&](size_t number) { return number < each; });
  for (size_t i = 0; i < order.size(); ++i) {
    // What is to be preempted has begun by then, and is in the middle.
    if (urgent_ && i == each) bench_.runtime().sleep_for(static_cast<int64_t>(busy_ns_ / 2));
    const size_t number = order[i];
    Member& member = members_[number / each];
    if (!member.lost) DXGKIT_VERIFY_TRY(submit(member, number % each));
  }
  for (Member& member : members_) {
    const Answer<void> idle = member.worker.client.wait_idle(member.worker.device);
    if (member.worker.client.active(member.worker.device)) {
      DXGKIT_VERIFY_TRY(idle);
    } else {
      member.lost = true;
    }
  }
  return {};
}

size_t Crew::jobs() const { return members_.size() * members_.front().jobs.size(); }

Answer<std::string> Crew::wrong() {
  for (Member& member : members_) {
    if (member.lost) continue;
    for (const std::unique_ptr<Job>& job : member.jobs) {
      if (const Answer<void> right = job->check(); !right)
        return member.worker.name + ": " + right.error();
    }
  }
  return std::string();
}

}  // namespace dxgkit::tool::verify
