// Two clients with work on every engine, for steps in which the device fails under them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {

class Crew {
 public:
  /// `node`: where most of the work is.
  Crew(Bench& bench, uint32_t node);

  struct Wishes {
    /// The first client has low priority and comes first, so that the other one preempts it.
    bool urgent = false;
    bool evicted = false;    // all memory segments are empty, so that the work begins with paging
    uint64_t busy_ns = 0;    // how long each job is at work, beside its commands
    uint64_t beside_ns = 0;  // the same for jobs of other nodes than most; 0: as the others
    uint64_t later_ns = 0;   // and for all of them once they have run; 0: as before
  };
  /// Makes clients, contexts and jobs, and lets the jobs run once; everything is idle afterwards.
  Answer<void> prepare(const Wishes& wishes);
  /// Submits all jobs in an order from the run's seed, and waits until each client is idle or has
  /// lost its device.
  Answer<void> work();

  struct Member {
    Member(Bench& bench, std::string name) : worker(bench, std::move(name)) {}
    Worker worker;
    std::vector<ClientContext> contexts;  // two on the node, one on each of the others
    std::vector<std::unique_ptr<Job>> jobs;
    bool lost = false;  // the work has cost it its device
  };
  std::array<Member, 2>& members() { return members_; }
  size_t jobs() const;
  /// Checks the jobs of the clients that kept their devices. The first thing that is wrong; empty:
  /// nothing.
  Answer<std::string> wrong();

 private:
  Answer<void> prepare(Member& member);
  Answer<void> submit(Member& member, size_t job);

  Bench& bench_;
  const uint32_t node_;
  uint64_t busy_ns_ = 0, beside_ns_ = 0;
  bool urgent_ = false;
  std::array<Member, 2> members_;
};

}  // namespace dxgkit::tool::verify
