// One world: a machine with a softgpu and its real driver, clients that work on it, faults, checks.
#pragma once

#include <d3dkmthk.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bus/machine.h"
#include "devices/softgpu/softgpu.h"
#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "sim/content.h"
#include "sim/counters.h"
#include "sim/fault_plan.h"
#include "trace/trace.h"
#include "verifier/findings.h"

namespace dxgkit::sim {

class Client;

struct SeedOptions;

/// Sizes and habits of a world. All drawn from the seed, but for what SeedOptions say.
struct WorldPlan {
  uint64_t vram_bytes = 0, aperture_bytes = 0, system_bytes = 0;
  uint32_t paging_buffer_bytes = 0;
  uint32_t client_count = 0;
  uint32_t operations = 0;         // of each client while faults strike
  uint32_t operations_healed = 0;  // and after
  uint64_t client_bytes = 0;       // what one client's allocations may add up to
  uint64_t allocation_bytes_max = 0;
  bool explicit_residency = false;  // the driver's WDDM 2.0 face
  uint32_t memory_model = 0;        // its MemoryModel: 0 patches, 1 to 3 GPU virtual addresses
  bool tight_memory = false;        // system pages run out by themselves
  bool reference_checks = true;
  int64_t tdr_delay_ns = 0;
  FaultPlan faults;

  bool has_addresses() const { return memory_model != 0; }
  /// What an allocation takes in memory, and what of it one submission may use.
  uint64_t room_of(uint64_t bytes) const;
  uint64_t room() const;

  static WorldPlan draw(const SeedOptions& options);
  /// One line for a failure report.
  std::string describe() const;
};

/// Which of the two drivers for softgpu there is.
enum class DriverFace { kEither, kFirst, kSecond };

/// What is not as the seed draws it.
struct Changes {
  std::optional<uint32_t> clients = {}, operations = {}, operations_healed = {};
  std::string faults = {};  // FaultPlan::change
  bool operator==(const Changes&) const = default;
  /// As options of the tool: " --clients 1 --faults none". Empty: nothing.
  std::string as_options() const;
};

struct SeedOptions {
  uint64_t seed = 0;
  Canary canary = Canary::kNone;
  Changes changes = {};
  /// Path of a driver for softgpu in place of the built-in ones, of the face named here.
  std::string driver = {};
  DriverFace face = DriverFace::kEither;
  /// Called when so many events have happened, with the trace so far. 0: never.
  uint64_t stop_at_event = 0;
  std::function<void(const trace::Recorder&)> at_stop = {};
  bool trace = false;  // SeedOutcome::trace_hash
  /// Where the trace goes: text, or Perfetto's format if it ends in .pftrace. Empty: nowhere.
  std::string trace_path = {};
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

/// A resource that everybody may open. Nobody writes it any more.
struct Shared {
  uint32_t owner = 0;  // number of the client that made it, which may have ended
  D3DKMT_HANDLE global = 0;
  uint32_t placement = 0;
  Content content{0};
  uint64_t adapter_resets = 0;  // when it was written: each one may have lost it
};

/// What clients see of their world. Fibers of one simulation only.
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
  std::vector<Shared> shared;
  uint64_t wild_submissions = 0;  // that may fault on the device

  /// The first failure counts; everybody ends at the next opportunity then.
  void fail(std::string what);
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }

  /// A fault has stopped the adapter, or taken it away.
  bool adapter_lost() const;
  /// The finding that stopped the adapter, for a failure's text; empty: it runs.
  std::string why_stopped() const;
  /// How often the whole adapter was reset after a timeout.
  uint64_t adapter_resets() const;
  /// It hung the GPU too often and is kept from it (TDR-06).
  bool is_blocked(const Client& client) const;

  /// Lets `client` die: its process is ended by another thread, from now on.
  void kill(Client& client);
  /// The client has done what it does while faults strike. Returns when they have healed.
  void wait_until_healed();

  // --- for the one who runs the world
  /// Waits until `clients` have called wait_until_healed, died or ended, or the patience is over.
  /// False: it was over.
  bool wait_for_work(size_t clients, int64_t patience_ns);
  /// No process is being ended, or waits for it.
  bool nobody_dies() const { return to_kill_.empty() && !killing_; }
  void announce_healed();
  void client_ended();
  /// Ends processes as kill() asks, until no client is left.
  void reap();
  void stop_reaping();

 private:
  void bump();

  std::string failure_;
  std::vector<Client*> to_kill_;
  size_t arrived_ = 0;
  bool stop_reaping_ = false, killing_ = false;
  std::atomic<uint32_t> changes_{0};  // who waits for any of the above looks again
};

}  // namespace dxgkit::sim
