#include "tools/dxgkit/run_client.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <expected>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/companion_file.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/private_mount.h"
#include "tools/dxgkit/run_folder.h"

namespace dxgkit::tool {

std::string library_folder() {
  std::error_code error;
  const std::filesystem::path library =
      find_companion({"libdxcore.so", DXGKIT_CLIENTS_FROM_TOOL, {DXGKIT_BUILT_DXCORE}});
  return std::filesystem::weakly_canonical(library.parent_path(), error).string();
}

namespace {

/// Where some clients look for the library, whatever the environment says.
constexpr const char* kWslFolder = "/usr/lib/wsl/lib";

/// A text of TOML; JSON's escapes are some of TOML's.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string absolute_path(const std::string& path) {
  std::error_code error;
  return std::filesystem::absolute(path, error).string();
}

std::expected<std::string, std::string> stack_text(const RunClientOptions& options) {
  const auto driver = find_loadable_driver(options.driver);
  if (!driver.has_value()) return std::unexpected(driver.error());
  std::string text = fmt::format("driver = {}\n", quoted(absolute_path(*driver)));
  if (!options.devices.empty()) {
    text += "devices = [";
    for (const std::string& device : options.devices) {
      const size_t end = device.find(',');
      const bool is_path = device.substr(0, end).ends_with(".so");
      text += quoted(is_path ? absolute_path(device) : device) + ", ";
    }
    text += "]\n";
  }
  if (!options.registry.empty())
    text += fmt::format("registry = {}\n", quoted(absolute_path(options.registry)));
  if (!options.findings.empty())
    text += fmt::format("findings = {}\n", quoted(absolute_path(options.findings)));
  return text;
}

/// In the child: becomes the program. Returns if it cannot.
[[noreturn]] void become(const RunClientOptions& options, const RunFolder& run) {
  if (options.wsl_path) {
    const auto mounted = mount_privately(library_folder(), kWslFolder, run.make_folder("mount"));
    if (!mounted.has_value()) {
      bad_input(fmt::format("--wsl-path: the system refuses {}", mounted.error()));
      _exit(kExitBadInput);
    }
  }
  std::vector<char*> words;
  for (const std::string& word : options.program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  bad_input(fmt::format("{}: {}", words[0], std::strerror(errno)));
  _exit(kExitBadInput);
}

int run_program(const RunClientOptions& options, const RunFolder& run, const std::string& stack) {
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  const std::string folder = library_folder();
  setenv("LD_LIBRARY_PATH",
         before == nullptr || *before == '\0' ? folder.c_str()
                                              : fmt::format("{}:{}", folder, before).c_str(),
         1);
  if (options.dev_dxg) setenv("LD_PRELOAD", (folder + "/libdxg-shim.so").c_str(), 1);
  setenv("DXGKIT_STACK", stack.c_str(), 1);
  if (!options.recording.empty()) setenv("DXGKIT_RECORD", options.recording.c_str(), 1);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return bad_input(fmt::format("a process: {}", std::strerror(errno)));
  if (child == 0) become(options, run);
  // Ctrl-C is for the program; the tool outlives it to take its folder away.
  std::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

void add_run_client(CLI::App& app, RunClientOptions& options) {
  CLI::App* const command = app.add_subcommand(
      "run-client", "run a program that loads libdxcore.so, with a kernel and a driver inside it");
  add_run_client_options(command, options);
  command->footer("-- PROGRAM [ARGUMENT...] comes last");
}

void add_run_client_options(CLI::App* command, RunClientOptions& options) {
  auto* const stack = command->add_option(
      "--stack", options.stack, "a file that says which driver and devices (docs/clients.md)");
  stack->type_name("FILE");
  options.driver = kBuiltInDriver;
  for (CLI::Option* option :
       {command
            ->add_option("--driver", options.driver,
                         "a .sys file, its ELF twin, or softgpu, softgpu_wddm2")
            ->type_name("FILE")
            ->capture_default_str(),
        command->add_option("--device", options.devices, "a device of the machine; may be repeated")
            ->type_name("NAME[,OPTION=VALUE...]"),
        command
            ->add_option("--registry", options.registry, "what the driver reads (docs/registry.md)")
            ->type_name("FILE"),
        command
            ->add_option("--findings", options.findings,
                         "where findings go; without it, standard error")
            ->type_name("FILE")})
    option->excludes(stack);
  command->add_flag("--dev-dxg", options.dev_dxg,
                    "the program may open /dev/dxg, the device of Linux' own driver");
  command->add_flag("--wsl-path", options.wsl_path,
                    "the library is also at /usr/lib/wsl/lib, for this program alone");
}

int run_client_command(const RunClientOptions& options) {
  if (options.program.empty()) return bad_input("run-client needs a program: -- PROGRAM");
  const RunFolder run;
  if (!options.stack.empty()) return run_program(options, run, absolute_path(options.stack));
  const auto text = stack_text(options);
  if (!text.has_value()) return bad_input(text.error());
  const std::string stack = run.write("stack.toml", *text);
  if (stack.empty()) return bad_input("there is no place for the stack file");
  return run_program(options, run, stack);
}

}  // namespace dxgkit::tool
