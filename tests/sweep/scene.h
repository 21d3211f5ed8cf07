// One run of a story: the GPU, whoever removes the device or ends the process, and what must hold
// afterwards.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "tests/contract/display_fixture.h"
#include "tests/contract/fixture.h"
#include "tests/sweep/fault.h"

namespace dxgkit::sweep {

using contract::Client;
using contract::DisplayStack;
using contract::Stack;

/// How the adapter stood after the story, before it was stopped.
enum class Ending : uint8_t { kNotStarted, kRunning, kStopped };

/// What a scene needs of the stack that the story stands on.
struct Stage {
  bus::Machine& machine;
  verifier::Findings& findings;
  dxgk::System& system;
  bus::PciFunction& function;
  dxgk::AdapterOptions& options;
  const dxgk::Luid& luid;
  bool& expect_leaks;
  std::function<Status()> start;
  std::function<size_t()> complete;    // the device does what it has; how much that was
  std::function<void()> forget;        // nothing that was submitted will complete
  std::function<void()> use;           // a fresh client works; its expectations are heard
  std::function<size_t()> live_count;  // driver objects
};
Stage stage_of(Stack& stack);
Stage stage_of(DisplayStack& stack);

/// Made in the simulation, before the stack. While a story plays, expectations of the fixtures are
/// not heard if a fault strikes: the story goes on with what came out.
class Scene {
 public:
  explicit Scene(std::optional<Striker::Strike> strike) : striker(strike), strikes_(strike) {}
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  /// Starts the stack's adapter, plays `body` if that succeeded, checks, stops the adapter.
  void play(Stack& stack, const std::function<void()>& body);
  void play(DisplayStack& stack, const std::function<void()>& body);
  /// After the story stopped the adapter.
  void start_again();
  /// It was pulled out: it raises no interrupt, and its driver calls nobody by itself.
  bool device_is_gone() const { return gone_; }
  /// Nothing completes by itself; drive() still does.
  void hold(bool held) { held_ = held; }

  /// The client whose process the fault ends; the first one of a story. Made after it.
  class Mortal {
   public:
    Mortal(Scene& scene, Client& client);
    ~Mortal();
    Mortal(const Mortal&) = delete;
    Mortal& operator=(const Mortal&) = delete;

   private:
    Scene& scene_;
    Client& client_;
  };

  /// After the adapter stopped, before the stack goes.
  std::function<void(const verifier::Findings&)> on_end;

  Striker striker;
  Ending ending = Ending::kNotStarted;
  size_t left_objects = 0;  // of the driver, after its stop
  /// What did not hold.
  std::vector<std::string> complaints;

 private:
  void perform(const Stage& stage, const std::function<void()>& body);
  void begin(const Stage& stage);
  void end();
  size_t complete();
  void strike();
  Status start(const Stage& stage);
  void run_reaper();
  /// Returns when whoever removes the device or ends the process has done it.
  void wait_for_reaper();
  bool reaper_is_due() const;
  bool adapter_runs() const;
  void check(const Stage& stage, Status started);
  void complain(std::string text) { complaints.push_back(std::move(text)); }

  const std::optional<Striker::Strike> strikes_;
  const Stage* stage_ = nullptr;
  runtime::Mutex gpu_lock_;
  Client* mortal_ = nullptr;
  std::atomic<bool> held_{false}, gone_{false}, over_{false};
  std::optional<Status> restarted_;
  bool started_ = false, reaped_ = false;
  dxgk::Luid removed_;              // the adapter that was; Luid{}: none yet
  std::atomic<uint32_t> wakes_{0};  // counts; the reaper waits on it
  std::atomic<uint32_t> reaps_{0};  // counts; whoever waits for the reaper waits on it
  std::unique_ptr<runtime::Thread> gpu_, reaper_;
};

}  // namespace dxgkit::sweep
