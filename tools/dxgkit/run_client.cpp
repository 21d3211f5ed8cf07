#include "tools/dxgkit/run_client.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <expected>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"

namespace dxgkit::tool {
namespace {

/// The folder of libdxcore.so: where an installed tool has it, or where the build left it.
std::string library_folder() {
  std::error_code error;
  const auto tool = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = tool.parent_path() / DXGKIT_CLIENTS_FROM_TOOL;
  return std::filesystem::exists(installed / "libdxcore.so", error)
             ? std::filesystem::weakly_canonical(installed, error).string()
             : DXGKIT_BUILT_CLIENTS;
}

/// A text of TOML; JSON's escapes are some of TOML's.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string absolute(const std::string& path) {
  std::error_code error;
  return std::filesystem::absolute(path, error).string();
}

std::expected<std::string, std::string> stack_text(const RunClientOptions& options) {
  const auto driver = find_loadable_driver(options.driver);
  if (!driver.has_value()) return std::unexpected(driver.error());
  std::string text = fmt::format("driver = {}\n", quoted(absolute(*driver)));
  if (!options.devices.empty()) {
    text += "devices = [";
    for (const std::string& device : options.devices) {
      const size_t end = device.find(',');
      const bool is_path = device.substr(0, end).ends_with(".so");
      text += quoted(is_path ? absolute(device) : device) + ", ";
    }
    text += "]\n";
  }
  if (!options.registry.empty())
    text += fmt::format("registry = {}\n", quoted(absolute(options.registry)));
  if (!options.findings.empty())
    text += fmt::format("findings = {}\n", quoted(absolute(options.findings)));
  return text;
}

/// The stack file of one run, which goes with it.
class StackFolder {
 public:
  explicit StackFolder(const std::string& text) {
    std::string pattern = std::filesystem::temp_directory_path() / "dxgkit-client-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) return;
    folder_ = pattern;
    std::ofstream file(path());
    written_ = static_cast<bool>(file << text << std::flush);
  }
  ~StackFolder() {
    std::error_code error;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
  }
  StackFolder(const StackFolder&) = delete;
  StackFolder& operator=(const StackFolder&) = delete;
  std::string path() const { return folder_ + "/stack.toml"; }
  bool written() const { return written_; }

 private:
  std::string folder_;
  bool written_ = false;
};

int run_program(const std::vector<std::string>& program, const std::string& stack) {
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  const std::string folder = library_folder();
  setenv("LD_LIBRARY_PATH",
         before == nullptr || *before == '\0' ? folder.c_str()
                                              : fmt::format("{}:{}", folder, before).c_str(),
         1);
  setenv("DXGKIT_STACK", stack.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  if (const int error = posix_spawnp(&child, words[0], nullptr, nullptr, words.data(), environ);
      error != 0)
    return bad_input(fmt::format("{}: {}", program[0], std::strerror(error)));
  // Ctrl-C is for the program; the tool outlives it to take the stack file away.
  std::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

void add_run_client(CLI::App& app, RunClientOptions& options) {
  CLI::App* command = app.add_subcommand(
      "run-client", "run a program that loads libdxcore.so, with a kernel and a driver inside it");
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
  command->add_option("PROGRAM", options.program, "after --: the program and its arguments")
      ->required();
}

int run_client_command(const RunClientOptions& options) {
  if (!options.stack.empty()) return run_program(options.program, absolute(options.stack));
  const auto text = stack_text(options);
  if (!text.has_value()) return bad_input(text.error());
  const StackFolder folder(*text);
  if (!folder.written()) return bad_input("there is no place for the stack file");
  return run_program(options.program, folder.path());
}

}  // namespace dxgkit::tool
