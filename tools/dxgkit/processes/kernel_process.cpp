#include "tools/dxgkit/processes/kernel_process.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tools/dxgkit/kernel_config.h"
#include "tools/dxgkit/serve/ask_status.h"

namespace dxgkit::tool {
namespace {

constexpr runtime::DurationNs kServerPatience = 10 * runtime::kSecond;

/// A text of TOML; JSON's escapes are some of TOML's.
std::string toml_text(const std::string& text) { return nlohmann::json(text).dump(); }

std::string stack_of(const KernelProcessConfig& config, const std::string& registry) {
  std::string text =
      fmt::format("driver = {}\ndevices = [{}]\nmemory = \"{}\"\ntdr_delay_ms = {}\n",
                  toml_text(config.driver_path), toml_text(config.device), config.memory_bytes,
                  kBusyMachineTdrDelayNs / runtime::kMillisecond);
  if (config.reference_checks) text += "reference_checks = true\n";
  if (config.special_pool) text += "special_pool = true\n";
  if (!registry.empty()) text += fmt::format("registry = {}\n", toml_text(registry));
  return text;
}

serve::BrokerOptions broker_options() {
  serve::BrokerOptions wanted;
  wanted.users = {geteuid()};
  wanted.restarts_most = 0;  // what the clients had in it is gone
  return wanted;
}

}  // namespace

std::expected<std::unique_ptr<KernelProcess>, std::string> KernelProcess::start(
    runtime::Runtime& runtime, const KernelProcessConfig& config) {
  std::unique_ptr<KernelProcess> kernel(new KernelProcess(runtime));
  std::string registry;
  if (!config.registry.empty()) registry = kernel->folder_.write("registry.json", config.registry);
  const std::string stack = kernel->folder_.write("stack.toml", stack_of(config, registry));
  if (stack.empty() || (registry.empty() && !config.registry.empty()))
    return std::unexpected("the server's files cannot be written");
  auto listener = serve::Listener::at(kernel->folder_.path() + "/s");
  if (!listener.has_value()) return std::unexpected(listener.error());
  kernel->listener_.emplace(std::move(*listener));
  kernel->wake_ = vfiouser::Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!kernel->wake_) return std::unexpected("there is no descriptor left for the server");
  kernel->serve(stack);
  return kernel;
}

void KernelProcess::serve(const std::string& stack) {
  world_.emplace(
      [stack](size_t, uint32_t luid) {
        return std::vector<std::string>{"serve-adapter", "--stack", stack, "--luid",
                                        std::to_string(luid)};
      },
      [](const std::string&) {});
  broker_.emplace(runtime_, listener_->fd(), *world_, std::vector<std::string>{"adapter 1"},
                  broker_options());
  thread_ = runtime_.spawn("broker", [this] {
    // Its processes end with the thread that starts them.
    broker_->start();
    while (!is_over_.load()) broker_->step(wake_.get());
    broker_->end(kServerPatience);
  });
}

KernelProcessFigures KernelProcess::figures() {
  KernelProcessFigures figures;
  const auto status = ask_status(runtime_, socket());
  if (!status.has_value()) return figures;
  const auto told = (*status)["adapters"][0].value("figures", nlohmann::ordered_json::object());
  figures.requests = told.value("requests", uint64_t{0});
  figures.bytes_in = told.value("bytes_in", uint64_t{0});
  figures.bytes_out = told.value("bytes_out", uint64_t{0});
  figures.packets = told.value("packets", uint64_t{0});
  return figures;
}

KernelProcessEnd KernelProcess::end() {
  KernelProcessEnd outcome;
  if (thread_ == nullptr || is_over_.exchange(true)) return outcome;
  const uint64_t one = 1;
  static_cast<void>(!write(wake_.get(), &one, sizeof one));
  thread_->join();
  const std::deque<serve::AdapterReport>& reports = broker_->reports(0);
  if (reports.empty()) return outcome;
  outcome.findings = reports.front().findings;
  if (reports.front().how != "it ended with exit code 0") outcome.how = reports.front().how;
  return outcome;
}

}  // namespace dxgkit::tool
