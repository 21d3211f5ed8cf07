#include "tools/dxgkit/verify/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/spelling.h"
#include "dxgk/inspection.h"
#include "dxgkit/abi_versions.h"
#include "nt/registry_store.h"
#include "nt/stack_fill.h"
#include "nt/thread_delay.h"
#include "tools/dxgkit/last_words.h"
#include "tools/dxgkit/start_story.h"

namespace dxgkit::tool::verify {

std::string status_text(Status status) {
  const std::string_view name = status_name(status);
  return name.empty() ? fmt::format("0x{:08X}", static_cast<uint32_t>(status)) : std::string(name);
}

Answer<void> check_answer(const char* function, NTSTATUS status) {
  if (is_success(from_ntstatus(status))) return {};
  return std::unexpected(
      fmt::format("{} answered {}", function, status_text(from_ntstatus(status))));
}

uint64_t mixed(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9ULL;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EBULL;
  return number ^ (number >> 31);
}

Bench::Bench(runtime::Runtime& runtime, const VerifyOptions& options,
             const std::string& driver_path, const nt::KernelConfig& kernel_config,
             const Plugin* plugin, verifier::Findings& findings, verifier::SituationLog& situations,
             Heartbeat* heartbeat, Mutator* mutator)
    : runtime_(runtime),
      options_(options),
      driver_path_(driver_path),
      kernel_config_(kernel_config),
      plugin_(plugin),
      findings_(findings),
      situations_(situations),
      heartbeat_(heartbeat),
      mutator_(mutator),
      shortage_(mutator),
      random_state_(options.seed * 2 + 1) {}

Bench::~Bench() { power_off(); }

void Bench::collect_misuses() {
  if (world_ == nullptr) return;
  std::ranges::move(world_->device().take_misuses(), std::back_inserter(misuses_));
}

uint64_t Bench::take_sleeping_accesses() {
  if (world_ != nullptr) {
    const uint64_t all = world_->machine().sleeping_register_accesses();
    sleeping_accesses_ += all - std::exchange(sleeping_before_, all);
  }
  const uint64_t count = std::exchange(sleeping_accesses_, 0);
  return mutated() || negligence_ != nullptr ? 0 : count;
}

std::vector<std::string> Bench::take_misuses() {
  collect_misuses();
  if (mutated() || negligence_ != nullptr) misuses_.clear();
  return std::exchange(misuses_, {});
}

std::optional<nt::Stall> Bench::take_stall() {
  if (world_ == nullptr) return std::nullopt;
  const std::optional<nt::Stall> stall = nt::take_longest_stall(world_->kernel());
  return !simulated() || mutated() || negligence_ != nullptr ? std::nullopt : stall;
}

void Bench::power_off() {
  collect_misuses();
  if (world_ != nullptr) {
    sleeping_accesses_ += world_->machine().sleeping_register_accesses() - sleeping_before_;
    sleeping_before_ = 0;
  }
  client_code_.reset();
  exercise_.reset();
  luid_.reset();
  system_.reset();
  driver_.reset();
  world_.reset();
  known_leaks_.clear();
}

Outcome Bench::load_again(const nt::KernelConfig& kernel_config, const DeviceChoice& device) {
  power_off();
  filled_entries_.clear();
  return load(kernel_config, device);
}

bool Bench::start_over() {
  return load_again().kind == Outcome::Kind::kOk && start().kind == Outcome::Kind::kOk;
}

Outcome Bench::load() { return load(kernel_config_, device()); }

Outcome Bench::load(const nt::KernelConfig& kernel_config, const DeviceChoice& device) {
  WorldConfig config;
  config.devices = {device};
  config.vram_bytes = uint64_t{64} << 20;
  if (options_.machine.memory_bytes.has_value())
    config.memory_bytes = *options_.machine.memory_bytes;
  config.kernel = kernel_config;
  machine_config_ = kernel_config;
  std::expected<std::unique_ptr<World>, std::string> world =
      World::create(runtime_, findings_, config);
  if (!world.has_value()) return Outcome::failed(world.error());
  world_ = std::move(*world);
  world_->on_loss([text = device.text](size_t, const std::string& why) {
    LastWords::end_without_device(
        fmt::format("{}: the device left the machine: {}; the driver is not to blame, and nothing "
                    "can be said of it",
                    text, why));
  });
  // As if others had memory before the driver. Else the first pages that it gets would lie where
  // the low half of a bus address is 0, and a driver that forgets this half would pass.
  constexpr uint64_t kPagesOfOthers = 5;
  static_cast<void>(world_->machine().allocate_contiguous(kPagesOfOthers));
  if (mutator_ != nullptr) mutator_->attach(*world_);
  shortage_.attach(*world_);
  nt::watch_registry(world_->kernel(), [this](std::u16string_view name) {
    runtime::MutexLock lock(asked_lock_);
    asked_values_.emplace(name);
  });
  port::DriverSource source;
  source.name = driver_path_.substr(driver_path_.rfind('/') + 1);
  source.path = driver_path_;
  source.on_table = [this](bool display_only, uint32_t version, std::span<const std::byte> table) {
    interface_version_ = version;
    const std::span<const abi::TableEntry> entries =
        display_only ? std::span<const abi::TableEntry>(abi::kKmddodInitializationData)
                     : std::span<const abi::TableEntry>(abi::kDriverInitializationData);
    for (const abi::TableEntry& entry : entries) {
      void* pointer = nullptr;
      if (!entry.name.starts_with("DxgkDdi") || entry.since > version ||
          entry.offset_bytes + sizeof(pointer) > table.size())
        continue;
      std::memcpy(&pointer, table.data() + entry.offset_bytes, sizeof(pointer));
      if (pointer != nullptr) filled_entries_.emplace_back(entry.name);
    }
  };
  std::string message;
  const size_t before = findings_.total();
  const nt::CallLog calls(world_->kernel());
  // DriverEntry makes its table on a stack that holds anything.
  nt::set_stack_fill(world_->kernel(), std::byte{0xA5});
  Result<std::unique_ptr<port::Driver>> driver =
      port::Driver::load(world_->kernel(), findings_, source, &message);
  nt::set_stack_fill(world_->kernel(), std::byte{0});
  if (!driver.has_value()) {
    not_a_driver_ = driver.error() == Status::kInvalidImageFormat && findings_.total() == before;
    Outcome failed = Outcome::failed(message.empty() ? status_text(driver.error()) : message);
    if (!mutated()) failed.before = start_story(calls, driver_path_, device);
    return failed;
  }
  driver_ = std::move(*driver);
  system_ =
      std::make_unique<dxgk::System>(runtime_, world_->machine(), world_->kernel(), findings_);
  return Outcome::ok(fmt::format("interface version {:#06x}, {}", interface_version_,
                                 counted(filled_entries_.size(), "entry", "entries")));
}

bool Bench::is_configured(std::string_view name) const {
  return std::ranges::any_of(kernel_config_.registry, [&](const auto& key) {
    return std::ranges::any_of(key.second, [&](const auto& value) {
      return std::ranges::equal(value.first, name, [](char a, char b) {
        return (static_cast<unsigned char>(a) | 0x20) == (static_cast<unsigned char>(b) | 0x20);
      });
    });
  });
}

void Bench::end_device_faults() {
  if (bus::FaultInjection* const faults = device_faults()) faults->set_faults({});
  if (bus::DeviceClock* const clock = device_clock()) {
    clock->delay_interrupts(0);
    clock->go_on();
  }
}

Outcome Bench::start(const StartChanges& changes) {
  dxgk::AdapterOptions options;
  if (options_.mode == Mode::kOs) options.tdr_delay_ns = kBusyMachineTdrDelayNs;
  options.faults = changes.faults != nullptr ? changes.faults : &shortage_;
  if (negligence_ != nullptr) {
    negligence_->set_inner(options.faults);
    options.faults = negligence_;
  }
  options.silence_ends_it = !mutated();
  options.situations = &situations_;
  if (plugin() != nullptr) situations_.add(verifier::SituationFact::kPlugIn);
  if (device_faults() != nullptr && simulated())
    situations_.add(verifier::SituationFact::kDeviceFaults);
  options.verifier = changes.verifier;
  options.transfer_chunk_bytes = changes.transfer_chunk_bytes;
  options.may_fail_to_start = changes.may_fail;
  std::optional<nt::CallLog> calls(std::in_place, world_->kernel());
  const Result<dxgk::Luid> luid = system_->start_adapter(*driver_, world_->function(), options);
  if (!luid.has_value()) {
    Outcome failed =
        Outcome::failed(fmt::format("the adapter did not start: {}", status_text(luid.error())));
    if (!mutated() && !changes.may_fail)
      failed.before = start_story(*calls, driver_path_, options_.device);
    return failed;
  }
  calls.reset();
  luid_ = *luid;
  Result<dxgk::Exercise> exercise = dxgk::Exercise::on(*system_, *luid_);
  if (!exercise.has_value()) return Outcome::failed("the adapter is gone again");
  exercise_.emplace(std::move(*exercise));
  has_run_ = true;
  supports_removal_ = exercise_->caps().support_surprise_removal;
  supports_removal_asleep_ = exercise_->caps().support_surprise_removal_in_hibernation;
  return Outcome::ok(fmt::format("{}, {}, {} video present sources", counted(node_count(), "node"),
                                 counted(exercise_->segments().size(), "segment"),
                                 exercise_->video_present_sources()));
}

uint64_t Bench::late_reports() const {
  if (!simulated() || mutated() || !running()) return late_before_;
  const Result<dxgk::Inspection> inspection = dxgk::Inspection::of(*system_, *luid_);
  return late_before_ + (inspection.has_value() ? inspection->late_reports() : 0);
}

void Bench::slow_threads() {
  constexpr runtime::DurationNs kLate = 50 * runtime::kMillisecond;
  if (simulated()) nt::set_thread_delay(world_->kernel(), kLate);
}

Outcome Bench::stop() {
  late_before_ = late_reports();
  client_code_.reset();
  exercise_.reset();
  if (!luid_.has_value()) return Outcome::skipped("it does not run");
  const Status status = system_->stop_adapter(*luid_);
  luid_.reset();
  if (!is_success(status)) return Outcome::failed(status_text(status));
  return Outcome::ok();
}

Status Bench::remove() {
  late_before_ = late_reports();
  client_code_.reset();
  exercise_.reset();
  const Status status = system_->remove_adapter(*luid_);
  luid_.reset();
  return status;
}

Outcome Bench::unload() {
  if (driver_ == nullptr) return Outcome::skipped("it was not loaded");
  if (luid_.has_value()) static_cast<void>(stop());
  system_.reset();
  const bool dead = world_->kernel().driver_is_dead();
  driver_.reset();
  if (dead) return Outcome::skipped("the driver is dead: it is not called any more");
  return Outcome::ok();
}

uint32_t Bench::node_count() const {
  return exercise_.has_value() ? exercise_->caps().node_count : 0;
}

void Bench::begin_random(std::string_view step) {
  random_state_ = options_.seed * 2 + 1;
  for (const char letter : step)
    random_state_ = mixed(random_state_ + kMixStep + static_cast<unsigned char>(letter));
}

uint64_t Bench::random() {
  random_state_ += kMixStep;
  return mixed(random_state_);
}

std::vector<std::byte> Bench::random_bytes(uint64_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 24);
  return bytes;
}

std::vector<size_t> Bench::shuffled(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

std::vector<std::vector<size_t>> Bench::orders(size_t count) {
  std::vector<size_t> forward(count);
  std::iota(forward.begin(), forward.end(), size_t{0});
  std::vector<size_t> backward(forward.rbegin(), forward.rend());
  return {forward, backward, shuffled(count)};
}

Answer<void> Bench::open_client() {
  client_refused_ = true;
  const Answer<Plugin::Instance*> code = client_code();
  if (!code.has_value()) return std::unexpected(code.error());
  // A problem that would hit every later step is reported once, here.
  for (uint32_t node = 0; node < node_count(); ++node) {
    const Answer<std::vector<DxgkitClientAllocation>> wanted = (*code)->plan(options_.seed, node);
    if (!wanted) return std::unexpected(wanted.error());
    for (const DxgkitClientAllocation& one : *wanted) {
      if (const auto packed = (*code)->pack_allocation(one); !packed)
        return std::unexpected(packed.error());
    }
    if (const auto packed = (*code)->pack_context(node); !packed)
      return std::unexpected(packed.error());
  }
  if (gpu_addresses() && !plugin_->knows_addresses()) {
    return std::unexpected(fmt::format(
        "client {} has no record_virtual: it knows no GPU virtual addresses", plugin_->name()));
  }
  client_refused_ = false;
  return {};
}

Answer<Plugin::Instance*> Bench::client_code() {
  if (client_code_) return client_code_.get();
  const DxgkitClient& functions = plugin_->functions();
  std::vector<std::byte> sent(functions.umd_private_bytes), umd_private;
  if (!sent.empty()) {
    if (functions.fill_umd_private != nullptr)
      functions.fill_umd_private(sent.data(), functions.umd_private_bytes);
    umd_private = sent;
    Client asking(*this, "client");
    DXGKIT_VERIFY_TRY(asking.open_adapter());
    const NTSTATUS status = asking.query_umd_private(umd_private);
    if (const Answer<void> taken = check_answer("D3DKMTQueryAdapterInfo", status); !taken) {
      const Status refusal = from_ntstatus(status);
      if (running() && !mutated() && refusal != Status::kNoMemory) {
        findings_.report(
            {.rule = "LIFE-25",
             .severity = verifier::Severity::kViolation,
             .ddi = "DxgkDdiQueryAdapterInfo(UMDRIVERPRIVATE)",
             .actual = fmt::format("A buffer of {} bytes, as client {} has it, got {}.",
                                   umd_private.size(), plugin_->name(), status_text(refusal)),
             .expected = "An answer to the query with which user mode begins.",
             .fix = "Take the buffer that the interface of driver and user mode defines."});
      }
      return std::unexpected(taken.error());
    }
  }
  const bus::PciIdentity& identity = world_->function().identity();
  DxgkitClientAdapter adapter{};
  adapter.vendor_id = identity.vendor_id;
  adapter.device_id = identity.device_id;
  adapter.interface_version = interface_version_;
  adapter.node_count = node_count();
  adapter.umd_private_bytes = static_cast<uint32_t>(umd_private.size());
  adapter.umd_private = umd_private.empty() ? nullptr : umd_private.data();
  adapter.gpu_virtual_addresses = gpu_addresses() ? 1 : 0;
  if (!plugin_->matches(identity.vendor_id, identity.device_id)) {
    return std::unexpected(fmt::format("client {} does not know adapters {:04x}:{:04x}",
                                       plugin_->name(), identity.vendor_id, identity.device_id));
  }
  Answer<std::unique_ptr<Plugin::Instance>> opened = plugin_->open(adapter);
  if (!opened.has_value()) return std::unexpected(opened.error());
  if (!sent.empty()) {
    if (std::string wrong = judge_adapter(**opened, Status::kSuccess, sent, umd_private);
        !wrong.empty())
      return std::unexpected(std::move(wrong));
  }
  client_code_ = std::move(*opened);
  return client_code_.get();
}

std::string Bench::judge_adapter(const Plugin::Instance& code, Status status,
                                 std::span<const std::byte> sent,
                                 std::span<const std::byte> returned) {
  DxgkitClientAnswer answer{};
  answer.kind = DXGKIT_CLIENT_DATA_ADAPTER;
  answer.status = to_ntstatus(status);
  answer.bytes = static_cast<uint32_t>(sent.size());
  answer.sent = sent.data();
  answer.returned = returned.data();
  const std::string wrong = code.judge(answer);
  if (wrong.empty()) return {};
  findings_.report(
      {.rule = "LIFE-25",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiQueryAdapterInfo(UMDRIVERPRIVATE)",
       .actual = fmt::format("A buffer of {} bytes got {}, and client {} says: {}.", sent.size(),
                             status_text(status), plugin_->name(), wrong),
       .expected = "The answer that the interface of driver and user mode asks for.",
       .fix = "Compare what the driver writes, member by member, with what user mode may expect.",
       .confidence = verifier::Confidence::kInferred});
  return wrong;
}

Answer<std::vector<std::byte>> Bench::context_data(uint32_t node) {
  if (plugin() == nullptr) return std::vector<std::byte>();
  const Answer<Plugin::Instance*> code = client_code();
  if (!code) return std::unexpected(code.error());
  return (*code)->pack_context(node);
}

void Bench::freeze(bool frozen) {
  frozen_ = frozen ? 1 : 0;
  runtime_.wake_all(frozen_);
}

void Bench::wait_while_frozen() {
  if (frozen_ == 0) return;
  const runtime::WaitReason reason(runtime_, "its process to be thawed");
  while (frozen_ != 0) runtime_.wait(frozen_, 1);
}

Answer<void> Bench::in_parallel(size_t count, const std::function<Answer<void>(size_t)>& body) {
  std::vector<Answer<void>> answers(count);
  std::vector<std::unique_ptr<runtime::Thread>> threads;
  for (size_t i = 0; i < count; ++i) {
    threads.push_back(
        runtime_.spawn(fmt::format("verify {}", i), [&, i] { answers[i] = body(i); }));
  }
  for (const std::unique_ptr<runtime::Thread>& thread : threads) thread->join();
  for (const Answer<void>& answer : answers) {
    if (!answer.has_value()) return answer;
  }
  return {};
}

}  // namespace dxgkit::tool::verify
