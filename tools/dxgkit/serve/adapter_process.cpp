#include "tools/dxgkit/serve/adapter_process.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "api/world.h"
#include "base/failed_check.h"
#include "devices/catalog/catalog.h"
#include "dxcore/stack_file.h"
#include "dxgk/system_impl.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "tools/dxgkit/kernel_config.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/serve/adapter_trace.h"
#include "tools/dxgkit/serve/control.h"
#include "tools/dxgkit/serve/conversations.h"
#include "tools/dxgkit/serve/jail.h"
#include "tools/dxgkit/serve/jail_trial.h"
#include "tools/dxgkit/serve/process_world.h"
#include "tools/dxgkit/serve/supply.h"

namespace dxgkit::serve {
namespace {

using tool::kExitBadInput;
using tool::kExitDone;
using tool::kExitFailed;

/// The process ended because Windows would have stopped.
constexpr int kExitBugCheck = 3;
/// Of sockets, events, and memory of clients.
constexpr uint32_t kDescriptorsMost = 8192;

constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
struct sigaction previous_actions[std::size(kCrashes)];

/// What is traced, for the ways out of the process. Null: nothing.
struct Traced {
  AdapterTrace* trace = nullptr;
  std::string driver;
  const verifier::Findings* findings = nullptr;
  void write() const {
    if (trace != nullptr) trace->write(driver, *findings);
  }
};
Traced traced;

/// Says on standard error, which the broker keeps, where the driver was. The process is ending, so
/// a failure here costs the rest of the text only.
void on_crash(int signal, siginfo_t* info, void* context) {
  static std::atomic<bool> writing{false};
  const struct sigaction& previous =
      previous_actions[std::ranges::find(kCrashes, signal) - std::begin(kCrashes)];
  if (!writing.exchange(true)) {
    const nt::StoppedCall stopped = nt::stopped_call(context);
    char text[768];
    const int bytes =
        std::snprintf(text, sizeof text, "signal %d in %s%s%s, at %s+0x%llx%s%s\n", signal,
                      stopped.ddi[0] == 0 ? "no DDI" : stopped.ddi,
                      stopped.import[0] == 0 ? "" : ", which had called ", stopped.import,
                      stopped.image[0] == 0 ? "unknown" : stopped.image,
                      static_cast<unsigned long long>(stopped.rva), signal == SIGABRT ? ": " : "",
                      signal == SIGABRT ? failed_check() : "");
    if (bytes > 0)
      static_cast<void>(!write(STDERR_FILENO, text,
                               std::min<size_t>(static_cast<size_t>(bytes), sizeof text - 1)));
    if ((previous.sa_flags & SA_SIGINFO) != 0) previous.sa_sigaction(signal, info, context);
  }
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  raise(signal);
}

/// Before any kernel is made: the kernel then takes the faults of a driver first.
void report_crashes() {
  static char stack[64 << 10];
  const stack_t signal_stack{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&signal_stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (size_t i = 0; i < std::size(kCrashes); ++i)
    sigaction(kCrashes[i], &action, &previous_actions[i]);
}

void tell(Control kind, std::string_view text) {
  ControlMessage message;
  message.kind = kind;
  // The broker reads all the time. If it has fallen behind nevertheless, the text is lost.
  static_cast<void>(send_control(kAdapterControl, message, text));
}

/// Findings go to the broker at once. One that stops Windows ends the process: there is no adapter
/// any more that a client could use.
void on_finding(const verifier::Finding& finding) {
  tell(Control::kFinding, verifier::to_text(finding));
  if (finding.severity != verifier::Severity::kBugCheck) return;
  traced.write();
  _exit(kExitBugCheck);
}

struct Wanted {
  api::WorldConfig world;
  std::string driver;
  dxgk::AdapterOptions adapter;
};

/// What the stack file says of this process's adapter.
std::expected<Wanted, std::string> read_stack(const AdapterProcessOptions& options) {
  const auto file = dxcore::read_stack_file(options.stack);
  if (!file.has_value()) return std::unexpected(file.error());
  if (options.device >= file->options.devices.size())
    return std::unexpected(fmt::format("{}: it has fewer devices now", options.stack));
  auto device = tool::parse_device(file->options.devices[options.device]);
  if (!device.has_value()) return std::unexpected(device.error());
  Wanted wanted;
  wanted.driver = file->driver;
  wanted.world.devices.push_back(std::move(*device));
  wanted.world.memory_bytes = file->options.memory_bytes;
  const std::string& registry = file->options.registry;
  auto kernel =
      tool::kernel_config_of(registry.empty() ? std::nullopt : std::optional(registry),
                             options.stack + ": registry", file->options.special_pool, false);
  if (!kernel.has_value()) return std::unexpected(kernel.error());
  wanted.world.kernel = std::move(*kernel);
  wanted.adapter.tdr_delay_ns = file->adapter.tdr_delay_ns;
  wanted.adapter.check_level =
      file->adapter.reference_checks ? dxgk::CheckLevel::kReference : dxgk::CheckLevel::kOff;
  return wanted;
}

std::string status_text(Status status) {
  const std::string_view name = status_name(status);
  return name.empty() ? fmt::format("status 0x{:08X}", static_cast<uint32_t>(status))
                      : std::string(name);
}

/// Everything inside the runtime. The error is one sentence: the adapter does not start.
std::expected<void, std::string> serve(runtime::Runtime& runtime,
                                       const AdapterProcessOptions& options, const Wanted& wanted,
                                       int wake) {
  verifier::Findings findings;
  std::unique_ptr<AdapterTrace> trace;
  if (!options.trace.empty()) {
    auto begun = AdapterTrace::begin(runtime, options.trace);
    if (!begun.has_value()) return std::unexpected(begun.error());
    trace = std::move(*begun);
    traced = {.trace = trace.get(), .driver = wanted.driver, .findings = &findings};
  }
  findings.set_listener(on_finding);
  auto world = api::World::create(runtime, findings, wanted.world);
  if (!world.has_value()) return std::unexpected(world.error());
  port::DriverSource source;
  source.path = wanted.driver;
  source.name = wanted.driver.substr(wanted.driver.find_last_of('/') + 1);
  std::string message;
  auto driver = port::Driver::load((*world)->kernel(), findings, source, &message);
  if (!driver.has_value())
    return std::unexpected(fmt::format("{}: {}", wanted.driver,
                                       message.empty() ? status_text(driver.error()) : message));
  const dxgk::KernelNumber kernel{static_cast<uint32_t>(options.device)};
  dxgk::System system(runtime, (*world)->machine(), (*world)->kernel(), findings);
  {
    const runtime::MutexLock lock(system.impl().mutex);
    system.impl().last_luid = options.luid - 1;
    // A program may have handles of several adapters.
    system.impl().kernel_number = kernel;
    system.impl().global_shares.set_kernel(kernel);
  }
  const auto adapter = system.start_adapter(**driver, (*world)->function(), wanted.adapter);
  if (!adapter.has_value())
    return std::unexpected(
        fmt::format("the adapter did not start: {}", status_text(adapter.error())));
  use_supply(runtime, kAdapterSupply);
  // A device that leaves the machine takes its adapter along.
  (*world)->on_loss([](size_t, const std::string& why) {
    tell(Control::kFailed, "the device left the machine: " + why);
    traced.write();
    _exit(kExitFailed);
  });
  ClientQuotas quotas{.handles_most = options.handles_most};
  if (options.user_memory_most != 0) quotas.kernel.memory_bytes = options.user_memory_most;
  if (options.submissions_most != 0) quotas.kernel.submissions = options.submissions_most;
  const auto conversations = make_conversations(runtime, system, *adapter, quotas);
  if (auto closed = close_jail(
          {.data_bytes = options.data_bytes,
           .descriptors = kDescriptorsMost,
           .file_bytes = std::max(options.recording_bytes_most,
                                  options.trace.empty() ? 0 : AdapterTrace::kBytesMost)});
      !closed.has_value())
    return closed;
  if (options.tries_the_jail) {
    // On a thread that is older than the jail, and on one that is younger.
    std::string text = trial_text(try_forbidden());
    const auto thread = runtime.spawn("trial", [&text] { text += trial_text(try_forbidden()); });
    thread->join();
    static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
  } else {
    AdapterHost(runtime, kAdapterControl, wake, *conversations).run();
    traced.write();
  }
  (*world)->on_loss(nullptr);
  return {};
}

}  // namespace

int run_adapter_process(const AdapterProcessOptions& options) {
  // The broker's end is this process's end, whatever it is doing.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  report_crashes();
  // A client's event may be a pipe that nobody reads any more.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a recording that is as long as it may be
  if (auto renounced = renounce_privileges(); !renounced.has_value()) {
    tell(Control::kFailed, renounced.error());
    return kExitFailed;
  }
  const auto wanted = read_stack(options);
  if (!wanted.has_value()) {
    tell(Control::kFailed, wanted.error());
    return kExitBadInput;
  }
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    tell(Control::kFailed, "no descriptor is left");
    return kExitFailed;
  }
  const auto runtime = runtime::make_os_runtime(1);
  std::expected<void, std::string> served;
  runtime->run_main([&] { served = serve(*runtime, options, *wanted, wake); });
  if (served.has_value()) return kExitDone;
  tell(Control::kFailed, served.error());
  return kExitFailed;
}

}  // namespace dxgkit::serve
