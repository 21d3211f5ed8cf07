// One world: a machine with a softgpu and its real driver, clients that work on it, faults, checks.
#pragma once

#include <d3dkmthk.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bus/machine.h"
#include "devices/softgpu/softgpu.h"
#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "sim/content.h"
#include "sim/counters.h"
#include "sim/fault_plan.h"
#include "sim/packet_life.h"
#include "trace/trace.h"
#include "verifier/findings.h"
#include "verifier/waivers.h"

namespace dxgkit::sim {

class Client;

struct SeedOptions;
struct SeedOutcome;

/// Sizes and habits of a world. All are drawn from the seed, except those that SeedOptions set.
struct WorldPlan {
  uint64_t vram_bytes = 0, aperture_bytes = 0, system_bytes = 0;
  uint32_t paging_buffer_bytes = 0;
  uint32_t client_count = 0;
  uint32_t operations = 0;         // of each client while faults are injected
  uint32_t operations_healed = 0;  // and after the last fault
  uint64_t client_bytes = 0;       // what one client's allocations may add up to
  uint64_t allocation_bytes_max = 0;
  bool explicit_residency = false;  // the driver's WDDM 2.0 face
  uint32_t memory_model = 0;        // its MemoryModel: 0 patches, 1 to 3 GPU virtual addresses
  bool tight_memory = false;        // system pages run out by themselves
  bool reference_checks = true;
  int64_t tdr_delay_ns = 0;
  uint32_t pauses = 0;           // of each client while faults are injected, at most
  int64_t pause_most_ns = 0;     // seconds to hours; nothing happens meanwhile
  uint32_t pause_chance = 0;     // before each operation, per million
  int64_t sleep_ns = 0;          // how long stand-by lasts
  bool system_sleeps = false;    // stand-by is the system's, also without GPU virtual addresses
  int64_t periodic_trim_ns = 0;  // AdapterOptions
  uint32_t signals = 0;          // operations of client_sync.cpp, per hundred others
  bool crowded = false;          // clients use more than all memory at once, often
  // Operations on resources that several clients write, per hundred others.
  uint32_t commons = 0;
  uint32_t questions = 0;  // operations of client_questions.cpp, per hundred others
  bool strangers = false;  // hostile processes beside the clients (strangers.h)
  FaultPlan faults;

  bool has_addresses() const { return memory_model != 0; }
  /// The memory that an allocation takes, and the part of it that one submission may use.
  uint64_t room_of(uint64_t bytes) const;
  uint64_t room() const;
  /// The most that pauses, sleep and jumps of the clock may add up to.
  int64_t idle_most_ns() const;

  static WorldPlan draw(const SeedOptions& options);
  /// One line for a failure report.
  std::string describe() const;
};

/// Which of the two drivers for softgpu is loaded.
enum class DriverFace { kEither, kFirst, kSecond };

/// Overrides the choices of the seed.
struct Changes {
  std::optional<uint32_t> clients = {}, operations = {}, operations_healed = {};
  std::string faults = {};  // FaultPlan::change
  /// The machine has at least so much memory, whatever the seed draws.
  std::optional<uint64_t> memory_bytes = {};
  std::optional<uint32_t> processors = {};  // that the driver sees; else 1
  bool operator==(const Changes&) const = default;
  /// The options for the tool: " --clients 1 --faults none". Empty: none.
  std::string as_options() const;
};

struct SeedOptions {
  uint64_t seed = 0;
  Canary canary = Canary::kNone;
  Changes changes = {};
  /// Path of a driver for softgpu in place of the built-in ones, with the interface named here.
  std::string driver = {};
  DriverFace face = DriverFace::kEither;
  /// Their findings fail no world, unless they stop its adapter.
  verifier::Waivers waivers = {};
  /// Called with the trace so far when so many events have happened. 0: never.
  uint64_t stop_at_event = 0;
  std::function<void(const trace::Recorder&)> at_stop = {};
  /// Called with each finding when it is reported. May be empty.
  std::function<void(const verifier::Finding&)> on_finding = {};
  bool trace = false;  // SeedOutcome::trace_hash
  /// The file for the trace: text, or Perfetto's format if it ends in .pftrace. Empty: no file.
  std::string trace_path = {};
  /// Lines behind a trace as text, of a world that came to its end.
  std::function<std::string(const SeedOutcome&)> trace_notes = {};
};
struct SeedOutcome {
  std::string failure;  // empty: passed
  uint64_t trace_hash = 0;
  Counters counters;
  bool passed() const { return failure.empty(); }
};
/// Runs one seed to its end on the calling OS thread, which must be outside any runtime. A broken
/// invariant of the kernel's own (CHECK) or a deadlock ends the process: see seeds.h.
SeedOutcome run_seed(const SeedOptions& options);

/// The content of a resource that several processes write in turn.
struct Common {
  Content content{0};
  bool taken = false;   // a client has the turn
  uint64_t losses = 0;  // World::losses() when it was written: each one may have lost it
};

/// A resource that every client may open. Without `common` it is no longer written.
struct Shared {
  uint32_t owner = 0;  // number of the client that made it, which may have ended
  D3DKMT_HANDLE global = 0;
  uint32_t placement = 0;
  Content content{0};
  uint64_t losses = 0;  // World::losses() when it was written: each one may have lost it
  std::shared_ptr<Common> common = {};
};

/// A fence that clients find by its name, for as long as the descriptor is open.
struct Named {
  std::u16string name;
  int descriptor = -1;
  uint64_t value = 0;  // it was seen to have at least this one
  bool taken = false;  // a client has the turn to signal it
};

/// The part of the world that its clients see. Fibers of one simulation only.
class World {
 public:
  World(const SeedOptions& options, const WorldPlan& plan, runtime::Runtime& runtime,
        bus::Machine& machine, softgpu::SoftGpu& gpu, dxgk::System& system, dxgk::Luid adapter,
        Faults& faults, const verifier::Findings& findings, Counters& counters);

  runtime::Runtime& runtime;
  bus::Machine& machine;
  softgpu::SoftGpu& gpu;
  dxgk::System& system;
  const dxgk::Luid adapter;
  const WorldPlan& plan;
  Faults& faults;
  const verifier::Findings& findings;
  Counters& counters;
  const SeedOptions& options;
  std::vector<Shared> shared, commons;
  std::vector<Named> named;
  /// The first answer to a question whose answer stays the same: by its type, and its node.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::byte>> answers;
  uint64_t wild_submissions = 0;  // that may fault on the device
  uint64_t power_failures = 0;
  std::vector<TimeJump> jumps;
  bool strangers_work = false;  // and hold memory, perhaps
  bool strangers_end = false;   // they are to end now

  /// Records a failure. The first one counts; then all clients end at the next opportunity.
  void fail(std::string what);
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }

  /// True if a fault has stopped the adapter or removed it.
  bool adapter_lost() const;
  /// The finding that stopped the adapter, for the text of a failure. Empty: the adapter runs.
  std::string why_stopped() const;
  /// How often the whole adapter was reset after a timeout.
  uint64_t adapter_resets() const;
  /// How often content that only video memory held may have been lost.
  uint64_t losses() const { return adapter_resets() + power_failures; }
  /// True if it hung the GPU too often and may no longer use it (TDR-06).
  bool is_blocked(const Client& client) const;

  /// Ends its process, as kill() does; the client is at its end.
  void end(Client& client);
  /// Lets `client` die in `thunk`: another thread ends its process from now on.
  void kill(Client& client, std::string_view thunk);
  /// The client has done its work under faults. Returns when no more faults are injected.
  void wait_until_healed();

  /// Pauses for so long, or until no more faults are injected. Once all clients rest and queued
  /// work has had its time, the kernel must rest, too. A timer that goes on fails the world.
  void pause(int64_t duration_ns);
  bool somebody_pauses() const { return pausing_ != 0; }
  /// For a client that works without end: returns when no client pauses.
  void rest_with_others();
  /// Thunks end, and their clients stop before they touch memory again, because Windows freezes
  /// processes while the machine goes to sleep.
  void freeze(bool now);
  void wait_while_frozen();
  /// While strangers make calls, the machine does not go to sleep: a process that is ending may
  /// wait for the adapter.
  void strangers_call(bool now);
  /// Ends that: clients may continue. No client reaches the adapter meanwhile. Looks at the clock
  /// as pause() does.
  void sleep_idle(int64_t duration_ns);

  // --- for the code that runs the world
  /// The number of clients; before they begin.
  void expect(size_t clients) { clients_ = clients; }
  /// Waits until `clients` have called wait_until_healed, died or ended, or the patience is over.
  /// False: it was over. Pauses do not count.
  bool wait_for_work(size_t clients, int64_t patience_ns);
  /// True if no process is being ended, or waits for its end.
  bool nobody_dies() const { return to_kill_.empty() && !killing_; }
  void announce_healed();
  void client_ended();
  /// Ends processes as kill() asks, until no client is left.
  void reap();
  void stop_reaping();

 private:
  void bump();
  /// Sleeps until then, or until no more faults are injected.
  void wait_until(int64_t due_ns);
  /// Waits until queued work has had its time since the last client came to rest. Other clients may
  /// have worked longer than this one, and the clock may have jumped. Until `due_ns` at most.
  void settle(int64_t due_ns);
  bool everybody_rests() const {
    return pausing_ + arrived_ + hogs_resting_ >= clients_ && nobody_dies();
  }
  void begin_idle();
  void end_idle();
  void check_idle(int64_t duration_ns, uint64_t steps);

  size_t clients_ = 0;
  size_t pausing_ = 0, hogs_resting_ = 0;
  int64_t last_pause_end_ns_ = 0;
  struct Idle {
    int64_t since_ns = 0;
    uint64_t steps = 0;
  };
  std::optional<Idle> idle_;
  bool frozen_ = false;
  bool strangers_call_ = false;
  std::string failure_;
  std::vector<Client*> to_kill_;
  size_t arrived_ = 0;
  bool stop_reaping_ = false, killing_ = false;
  // Threads that wait for any of the above look again when it changes.
  std::atomic<uint32_t> changes_{0};
  int64_t changed_ns_ = 0;  // the time of the last change
};

}  // namespace dxgkit::sim
