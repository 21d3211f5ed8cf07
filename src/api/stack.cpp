#include "dxgkit/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "api/stack_impl.h"
#include "api/trace_impl.h"
#include "devices/catalog/catalog.h"
#include "devices/plugin/plugin.h"
#include "nt/registry_store.h"
#include "runtime/sync.h"
#include "verifier/source_lines.h"

namespace dxgkit {
namespace {

Failure invalid(std::string message) {
  return {to_ntstatus(Status::kInvalidParameter), std::move(message)};
}

/// The models that come with dxgkit, and the program's own.
Expected<bus::DeviceRegistry> catalog_with(std::span<const DeviceModel> models) {
  bus::DeviceRegistry all = devices::catalog();
  for (const DeviceModel& model : models) {
    const std::string& name = model.name;
    if (name.empty() || name.find_first_of(",/") != std::string::npos || name.ends_with(".so"))
      return std::unexpected(invalid(fmt::format("\"{}\" is no name for a device model", name)));
    if (all.parse(name).has_value() || all.find(name) != nullptr)
      return std::unexpected(invalid(fmt::format("there is a device model {} already", name)));
    auto type = plugin::type_of(name, model.functions);
    if (!type.has_value()) return std::unexpected(invalid(type.error()));
    all.add(std::move(*type));
  }
  return all;
}

/// What the options ask for, found right before anything is made.
Expected<api::WorldConfig> checked(const StackOptions& options) {
  api::WorldConfig wanted;
  wanted.memory_bytes = options.memory_bytes;
  if (options.memory_bytes == 0) return std::unexpected(invalid("a machine needs memory"));
  if (options.devices.empty()) return std::unexpected(invalid("a machine needs a device"));
  auto known = catalog_with(options.models);
  if (!known.has_value()) return std::unexpected(known.error());
  for (const std::string& text : options.devices) {
    auto choice = known->parse(text);
    if (!choice.has_value()) return std::unexpected(invalid(choice.error()));
    if (options.mode == Mode::kSimulation && !choice->type->simulated)
      return std::unexpected(invalid(fmt::format("{} lives in real time only", text)));
    wanted.devices.push_back(std::move(*choice));
  }
  wanted.kernel.special_pool = options.special_pool;
  if (!options.registry.empty()) {
    std::string message;
    const Result<nt::Registry> registry = nt::parse_registry(options.registry, &message);
    if (!registry.has_value())
      return std::unexpected(invalid(fmt::format("registry: {}", message)));
    wanted.kernel.registry = registry->to_map();
  }
  return wanted;
}

}  // namespace

Failure failure(Status status, std::string_view what) {
  const std::string_view name = status_name(status);
  return {to_ntstatus(status),
          name.empty() ? fmt::format("{}: status 0x{:08X}", what, static_cast<uint32_t>(status))
                       : fmt::format("{}: {}", what, name)};
}

Finding public_finding(const verifier::Finding& finding) {
  const std::vector<verifier::SourceFrame> source = verifier::source_of(finding.place);
  const verifier::SourceFrame innermost = source.empty() ? verifier::SourceFrame{} : source[0];
  static_assert(static_cast<int>(Severity::kBugCheck) ==
                static_cast<int>(verifier::Severity::kBugCheck));
  static_assert(static_cast<int>(Severity::kWarning) ==
                static_cast<int>(verifier::Severity::kWarning));
  return {.rule = finding.rule,
          .severity = static_cast<Severity>(finding.severity),
          .ddi = finding.ddi,
          .actual = finding.actual,
          .expected = finding.expected,
          .fix = finding.fix,
          .bugcheck_code = finding.bugcheck_code,
          .bugcheck_parameter = finding.bugcheck_parameter,
          .image = finding.place.image,
          .symbol = finding.place.symbol,
          .function = innermost.function,
          .file = innermost.file,
          .line = innermost.line,
          .because_of = finding.because_of,
          .stack = finding.place.stack,
          .text = verifier::to_text(finding)};
}

Stack::Impl::Impl(runtime::Runtime& own_runtime, verifier::Findings& own_findings,
                  std::unique_ptr<api::World> own_world)
    : runtime(own_runtime),
      findings(own_findings),
      world(std::move(own_world)),
      adapters(world->slots().size()) {}

Stack::Impl::~Impl() {
  system.reset();  // stops adapters, ends clients
  driver.reset();
}

std::optional<dxgk::Luid>* Stack::Impl::running(AdapterId adapter) {
  for (std::optional<dxgk::Luid>& one : adapters) {
    if (one.has_value() && one->low == adapter.low && one->high == adapter.high) return &one;
  }
  return nullptr;
}

Expected<StackOutcome> Stack::run(const StackOptions& options,
                                  const std::function<void(Stack&)>& body) {
  if (runtime::Runtime::current_or_null() != nullptr)
    return std::unexpected(invalid("a stack cannot be made inside another one"));
  const Expected<api::WorldConfig> wanted = checked(options);
  if (!wanted.has_value()) return std::unexpected(wanted.error());

  verifier::Findings findings;
  if (options.on_finding) {
    findings.set_listener(
        [&](const verifier::Finding& finding) { options.on_finding(public_finding(finding)); });
  }
  const std::unique_ptr<runtime::Runtime> runtime = options.mode == Mode::kSimulation
                                                        ? runtime::make_sim_runtime(options.seed)
                                                        : runtime::make_os_runtime(options.seed);
  std::unique_ptr<trace::Recorder> recorder;
  if (options.record) {
    recorder = std::make_unique<trace::Recorder>(
        trace::Recorder::Clock{.now_ns = [&] { return runtime->now(); },
                               .thread = [&] { return runtime->thread_number(); }});
  }
  std::optional<Failure> unmade;
  std::exception_ptr thrown;
  runtime->run_main([&] {
    trace::set_current(recorder.get());
    if (auto world = api::World::create(*runtime, findings, *wanted); world.has_value()) {
      Impl impl(*runtime, findings, std::move(*world));
      Stack stack(impl);
      if (options.on_device_lost) impl.world->on_loss(options.on_device_lost);
      try {
        body(stack);
      } catch (...) {
        thrown = std::current_exception();
      }
      impl.world->on_loss(nullptr);  // waits for a running call
    } else {
      unmade = invalid(world.error());
    }
    trace::set_current(nullptr);
  });
  if (thrown) std::rethrow_exception(thrown);
  if (unmade.has_value()) return std::unexpected(*unmade);
  StackOutcome outcome;
  for (const verifier::Finding& finding : findings.all())
    outcome.findings.push_back(public_finding(finding));
  if (recorder) outcome.trace = make_trace(*recorder, runtime->thread_names());
  return outcome;
}

Expected<Driver*> Stack::load(const std::string& path) {
  if (impl_.driver) return std::unexpected(failure(Status::kNotSupported, "a second driver"));
  port::DriverSource source;
  source.path = path;
  source.name = path.substr(path.find_last_of('/') + 1);
  std::string message;
  Result<std::unique_ptr<port::Driver>> loaded =
      port::Driver::load(impl_.world->kernel(), impl_.findings, source, &message);
  if (!loaded.has_value()) {
    Failure why = failure(loaded.error(), path);
    if (!message.empty()) why.message = fmt::format("{}: {}", path, message);
    return std::unexpected(std::move(why));
  }
  auto impl = std::make_unique<Driver::Impl>();
  impl->stack = &impl_;
  impl->driver = std::move(*loaded);
  impl_.driver.reset(new Driver(std::move(impl)));
  impl_.system = std::make_unique<dxgk::System>(impl_.runtime, impl_.world->machine(),
                                                impl_.world->kernel(), impl_.findings);
  return impl_.driver.get();
}

size_t Stack::slots() const { return impl_.adapters.size(); }

Expected<AdapterId> Stack::start(Driver& driver, size_t slot, const AdapterOptions& options) {
  if (slot >= impl_.adapters.size() || options.tdr_delay_ns <= 0 || driver.impl_->stack != &impl_)
    return std::unexpected(failure(Status::kInvalidParameter, "no such slot, driver or delay"));
  if (impl_.adapters[slot].has_value())
    return std::unexpected(failure(Status::kInvalidParameter, "the slot has an adapter"));
  dxgk::AdapterOptions inner;
  inner.tdr_delay_ns = options.tdr_delay_ns;
  inner.check_level =
      options.reference_checks ? dxgk::CheckLevel::kReference : dxgk::CheckLevel::kOff;
  const Result<dxgk::Luid> started = impl_.system->start_adapter(
      *driver.impl_->driver, *impl_.world->slots()[slot].function, inner);
  if (!started.has_value())
    return std::unexpected(failure(started.error(), "the adapter did not start"));
  impl_.adapters[slot] = *started;
  return AdapterId{started->low, started->high};
}

Expected<void> Stack::stop(AdapterId adapter) {
  std::optional<dxgk::Luid>* const running = impl_.running(adapter);
  if (running == nullptr)
    return std::unexpected(failure(Status::kInvalidParameter, "no such adapter"));
  const Status status = impl_.system->stop_adapter(**running);
  running->reset();
  if (!is_success(status)) return std::unexpected(failure(status, "the adapter did not stop"));
  return {};
}

Expected<AdapterStatistics> Stack::statistics(AdapterId adapter) const {
  std::optional<dxgk::Luid>* const running = impl_.running(adapter);
  if (running == nullptr)
    return std::unexpected(failure(Status::kInvalidParameter, "no such adapter"));
  const Result<dxgk::AdapterStatistics> all = impl_.system->statistics(**running);
  if (!all.has_value()) return std::unexpected(failure(all.error(), "no statistics"));
  return AdapterStatistics{.packets_submitted = all->packets_submitted,
                           .packets_completed = all->packets_completed,
                           .packets_cancelled = all->packets_cancelled,
                           .packets_faulted = all->packets_faulted,
                           .paging_packets = all->paging_packets,
                           .page_ins = all->page_ins,
                           .page_outs = all->page_outs,
                           .bytes_in = all->bytes_in,
                           .bytes_out = all->bytes_out,
                           .evictions = all->evictions,
                           .patch_locations = all->patch_locations,
                           .interrupts = all->interrupts,
                           .engine_resets = all->engine_resets,
                           .adapter_resets = all->adapter_resets};
}

Expected<void> Stack::set_power(AdapterId adapter, PowerState state) {
  static_assert(static_cast<int>(PowerState::kHibernate) ==
                static_cast<int>(dxgk::PowerTarget::kHibernate));
  std::optional<dxgk::Luid>* const running = impl_.running(adapter);
  if (running == nullptr)
    return std::unexpected(failure(Status::kInvalidParameter, "no such adapter"));
  const auto done = impl_.system->set_power(**running, static_cast<dxgk::PowerTarget>(state));
  if (!done.has_value()) return std::unexpected(failure(done.error(), "the power state stays"));
  return {};
}

Expected<void> Stack::remove(size_t slot) {
  if (slot >= impl_.adapters.size())
    return std::unexpected(failure(Status::kInvalidParameter, "no such slot"));
  const size_t device = impl_.world->slots()[slot].device;
  impl_.world->pull_out(device);
  for (size_t i = 0; i < impl_.adapters.size(); ++i) {
    std::optional<dxgk::Luid>& adapter = impl_.adapters[i];
    if (impl_.world->slots()[i].device != device || !adapter.has_value()) continue;
    const Status status = impl_.system->remove_adapter(*adapter);
    adapter.reset();
    if (!is_success(status)) return std::unexpected(failure(status, "the adapter was not removed"));
  }
  return {};
}

std::vector<Finding> Stack::findings() const {
  std::vector<Finding> all;
  for (const verifier::Finding& finding : impl_.findings.all())
    all.push_back(public_finding(finding));
  return all;
}

}  // namespace dxgkit
