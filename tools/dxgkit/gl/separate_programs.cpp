#include "tools/dxgkit/gl/separate_programs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/spelling.h"
#include "runtime/interrupt.h"
#include "tools/dxgkit/gl/process_conversation.h"
#include "tools/dxgkit/gl/program.h"
#include "tools/dxgkit/gl/program_text.h"
#include "tools/dxgkit/gl/server.h"
#include "tools/dxgkit/processes/kernel_process.h"
#include "tools/dxgkit/run_client.h"
#include "tools/dxgkit/waivers.h"

namespace dxgkit::tool {
namespace {

struct SeparateOutcome {
  std::optional<int> program_code;  // none: it was not started, for the reason `message`
  std::string message;
  std::vector<gl::ProgramRecord> programs;
  KernelProcessFigures figures;
  KernelProcessEnd kernel;
};

void run_program(runtime::Runtime& runtime, const GlOptions& options, KernelProcess& kernel,
                 SeparateOutcome& outcome) {
  const std::string connection = library_folder() + "/gl_connection";
  auto check = gl::SessionProcess::start(connection, kernel.socket(), -1);
  if (!check.has_value()) {
    outcome.message = check.error();
    return;
  }
  outcome.message = check->wait(runtime).wrong;
  if (!outcome.message.empty()) return;
  auto listener = vfiouser::listen_at(options.socket);
  if (!listener.has_value()) {
    outcome.message = listener.error();
    return;
  }
  gl::Server server(
      runtime, std::move(*listener),
      [&](vfiouser::Descriptor socket) {
        return std::make_unique<gl::ProcessConversation>(runtime, std::move(socket), connection,
                                                         kernel.socket());
      },
      [](const std::string& line) { say(stderr, "dxgkit gl: {}\n", line); });
  const char* const display = std::getenv("DISPLAY");
  auto program = gl::Program::start(
      options.command, gl::gl_environment(options.socket, display != nullptr && *display != 0));
  if (program.has_value()) {
    outcome.program_code = program->wait(runtime, runtime::interrupt_fd());
  } else {
    outcome.message = program.error();
  }
  unlink(options.socket.c_str());
  outcome.programs = server.stop();
}

std::string result_of(const SeparateOutcome& outcome) {
  if (!outcome.program_code.has_value()) return outcome.message;
  std::string text = fmt::format("exit code {}", *outcome.program_code);
  if (!outcome.kernel.how.empty()) text += "; the kernel's process: " + outcome.kernel.how;
  return text;
}

nlohmann::ordered_json json_of(const GlOptions& options, const std::string& driver_name,
                               const DeviceChoice& device, const SeparateOutcome& outcome) {
  nlohmann::ordered_json json;
  json["driver"] = driver_name;
  json["device"] = device.text;
  json["clients"] = "processes";
  json["command"] = options.command;
  json["exit_code"] = nullptr;
  if (outcome.program_code.has_value()) json["exit_code"] = *outcome.program_code;
  json["result"] = result_of(outcome);
  json["programs"] = gl::programs_json(outcome.programs);
  json["requests"] = outcome.figures.requests;
  json["bytes_in"] = outcome.figures.bytes_in;
  json["bytes_out"] = outcome.figures.bytes_out;
  json["packets_completed"] = outcome.figures.packets;
  json["findings"] = outcome.kernel.findings;
  return json;
}

}  // namespace

std::string gl_only_with_threads(const GlOptions& options) {
  const std::pair<bool, const char*> rows[] = {
      {options.trace.has_value(), "--trace"},
      {options.report.has_value(), "--report"},
      {options.registry.has_value(), "--registry"},
      {options.hang_packet.has_value(), "--hang"},
      {options.trace_imports, "--trace-imports"},
      {options.in_process, "--in-process"},
      {!options.waivers.options.empty(), "--waive"},
      {options.machine.processors != 1, "--processors"},
  };
  for (const auto& [given, name] : rows) {
    if (given) return name;
  }
  return {};
}

int run_gl_separately(const GlOptions& options, const std::string& driver_path,
                      const DeviceChoice& device, uint64_t memory_bytes,
                      const std::string& registry) {
  SeparateOutcome outcome;
  std::string text = device.text;
  if (options.vram_bytes.has_value()) text += fmt::format(",vram={}", *options.vram_bytes);
  const auto runtime = runtime::make_os_runtime(1);
  runtime->run_main([&] {
    std::error_code error;
    auto kernel = KernelProcess::start(
        *runtime, {.driver_path = std::filesystem::absolute(driver_path, error).string(),
                   .device = text,
                   .memory_bytes = memory_bytes,
                   .registry = registry,
                   .special_pool = options.special_pool});
    if (!kernel.has_value()) {
      outcome.message = kernel.error();
      return;
    }
    run_program(*runtime, options, **kernel, outcome);
    outcome.figures = (*kernel)->figures();
    outcome.kernel = (*kernel)->end();
  });
  for (const std::string& finding : outcome.kernel.findings) say(stderr, "{}\n", finding);
  const std::string driver_name = std::filesystem::path(options.driver).filename().string();
  if (!outcome.program_code.has_value()) {
    if (outcome.kernel.how.empty())
      return bad_input(fmt::format("{}: {}", driver_name, outcome.message));
    say(stderr, "dxgkit: {}\n", outcome.message);
  }
  if (!outcome.kernel.how.empty())
    say(stderr, "dxgkit: the kernel's process: {}\n", outcome.kernel.how);
  gl::Rows rows = gl::program_rows(outcome.programs);
  rows.emplace_back(
      "between the processes",
      fmt::format("{}, bytes: {}, of answers: {}", counted(outcome.figures.requests, "call"),
                  outcome.figures.bytes_in, outcome.figures.bytes_out));
  rows.emplace_back("packets", fmt::format("{} completed", outcome.figures.packets));
  for (const auto& [name, value] : rows) say(stderr, "dxgkit gl: {}: {}\n", name, value);

  const bool broken = std::ranges::any_of(outcome.kernel.findings, told_as_mistake);
  int code = outcome.program_code.value_or(kExitFailed);
  if (code == 0 && (broken || !outcome.kernel.how.empty())) code = kExitFailed;
  if (runtime::interrupted()) code = kExitInterrupted;
  if (options.frame.has_value()) {
    const int frame = gl::write_frame(*options.frame, outcome.programs);
    if (frame != kExitDone) code = frame;
  }
  const std::string json = json_of(options, driver_name, device, outcome)
                               .dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  if (!write_output(options.reports.json, json + "\n")) code = kExitNotWritten;
  return code;
}

}  // namespace dxgkit::tool
