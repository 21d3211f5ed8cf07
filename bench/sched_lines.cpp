// sched.*: how evenly an engine is shared, and what contexts that do nothing cost.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/check.h"
#include "bench/harness.h"
#include "vidsch/scheduler.h"

namespace dxgkit::bench {
namespace {

using vidsch::EnginePort;
using vidsch::Scheduler;

constexpr NodeOrdinal kNode{0};
constexpr int64_t kMillisecond = 1'000'000;

/// Hardware that does nothing but keep the order, and time that moves when a packet ends.
class Engine : public EnginePort {
 public:
  explicit Engine(uint32_t contexts) : served_ns(contexts + 1) {
    const std::vector<vidsch::NodeDesc> nodes{{.node = kNode}};
    scheduler = std::make_unique<Scheduler>(*this, nodes);
    scheduler->set_clock([this] { return now_ns; });
    for (uint32_t i = 1; i <= contexts; ++i) {
      DXGKIT_CHECK(is_success(scheduler->create_context(ContextId{i}, {.node = kNode})));
    }
  }
  void queue(uint64_t context) {
    const PacketId id{++packets_};
    DXGKIT_CHECK(is_success(scheduler->queue(ContextId{context}, {.id = id})));
  }
  /// The packet on the hardware takes so long and is done.
  uint64_t complete(int64_t length_ns) {
    const Running done = hardware_.front();
    hardware_.pop_front();
    now_ns += length_ns;
    const uint64_t context = owners_[done.packet % owners_.size()];
    served_ns[context] += length_ns;
    DXGKIT_CHECK(scheduler->completed(kNode, done.fence, now_ns) == vidsch::FenceReport::kAccepted);
    return context;
  }
  void queue_owned(uint64_t context) {
    owners_[(packets_ + 1) % owners_.size()] = context;
    queue(context);
  }
  uint64_t running() const { return owners_[hardware_.front().packet % owners_.size()]; }
  Prepare prepare(PacketId) override { return Prepare::kReady; }
  Submit submit(PacketId packet, NodeOrdinal, SubmissionFenceId fence, bool) override {
    hardware_.push_back({packet.value, fence});
    return Submit::kTaken;
  }
  void retired(PacketId, vidsch::PacketOutcome, vidsch::Reached) override {}
  void preempt(NodeOrdinal, SubmissionFenceId) override {}

  std::unique_ptr<Scheduler> scheduler;
  std::vector<int64_t> served_ns;
  int64_t now_ns = 0;

 private:
  struct Running {
    uint64_t packet;
    SubmissionFenceId fence;
  };
  std::deque<Running> hardware_;
  // By packet, as far back as packets live.
  std::vector<uint64_t> owners_ = std::vector<uint64_t>(4096);
  uint64_t packets_ = 0;
};

/// Most and least service among 64 equals with packets of 0.1, 1 and 4 ms, after ten seconds.
std::pair<double, double> shares() {
  constexpr uint32_t kContexts = 64;
  constexpr int64_t kLengths[] = {kMillisecond / 10, kMillisecond, 4 * kMillisecond};
  Engine engine(kContexts);
  for (uint32_t i = 1; i <= kContexts; ++i) {
    for (int k = 0; k < 4; ++k) engine.queue_owned(i);
  }
  while (engine.now_ns < 10'000 * kMillisecond) {
    const uint64_t context = engine.running();
    engine.queue_owned(context);
    static_cast<void>(engine.complete(kLengths[context % 3]));
  }
  const auto [least, most] =
      std::minmax_element(engine.served_ns.begin() + 1, engine.served_ns.end());
  return {static_cast<double>(*most), static_cast<double>(*least)};
}

Line fairness_line() {
  Line line;
  line.name = "sched.fairness";
  line.what = "64 equal contexts, 10 s of simulated time: most served / least served";
  line.goal = Goal::kAtMost;
  line.target = 1.10;
  const auto [most, least] = shares();
  line.ours.figure = most;
  line.reference = Side{.figure = least};
  return line;
}

Side queue_side(const std::shared_ptr<Engine>& engine) {
  constexpr uint32_t kPackets = 256;
  return {.batch =
              [engine] {
                for (uint32_t i = 0; i < kPackets; ++i) {
                  engine->queue_owned(1 + i % 8);
                  static_cast<void>(engine->complete(kMillisecond));
                }
              },
          .operations = kPackets};
}

Line idle_line() {
  Line line;
  line.name = "sched.idle_contexts";
  line.what = "queue + submit + complete of 8 contexts beside 10,000 idle ones / without them";
  line.goal = Goal::kAtMost;
  line.target = 1.10;
  line.ours = queue_side(std::make_shared<Engine>(10'008));
  line.reference = queue_side(std::make_shared<Engine>(8));
  return line;
}

}  // namespace

void add_sched_lines(std::vector<Maker>& makers) {
  makers.push_back({"sched.fairness", [] { return fairness_line(); }});
  makers.push_back({"sched.idle_contexts", [] { return idle_line(); }});
}

}  // namespace dxgkit::bench
