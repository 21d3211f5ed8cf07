// dxgkit status: what a broker serves.
#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/spelling.h"
#include "runtime/descriptors.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/serve/ask_status.h"
#include "tools/dxgkit/serve/listener.h"
#include "tools/dxgkit/serve/serve_options.h"
#include "wire/greeting.h"

namespace dxgkit::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr runtime::DurationNs kPatience = 5 * runtime::kSecond;
/// More is no status.
constexpr size_t kStatusBytesMost = size_t{16} << 20;

bool receive_all(runtime::Runtime& runtime, int socket, void* to, size_t bytes,
                 runtime::TimeNs deadline) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    iovec part{at, bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const ssize_t got = runtime::receive_message(runtime, socket, message, deadline);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

std::expected<Json, std::string> ask_status(runtime::Runtime& runtime, const std::string& path) {
  const auto socket = vfiouser::connect_to(path);
  if (!socket.has_value()) return std::unexpected(socket.error());
  const runtime::TimeNs deadline = runtime.now() + kPatience;
  const std::unexpected<std::string> refused(
      fmt::format("the server at {} does not answer; it may not allow this user", path));
  wire::Greeting hello;
  hello.ask = wire::Ask::kStatus;
  iovec part{&hello, sizeof hello};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (runtime::send_message(runtime, socket->get(), message, deadline) != ssize_t{sizeof hello})
    return refused;
  wire::Greeted welcome;
  if (!receive_all(runtime, socket->get(), &welcome, sizeof welcome, deadline)) return refused;
  if (welcome.magic != wire::kGreetingMagic || welcome.bytes > kStatusBytesMost)
    return std::unexpected(fmt::format("what listens at {} is no dxgkit serve", path));
  if (welcome.status != 0)
    return std::unexpected(fmt::format("refused by the server at {}: status 0x{:08X}", path,
                                       static_cast<uint32_t>(welcome.status)));
  std::string text(welcome.bytes, '\0');
  if (!receive_all(runtime, socket->get(), text.data(), text.size(), deadline)) return refused;
  Json status = Json::parse(text, nullptr, false);
  if (!status.is_object() || !status["adapters"].is_array() || !status["users"].is_array())
    return std::unexpected(fmt::format("what listens at {} is no dxgkit serve", path));
  return status;
}

namespace {

template <typename T>
T value_of(const Json& object, const char* name, T otherwise) {
  const auto found = object.find(name);
  if (found == object.end()) return otherwise;
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    return otherwise;
  }
}
uint64_t count_of(const Json& object, const char* name) {
  return value_of<uint64_t>(object, name, 0);
}

constexpr const char* kRates[] = {"requests", "packets", "bytes_in", "bytes_out"};

/// Puts rates per second into the second look at the same lives of adapters.
void add_rates(const Json& before, Json& after) {
  const uint64_t passed = count_of(after, "time_ms") - count_of(before, "time_ms");
  for (size_t i = 0; i < after["adapters"].size() && i < before["adapters"].size(); ++i) {
    Json& now = after["adapters"][i];
    const Json& then = before["adapters"][i];
    if (!now.contains("figures") || !then.contains("figures") || passed == 0 ||
        count_of(now, "luid") != count_of(then, "luid"))
      continue;
    for (const char* const name : kRates) {
      const uint64_t from = count_of(then["figures"], name), to = count_of(now["figures"], name);
      now["per_second"][name] = to < from ? 0 : (to - from) * 1000 / passed;
    }
  }
}

std::string text_of(const Json& status) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  std::string text;
  for (const Json& adapter : status["adapters"]) {
    text += fmt::format("{}: {}", value_of<std::string>(adapter, "name", "?"),
                        value_of<std::string>(adapter, "state", "?"));
    if (adapter.contains("memory_bytes"))
      text += fmt::format(", LUID {}, {} MiB", count_of(adapter, "luid"),
                          count_of(adapter, "memory_bytes") / kMiB);
    text += '\n';
    if (adapter.contains("figures")) {
      const Json& figures = adapter["figures"];
      text +=
          fmt::format("  {}, {}, {}{}\n", counted(count_of(adapter, "connections"), "connection"),
                      counted(count_of(figures, "processes"), "client process", "client processes"),
                      counted(count_of(figures, "handles"), "handle"),
                      value_of(adapter, "answers", true) ? "" : "; it does not answer now");
      if (adapter.contains("per_second")) {
        const Json& rates = adapter["per_second"];
        text += fmt::format("  per second: {}, {}, {} bytes in, {} bytes out\n",
                            counted(count_of(rates, "requests"), "call"),
                            counted(count_of(rates, "packets"), "packet"),
                            count_of(rates, "bytes_in"), count_of(rates, "bytes_out"));
      }
    }
    if (const uint64_t restarts = count_of(adapter, "restarts"); restarts != 0)
      text += fmt::format("  {}\n", counted(restarts, "restart"));
    if (!adapter.contains("reports")) continue;
    for (const Json& report : adapter["reports"])
      text += fmt::format(
          "  LUID {}: {}; {}\n", count_of(report, "luid"),
          value_of<std::string>(report, "end", "?"),
          counted(report.contains("findings") ? report["findings"].size() : 0, "finding"));
  }
  const Json limits = status.value("limits", Json::object());
  for (const Json& user : status["users"]) {
    text += fmt::format("user {}: {} of {}\n", count_of(user, "user"),
                        counted(count_of(user, "connections"), "connection"),
                        counted(count_of(user, "processes"), "process", "processes"));
    text += fmt::format(
        "  in one adapter at most: handles {} of {}, MiB {} of {}, submissions {} of {}; {} "
        "refused\n",
        count_of(user, "handles"), count_of(limits, "handles"),
        (count_of(user, "memory_bytes") + kMiB - 1) / kMiB, count_of(limits, "memory_bytes") / kMiB,
        count_of(user, "submissions"), count_of(limits, "submissions"),
        counted(count_of(user, "refused_calls"), "call"));
  }
  if (const uint64_t refused = count_of(status, "refused"); refused != 0)
    text += fmt::format("{} refused\n", counted(refused, "connection"));
  return text;
}

std::expected<Json, std::string> look(runtime::Runtime& runtime, const StatusOptions& options) {
  const auto path = serve::socket_path(options.socket);
  if (!path.has_value()) return std::unexpected(path.error());
  auto status = ask_status(runtime, *path);
  if (!status.has_value() || options.interval_ms == 0) return status;
  runtime.sleep_for(options.interval_ms * runtime::kMillisecond);
  auto later = ask_status(runtime, *path);
  if (later.has_value()) add_rates(*status, *later);
  return later;
}

}  // namespace

int status_command(const StatusOptions& options) {
  const auto runtime = runtime::make_os_runtime(1);
  std::expected<Json, std::string> status;
  runtime->run_main([&] { status = look(*runtime, options); });
  if (!status.has_value()) return bad_input(status.error());
  if (!write_output(options.reports.json, status->dump(2) + "\n")) return kExitNotWritten;
  if (options.reports.json != kToStdout) say(stdout, "{}", text_of(*status));
  return kExitDone;
}

}  // namespace dxgkit::tool
