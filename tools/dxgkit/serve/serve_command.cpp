// dxgkit serve: a broker, and a process for each adapter.
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/spelling.h"
#include "dxcore/stack_file.h"
#include "runtime/interrupt.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/serve/jail.h"
#include "tools/dxgkit/serve/listener.h"
#include "tools/dxgkit/serve/process_world.h"
#include "tools/dxgkit/serve/serve_options.h"

namespace dxgkit::tool {
namespace {

/// Of one recording at most.
constexpr uint64_t kRecordingBytes = uint64_t{1} << 30;
/// How long an adapter may take to stop.
constexpr runtime::DurationNs kEndPatience = 10 * runtime::kSecond;

std::optional<uint32_t> number_of(const std::string& text) {
  uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

/// Ids of users or groups. The error names the first that does not exist.
template <typename Find>
std::expected<std::vector<uint32_t>, std::string> ids_of(const std::vector<std::string>& names,
                                                         const char* option, Find find) {
  std::vector<uint32_t> ids;
  for (const std::string& name : names) {
    std::optional<uint32_t> id = number_of(name);
    if (!id.has_value()) id = find(name.c_str());
    if (!id.has_value()) return std::unexpected(fmt::format("{} {}: unknown", option, name));
    ids.push_back(*id);
  }
  return ids;
}

std::expected<serve::BrokerOptions, std::string> broker_options(const ServeOptions& options) {
  serve::BrokerOptions wanted;
  auto users = ids_of(options.users, "--allow-user", [](const char* name) {
    const passwd* const found = getpwnam(name);
    return found == nullptr ? std::nullopt : std::optional<uint32_t>(found->pw_uid);
  });
  if (!users.has_value()) return std::unexpected(users.error());
  auto groups = ids_of(options.groups, "--allow-group", [](const char* name) {
    const group* const found = getgrnam(name);
    return found == nullptr ? std::nullopt : std::optional<uint32_t>(found->gr_gid);
  });
  if (!groups.has_value()) return std::unexpected(groups.error());
  wanted.users = std::move(*users);
  wanted.users.insert(wanted.users.begin(), {geteuid(), 0});
  wanted.groups = std::move(*groups);
  wanted.connections_most = options.connections_most;
  wanted.processes_most = options.processes_most;
  wanted.limits = {.handles = options.handles_most,
                   .memory_bytes = options.user_memory_most,
                   .submissions = options.submissions_most};
  wanted.recordings = options.recordings;
  wanted.restarts_most = options.restarts;
  wanted.restarts_within_ns = options.restart_seconds * runtime::kSecond;
  return wanted;
}

/// The names of the adapters: their devices.
std::expected<std::vector<std::string>, std::string> adapters_of(const std::string& stack) {
  const auto file = dxcore::read_stack_file(stack);
  if (!file.has_value()) return std::unexpected(file.error());
  std::vector<std::string> names;
  for (const std::string& text : file->options.devices) {
    const auto device = parse_device(text);
    if (!device.has_value()) return std::unexpected(device.error());
    if (text.starts_with("vfio:"))
      return std::unexpected(
          fmt::format("{}: a device of this computer needs calls that the jail "
                      "of an adapter process does not have",
                      text));
    names.push_back(fmt::format("adapter {} ({})", names.size() + 1, text));
  }
  if (names.size() > serve::Broker::kAdaptersMost)
    return std::unexpected(fmt::format("{}: at most {} are served", stack,
                                       counted(serve::Broker::kAdaptersMost, "adapter")));
  return names;
}

std::expected<serve::Listener, std::string> listener_for(const std::string& socket) {
  auto passed = serve::Listener::passed();
  if (!passed.has_value()) return std::unexpected(passed.error());
  if (passed->has_value()) return std::move(**passed);
  const auto path = serve::socket_path(socket);
  if (!path.has_value()) return std::unexpected(path.error());
  return serve::Listener::at(*path);
}

int serve_all(runtime::Runtime& runtime, serve::Broker& broker) {
  broker.start();
  while (!runtime::interrupted() && broker.alive() > 0) broker.step(runtime::interrupt_fd());
  const bool is_left = broker.alive() > 0;
  broker.end(kEndPatience);
  static_cast<void>(runtime);
  if (is_left) return kExitDone;
  say(stderr, "dxgkit: no adapter is left\n");
  return kExitFailed;
}

}  // namespace

int serve_command(const ServeOptions& options) {
  if (options.list_system_calls) {
    say(stdout, "{}", serve::system_call_table());
    return kExitDone;
  }
  if (options.stack.empty()) return bad_input("serve needs --stack FILE");
  runtime::catch_interrupts();
  auto wanted = broker_options(options);
  if (!wanted.has_value()) return bad_input(wanted.error());
  auto adapters = adapters_of(options.stack);
  if (!adapters.has_value()) return bad_input(adapters.error());
  for (const auto& [option, folder] :
       {std::pair("--record", options.recordings), std::pair("--trace", options.traces)}) {
    if (folder.empty()) continue;
    std::error_code made;
    std::filesystem::create_directories(folder, made);
    if (!std::filesystem::is_directory(folder, made) || access(folder.c_str(), W_OK | X_OK) != 0)
      return bad_input(fmt::format("{} {}: no files can be made there", option, folder));
  }
  auto listener = listener_for(options.socket);
  if (!listener.has_value()) return bad_input(listener.error());

  std::error_code error;
  const std::string stack = std::filesystem::absolute(options.stack, error).string();
  const std::string traces = std::filesystem::absolute(options.traces, error).string();
  serve::ProcessWorld world([&](size_t adapter, uint32_t luid) {
    std::vector<std::string> words{
        "serve-adapter",
        "--stack",
        stack,
        "--device-index",
        std::to_string(adapter),
        "--luid",
        std::to_string(luid),
        "--memory",
        std::to_string(options.memory_bytes),
        "--max-handles",
        std::to_string(options.handles_most),
        "--max-memory",
        std::to_string(options.user_memory_most),
        "--max-submissions",
        std::to_string(options.submissions_most),
        "--recording-bytes",
        std::to_string(options.recordings.empty() ? 0 : kRecordingBytes)};
    if (!options.traces.empty()) {
      words.emplace_back("--trace");
      words.push_back(fmt::format("{}/adapter-{}-luid-{}.txt", traces, adapter + 1, luid));
    }
    return words;
  });
  world.say(
      fmt::format("serving {} at {}", counted(adapters->size(), "adapter"), listener->path()));
  const auto runtime = runtime::make_os_runtime(1);
  int code = kExitDone;
  runtime->run_main([&] {
    serve::Broker broker(*runtime, listener->fd(), world, std::move(*adapters), *wanted);
    code = serve_all(*runtime, broker);
  });
  return code;
}

}  // namespace dxgkit::tool
