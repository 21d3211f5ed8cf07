// The steps of `dxgkit verify`, as a table.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace dxgkit::tool::verify {

class Bench;

struct Outcome {
  enum class Kind { kOk, kSkipped, kFailed };
  Kind kind = Kind::kOk;
  // kOk: a description with numbers; else the reason, a sentence without a full stop.
  std::string text;
  std::vector<std::string> before = {};  // of a start that failed: see start_story.h

  static Outcome ok(std::string text = {}) { return {Kind::kOk, std::move(text), {}}; }
  static Outcome skipped(std::string why) { return {Kind::kSkipped, std::move(why), {}}; }
  static Outcome failed(std::string what) { return {Kind::kFailed, std::move(what), {}}; }
};

/// One step. It leaves the adapter idle and without an owner, whatever happened; with kMachine,
/// nothing is loaded before it and after it.
struct Step {
  const char* name;   // on the command line
  const char* title;  // a description
  enum class Needs {
    kNothing,
    kDriver,         // DriverEntry succeeded
    kAdapter,        // the adapter runs
    kRender,         // and is not display-only: it has memory and engines
    kClient,         // kRender, and a client plug-in was given
    kBuffers,        // kRender, and contexts have command buffers of the kernel's
    kVirtual,        // kRender, and GPU virtual addresses
    kVirtualClient,  // both
    kDisplay,        // kAdapter, and it has video present sources
    kMachine,        // the adapter has run before; the step has machines of its own
  } needs;
  Outcome (*run)(Bench& bench);
  /// The device is made to fail: a completion that comes late is not the driver's mistake.
  bool makes_devices_fail = false;
};

/// The groups, one per file, and all of them in the order they are run.
std::span<const Step> begin_steps();
std::span<const Step> object_steps();
std::span<const Step> memory_steps();
std::span<const Step> failure_steps();
std::span<const Step> private_data_steps();
std::span<const Step> work_steps();
std::span<const Step> timeout_steps();
std::span<const Step> overreach_steps();
std::span<const Step> address_steps();
std::span<const Step> page_table_steps();
std::span<const Step> render_pass_steps();
std::span<const Step> transfer_steps();
std::span<const Step> world_steps();
std::span<const Step> storm_steps();  // last, as any other step says more
std::span<const Step> display_steps();
std::span<const Step> pointer_steps();
std::span<const Step> flip_steps();
std::span<const Step> update_steps();
std::span<const Step> plane_steps();
std::span<const Step> vidpn_steps();
std::span<const Step> start_steps();
std::span<const Step> end_steps();
std::span<const Step> removal_steps();
std::span<const Step> device_steps();
std::vector<Step> all_steps();

}  // namespace dxgkit::tool::verify
