#include "dxgkit/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "api/stack_impl.h"
#include "api/trace_impl.h"
#include "devices/catalog/catalog.h"
#include "nt/registry_store.h"
#include "runtime/sync.h"

namespace dxgkit {
namespace {

constexpr uint8_t kDisplayController = 0x03, kProcessingAccelerator = 0x12;  // PCI base classes
/// Memory below 4 GiB, beside the rest: for devices that send addresses of 32 bits.
constexpr uint64_t kLowMemoryBytes = uint64_t{16} << 20;

Failure invalid(std::string message) {
  return {to_ntstatus(Status::kInvalidParameter), std::move(message)};
}

/// The checked options, before anything is made.
struct Wanted {
  std::vector<bus::DeviceChoice> devices;
  nt::KernelConfig kernel;
};

Expected<Wanted> checked(const StackOptions& options) {
  Wanted wanted;
  if (options.memory_bytes == 0) return std::unexpected(invalid("a machine needs memory"));
  if (options.devices.empty()) return std::unexpected(invalid("a machine needs a device"));
  for (const std::string& text : options.devices) {
    auto choice = devices::catalog().parse(text);
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

/// Makes the devices and plugs them in.
Expected<void> furnish(Stack::Impl& stack, const Wanted& wanted) {
  bool lit = false;
  for (size_t i = 0; i < wanted.devices.size(); ++i) {
    auto made = wanted.devices[i].make({stack.runtime, stack.machine});
    if (!made.has_value()) return std::unexpected(invalid(made.error()));
    bus::Device& device = *stack.devices.emplace_back(std::move(*made));
    // Firmware lights one display: the first it finds.
    for (bus::PciFunction* const function : device.functions()) {
      if (!function->post_display().has_value()) continue;
      if (lit) function->set_post_display(std::nullopt);
      lit = true;
    }
    if (const Status plugged = bus::plug_in(stack.machine, device); !is_success(plugged)) {
      return std::unexpected(invalid(fmt::format("{} does not fit into the machine: {}",
                                                 wanted.devices[i].text, status_name(plugged))));
    }
    const size_t before = stack.slots.size();
    for (bus::PciFunction* const function : device.functions()) {
      const uint8_t base_class = function->identity().base_class;
      if (base_class == kDisplayController || base_class == kProcessingAccelerator)
        stack.slots.push_back({.device = i, .function = function});
    }
    if (stack.slots.size() == before)
      stack.slots.push_back({.device = i, .function = device.functions().front()});
  }
  stack.kernel =
      std::make_unique<nt::Kernel>(stack.runtime, stack.machine, stack.findings, wanted.kernel);
  return {};
}

}  // namespace

Failure failure(Status status, std::string_view what) {
  const std::string_view name = status_name(status);
  return {to_ntstatus(status),
          name.empty() ? fmt::format("{}: status 0x{:08X}", what, static_cast<uint32_t>(status))
                       : fmt::format("{}: {}", what, name)};
}

Finding public_finding(const verifier::Finding& finding) {
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
          .stack = finding.place.stack,
          .text = verifier::to_text(finding)};
}

Stack::Impl::Impl(runtime::Runtime& own_runtime, verifier::Findings& own_findings,
                  uint64_t memory_bytes)
    : runtime(own_runtime), findings(own_findings), machine(memory_bytes, kLowMemoryBytes) {}

Stack::Impl::~Impl() {
  system.reset();  // stops adapters, ends clients
  driver.reset();
  kernel.reset();
  while (!devices.empty()) devices.pop_back();  // the last one first
}

Stack::Impl::Slot* Stack::Impl::slot_of(AdapterId adapter) {
  for (Slot& slot : slots) {
    if (slot.adapter.has_value() && slot.adapter->low == adapter.low &&
        slot.adapter->high == adapter.high)
      return &slot;
  }
  return nullptr;
}

Expected<StackOutcome> Stack::run(const StackOptions& options,
                                  const std::function<void(Stack&)>& body) {
  if (runtime::Runtime::current_or_null() != nullptr)
    return std::unexpected(invalid("a stack cannot be made inside another one"));
  const Expected<Wanted> wanted = checked(options);
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
  Expected<void> furnished;
  std::exception_ptr thrown;
  runtime->run_main([&] {
    trace::set_current(recorder.get());
    {
      Impl impl(*runtime, findings, options.memory_bytes);
      furnished = furnish(impl, *wanted);
      if (furnished.has_value()) {
        Stack stack(impl);
        try {
          body(stack);
        } catch (...) {
          thrown = std::current_exception();
        }
      }
    }
    trace::set_current(nullptr);
  });
  if (thrown) std::rethrow_exception(thrown);
  if (!furnished.has_value()) return std::unexpected(furnished.error());
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
      port::Driver::load(*impl_.kernel, impl_.findings, source, &message);
  if (!loaded.has_value()) {
    Failure why = failure(loaded.error(), path);
    if (!message.empty()) why.message = fmt::format("{}: {}", path, message);
    return std::unexpected(std::move(why));
  }
  auto impl = std::make_unique<Driver::Impl>();
  impl->stack = &impl_;
  impl->driver = std::move(*loaded);
  impl_.driver.reset(new Driver(std::move(impl)));
  impl_.system =
      std::make_unique<dxgk::System>(impl_.runtime, impl_.machine, *impl_.kernel, impl_.findings);
  return impl_.driver.get();
}

size_t Stack::slots() const { return impl_.slots.size(); }

Expected<AdapterId> Stack::start(Driver& driver, size_t slot, const AdapterOptions& options) {
  if (slot >= impl_.slots.size() || options.tdr_delay_ns <= 0 || driver.impl_->stack != &impl_)
    return std::unexpected(failure(Status::kInvalidParameter, "no such slot, driver or delay"));
  Impl::Slot& place = impl_.slots[slot];
  if (place.adapter.has_value())
    return std::unexpected(failure(Status::kInvalidParameter, "the slot has an adapter"));
  dxgk::AdapterOptions inner;
  inner.tdr_delay_ns = options.tdr_delay_ns;
  inner.check_level =
      options.reference_checks ? dxgk::CheckLevel::kReference : dxgk::CheckLevel::kOff;
  const Result<dxgk::Luid> started =
      impl_.system->start_adapter(*driver.impl_->driver, *place.function, inner);
  if (!started.has_value())
    return std::unexpected(failure(started.error(), "the adapter did not start"));
  place.adapter = *started;
  return AdapterId{started->low, started->high};
}

Expected<void> Stack::stop(AdapterId adapter) {
  Impl::Slot* const slot = impl_.slot_of(adapter);
  if (slot == nullptr)
    return std::unexpected(failure(Status::kInvalidParameter, "no such adapter"));
  const Status status = impl_.system->stop_adapter(*slot->adapter);
  slot->adapter.reset();
  if (!is_success(status)) return std::unexpected(failure(status, "the adapter did not stop"));
  return {};
}

Expected<AdapterStatistics> Stack::statistics(AdapterId adapter) const {
  Impl::Slot* const slot = impl_.slot_of(adapter);
  if (slot == nullptr)
    return std::unexpected(failure(Status::kInvalidParameter, "no such adapter"));
  const Result<dxgk::AdapterStatistics> all = impl_.system->statistics(*slot->adapter);
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
  Impl::Slot* const slot = impl_.slot_of(adapter);
  if (slot == nullptr)
    return std::unexpected(failure(Status::kInvalidParameter, "no such adapter"));
  const auto done = impl_.system->set_power(*slot->adapter, static_cast<dxgk::PowerTarget>(state));
  if (!done.has_value()) return std::unexpected(failure(done.error(), "the power state stays"));
  return {};
}

Expected<void> Stack::remove(size_t slot) {
  if (slot >= impl_.slots.size())
    return std::unexpected(failure(Status::kInvalidParameter, "no such slot"));
  Impl::Slot& place = impl_.slots[slot];
  bus::pull_out(impl_.machine, *impl_.devices[place.device]);
  for (Impl::Slot& other : impl_.slots) {
    if (other.device != place.device || !other.adapter.has_value()) continue;
    const Status status = impl_.system->remove_adapter(*other.adapter);
    other.adapter.reset();
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
