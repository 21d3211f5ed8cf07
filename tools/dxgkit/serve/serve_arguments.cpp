// The options of `serve`, `status` and `serve-adapter`.
#include "tools/dxgkit/command_line.h"
#include "tools/dxgkit/serve/serve_options.h"

namespace dxgkit::tool {

namespace {

/// An option that takes a number of bytes ("64M").
CLI::Option* add_bytes(CLI::App* command, const std::string& name, uint64_t* bytes,
                       const std::string& text) {
  return command
      ->add_option(name, CLI::callback_t([bytes](const CLI::results_t& texts) {
                     const auto read = parse_bytes(texts.back());
                     if (!read.has_value()) throw CLI::ValidationError(read.error());
                     *bytes = *read;
                     return true;
                   }),
                   text)
      ->expected(1)
      ->type_name("BYTES");
}

}  // namespace

void add_serve(CLI::App& app, ServeOptions& options, serve::AdapterProcessOptions& adapter,
               StatusOptions& status) {
  CLI::App* const command = app.add_subcommand(
      "serve", "adapters for client processes, each adapter in a process of its own, in a jail");
  command->add_option("--stack", options.stack, "a file that says which driver and devices")
      ->type_name("FILE");
  command
      ->add_option("--socket", options.socket,
                   "where to listen ($XDG_RUNTIME_DIR/dxgkit.sock; with LISTEN_FDS: the socket "
                   "that is passed)")
      ->type_name("PATH");
  command->add_option("--allow-user", options.users,
                      "a user who may connect, beside this one and root; may be repeated");
  command->add_option("--allow-group", options.groups,
                      "a group whose members may connect; may be repeated");
  command->add_option("--max-connections", options.connections_most, "of one user")
      ->check(CLI::Range(1U, 100'000U))
      ->capture_default_str();
  command->add_option("--max-processes", options.processes_most, "client processes of one user")
      ->check(CLI::Range(1U, 100'000U))
      ->capture_default_str();
  command->add_option("--max-handles", options.handles_most, "of one user in one adapter")
      ->check(CLI::Range(1U, 1U << 30))
      ->capture_default_str();
  add_bytes(command, "--max-memory", &options.user_memory_most,
            "system memory of one user in one adapter (1G)");
  command
      ->add_option("--max-submissions", options.submissions_most,
                   "packets of one user in one adapter that have not completed")
      ->check(CLI::Range(1U, 1U << 30))
      ->capture_default_str();
  add_bytes(command, "--memory", &options.memory_bytes,
            "private memory of an adapter process, beside the memory of its machine and its "
            "device (4G)");
  command
      ->add_option("--record", options.recordings,
                   "keep the calls of each client process: a file for each of its adapters, named "
                   "by process and LUID")
      ->type_name("FOLDER");
  command
      ->add_option("--trace", options.traces,
                   "what each adapter process did, for `dxgkit view`: a file for each, named by "
                   "device and LUID, written when the process ends")
      ->type_name("FOLDER");
  command
      ->add_option("--restarts", options.restarts,
                   "how often an adapter is started again within --restart-time")
      ->check(CLI::Range(0U, 1000U))
      ->capture_default_str();
  command->add_option("--restart-time", options.restart_seconds, "in seconds")
      ->check(CLI::Range(1U, 86'400U))
      ->capture_default_str();
  command->add_flag("--list-system-calls", options.list_system_calls,
                    "print the system calls that an adapter process has, and why");

  CLI::App* const inner = app.add_subcommand("serve-adapter", "an adapter process of `serve`");
  inner->group("");  // the broker's business
  inner->add_option("--stack", adapter.stack)->required();
  inner->add_option("--device-index", adapter.device);
  inner->add_option("--luid", adapter.luid);
  inner->add_option("--memory", adapter.data_bytes);
  inner->add_option("--max-handles", adapter.handles_most);
  inner->add_option("--max-memory", adapter.user_memory_most);
  inner->add_option("--max-submissions", adapter.submissions_most);
  inner->add_option("--recording-bytes", adapter.recording_bytes_most);
  inner->add_option("--trace", adapter.trace);
  inner->add_flag("--try-jail", adapter.tries_the_jail);

  CLI::App* const look = app.add_subcommand(
      "status", "what a `dxgkit serve` serves: adapters, clients, memory, restarts, rates");
  look->add_option("--socket", status.socket, "where it listens ($XDG_RUNTIME_DIR/dxgkit.sock)")
      ->type_name("PATH");
  look->add_option("--interval", status.interval_ms,
                   "ms between the two looks that rates are made of; 0: one look, no rates")
      ->check(CLI::Range(0U, 60'000U))
      ->capture_default_str();
  add_reports(look, status.reports, "the status as JSON");
}

}  // namespace dxgkit::tool
