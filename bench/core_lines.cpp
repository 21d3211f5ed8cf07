// sched., port., trace., sim.: parts of the kernel alone.
#include <boost/context/fiber.hpp>

#include "base/check.h"
#include "bench/harness.h"
#include "bench/null_gpu.h"
#include "bus/machine.h"
#include "nt/kernel.h"
#include "port/adapter_port.h"
#include "port/driver.h"
#include "trace/trace.h"
#include "verifier/findings.h"
#include "vidsch/scheduler.h"

namespace dxgkit::bench {
namespace {

// --- sched.

/// An engine that completes what it got when asked to.
struct InstantEngine final : vidsch::EnginePort {
  Prepare prepare(PacketId) override { return Prepare::kReady; }
  Submit submit(PacketId, NodeOrdinal, SubmissionFenceId fence, bool) override {
    last = fence;
    return Submit::kTaken;
  }
  void retired(PacketId, vidsch::PacketOutcome, vidsch::Reached) override { ++done; }
  void preempt(NodeOrdinal, SubmissionFenceId) override {}
  SubmissionFenceId last;
  uint64_t done = 0;
};

struct Queues {
  Queues() {
    for (uint64_t i = 1; i <= kContexts; ++i) {
      DXGKIT_CHECK(is_success(scheduler.create_context(
          ContextId{i}, {.node = NodeOrdinal{0}, .priority = 0, .is_system = false})));
    }
  }
  void run(uint32_t packets) {
    for (uint32_t i = 0; i < packets; ++i) {
      vidsch::PacketDesc packet;
      packet.id = PacketId{++packet_id};
      DXGKIT_CHECK(is_success(scheduler.queue(ContextId{1 + i % kContexts}, std::move(packet))));
      scheduler.completed(NodeOrdinal{0}, engine.last, ++now);
    }
    DXGKIT_CHECK(engine.done == packet_id);
  }
  static constexpr uint64_t kContexts = 4;
  InstantEngine engine;
  const vidsch::NodeDesc node{.node = NodeOrdinal{0}};
  vidsch::Scheduler scheduler{engine, std::span(&node, 1)};
  uint64_t packet_id = 0;
  int64_t now = 0;
};

Line sched_line(const char* name) {
  Line line;
  line.name = name;
  line.what = "one packet from queue to retirement, no driver, 4 contexts";
  const auto queues = std::make_shared<Queues>();
  constexpr uint32_t kPackets = 1'000;
  line.ours.batch = [queues] { queues->run(kPackets); };
  line.ours.operations = kPackets;
  return line;
}

// --- port.

struct SilentHost final : port::AdapterHost {
  void on_interrupts(std::span<const port::InterruptReport>) override {}
  void* get_handle_data(uint32_t, HandleType, bool) override { return nullptr; }
  uint32_t get_handle_parent(uint32_t) override { return 0; }
  uint32_t enum_handle_children(uint32_t, uint32_t) override { return 0; }
  void* acquire_handle_data(uint32_t, HandleType, bool, void**) override { return nullptr; }
  void release_handle_data(void*) override {}
  void on_fatal(const verifier::Finding&) override {}
};

/// A started adapter with nothing above the port.
struct Door {
  Door(runtime::Runtime& os, const std::string& image)
      : machine(uint64_t{16} << 20), gpu(os), kernel(os, machine, findings) {
    if (!is_success(machine.add_function(gpu.function()))) return;
    std::string message;
    auto loaded = port::Driver::load(
        kernel, findings,
        {.name = "null", .path = image, .entry = image.empty() ? NullGpu::driver_entry() : nullptr},
        &message);
    if (!loaded.has_value()) return;
    driver = std::move(*loaded);
    port = std::make_unique<port::AdapterPort>(*driver, kernel, machine, gpu.function(), host,
                                               findings);
    if (!is_success(port->life().add_device())) return;
    added = true;
    started = port->life().start_device().has_value();
  }
  ~Door() {
    if (started) static_cast<void>(port->life().stop_device());
    if (added) static_cast<void>(port->life().remove_device());
    port.reset();
    driver.reset();
    machine.remove_function(gpu.function());
  }
  verifier::Findings findings;
  bus::Machine machine;
  NullGpu gpu;
  nt::Kernel kernel;
  SilentHost host;
  std::unique_ptr<port::Driver> driver;
  std::unique_ptr<port::AdapterPort> port;
  bool added = false, started = false;
};

/// The same answer without the door: what a call through a pointer of the driver's table costs.
struct Arguments {
  uint32_t fence = 0, node = 0, engine = 0;
};
int32_t DXGKIT_NT_ABI bare_query(const void*, Arguments* arguments) {
  arguments->fence = 1;
  return 0;
}

/// `image`: the driver, on a stack of its own; empty: one that is compiled in.
Line port_line(runtime::Runtime& os, const char* name, const char* what, const char* image,
               bool checks) {
  Line line;
  line.name = name;
  line.what = what;
  const auto door = std::make_shared<Door>(os, image);
  if (!door->started) {
    line.unavailable = "the null adapter did not start";
    return line;
  }
  door->port->set_reference_checks(checks);
  constexpr uint32_t kCalls = 2'000;
  line.ours.batch = [door] {
    for (uint32_t i = 0; i < kCalls; ++i)
      keep(door->port->submission().query_current_fence(NodeOrdinal{0}).has_value());
  };
  line.ours.operations = kCalls;
  line.reference = Side{.batch =
                            [] {
                              auto* query = &bare_query;
                              keep(query);
                              for (uint32_t i = 0; i < kCalls; ++i) {
                                asm volatile("" : "+r"(query));
                                Arguments arguments;
                                keep(query(nullptr, &arguments));
                                keep(arguments.fence);
                              }
                            },
                        .operations = kCalls};
  return line;
}

// --- trace.

Line trace_line(runtime::Runtime& os, const char* name) {
  struct Recording {
    explicit Recording(runtime::Runtime& os)
        : recorder({.now_ns = [&os] { return os.now(); },
                    .thread = [&os] { return os.thread_number(); }},
                   size_t{1} << 16) {}
    trace::Recorder recorder;
    std::vector<trace::Event> plain = std::vector<trace::Event>(size_t{1} << 16);
    size_t next = 0;
  };
  const auto recording = std::make_shared<Recording>(os);
  constexpr uint32_t kEvents = 2'000;
  Line line;
  line.name = name;
  line.what = "one event, clock included / the clock and a store into an array";
  line.ours.batch = [recording] {
    for (uint64_t i = 0; i < kEvents; ++i)
      recording->recorder.record(trace::EventKind::kMarker, i, i, i, i);
  };
  line.ours.operations = kEvents;
  line.reference =
      Side{.batch =
               [recording, &os] {
                 Recording& r = *recording;
                 for (uint64_t i = 0; i < kEvents; ++i) {
                   r.plain[r.next++ % r.plain.size()] = {os.now(), 0, 72, 0xFFFF, i, i, i, i};
                 }
                 keep(r.plain.data());
               },
           .operations = kEvents};
  return line;
}

// --- sim.

Line sim_line(const char* name) {
  constexpr uint64_t kYields = 4'000;
  constexpr uint32_t kSpinners = 4;
  Line line;
  line.name = name;
  line.what = "fiber switches of 4 threads that yield / bare switches of one fiber";
  line.unit = Unit::kMillionsPerSecond;
  // A yield may keep the thread it was called on: switches are counted once, equal in every run of
  // the seed.
  const auto run = [] {
    const auto sim = runtime::make_sim_runtime(3);
    uint64_t switches = 0;
    sim->run_main([&] {
      uint32_t last = 0;
      std::vector<std::unique_ptr<runtime::Thread>> threads;
      threads.reserve(kSpinners);
      for (uint32_t t = 0; t < kSpinners; ++t) {
        threads.push_back(sim->spawn("spinner", [&] {
          const uint32_t me = sim->thread_number();
          for (uint64_t i = 0; i < kYields; ++i) {
            if (last != me) ++switches;
            last = me;
            sim->yield();
          }
        }));
      }
      for (const auto& thread : threads) thread->join();
    });
    return switches;
  };
  line.ours.operations = static_cast<double>(run());
  line.ours.batch = [run] { keep(run()); };
  constexpr uint32_t kSwitches = 20'000;
  line.reference = Side{.batch =
                            [] {
                              boost::context::fiber other([](boost::context::fiber&& back) {
                                for (uint32_t i = 0; i < kSwitches / 2; ++i)
                                  back = std::move(back).resume();
                                return std::move(back);
                              });
                              for (uint32_t i = 0; i < kSwitches / 2; ++i)
                                other = std::move(other).resume();
                              other = std::move(other).resume();  // lets it return
                            },
                        .operations = kSwitches};
  return line;
}

}  // namespace

void add_core_lines(runtime::Runtime& os, std::vector<Maker>& lines) {
  lines.push_back({"sched.packet", [] { return sched_line("sched.packet"); }});
  lines.push_back({"port.ddi_call", [&os] {
                     return port_line(
                         os, "port.ddi_call",
                         "a DDI that does nothing: through the port / through its pointer", "",
                         false);
                   }});
  lines.push_back({"port.image_call", [&os] {
                     return port_line(os, "port.image_call",
                                      "the same in a driver image, on its own stack, checks off / "
                                      "through a pointer",
                                      DXGKIT_BENCH_EMPTY_DRIVER, false);
                   }});
  lines.push_back({"port.image_call_checked", [&os] {
                     return port_line(os, "port.image_call_checked",
                                      "the same with reference checks on / through a pointer",
                                      DXGKIT_BENCH_EMPTY_DRIVER, true);
                   }});
  lines.push_back({"trace.event_ns", [&os] { return trace_line(os, "trace.event_ns"); }});
  lines.push_back({"sim.switches_per_second", [] { return sim_line("sim.switches_per_second"); }});
}

}  // namespace dxgkit::bench
